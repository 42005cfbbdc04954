# SPDX-License-Identifier: LGPL-2.1-or-later
"""`stacksnap top` on a terminal: tmux is the terminal, types the keys, and tells what stands on the screen."""
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import unittest

from harness import BUILD, Case, DENIED, TOOL, clean_environment, need, note_options, read_file, run_tool, \
    status_field, tids_of, wait_until


class Terminal:
    """A terminal of its own, with a command in it. What stands behind the command is printed at its end."""

    def __init__(self, case, argv, columns=110, rows=30, env=None, inside=None, shell=False):
        note_options(argv)
        self.folder = case.scratch()
        self.socket = os.path.join(self.folder, "tmux")
        self.env = clean_environment(dict({"TERM": "screen"}, **(env or {})))
        command = shlex.join(["env", *(f"{k}={v}" for k, v in (inside or {}).items()), TOOL, *map(str, argv)])
        with open(os.path.join(self.folder, "run"), "w", encoding="utf-8") as script:
            script.write(f"stty -g > {self.folder}/before\n{command} 2> {self.folder}/errors\n"
                         f"echo \"status $?\"\nstty -g > {self.folder}/after\nread line\n")
        inner = "bash --norc --noprofile -i" if shell else f"sh {self.folder}/run"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), inner)
        case.addCleanup(self.close)
        if shell:
            self.type(f"PS1='prompt: '; {command}", "Enter")

    def tmux(self, *argv, check=True):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60, env=self.env, check=False)
        if check and done.returncode:
            raise AssertionError(f"tmux {argv}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode("utf-8", errors="replace")

    def close(self):
        self.tmux("kill-server", check=False)

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def write(self, text):
        self.tmux("send-keys", "-l", text)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def lines(self):
        return self.text().split("\n")

    def wait(self, pattern, without=None):
        """What stands there when the pattern does, and the other one does not."""
        def looks():
            text = self.text()
            return text if re.search(pattern, text, re.M) and not (without and re.search(without, text, re.M)) else None
        try:
            return wait_until(looks, pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{self.text()}\n{self.errors()}") from None

    def errors(self):
        try:
            with open(os.path.join(self.folder, "errors"), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def pid(self):
        """Of the tool."""
        def find():
            shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
            done = subprocess.run(["pgrep", "-P", shell, "-x", "stacksnap"], stdout=subprocess.PIPE, text=True,
                                  check=False)
            return int(done.stdout.split()[0]) if done.stdout.split() else None
        return wait_until(find, "the tool to run")

    def modes(self):
        """Of the terminal, before and after."""
        found = []
        for name in ("before", "after"):
            path = os.path.join(self.folder, name)
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path), f"the modes {name}")
            with open(path, encoding="utf-8") as file:
                found.append(file.read())
        return found


class TopCase(Case):
    def setUp(self):
        super().setUp()
        if "stacksnap top " not in run_tool(["--help"]).text:
            raise unittest.SkipTest("missing: ncursesw (package libncurses-dev), so there is no top")
        need("tmux")

    def sleepers(self):
        return self.victim("threads", "futex:5:worker", "pipe:2:reader")

    def name_file(self, screen, letter, path):
        screen.type("w")
        screen.wait("^write: s a snapshot")
        screen.type(letter)
        screen.wait(r"^file: stacksnap-\d+-\d{8}-\d{6}\.")
        screen.type("C-u")
        screen.write(path)
        screen.type("Enter")

    def free(self, pid):
        """Nobody traces it, and no thread is stopped."""
        wait_until(lambda: all(status_field(pid, "TracerPid", t) == "0" for t in tids_of(pid)), "no tracer")
        wait_until(lambda: not any((status_field(pid, "State", t) or "S")[0] in "tT" for t in tids_of(pid)),
                   "all threads to run")


class Rows(TopCase):
    def rows(self, text):
        return [line for line in text.split("\n") if re.match(r" *\d+\.\d %", line)]

    def test_what_is_urgent_comes_first(self):
        """As in a snapshot: what runs, who has a lock, who waits for it, the rest; and whose threads they are."""
        victim, other = self.victim("convoy", "4", "400000"), self.victim("threads", "spin:1:burner", running=1)
        screen = Terminal(self, ["top", "--max-stopped", "100", victim.pid, other.pid], columns=130)
        screen.wait(r"^blocked [23]\.\d threads: mutex busy, held by .*\d+ convoy \(in take\)")
        screen.wait(r"sleeping +[23]\.\d +convoy\[%d\] +convoy +take \(in .*mutex busy, held by .* convoy" % victim.pid)
        # Which thread has it is known a little later.
        screen.wait(r" RUNNING +[01]\.\d +threads\[%d\] +burner +spin *\n(.* RUNNING .*\n)*"
                    r".* take \(in .*nanosl.* sleep\n(.* mutex busy, held by .*\n)+(.* RUNNING .*\n)*.* victim_hold " % other.pid)
        # A narrow screen has names and waits all the same.
        screen.resize(80, 24)
        screen.wait(r"convoy\[%d\] +convoy +take .* mutex busy, held" % victim.pid)
        screen.resize(52, 24)
        screen.wait(r"sleeping +convoy +take .* mutex busy, \S* *$")
        screen.type("q")
        screen.wait("^status 0$")

    def test_deadlock(self):
        """A line above that of held locks says it in the words of a snapshot."""
        path = os.path.join(BUILD, "tests", "waits", "waits_dead")
        if not os.path.exists(path):
            self.skipTest("built without sanitizers alone")
        victim = self.program([path, "two"])
        screen = Terminal(self, ["top", victim.pid], columns=200)
        text = screen.wait(r"^DEADLOCK  2 threads.*: \d+ \S+ waits for \S+ mutex \S+, held by \d+ \S+; \d+ \S+ waits for")
        self.assertLess(text.index("DEADLOCK"), text.index("blocked "))
        screen.type("q")
        screen.wait("^status 0$")

    def test_groups_functions_filter_and_sort(self):
        victim = self.victim("threads", "futex:5:worker", "spin:1:burner", running=1)
        screen = Terminal(self, ["top", victim.pid])
        text = screen.wait(r"^ *\d+\.\d % +sleeping +5\.0 +worker-\* +wait_futex \(in ")
        self.assertRegex(text, r"^stacksnap top  threads\[%d\]  \d+ threads" % victim.pid)
        self.assertRegex(text, r"groups by urgency, last 5 s: running \d")
        self.assertRegex(text, r"RUNNING +\d+\.\d +burner +")
        self.assertRegex(self.rows(text)[0], "RUNNING")
        self.assertNotIn("blocked", text)
        screen.type("s")
        self.assertRegex(self.rows(screen.wait("groups by share"))[0], "wait_futex")
        screen.type("Tab")
        screen.wait("functions by share")
        screen.wait(r"wait_futex")
        screen.type("f")
        screen.wait("^filter: ")
        screen.write("(")
        screen.type("Enter")
        screen.wait("no regular expression")
        screen.type("C-u")
        screen.write("WAIT_FUT")
        screen.type("Enter")
        screen.wait("filter WAIT_FUT.*\n.*\n.*wait_futex", without="RUNNING")
        screen.type("f", "C-u")
        screen.write("nothing like it")
        screen.type("Enter")
        screen.wait("nothing matches the filter")
        screen.type("f", "C-u", "Enter")
        screen.wait("RUNNING", without="s, filter")
        screen.type("q")
        screen.wait("^status 0$")
        before, after = screen.modes()
        self.assertEqual(before, after)
        self.free(victim.pid)

    def test_enter_shows_a_stack_that_stays(self):
        victim = self.victim("threads", "futex:5:worker:3")
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("wait_futex")
        screen.type("f")
        screen.write("worker")
        screen.type("Enter")
        screen.wait("filter worker")
        screen.type("Enter")
        text = screen.wait("the innermost function first")
        self.assertRegex(text, r"(?m)^wait_futex +\S*threads\.c:\d+$")
        self.assertRegex(text, r"(?m)^threads\[%d\]  worker-\*$" % victim.pid)
        self.assertGreaterEqual(len(re.findall(r"^walk\b", text, re.M)), 2)
        victim.close()
        screen.wait("all targets have exited")
        self.assertIn("wait_futex", screen.text())
        screen.type("Escape")
        screen.wait("groups by share|all targets have exited", without="innermost function first")
        screen.type("?")
        screen.wait("regular expression")
        screen.type("Escape", "q")
        screen.wait("^status 0$")

    def test_pause(self):
        victim = self.sleepers()
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("wait_futex")
        screen.type("p")
        screen.wait("PAUSED")
        victim.close()
        screen.wait("all targets have exited")
        screen.wait("wait_futex")
        screen.type("p")
        screen.wait("wait_futex", without="PAUSED")
        screen.type("C-c")
        screen.wait("^status 0$")

    def test_rows_without_targets_are_told(self):
        screen = Terminal(self, ["top", "--timeout", "5000", 2 ** 22 + 1])
        screen.wait("^status 2$")
        self.assertRegex(screen.errors(), r"^stacksnap: .*%d" % (2 ** 22 + 1))
        screen = Terminal(self, ["top"])
        screen.wait("^status 64$")

    def test_options_of_the_command_line(self):
        victim = self.sleepers()
        screen = Terminal(self, ["top", "--hz", "50", "--max-stopped", "1", "--ring", "10", "--thread", "reader",
                                 "--color", "always", "-p", victim.pid])
        screen.wait("wait_pipe", without="wait_futex")
        path = os.path.join(self.scratch(), "ring.json")
        self.name_file(screen, "m", path)
        screen.wait("recording written to")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["recording"]["hz_asked"], 50)
        self.assertEqual(document["thread_count"], 2)
        screen.type("q")
        screen.wait("^status 0$")


