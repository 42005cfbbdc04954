# SPDX-License-Identifier: LGPL-2.1-or-later
"""Thousands of processes of one user: what all of ours take together stays bounded, and whoever else
is looked at with them is in the report."""
import re

from bounds import Measured
from harness import ASAN, Case, processes, threads

COUNT = 6000
GENERATIONS = 600
MEMORY = 400 << 20  # of all our processes; what is asked for takes a third of that


class Children(Case):
    level = "all"

    def both(self):
        innocent = self.victim("threads", "futex:3:worker")
        return self.victim("attack_children", COUNT, settled=False), innocent

    def measured(self, *arguments, status=(0, 1)):
        got = Measured([*arguments, "-f", "json"], limit=120)
        self.check(got, status)
        if not ASAN:
            self.assertLessEqual(got.memory, MEMORY, got)
        return processes(got.doc)

    def test_snapshot(self):
        parent, innocent = self.both()
        found = self.measured("-p", parent.pid, "-p", innocent.pid, "--timeout", 60000, "--stop-timeout", 5000)
        self.assertEqual(len(found), COUNT + 2)
        self.assertEqual(len(threads(found[innocent.pid])), 4)

    def test_without_a_stop(self):
        parent, innocent = self.both()
        found = self.measured("-p", parent.pid, "-p", innocent.pid, "--no-stop", "--timeout", 60000)
        self.assertEqual(len(found), COUNT + 2)
        self.assertEqual(len(threads(found[innocent.pid])), 4)

    def test_generations(self):
        """Each of them a child of the one before: ancestors and stacks have a limit together."""
        victim = self.victim("attack_children", GENERATIONS, "nested", settled=False)
        got = Measured(["-p", victim.pid, "-f", "json", "--timeout", 60000, "--stop-timeout", 5000], limit=120)
        self.check(got, (0, 1))
        # Deeper than this language's reader of JSON goes.
        lists = re.findall(r'"ancestors": \[([^]]*)\]', got.text)
        self.assertGreaterEqual(len(lists), GENERATIONS)
        self.assertLessEqual(max(one.count('"pid"') for one in lists), 32)
        self.assertIn('"report_limited"', got.text)

    def test_who_is_listed_was_read(self):
        """Who is one of thousands is read later, but before he is recorded."""
        parent, innocent = self.both()
        found = self.measured("record", "-p", parent.pid, "-p", innocent.pid, "-d", "2s")
        stacks = [s for s in found[innocent.pid]["stacks"] if s["samples"]]
        self.assertEqual(len({t["tid"] for s in stacks for t in s["threads"]}), 4)
        # Whoever is listed was read, in its turn.
        self.assertEqual([p for p in found.values() if p.get("error", {}).get("code") == "out_of_time"], [])
