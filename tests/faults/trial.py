# SPDX-License-Identifier: LGPL-2.1-or-later
"""One run of the tool with one fault, and what must hold of it: the targets run on, no process is
left over, the tool neither crashes nor hangs, the exit status says whether the report is whole, and
stderr says what failed. Knows the ways to run it (scenarios), and what each shows undisturbed; not
which faults there are to try."""
import collections
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

TIMEOUT_MS = 4000  # of a run; what hangs is seen after it
MOST_TIMEOUT_MS = 16000  # where the machine is so busy that an undisturbed run wants more
OVERRUN = 9 / 8
BASELINES = 20  # undisturbed runs that are tried until two are whole and alike
PR_SET_CHILD_SUBREAPER = 36

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "exitcode=99:detect_leaks=1",
               "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99"}

VOLATILE = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+Z"), "TIME"),
    (re.compile(r"stopped [\d.]+ .s"), "stopped"),
    (re.compile(r"up \S+( · [\d.]+ % cpu since its start)?( · [\d.]+ MB rss)?"), "up"),
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


class Late(Broken):
    """It, or its end, took longer than it was given: no verdict where others ran beside it."""


class Scenario:
    """A way to run the tool; `arguments` are made from the victims and a scratch folder."""
    renders = False  # nobody is stopped, no victim is looked at

    def __init__(self, name, *arguments, spinner=False, user=None, kind="json"):
        self.name, self.arguments, self.kind = name, arguments, kind
        self.spinner, self.user = spinner, user

    def argv(self, bench):
        words = {"pids": ",".join(str(v.pid) for v in bench.victims(self)),
                 "saved": bench.path("saved"), "capture": bench.path("capture"),
                 "recording": bench.path("recording.snaprec"), "timeout": str(bench.timeout_ms)}
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
        self.timeout_ms = TIMEOUT_MS
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
        """Those of the scenario; the others' that run would take processors for nothing."""
        key = (scenario.spinner, scenario.user)
        for other in [k for k in self.started if k[0] and k != key]:
            for victim in self.started.pop(other):
                victim.close()
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
            program = [os.path.join(targets, "threads"), *orders]
            if running:
                # There is one for each job, and the tool is to have its turn.
                program = ["nice", "-n", "10", *program]
            self.started[key] = [
                Victim(program, running=running, **options),
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
            out, err = process.communicate(timeout=self.timeout_ms / 1000 + 30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Late("did not end") from None
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
                raise Late(f"left a process: {', '.join(names)}")
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


# What became of a run: `wrong` is None where it was as promised, `reached` whether the call was met.
Outcome = collections.namedtuple("Outcome", "status reached wrong late err seconds")


class Trial:
    """One run with one fault."""

    def __init__(self, bench, scenario, whole, fault):
        self.bench, self.scenario, self.whole, self.fault = bench, scenario, whole, fault
        self.status = self.out = self.err = None

    def go(self):
        began = time.monotonic()
        wrong, late = None, False
        self.bench.page.inject(self.fault)
        try:
            self.status, self.out, self.err, seconds = self.bench.run(self.scenario)
            self.check_end()
            self.bench.check_left_over()
            self.bench.check_targets(self.scenario)
            self.check_report()
            self.check_time(seconds)
        except Broken as broken:
            wrong, late = str(broken), isinstance(broken, Late)
        reached = self.bench.page.hits() > 0
        return Outcome(self.status, reached, wrong, late, (self.err or "").strip(),
                       time.monotonic() - began)

    def check_time(self, seconds):
        if seconds * 1000 > self.bench.timeout_ms * OVERRUN:
            raise Late(f"took {seconds:.1f} s")

    def check_end(self):
        if "Sanitizer" in self.err or "runtime error:" in self.err:
            raise Broken("a sanitizer's report")
        if self.status not in (0, 1, 2):
            raise Broken(f"exit status {self.status}")

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
            if self.status == 2 and "stacksnap: cannot write" in self.err:
                return  # what was written before stays written
            raise Broken(f"half a report with status {self.status}") from None
        if self.scenario.kind in ("json", "saved"):
            content[0].update(self.honest_ends(content[0]))
            if self.says_gone():
                content = (self.without_the_gone(content[0]), self.whole[1])
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

    def says_gone(self):
        """Whether the error means that somebody has exited, which the tool may believe."""
        return (self.fault.site.name, self.fault.error) in faults.GONE

    def without_the_gone(self, got):
        """A thread that is said to have exited may be missing, and files that nobody is there to
        open; each other thread is there."""
        found = {}
        for pid, (code, seen) in got.items():
            threads = self.whole[0].get(pid, (None, {}))[1]
            if self.fault.error == errno.EPIPE:
                same = set(threads) == set(seen)
            else:
                same = len(set(threads) - set(seen)) <= self.fault.times and all(
                    seen.get(tid, threads[tid]) == threads[tid] for tid in threads)
            found[pid] = [code, threads if same else seen]
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


class Busy(Exception):
    """An undisturbed run that was not whole, for want of a processor."""


def undisturbed(bench, scenario):
    """Three runs: what they show, and their sites, each as often as it was met."""
    seen, contents = {}, []
    for _ in range(3):
        bench.page.ask_for_list()
        status, out, err, _ = bench.run(scenario)
        # A busy machine misses ticks, and does not stop a thread in time: a recording says so.
        busy = "ticks were missed" in err or "could not be read at every tick" in err
        if status != 0 and not ("record" in scenario.arguments and busy):
            raise Busy(f"undisturbed, status {status}: {err}")
        contents.append(scenario.content(bench, out))
        for site in bench.page.sites():
            seen.setdefault(site.id, []).append(site)
    if any(one != other for one, other in zip(contents[0], contents[1])):
        raise Busy("two runs differ by themselves: " + "; ".join(
            difference(one, other) for one, other in zip(contents[0], contents[1]) if one != other))
    return contents, seen


def baseline(bench, scenario):
    """An undisturbed run and its sites, which two of three runs agree on. A recording of a moment
    on a busy machine may meet no thread that runs: then once more."""
    bench.timeout_ms = TIMEOUT_MS
    for _ in range(BASELINES):
        try:
            contents, seen = undisturbed(bench, scenario)
        except Busy as busy:
            words = busy
            bench.timeout_ms = min(2 * bench.timeout_ms, MOST_TIMEOUT_MS)
            continue
        return contents[0], [found[-1] for found in seen.values() if len(found) >= 2]
    raise AssertionError(f"{scenario.name}: {words}")