class Files(TopCase):
    def test_snapshot_and_last_minute(self):
        victim = self.sleepers()
        folder = self.scratch()
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("wait_futex")
        snapshot, ring, text = (os.path.join(folder, name) for name in ("now.json", "minute.snaprec", "now"))
        self.name_file(screen, "s", snapshot)
        screen.wait("snapshot written to")
        doc = run_tool(["render", snapshot, "--json"]).doc
        self.assertEqual(doc["thread_count"], 8)
        self.name_file(screen, "m", ring)
        screen.wait("recording written to")
        doc = run_tool(["render", ring, "--json"]).doc
        self.assertEqual(doc["schema"], "stacksnap.recording")
        self.assertGreater(doc["sample_count"], 8)
        self.name_file(screen, "s", text)
        screen.wait("snapshot written to")
        with open(text, encoding="utf-8") as file:
            self.assertIn("wait_futex", file.read())
        self.name_file(screen, "s", os.path.join(folder, "none", "now.json"))
        screen.wait("cannot .*none")
        screen.wait("wait_futex")
        self.assertEqual(screen.errors(), "")
        # What was recorded is there when its targets are gone.
        victim.close()
        screen.wait("all targets have exited")
        os.unlink(ring)
        self.name_file(screen, "m", ring)
        screen.wait("recording written to")
        self.assertTrue(os.path.getsize(ring))
        screen.type("w", "Escape", "q")
        screen.wait("^status 0$")

    def test_a_number_that_is_used_again(self):
        """Whichever process has it by then is not what was asked for: nothing of it is shown or written."""
        victim = self.victim("reuse")
        path = os.path.join(self.scratch(), "now.json")
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("first_process")
        victim.tell()
        self.assertEqual(victim.read_line(), "again\n")
        screen.wait("all targets have exited")
        self.name_file(screen, "s", path)
        screen.wait("another one has its number now|snapshot written to")
        self.assertNotIn("other_process", screen.text() + str(read_file(path)))
        screen.type("q")
        screen.wait("^status 0$")


