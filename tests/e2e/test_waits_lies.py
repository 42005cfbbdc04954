# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory, names and descriptors that lie about what threads wait for (tests/waits/lies.c): no innocent
thread is said to hold anything with certainty, none is in a deadlock, and the rest of the report is as
it would be without the liars. See waits.py."""
from harness import walk
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
        """What stands there in the moment of the stop is said; without one nothing is certain."""
        victim = self.run_program("lies", "rewritten", settled=False)
        truths = truths_of(victim)
        waiter = next(truth["tid"] for truth in truths if truth["row"] == "rewritten")
        for options in ([], ["--explain"], ["--no-stop"], ["--no-stop", "--explain"]):
            for _ in range(3):
                doc = self.look(victim, *options)
                self.judge(truths, doc)
                self.assertNotIn("deadlocks", doc)
                if "--no-stop" in options:
                    self.assertNotEqual(waits_of(doc)[waiter]["confidence"], "certain")

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
