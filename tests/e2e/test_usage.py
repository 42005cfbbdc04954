# SPDX-License-Identifier: LGPL-2.1-or-later
"""Wrong uses of the command line: each ends with status 64 and names what to type instead."""
import os
import pty
import re
import shlex
import subprocess
import time
import unittest

from harness import Case, TOOL, clean_environment, need, need_namespaces, need_root, note_options, read_terminal, \
    run_tool
from html_pages import Page


class Remedies(Case):
    asan = True

    def refused(self, *arguments, says=(), cwd=None):
        got = self.run_tool(*arguments, status=64, cwd=cwd)
        self.assertEqual(got.raw, b"")
        lines = got.err.splitlines()
        self.assertLessEqual(len(lines), 2, got)
        self.assertTrue(all(line.startswith("stacksnap: ") for line in lines), got)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, lines[0], arguments)
        return got

    def test_name_of_a_process(self):
        victim = self.victim("chain")
        self.refused("chain", says="did you mean --name chain?")
        self.refused("top", victim.pid, "chain", says="'chain' is not a process id: did you mean --name chain?")
        got = self.refused("no-process-has-this-name", says="neither a command nor a process id")
        self.assertNotIn("did you mean", got.err)

    def test_option_of_another_command(self):
        for arguments, remedy in ((("-d", "5", "1329"), "stacksnap record -d 5 1329"),
                                  (("1329", "-d", "5"), "stacksnap record -d 5 1329"),
                                  (("top", "-d", "5", "1329"), "stacksnap record -d 5 1329"),
                                  (("list", "--again", "5", "1329"), "stacksnap --again 5 1329"),
                                  (("--once", "1329"), "without --watch: try 'stacksnap --watch --once 1329'"),
                                  (("--every", "5", "1329"), "without --watch: try 'stacksnap --watch --every 5 1329'"),
                                  (("--until", "cpu<5% for 10s", "1"), "record --until 'cpu<5% for 10s' 1'"),
                                  (("list", "--from", "5s", "1"), "with 'list', only with render"),
                                  (("render", "--kernel", "x"), "with 'render', only with snapshot, watch"),
                                  (("--watch", "--again", "5", "1"), "with --watch, only with snapshot"),
                                  (("--watch", "--save-capture", "x", "1"), "with --watch, only with snapshot")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=remedy)

    def test_process_id_that_an_option_took(self):
        pid = self.victim("chain").pid
        self.refused("--again", pid, says=f"no target: {pid} is the value of --again, did you mean '--again 1 {pid}'?")
        self.refused("record", "-d", pid, says=f"did you mean '--duration 1 {pid}'?")
        for command in ((), ("record",), ("--watch",)):
            self.refused(*command, says="no target: give a process id, or see --name")

    def test_list_of_a_watch(self):
        for conditions in ("blocked", "deadlock,stuck", "blocked>=3"):
            self.refused("--watch", conditions, "1329", says=f"did you mean --watch={conditions}?")
        self.assertNotIn("--watch=", self.refused("--watch", "blokked", "1329").err)

    def test_misspelt(self):
        for typed, meant in (("--sumary", "--summary?"), ("--summray", "--summary?"), ("--no-idel", "--no-idle?"),
                             ("--fromat=json", "--format?")):
            self.refused(typed, "1329", says=f"unknown option '{typed}': did you mean {meant}")
        for typed, meant in (("recrod", "record 1"), ("rendr", "render 1"), ("lits", "list 1"), ("snapshto", "1")):
            self.refused(typed, "1", says=(f"'{typed}' is neither", f"did you mean 'stacksnap {meant}'?"))
        self.refused("recrod", "-d", "5", "1329", says="did you mean 'stacksnap record -d 5 1329'?")
        self.refused("help", "recrod", says="no help about 'recrod': did you mean record?")
        self.refused("help", "optoins", says="did you mean options?")
        self.assertNotIn("did you mean", self.refused("--frobnicate", "1329", says="unknown option").err)
        self.assertNotIn("did you mean", self.refused("help", "xyzzy").err)

    def test_abbreviated(self):
        for typed, meant in (("--al", "--all, --all-groups?"), ("--js", "--json?"), ("--debug-di=/tmp", "--debug-dir?"),
                             ("--no-s", "--no-system, --no-stop, --no-sandbox?")):
            self.refused(typed, "1329", says=f"unknown option '{typed}': did you mean {meant}")
            self.refused("1329", typed, "--verbose", says=f"unknown option '{typed}': did you mean {meant}")
        self.refused("--nam", "chain", says="unknown option '--nam': did you mean --name?")
        self.refused("record", "--duration", "5", "--hel", says="did you mean --help?")

    def test_endings(self):
        folder = self.scratch()
        for name, remedy in (("x.svg", ".txt, .json, "), ("x.PDF", ".txt, .json, "), ("x.pprof", "use .pb.gz, or"),
                             ("x.text", "use .txt, or"), ("x.y/z.gz", "'.gz'"),
                             ("x.capture", "'.capture'")):
            for command in ((), ("record",), ("list",), ("--watch",)):
                self.refused(*command, "-o", name, "1329", says=remedy, cwd=folder)
        self.refused("-o", "x.capture", "1", says="no report ends with '.capture': try '--save-capture x.capture'")
        self.assertNotIn("--save-capture", self.refused("record", "-o", "x.capture", "1").err)
        self.assertEqual(os.listdir(folder), [])
        pid = self.victim("chain").pid
        for name in ("x", "x.28", "x.%N%%", ".svg", "tmp.abcdefgh"):
            self.run_tool("-o", name, pid, cwd=folder)
            self.assertIn("chain_hold", self.read(folder, name))
        self.run_tool("-f", "text", "-o", "x.svg", pid, cwd=folder)
        self.assertIn("chain_hold", self.read(folder, "x.svg"))

    @staticmethod
    def read(*names):
        with open(os.path.join(*names), encoding="utf-8") as file:
            return file.read()

    def test_directory_of_debug_files(self):
        for path, why in (("/nope", "No such file or directory"), ("/etc/passwd", "Not a directory")):
            self.refused("--debug-dir", "/", "--debug-dir", path, "1329", says=f"cannot search {path}: {why}")

    def test_summary_is_text(self):
        for arguments, name in ((("--json",), "json"), (("-f", "folded"), "folded"), (("-o", "x.html"), "html")):
            for command in ((), ("record",), ("render",)):
                self.refused(*command, "--summary", *arguments, "1329",
                             says=f"the format is {name}: leave --summary out, or use --format text")

    def test_command_in_a_wrong_place(self):
        self.refused("1329", "record", says="'record' must come first: try 'stacksnap record 1329'")
        self.refused("--json", "1329", "list", says="try 'stacksnap list --json 1329'")
        self.refused("snapshot", "1329", says="'snapshot' is not a command: try 'stacksnap 1329'")
        self.refused("watch", "1329", says="'watch' is not a command: try 'stacksnap --watch 1329'")

    def test_files(self):
        folder = self.scratch()
        open(os.path.join(folder, "a.snaprec"), "w").close()
        self.refused("a.snaprec", cwd=folder, says="a file: try 'stacksnap render a.snaprec'")
        for arguments, needs in ((("render",), "one file"), (("core", "a", "b"), "one file"),
                                 (("diff", "a"), "two files"), (("merge",), "at least one file")):
            self.refused(*arguments, says=f"needs {needs}: stacksnap {arguments[0]} [OPTIONS]")
        self.refused("help", "record", "top", says="takes one command")


    def proposed(self, *arguments, cwd=None):
        """The command line that is proposed in place of one; None: there is none."""
        got = self.refused(*arguments, cwd=cwd)
        found = re.search(r"(?:try|did you mean) '(stacksnap .*)'\??$", got.err.splitlines()[0])
        return found and shlex.split(found[1])[1:]

    def test_what_is_proposed_works(self):
        """Each command line that stands in place of a wrong one is run: none is a wrong use itself."""
        folder, pid = self.scratch(), str(self.victim("chain").pid)
        for name in ("a.json", "b.json"):
            self.run_tool("--json", "-o", name, pid, cwd=folder)
        self.run_tool("record", "-d", "0.2", "-o", "a.snaprec", pid, cwd=folder)
        for arguments, wanted in ((("a.json",), ["render", "a.json"]),
                                  (("--summary", "a.json"), ["render", "--summary", "a.json"]),
                                  (("a.json", "b.json", "--summary"), ["merge", "a.json", "b.json"]),
                                  (("a.json", "b.json", "-m"), ["merge", "-m", "a.json", "b.json"]),
                                  (("a.json", "b.json"), ["merge", "a.json", "b.json"]),
                                  (("--again", "1", "a.json"), ["render", "a.json"]),
                                  (("top", "a.snaprec"), ["render", "a.snaprec"]),
                                  (("list", "a.snaprec", pid), ["render", "a.snaprec"]),
                                  (("merge", "--call-tree", "a.json", "b.json"), None),
                                  (("merge", "--from", "0s", "a.snaprec"), ["render", "--from", "0s", "a.snaprec"]),
                                  (("rendr", "a.snaprec"), ["render", "a.snaprec"]),
                                  (("rendr", "a.json", "b.json"), None), (("rendr",), None), (("recrod",), None),
                                  (("merg", "a.json", "b.json"), ["merge", "a.json", "b.json"]),
                                  (("lits",), ["list"]), (("lits", "-d", "1", pid), None), (("snapshot",), None),
                                  (("recrod", "-d", "0.2", pid), ["record", "-d", "0.2", pid]),
                                  ((pid, "record", "-d", "0.2"), ["record", "-d", "0.2", pid]),
                                  (("snapshot", pid), [pid]), (("-d", "0.2", pid), ["record", "-d", "0.2", pid]),
                                  (("-d", "0.2"), None), (("-d", "0.2", "--once", pid), None),
                                  (("list", "--again", "0.1", pid), ["--again", "0.1", pid]),
                                  (("--once", pid), ["--watch", "--once", pid]), (("hlep", "x"), None)):
            with self.subTest(arguments=arguments):
                proposed = self.proposed(*arguments, cwd=folder)
                self.assertEqual(proposed, wanted)
                if proposed:
                    self.run_tool(*proposed, cwd=folder, status=(0, 1, 2, 3))

    def test_value_that_is_proposed_works(self):
        """The same of options that took the process id for their value."""
        pid = str(self.victim("chain").pid)
        tried = 0
        for name in re.findall(r"^ +(?:-\w, )?--([\w-]+)[ =][A-Z]", self.run_tool("help", "options").text, re.M):
            got = run_tool(["--" + name, pid], cwd=self.scratch())
            found = re.search(rf"did you mean '--{name} 1 {pid}'", got.err)
            tried += bool(found)
            if found:
                self.assertNotEqual(run_tool(["--" + name, "1", pid], cwd=self.scratch()).status, 64, name)
        self.assertGreater(tried, 5)


