#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes each system call and allocation of the tool fail once, and holds every run to what is
promised: the targets run on, no process is left over, the tool neither crashes nor hangs, the exit
status says whether the report is whole, and stderr says what failed.

    tests/faults/run.py --tool build-faults/cli/stacksnap --build build [--all] [--filter REGEX]

--all tries every errno that a call can give, at its first, second and last time, and some of them
from then on; without it, one errno at the first, a site once however one comes to it, and none of
those that read files and write the report."""
import argparse
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]
import faults  # noqa: E402

PURE = ("lib/analyze", "analyze/", "lib/render")
TIMEOUT_MS = 4000  # of a run; what hangs is seen after it
OVERRUN = 0.5
PR_SET_CHILD_SUBREAPER = 36

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "exitcode=99:detect_leaks=1",
               "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99"}

VOLATILE = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+Z"), "TIME"),
    (re.compile(r"stopped [\d.]+ .s"), "stopped"),
    (re.compile(r"up \S+"), "up"),
    (re.compile(r" {2,}"), "  "),
]


def plain(text):
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(node.get("children", []))


def stacks_of(document):
    """What a report must not lose with status 0: processes, threads, functions of their stacks."""
    found = {}
    for node in walk(document.get("processes", [])):
        threads = {}
        for stack in node.get("stacks", []):
            entries = [[e.get(k) for k in ("function", "file", "line", "module")]
                       for e in stack["entries"]]
            # It runs, so the innermost line is that of a moment.
            if "spin" in [e.get("function") for e in stack["entries"]]:
                entries = [[function, file] for function, file, _, _ in entries]
            for thread in stack["threads"]:
                threads[thread["tid"]] = [stack["unwind"], entries]
        found[node["pid"]] = [node.get("error", {}).get("code"), threads]
    return found


def facts_of(document):
    """What it must not lose without a word."""
    names = ("name", "description", "type", "exe", "args", "uid", "user", "start_ticks", "cgroup",
             "unit", "container")
    found = {}
    for node in walk(document.get("processes", [])):
        threads = {thread["tid"]: thread.get("name") for stack in node.get("stacks", [])
                   for thread in stack["threads"]}
        found[node["pid"]] = [[node.get(name) for name in names], threads]
    return found


def threads_of(document):
    """Of a recording, whose stacks are those of a moment: who was seen at all, with a name."""
    return sorted({(node["pid"], node.get("name", ""), thread["tid"], thread.get("name", ""))
            for node in walk(document["processes"]) for stack in node.get("stacks", [])
            for thread in stack["threads"] if stack["entries"]})


class Broken(Exception):
    """A run was not as promised."""


class Scenario:
    """A way to run the tool; `arguments` are made from the victims and a scratch folder."""
    renders = False  # nobody is stopped, no victim is looked at

    def __init__(self, name, *arguments, spinner=False, user=None, kind="json"):
        self.name, self.arguments, self.kind = name, arguments, kind
        self.spinner, self.user = spinner, user

    def argv(self, bench):
        words = {"pids": ",".join(str(v.pid) for v in bench.victims(self)),
                 "saved": bench.path("saved"), "capture": bench.path("capture"),
                 "recording": bench.path("recording.snaprec"), "timeout": str(TIMEOUT_MS)}
        return [a.format(**words) for a in self.arguments]

    def content(self, bench, out):
        """What is compared with an undisturbed run: what must be the same, and what may differ with
        a word. ValueError for half a document."""
        if self.kind == "saved":
            return bench.render_saved()
        if self.kind == "text":
            return None, plain(out)
        document = json.loads(out)
        if self.kind == "recording":
            return threads_of(document), None
        return stacks_of(document), facts_of(document)


TARGETS = ("-p", "{pids}", "--timeout", "{timeout}")
SCENARIOS = [
    Scenario("json", "--json", *TARGETS),
    Scenario("text", *TARGETS, kind="text"),
    Scenario("nostop", "--json", "--no-stop", *TARGETS, spinner=True),
    Scenario("save", "--save-capture", "{saved}", "-o", "/dev/null", *TARGETS, kind="saved"),
    Scenario("list", "list", *TARGETS, kind="text"),
    Scenario("render", "render", "--json", "{capture}"),
    Scenario("record", "record", "--max-stopped", "100", "-d", "0.15", "-f", "json", *TARGETS, kind="recording",
             spinner=True),
    Scenario("snaprec", "record", "--max-stopped", "100", "-d", "0.1", "-o", "{saved}.snaprec", *TARGETS, kind="text"),
    Scenario("replay", "render", "-f", "json", "{recording}", kind="recording"),
]
USER_SCENARIOS = [
    Scenario("other-user", "--json", *TARGETS, user=65534),
]


class Bench:
    """A worker's victims and files. Its process adopts whatever the tool leaves behind."""

    def __init__(self, tool, build, folder):
        import ctypes
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.tool, self.build, self.folder = tool, build, folder
        self.page = faults.Page(os.path.join(folder, "page"))
        self.started, self.folders = {}, []
        self.plain_tool = os.path.join(build, "cli", "stacksnap")

    def path(self, name):
        return os.path.join(self.folder, name)

    def copy_for_all(self, targets):
        """Another user need not be able to reach the build, below /root for example."""
        folder = tempfile.mkdtemp(prefix="stacksnap-victims.")
        self.folders.append(folder)
        os.chmod(folder, 0o755)
        for name in ("threads", "family"):
            shutil.copy(os.path.join(targets, name), folder)
        return folder

    def victims(self, scenario):
        key = (scenario.spinner, scenario.user)
        if key not in self.started:
            from harness import Victim
            targets = os.path.join(self.build, "tests", "targets")
            options = {}
            if scenario.user:
                options = {"user": scenario.user, "group": scenario.user, "extra_groups": []}
                targets = self.copy_for_all(targets)
            orders = ["futex:2:worker:3", "epoll:1:poller:1", "pipe:1:piper"]
            running = 1 if scenario.spinner else 0
            if running:
                orders.append("spin:1:spinner")
            self.started[key] = [
                Victim([os.path.join(targets, "threads"), *orders], running=running, **options),
                Victim([os.path.join(targets, "family")], **options)]
        return self.started[key]

    def close(self):
        for victims in self.started.values():
            for victim in victims:
                victim.close()
        for folder in self.folders:
            shutil.rmtree(folder, True)

    def prepare(self):
        """Files that scenarios read, made by the same tool."""
        pids = ",".join(str(v.pid) for v in self.victims(SCENARIOS[0]))
        for argv in (["--save-capture", self.path("capture"), "-o", "/dev/null", "-p", pids],
                     ["record", "--max-stopped", "100", "-d", "0.1", "-o", self.path("recording.snaprec"), "-p", pids]):
            subprocess.run([self.tool, *argv], check=True, stderr=subprocess.DEVNULL)

    def render_saved(self):
        try:
            got = subprocess.run([self.plain_tool, "render", "--json", self.path("saved")],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 check=False)
        finally:
            if os.path.exists(self.path("saved")):
                os.unlink(self.path("saved"))
        document = json.loads(got.stdout)
        return stacks_of(document), facts_of(document)

    def run(self, scenario):
        argv = [self.tool, *scenario.argv(self)]
        began = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE,
                                   env={**os.environ, **ENVIRONMENT, **self.page.environment})
        try:
            out, err = process.communicate(timeout=TIMEOUT_MS / 1000 + 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Broken("did not end") from None
        seconds = time.monotonic() - began
        return process.returncode, out.decode(), err.decode(), seconds

    # What must hold of the machine after each run.

    def check_left_over(self):
        own = {v.process.pid for victims in self.started.values() for v in victims}
        end = time.monotonic() + 30
        while True:
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                left = {int(pid) for pid in f.read().split()} - own
            # Orphans of the victims' own making are no matter of the tool's.
            left = {pid for pid in left if not self.is_victims(pid)}
            for pid in left:
                try:
                    os.waitpid(pid, os.WNOHANG | 0x40000000)
                except ChildProcessError:
                    pass
            if not left:
                return
            if time.monotonic() > end:
                names = [comm_of(pid) for pid in left]
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                raise Broken(f"left a process: {', '.join(names)}")
            time.sleep(0.002)

    def is_victims(self, pid):
        sessions = {v.process.pid for victims in self.started.values() for v in victims}
        try:
            return os.getsid(pid) in sessions
        except OSError:
            return False

    def check_targets(self, scenario):
        for victim in self.victims(scenario):
            if victim.process.poll() is not None:
                raise Broken(f"target {victim.pid} has ended: {victim.process.returncode}")
            for pid in [victim.pid] + [int(p) for k, p in victim.values.items()
                                       if "_" in k or k == "orphan"]:
                self.check_process(pid)

    def check_process(self, pid):
        tids = os.listdir(f"/proc/{pid}/task")
        for tid in tids:
            end = time.monotonic() + 2
            while True:
                with open(f"/proc/{pid}/task/{tid}/status") as f:
                    text = f.read()
                state = re.search(r"^State:\s*(\S)", text, re.M).group(1)
                tracer = re.search(r"^TracerPid:\s*(\d+)", text, re.M).group(1)
                if state not in "tT" and tracer == "0":
                    break
                if time.monotonic() > end:
                    raise Broken(f"thread {tid} of {pid} is left in {state}, tracer {tracer}")
                time.sleep(0.001)
            spinning = re.search(r"^Name:\s*spin", text, re.M)
            if spinning:
                self.check_moves(pid, tid)

    def check_moves(self, pid, tid):
        def counter():
            with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                return int(f.read().split()[0])
        before, end = counter(), time.monotonic() + 60
        while counter() == before:
            if time.monotonic() > end:
                raise Broken(f"thread {tid} of {pid} does not run")


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return str(pid)


class Trial:
    """One run with one fault."""

    def __init__(self, bench, scenario, whole, fault):
        self.bench, self.scenario, self.whole, self.fault = bench, scenario, whole, fault
        self.status = self.out = self.err = None
        self.reached = False

    def go(self):
        """What was wrong, None if nothing was."""
        self.bench.page.inject(self.fault)
        try:
            self.status, self.out, self.err, seconds = self.bench.run(self.scenario)
            self.reached = self.bench.page.hits() > 0
            self.check_end(seconds)
            self.bench.check_left_over()
            self.bench.check_targets(self.scenario)
            self.check_report()
        except Broken as broken:
            return str(broken)
        return None

    def check_end(self, seconds):
        if "Sanitizer" in self.err or "runtime error:" in self.err:
            raise Broken("a sanitizer's report")
        if self.status not in (0, 1, 2):
            raise Broken(f"exit status {self.status}")
        if seconds > TIMEOUT_MS / 1000 + OVERRUN:
            raise Broken(f"took {seconds:.1f} s")

    def check_report(self):
        if self.status == 2 and not self.out and self.scenario.kind != "saved":
            self.check_message()
            return
        try:
            content = self.scenario.content(self.bench, self.out)
        except ValueError:
            if self.status == 2 and not self.out:
                self.check_message()
                return
            raise Broken(f"half a report with status {self.status}") from None
        if self.scenario.kind in ("json", "saved"):
            content[0].update(self.honest_ends(content[0]))
        # A recording may have seen more of a thread that runs than the undisturbed ones.
        is_whole = content[0] == self.whole[0] or difference(self.whole[0], content[0]) == "[]"
        same = is_whole and content[1:] == self.whole[1:]
        if self.status == 0 and not is_whole:
            raise Broken(f"status 0, but it differs: {difference(self.whole[0], content[0])}")
        if self.status == 0 and not same and not self.says_what_is_missing():
            raise Broken(f"missing without a word: {difference(self.whole[1], content[1])}")
        if self.status == 2 and same and self.scenario.kind == "json":
            raise Broken("status 2 with a whole report")
        if self.status:
            self.check_message()

    def honest_ends(self, got):
        """Memory that cannot be read ends a stack, which says so, and is no matter of the status."""
        found = {}
        for pid, (_, threads) in self.whole[0].items():
            if pid in got:
                found[pid] = [got[pid][0], dict(got[pid][1])]
            for tid, (_, entries) in threads.items() if pid in got else ():
                end, kept = got[pid][1].get(tid, (None, []))
                if end == "unreadable" and kept and kept == entries[:len(kept)]:
                    found[pid][1][tid] = threads[tid]
        return found

    def says_what_is_missing(self):
        """What is not for us to read is no surprise; anything else is told, if only in the list."""
        return (self.fault.error in (errno.EACCES, errno.EPERM) or "stacksnap: cannot" in self.err or
                "cannot read process" in self.out or "error: zombie" in self.out)

    def check_message(self):
        lines = [line for line in self.err.splitlines() if line.startswith("stacksnap: ")]
        if not lines:
            raise Broken(f"status {self.status} without a message")
        lost = errno.ENOMEM
        if self.fault.error != lost and all(line == "stacksnap: out of memory" for line in lines):
            raise Broken(f"{errno.errorcode[self.fault.error]} told as out of memory")


def difference(whole, got):
    if isinstance(whole, str):
        lines = set(got.splitlines())
        return repr([line for line in whole.splitlines() if line not in lines][:3])
    if not isinstance(whole, dict):
        return repr([one for one in whole if one not in got][:3])
    words = [f"no process {pid}" for pid in whole if pid not in got]
    for pid in set(whole) & set(got):
        if whole[pid][0] != got[pid][0]:
            words.append(f"{got[pid][0]} for {whole[pid][0]}")
        for tid, thread in whole[pid][1].items():
            if got[pid][1].get(tid) != thread:
                words.append(f"{got[pid][1].get(tid, 'no thread')} for {thread}"[:300])
    return "; ".join(words[:3])[:500]


def undisturbed(bench, scenario):
    """Three runs: what they show, and their sites, each as often as it was met."""
    seen, contents = {}, []
    for _ in range(3):
        bench.page.ask_for_list()
        status, out, err, _ = bench.run(scenario)
        # A busy machine misses ticks, and does not stop a thread in time: a recording says so.
        busy = "ticks were missed" in err or "could not be read at every tick" in err
        if status != 0 and not ("record" in scenario.arguments and busy):
            raise AssertionError(f"{scenario.name}: undisturbed, status {status}: {err}")
        contents.append(scenario.content(bench, out))
        for site in bench.page.sites():
            seen.setdefault(site.id, []).append(site)
    return contents, seen


def baseline(bench, scenario):
    """An undisturbed run and its sites, which two of three runs agree on. A recording of a moment
    on a busy machine may meet no thread that runs: then once more."""
    for _ in range(8):
        contents, seen = undisturbed(bench, scenario)
        if all(one == other for one, other in zip(contents[0], contents[1])):
            return contents[0], [found[-1] for found in seen.values() if len(found) >= 2]
    words = "; ".join(difference(one, other) for one, other in zip(contents[0], contents[1]) if one != other)
    raise AssertionError(f"{scenario.name}: two runs differ by themselves: {words}")


def faults_of(site, everything):
    if not everything:
        return [faults.Fault(site, 1, 1, faults.errors_of(site)[0])]
    places = sorted({1, min(2, site.count), site.count})
    found = [faults.Fault(site, first, 1, error)
             for error in faults.errors_of(site) for first in places]
    # From now on, all of them: a resource that has run out stays so.
    if site.name in ("malloc", "calloc", "realloc", "openat64", "open64"):
        found.append(faults.Fault(site, 1, 1 << 30, faults.errors_of(site)[0]))
    return found


class Round:
    def __init__(self, options):
        self.options = options
        self.names = faults.Names(options.tool)
        self.wanted = re.compile(options.filter)
        self.tried = self.unreached = 0
        self.broken, self.done = [], set()
        self.statuses = {0: 0, 1: 0, 2: 0}

    def scenario(self, bench, scenario):
        whole, sites = baseline(bench, scenario)
        self.names.learn(sites)
        for site in sites:
            place = site.id if self.options.all else self.names.place(site)
            if not self.options.all and (place in self.done or
                                         self.names.folder(site).startswith(PURE)):
                continue
            self.done.add(place)
            if site.id % self.options.parts != self.options.part:
                continue
            if self.wanted.search(f"{scenario.name} {faults.describe(site, self.names)}"):
                for fault in faults_of(site, self.options.all):
                    self.trial(Trial(bench, scenario, whole, fault))

    def trial(self, trial):
        wrong = trial.go()
        self.tried += 1
        self.unreached += not trial.reached
        if trial.status in self.statuses:
            self.statuses[trial.status] += 1
        fault = trial.fault
        words = (f"{trial.scenario.name}: {errno.errorcode[fault.error]} at call {fault.first}"
                 f"{'' if fault.times == 1 else ' and later'} of "
                 f"{faults.describe(fault.site, self.names)}")
        if wrong:
            self.broken.append(words)
            print(f"BROKEN {words}\n    {wrong}\n    status {trial.status}, "
                  f"stderr: {(trial.err or '').strip()[:400]}", flush=True)
        elif self.options.verbose:
            print(f"status {trial.status} {words}\n    {(trial.err or '').strip()[:300]}",
                  flush=True)


def run_all(options):
    current = Round(options)
    scenarios = SCENARIOS + (USER_SCENARIOS if os.geteuid() == 0 else [])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stacksnap-faults.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options.tool, options.build, folder)
        try:
            bench.prepare()
            for scenario in scenarios:
                if not options.scenario or scenario.name in options.scenario.split(","):
                    current.scenario(bench, scenario)
        finally:
            bench.close()
    print(f"{current.tried} faults at {len(current.done)} sites in {time.monotonic() - began:.0f} s: "
          f"status 0 {current.statuses[0]} times, 1 {current.statuses[1]}, 2 {current.statuses[2]}; "
          f"{current.unreached} not reached, {len(current.broken)} broken", flush=True)
    return current


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build-faults/cli/stacksnap")
    parser.add_argument("--build", default="build", help="where the targets are")
    parser.add_argument("--all", action="store_true", help="each errno, at several calls")
    parser.add_argument("--filter", default="", help="regular expression on scenario and site")
    parser.add_argument("--scenario", default="", help="names, with commas")
    parser.add_argument("--part", type=int, default=0, help="of --parts, counted from 0")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each fault")
    options = parser.parse_args()
    return 1 if run_all(options).broken else 0


if __name__ == "__main__":
    sys.exit(main())