class Terminals(TopCase):
    def test_sizes(self):
        victim = self.sleepers()
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("wait_futex")
        for columns, rows, pattern in ((10, 3, r"^threads\[.*\n *\d+\.\d %"), (200, 50, r"worker-\*"), (1, 1, None),
                                       (40, 10, r"sleeping +\S"), (10, 2, r"\d %"), (80, 24, "waits for")):
            with self.subTest(columns=columns, rows=rows):
                screen.resize(columns, rows)
                # A line of one column shows nothing: what comes after it does.
                if pattern:
                    screen.wait(pattern)
                for keys in (("?",), ("Escape",), ("Enter",), ("End",), ("PageUp",), ("Escape",), ("w", "Escape"),
                             ("f", "Escape"), ("Tab",), ("Tab",), ("Down",), ("Up",)):
                    screen.type(*keys)
        screen.wait("wait_futex")
        screen.type("q")
        screen.wait("^status 0$")
        small = Terminal(self, ["top", victim.pid], columns=10, rows=3)
        small.wait(r"^ *\d+\.\d %")
        small.type("q")
        small.wait("^status 0$")

    def test_no_terminal(self):
        victim = self.sleepers()
        for options in ({}, {"stdout": subprocess.DEVNULL}):
            result = run_tool(["top", victim.pid], **options)
            self.assertEqual((result.status, result.text), (64, ""))
            self.assertRegex(result.err, r"^stacksnap: 'top' needs a terminal[^\n]*\n$")
        for term in ("dumb", "nosuchterminal"):
            # The terminal says what it is to what runs in it; here somebody knows better.
            screen = Terminal(self, ["top", victim.pid], inside={"TERM": term})
            screen.wait("^status 64$")
            self.assertRegex(screen.errors(), r"^stacksnap: 'top' cannot draw on this terminal \(TERM=%s\)[^\n]*\n$" % term)

    def test_colour(self):
        victim = self.victim("threads", "spin:1:burner", running=1)
        colour = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
        for env, argv, wanted in (({}, [], True), ({"NO_COLOR": "1"}, [], False), ({}, ["--color", "never"], False)):
            screen = Terminal(self, ["top", *argv, victim.pid], env=env)
            screen.wait("RUNNING")
            self.assertEqual(bool(colour.search(screen.text("-e"))), wanted, (env, argv))
            screen.type("q")
            screen.wait("^status 0$")

    def test_hostile_names(self):
        names = [b"\x1b]0;owned\x07", b"\x1b[2J\x1b[31m", "é\u202ex".encode(), b"\x9b5m\xff", "日本".encode()]
        pids = [self.victim("names", name.hex()).pid for name in names]
        for charset, wanted in (("C.UTF-8", [r"\x1b]0;owned\x07", r"\x1b[2J", r"é\xe2\x80\xaex", r"\x9b5m\xff", "日本"]),
                                ("C", [r"\x1b]0;owned\x07", r"\x1b[2J", r"\xc3\xa9", r"\x9b5m\xff", r"\xe6\x97\xa5"])):
            screen = Terminal(self, ["top", ",".join(map(str, pids))], columns=140, inside={"LC_ALL": charset})
            text = screen.wait("(?s)(named_main.*){5}")
            for name in wanted:
                self.assertIn(name, text)
            self.assertIn("\n", text)
            self.assertIsNone(DENIED.search(text), text)
            self.assertEqual(text.isascii(), charset == "C", text)
            for name in (r"owned", r"xff"):
                screen.type("f", "C-u")
                screen.write(name)
                screen.type("Enter")
                screen.wait("filter " + name)
                screen.type("Enter")
                text = screen.wait("innermost function first")
                self.assertRegex(text, r"(?m)^names\[\d+\]  \S*" + name)
                self.assertIsNone(DENIED.search(text), text)
                screen.type("Escape")
                screen.wait("s, filter", without="innermost function first")
            screen.type("q")
            screen.wait("^status 0$")


