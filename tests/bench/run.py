#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark: stacksnap and its peers on the same live target, in turn.

    tests/bench/run.py [--build build] [--targets t64,t1000,...] [--quick]

One target is alive at a time; each repetition runs every tool once (A B C A B C ...), figures are
medians. "pause" is the longest gap that a heartbeat thread inside the target saw (below 0.4 ms it is
not resolved); "own stop" is what the tool itself reports: stop_duration_ns of `stacksnap --json`,
first stop to last release of `floor`, the least that the kernel charges for a consistent snapshot.
Ends with the figures to reach, asked and measured; a run of all targets writes them to doc/FIGURES.md (see
figures.py). Quote ratios, not milliseconds. Peers that are not installed are left out. Nothing here is a test:
no time decides a result."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import figures

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
NAMES, FULL, JSON = "stacksnap --no-lines --no-inlines", "stacksnap", "stacksnap --json"
DEFAULT = "t64,t1000,t10000,big,deep,python,node,java,mariadbd"
REPETITIONS = 5
LONG = {"t10000"}  # peers run once
SLOW_PEERS = {"gdb", "lldb", "eu-stack -i -s"}

PYTHON = """
import threading, time
def f(n):
    if n: return f(n - 1)
    time.sleep(3600)
for i in range(100): threading.Thread(target=f, args=(10,), daemon=True).start()
time.sleep(3600)
"""
NODE = "require('http').createServer((q,r)=>r.end('x')).listen(0,'127.0.0.1')"


