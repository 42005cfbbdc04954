# SPDX-License-Identifier: LGPL-2.1-or-later
"""`./dev runtimes` on what the machine has: stacks of real runtimes are those that the programs tell of themselves, and
those that the tool prints."""
import os
import re
import subprocess
import sys

from harness import BUILD, Case, SOURCE, need


class Matrix(Case):
    level = "all"

    def check(self, wanted):
        done = subprocess.run(["nice", "-n", "5", sys.executable, os.path.join(SOURCE, "tests", "runtime", "runtimes.py"),
                               "--quick", "--build", BUILD, "--count", "300", "--filter", wanted],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800)
        counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout.splitlines()[-1])
        self.assertTrue(counts, done.stdout)
        self.assertEqual(counts[2], "0", done.stdout)
        self.assertGreater(int(counts[1]), 0, done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_go(self):
        need("go", "gcc")
        self.check("^Go .* (plain|pie-stripped|cgo|no-sections)$")

    def test_python(self):
        need("python3")
        self.check("^CPython /usr/bin/")

    def test_php(self):
        need("php")
        self.check("^PHP /usr/bin/")
