#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark of waits: what each thread waits for, who holds it, deadlocks.

    tests/bench/waits.py [--build build] [--parts answers,threads,sockets,watch,schedule,records,peers] [--quick]

answers  right and wrong answers on the programs that know the truth of their own threads (tests/waits), in
         each build of them: waits, owners, deadlocks
threads  1,000 threads, each at a lock of its own: the stop and the wall time with waits by those without
schedule recordings of a program that measures how long its threads wait for which lock, and who has it
records  a recording of 1,000 threads of which 200 wake in each tick, with waits by without: processor time, rate,
         time stopped
sockets  10,000 sockets in one process that waits for them: wall time with waits and without
watch    --watch of 1,000 waiting threads once a second, from its tenth second to its sixtieth: processor time of all
         its processes, and how many of the threads ran
peers    what gdb, jstack and lslocks say of the same programs, where they are installed, and how long they take

What is compared runs in turn (A B B A …), and ratios are of neighbours. Ends with the figures to reach; a run of
all parts writes them to doc/FIGURES.md (see figures.py). Nothing here is a test: no time decides a result."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import figures

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PARTS = "answers,threads,sockets,watch,schedule,records,peers"
LOCKS = [["mutexes", "timed", "rwlocks", "exited"], ["places"], ["fork"], ["shared"], ["refused"]]
OBJECTS = [["conditions", "semaphores", "barrier", "once", "join", "stdio"], ["malloc"]]
DEAD = [[mode] for mode in ("two", "ring:5", "ring:2000", "timed", "self", "pair:rwlock", "pair:stdio", "pair:once",
                            "pair:thread", "pipe", "unix", "tcp", "own", "child", "shared", "flock", "near-pipe", "near-threads", "near-handler",
                            "near-condition", "near-readers", "near-pool")]
CALLS = [["descriptors"], ["polls"], ["children"], ["groups"], ["vfork"], ["sleeps"], ["signals"], ["sysv"], ["fault"], ["rings"],
         ["raw"]]
PEERS = [["pipes"], ["fifos"], ["unix"], ["tcp"], ["udp"], ["locks"], ["shared-locks"]]
MOST_SHOWN = 20  # wrong answers of a build
GDB = """
set pagination off
set $owner = 0
python
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.name() and "pthread_mutex_lock" in frame.name():
            try:
                owner = frame.read_var("mutex")["__data"]["__owner"]
                print("OWNER", thread.ptid[1], int(owner))
            except (ValueError, gdb.error):
                pass
            break
        frame = frame.older()
end
"""