class Bench:
    def __init__(self, options, benchmark="snapshots"):
        self.options = options
        self.found = figures.Figures(benchmark)
        self.build = os.path.abspath(options.build)
        self.bin = os.path.join(self.build, "bench")
        os.makedirs(self.bin, exist_ok=True)
        self.tool = os.path.join(self.build, "cli", "stacksnap")
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.scratch = tempfile.mkdtemp(prefix="stacksnap-bench.", dir=shm)
        self.heartbeat = os.path.join(self.scratch, "heartbeat")
        self.out = os.path.join(self.scratch, "out")
        self.rows = {}  # (target, tool) -> list of runs

    # building

    def compile(self, name, source, *flags, compiler="gcc"):
        target, path = os.path.join(self.bin, name), os.path.join(HERE, source)
        newest = max(os.path.getmtime(p) for p in (path, os.path.join(HERE, "hb.h")))
        if not os.path.exists(target) or os.path.getmtime(target) < newest:
            subprocess.run([compiler, "-O2", "-g", "-D_GNU_SOURCE", "-o", target, path, *flags], check=True)
        return target

    def compile_all(self):
        self.compile("target", "target.c", "-pthread")
        self.compile("hbrun", "hbrun.c")
        self.compile("hbpreload.so", "hbpreload.c", "-shared", "-fPIC", "-pthread")
        self.compile("deep", "../targets/deep.c", "-pthread", "-fno-optimize-sibling-calls")

    def big(self):
        program = os.path.join(self.bin, "big")
        if not os.path.exists(program):
            print("building target big (18 C++ units) ...", file=sys.stderr)
            folder = tempfile.mkdtemp(prefix="big.", dir=self.bin)
            subprocess.run([sys.executable, os.path.join(HERE, "gen_big.py"), folder, "18"], check=True)
            subprocess.run(["make", "-s", "-C", folder, f"-j{os.cpu_count()}", "HBDIR=" + HERE, "big"], check=True)
            os.rename(os.path.join(folder, "big"), program)
            shutil.rmtree(folder)
        return program

    # targets

    def command(self, name):
        """argv and environment of a target, or None where it cannot run here."""
        made = lambda *a: ([os.path.join(self.bin, "target"), *a[:3], self.heartbeat, *a[3:]], None)
        preload = lambda comm=None: dict(os.environ, LD_PRELOAD=os.path.join(self.bin, "hbpreload.so"),
                                         HB_FILE=self.heartbeat, **({"HB_COMM": comm} if comm else {}))
        if name == "t64":
            return made("64", "30", "8")
        if name == "t1000":
            return made("1000", "30", "12")
        if name == "t10000":
            return made("10000", "30", "24", "128")
        if name == "spin":
            return made("64", "30", "8", "256", "8")
        if name == "big":
            return ([self.big(), "100", self.heartbeat], None) if shutil.which("g++") else None
        if name == "deep":
            return [os.path.join(self.bin, "deep"), "1000000"], preload("deep")
        if name == "python":
            return ["/usr/bin/python3", "-c", PYTHON], preload()
        if name == "node":
            return (["node", "-e", NODE], preload("node")) if shutil.which("node") else None
        if name == "java":
            if not shutil.which("javac"):
                return None
            if not os.path.exists(os.path.join(self.bin, "Sleepers.class")):
                subprocess.run(["javac", "-d", self.bin, os.path.join(HERE, "Sleepers.java")], check=True)
            return ["java", "-Xmx256m", "-cp", self.bin, "Sleepers"], preload("java")
        if name == "mariadbd":
            program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
            if not os.path.exists(program):
                return None
            data = os.path.join(self.scratch, "mariadb")
            subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", "--datadir=" + data,
                            "--auth-root-authentication-method=normal"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return [program, "--no-defaults", "--user=root", "--datadir=" + data, "--skip-networking",
                    "--socket=" + data + "/s.sock"], preload("mariadbd")
        sys.exit(f"bench: no target {name}")

    def ready(self, process):
        """The target's pid once its heartbeat file says so and its threads have settled."""
        for _ in range(1200):
            try:
                with open(self.heartbeat, "rb") as f:
                    head = f.read(8)
            except OSError:
                head = b""
            if int.from_bytes(head[:4], "little"):
                pid = int.from_bytes(head[4:], "little")
                break
            if process.poll() is not None:
                return None
            time.sleep(0.05)
        else:
            return None
        before = None
        for _ in range(200):
            now = [self.last_run(pid, t) for t in sorted(os.listdir(f"/proc/{pid}/task"))]
            if before is not None and sum(a != b for a, b in zip(now, before)) <= 12 and len(now) == len(before):
                return pid
            before = now
            time.sleep(0.1)
        return pid

    @staticmethod
    def last_run(pid, tid):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                return f.read()
        except OSError:
            return ""

    # tools

    def tools(self, pid, target):
        pid = str(pid)
        ours = [self.tool, "-p", pid]
        if target == "deep":
            return {FULL: ours, "stacksnap -n 0": [*ours, "-n", "0", "--max-stack", str(256 << 20)]}
        found = {
            "floor": [os.path.join(self.build, "tests", "bench", "floor"), pid],
            "gdb": ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", pid, "-ex", "thread apply all bt"],
            "lldb": ["lldb", "--no-lldbinit", "-b", "-p", pid, "-o", "bt all", "-o", "detach"],
            "eu-stack": ["eu-stack", "-p", pid],
            "eu-stack -i -s": ["eu-stack", "-p", pid, "-i", "-s"],
            NAMES: [*ours, "--no-lines", "--no-inlines"],
            FULL: ours,
            JSON: [*ours, "--json"],
        }
        if target == "t10000":
            del found["eu-stack -i -s"]
        wanted = self.options.tools.split(",") if self.options.tools else None
        return {k: v for k, v in found.items()
                if shutil.which(v[0]) and (not wanted or k in wanted or k.startswith("stacksnap"))}

    def repetitions(self, target, tool):
        if tool == "(none)" or tool == "floor" or tool.startswith("stacksnap"):
            return self.options.reps if target != "deep" else 3
        if target in LONG:
            return 1
        return min(self.options.reps, 3) if tool in SLOW_PEERS else self.options.reps

    def once(self, label, command):
        done = subprocess.run([os.path.join(self.bin, "hbrun"), self.heartbeat, self.out, *command],
                              stdout=subprocess.PIPE, text=True, check=True)
        run = json.loads(done.stdout)
        if label != "(none)":
            with open(self.out, errors="replace") as f:
                text = f.read()
            run["own_ms"] = own_stop(label, text)
        if run["rc"]:
            with open(self.out + ".err", errors="replace") as f:
                run["why"] = (f.read().strip().splitlines() or [""])[-1][:160]
        return run

    def measure(self, target):
        if os.path.exists(self.heartbeat):
            os.unlink(self.heartbeat)
        command = self.command(target)
        if not command or not shutil.which(command[0][0]):
            print(f"\n{target}: left out, its program is not installed")
            return
        # Standard input stays open: some targets end when it closes.
        process = subprocess.Popen(command[0], env=command[1], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            pid = self.ready(process)
            if not pid:
                print(f"\n{target}: left out, it did not get ready")
                return
            threads = len(os.listdir(f"/proc/{pid}/task"))
            tools = {"(none)": ["-"], **self.tools(pid, target)}
            for repetition in range(self.options.reps):
                for label, argv in tools.items():
                    if repetition < self.repetitions(target, label):
                        self.rows.setdefault((target, label), []).append(self.once(label, argv))
            self.table(target, threads, tools)
            if target == "t1000":
                self.unwind(pid)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()

    def unwind(self, pid):
        """Frames a second of the cached rows and of libunwind, on one capture of this target."""
        source = os.path.join(HERE, "unwind_bench.c")
        if not os.path.exists(source):
            return
        program, capture = os.path.join(self.bin, "unwind_bench"), os.path.join(self.scratch, "capture")
        built = subprocess.run(["gcc", "-O2", "-g", "-D_GNU_SOURCE", f'-DSNAP_VERSION="bench"', "-I" + os.path.join(SOURCE, "lib"),
                                "-o", program, source, os.path.join(self.build, "lib", "libstacksnap-internal.a"),
                                "-ldw", "-lelf", "-lunwind-ptrace", "-lunwind-x86_64", "-lunwind", "-ljansson",
                                "-liberty", "-lz", "-lrt", "-ldl"], stderr=subprocess.PIPE, text=True)
        if built.returncode:
            print("\nunwind_bench was not built: " + built.stderr[-800:])
            return
        subprocess.run([self.tool, "-p", str(pid), "--save-capture", capture], stdout=subprocess.DEVNULL, check=False)
        done = subprocess.run([program, capture], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        print("\nunwinding one capture of t1000:\n" + done.stdout.rstrip(), flush=True)
        for line in done.stdout.splitlines():
            ratio = re.match(r"ratio ([\d.]+)", line)
            if ratio:
                self.rows[("unwind", "ratio")] = [{"ratio": float(ratio.group(1))}]
            same = re.match(r"same\D*(\d+)\s+of\s+(\d+)", line)
            if same:
                self.rows[("unwind", "same")] = [{"same": 100.0 * int(same.group(1)) / max(1, int(same.group(2)))}]

    # results

    def median(self, target, tool, key):
        # A run that failed says nothing: 1 is a report with something missing.
        values = [r[key] for r in self.rows.get((target, tool), [])
                  if r.get(key) is not None and r.get("rc", 0) in (0, 1)]
        return statistics.median(values) if values else None

    def table(self, target, threads, tools):
        print(f"\n### {target}: {threads} threads\n")
        print("| tool | wall ms | cpu ms | peak MiB | pause ms (min..max) | own stop ms | runs |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for label in tools:
            runs = self.rows.get((target, label))
            if not runs:
                continue
            cpu = statistics.median(r["user"] + r["sys"] for r in runs) * 1e3
            pauses = sorted(r["pause_ms"] for r in runs)
            own = self.median(target, label, "own_ms")
            wall, rss = (statistics.median(r[k] for r in runs) for k in ("wall", "rss"))
            print(f"| {label} | {wall * 1e3:.1f} | {cpu:.1f} | {rss / 1024:.1f} | {statistics.median(pauses):.2f} "
                  f"({pauses[0]:.2f}..{pauses[-1]:.2f}) | {'' if own is None else f'{own:.2f}'} | {len(runs)} |")
        for label in tools:
            bad = [r for r in self.rows.get((target, label), []) if r["rc"]]
            if bad and label != "(none)":
                print(f"\n{label}: {len(bad)} runs ended with status {bad[0]['rc']}: {bad[0].get('why', '')}")
        sys.stdout.flush()

    def ratio(self, upper, lower, key, least=0.0):
        """median of upper / median of lower, both (target, tool); None where one is missing."""
        a, b = self.median(*upper, key), self.median(*lower, key)
        if a is None or b is None:
            return None
        return max(a, least) / max(b, least) if max(b, least) > 0 else None

    def figures(self):
        found = self.found
        for threads in (64, 1000):
            target = f"t{threads}"
            found.add(f"floor-{threads}", self.ratio((target, JSON), (target, "floor"), "own_ms"))
        found.add("seen-1000", self.ratio(("t1000", NAMES), ("t1000", "floor"), "pause_ms", 0.4))
        for peer in ("gdb", "lldb"):
            found.add(f"{peer}-pause", self.ratio(("t1000", peer), ("t1000", FULL), "pause_ms", 0.4))
        found.add("eu-stack-names", self.ratio(("t1000", "eu-stack"), ("t1000", NAMES), "wall"))
        found.add("eu-stack-lines", self.ratio(("big", "eu-stack -i -s"), ("big", FULL), "wall"))
        found.add("gdb-lines", self.ratio(("big", "gdb"), ("big", FULL), "wall"))
        found.add("gdb-memory", self.ratio(("big", FULL), ("big", "gdb"), "rss"))
        found.add("lldb-memory", self.ratio(("t10000", NAMES), ("t10000", "lldb"), "rss"))
        found.add("deep-time", self.median("deep", "stacksnap -n 0", "wall"))
        for key, tool in (("deep-memory", "stacksnap -n 0"), ("deep-usual", FULL)):
            kilobytes = self.median("deep", tool, "rss")
            found.add(key, kilobytes and kilobytes * 1024 / 1e6)
        found.add("frames", self.median("unwind", "ratio", "ratio"))
        found.add("same", self.median("unwind", "same", "same"))


def own_stop(label, text):
    """Milliseconds that the tool itself says it held the target."""
    try:
        if label == JSON:
            return json.loads(text).get("stop_duration_ns", 0) / 1e6
        if label == "floor":
            return int(re.search(r" stop=(\d+)", text).group(1)) / 1e3
    except (ValueError, KeyError, AttributeError):
        pass
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--targets", default=DEFAULT, metavar="A,B", help="default %(default)s; also: spin")
    parser.add_argument("--tools", default="", metavar="A,B", help="only these peers")
    parser.add_argument("--reps", type=int, default=REPETITIONS, metavar="N")
    parser.add_argument("--quick", action="store_true", help="t64 and t1000, three repetitions")
    parser.add_argument("--json", metavar="FILE", help="every single run")
    figures.arguments(parser)
    options = parser.parse_args()
    whole = options.targets == DEFAULT and not (options.quick or options.tools) and options.reps >= REPETITIONS
    if options.quick:
        options.targets, options.reps = "t64,t1000,deep", 3
    began = time.monotonic()
    # Ended from outside, it still ends its target.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(options)
    try:
        subprocess.run(["ninja", "-C", bench.build, "cli/stacksnap"], check=True, stdout=subprocess.DEVNULL)
        bench.compile_all()
        for target in options.targets.split(","):
            bench.measure(target)
        bench.figures()
        bench.found.finish(options, whole)
        print(f"{time.monotonic() - began:.0f} s in all")
    finally:
        shutil.rmtree(bench.scratch, ignore_errors=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump([dict(target=t, tool=l, runs=r) for (t, l), r in bench.rows.items()], f, indent=1)


if __name__ == "__main__":
    main()
