#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes each system call and allocation of the tool fail once, and holds every run to what is
promised: the targets run on, no process is left over, the tool neither crashes nor hangs, the exit
status says whether the report is whole, and stderr says what failed.

    tests/faults/run.py --tool build/tests/faults/stacksnap --build build [--all] [--filter REGEX]

--all tries every errno that a call can give, at its first, second and last time, and some of them
from then on. Where a former scenario has come to a call in the same role, by the same NEAR callers
and as often, it is not tried again.
Without --all: one errno at the first time, a line that calls once however one comes to it, and none of
those that read files and write the report. Of these lines it is one half in the rounds of one day, and
the other in those of the next; --half says which. --continue FILE keeps what was tried, and goes on
behind it."""
import argparse
import collections
import contextlib
import errno
import hashlib
import json
import os
import re
import sys
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import faults  # noqa: E402
import jobs  # noqa: E402
from trial import SCENARIOS, USER_SCENARIOS, Bench, Outcome, Trial, baseline  # noqa: E402

PURE = ("lib/analyze", "analyze/", "lib/render")
NEAR = 8
LATE_TRIES = 3  # a busy machine makes a run late, a fault makes it late each time


def faults_of(site, everything):
    """(fault, which of the calls that is) for each that is tried."""
    if not everything:
        return [(faults.Fault(site, 1, 1, faults.errors_of(site)[0]), "first")]
    places = {1: "first"}
    for place, word in ((min(2, site.count), "second"), (site.count, "last")):
        places.setdefault(place, word)
    found = [(faults.Fault(site, first, 1, error), word)
             for error in faults.errors_of(site) for first, word in sorted(places.items())]
    # From now on, all of them: a resource that has run out stays so.
    if site.name in ("malloc", "calloc", "realloc", "openat64", "open64"):
        found.append((faults.Fault(site, 1, 1 << 30, faults.errors_of(site)[0]), "all"))
    return found


def all_scenarios(options):
    wanted = options.scenario.split(",") if options.scenario else None
    return [s for s in SCENARIOS + (USER_SCENARIOS if os.geteuid() == 0 else [])
            if not wanted or s.name in wanted]


@contextlib.contextmanager
def ready_bench(options):
    with tempfile.TemporaryDirectory(prefix="stacksnap-faults.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options.tool, options.build, folder)
        try:
            bench.prepare()
            yield bench
        finally:
            bench.close()


class Plan:
    """What is tried, as (name of the scenario, fault), in order."""

    def __init__(self, options, names):
        self.options, self.names = options, names
        self.wanted = re.compile(options.filter)
        self.tasks, self.done, self.tried = [], set(), {}

    def add(self, scenario, sites):
        self.names.learn(sites)
        for site in sites:
            place = site.id if self.options.all else self.names.place(site, 1)
            if not self.options.all and (place in self.done or self.is_left_out(site, place)):
                continue
            self.done.add(place)
            if site.id % self.options.parts != self.options.part:
                continue
            if self.wanted.search(f"{scenario.name} {faults.describe(site, self.names)}"):
                self.add_site(scenario, site)

    def is_left_out(self, site, place):
        """A place is in the same half in all processes of a round."""
        return self.names.folder(site).startswith(PURE) or \
            self.options.half not in (None, zlib.crc32(repr(place).encode()) % 2)

    def add_site(self, scenario, site):
        near = (site.name, site.detail, site.frames[:NEAR], self.names.role(site))
        for fault, word in faults_of(site, self.options.all):
            first = self.tried.setdefault((near, fault.error, word), scenario.name)
            if first == scenario.name:
                self.tasks.append((scenario.name, fault))

    def in_order(self):
        """Those that keep a processor busy come last."""
        slow = {s.name for s in all_scenarios(self.options) if s.spinner}
        return sorted(self.tasks, key=lambda task: task[0] in slow)


class Worker:
    """Does what the plan says, with victims of its own."""

    def __init__(self, options, bench):
        self.bench = bench
        self.scenarios = {s.name: s for s in all_scenarios(options)}
        self.whole = {}

    def __call__(self, task):
        name, fault = task
        scenario = self.scenarios[name]
        if name not in self.whole:
            self.whole[name] = baseline(self.bench, scenario)[0]
        outcome = Trial(self.bench, scenario, self.whole[name], fault).go()
        # Threads take calls from each other, so one may be met less often than before.
        if not outcome.reached and not outcome.wrong:
            outcome = Trial(self.bench, scenario, self.whole[name], fault).go()
        return outcome


@contextlib.contextmanager
def worker(options):
    with ready_bench(options) as bench:
        yield Worker(options, bench)


class Diary:
    """Outcomes that are kept in a file, if there is one. They are of one build of the tool, as sites
    are addresses."""

    def __init__(self, path, tool):
        self.known, self.file = {}, None
        if not path:
            return
        with open(tool, "rb") as f:
            head = {"tool": hashlib.sha256(f.read()).hexdigest()}
        lines = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines = [json.loads(line) for line in f if line.endswith("\n")]
        if lines and lines[0] != head:
            raise SystemExit(f"{path} is of another build of {tool}")
        self.known = {tuple(key): Outcome(*outcome) for key, outcome in lines[1:]}
        self.file = open(path, "a", encoding="utf-8")  # pylint: disable=consider-using-with
        if not lines:
            self.write(head)

    @staticmethod
    def key(task):
        name, fault = task
        return name, fault.site.id, fault.first, fault.times, fault.error

    def write(self, value):
        if self.file:
            self.file.write(json.dumps(value) + "\n")
            self.file.flush()

    def add(self, task, outcome):
        self.write([self.key(task), outcome])

    def get(self, task):
        return self.known.get(self.key(task))


class Round:
    def __init__(self, options):
        self.options = options
        self.names = faults.Names(options.tool)
        self.plan = Plan(options, self.names)
        self.tried = self.unreached = self.broken = 0
        self.statuses = {0: 0, 1: 0, 2: 0}
        self.seconds = collections.Counter()

    def make_plan(self):
        with ready_bench(self.options) as bench:
            for scenario in all_scenarios(self.options):
                before = len(self.plan.tasks)
                sites = baseline(bench, scenario)[1]
                self.plan.add(scenario, sites)
                if self.options.all:
                    print(f"{scenario.name}: {len(sites)} sites, "
                          f"{len(self.plan.tasks) - before} faults", flush=True)

    def go(self):
        diary, late = Diary(self.options.keep, self.options.tool), []
        tasks = []
        for task in self.plan.in_order():
            if diary.get(task):
                self.count(task, diary.get(task))
            else:
                tasks.append(task)

        def ended(task, outcome):
            if outcome.late:
                late.append(task)
            else:
                diary.add(task, outcome)
                self.count(task, outcome)
        with jobs.Jobs(self.options.jobs, lambda: worker(self.options)) as pool:
            pool.run(tasks, ended)
            for task in late:
                outcome = self.alone(pool, task)
                diary.add(task, outcome)
                self.count(task, outcome)

    @staticmethod
    def alone(pool, task):
        found = []
        while len(found) < LATE_TRIES and (not found or found[-1].late):
            pool.run([task], lambda _, outcome: found.append(outcome))
        return found[-1]

    def count(self, task, outcome):
        name, fault = task
        self.tried += 1
        self.unreached += not outcome.reached
        self.seconds[name] += outcome.seconds
        if outcome.status in self.statuses:
            self.statuses[outcome.status] += 1
        words = (f"{name}: {errno.errorcode[fault.error]} at call {fault.first}"
                 f"{'' if fault.times == 1 else ' and later'} of "
                 f"{faults.describe(fault.site, self.names)}")
        if outcome.wrong:
            self.broken += 1
            print(f"BROKEN {words}\n    {outcome.wrong}\n    status {outcome.status}, "
                  f"stderr: {outcome.err[:400]}", flush=True)
        elif self.options.verbose:
            print(f"status {outcome.status} {words}\n    {outcome.seconds:.2f} s, "
                  f"{outcome.err[:300]}", flush=True)


def run_all(options):
    current = Round(options)
    began = time.monotonic()
    current.make_plan()
    current.go()
    if options.all:
        print("; ".join(f"{name} {seconds:.0f} s" for name, seconds in current.seconds.items()))
    print(f"{current.tried} faults at {len(current.plan.done)} sites in "
          f"{time.monotonic() - began:.0f} s: "
          f"status 0 {current.statuses[0]} times, 1 {current.statuses[1]}, 2 {current.statuses[2]}; "
          f"{current.unreached} not reached, {current.broken} broken", flush=True)
    return current


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build/tests/faults/stacksnap")
    parser.add_argument("--build", default="build", help="where the targets are")
    parser.add_argument("--all", action="store_true", help="each errno, at several calls")
    parser.add_argument("--filter", default="", help="regular expression on scenario and site")
    parser.add_argument("--scenario", default="", help="names, with commas")
    parser.add_argument("--part", type=int, default=0, help="of --parts, counted from 0")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--half", type=int, choices=(0, 1), default=int(time.time()) // 86400 % 2, help="without --all")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time (--all: two a processor)")
    parser.add_argument("--continue", dest="keep", metavar="FILE", help="what was tried already")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each fault")
    options = parser.parse_args()
    if options.filter:
        options.half = None  # what is named is tried
    if options.jobs < 1:
        options.jobs = 2 * len(os.sched_getaffinity(0)) if options.all else 1
    return 1 if run_all(options).broken else 0


if __name__ == "__main__":
    sys.exit(main())
