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

RUNNER = os.path.join(harness.SOURCE, "tests", "faults", "run.py")
TOOL = os.environ.get("STACKSNAP_FAULTS",
                      os.path.join(harness.BUILD + "-faults", "cli", "stacksnap"))
PARTS = 2
LEAST = 150  # faults of a part: a round that finds less has lost its way to the calls


class Round(Case):
    part = None

    def go(self):
        if not os.path.exists(TOOL):
            raise unittest.SkipTest("missing: a build with -Dfaults=true")
        harness.need("addr2line")
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
