# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each system call and allocation of a capture fails once, one half of them on one day and the other on
the next: the target runs on, nothing is left over, the exit status says whether the report is whole, and
stderr names what failed. The runs are those of tests/faults/run.py; ./dev faults tries each errno that a
call can give."""
import errno
import os
import re
import subprocess
import sys
import unittest

import harness
from harness import Case

FOLDER = os.path.join(harness.SOURCE, "tests", "faults")
RUNNER = os.path.join(FOLDER, "run.py")
TOOL = os.path.join(harness.BUILD, "tests", "faults", "stacksnap")
PARTS = 2
LEAST = 150  # faults of a part: a round that finds less has lost its way to the calls


def need_tool():
    if not os.path.exists(TOOL):
        raise unittest.SkipTest("missing: " + TOOL)
    harness.need("addr2line")


class Listed(Case):
    """Calls at places that are looked for by name."""

    def setUp(self):
        super().setUp()
        need_tool()
        sys.path.insert(0, FOLDER)
        import faults
        self.faults = faults
        self.page, self.names = faults.Page(os.path.join(self.scratch(), "page")), faults.Names(TOOL)
        self.pid = self.victim("chain", "3").pid

    def run_it(self):
        return harness.run_tool(["-p", self.pid, "--json"], tool=TOOL, env=self.page.environment)

    def sites(self, *words):
        """Of a run without a fault, those whose callers have all of the words."""
        def listed():
            self.page.ask_for_list()
            return self.run_it().status == 0
        # On a busy machine one may be late with something.
        harness.wait_until(listed, "an undisturbed run")
        self.names.learn(self.page.sites())
        return [site for site in self.page.sites()
                if all(word in self.names.chain(site, 20) for word in words)]

    def inject(self, site, error, times=1):
        self.page.inject(self.faults.Fault(site, 1, times, error))
        return self.run_it()

    def test_calls_of_a_parser_are_listed_and_fail(self):
        """It shares nothing with others but its result, and is seen all the same."""
        found = self.sites("snap_analyze_with (")
        self.assertGreater(len(found), 10)
        got = self.inject(found[0], self.faults.errors_of(found[0])[0])
        self.assertIn(got.status, (0, 1), got)
        self.assertGreater(self.page.hits(), 0, got)

    def test_mappings_that_cannot_be_read_are_told(self):
        found = [site for site in self.sites("open_stop_tasks (", "do_items (") if site.name == "openat64"]
        self.assertTrue(found)
        for site in found:
            def told(site=site):
                got = self.inject(site, errno.EMFILE, 1 << 30)
                return got.status == 1 and "cannot read the mappings of" in got.err
            harness.wait_until(told, "the line about mappings")

    def test_names_that_there_is_no_memory_for_are_told(self):
        found = [site for site in self.sites("snap_intern (", "snap_analyze_with (")
                 if site.name in ("realloc", "calloc", "malloc")]
        self.assertTrue(found)
        for site in found:
            harness.wait_until(lambda site=site: self.inject(site, errno.ENOMEM, 1 << 30).status in (1, 2),
                               f"a status that tells of {self.names.chain(site)}")


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
    level = "all"
    part = 0

    def test_each_call_fails_once(self):
        self.go()


class OddSites(Round):
    level = "all"
    part = 1

    def test_each_call_fails_once(self):
        self.go()


del Round
