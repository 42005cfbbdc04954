# SPDX-License-Identifier: LGPL-2.1-or-later
"""A short round of each fuzz target: a fixed number of runs from a fixed seed. `./dev fuzz` runs them for
longer."""
import os
import shutil
import sys
import tempfile

from harness import BUILD, SOURCE, Case, missing

sys.path.insert(0, os.path.join(SOURCE, "tests", "fuzz"))
import run as fuzz  # noqa: E402

FUZZ = os.path.join(SOURCE, "build-fuzz")

# About a second each.
RUNS = {"capture": 600, "cgroup": 30000, "core": 750, "demangle": 15000, "diff": 200, "dwarf": 400, "escape": 30000, "frames": 500,
        "json": 250, "merge": 150, "options": 20000, "perfmap": 10000, "plan": 400, "procfs": 8000, "recording": 600,
        "runtime": 300, "runtime_probe": 300, "snapshot": 200, "symbols": 400, "writers": 750}
OTHER_RUNS = 500


class ShortRound(Case):
    level = "all"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.mkdtemp(prefix="stacksnap-fuzz-")
        if fuzz.targets(FUZZ):
            fuzz.make_corpus(BUILD, os.path.join(cls.folder, "corpus"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        super().tearDownClass()

    def round_of(self, target):
        if target not in fuzz.targets(FUZZ):
            missing(f"build-fuzz/tests/fuzz/fuzz_{target}", "clang and libclang-rt-dev, then ./dev fuzz")
        outcome = fuzz.fuzz_one(FUZZ, target, os.path.join(self.folder, "corpus", target),
                                f"-runs={RUNS.get(target, OTHER_RUNS)}", "-seed=1", seconds_each=20,
                                findings=os.path.join(self.folder, "findings", target))
        if outcome.findings:
            kept = os.path.join(FUZZ, "findings", target)
            shutil.copytree(os.path.join(self.folder, "findings", target), kept, dirs_exist_ok=True)
            self.fail(f"{', '.join(outcome.findings)} in {kept}\n{outcome.log[-6000:]}")
        self.assertGreaterEqual(outcome.runs, RUNS.get(target, OTHER_RUNS), outcome.log[-2000:])

    def test_there_is_a_target_for_each_source(self):
        sources = {name[5:-2] for name in os.listdir(os.path.join(SOURCE, "tests", "fuzz"))
                   if name.startswith("fuzz_") and name.endswith(".c")} - {"elf", "lookup"}
        self.assertGreaterEqual(sources, set(RUNS))
        if fuzz.targets(FUZZ):
            self.assertEqual(sources, set(fuzz.targets(FUZZ)))


def test_of(target):
    return lambda self: self.round_of(target)


for name in sorted(RUNS):
    setattr(ShortRound, "test_" + name, test_of(name))