class Held(TopCase):
    def switches(self, pid, tid):
        return int(status_field(pid, "voluntary_ctxt_switches", tid) or 0)

    def test_a_terminal_that_takes_nothing_holds_no_recorder(self):
        write = {"x86_64": "1", "aarch64": "64"}.get(os.uname().machine)
        if not write:
            raise unittest.SkipTest(f"machine: the number of write(2) on {os.uname().machine}")
        victim = self.sleepers()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        process = subprocess.Popen([TOOL, "top", str(victim.pid)], stdin=slave, stdout=slave, stderr=subprocess.DEVNULL,
                                   env=clean_environment({"TERM": "screen"}), start_new_session=True)
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        drawn = b""

        def draws(pattern):
            nonlocal drawn
            if select.select([master], [], [], 0.01)[0]:
                drawn += os.read(master, 65536)
            return pattern in drawn

        wait_until(lambda: draws(b"wait_futex"), "the rows")
        os.set_blocking(master, False)

        def is_held():
            """It stands in the writing of its screen, which Ctrl-L asks for."""
            try:
                os.write(master, b"\x0c")
            except BlockingIOError:
                pass
            call = (read_file(f"/proc/{process.pid}/task/{process.pid}/syscall") or "").split()
            return call[:2] == [write, "0x1"]

        wait_until(is_held, "the terminal to be full")
        others = [tid for tid in tids_of(process.pid) if tid != process.pid]
        before = sum(self.switches(process.pid, tid) for tid in others)
        drawer = self.switches(process.pid, process.pid)
        wait_until(lambda: sum(self.switches(process.pid, tid) for tid in others) > before + 40, "further looks")
        self.assertEqual(self.switches(process.pid, process.pid), drawer)
        self.assertTrue(is_held())
        process.terminate()

        def has_ended():
            try:
                draws(b"")
            except OSError:
                pass
            return process.poll() is not None

        wait_until(has_ended, "the end")
        self.assertEqual(process.returncode, 0)
        self.free(victim.pid)


