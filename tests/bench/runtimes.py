#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark of managed runtimes: Go, CPython, PHP.

    tests/bench/runtimes.py [--build build] [--parts go,many,delve,python,asyncio,php,record,native] [--quick]

go      10,000 goroutines with 5 labels each, and without, of the machine's go (and of --go): pause, wall time
many    100,000 goroutines, with and without labels, with higher limits: pause; PSS of all our processes
delve   Debian's delve on the same 10,000, which lists them with stacks and labels: wall time and pause by ours
python  10 threads, one of them 100 deep: what --runtimes auto adds to the pause of none
asyncio 1,000 tasks, in each Python that there is: pause
php     30 calls deep: what --runtimes auto adds to the pause of none
record  a Python program at 99 Hz that spends 70, 20 and 10 % of its time in three functions
native  programs without a runtime, of 1 and 1,000 threads: auto by none

What is compared runs in turn (A B A B …). "pause" is the longest gap that a thread of the program saw, not
resolved below 0.4 ms; "own stop" is what the report says. Ends with the figures to reach; a run of all parts
writes them to doc/FIGURES.md (see figures.py). Nothing here is a test: no time decides a result."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import figures
import record
import run as oneshot

RUNTIME = os.path.join(oneshot.SOURCE, "tests", "runtime")
UNITS = {"s": 1e3, "ms": 1, "µs": 1e-3, "us": 1e-3}
WIDE = ["--runtime-budget", "5000", "--runtime-memory", "1G", "--stop-timeout", "10000"]
POLL_SECONDS = 0.01
IDLE_TICKS = 8  # that the heartbeat may take in half a second

THREADS = """
import threading, time
def f(n):
    if n: return f(n - 1)
    time.sleep(3600)
for i in range(9): threading.Thread(target=f, args=(100 if i == 0 else 10,), daemon=True).start()
time.sleep(3600)
"""
TASKS = """
import asyncio
async def sleeper(): await asyncio.sleep(3600)
async def deep(n): await (deep(n - 1) if n else sleeper())
async def main(): await asyncio.gather(*(deep(2) for _ in range(1000)))
asyncio.run(main())
"""
SHARES = """
import time
def spend(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end: pass
def seventy(): spend(0.07)
def twenty(): spend(0.02)
def ten(): spend(0.01)
while True: seventy(); twenty(); ten()
"""
PHP = "<?php function deep($n) { if ($n) deep($n - 1); else sleep(3600); } deep(29);"


