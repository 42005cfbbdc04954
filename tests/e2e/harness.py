# SPDX-License-Identifier: LGPL-2.1-or-later
"""What every end-to-end test stands on: victims that say when they are ready, runs of the tool that
are checked for the promises that always hold (nobody left stopped, no control characters, valid
JSON, no sanitizer report), and conditions that are polled against a deadline. Nothing sleeps to
synchronise, and no measured time decides a result."""
import fcntl
import functools
import json
import os
import pty
import re
import selectors
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("STACKSNAP_BUILD", os.path.join(SOURCE, "build"))
BUILD_ASAN = os.environ.get("STACKSNAP_BUILD_ASAN", "")
VARIANT = os.environ.get("STACKSNAP_VARIANT", "release")
ASAN = VARIANT == "asan"
TARGETS = os.path.join(BUILD, "tests", "targets")
TOOL = os.path.join(BUILD_ASAN if ASAN else BUILD, "cli", "stacksnap")
ROOT = os.geteuid() == 0
PATIENCE = max(1, int(os.environ.get("STACKSNAP_PATIENCE", "1")))  # how much slower than usual this machine may be
DEADLINE = 60.0 * PATIENCE  # seconds; only ever reached by something that is broken

used_options = set()


class Timeout(AssertionError):
    """Something that a test waits for did not come."""


