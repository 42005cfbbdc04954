# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory, names and descriptors that lie about what threads wait for (tests/waits/lies.c): no innocent
thread is said to hold anything with certainty, none is in a deadlock, and the rest of the report is as
it would be without the liars. See waits.py."""
import os
import subprocess

from harness import Case, at_level, walk
from waits import WaitCase, truths_of, waits_of


class Lies(WaitCase):
    believed = ()

    def run_lies(self, *modes, arguments=(), build=None):
        victim = self.run_program("lies", *modes, build=build)
        truths = truths_of(victim)
        doc = self.look(victim, "--explain", *arguments)
        self.assert_nobody_is_accused(truths, doc)
        return victim, truths, doc

    def assert_nobody_is_accused(self, truths, doc):
        """Of an innocent thread nothing is said with certainty that is not true."""
        waits = waits_of(doc)
        honest = {truth["tid"] for truth in truths if truth["row"] in ("wants-real", "name.file", *self.believed)}
        self.assertEqual({truth["tid"] for truth in truths if truth["pid"] == doc["processes"][0]["pid"]} -
                         set(waits), set())
        for tid, wait in waits.items():
            if wait and tid not in honest and wait["confidence"] == "certain":
                self.assertNotIn("owner", wait, f"{tid} lied")
        self.assertFalse([cycle for cycle in doc.get("deadlocks", []) if cycle["certain"]], doc.get("deadlocks"))

    def assert_no_deadlock(self, doc):
        self.assertNotIn("deadlocks", doc)
        self.assertLessEqual({warning["code"] for warning in doc.get("warnings", [])}, {"not_one_instant"})


class Pie(Lies):
    asan = True

    def test_words_by_syscall(self):
        """What the program makes of futexes itself is no lock of the C library's, whatever it looks like."""
        _, truths, doc = self.run_lies("words:syscall")
        self.judge(truths, doc)
        self.assert_no_deadlock(doc)
        self.assertGreater(len(truths), 35)

    def test_words_by_own_instructions(self):
        _, truths, doc = self.run_lies("words:own")
        self.judge(truths, doc)
        self.assert_no_deadlock(doc)

    def test_words_without_a_stop(self):
        for how in ("words:syscall", "words:own"):
            _, _, doc = self.run_lies(how, arguments=["--no-stop"])
            self.assert_no_deadlock(doc)

    def test_pages_that_are_gone(self):
        _, truths, doc = self.run_lies("pages")
        self.judge(truths, doc)
        self.assert_no_deadlock(doc)

    def test_a_page_that_nobody_serves(self):
        """It costs the memory of this process's locks, and no thread."""
        _, truths, doc = self.run_lies("pages:served")
        self.judge(truths, doc)
        self.assertNotIn("deadlocks", doc)

    def test_words_that_are_rewritten(self):
        """What stands there in the moment of the stop, or of the second look without one, is said."""
        victim = self.run_program("lies", "rewritten", settled=False)
        truths = truths_of(victim)
        for options in ([], ["--explain"], ["--no-stop"], ["--no-stop", "--explain"]):
            for _ in range(3):
                doc = self.look(victim, *options)
                self.judge(truths, doc)
                self.assertNotIn("deadlocks", doc)

    def test_names(self):
        """Threads and files are called like parts of a report."""
        victim, truths, doc = self.run_lies("names:" + self.scratch())
        self.judge(truths, doc)
        self.assert_no_deadlock(doc)
        text = self.run_tool("-p", victim.pid).text
        self.assertFalse([line for line in text.splitlines() if line.lstrip().startswith("DEADLOCK")], text)
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"flock on \S*/pipe:\[1\], held by \d+")


class Static(Lies):
    """Here data alone tell of locks: likely at most, but for functions with names of the C library's."""
    build = "static-stripped"

    def test_words(self):
        for how in ("words:syscall", "words:own"):
            _, truths, doc = self.run_lies(how)
            innocent = {truth["tid"] for truth in truths if truth["row"].startswith("innocent")}
            for node in walk(doc["processes"]):
                self.assertTrue(all("threads" in stack for stack in node["stacks"]))
            self.assertFalse([cycle for cycle in doc.get("deadlocks", [])
                              if innocent & {link["tid"] for link in cycle["threads"]}])

    def test_pages(self):
        for how in ("pages", "pages:served"):
            self.run_lies(how)


class Musl(Static):
    """A static program that has names is its own C library, so these are believed."""
    build = "musl"
    believed = ("function.mutex", "function.rwlock")


class Numbers(Case):
    """Numbers at their extremes cost their own field at most: no report, and no name of another process."""
    asan = True
    MODES = ([], ["--json"], ["-f", "html"], ["--summary"], ["--explain"], ["--explain", "--json"], ["--deadlocks"],
             ["--no-stop"], ["--no-stop", "--json", "--explain"], ["--again", "100ms"], ["-n", "64", "--json"])
    NAMELESS = (["--summary"], ["--deadlocks"])
    PATIENT = ("--timeout", "60000", "--stop-timeout", "30000")  # 470 threads with sanitizers on a busy machine

    def assert_named(self, got, options):
        if options in self.NAMELESS:
            return
        self.assertIn("chain_hold", got.text, got)
        self.assertIn("attack_numbers", got.text, got)
        for lost in ("parser_failed", "invalid result", " lost: "):
            self.assertNotIn(lost, got.text + got.err, got)

    def look_in_all_ways(self, victim, status=(0, 3)):
        normal = self.victim("chain")
        pids = ["-p", victim.pid, "-p", normal.pid]
        for options in self.MODES:
            self.assert_named(self.run_tool(*options, *pids, *self.PATIENT, status=status, timeout=120), options)
        path = os.path.join(self.scratch(), "capture")
        self.run_tool(*pids, *self.PATIENT, "--save-capture", path, status=status, color=True)
        for options in ([], ["--json", "--explain"], ["--deadlocks"]):
            self.assert_named(self.run_tool("render", path, *options, "--timeout", "60000", status=status), options)
        return self.json(*pids, *self.PATIENT, "--explain", status=status)

    def test_waits_of_the_largest_times(self):
        victim = self.victim("attack_numbers", "real", settled=False)
        self.addCleanup(subprocess.run, ["ipcrm", "-q", victim.values["queue"], "-s", victim.values["set"]],
                        check=False, capture_output=True)
        doc = self.look_in_all_ways(victim)
        waits = [thread["wait"] for node in walk(doc["processes"]) for stack in node["stacks"]
                 for thread in stack.get("threads", []) if "wait" in thread]
        timer = [wait for wait in waits if wait["kind"] == "timerfd"]
        self.assertTrue(timer and all(wait["remaining_ns"] > 2 ** 60 for wait in timer), timer)
        path = os.path.join(self.scratch(), "long.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "1", "-o", path)
        self.assertIn("read_timer", self.run_tool("render", path).text)

    @at_level("all")
    def test_each_call_with_each_extreme(self):
        """A call that the kernel would refuse is held before it can, so its arguments may be anything."""
        for value in (0, 1, -1, -5, 2 ** 31 - 1, 2 ** 31, 2 ** 62, 2 ** 63 - 1, 2 ** 63):
            victim = self.victim("attack_numbers", "calls", value % 2 ** 64)
            self.look_in_all_ways(victim)
            victim.close()

    @at_level("test")
    def test_chain_of_joins(self):
        victim = self.victim("attack_numbers", "chain", 1000)
        self.look_in_all_ways(victim)
        victim.close()
