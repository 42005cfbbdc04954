# SPDX-License-Identifier: LGPL-2.1-or-later
"""Damaged ELF files and DWARF under sanitizers, on the way that the product takes: see fuzz/mutants.c.
STACKSNAP_MUTANTS in the environment is how many inputs there are (12000 for the figure of the security design, which
take a slow machine a quarter of an hour), STACKSNAP_MUTANTS_SEED their seed."""
import os
import re
import subprocess
import sys

from harness import BUILD, BUILD_ASAN, SOURCE, Case, clean_environment

sys.path.insert(0, os.path.join(SOURCE, "tests", "fuzz"))
import make_cases  # noqa: E402

INPUTS = int(os.environ.get("STACKSNAP_MUTANTS", "2000"))
SEED = int(os.environ.get("STACKSNAP_MUTANTS_SEED", "1"))
PROCESSES = 2
MEGABYTES = 200


class Mutants(Case):
    level = "all"
    asan = True

    def start(self, folders, first, count):
        # What the sandbox of the parser refuses (1 GiB) is refused here, too.
        environment = clean_environment({
            "ASAN_OPTIONS": "exitcode=99:detect_leaks=1:quarantine_size_mb=16:max_allocation_size_mb=1024:"
                            "allocator_may_return_null=1"})
        return subprocess.Popen([os.path.join(BUILD_ASAN, "tests", "fuzz", "mutants"), "-s", str(SEED), "-f", str(first),
                                 "-n", str(count), *folders], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, env=environment, text=True, errors="replace")

    def test_no_report_none_slow_memory_bounded(self):
        if not BUILD_ASAN or os.environ.get("STACKSNAP_VARIANT") != "asan":
            return  # a build without sanitizers is no verdict
        folders = make_cases.make(BUILD, os.path.join(self.scratch(), "cases"))
        self.assertGreaterEqual(len(folders), 8)
        share = -(-INPUTS // PROCESSES)
        running = [self.start(folders, i * share, share) for i in range(PROCESSES)]
        outputs = [process.communicate()[0] for process in running]
        print("\n".join(o.splitlines()[-1] for o in outputs if o), file=sys.stderr)
        for process, output in zip(running, outputs):
            findings = [line for line in output.splitlines() if line.startswith("finding:")]
            self.assertEqual(findings, [], output[-8000:])
            self.assertEqual(process.returncode, 0, output[-8000:])
            summary = re.search(r"(\d+) inputs, 0 findings, longest (\d+) ms .* peak (\d+) MiB", output)
            self.assertIsNotNone(summary, output[-2000:])
            self.assertEqual(int(summary.group(1)), share)
            self.assertLess(int(summary.group(2)), 2000)
            self.assertLess(int(summary.group(3)), MEGABYTES)
            # There was something to lose: names everywhere, lines where there is debug information.
            for line in re.findall(r"case .*", output):
                counts = [int(n) for n in re.findall(r"(\d+) (?:threads|frames|with a line|parts)", line)]
                self.assertGreater(counts[1], 3, line)
                self.assertGreaterEqual(counts[3], 12, line)
                if not re.match(r"case (plain|mini|libc):", line):
                    self.assertGreater(counts[2], 3, line)
