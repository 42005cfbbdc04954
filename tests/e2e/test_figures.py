# SPDX-License-Identifier: LGPL-2.1-or-later
"""doc/FIGURES.md has each figure of the benchmarks with what is asked of it, and a run replaces its own section."""
import os
import re
import sys

from harness import Case, SOURCE, read_file

sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import figures  # noqa: E402, which lies with the benchmarks


def section(text, benchmark):
    begin, end = map(re.escape, figures.marks(benchmark))
    return re.search(f"{begin}\n(.*?){end}\n", text, re.S)[1]


class Figures(Case):
    def test_the_document_has_them_all(self):
        text = read_file(figures.DOCUMENT)
        for benchmark, rows in figures.ASKED.items():
            with self.subTest(benchmark=benchmark):
                listed = re.findall(r"^\| (.*) \| (.*) \| .+ \|$", section(text, benchmark), re.M)[2:]
                self.assertEqual(listed, [(row.text, row.asked or "-") for row in rows])

    def test_a_run_writes_its_section_alone(self):
        path = os.path.join(self.scratch(), "FIGURES.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(read_file(figures.DOCUMENT))
        found = figures.Figures("waits")
        found.add("watch", 0.3)
        found.add("stop", None)
        found.write(path)
        before, after = read_file(figures.DOCUMENT), read_file(path)
        written = section(after, "waits")
        self.assertIn("share of a processor | <= 0.5 % | 0.30 % |", written)
        self.assertIn("with waits / without | <= 1.05 | not measured |", written)
        self.assertEqual(after.replace(written, ""), before.replace(section(before, "waits"), ""))