def fetched(script, *arguments):
    """What a script of tests/runtime prints; None, with a line, where there is nothing."""
    done = subprocess.run([os.path.join(RUNTIME, script), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"\n{arguments[0]}: left out: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode == 0 else None


class RuntimesBench(record.RecordBench):
    # one run

    def once(self, label, command):
        run = super().once(label, command)
        if label == "delve" and run["rc"] == 2:
            run["rc"] = 0  # asked whether the process is to be killed, it heard nothing, and let it go
        if "own_ms" in run:
            with open(self.out, errors="replace") as f:
                found = re.search(r"stopped ([\d.]+) (s|ms|µs|us)\b", f.readline())
            run["own_ms"] = float(found[1]) * UNITS[found[2]] if found else None
        return run

    def in_turn(self, target, tools, repetitions):
        for repetition in range(repetitions):
            names = list(tools)
            for label in names if repetition % 2 == 0 else names[::-1]:
                self.rows.setdefault((target, label), []).append(self.once(label, tools[label]))

    def measured(self, target, argv, tools_of, repetitions, environment=None):
        """Starts a target and runs the tools on it, which are made of its pid; a table."""
        process, pid = self.start(argv, environment or self.preload())
        if not pid:
            print(f"\n{target}: left out, it did not get ready")
            return
        try:
            self.until_idle(pid)
            tools = tools_of(pid)
            self.in_turn(target, {"(none)": ["-"], **tools}, repetitions)
            self.table(target, len(os.listdir(f"/proc/{pid}/task")), {"(none)": ["-"], **tools})
        finally:
            self.end(process)

    @staticmethod
    def until_idle(pid):
        """The heartbeat begins before the program does: until that has made its threads and tasks, and waits."""
        before = None
        for _ in range(200):
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                now = sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13])
            if before is not None and now - before < IDLE_TICKS:
                return
            before = now
            time.sleep(0.5)

    def preload(self, comm=None):
        return dict(os.environ, LD_PRELOAD=os.path.join(self.bin, "hbpreload.so"), HB_FILE=self.heartbeat,
                    **({"HB_COMM": comm} if comm else {}))

    def none_and_auto(self, pid):
        ours = [self.tool, "-p", str(pid)]
        return {"stacksnap --runtimes none": [*ours, "--runtimes", "none"], "stacksnap": ours}

    def added(self, target, key="own_ms"):
        """What runtimes add to a figure: the median of differences between neighbours."""
        pairs = zip(self.rows.get((target, "stacksnap --runtimes none"), []), self.rows.get((target, "stacksnap"), []))
        values = [b[key] - a[key] for a, b in pairs if a.get(key) is not None and b.get(key) is not None]
        return statistics.median(values) if values else None

    def reps(self, usual):
        return 3 if self.options.quick else usual

    # Go

    def goroutines(self, go="go"):
        """The program, by the machine's go or another."""
        version = subprocess.run([go, "version"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
        source, program = os.path.join(oneshot.HERE, "goroutines.go"), os.path.join(self.bin, f"goroutines-{version[2]}")
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            subprocess.run([go, "build", "-o", program, source], check=True,
                           env=dict(os.environ, CGO_ENABLED="1", GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS=""))
        return program, version[2].removeprefix("go")

    def goes(self):
        """Programs and versions; the first one is the one that figures are of."""
        found = [go for go in ["go", *self.options.go] if shutil.which(go)]
        if not found:
            print("\nGo: left out, it is not installed")
        return [self.goroutines(go) for go in found]

    def whole(self, pid, *options):
        """Says whether the report has all goroutines, and what was copied for them."""
        done = subprocess.run([self.tool, "--json", "-p", str(pid), *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False)
        for runtime in json.loads(done.stdout)["processes"][0].get("runtimes", ()):
            print(f"\n{runtime['name']} {runtime['version']}: {runtime.get('shown', 0):,} of {runtime.get('tasks', 0):,} tasks, "
                  f"{runtime.get('memory_bytes', 0) / 1e6:.1f} MB copied in {runtime.get('plan_ns', 0) / 1e6:.1f} ms"
                  + (f", cut: {runtime['cut']}" if "cut" in runtime else ""))

    def go(self):
        for number, (program, version) in enumerate(self.goes()):
            for labels, key in ((5, "go-labels"), (0, "go-plain")):
                target = f"Go {version}, 10,000 goroutines, {labels} labels each"

                def tools_of(pid):
                    self.whole(pid)
                    return {"stacksnap": [self.tool, "-p", str(pid)]}

                self.measured(target, [program, "10000", str(labels)], tools_of, self.reps(11))
                if number == 0:
                    self.found.add(key, self.median(target, "stacksnap", "pause_ms"))

    def many(self):
        for program, version in self.goes()[:1]:
            for labels, key in ((5, "many-labels"), (0, "many-plain")):
                target = f"Go {version}, 100,000 goroutines, {labels} labels each"
                peaks = []

                def tools_of(pid):
                    self.whole(pid, *WIDE)
                    peaks.append(self.peak_pss([self.tool, "-p", str(pid), *WIDE]))
                    return {"stacksnap": [self.tool, "-p", str(pid), *WIDE]}

                self.measured(target, [program, "100000", str(labels)], tools_of, self.reps(5))
                self.found.add(key, self.median(target, "stacksnap", "pause_ms"))
                self.found.add(key + "-memory", peaks[0] / 1e6 if peaks else None)

    def peak_pss(self, argv):
        """The most memory that all processes of a run have at once, what they share counted once."""
        process, peak = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
        while process.poll() is None:
            peak = max(peak, sum(self.pss(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) >= process.pid))
            time.sleep(POLL_SECONDS)
        return peak

    def pss(self, pid):
        try:
            if os.readlink(f"/proc/{pid}/exe") != self.tool:
                return 0
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            return 0

    def delve(self):
        folder = os.path.join(self.scratch, "delve")
        dlv = shutil.which("dlv") or self.fetch_delve(folder)
        script = os.path.join(self.scratch, "dlv.commands")
        with open(script, "w", encoding="ascii") as file:
            file.write("goroutines -t 100 -l\n")
        for program, version in self.goes()[:1] if dlv else ():
            target = f"Go {version}, 10,000 goroutines, with delve"
            self.measured(target, [program, "10000", "5"],
                          lambda pid: {"stacksnap": [self.tool, "-p", str(pid)],
                                       "delve": [dlv, "attach", str(pid), "--init", script, "--check-go-version=false",
                                                 "--allow-non-terminal-interactive=true"]}, 1 if self.options.quick else 3)
            with open(self.out, errors="replace") as file:
                print(f"\ndelve printed {sum(line.startswith('  Goroutine') or line.startswith('* Gor') for line in file):,} goroutines")
            both = (target, "delve"), (target, "stacksnap")
            self.found.add("delve-time", self.ratio(*both, "wall"))
            self.found.add("delve-pause", self.ratio(*both, "pause_ms", 0.4))

    @staticmethod
    def fetch_delve(folder):
        """The package of this Debian, unpacked."""
        os.makedirs(folder)
        for command in (["apt-get", "-qq", "download", "delve"], ["sh", "-c", "dpkg-deb -x delve_*.deb ."]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"\ndelve: left out: {done.stderr.strip()}")
                return None
        return os.path.join(folder, "usr", "bin", "dlv")

    # Python and PHP

    def python(self):
        target = "Python, 10 threads, one 100 deep"
        self.measured(target, ["/usr/bin/python3", "-c", THREADS], self.none_and_auto, self.reps(21))
        self.found.add("python", self.added(target))

    def pythons(self):
        """How to run it, its root folder, its name, the key of its figure."""
        yield ["/usr/bin/python3"], "", "the system's Python", "asyncio"
        for package, suite in (("python3.13", "trixie"), ("python3.14", "sid")) if not self.options.quick else ():
            path = fetched("newer_debian.sh", package, suite, f"/usr/bin/{package}", "libsqlite3-0")
            if path:
                root, program = path.split(":")
                yield ["chroot", root, program], root, f"Python {package[6:]}", "asyncio-" + package[6:]

    def asyncio(self):
        for command, root, name, key in self.pythons():
            target = f"{name}, 1,000 tasks of asyncio"
            outside = self.heartbeat
            environment = self.preload()
            if root:
                # Its files have to lie inside its root folder; chroot itself finds nothing to preload.
                inside = os.path.join("/tmp", os.path.basename(self.scratch))
                os.makedirs(root + inside)
                shutil.copy(environment["LD_PRELOAD"], root + inside)
                environment = dict(os.environ, HB_FILE=inside + "/heartbeat", LD_PRELOAD=inside + "/hbpreload.so")
                self.heartbeat = root + inside + "/heartbeat"
            try:
                self.measured(target, [*command, "-c", TASKS], self.none_and_auto, self.reps(11), environment)
            finally:
                if root:
                    shutil.rmtree(os.path.dirname(self.heartbeat))
                self.heartbeat = outside
            self.found.add(key, self.median(target, "stacksnap", "own_ms"))

    def php(self):
        if not os.path.exists("/usr/bin/php"):
            print("\nPHP: left out, it is not installed")
            return
        script = os.path.join(self.scratch, "deep.php")
        with open(script, "w", encoding="ascii") as file:
            file.write(PHP)
        target = "PHP, 30 calls deep"
        self.measured(target, ["/usr/bin/php", script], self.none_and_auto, self.reps(31))
        self.found.add("php", self.added(target))

    def record_python(self):
        process = subprocess.Popen(["/usr/bin/python3", "-c", SHARES], stdin=subprocess.DEVNULL)
        out = os.path.join(self.scratch, "python.folded")
        try:
            time.sleep(0.5)
            found = self.record(process.pid, 99, 3 if self.options.quick else 10, "-f", "folded", out=out)
        finally:
            process.kill()
            process.wait()
        counts = dict.fromkeys(("seventy", "twenty", "ten"), 0)
        with open(out, errors="replace") as file:
            for line in file:
                stack, count = line.rstrip("\n").rsplit(" ", 1)
                for name in set(re.findall(r"(?:^|;)(seventy|twenty|ten)\b", stack)):
                    counts[name] += int(count)
        whole = sum(counts.values())
        print(f"\n### record: a Python program at 99 Hz: {found['hz_reached']:.1f} Hz, {found['stopped_percent']:.2f} % stopped")
        print(", ".join(f"{name} {100 * count / whole:.1f} %" for name, count in counts.items())
              if whole else "functions of Python: not available in recordings")
        worst = max(abs(100 * counts[name] / whole - share)
                    for name, share in (("seventy", 70), ("twenty", 20), ("ten", 10))) if whole else None
        self.found.add("record-rate", found["hz_reached"] if whole else None)
        self.found.add("record-stopped", found["stopped_percent"] if whole else None)
        self.found.add("record-shares", worst)

    # programs without a runtime

    def native(self):
        for threads, repetitions in ((1, 101), (1000, 31)):
            target = f"a native program of {threads:,} threads"
            self.measured(target, [os.path.join(self.bin, "target"), str(threads), "30", "12", self.heartbeat], self.none_and_auto,
                          self.reps(repetitions), dict(os.environ))
            for key, what in (("wall", "time"), ("own_ms", "stop")):
                pairs = zip(self.rows.get((target, "stacksnap"), []), self.rows.get((target, "stacksnap --runtimes none"), []))
                ratios = [a[key] / b[key] for a, b in pairs if a.get(key) and b.get(key)]
                self.found.add(f"native-{what}-{threads}", statistics.median(ratios) if ratios else None)


PARTS = {"go": RuntimesBench.go, "many": RuntimesBench.many, "delve": RuntimesBench.delve, "python": RuntimesBench.python,
         "asyncio": RuntimesBench.asyncio, "php": RuntimesBench.php, "record": RuntimesBench.record_python,
         "native": RuntimesBench.native}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(oneshot.SOURCE, "build"))
    parser.add_argument("--parts", default=",".join(PARTS), metavar="A,B", help="default %(default)s")
    parser.add_argument("--go", action="append", default=[], metavar="PATH", help="one more go command")
    parser.add_argument("--reps", type=int, default=5, metavar="N", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="three repetitions, nothing but delve is fetched")
    figures.arguments(parser)
    options = parser.parse_args()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = RuntimesBench(options, "runtimes")
    try:
        subprocess.run(["ninja", "-C", bench.build, "cli/stacksnap"], check=True, stdout=subprocess.DEVNULL)
        bench.compile_all()
        for part in options.parts.split(","):
            PARTS[part](bench)
        bench.found.finish(options, options.parts == ",".join(PARTS) and not options.quick)
        print(f"{time.monotonic() - began:.0f} s in all")
    finally:
        shutil.rmtree(bench.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
