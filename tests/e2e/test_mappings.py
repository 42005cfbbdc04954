# SPDX-License-Identifier: LGPL-2.1-or-later
"""Mappings by the ten thousand, of files with paths of any length: what is kept of them has a bound,
the report says so, and who is looked at beside such a process is reported in full."""
import subprocess

from bounds import Bounded
from harness import functions, processes, threads


class Mappings(Bounded):
    level = "all"

    def many(self, levels, files, count):
        folder = self.scratch()
        # Deeper than any path that could be given to somebody to remove.
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=False)
        return self.victim("mappings", folder, levels, files, count, settled=False)

    def beside(self, hostile, cut):
        innocent = self.victim("threads", "futex:3:worker")

        def answered(got):
            return cut or processes(got.doc)[hostile.pid].get("error", {}).get("code") != "not_responding"

        got = self.measure("-p", hostile.pid, "-p", innocent.pid, "--json", seconds=5, good=answered)
        self.assertEqual(got.status, int(cut), got)
        found = processes(got.doc)
        told = {w["code"] for w in got.doc["warnings"]} & {"maps_cut"}
        # On a busy machine its maps may take too long altogether.
        told |= {found[hostile.pid].get("error", {}).get("code")} & {"not_responding"}
        self.assertEqual(bool(told), cut, got)
        self.assertEqual(len(threads(found[innocent.pid])), 4, got)
        self.assertTrue(all(any(functions(s)) for _, s in threads(found[innocent.pid]).values()), got)
        return got

    def test_paths_longer_than_any(self):
        """100 KB each: the text alone would be gigabytes."""
        self.beside(self.many(500, 1, 60000), True)

    def test_long_paths(self):
        self.beside(self.many(19, 1500, 60000), True)

    def test_without_a_stop(self):
        hostile = self.many(19, 1500, 60000)
        innocent = self.victim("threads", "futex:3:worker")
        got = self.measure("-p", hostile.pid, "-p", innocent.pid, "--no-stop", "--json", seconds=5, status=1)
        told = {w["code"] for w in got.doc["warnings"]} & {"maps_cut"}
        # On a busy machine its maps may take too long altogether.
        told |= {processes(got.doc)[hostile.pid].get("error", {}).get("code")} & {"not_responding"}
        self.assertTrue(told, got)

    def test_two_paths_in_turns(self):
        """Each is kept once, so that an ordinary number of mappings is whole."""
        self.beside(self.many(10, 2, 8000), False)
