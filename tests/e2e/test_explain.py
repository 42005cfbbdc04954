# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is said of waits, by the options that ask for more or less of it."""
import sys

from harness import Case, walk
from waits import WaitCase, truths_of


def waits_of(doc):
    """All waits of threads in a document."""
    return [t["wait"] for node in walk(doc["processes"]) for s in node.get("stacks", [])
            for t in s["threads"] if "wait" in t]


class Explain(Case):
    asan = True

    def test_no_explain_says_nothing(self):
        victim = self.victim("threads", "futex:3:worker", "pipe:1:reader")
        doc = self.json("-p", victim.pid, "--no-explain")
        self.assertEqual(waits_of(doc), [])
        for key in ("deadlocks", "blockers", "contended", "waits_lack"):
            self.assertNotIn(key, doc)
        text = self.run_tool("-p", victim.pid, "--no-explain").text
        self.assertNotIn("waits ", text)

    def test_since_comes_with_explain_alone(self):
        victim = self.victim("threads", "futex:3:worker", "pipe:1:reader")
        self.assertFalse([w for w in waits_of(self.json("-p", victim.pid)) if "since_ns" in w])
        for wait in waits_of(self.json("-p", victim.pid, "--explain")):
            self.assertGreaterEqual(wait.get("since_ns", 0), 0)

    def test_group_by_wait_tells_objects_apart(self):
        victim = self.victim("threads", "futex:4:worker", "pipe:2:reader")
        for stack in self.node(victim.pid, "--group-by", "process,state,wait")["stacks"]:
            kinds = {t.get("wait", {}).get("kind") for t in stack["threads"]}
            self.assertEqual(len(kinds), 1)
            addresses = {t.get("wait", {}).get("address") for t in stack["threads"]}
            self.assertEqual(len(addresses), 1)


class Deadlocks(WaitCase):
    def test_nothing_is_silent(self):
        victim = self.victim("threads", "futex:3:worker")
        self.assertEqual(self.run_tool("-p", victim.pid, "--deadlocks").text, "")

    def test_a_circle_with_a_time_limit_is_none(self):
        victim = self.run_program("dead", "timed")
        truths_of(victim)
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=0)
        self.assertRegex(run.text.splitlines()[0], r"^circle  2 threads wait in a circle until a time limit \(\d+ min\)$")
        self.assertNotIn("DEADLOCK", run.text)
        self.assertEqual(self.run_tool("-p", victim.pid, "--watch=deadlock", "--once", status=0).text, "")

    def test_locks_with_time_limits_are_never_a_deadlock(self):
        victim = self.run_program("dead", "churn")
        truths_of(victim)
        for _ in range(30):
            run = self.run_tool("-p", victim.pid, "--deadlocks", status=(0, 3))
            self.assertNotIn("DEADLOCK", run.text)

    def test_what_is_not_known_is_a_status(self):
        """Python's own locks keep no owner, so a report without a deadlock proves nothing."""
        code = "import os\nprint('ready', os.getpid(), flush=True)\ninput()"
        victim = self.program([sys.executable, "-c", code])
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=3)
        self.assertIn("waits are not known in full: owners of Python's locks", run.text)
        run = self.run_tool("-p", victim.pid, "--watch=deadlock", "--once", status=3)
        self.assertIn("a deadlock may have been missed", run.err)

    def test_status_and_text(self):
        victim = self.run_program("dead", "two")
        truth = next(t for t in truths_of(victim) if "deadlock" in t)
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=1)
        lines = run.text.splitlines()
        self.assertRegex(lines[0], r"^DEADLOCK  2 threads")
        self.assertEqual([int(line.split()[0]) for line in lines[1:3]], truth["deadlock"])
        self.assertIn("held by", lines[1])
        # All of it in JSON, with the same status; without the option it is 0.
        doc = self.look(victim, "--deadlocks")
        self.assertTrue(doc["processes"])
        self.assertEqual([t["tid"] for t in doc["deadlocks"][0]["threads"]], truth["deadlock"])
        whole = self.run_tool("-p", victim.pid)
        self.assertIn("\nDEADLOCK", whole.text)
