#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark of `stacksnap record` and `--no-stop`.

    tests/bench/record.py [--build build] [--parts rate,loss,shares,render,nostop] [--quick]

rate    a target of 1,003 threads, 2 of them running, sampled at 99 and 1,000 Hz: rate reached, share
        of the time with something stopped (the tool's own figures, --stats), and processor it used
loss    throughput that a target of 67 threads, 2 of them running, loses at 99 Hz, in turn with
        `perf record --call-graph dwarf`; each against the throughput just before and after
shares  a program that spends 70, 20 and 10 % of its time in three functions, for 10 s at 99 Hz
render  60 s of 100 threads, 8 of them running, to every format: seconds, peak memory; jsonl: MB/s
nostop  share of the blocked threads read whole without a stop, on every target of the one-shot
        benchmark, and how many blocking calls came back early (EINTR)

Ends with the figures to reach; a run of all parts writes them to doc/FIGURES.md (see figures.py). Nothing here
is a test: no time decides a result."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

import figures
import run as oneshot

PARTS = "rate,loss,shares,render,nostop"
NOSTOP_TARGETS = "t64,t1000,t10000,big,python,node,java,mariadbd"
FORMATS = {"text": ".txt", "json": ".json", "pprof": ".pb.gz", "folded": ".folded",
           "speedscope": ".speedscope.json", "chrome": ".trace.json", "firefox": ".firefox.json",
           "firefox-gz": ".firefox.json.gz", "snaprec": ".snaprec", "jsonl": ".jsonl"}


class RecordBench(oneshot.Bench):
    def __init__(self, options, benchmark="recordings"):
        super().__init__(options, benchmark)

    # targets

    def start(self, argv, environment=None):
        """A target of hb.h, ready; its process and pid."""
        if os.path.exists(self.heartbeat):
            os.unlink(self.heartbeat)
        process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        pid = self.ready(process)
        if not pid:
            self.end(process)
            return None, None
        return process, pid

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.wait()

    def sleepers(self, threads, depth, distinct, running):
        return [os.path.join(self.bin, "target"), str(threads), str(depth), str(distinct), self.heartbeat,
                "256", str(running)]

    # one command, measured

    def timed(self, argv, stdout=subprocess.DEVNULL):
        """Seconds, processor seconds, peak bytes, status, stderr of a command."""
        began = time.monotonic()
        process = subprocess.Popen(argv, stdout=stdout, stderr=subprocess.PIPE, text=True)
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return {"seconds": time.monotonic() - began, "cpu": usage.ru_utime + usage.ru_stime,
                "peak": usage.ru_maxrss * 1024, "status": process.returncode, "stderr": complaint}

    def record(self, pid, hz, seconds, *more, out=os.devnull):
        stats = os.path.join(self.scratch, "stats.json")
        found = self.timed([self.tool, "record", "-p", str(pid), "--hz", str(hz), "-d", str(seconds), "--stats", stats,
                            "-o", out, *(["-f", "folded"] if out == os.devnull else []), *more])
        if found["status"] not in (0, 1):
            sys.exit(f"bench: record ended with {found['status']}: {found['stderr'][-400:]}")
        with open(stats) as f:
            found.update(json.load(f))
        return found

    # parts

    def rate(self):
        process, pid = self.start(self.sleepers(1000, 30, 12, 2))
        if not pid:
            return
        seconds = 3 if self.options.quick else 10
        try:
            print("\n### rate: 1,003 threads, 2 running\n")
            print("| asked Hz | reached | missed | stopped % | processor % | peak MiB | samples/s |")
            print("|--:|--:|--:|--:|--:|--:|--:|")
            for hz in (99, 1000):
                runs = [self.record(pid, hz, seconds) for _ in range(1 if self.options.quick else 3)]
                reached, stopped = (statistics.median(r[k] for r in runs) for k in ("hz_reached", "stopped_percent"))
                cpu = statistics.median(100 * r["cpu"] / r["seconds"] for r in runs)
                print(f"| {hz} | {reached:.1f} | {statistics.median(r['ticks_missed'] for r in runs):.0f} | {stopped:.2f} "
                      f"| {cpu:.0f} | {max(r['peak'] for r in runs) / 2**20:.0f} "
                      f"| {statistics.median(r['thread_samples'] / r['duration_ns'] * 1e9 for r in runs):.0f} |", flush=True)
                if hz == 99:
                    self.found.add("rate-99", reached)
                    self.found.add("stopped-99", stopped)
                else:
                    self.found.add("rate-1000", reached)
        finally:
            self.end(process)

    def work(self):
        with open(self.heartbeat, "rb") as f:
            f.seek(-8, 2)
            return struct.unpack("<Q", f.read(8))[0]

    def throughput(self, seconds):
        first, began = self.work(), time.monotonic()
        time.sleep(seconds)
        return (self.work() - first) / (time.monotonic() - began)

    def loss(self):
        for threads, distinct in ((64, 8), (1000, 12)):
            process, pid = self.start(self.sleepers(threads, 30, distinct, 2))
            if not pid:
                return
            try:
                self.loss_of(pid, threads + 3)
            finally:
                self.end(process)

    def loss_of(self, pid, threads):
        length = 2.0 if self.options.quick else 4.0
        tools = {"stacksnap": [self.tool, "record", "-p", str(pid), "-d", str(length + 1.5), "-f", "snaprec",
                               "-o", os.path.join(self.scratch, "loss.snaprec")]}
        if shutil.which("perf"):
            tools["perf dwarf"] = ["perf", "record", "-q", "-F", "99", "--call-graph", "dwarf", "-p", str(pid),
                                   "-o", os.path.join(self.scratch, "perf.data"), "sleep", str(length + 1.5)]
        losses = {label: [] for label in tools}
        for _ in range(2 if self.options.quick else 5):
            for label, argv in tools.items():
                before = self.throughput(length / 2)
                sampler = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.7)
                during = self.throughput(length)
                sampler.wait()
                after = self.throughput(length / 2)
                losses[label].append(100 * (1 - during / ((before + after) / 2)))
        print(f"\n### loss: throughput at 99 Hz, {threads} threads, 2 running, percent lost\n")
        for label, values in losses.items():
            print(f"{label}: median {statistics.median(values):.2f}  ({', '.join(f'{v:.2f}' for v in values)})", flush=True)
        if "perf dwarf" in losses and threads < 100:
            peer = statistics.median(losses["perf dwarf"])
            ours = max(statistics.median(losses["stacksnap"]), 0.0)
            self.found.add("loss", ours / peer if peer > 0 else None)

    def shares(self):
        program = os.path.join(self.build, "tests", "targets", "shares")
        if not os.path.exists(program):
            program = self.compile("shares", "../targets/shares.c", "-pthread", "-fno-inline")
        victim = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            pid = victim.stdout.readline().split()[1]
            out = os.path.join(self.scratch, "shares.folded")
            self.record(pid, 99, 3 if self.options.quick else 10, out=out)
        finally:
            victim.stdin.close()
            victim.wait()
        counts = {}
        with open(out) as f:
            for line in f:
                stack, count = line.rstrip("\n").rsplit(" ", 1)
                for name in re.findall(r"\b(seventy|twenty|ten|half_awake|half_asleep|asleep_main)\b", stack):
                    counts[name] = counts.get(name, 0) + int(count)
        busy = sum(counts.get(k, 0) for k in ("seventy", "twenty", "ten")) or 1
        half = sum(counts.get(k, 0) for k in ("half_awake", "half_asleep")) or 1
        found = {k: 100 * counts.get(k, 0) / busy for k in ("seventy", "twenty", "ten")}
        found["half_awake"] = 100 * counts.get("half_awake", 0) / half
        print("\n### shares: 10 s at 99 Hz\n\n" + ", ".join(f"{k} {v:.1f} %" for k, v in found.items()), flush=True)
        worst = max(abs(found[k] - wanted) for k, wanted in
                    (("seventy", 70), ("twenty", 20), ("ten", 10), ("half_awake", 50)))
        self.found.add("shares", worst)

    def render(self):
        process, pid = self.start(self.sleepers(97, 30, 12, 8))
        if not pid:
            return
        seconds = 10 if self.options.quick else 60
        recording = os.path.join(self.scratch, "hundred.snaprec")
        try:
            self.record(pid, 99, seconds, out=recording)
        finally:
            self.end(process)
        print(f"\n### render: {seconds} s of 100 threads, 8 running; the recording is "
              f"{os.path.getsize(recording) / 2**20:.2f} MiB\n")
        print("| format | seconds | peak MiB | MiB out | MiB/s |\n|---|--:|--:|--:|--:|")
        worst, peak = 0, 0
        for name, suffix in FORMATS.items():
            out = os.path.join(self.scratch, "rendered" + suffix)
            runs = [self.timed([self.tool, "render", recording, "-f", name, "-o", out])
                    for _ in range(1 if name == "jsonl" else 3)]
            if runs[0]["status"] not in (0, 1):
                print(f"| {name} | failed: {runs[0]['stderr'][-200:]} |")
                continue
            taken, size = statistics.median(r["seconds"] for r in runs), os.path.getsize(out)
            high = max(r["peak"] for r in runs)
            os.unlink(out)
            print(f"| {name} | {taken:.2f} | {high / 2**20:.0f} | {size / 2**20:.1f} | {size / taken / 1e6:.0f} |", flush=True)
            if name == "jsonl":
                self.found.add("jsonl-speed", size / taken / 1e6)
                self.found.add("jsonl-memory", high / 1e6)
            else:
                worst, peak = max(worst, taken), max(peak, high / 1e6)
        self.found.add("render-time", worst)
        self.found.add("render-memory", peak)

    def nostop(self):
        print("\n### nostop: blocked threads read whole without a stop\n")
        print("| target | threads | blocked | whole unstopped | share | longest single stop us |\n|---|--:|--:|--:|--:|--:|")
        least = None
        for target in self.options.targets.split(","):
            command = self.command(target)
            if not command or not shutil.which(command[0][0]):
                print(f"| {target} | left out, its program is not installed |")
                continue
            process, pid = self.start(*command)
            if not pid:
                print(f"| {target} | left out, it did not get ready |")
                continue
            try:
                share = self.nostop_of(target, pid)
            finally:
                self.end(process)
            least = share if least is None else min(least, share)
        self.found.add("unstopped", least)
        self.found.add("interrupted", self.interrupted())

    def nostop_of(self, target, pid):
        done = subprocess.run([self.tool, "-p", str(pid), "--no-stop", "--json", "--per-thread"], stdout=subprocess.PIPE)
        document = json.loads(done.stdout)
        blocked = whole = 0
        for process in document["processes"]:
            for stack in process["stacks"]:
                for thread in stack["threads"]:
                    # Workers that the kernel made (io_uring) have no user stack, stopped or not.
                    if thread["state"] == "running" or thread["type"] == "kernel":
                        continue
                    blocked += 1
                    whole += thread.get("taken") == "late" and stack["unwind"] in ("complete", "guessed")
        share = 100 * whole / max(blocked, 1)
        print(f"| {target} | {document['thread_count']} | {blocked} | {whole} | {share:.1f} % "
              f"| {document.get('stop_duration_ns', 0) / 1e3:.0f} |", flush=True)
        return share

    def interrupted(self):
        """Calls that return EINTR after any ptrace stop: how many did, over 50 snapshots without one."""
        program = self.compile("early", "early.c", "-pthread")
        victim = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            pid = victim.stdout.readline().split()[1]
            for _ in range(50):
                subprocess.run([self.tool, "-p", pid, "--no-stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               check=True)
            victim.stdin.write("\n")
            victim.stdin.flush()
            return int(victim.stdout.readline())
        finally:
            victim.stdin.close()
            victim.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(oneshot.SOURCE, "build"))
    parser.add_argument("--parts", default=PARTS, metavar="A,B", help="default %(default)s")
    parser.add_argument("--targets", default=NOSTOP_TARGETS, metavar="A,B", help="of nostop; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="shorter, once")
    figures.arguments(parser)
    options = parser.parse_args()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = RecordBench(options)
    try:
        subprocess.run(["ninja", "-C", bench.build, "cli/stacksnap"], check=True, stdout=subprocess.DEVNULL)
        bench.compile_all()
        for part in options.parts.split(","):
            getattr(bench, part)()
        bench.found.finish(options, options.parts == PARTS and options.targets == NOSTOP_TARGETS and not options.quick)
        print(f"{time.monotonic() - began:.0f} s in all")
    finally:
        shutil.rmtree(bench.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