class WaitsBench:
    def __init__(self, options):
        self.options = options
        self.tool = os.path.join(os.path.abspath(options.build), "cli", "stacksnap")
        self.scratch = tempfile.mkdtemp(prefix="stacksnap-bench.")
        self.found = figures.Figures("waits")

    def start(self, argv, **popen):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, start_new_session=True, **popen)
        words = process.stdout.readline().split()
        if words[:1] != ["ready"]:
            self.end(process)
            return None, None, f"{argv}: {' '.join(words)}"
        return process, int(words[1]), words

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()

    def reps(self, usual):
        return 3 if self.options.quick else usual

    # answers

    def rows(self):
        for name, all_modes in (("locks", LOCKS), ("objects", OBJECTS), ("dead", DEAD), ("calls", CALLS), ("peers", PEERS)):
            for modes in all_modes:
                if name == "peers" and modes[0] in ("fifos", "locks", "shared-locks"):
                    modes = [modes[0] + ":" + tempfile.mkdtemp(dir=self.scratch)]
                yield name, modes

    def answers(self):
        os.environ["STACKSNAP_BUILD"] = os.path.abspath(self.options.build)
        sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))
        import waits
        builds = ["pie", "static-stripped", "musl"] if self.options.quick else list(waits.BUILDS)
        print(f"\n{'answers':18}{'right':>8}{'wrong':>8}")
        tallies = []
        for build in builds:
            if not shutil.which(waits.BUILDS[build][0][0]):
                print(f"{build:18}  left out: no {waits.BUILDS[build][0][0]}")
                continue
            tallies.append(waits.Tally())
            for name, modes in self.rows():
                if name not in ("calls", "peers") or build in ("pie", "static-stripped"):
                    self.one_answer(waits, tallies[-1], name, modes, build)
            print(f"{build:18}{tallies[-1].right:8}{len(tallies[-1].wrong):8}", flush=True)
            for text in tallies[-1].wrong[:MOST_SHOWN]:
                print("    " + text[:300])
        right, wrong = sum(tally.right for tally in tallies), sum(len(tally.wrong) for tally in tallies)
        self.found.add("right", f"{right:,} of {right + wrong:,}")
        for key in ("false-owners", "false-deadlocks", "missed-deadlocks"):
            self.found.add(key, sum(getattr(tally, key.replace("-", "_")) for tally in tallies))

    def one_answer(self, waits, tally, name, modes, build):
        process, pid, words = self.start([waits.program(name, build), *modes])
        if not process:
            tally.wrong.append(str(words))
            return
        try:
            count = int(dict(word.split("=") for word in words[2:])["truth"])
            truths = [json.loads(process.stdout.readline()) for _ in range(count)]
            waits.settle(pid)
            done = subprocess.run([self.tool, "-j", "-p", str(pid), "--stop-timeout", "20000"], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            tally.add(truths, json.loads(done.stdout), build, f"{name} {' '.join(modes)}")
        finally:
            self.end(process)

    # costs

    def waiters(self, *arguments):
        program = os.path.join(self.scratch, "waiters")
        if not os.path.exists(program):
            subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-pthread", "-o", program, os.path.join(HERE, "waiters.c")],
                           check=True)
        return self.start([program, *arguments])

    def once(self, pid, *options):
        """The tool's stop and its wall time in ms."""
        begin = time.monotonic()
        done = subprocess.run([self.tool, "-j", "--stop-all", "-p", str(pid), *options], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        wall = (time.monotonic() - begin) * 1e3
        return json.loads(done.stdout).get("stop_duration_ns", 0) / 1e6, wall

    def pairs(self, label, arguments, count):
        """Runs with waits and without, in turn; (stop, wall) of each."""
        process, pid, words = self.waiters(*arguments)
        if not process:
            print(f"\n{label}: left out: {words}")
            return None
        try:
            self.once(pid), self.once(pid, "--no-explain")  # files are in the cache from here on
            both = []
            for i in range(count):
                order = [(), ("--no-explain",)]
                runs = {options: self.once(pid, *options) for options in (order if i % 2 == 0 else order[::-1])}
                both.append((runs[()], runs[("--no-explain",)]))
        finally:
            self.end(process)
        print(f"\n{label:34}{'stop ms':>10}{'wall ms':>10}")
        for place, name in ((0, "with waits"), (1, "without")):
            print(f"  {name:32}{statistics.median(run[place][0] for run in both):10.2f}"
                  f"{statistics.median(run[place][1] for run in both):10.1f}", flush=True)
        return both

    def threads(self):
        both = self.pairs("1,000 threads at 1,000 locks", ("locks", "1000"), self.reps(40))
        if both:
            ratio = statistics.median(with_[0] / without[0] for with_, without in both)
            more = statistics.median(with_[1] - without[1] for with_, without in both)
            self.found.add("stop", ratio)
            self.found.add("threads", more)

    def sockets(self):
        both = self.pairs("10,000 sockets", ("sockets", "10000"), self.reps(20))
        if both:
            more = statistics.median(with_[1] - without[1] for with_, without in both)
            self.found.add("sockets", more)

    @staticmethod
    def ran_ns(pid):
        """Processor time of each thread of a process and its children that are there."""
        times = {}
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
                times[tid] = int(file.read().split()[0])
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
                for child in file.read().split():
                    times.update(WaitsBench.ran_ns(int(child)))
        return times

    @staticmethod
    def switches(pid):
        """Of each thread, how often it got a processor."""
        counts = {}
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
                counts[tid] = int(file.read().split()[2])
        return counts

    def watch(self):
        process, pid, words = self.waiters("locks", "1000")
        if not process:
            print(f"\nwatch: left out: {words}")
            return
        watch = subprocess.Popen([self.tool, "--watch", "--every", "1", "-p", str(pid)], stdout=subprocess.DEVNULL)
        try:
            time.sleep(2 if self.options.quick else 10)
            begin, ran, switches = time.monotonic(), self.ran_ns(watch.pid), self.switches(pid)
            time.sleep(5 if self.options.quick else 50)
            passed = time.monotonic() - begin
            ran = sum(ns - ran.get(tid, 0) for tid, ns in self.ran_ns(watch.pid).items())
            moved = sum(count != switches.get(tid) for tid, count in self.switches(pid).items())
        finally:
            watch.terminate()
            watch.wait()
            self.end(process)
        self.found.add("watch", ran / passed / 1e7)
        self.found.add("watch-ran", moved)

    # recordings

    def record(self, pid, seconds, *options):
        """The tool's own figures, with the processor time of all its processes in seconds."""
        stats = os.path.join(self.scratch, "stats.json")
        done = subprocess.Popen([self.tool, "record", "-p", str(pid), "-d", str(seconds), "--stats", stats, "-o",
                                 os.path.join(self.scratch, "record.json"), *options], stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(done.pid, 0)
        done.returncode = 0
        with open(stats, encoding="utf-8") as file:
            figures = json.load(file)
        cpu = usage.ru_utime + usage.ru_stime
        return dict(figures, cpu=cpu, each=1e6 * cpu / (figures["unstopped"] + figures["alone"] or 1))

    def schedule(self):
        source = os.path.join(SOURCE, "tests", "waits", "schedule.c")
        program = os.path.join(self.scratch, "schedule")
        subprocess.run(["cc", "-O1", "-g", "-D_GNU_SOURCE", "-pthread", "-o", program, source], check=True)
        process, pid, words = self.start([program])
        if not process:
            print(f"\nschedule: left out: {words}")
            return

        def truth():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        shares, holders = [], []
        print(f"\n{'schedule':18}{'share':>10}{'told':>10}   holders: share, told")
        try:
            for _ in range(2 if self.options.quick else 5):
                before = truth()
                self.record(pid, 4 if self.options.quick else 10)
                after = truth()
                with open(os.path.join(self.scratch, "record.json"), encoding="utf-8") as file:
                    rows = {row["object"].split()[-1]: row for row in json.load(file).get("time_by_wait", ())
                            if row["kind"] == "mutex"}
                told = sum(row["total_ns"] for row in rows.values()) or 1
                waited = sum(new["waited_ns"] - old["waited_ns"] for old, new in zip(before, after))
                for old, new in zip(before, after):
                    own = new["waited_ns"] - old["waited_ns"]
                    row = rows.get(new["lock"], {"total_ns": 0})
                    line = f"{new['lock']:18}{100 * own / waited:8.1f} %{100 * row['total_ns'] / told:8.1f} %  "
                    shares.append(abs(100 * own / waited - 100 * row["total_ns"] / told))
                    functions = {holder.get("function"): holder["ns"] for holder in row.get("holders", ())}
                    for was, now in zip(old["held_by"], new["held_by"]):
                        if now["ns"] - was["ns"] < own / 20:
                            continue
                        one = 100 * (now["ns"] - was["ns"]) / own
                        other = 100 * functions.get(now["function"], 0) / (row["total_ns"] or 1)
                        holders.append(abs(one - other))
                        line += f" {now['function']} {one:.1f} %, {other:.1f} %"
                    print(line, flush=True)
        finally:
            self.end(process)
        self.found.add("share-most", max(shares))
        self.found.add("share-median", statistics.median(shares))
        print(f"share of a holder off, most and median: {max(holders):.1f}, {statistics.median(holders):.1f} points")

    def records(self):
        process, pid, words = self.waiters("wakers", "1000")
        if not process:
            print(f"\nrecords: left out: {words}")
            return
        both = []
        try:
            for i in range(self.reps(6)):
                order = [(), ("--no-explain",)]
                runs = {options: self.record(pid, 4, *options) for options in (order if i % 2 == 0 else order[::-1])}
                both.append((runs[()], runs[("--no-explain",)]))
        finally:
            self.end(process)
        print(f"\n{'1,000 threads, 200 wake a tick':34}{'cpu s':>10}{'us a copy':>12}{'Hz':>8}{'stopped %':>12}")
        for place, name in ((0, "with waits"), (1, "without")):
            middle = [statistics.median(run[place][key] for run in both)
                      for key in ("cpu", "each", "hz_reached", "stopped_percent")]
            print(f"  {name:32}{middle[0]:10.2f}{middle[1]:12.1f}{middle[2]:8.1f}{middle[3]:12.3f}", flush=True)
        # on a busy machine there are fewer ticks: so by what was done
        ratio = statistics.median(with_["each"] / without["each"] for with_, without in both)
        self.found.add("record", ratio)

    # peers

    def timed_run(self, command):
        begin = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120, stdin=subprocess.DEVNULL)
        return done.stdout, (time.monotonic() - begin) * 1e3

    def peer(self, argv, ours, name, command, said):
        """A row: what it says by a count of its own words, beside ours."""
        if not shutil.which(name):
            print(f"  {name:12} left out: not installed")
            return
        process, pid, words = self.start(argv)
        if not process:
            print(f"  {name:12} left out: {words}")
            return
        try:
            for label, line, pattern in (("stacksnap", [self.tool, "-p", str(pid)], ours),
                                         (name, command(pid), said)):
                text, wall = self.timed_run(line)
                print(f"  {label:12}{len(re.findall(pattern, text)):8}{wall:10.0f} ms", flush=True)
        finally:
            self.end(process)

    def peers(self):
        os.environ["STACKSNAP_BUILD"] = os.path.abspath(self.options.build)
        sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))
        import waits
        script = os.path.join(self.scratch, "owners.gdb")
        with open(script, "w", encoding="ascii") as file:
            file.write(GDB)
        held = r"held by \d+"
        print("\nowners of mutexes, of 10 threads in 5 locks each way; wall time")
        self.peer([waits.program("locks", "pie"), "mutexes"], held, "gdb",
                  lambda pid: ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script], r"OWNER \d+ [1-9]")
        print("deadlocks of two: of mutexes; of Java's monitors")
        self.peer([waits.program("dead", "pie"), "two"], r"DEADLOCK +2 threads", "gdb",
                  lambda pid: ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script], r"(?!)")
        self.peer(waits.program_of("java"), r"DEADLOCK +2 threads", "jstack", lambda pid: ["jstack", str(pid)],
                  r"Found 1 deadlock")
        print("holders of file locks: flock, POSIX, OFD, and an heir of a flock, of 4")
        folder = tempfile.mkdtemp(dir=self.scratch)
        self.peer([waits.program("peers", "pie"), "locks:" + folder], r"(?:flock|lock) on .*held by \d+", "lslocks",
                  lambda pid: ["lslocks", "-n", "-o", "PID,PATH,BLOCKER"], re.escape(folder) + r"\S* +\d+")

    def run(self):
        try:
            for part in self.options.parts.split(","):
                getattr(self, part)()
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        self.found.finish(self.options, self.options.parts == PARTS and not self.options.quick)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--quick", action="store_true")
    figures.arguments(parser)
    WaitsBench(parser.parse_args()).run()


if __name__ == "__main__":
    main()
