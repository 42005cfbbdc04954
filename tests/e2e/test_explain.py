# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is said of waits, by the options that ask for more or less of it."""
from harness import Case, walk


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
