# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of a file system in user space that stops to answer, in the middle of one call or another: who opens
files for the tool may wait for ever, nobody else does, and everybody else's stacks are whole."""
import os
import re
import shutil

import bombs
from harness import Case, TARGETS, functions, need_root, processes, read_file, wait_until

CHAIN = ("chain_hold", "f3", "f2", "f1", "f0", "main")
MODES = ("code", "open", "flush", "getattr", "root")
ENOUGH = 30.0  # seconds; a file that is waited for is waited for without end


class Beside(Case):
    """A process with such a file, and one that has nothing to do with it."""

    def setUp(self):
        super().setUp()
        need_root()

    def victims_of(self, mode):
        folder = self.scratch()
        bombs.looks_sane(os.path.join(folder, "image"))
        return self.victim("hostile_fuse", folder, mode, settled=False), self.victim("chain")

    def assert_others_whole(self, doc, hostile, other):
        self.assert_calls(processes(doc)[other.pid]["stacks"][0], *CHAIN)
        self.assertIn(hostile.pid, processes(doc))


class Silent(Beside):
    level = "all"

    def in_all_modes(self, *argv, **options):
        for mode in MODES:
            with self.subTest(mode=mode):
                hostile, other = self.victims_of(mode)
                got = self.run_tool(*argv, "-p", hostile.pid, "-p", other.pid, status=(0, 1), timeout=ENOUGH,
                                    **options)
                self.assert_others_whole(got.doc, hostile, other)
                hostile.close()
                other.close()

    def test_snapshots(self):
        self.in_all_modes("--json")

    def test_why_is_told(self):
        hostile, _ = self.victims_of("open")
        got = self.run_tool("-p", hostile.pid, status=(0, 1), timeout=ENOUGH)
        self.assertRegex(got.err, "cannot read the symbols of .*/file: the file could not be opened in time")

    def test_snapshots_without_a_stop(self):
        self.in_all_modes("--json", "--no-stop")

    def test_recordings(self):
        self.in_all_modes("record", "-d", "0.5", "-f", "json")

    def test_captures_that_are_saved(self):
        """The copy of a file that is not served any more is left out."""
        for mode in MODES:
            with self.subTest(mode=mode):
                hostile, other = self.victims_of(mode)
                path = os.path.join(self.scratch(), "capture")
                got = self.run_tool("-p", hostile.pid, "-p", other.pid, "--json", "--save-capture", path,
                                    status=(0, 1, 2), timeout=ENOUGH)
                self.assert_others_whole(got.doc, hostile, other)
                hostile.close()
                other.close()


class Served(Case):
    """One that answers is read like any other file."""
    level = "all"

    def test_symbols(self):
        need_root()
        folder = self.scratch()
        bombs.looks_sane(os.path.join(folder, "image"))
        hostile = self.victim("hostile_fuse", folder, "nothing", settled=False)
        names = [f for s in self.node(hostile.pid, status=(0, 1))["stacks"] for f in functions(s)]
        self.assertTrue(names)



class Again(Beside):
    """Who looks again and again at a file that does not open leaves two openers behind, not one for each look."""
    level = "all"

    LOOKS = 5

    @staticmethod
    def name_of_opener(hostile):
        """What an opener is called while it opens the file: by the device, which only the kernel is asked for."""
        mounts = read_file(f"/proc/{hostile.pid}/mountinfo")
        minor, = re.findall(r"(?m)^\d+ \d+ 0:(\d+) .* - fuse ", mounts)
        return f"snap-d0:{int(minor):x}"

    def test_two_are_enough(self):
        hostile, other = self.victims_of("open")
        name = self.name_of_opener(hostile)

        def left_behind():
            stats = [read_file(f"/proc/{pid}/stat") or "" for pid in os.listdir("/proc") if pid.isdigit()]
            return sum(f"({name}) D " in stat for stat in stats)

        for _ in range(self.LOOKS):
            got = self.run_tool("-p", hostile.pid, "-p", other.pid, status=(0, 1), timeout=ENOUGH)
            self.assertRegex(got.err, "could not be opened in time")
            self.assertIn("chain_hold", got.text)
        self.assertEqual(left_behind(), 2)
        # Once its server has gone nobody is left.
        hostile.close()
        wait_until(lambda: left_behind() == 0, "they are gone")
