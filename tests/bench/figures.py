# SPDX-License-Identifier: LGPL-2.1-or-later
"""The figures of all benchmarks: what is asked of each, and how doc/FIGURES.md gets what was measured.

ASKED is the one table of them. A benchmark makes a Figures of its name, adds values by their keys, and calls
finish(). A whole run then rewrites the benchmark's section of doc/FIGURES.md. A run of some parts, or a quick
one, prints its figures only; --figures FILE writes the section of any run to another file."""
import collections
import datetime
import os
import platform
import re

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENT = os.path.join(SOURCE, "doc", "FIGURES.md")
MISSING = "not measured"

Row = collections.namedtuple("Row", "key text asked form")

ASKED = {
    "snapshots": [
        Row("floor-64", "own stop / floor, 64 threads", "<= 1.3", "{:.2f}"),
        Row("floor-1000", "own stop / floor, 1,000 threads", "<= 1.1", "{:.2f}"),
        Row("seen-1000", "pause that a thread sees / floor, 1,000 threads", "<= 1.1", "{:.2f}"),
        Row("gdb-pause", "pause, 1,000 threads: gdb / stacksnap", ">= 200", "{:.0f}"),
        Row("lldb-pause", "pause, 1,000 threads: lldb / stacksnap", ">= 100", "{:.0f}"),
        Row("eu-stack-names", "time, 1,000 threads, names alone: eu-stack / stacksnap", ">= 24", "{:.0f}"),
        Row("eu-stack-lines", "time, C++ with lines and inlined functions: `eu-stack -i -s` / stacksnap", ">= 20", "{:.0f}"),
        Row("gdb-lines", "time, the same program: gdb / stacksnap", ">= 12", "{:.0f}"),
        Row("gdb-memory", "peak memory, the same program: stacksnap / gdb", "<= 0.35", "{:.2f}"),
        Row("lldb-memory", "peak memory, 10,000 threads, names alone: stacksnap / lldb", "<= 0.15", "{:.2f}"),
        Row("deep-time", "time, a stack of 10^6 frames with `-n 0`", "<= 7 s", "{:.2f} s"),
        Row("deep-memory", "peak memory, the same", "<= 600 MB", "{:.0f} MB"),
        Row("deep-usual", "peak memory, that stack with the default `-n`", "<= 200 MB", "{:.0f} MB"),
        Row("frames", "frames unwound a second: stacksnap / libunwind with its cache", ">= 10", "{:.0f}"),
        Row("same", "threads for which both find the same addresses", ">= 100 %", "{:.0f} %"),
    ],
    "recordings": [
        Row("rate-99", "1,003 threads, two of them running: rate reached at 99 Hz", ">= 98", "{:.1f}"),
        Row("stopped-99", "the same: time with a thread stopped", "<= 3 %", "{:.2f} %"),
        Row("rate-1000", "the same at 1,000 Hz: rate reached", ">= 500", "{:.0f}"),
        Row("loss", "throughput that 67 threads lose at 99 Hz: stacksnap / perf with DWARF", "<= 1", "{:.2f}"),
        Row("shares", "functions with 70, 20 and 10 % of the time, 10 s: largest error", "<= 2 points", "{:.1f} points"),
        Row("render-time", "60 s of 100 threads to the slowest format but JSON Lines", "<= 1 s", "{:.2f} s"),
        Row("render-memory", "the same: peak memory", "<= 150 MB", "{:.0f} MB"),
        Row("jsonl-speed", "the same to JSON Lines", ">= 100 MB/s", "{:,.0f} MB/s"),
        Row("jsonl-memory", "the same to JSON Lines: peak memory", "<= 150 MB", "{:.0f} MB"),
        Row("unstopped", "blocked threads read whole without a stop, least of eight programs", ">= 85 %", "{:.0f} %"),
        Row("interrupted", "calls that returned EINTR in 50 snapshots without a stop", "0", "{:.0f}"),
    ],
    "runtimes": [
        Row("go-labels", "Go, 10,000 goroutines, 5 labels each: pause", "<= 40 ms", "{:.0f} ms"),
        Row("go-plain", "Go, 10,000 goroutines without labels: pause", "<= 15 ms", "{:.0f} ms"),
        Row("many-labels", "Go, 100,000 goroutines, 5 labels each: pause", "<= 350 ms", "{:.0f} ms"),
        Row("many-labels-memory", "the same: memory of all processes of stacksnap", "<= 400 MB", "{:.0f} MB"),
        Row("many-plain", "Go, 100,000 goroutines without labels: pause", "<= 350 ms", "{:.0f} ms"),
        Row("many-plain-memory", "the same: memory of all processes of stacksnap", "<= 400 MB", "{:.0f} MB"),
        Row("delve-time", "10,000 goroutines with labels, time: delve / stacksnap", ">= 20", "{:.0f}"),
        Row("delve-pause", "the same, pause: delve / stacksnap", ">= 50", "{:.0f}"),
        Row("python", "Python, 10 threads, one 100 calls deep: pause more than without", "<= 1 ms", "{:.1f} ms"),
        Row("asyncio", "1,000 tasks of asyncio, Python of the system: pause", "<= 15 ms", "{:.1f} ms"),
        Row("asyncio-3.13", "1,000 tasks of asyncio, Python 3.13: pause", "<= 15 ms", "{:.1f} ms"),
        Row("asyncio-3.14", "1,000 tasks of asyncio, Python 3.14: pause", "<= 3 ms", "{:.1f} ms"),
        Row("php", "PHP, 30 calls deep: pause more than without", "<= 0.2 ms", "{:.1f} ms"),
        Row("record-rate", "recording of a Python program at 99 Hz: rate reached", ">= 98", "{:.1f}"),
        Row("record-stopped", "the same: time with a thread stopped", "<= 2 %", "{:.1f} %"),
        Row("record-shares", "the same: largest error of shares of 70, 20 and 10 %", "<= 2 points", "{:.1f} points"),
        Row("native-time-1", "native program of 1 thread, time: `--runtimes` auto / none", "<= 1.03", "{:.2f}"),
        Row("native-time-1000", "native program of 1,000 threads, the same", "<= 1.03", "{:.2f}"),
        Row("native-stop-1", "native program of 1 thread, own stop: `--runtimes` auto / none", "<= 1.03", "{:.2f}"),
        Row("native-stop-1000", "native program of 1,000 threads, the same", "<= 1.03", "{:.2f}"),
    ],
    "waits": [
        Row("right", "right answers about waits, owners and deadlocks", "all", "{}"),
        Row("false-owners", "owners claimed wrongly", "0", "{}"),
        Row("false-deadlocks", "false deadlocks", "0", "{}"),
        Row("missed-deadlocks", "certain deadlocks missed", "0", "{}"),
        Row("stop", "own stop, 1,000 threads at 1,000 locks: with waits / without", "<= 1.05", "{:.2f}"),
        Row("threads", "time more with waits, 1,000 threads at 1,000 locks", "<= 5 ms", "{:.1f} ms"),
        Row("sockets", "time more with waits, 10,000 sockets", "<= 60 ms", "{:.0f} ms"),
        Row("share-most", "share of a lock in the time by wait: largest error", "<= 2 points", "{:.1f} points"),
        Row("share-median", "the same: median error", "<= 2 points", "{:.1f} points"),
        Row("record", "processor time of a recording, 200 of 1,000 threads wake: with / without", "<= 1.10", "{:.2f}"),
        Row("watch", "`--watch` of 1,000 threads at rest: share of a processor", "<= 0.5 %", "{:.2f} %"),
        Row("watch-ran", "the same: threads that ran because of it", "0", "{}"),
    ],
    "shared": [
        Row("merge-speed", "`merge` of 1,000 documents of 1,001 threads, on one processor", ">= 150 MB/s", "{:.0f} MB/s"),
        Row("merge-memory", "the same: peak memory", "<= 100 MB", "{:.0f} MB"),
        Row("merge-shapes", "the same in three shapes of tree", "same bytes", "{}"),
        Row("diff-time", "`diff` of two documents of 10,000 threads in 300 stacks", "<= 0.5 s", "{:.1f} s"),
        Row("diff-memory", "the same: peak memory", "<= 150 MB", "{:.0f} MB"),
        Row("diff-many-time", "the same in 10,000 stacks", "", "{:.0f} s"),
        Row("diff-many-memory", "the same: peak memory", "", "{:.0f} MB"),
        Row("top-rest", "`top` of 1,003 threads at rest: time with a thread stopped", "<= 2 %", "{:.2f} %"),
        Row("top-running", "the same with two that run", "<= 2 %", "{:.2f} %"),
        Row("top-processor", "the same: share of a processor that it takes", "<= 10 %", "{:.1f} %"),
        Row("page-size", "page of 10,000 threads in 300 stacks: size", "<= 1.5 MB", "{:.2f} MB"),
        Row("page-ready", "the same: interactive in Chromium after", "<= 1 s", "{:.2f} s"),
        Row("page-record-size", "page of a recording of 100 threads, 60 s: size", "<= 6 MB", "{:.2f} MB"),
        Row("page-record-ready", "the same: interactive in Chromium after", "<= 2 s", "{:.2f} s"),
        Row("serve-idle", "`serve` without requests: wakeups in 30 s", "0", "{}"),
        Row("serve-memory", "memory before and after 10,000 requests", "the same", "{0[0]:.1f} and {0[1]:.1f} MB"),
        Row("serve-descriptors", "descriptors before and after 10,000 requests", "the same", "{0[0]:.0f} and {0[1]:.0f}"),
    ],
}


