# SPDX-License-Identifier: LGPL-2.1-or-later
"""Running targets whose unwind information or debug information somebody damaged: always an answer
with all threads. Mutants with more of them: `tests/e2e/mutants.py 500`."""
import mutants
from harness import Case


class Mutated(Case):
    level = "test"

    def check_all(self, wanted, seed):
        notes = []
        broken, tally = mutants.run(wanted, 60, seed, report=notes.append)
        self.assertFalse(broken, "\n".join(broken[:3]))
        self.assertEqual(tally["status 0"] + tally["status 1"], 60, notes)

    def test_unwind_information(self):
        self.check_all(mutants.UNWINDING, 1)


class MutatedNames(Mutated):
    level = "test"

    def test_unwind_information(self):
        self.check_all(mutants.NAMING, 2)