class Unreadable(Case):
    """A target that cannot be read: the reason is printed once where all is read in one place."""

    def zombie(self):
        process = subprocess.Popen(["true"])
        self.addCleanup(process.wait)
        while open(f"/proc/{process.pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.01)
        return process.pid

    def on_a_terminal(self, *arguments, **streams):
        """What a terminal shows of a run; `streams` do not lead there."""
        master, slave = pty.openpty()
        note_options(arguments)
        tool = subprocess.Popen([TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                env=clean_environment({"NO_COLOR": "1"}), **{"stdout": slave, "stderr": slave, **streams})
        text = read_terminal(master, slave)
        tool.wait(60)
        return " ".join(text.decode().split())

    def test_once_on_a_terminal(self):
        pid = self.zombie()
        reason = f"process {pid} has exited"
        whole = self.run_tool(pid, status=None)
        self.assertEqual((whole.text.count(reason), whole.err.count(reason)), (1, 1), whole)
        for options in ((), ("--summary",), ("--flat",), ("--deadlocks",)):
            self.assertEqual(self.on_a_terminal(*options, pid).count(reason), 1, options)
        self.assertEqual(self.on_a_terminal(4000000).count("4000000"), 1)
        for stream in ("stdout", "stderr"):
            self.assertEqual(self.on_a_terminal(pid, **{stream: subprocess.DEVNULL}).count(reason), 1, stream)
        self.assertEqual(self.on_a_terminal("--json", pid, stdout=subprocess.DEVNULL).count(reason), 1)

    def test_all_without_rights(self):
        need_root()
        need("setpriv")
        flags = ("--pid", "--mount", "--mount-proc", "--fork")
        need_namespaces(*flags)
        script = ('i=0; while [ $i -lt 12 ]; do sleep 60 & i=$((i + 1)); done; '
                  'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"')
        for command in ([], ["record", "-d", "1"]):
            note_options(command)
            done = subprocess.run(["unshare", *flags, "sh", "-c", script, "sh", TOOL, *command, "--all"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("run as root", done.stderr)
            if not command:
                self.assertIn("12 processes could not be read, for example: cannot trace ", done.stderr)


class Letters(Case):
    def test_states(self):
        victim = self.victim("threads", "futex:2:worker", "spin:1:busy", running=1)

        def names(states):
            doc = self.run_tool("--state", states, "--json", victim.pid, status=(0, 1)).doc
            return sorted(t["name"] for p in doc["processes"] for s in p["stacks"] for t in s["threads"])

        for letters, words in (("R", "running"), ("S", "sleeping"), ("R,S", "running,sleeping"), ("Z", "zombie")):
            self.assertEqual(names(letters), names(words))


class Nothing(Case):
    def test_that_matches(self):
        """By each filter, and all that was asked for is shown: the status is 0."""
        pid = self.victim("threads", "futex:1:waiter").pid
        for view in ((), ("--summary",), ("--flat",), ("--call-tree",), ("record", "-d", "0.3")):
            for chosen in (("--match", "no_such"), ("--thread", "no_such"), ("--state", "disk"),
                           ("--no-idle", "--thread", "waiter")):
                if chosen == ("--state", "disk") and view[:1] == ("record",):
                    continue
                self.assertIn("\nno stacks match\n", self.run_tool(*view, *chosen, pid).text, (view, chosen))
        page = os.path.join(self.scratch(), "page.html")
        self.run_tool("--thread", "no_such", pid, "-o", page)
        with open(page, encoding="utf-8") as file:
            self.assertIn("no stacks match", Page(file.read()).texts["pre"])
        doc = self.json("--thread", "no_such", pid)
        self.assertEqual((doc["stack_count"], doc["thread_count"]), (0, 0))


class Lists(Case):
    def test_without_a_target_it_lists_all(self):
        victim, other = self.victim("chain"), self.victim("chain")
        text = self.run_tool("list", status=(0, 1)).text
        for pid in (victim.pid, other.pid):
            self.assertRegex(text, rf"\b{pid}\b")
        self.assertNotRegex(self.run_tool("list", victim.pid).text, rf"\b{other.pid}\b")


if __name__ == "__main__":
    unittest.main()