def arguments(parser):
    parser.add_argument("--figures", metavar="FILE",
                        help="write the section of this run to FILE; a whole run writes doc/FIGURES.md without it")


class Figures:
    def __init__(self, benchmark):
        self.benchmark, self.values = benchmark, {}

    def add(self, key, value):
        """What was measured, or None."""
        assert key in (row.key for row in ASKED[self.benchmark]), key
        if value is not None:
            self.values[key] = value

    def shown(self, row):
        return row.form.format(self.values[row.key]) if row.key in self.values else MISSING

    def verdict(self, row):
        bound, value = re.match(r"(<= |>= |)([\d.]+)", row.asked), self.values.get(row.key)
        if not bound or not isinstance(value, (int, float)):
            return ""
        within = value >= float(bound[2]) if bound[1] == ">= " else value <= float(bound[2])
        return "reached" if within else "MISSED"

    def print(self):
        print("\n### Figures to reach\n\n| figure | asked | measured | verdict |\n| --- | --: | --: | --- |")
        for row in ASKED[self.benchmark]:
            print(f"| {row.text} | {row.asked} | {self.shown(row)} | {self.verdict(row)} |", flush=True)

    def section(self):
        day, system = datetime.date.today().isoformat(), platform.freedesktop_os_release()
        kernel = ".".join(platform.release().split(".")[:2])
        return "\n".join([
            f"Measured on {day}: {platform.system()} {kernel}, {platform.machine()}, {os.cpu_count()} processors, "
            f"{system['NAME'].split()[0]} {system.get('VERSION_ID', '')}.", "", "| figure | asked | measured |", "| --- | --: | --: |",
            *(f"| {row.text} | {row.asked or '-'} | {self.shown(row)} |" for row in ASKED[self.benchmark])])

    def write(self, path):
        """Puts the section between its two marks, or at the end of a file that has none."""
        begin, end = marks(self.benchmark)
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
        if begin not in text:
            text += f"{begin}\n{end}\n"
        head, rest = text.split(begin, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{head}{begin}\n{self.section()}\n{end}{rest.split(end, 1)[1]}")

    def finish(self, options, whole):
        """Prints; of a whole run, or where --figures says so, writes."""
        self.print()
        path = options.figures or (DOCUMENT if whole else None)
        if path:
            self.write(path)
            print(f"\nwritten to {path}", flush=True)


def marks(benchmark):
    return f"<!-- begin: {benchmark} -->", f"<!-- end: {benchmark} -->"