def wait_until(condition, what, seconds=60.0):
    """Polls until condition() is true, and returns what it returned."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise Timeout(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.002)


def read_file(path, mode="r"):
    try:
        with open(path, mode) as f:
            return f.read()
    except OSError:
        return None


def proc_state(pid, tid=None):
    text = read_file(f"/proc/{pid}/task/{tid or pid}/stat", "rb")
    return text[text.rindex(b")") + 2:][:1].decode() if text else None


def tids_of(pid):
    try:
        return sorted(int(t) for t in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def status_field(pid, field, tid=None):
    text = read_file(f"/proc/{pid}/task/{tid or pid}/status", "rb") or b""
    found = re.search(rb"^" + field.encode() + rb":\s*(.*)$", text, re.M)
    return found.group(1).decode(errors="replace") if found else None


def blocked(pid, tid):
    """Asleep in a system call, by two sources."""
    call = read_file(f"/proc/{pid}/task/{tid}/syscall")
    return proc_state(pid, tid) in ("S", "D") and call is not None and not call.startswith("running")


def settle(pid, running=0):
    """Waits until all threads but `running` of them are blocked."""
    wait_until(lambda: sum(not blocked(pid, t) for t in tids_of(pid)) <= running,
               f"the threads of {pid} to block")


def missing(program, package=None):
    raise unittest.SkipTest(f"missing: {program}" + (f" (package {package})" if package else ""))


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            missing(program)


def need_namespaces(*flags, **who):
    """What unshare(1) is asked for can be had: not in every container, nor in a chroot that is no mount point."""
    need("unshare")
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL, check=False, **who).returncode:
        raise unittest.SkipTest("kernel: unshare is not permitted")


REFUSING = """#!{python}
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = [(0x20, 0, 0, 0), (0x15, 0, 3, {number}), (0x20, 0, 0, 16), (0x15, 0, 1, {argument}),
        (0x06, 0, 0, 0x00050000 | {error}), (0x06, 0, 0, 0x7fff0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(99)
os.execv({tool!r}, [{tool!r}, *sys.argv[1:]])
"""


def refusing_tool(folder, call, argument, error):
    """A program that is the tool where a system call with that first argument is refused, as a container's filter may."""
    number = {"socket": (41, 198), "prctl": (157, 167)}[call][os.uname().machine != "x86_64"]
    path = os.path.join(folder, "tool")
    with open(path, "w", encoding="utf-8") as file:
        file.write(REFUSING.format(python=sys.executable, tool=TOOL, number=number, argument=int(argument),
                                   error=int(error)))
    os.chmod(path, 0o755)
    return path


def at_level(level):
    """Of a method, where its class has another."""
    def mark(method):
        method.level = level
        return method
    return mark


def need_root():
    if not ROOT:
        raise unittest.SkipTest("root: only root can do this")


@functools.cache
def bpf_works():
    """Whether the tool reads registers by BPF here."""
    got = run_tool(["-p", str(os.getpid()), "--no-stop", "--no-children", "-v", "--json"])
    return "no_bpf" not in [warning["code"] for warning in got.doc["warnings"]]


def need_bpf():
    if not bpf_works():
        raise unittest.SkipTest("kernel: BPF is not permitted here" if ROOT else "root: only root may use BPF")


class Victim:
    """A program that prints `ready PID key=value ...` once it is in position."""

    def __init__(self, argv, settled=True, running=0, exclude=(), **popen):
        popen.setdefault("stderr", subprocess.DEVNULL)
        self.errors = popen["stderr"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True, **popen)
        self.watched = []
        try:
            self.line = self.read_line()
            words = self.line.split()
            if words[:1] == ["cannot"]:
                raise unittest.SkipTest("kernel: victim " + self.line.strip())
            if words[:1] != ["ready"]:
                raise AssertionError(f"{argv}: no readiness line but {self.line!r}")
            self.ready_pid = int(words[1])
            self.pid = self.ready_pid
            self.values = dict(w.split("=", 1) for w in words[2:] if "=" in w)
            self.watched = [self.pid]
            if settled:
                settle(self.pid, running)
        except BaseException:
            self.close()
            raise

    def read_line(self, seconds=DEADLINE):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise Timeout("no line from the victim")
        return self.process.stdout.readline().decode(errors="replace")

    def tell(self, text="\n"):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def __getitem__(self, key):
        return int(self.values[key], 0)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass


class Result:
    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.raw, self.err = argv, status, out, err
        self.text = out.decode("utf-8", errors="replace")
        self._doc = None

    @property
    def doc(self):
        if self._doc is None:
            self._doc = json.loads(self.raw.decode("utf-8"))
        return self._doc

    def __repr__(self):
        return (f"$ {' '.join(map(str, self.argv))}\nstatus {self.status}\n"
                f"--- stdout\n{self.text[:6000]}\n--- stderr\n{self.err[:3000]}")


def note_options(argv):
    """Remembers what was exercised, for the test that no option goes untested."""
    for word in argv:
        word = str(word)
        if word == "--":
            break
        if word.startswith("--"):
            used_options.add(word.split("=", 1)[0])
        elif re.fullmatch(r"-[A-Za-z].*", word):
            used_options.add(word[:2])
        elif re.fullmatch(r"[a-z]+", word):
            used_options.add(word)


SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|UndefinedBehavior")
DENIED = re.compile("[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
                    "\u2066-\u2069\ufeff\ufffe\uffff]")


def clean_environment(extra=None):
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("NO_COLOR", "DEBUGINFOD_URLS", "COLUMNS")}
    environment.update(LC_ALL="C.UTF-8", TERM="xterm",
                       ASAN_OPTIONS="exitcode=99:detect_leaks=1:abort_on_error=0",
                       UBSAN_OPTIONS="halt_on_error=1:exitcode=99:print_stacktrace=1")
    environment.update(extra or {})
    return environment


def run_tool(argv, env=None, timeout=60.0, tool=None, **popen):
    """Runs the tool to its end; `popen` goes to subprocess.Popen."""
    note_options(argv)
    timeout *= PATIENCE
    # A busy machine makes stops long, and samples would be left out for it: a matter of one test.
    if argv and argv[0] == "record" and "--max-stopped" not in argv and "--help" not in argv:
        argv = ["record", "--max-stopped", "100", *argv[1:]]
    command = [tool or TOOL] + [str(a) if not isinstance(a, bytes) else a for a in argv]
    popen.setdefault("stdin", subprocess.DEVNULL)
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    process = subprocess.Popen(command, env=clean_environment(env), **popen)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise Timeout(f"{command} did not end in {timeout:.0f} s\n{err!r}") from None
    return Result(command, process.returncode, out or b"",
                  (err or b"").decode("utf-8", errors="replace"))


def read_terminal(master, slave):
    """What is written to a terminal until its last writer has ended; both ends are closed."""
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 65536):
            text += piece
    except OSError:
        pass
    os.close(master)
    return text


def on_screen(argv, env, rows, keys=b"", tool=None, **popen):
    """Runs the tool in the foreground of a terminal of its own; `keys` are typed before. A variable of None is not
    set."""
    note_options(argv)
    environment = {name: value for name, value in clean_environment({"NO_COLOR": "1", **env}).items() if value is not None}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 120, 0, 0))
    os.write(master, keys)
    command = [tool or TOOL, *map(str, argv)]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0), **popen)
    text = read_terminal(master, slave)
    return Result(command, process.wait(60), text.replace(b"\r", b""), "")


def schema():
    """The installed JSON schema, found in the source tree."""
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        for name in names:
            if name == "stacksnap-snapshot.schema.json":
                with open(os.path.join(folder, name)) as f:
                    return json.load(f)
    return None


