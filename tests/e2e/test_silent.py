# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that does not respond costs itself and nobody else: whoever is looked at beside it is
reported in full, and it is named, with an error."""
from harness import Case, need_root, processes, threads

MOST_MS = 5000  # --timeout: what is late by then is lost with all else


class Silent(Case):
    mode = None
    what = None

    def setUp(self):
        super().setUp()
        if self.mode:
            need_root()
            self.hostile = self.victim("silent", self.scratch(), self.mode, settled=False)
            self.innocent = self.victim("threads", "futex:3:worker")

    def look(self, *argv):
        # Others may look at all processes as well, just now.
        return self.json("--timeout", MOST_MS, *argv, status=1, free=False)

    def check_both(self, doc, stacks):
        got = doc["_result"]
        hostile, innocent = (processes(doc)[v.pid] for v in (self.hostile, self.innocent))
        self.assertEqual(hostile["error"]["code"], "not_responding", got)
        self.assertIn(self.what, hostile["error"]["message"])
        self.assertEqual(hostile["user"], "root")
        self.assertIn("does not respond", got.err)
        self.assertNotIn("error", innocent, got)
        self.assertTrue(innocent["args"][0].endswith("/threads"), got)
        if stacks:
            self.assertEqual(len(threads(innocent)), 4, got)
            self.assertTrue(all(s["entries"] for _, s in threads(innocent).values()), got)

    def both_are_told(self):
        self.check_both(self.look("-p", self.hostile.pid, "-p", self.innocent.pid), True)
        self.check_both(self.look("--all"), True)
        got = self.run_tool("list", "--all", "--json", "--timeout", MOST_MS, status=1, free=False)
        got.doc["_result"] = got
        self.check_both(got.doc, False)

    def by_name(self):
        doc = self.look("--name", "^(silent|program|threads)$")
        self.check_both(doc, True)


class Lock(Silent):
    """A thread sleeps and keeps the lock of the address space, another one queues for it."""
    mode = "lock"
    what = "reading its arguments"

    def test_snapshot_and_list(self):
        self.both_are_told()

    def test_name(self):
        self.by_name()


class Exe(Silent):
    """The program lost its name in a directory that lies under a file system that never answers."""
    mode = "exe"
    what = "looking for the file of its program"

    def test_snapshot_and_list(self):
        self.both_are_told()

    def test_name(self):
        self.by_name()


class Root(Exe):
    """The root of the process lies in that file system."""
    mode = "root"
