# SPDX-License-Identifier: LGPL-2.1-or-later
"""The sandbox around the process that reads files, seen from outside while the tool runs: what it may
still do, what its end costs, and that no role ever writes to a target."""
import contextlib
import errno
import os
import re
import signal
import subprocess
import time

from bounds import TRIES
from harness import (ASAN, Case, DEADLINE, PATIENCE, ROOT, SANITIZER, TOOL, Result, Timeout, clean_environment, need, need_root,
                     note_options, proc_state, processes, read_file, refusing_tool, status_field, threads,
                     tids_of)

PR_SET_DUMPABLE = 4

# What is asked for and refused on the way, by libraries that go on without it.
ASKED_IN_VAIN = {
    "mincore", "pipe2",             # libunwind, when it begins: whether memory is there
    "openat",                       # malloc, when it shrinks: the policy of memory
    "ioctl", "readlink", "prctl",   # a sanitizer, while it writes a report
}
TOUCHES_A_TARGET = re.compile(
    r"ptrace\(PTRACE_(POKE|SET|CONT|KILL|SINGLE|SYSCALL|SYSEMU|ATTACH|TRACEME)\w*|process_vm_writev\(|"
    r"pwritev?(64|2)?\(\d+</proc|write\(\d+</proc/\d+/mem")