_validator = None


def check_schema(doc):
    global _validator
    if _validator is None:
        import jsonschema
        found = schema()
        if found is None:
            return  # one test of its own says so, not all of them; and one whether it is a schema
        _validator = jsonschema.validators.validator_for(found)(found)
    error = next(iter(_validator.iter_errors(doc)), None)
    if error:
        raise AssertionError(f"schema: {'/'.join(map(str, error.absolute_path))}: "
                             f"{error.message[:600]}")


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(node.get("children", []))


def processes(doc):
    return {node["pid"]: node for node in walk(doc["processes"])}


def threads(node):
    """tid -> (thread, stack) of a process of the document."""
    return {t["tid"]: (t, s) for s in node.get("stacks", []) for t in s.get("threads", [])}


def functions(stack, inlined=True):
    return [e.get("function") for e in stack["entries"] if inlined or not e.get("inlined")]


def addresses(stack):
    return [int(e["address"], 16) for e in stack["entries"]
            if not e.get("inlined") and not e.get("kernel")]


def stacks_of(node):
    """All of a process, those of its logical processes behind its own."""
    return node.get("stacks", []) + [s for n in walk(node.get("logical", [])) for s in n["stacks"]]


def check_counts(doc):
    """The sums that DESIGN promises, whatever was asked for."""
    nodes = list(walk(doc["processes"]))
    assert doc["process_count"] == len(nodes), "process_count"
    stacks = doc.get("stacks", []) + [s for n in nodes for s in stacks_of(n)]
    assert doc["stack_count"] == len(stacks), "stack_count"
    assert doc["thread_count"] == sum(s["count"] for s in stacks if "threads" in s), "thread_count"
    assert doc.get("task_count", 0) == sum(s["count"] for s in stacks if "tasks" in s), "task_count"
    for node in nodes:
        for place in [node, *walk(node.get("logical", []))]:
            crashed = node.get("signal", {}).get("tid")
            order = [(not any(crashed and t.get("tid") == crashed for t in s.get("threads") or s["tasks"]),
                      -s["count"], s["id"]) for s in place.get("stacks", [])]
            assert order == sorted(order), f"stacks of {node['pid']} are out of order"
        ids = [s["id"] for s in stacks_of(node)]
        for stack in stacks_of(node):
            assert stack["count"] == len(stack.get("threads") or stack["tasks"]), "count"
            tids = [t["tid"] for t in stack.get("threads", [])]
            assert tids == sorted(tids)
        assert len(ids) == len(set(ids)), f"ids of {node['pid']} are not unique"
        below = [n["pid"] for n in node.get("children", [])]
        assert below == sorted(below), f"children of {node['pid']} are out of order"