class Ends(TopCase):
    def test_signals_restore_the_terminal(self):
        victim = self.sleepers()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            screen = Terminal(self, ["top", victim.pid])
            screen.wait("wait_futex")
            os.kill(screen.pid(), number)
            screen.wait("^status 0$", without="wait_futex")
            before, after = screen.modes()
            self.assertEqual(before, after)
            self.free(victim.pid)

    def test_terminal_goes_away(self):
        victim = self.sleepers()
        screen = Terminal(self, ["top", victim.pid])
        screen.wait("wait_futex")
        pid = screen.pid()
        screen.close()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}") or status_field(pid, "State")[0] == "Z",
                   "the tool to end")
        self.free(victim.pid)

    def test_suspend_and_go_on(self):
        victim = self.sleepers()
        screen = Terminal(self, ["top", victim.pid], shell=True)
        screen.wait("wait_futex")
        for stop in (lambda: screen.type("C-z"), lambda: os.kill(screen.pid(), signal.SIGTSTP)):
            pid = screen.pid()
            stop()
            screen.wait("Stopped", without="wait_futex")
            wait_until(lambda: status_field(pid, "State")[0] == "T", "the tool to stop")
            self.free(victim.pid)
            screen.type("fg", "Enter")
            screen.wait("wait_futex")
            screen.type("?")
            screen.wait("regular expression")
            screen.type("Escape")
        screen.type("q")
        screen.wait("prompt: ", without="wait_futex")
        screen.type("echo status $?", "Enter")
        screen.wait("^status 0$")


if __name__ == "__main__":
    unittest.main()