class Running:
    """A run of the tool whose parser can be met."""

    def __init__(self, *arguments, tool=TOOL):
        note_options(arguments)
        self.command = [tool, *map(str, arguments)]
        self.process = subprocess.Popen(self.command, env=clean_environment(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def children(self, name):
        text = read_file(f"/proc/{self.process.pid}/task/{self.process.pid}/children") or ""
        return [int(p) for p in text.split() if read_file(f"/proc/{p}/comm") == name + "\n"]

    def finish(self):
        try:
            out, err = self.process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Timeout(f"{self.command} did not end") from None
        return Result(self.command, self.process.returncode, out, err.decode(errors="replace"))

    def hold_parser(self, wanted=lambda pid: True):
        """Stops the parser once it is in the sandbox, and returns its pid; None: the run was too fast."""
        while self.process.poll() is None:
            for pid in self.children("snap-parser"):
                if wanted(pid) and held(pid):
                    return pid
        return None


def has_capture(pid):
    """Whether it has been given something to read; only root is shown that. Until then it waits in the sandbox, and
    before that it has for a moment what its maker has."""
    try:
        return status_field(pid, "Seccomp") == "2" and any(
            "stacksnap-capture" in os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def held(pid):
    try:
        os.kill(pid, signal.SIGSTOP)
        while proc_state(pid) not in ("T", "Z", None):
            pass
        if proc_state(pid) == "T" and status_field(pid, "Seccomp") == "2":
            return True
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
    return False


class Sandbox(Case):
    def held_parser(self, *arguments, wanted=lambda pid: True):
        """A run and its parser, which stands still."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            running = Running(*arguments)
            self.addCleanup(running.process.stdout.close)
            self.addCleanup(running.process.stderr.close)
            pid = running.hold_parser(wanted)
            if pid:
                self.addCleanup(self.end_of, running)
                return running, pid
            running.finish()
        self.fail("no parser was met")

    @staticmethod
    def end_of(running):
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()

    def test_parser_is_powerless(self):
        victim = self.victim("threads", "futex:3:worker:5")
        running, pid = self.held_parser("-p", victim.pid)
        for field in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status_field(pid, field), 16), 0, field)
        self.assertEqual(status_field(pid, "NoNewPrivs"), "1")
        self.assertEqual(status_field(pid, "Threads"), "1")
        self.assertEqual(os.stat(f"/proc/{pid}/fd").st_uid, 0)
        if ROOT:
            self.check_as_root(pid, {0})
        os.kill(pid, signal.SIGCONT)
        got = running.finish()
        self.assertEqual(got.status, 0, got)
        self.assertIn("worker-*", got.text)
        self.assertEqual(got.err, "")

    def check_as_root(self, pid, taken, bounded=True):
        """What only root is shown of a process that may not be dumped."""
        uids = {int(u) for u in status_field(pid, "Uid").split()}
        self.assertEqual(len(uids), 1)
        self.assertFalse(uids & taken, uids)
        self.assertRegex(read_file(f"/proc/{pid}/status"), r"\nGroups:[ \t]*\n")
        self.assertEqual(int(status_field(pid, "CapBnd"), 16), 0)
        limits = read_file(f"/proc/{pid}/limits")
        for name in ("Max core file size", "Max processes", "Max locked memory"):
            self.assertRegex(limits, name + r" +0 +0 ")
        self.assertRegex(limits, r"Max open files +64 +64 ")
        self.assertRegex(limits, r"Max data size +\d+ +\d+ +bytes")
        if bounded:
            self.assertRegex(limits, r"Max cpu time +\d+ +\d+ +seconds")
        for number in os.listdir(f"/proc/{pid}/fd"):
            leads_to = os.readlink(f"/proc/{pid}/fd/{number}")
            if not leads_to.startswith(("socket:", "/memfd:", "/dev/null", "pipe:")):
                self.assertRegex(leads_to, r"\.so|/threads$|\.debug$")
                flags = re.search(r"flags:\s*(\d+)", read_file(f"/proc/{pid}/fdinfo/{number}"))
                self.assertEqual(int(flags.group(1), 8) & os.O_ACCMODE, os.O_RDONLY, leads_to)

    def test_no_other_process_has_its_uid(self):
        """Two parsers do not share one, either. The overflow uid is that of many a service, here of the target."""
        need_root()
        victim = self.victim("threads", "futex:3:worker:5", user=65534, group=65534, extra_groups=[])
        seen = {0, 65534}
        for _ in range(2):
            running, pid = self.held_parser("-p", victim.pid, wanted=has_capture)
            self.check_as_root(pid, seen)
            seen.add(int(status_field(pid, "Uid").split()[0]))
            everything = [running.process.pid, *descendants(running.process.pid)]
            self.assertIn(pid, everything)
            self.assertEqual(reached_as(65534, everything), "")
            os.kill(pid, signal.SIGCONT)
            self.assertEqual(running.finish().status, 0)

    def test_parser_of_a_recording(self):
        """The one that stays, or the one that names; the first has no limit on its whole time."""
        victim = self.victim("threads", "futex:3:worker:5")
        path = os.path.join(self.scratch(), "recording.folded")
        running, pid = self.held_parser("record", "-d", 1, "-p", victim.pid, "-o", path)
        self.assertEqual(status_field(pid, "NoNewPrivs"), "1")
        self.assertEqual(int(status_field(pid, "CapEff"), 16), 0)
        if ROOT:
            self.check_as_root(pid, {0}, bounded=False)
        os.kill(pid, signal.SIGCONT)
        got = running.finish()
        self.assertIn(got.status, (0, 1), got)
        self.assertIn("worker_main", read_file(path))

    def test_end_of_the_parser_costs_symbols_only(self):
        victim = self.victim("threads", "futex:3:worker:5")
        running, pid = self.held_parser("--json", "-p", victim.pid)
        os.kill(pid, signal.SIGKILL)
        got = running.finish()
        self.check(got, 1)
        self.check_told(got)
        node = processes(got.doc)[victim.pid]
        self.assertEqual(sorted(threads(node)), tids_of(victim.pid))
        for _, stack in threads(node).values():
            top = stack["entries"][0]
            self.assertRegex(top["address"], "^0x")
            self.assertRegex(top["offset"], "^0x")
            self.assertTrue(top["module"].startswith("/"), top)
        self.assert_free(victim.pid)

    def check_told(self, got):
        """Of the file that it was reading, or of all."""
        lines = got.err.splitlines()
        self.assertEqual(len(lines), 1, got)
        self.assertRegex(lines[0], "^stacksnap: .*symbols.* signal 9$")

    def test_end_of_every_parser(self):
        """Each is killed where it stands: the tool tries with less, says so, and ends. Where the last
        one is met too, addresses are left, which need none."""
        victim = self.victim("threads", "futex:3:worker:5")
        running, pid = self.held_parser("--json", "-p", victim.pid)
        met = 0
        while pid:
            met += 1
            os.kill(pid, signal.SIGKILL)
            pid = running.hold_parser()
        got = running.finish()
        self.check(got, 1)
        self.assertIn("signal 9", got.err)
        self.assertLess(met, 10)
        node = processes(got.doc)[victim.pid]
        self.assertEqual(sorted(threads(node)), tids_of(victim.pid))
        for _, stack in threads(node).values():
            self.assertRegex(stack["entries"][0]["address"], "^0x")
            self.assertRegex(stack["entries"][0]["offset"], "^0x")

    def killed_parsers(self, *arguments):
        """A run in which none gets as far as its sandbox."""
        need("strace")
        note_options(arguments)
        command = ["strace", "-f", "-o", os.path.join(self.scratch(), "trace"), "-e", "trace=landlock_create_ruleset",
                   "-e", "signal=none", "-e", "inject=landlock_create_ruleset:signal=KILL", TOOL, *map(str, arguments)]
        done = subprocess.run(command, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=DEADLINE, check=False)
        return Result(command, done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def test_addresses_need_no_parser(self):
        victim = self.victim("threads", "futex:3:worker:5")
        for mode in ([], ["--no-stop"], ["--engine=libunwind"], ["--state=sleeping"]):
            got = self.killed_parsers("--json", *mode, "-p", victim.pid)
            self.check(got, 1)
            lines = [line for line in got.err.splitlines() if "signal 9" in line]
            self.assertEqual(lines, ["stacksnap: symbols and all but the first frame of each stack lost: the process "
                                     "that reads files was killed by signal 9"])
            node = processes(got.doc)[victim.pid]
            self.assertEqual(sorted(threads(node)), tids_of(victim.pid))
            for _, stack in threads(node).values():
                self.assertEqual([entry for entry in stack["entries"] if not entry.get("kernel")],
                                 stack["entries"][:1])
                top = stack["entries"][0]
                self.assertRegex(top["address"], "^0x")
                self.assertRegex(top["offset"], "^0x")
                self.assertTrue(top["module"].startswith("/"), top)
                self.assertEqual(stack["unwind"], "failed")
            self.assert_free(victim.pid)

    def test_a_recording_without_parsers(self):
        victim = self.victim("threads", "futex:3:worker:5")
        got = self.killed_parsers("record", "-d", 1, "-p", victim.pid, "-f", "text")
        self.check(got, 1)
        self.assertIn("signal 9", got.err)
        self.assertIn("0x", got.text)

    def test_stopped_parser_is_given_up(self):
        """It stands still for good: the deadline of the run holds."""
        victim = self.victim("threads", "futex:3:worker:5")
        running, pid = self.held_parser("--timeout", 1500, "--json", "-p", victim.pid)
        got = running.finish()
        self.check(got, (1, 2))
        self.assertIn("symbols", got.err)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_one_that_tells_whether_a_copy_suffices_stands_still(self):
        """Each that is made does: threads are stopped alone then, and the report is there in time."""
        victims = [self.victim("threads", "futex:3:worker:5") for _ in range(4)]
        running = Running("--no-stop", "--timeout", 5000, "--json", "-p", ",".join(str(v.pid) for v in victims))
        self.addCleanup(running.process.stdout.close)
        self.addCleanup(running.process.stderr.close)
        self.addCleanup(self.end_of, running)
        met = set()
        while running.process.poll() is None:
            for pid in set(descendants(running.process.pid, "snap-parser")) - set(running.children("snap-parser")):
                if pid not in met:
                    met.add(pid)
                    send_signal(pid, signal.SIGSTOP)
        got = running.finish()
        self.check(got, (0, 1))
        for victim in victims:
            self.assertEqual(sorted(threads(processes(got.doc)[victim.pid])), tids_of(victim.pid))

    def test_without_it_is_told(self):
        victim = self.victim("chain")
        got = self.run_tool("--no-sandbox", "-p", victim.pid)
        self.assertRegex(got.err, r"^stacksnap: .*without a sandbox.*\n$")
        got = self.run_tool("--engine=ptrace", "-p", victim.pid, status=64)
        self.assertIn("--no-sandbox", got.err)
        self.assertEqual(got.text, "")

    def test_where_it_cannot_be_entered(self):
        """A step fails: nothing is read, and the message names the step and the way out."""
        victim = self.victim("chain")
        tool = refusing_tool(self.scratch(), "prctl", PR_SET_DUMPABLE, errno.EACCES)
        got = self.run_tool("--json", "-p", victim.pid, tool=tool, status=2)
        self.assertIn("cannot make the process non-dumpable", got.err)
        self.assertIn("--no-sandbox", got.err)
        self.assertEqual(got.doc["processes"], [])
        self.assert_free(victim.pid)


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def reached_as(uid, pids):
    """What a process of this user may do to others: a text, empty if nothing."""
    script = """
import os, sys
for pid in map(int, sys.argv[1:]):
    try:
        os.kill(pid, 0)
        print("may signal", pid)
    except OSError:
        pass
    for name in ("maps", "mem", "environ", "fd", "exe", "stack", "syscall"):
        path = f"/proc/{pid}/{name}"
        try:
            os.listdir(path) if name == "fd" else os.readlink(path) if name == "exe" else open(path, "rb").read(1)
            print("may read", path)
        except OSError:
            pass
"""
    done = subprocess.run(["python3", "-c", script, *map(str, pids)], user=uid, group=uid, extra_groups=[],
                          capture_output=True, text=True, timeout=DEADLINE, check=False)
    return done.stdout + done.stderr


def descendants(pid, name=None):
    found, left = [], [pid]
    while left:
        parent = left.pop()
        text = read_file(f"/proc/{parent}/task/{parent}/children") or ""
        left += map(int, text.split())
        found += [int(p) for p in text.split() if name in (None, (read_file(f"/proc/{p}/comm") or "")[:-1])]
    return found


def shared_mappings(pid):
    """With sanitizers, which map what they like, those that can be written."""
    lines = [line.split() for line in (read_file(f"/proc/{pid}/maps") or "").splitlines()]
    return [fields[0] for fields in lines if fields[1][3] == "s" and (fields[1][1] == "w" or not ASAN)]


class Sharing(Case):
    """A parser is a copy of its maker, and shares the memory of its own work with it: nothing else."""

    def look(self, least, *arguments, kills=False, own=(1,), tool=TOOL):
        """Looks at each parser of a run, until one has had so many. `own`: how many shared mappings it may have."""
        need_root()
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            seen = {}
            running = Running(*arguments, tool=tool)
            self.addCleanup(running.process.stdout.close)
            self.addCleanup(running.process.stderr.close)
            self.addCleanup(Sandbox.end_of, running)
            while running.process.poll() is None:
                for pid in descendants(running.process.pid, "snap-parser"):
                    if pid in seen or not held(pid):
                        continue
                    seen[pid] = shared_mappings(pid)
                    # It may end by itself meanwhile.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL if kills and len(seen) == 1 else signal.SIGCONT)
            got = running.finish()
            self.assertIn(got.status, (0, 1), got)
            for mappings in seen.values():
                self.assertIn(len(mappings), own, (arguments, seen))
            if len(seen) >= least:
                return
        self.fail("too few parsers were met")

    def test_of_a_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5")
        self.look(1, "-p", victim.pid)
        self.look(2, "-p", victim.pid, kills=True)

    def test_without_a_stop(self):
        """The one that tells whether a copy suffices, and the one that makes the report."""
        victim = self.victim("threads", "futex:3:worker:5")
        tool = self.without_bpf()
        self.look(2, "--no-stop", "-p", victim.pid, tool=tool)
        self.look(3, "--no-stop", "-p", victim.pid, kills=True, tool=tool)

    def test_of_a_recording(self):
        """The one that unwinds, and the one that names."""
        victim = self.victim("threads", "futex:3:worker:5")
        path = os.path.join(self.scratch(), "out.folded")
        self.look(2, "record", "-d", 1, "-p", victim.pid, "-o", path)
        self.look(3, "record", "-d", 1, "-p", victim.pid, "-o", path, kills=True)

    def test_of_files(self):
        victim = self.victim("threads", "futex:3:worker:5")
        folder = self.scratch()
        capture, document = os.path.join(folder, "capture"), os.path.join(folder, "document")
        recording = os.path.join(folder, "recording.snaprec")
        got = self.run_tool("--json", "--save-capture", capture, "-p", victim.pid)
        with open(document, "w") as f:
            f.write(got.text)
        self.run_tool("record", "-d", 1, "-p", victim.pid, "-o", recording, status=(0, 1))
        for path in (capture, document):
            self.look(1, "render", path)

    def test_of_questions_about_waits(self):
        victim = self.victim("threads", "futex:3:worker:5")
        self.look(1, "--deadlocks", "-p", victim.pid)
        self.look(1, "--watch=spinning,blocked,stuck", "--once", "--every", "0.2", "-p",
                  self.victim("threads", "spin:1:worker:1", running=1).pid)

    def test_of_a_managed_program(self):
        """The probe before the stop, which answers over its channel and shares nothing, and in a recording those
        that unwind and look at tasks."""
        need("python3")
        python = self.program(["/usr/bin/python3", "-c", "import os, threading, time\n"
                               "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
                               "print('ready', os.getpid(), flush=True)\ntime.sleep(1000)"])
        self.look(2, "-p", python.pid, own=(0, 1))
        self.look(2, "--no-stop", "-p", python.pid, own=(0, 1))
        path = os.path.join(self.scratch(), "out.folded")
        self.look(3, "record", "-d", 1, "--task-hz", 10, "-p", python.pid, "-o", path, own=(0, 1))


def whole_calls(lines):
    """Lines of strace: calls of processes that run at the same time are cut in two."""
    begun = {}
    for line in lines:
        pid, _, call = line.rstrip("\n").partition(" ")
        resumed = re.match(r"\s*<\.\.\. \w+ resumed>(.*)", call)
        if call.endswith("<unfinished ...>"):
            begun[pid] = call[:-len("<unfinished ...>")]
        elif resumed:
            yield f"{pid} {begun.pop(pid, '')}{resumed.group(1)}"
        else:
            yield f"{pid} {call}"


class Calls(Case):
    """All system calls of all roles, by strace."""

    def traced(self, *arguments):
        need("strace")
        arguments = ("--timeout", 11000 * PATIENCE, "--stop-timeout", 1000 * PATIENCE, *arguments)
        note_options(arguments)
        path = os.path.join(self.scratch(), "trace")
        command = ["strace", "-f", "-y", "-s", "64", "-o", path, TOOL, *map(str, arguments)]
        for _ in range(TRIES):
            done = subprocess.run(command, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=DEADLINE, check=False)
            err = done.stderr.decode(errors="replace")
            self.assertIsNone(SANITIZER.search(err), err)
            # Each call costs strace two stops more: on a slow machine not all is done in time, which is told.
            if not re.search("took (longer|too long)|in time|time of the run", err):
                break
        self.assertEqual(done.returncode, 0, err)
        with open(path, errors="replace") as f:
            return list(whole_calls(f))

    def check_calls(self, lines, target):
        sandboxed, seized, kept = set(), False, 0
        for line in lines:
            pid, _, call = line.partition(" ")
            call = call.strip()
            self.assertIsNone(TOUCHES_A_TARGET.search(call), line)
            self.assertFalse(re.match(rf"(kill|tgkill|tkill|rt_t?g?sigqueueinfo)\({target}\b", call), line)
            if re.match(r"open(at2?)?\(", call) and re.search(r'"[^"]*\bmem"', call):
                self.assertNotRegex(call, "O_WRONLY|O_RDWR")
            seized |= call.startswith(f"ptrace(PTRACE_SEIZE, {target}")
            if pid in sandboxed:
                kept += 1
                self.check_sandboxed(call)
            elif call.startswith("prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER") and call.endswith("= 0"):
                sandboxed.add(pid)
        self.assertTrue(seized, "nobody was stopped")
        # Where no library has debug files, few are asked for: some 40 calls.
        self.assertTrue(sandboxed and kept > 25, f"no parser was seen, or {kept} calls of it alone")

    def check_sandboxed(self, call):
        """What it does after it has entered: nothing is refused that it needs."""
        name = call.partition("(")[0]
        self.assertNotRegex(name, "^(open|socket|connect|ptrace|exec|clone|fork|kill|process_vm)\\w*$"
                            if "= -1 EPERM" not in call else "^$", call)
        if "= -1 EPERM" in call:
            self.assertIn(name, ASKED_IN_VAIN, call)
        if name in ("write", "sendmsg", "sendto") and "EPERM" not in call:
            # Only root is shown what the descriptor of such a process is.
            self.assertRegex(call, r"^\w+\(\d+(<socket:|, )", call)
        if name in ("mmap", "mprotect"):
            self.assertNotIn("PROT_EXEC", call)

    def test_nothing_is_written_to_a_target(self):
        victim = self.victim("threads", "futex:8:worker:5")
        self.check_calls(self.traced("--stop-all", "-p", victim.pid), victim.pid)
        self.assert_free(victim.pid)

    def test_what_waits_for_an_exec_is_read_by_readers_alone(self):
        """An exec can last: kernel stacks without a stop, too, are not for who reports for others."""
        victim = self.victim("threads", "futex:8:worker:5")
        lines = self.traced("-p", victim.pid, "--no-stop", "--kernel")
        names = dict(re.match(r'(\d+) .*prctl\(PR_SET_NAME, "([^"]+)"', line).groups()
                     for line in lines if "PR_SET_NAME" in line)
        opened = [line for line in lines if re.search(rf'open(at2?)?\(.*\b{victim.pid}\b.*"[^"]*\bstack"', line)]
        self.assertTrue(opened, "nobody has asked for a kernel stack")
        self.assertEqual({names.get(line.partition(" ")[0]) for line in opened}, {"snap-reader"})

    def test_nor_where_names_are_hard_to_get(self):
        """C++ and a debug file: demangling, lines and inlined functions in the sandbox."""
        victim = self.victim("inlined")
        self.check_calls(self.traced("--stop-all", "--engine=libunwind", "-p", victim.pid), victim.pid)