def looks(count):
    """How often a test looks that waits for a race to show. With sanitizers a look takes ten times as long, and what a
    race leads to is seen without them, too."""
    return max(3, count // 5) if ASAN else count


class Case(unittest.TestCase):
    """A test with victims. Class attributes: `asan` runs it with the sanitizer build. If that is "all", it does so in
    `./dev test --all` alone, and the other build leaves it out there; if "both", the two have it there, as it depends on
    time, on bounds of memory or on the sandbox, which sanitizers change. `alone` beside no other test; `only` names what
    one class at a time has. `level` says where it runs: "quick" everywhere, "test" not in `./dev test --quick`, "all"
    only in `./dev test --all`; a method may have its own (at_level). "all" is for what measures the machine as well as
    the code, and for what needs very much."""
    asan = False
    alone = False
    only = None
    level = "quick"
    maxDiff = None

    def setUp(self):
        self.victims = []

    def scratch(self, mode=0o755):
        """A fresh folder, removed afterwards."""
        path = tempfile.mkdtemp(prefix="stacksnap-test.")
        os.chmod(path, mode)
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def without_bpf(self):
        """The tool; where it is root's, without the rights that BPF takes."""
        if not ROOT:
            return TOOL
        need("setpriv")
        path = os.path.join(self.scratch(), "stacksnap")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec setpriv --bounding-set -sys_admin,-bpf,-perfmon {shlex.quote(TOOL)} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def adopt(self, victim):
        self.victims.append(victim)
        self.addCleanup(victim.close)
        return victim

    def victim(self, name, *args, **options):
        path = os.path.join(TARGETS, name)
        if not os.path.exists(path):
            self.fail(f"no victim {path}")
        if "user" in options:
            # Another user need not be able to reach the build, below /root for example.
            path = shutil.copy(path, self.scratch())
        return self.adopt(Victim([path, *map(str, args)], **options))

    def end_victims(self):
        """Of a test that needs what was seen of them alone: some compute for as long as they are there."""
        for victim in self.victims:
            victim.close()
        self.victims = []

    def program(self, argv, **options):
        return self.adopt(Victim(argv, **options))

    def assert_free(self, pid, stopped=False):
        """Not stopped (unless it was), and nobody traces it."""
        allowed = "T" if stopped else ""
        for tid in tids_of(pid):
            wait_until(lambda t=tid: proc_state(pid, t) not in tuple("Tt") or
                       proc_state(pid, t) in tuple(allowed), f"thread {tid} of {pid} to run", 5)
            # A look of another test at all processes may just have it.
            wait_until(lambda t=tid: status_field(pid, "TracerPid", t) in ("0", None),
                       f"the tracer of {pid}/{tid} to let go", 1)

    def run_tool(self, *argv, status=0, free=True, stopped=False, color=False, **options):
        """Runs the tool, checks what must hold of every run, and returns its Result."""
        got = run_tool(argv, **options)
        self.check(got, status, color)
        for victim in self.victims if free else ():
            for pid in victim.watched:
                self.assert_free(pid, stopped)
        return got

    def check(self, got, status, color=False):
        if SANITIZER.search(got.err):
            self.fail(f"a sanitizer reports: {got}")  # without its name, by which run.py knows a report
        if status is not None:
            wanted = status if isinstance(status, (tuple, list, set)) else (status,)
            self.assertIn(got.status, wanted, got)
        try:
            text = got.raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"stdout is not UTF-8: {got}")
        denied = DENIED.search(text)
        self.assertIsNone(denied, f"{denied and hex(ord(denied.group()))} on stdout: {got}")
        if not color:
            self.assertNotIn("\x1b", text, got)
        denied = DENIED.search(got.err)
        self.assertIsNone(denied, f"{denied and hex(ord(denied.group()))} on stderr: {got}")
        self.assertNotIn("\x1b", got.err, got)
        for line in got.err.splitlines():
            self.assertTrue(line.startswith(("stacksnap: ", " ", "\t")), f"stderr line {line!r}: {got}")

    def json(self, *argv, **options):
        """The document of a run with --json, held to the schema and to the promised sums."""
        got = self.run_tool("--json", *argv, **options)
        try:
            doc = got.doc
        except ValueError as error:
            self.fail(f"not JSON: {error}\n{got}")
        check_schema(doc)
        try:
            check_counts(doc)
        except AssertionError as error:
            self.fail(f"{error}\n{got}")
        doc["_result"] = got
        return doc

    def node(self, pid, *argv, **options):
        """The process of a run with --json, by pid."""
        doc = self.json("-p", pid, *argv, **options)
        found = processes(doc).get(pid)
        self.assertIsNotNone(found, doc["_result"])
        return found

    def stack_of(self, node, function=None, tid=None, name=None):
        """The one stack that a thread id, a thread name or a function picks."""
        hits = [s for s in node.get("stacks", [])
                if (tid is None or any(t["tid"] == tid for t in s.get("threads", []))) and
                (name is None or any(t["name"] == name for t in s.get("threads", []))) and
                (function is None or function in functions(s))]
        self.assertEqual(len(hits), 1, f"{len(hits)} stacks with {function or tid or name}: "
                         f"{json.dumps(node, indent=1)[:5000]}")
        return hits[0]

    def assert_calls(self, stack, *names):
        """These functions, innermost first, one right after the other."""
        got = functions(stack)
        for start in range(len(got) - len(names) + 1):
            if all(n is None or got[start + i] == n for i, n in enumerate(names)):
                return start
        self.fail(f"no run {names} in {got}")


def build_once(name, command, **options):
    """A program that tests compile themselves, once a build folder; a skip without its compiler."""
    need(command[0])
    folder = os.path.join(BUILD, "tests", "made")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, name)
    import fcntl
    with open(target + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [w for w in command if os.path.isfile(w)]
        fresh = os.path.exists(target) and all(
            os.path.getmtime(target) > os.path.getmtime(s) for s in sources)
        if not fresh:
            done = subprocess.run([w.replace("{out}", target) for w in command],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, **options)
            if done.returncode:
                raise AssertionError(f"{command}: {done.stdout.decode(errors='replace')}")
    return target


def source_target(name):
    return os.path.join(SOURCE, "tests", "targets", name)
