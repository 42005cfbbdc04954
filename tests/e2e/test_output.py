# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where the report goes: files, pipes that close, full disks, formats, colours, widths, locales."""
import fcntl
import json
import os
import pty
import re
import stat
import struct
import subprocess
import termios

from harness import Case, TARGETS, TOOL, clean_environment, need, note_options, on_screen, schema, wait_until


class Output(Case):
    asan = "all"

    def test_file_is_written_whole_and_format_follows_its_suffix(self):
        victim = self.victim("chain")
        folder = self.scratch()
        for name, is_json in (("a.json", True), ("b.txt", False), ("c", False)):
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write("old")
            got = self.run_tool("-p", victim.pid, "-o", path)
            self.assertEqual(got.raw, b"")
            text = open(path).read()
            if is_json:
                json.loads(text)
            else:
                self.assertIn("chain_hold", text)
        self.assertEqual(sorted(os.listdir(folder)), ["a.json", "b.txt", "c"])
        path = os.path.join(folder, "c")
        self.run_tool("-p", victim.pid, f"--output={path}", "--format=json")
        json.load(open(path))
        self.assertIn("chain_hold", self.run_tool("-p", victim.pid, "-o", "-", "-f", "text").text)

    def test_format_names(self):
        victim = self.victim("chain")
        for flags in (("-j",), ("--json",), ("-f", "json"), ("--format", "json")):
            self.assertEqual(self.run_tool(victim.pid, *flags).doc["process_count"], 1)

    def test_failed_write_leaves_the_old_file(self):
        victim = self.victim("chain")
        got = self.run_tool("-p", victim.pid, "-o", "/nonexistent/x", status=2)
        self.assertIn("/nonexistent/x", got.err)
        folder = self.scratch()
        os.mkdir(os.path.join(folder, "d"))
        self.run_tool("-p", victim.pid, "-o", os.path.join(folder, "d"), status=2)
        self.assertEqual(os.listdir(folder), ["d"])

    def test_fifo_and_device_are_written_straight(self):
        victim = self.victim("chain")
        fifo = os.path.join(self.scratch(), "fifo")
        os.mkfifo(fifo)
        reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
        self.addCleanup(reader.stdout.close)
        self.run_tool("-p", victim.pid, "-o", fifo)
        self.assertIn(b"chain_hold", reader.communicate(timeout=30)[0])
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
        self.run_tool("-p", victim.pid, "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_full_disk(self):
        victim = self.victim("threads", "futex:20:worker:5")
        for flags in ((), ("--json",), ("-o", "/dev/full")):
            with open("/dev/full", "w") as full:
                got = self.run_tool("-p", victim.pid, *flags, status=2, stdout=full)
            self.assertIn("No space left on device", got.err)

    def test_reader_that_goes(self):
        victim = self.victim("threads", "futex:300:worker:30")
        for flags in ([], ["--json"], ["--per-thread"]):
            read_end, write_end = os.pipe()
            os.close(read_end)
            got = self.run_tool("-p", victim.pid, *flags, status=None, stdout=write_end)
            os.close(write_end)
            self.assertEqual(got.err, "", got)
            self.assertIn(got.status, (0, 2, -13, 141), got)
        shell = subprocess.run(f"{TOOL} -p {victim.pid} --per-thread | head -n 1; exit ${{PIPESTATUS[0]}}",
                               shell=True, executable="/bin/bash", stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=clean_environment(), timeout=60)
        self.assertTrue(shell.stdout.startswith(b"stacksnap: "), shell)
        self.assertEqual(shell.stderr, b"")
        self.assert_free(victim.pid)

    def test_closed_streams(self):
        victim = self.victim("chain")
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(f"exec {TOOL} -p {victim.pid} {closed}", shell=True, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
            if ">&-" in closed.replace("2>&-", ""):
                self.assertEqual(done.returncode, 2, (closed, done))
            else:
                self.assertEqual(done.returncode, 0, (closed, done))
                self.assertIn(b"chain_hold", done.stdout)
            self.assert_free(victim.pid)

    def test_color(self):
        victim = self.victim("threads", "futex:2:worker", "spin:1:busy", running=1)
        self.assertNotIn("\x1b", self.run_tool("-p", victim.pid).text)
        got = self.run_tool("-p", victim.pid, "--color=always", color=True)
        self.assertIn("\x1b[", got.text)
        self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", got.text).count("\x1b"), 0)
        self.assertNotIn("\x1b", self.run_tool("-p", victim.pid, "--color", "never").text)
        self.assertNotIn("\x1b", self.run_tool("-p", victim.pid, "--color=always", "--json").text)
        self.assertIn("\x1b[", self.run_tool("-p", victim.pid, "--color=always", color=True,
                                             env={"NO_COLOR": "1"}).text)

    def on_a_terminal(self, victim, columns, *arguments, **extra):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        note_options(arguments)
        tool = subprocess.Popen([TOOL, "-p", str(victim.pid), *arguments], stdin=subprocess.DEVNULL,
                                stdout=slave, stderr=subprocess.DEVNULL, env=clean_environment(extra))
        os.close(slave)
        text = b""
        while True:
            try:
                got = os.read(master, 65536)
            except OSError:
                break
            if not got:
                break
            text += got
        os.close(master)
        self.assertEqual(tool.wait(30), 0)
        return text.decode()

    def test_terminal(self):
        victim = self.victim("inlined")
        plain = lambda text: re.sub(r"\x1b\[[0-9;]*m", "", text)
        coloured = self.on_a_terminal(victim, 80)
        self.assertIn("\x1b[", coloured)
        for line in plain(coloured).splitlines()[1:]:
            self.assertLessEqual(len(line), 80, line)
        self.assertNotIn("\x1b", self.on_a_terminal(victim, 80, NO_COLOR="1"))
        self.assertNotIn("\x1b", self.on_a_terminal(victim, 80, TERM="dumb"))
        name = "demo::Ring<int>::turn(std::vector<int, std::allocator<int> > const&, std::__cxx11::basic_string<"
        self.assertIn(name, plain(self.on_a_terminal(victim, 80, "--full-names")))

    def test_names_of_templates(self):
        """For people they are short wherever they are printed, for programs and on request they are whole."""
        victim = self.victim("inlined")
        brief, whole = "::turn(…)", "std::__cxx11::basic_string"
        saved = os.path.join(self.scratch(), "saved.snaprec")
        self.run_tool(*["record", victim.pid, "-o", saved, "--duration", "0.2", "--hz", "20"])
        for arguments in (["-p", victim.pid], ["-p", victim.pid, "-f", "html"], ["render", saved],
                          ["render", saved, "-f", "html"]):
            with self.subTest(arguments=arguments):
                text = self.run_tool(*arguments, free=False).text
                self.assertIn(brief, text)
                self.assertIn("std::string const", text)
                self.assertNotIn("basic_string", text)
                self.assertIn(whole, self.run_tool(*arguments, "--full-names", free=False).text)
        for kind in ("json", "folded", "speedscope", "chrome"):
            self.assertIn(whole, self.run_tool("render", saved, "-f", kind, free=False).text, kind)

    def test_width(self):
        victim = self.victim("inlined")
        for line in self.run_tool("-p", victim.pid, "--width", "70").text.splitlines()[1:]:
            self.assertLessEqual(len(line), 70, line)

    def test_locale(self):
        victim = self.victim("threads", "futex:3:worker")
        self.assertIn("×", self.run_tool("-p", victim.pid).text)
        for locale in ("C", "POSIX"):
            got = self.run_tool("-p", victim.pid, env={"LC_ALL": locale})
            self.assertTrue(got.raw.isascii(), got)
            self.assertIn("3 x worker", got.text)
        document = self.run_tool("-p", victim.pid, "--json", env={"LC_ALL": "C"})
        self.assertEqual(len(document.doc["processes"]), 1)

    def test_verbose_goes_to_stderr_or_text_only(self):
        victim = self.victim("threads", "futex:3:worker")
        self.run_tool("-v", "-p", victim.pid)
        self.run_tool("-v", "-v", "-p", victim.pid, "--json").doc

    def test_deterministic_from_a_capture(self):
        victim = self.victim("threads", "futex:9:worker", "epoll:2:p", "pipe:2:q")
        path = os.path.join(self.scratch(), "capture")
        self.run_tool("-p", victim.pid, "--save-capture", path)
        first = self.run_tool("render", path, "--json").raw
        for _ in range(3):
            self.assertEqual(self.run_tool("render", path, "--json").raw, first)

    def test_head_of_a_process(self):
        """Its memory, and its processor time: since its start, or since the snapshot before."""
        victim = self.victim("chain")
        with open(f"/proc/{victim.pid}/statm") as f:
            rss = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        node = self.node(victim.pid)
        self.assertLess(abs(node["rss_bytes"] - rss), 1 << 20)
        wait_until(lambda: " cpu since its start · " in self.run_tool("-p", victim.pid).text, "half a second")
        path = os.path.join(self.scratch(), "x")
        direct = self.run_tool("-p", victim.pid, "--save-capture", path).text
        self.assertRegex(direct, r"· up \d+s · \d+(\.\d)? % cpu since its start · \d+\.\d MB rss ·")
        self.assertEqual(self.run_tool("render", path).text, direct)
        got = self.run_tool("-p", victim.pid, "--again", "1s", "--json", status=(0, 1))
        node = got.doc["processes"][0]
        self.assertGreaterEqual(node.get("cpu_ns", 0), node.get("cpu_ns_before", 0))
        self.assertLess(abs(node["rss_bytes"] - node["rss_bytes_before"]), 1 << 20)
        path += ".json"
        with open(path, "wb") as f:
            f.write(got.raw)
        self.assertRegex(self.run_tool("render", path, status=(0, 1)).text,
                         r"· \d+(\.\d)? % cpu · \d+\.\d MB rss, \d+\.\d MB [\d.]+ m?s ago")

    def test_secrets_of_the_environment_stay_there(self):
        victim = self.program([os.path.join(TARGETS, "chain")], env=dict(os.environ, SECRET_WORD="hush-hush-77"))
        path = os.path.join(self.scratch(), "capture")
        got = self.run_tool("-p", victim.pid, "--json", "--save-capture", path)
        self.assertNotIn("hush-hush-77", got.text)


class Screen(Case):
    """A terminal of its own, with a pager and few rows."""

    def on_screen(self, *arguments, status=0, rows=10, keys=b"", **extra):
        """The text, where PAGER is `sed s/^/P:/` with a wrong status unless `extra` has another."""
        got = on_screen(arguments, {"PAGER": "sed s/^/P:/; exit 3", **extra}, rows, keys)
        self.assertEqual(got.status, status, got)
        return got.text

    def test_a_long_report_goes_through_a_pager(self):
        pid = self.victim("threads", "sleep:5:worker").pid
        command = ("--per-thread", pid)
        for extra in ({}, {"STACKSNAP_PAGER": "sed s/^/P:/", "PAGER": "exit 0"}):
            text = self.on_screen(*command, **extra)
            self.assertIn("\nP:", text)
            self.assertEqual([line for line in text.splitlines() if not line.startswith("P:")], [], text)
        self.assertIn("P:", self.on_screen("record", "-d", "0.2", "--max-stopped", "100", pid))
        self.assertIn("P:", self.on_screen("--per-thread", pid, 4000000, status=1))
        for arguments, extra in ((("--no-pager",), {}), ((), {"TERM": "dumb"}), ((), {"PAGER": ""}), ((), {"PAGER": "cat"}),
                                 ((), {"STACKSNAP_PAGER": ""}), ((), {"rows": 400}), ((), {"rows": 0}),
                                 ((), {"PAGER": "/nonexistent"}), ((), {"PAGER": None, "PATH": "/nonexistent"})):
            text = self.on_screen(*arguments, *command, **extra)
            self.assertNotIn("P:", text)
            self.assertIn("wait_sleep", text)
        text = self.on_screen(*command, PAGER="head -n 1")
        self.assertEqual(len(text.splitlines()), 1, text)

    def test_less_is_the_usual_pager(self):
        need("less")
        text = self.on_screen("--per-thread", self.victim("threads", "sleep:5:worker").pid, keys=b"q", PAGER=None)
        self.assertIn("6 threads", text)
        self.assertNotIn("wait_sleep ", text.split("wait_sleep", 2)[-1])

    def test_targets_run_while_the_pager_does(self):
        pid = self.victim("threads", "sleep:5:worker").pid
        text = self.on_screen("--per-thread", pid, PAGER=f"cat /proc/{pid}/status")
        self.assertRegex(text, r"State:\s+S[^$]*TracerPid:\s+0\n")

    def test_many_groups_are_cut(self):
        pid = self.victim("threads", "sleep:150:worker").pid
        for view in (("--summary",), ("--summary", "--flat"), ("--summary", "--group-by", "tid"), ()):
            command = ("--no-pager", "--per-thread", *view, pid)
            text = self.on_screen(*command)
            shown = len(re.findall(r"(?m)^\W*1 × ", text))
            self.assertGreater(shown, 2, text)
            self.assertLess(len(text.splitlines()), 3 * 10 + 15, text)
            self.assertIn(f"\nand {151 - shown} more groups (--all-groups)\n", text)
            for whole in (self.on_screen("--all-groups", *command), self.run_tool("--per-thread", *view, pid).text):
                self.assertEqual(len(re.findall(r"(?m)^\W*1 × ", whole)), 151, view)
                self.assertNotIn("more groups", whole)


    def test_a_list_of_names_moves_no_other_row(self):
        victim = self.victim("threads", "futex:1:one_long_name", "futex:1:another_name", "futex:1:third_name",
                             "pipe:1:reader")
        lines = self.run_tool("-p", victim.pid, "--summary", "--width", 120).text.splitlines()
        names, reader = (next(line for line in lines if name in line) for name in ("× one_long_name", "× reader"))
        self.assertLess(reader.index("sleeping"), names.index("sleeping"))


class Schema(Case):
    def test_there_is_one_and_it_is_strict(self):
        found = schema()
        self.assertIsNotNone(found, "no *.schema.json in the source tree")
        victim = self.victim("chain")
        import copy
        import jsonschema
        doc = {k: v for k, v in self.json("-p", victim.pid).items() if k != "_result"}
        check = jsonschema.validators.validator_for(found)(found)
        self.assertIsNone(next(iter(check.iter_errors(doc)), None))
        def spoiled(change):
            bad = copy.deepcopy(doc)
            change(bad)
            self.assertIsNotNone(next(iter(check.iter_errors(bad)), None), change)
        spoiled(lambda d: d.pop("schema"))
        spoiled(lambda d: d.update(schema_version=2))
        spoiled(lambda d: d["processes"][0].update(type="strange"))
        spoiled(lambda d: d["processes"][0].update(name=None))
        spoiled(lambda d: d["processes"][0]["stacks"][0].update(count="1"))
        spoiled(lambda d: d["processes"][0]["stacks"][0]["entries"][0].update(address=17))
        spoiled(lambda d: d["processes"][0]["stacks"][0].update(unwind="perhaps"))
        spoiled(lambda d: d["processes"][0]["stacks"][0]["threads"][0].update(state="tired"))


class Accepted(Case):
    """Options that change nothing that is seen here, each at least once."""

    def test_no_sandbox_and_engines(self):
        victim = self.victim("chain")
        text = self.run_tool("help", "options").text
        for arguments in (["--no-sandbox"], ["--engine", "auto"], ["--engine=libunwind"], ["--engine=ptrace", "--no-sandbox"],
                          ["--no-lines"], ["--timeout", "20000"], ["--no-idle"]):
            if arguments[0].split("=")[0] in text:
                self.run_tool("-p", victim.pid, *arguments, status=(0, 1))
