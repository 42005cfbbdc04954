# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each system call and allocation of a capture fails once: the target runs on, nothing is left
over, the exit status says whether the report is whole, and stderr names what failed. The runs are
those of tests/faults/run.py; ./dev faults tries each errno that a call can give."""
import os
import re
import subprocess
import sys
import unittest

import harness
from harness import Case

FOLDER = os.path.join(harness.SOURCE, "tests", "faults")
RUNNER = os.path.join(FOLDER, "run.py")
TOOL = os.environ.get("STACKSNAP_FAULTS",
                      os.path.join(harness.BUILD + "-faults", "cli", "stacksnap"))
PARTS = 2
LEAST = 150  # faults of a part: a round that finds less has lost its way to the calls


def need_tool():
    if not os.path.exists(TOOL):
        raise unittest.SkipTest("missing: a build with -Dfaults=true")
    harness.need("addr2line")


class Listed(Case):
    def test_calls_of_a_parser_are_listed_and_fail(self):
        """It shares nothing with others but its result, and is seen all the same."""
        need_tool()
        sys.path.insert(0, FOLDER)
        import faults
        page, names = faults.Page(os.path.join(self.scratch(), "page")), faults.Names(TOOL)
        pid = self.victim("chain", "3").pid
        page.ask_for_list()
        got = harness.run_tool(["-p", pid], tool=TOOL, env=page.environment)
        self.assertEqual(got.status, 0, got)
        names.learn(page.sites())
        found = [site for site in page.sites() if "snap_analyze (" in names.chain(site, 20)]
        self.assertGreater(len(found), 10)
        page.inject(faults.Fault(found[0], 1, 1, faults.errors_of(found[0])[0]))
        got = harness.run_tool(["-p", pid], tool=TOOL, env=page.environment)
        self.assertIn(got.status, (0, 1), got)
        self.assertGreater(page.hits(), 0, got)


class Round(Case):
    part = None

    def go(self):
        need_tool()
        got = subprocess.run([sys.executable, RUNNER, "--tool", TOOL, "--build", harness.BUILD,
                              "--part", str(self.part), "--parts", str(PARTS)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(got.returncode, 0, got.stdout[-6000:])
        found = re.search(r"(\d+) faults at .* (\d+) not reached, 0 broken$", got.stdout.strip())
        self.assertIsNotNone(found, got.stdout[-3000:])
        tried, unreached = map(int, found.groups())
        self.assertGreaterEqual(tried, LEAST, got.stdout)
        self.assertLessEqual(unreached, tried // 10, got.stdout)


class EvenSites(Round):
    long = True
    part, weight = 0, 60

    def test_each_call_fails_once(self):
        self.go()


class OddSites(Round):
    long = True
    part, weight = 1, 60

    def test_each_call_fails_once(self):
        self.go()


del Round
