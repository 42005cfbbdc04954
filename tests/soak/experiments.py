#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tool survives and how often: one table of experiments, with the counts that are promised
and those of a short round.

    tests/soak/experiments.py [--build DIR] [--full | --minutes N] [EXPERIMENT...]

Prints the table of what was asked and what was measured as Markdown, and ends with 1 if something
was not reached. Without --full the counts are those of --minutes, 10 by default."""
import argparse
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))


class Experiment:
    """`count` is the promised one, `short` that of the tests; `cost` is seconds a count on a quiet
    machine of two processors. `limits` are of figures, and `always` of those of them that a short
    round and a busy machine can be held to, too. `aside` is the count in a round of all experiments, where that
    is not a share of its time."""

    def __init__(self, title, count, short, cost, asked, measured, limits=None, always=None, least=1, aside=None):
        self.aside = aside
        self.title, self.count, self.short, self.cost, self.least = title, count, short, cost, least
        self.asked, self.measured = asked, measured
        self.always = always or {}
        self.limits = dict(limits or {}, **self.always)


REST = ("nobody stopped or traced, all counters move within 100 ms, no process left over",
        "{hits} hits, {bad} bad; free after {free_us_max} us, moving after {move_us_max} us at the latest")
ROLE = ("the target runs on, status 0, 1 or 2 with a word, no process left over",
        "{hits} hits, {bad} bad; status 0: {status_0}, 1: {status_1}, 2: {status_2}")
SIGNALS = ("0 lost, 0 out of order, no stop or continue seen",
           "{queued} queued and {usr1} SIGUSR1 in {runs} runs: {lost} lost, {disorder} out of order, "
           "{stops_seen} stops and {continues_seen} continues seen")
CHURN = ("0 miss a running thread without saying so",
         "{snapshots} snapshots: {missed_silently} miss one silently, {said_so} say so, {unjudged} not judged")
HOST = ("0 drift, no child left",
        "{rounds} snapshots: {fds_drift} descriptors, {heap_drift_bytes} bytes of heap, {rss_drift_kib} KiB "
        "resident more; {children} children, {child_signals} SIGCHLD")
HOSTILE = ("nobody in t after the tool has ended or for 0.5 s more than --stop-timeout; all stacks of innocents in "
           "every report; at most 400 MB in all processes",
           "{snapshots} snapshots beside {hostile} hostile programs: {stay_stopped} stay in t, {stopped_too_long} too long "
           "({stopped_ms_max} ms at most); {missing} reports miss stacks of {innocents} innocents; {memory_kib} KiB in all "
           "processes; {wall_ms_max} ms at most; {left_over} left over")
# On a busy machine a held reader is not gone soon after what held it, and a report may be out of time.
HELD = {"stay_stopped": 0, "stopped_too_long": 0, "memory_kib": 400000}
WHOLE = {"missing": 0, "left_over": 0}
DRIFT = {"fds_drift": 0, "heap_drift_bytes": 0, "children": 0}

EXPERIMENTS = {
    "kill": Experiment("kill -9 of the tool", 5000, 40, 0.05, *REST),
    "int": Experiment("SIGINT", 500, 20, 0.05, *REST),
    "term": Experiment("SIGTERM", 500, 20, 0.05, *REST),
    "closed": Experiment("closed output", 500, 20, 0.05, *REST),
    "full": Experiment("a pipe nobody reads", 500, 20, 0.06, *REST),
    "collector": Experiment("kill -9 of the collector", 500, 20, 0.06, *ROLE),
    "parser": Experiment("kill -9 of the parser", 500, 20, 0.06, *ROLE),
    "tracer": Experiment("kill -9 of the tracing child", 500, 20, 0.06, *ROLE),
    "signals": Experiment("signals during snapshots", 100000, 10000, 0.00015, *SIGNALS, least=1000),
    "signals-record": Experiment("signals during recordings", 100000, 10000, 0.00015, *SIGNALS, least=1000),
    "signals-ended": Experiment("signals, 2,000 each, at SIGINT, SIGTERM, SIGKILL of tool and of tracer, --stop-timeout",
                                2000, 120, 0.02, *SIGNALS, least=300),
    "relay": Experiment("threads that start their successor and exit", 2000, 60, 0.012, *CHURN),
    "untraced": Experiment("the same with CLONE_UNTRACED", 2000, 60, 0.012, *CHURN),
    "threads": Experiment("short-lived threads", 2000, 60, 0.012, *CHURN),
    "forks": Experiment("short-lived children and grandchildren", 2000, 60, 0.012, *CHURN),
    "execs": Experiment("exec all the time, half by a thread", 2000, 60, 0.012, *CHURN),
    "execs-crowd": Experiment("the same with 300 threads besides", 500, 20, 0.05, *CHURN),
    "stopped": Experiment("a stopped target, snapshots and kills", 200, 12, 0.03,
                          "it stays stopped, its parent sees one stop and no continue",
                          "{snapshots} snapshots, {kills} kills: {stops_seen} stop, {continues_seen} continues, {bad} bad"),
    "many-threads": Experiment("5,001 threads", 15, 1, 0.6, "stopped at most 1.3 times as long as the floor",
                               "{stop_us} us, {percent_of_floor} % of the floor ({floor_us} us)",
                               {"percent_of_floor": 130}, least=5),
    "many-mappings": Experiment("30,000 mappings", 15, 2, 0.4, "stopped at most 20 ms, done in 1.5 s, at most 200 MB",
                                "stopped {stop_us} us, done in {wall_ms} ms, {memory_kib} KiB in all processes",
                                {"stop_us": 20000, "wall_ms": 1500}, {"memory_kib": 200000}, least=5),
    "host": Experiment("a program that uses the library", 2000, 60, 0.01, *HOST, {"rss_drift_kib": 256},
                       dict(DRIFT, child_signals=0), least=20),
    "host-threads": Experiment("the same with threads besides", 2000, 60, 0.01, *HOST, {"rss_drift_kib": 256},
                               DRIFT, least=20),
    "hostile": Experiment("snapshots among all hostile programs", 1000, 4, 1.5, *HOSTILE, WHOLE, HELD, least=4, aside=40),
    "mixed": Experiment("seconds of snapshots and recordings among them", 1200, 10, 1,
                        HOSTILE[0] + "; SIGTERM ends a recording within 2 s, SIGKILL within 1 s",
                        "{recordings} recordings ({killed} killed, within {kill_ms_max} ms; others ended within "
                        "{term_ms_max} ms) and " + HOSTILE[1], dict(WHOLE, term_ms_max=2000, kill_ms_max=1000), HELD,
                        least=10, aside=120),
}


class Outcome:
    def __init__(self, status, text, errors):
        self.status, self.errors = status, errors
        self.figures = {name: int(value) for name, value in re.findall(r"(?m)^figure (\S+) (-?\d+)$", text)}
        self.bad = re.findall(r"(?m)^bad (.*)$", text)
        self.notes = re.findall(r"(?m)^note (.*)$", text)
        self.cannot = re.search(r"(?m)^cannot (.*)$", text)
        if not self.cannot and (status not in (0, 1) or not self.figures):
            self.bad.append(f"the experiment ended with {status}: {text[-300:]} {errors[-2000:]}")

    def beyond(self, limits):
        """What is above its limit, as sentences."""
        return [f"{name} is {self.figures.get(name)}, at most {limit} is allowed" for name, limit in limits.items()
                if self.figures.get(name, limit + 1) > limit]


def environment():
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "DEBUGINFOD_URLS", "COLUMNS")}
    # Without caches of its own the allocator tells exactly how much is in use.
    return dict(kept, LC_ALL="C.UTF-8", GLIBC_TUNABLES="glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0")


def run_host(folder, build, count, threads):
    victim = subprocess.Popen([os.path.join(build, "tests", "targets", "threads"), "futex:4:waiter", "sleep:2:sleeper"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        pid = victim.stdout.readline().split()[1]
        return subprocess.run([os.path.join(folder, "soak-host"), str(count), pid, str(threads)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                              stdin=subprocess.DEVNULL)
    finally:
        victim.kill()
        victim.wait()
        victim.stdin.close()
        victim.stdout.close()


def run(name, count, build, tool=None):
    """One experiment; its Outcome."""
    folder = os.path.join(build, "tests", "soak")
    tool = tool or os.path.join(build, "cli", "stacksnap")
    if name in ("host", "host-threads"):
        done = run_host(folder, build, count, 3 if name == "host-threads" else 0)
    else:
        done = subprocess.run([os.path.join(folder, "soak"), name, str(count), tool, folder], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=environment(), stdin=subprocess.DEVNULL,
                              errors="replace")
    return Outcome(done.returncode, done.stdout, done.stderr)


def show(name, experiment, outcome, seconds):
    """A row of the table; whether all was reached."""
    bad = outcome.bad + outcome.beyond(experiment.limits)
    if outcome.cannot:
        measured = "not run here: " + outcome.cannot.group(1)
    elif outcome.figures and not set(re.findall(r"\{(\w+)\}", experiment.measured)) - set(outcome.figures) - {"bad"}:
        measured = experiment.measured.format(bad=len(outcome.bad), **outcome.figures)
    else:
        measured = "failed"
    print(f"| {experiment.title} | {experiment.asked} | {measured} |", flush=True)
    print(f"{name}: {seconds:.0f} s, {outcome.figures}", file=sys.stderr)
    # What is noted tells of whom and when, which the figures do not.
    for line in bad + (outcome.notes if bad else []):
        print(f"{name}: {line}", file=sys.stderr, flush=True)
    return not bad


def counts(options, names):
    """How often each is done, in the time that there is."""
    minutes = options.minutes or (20 if names == ["mixed"] else 10)
    aside = {} if options.full or options.names else {n: EXPERIMENTS[n].aside for n in names if EXPERIMENTS[n].aside}
    whole = sum(EXPERIMENTS[n].count * EXPERIMENTS[n].cost for n in names if n not in aside)
    share = 1 if options.full else minutes * 60 / whole
    return {n: aside.get(n) or max(EXPERIMENTS[n].least, round(EXPERIMENTS[n].count * share)) for n in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--minutes", type=float, help="10; 20 for the experiment mixed alone")
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    options = parser.parse_args()
    unknown = set(options.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    names = options.names or list(EXPERIMENTS)
    count = counts(options, names)
    print("| experiment | asked | measured |\n| --- | --- | --- |", flush=True)
    reached = True
    for name in names:
        experiment = EXPERIMENTS[name]
        began = time.monotonic()
        outcome = run(name, count[name], os.path.abspath(options.build))
        reached &= show(name, experiment, outcome, time.monotonic() - began)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
