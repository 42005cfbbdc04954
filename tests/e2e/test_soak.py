# SPDX-License-Identifier: LGPL-2.1-or-later
"""A short round of each experiment of the soak (tests/soak/): kills, signals, targets that change
all the time, big ones. What a busy machine decides is left to `./dev soak`."""
import os
import sys
import unittest

from harness import BUILD, SOURCE, TOOL, Case

sys.path.insert(0, os.path.join(SOURCE, "tests", "soak"))
import experiments  # noqa: E402


class Soak(Case):
    level = "all"

    def experiment(self, name):
        kind = experiments.EXPERIMENTS[name]
        got = experiments.run(name, kind.short, BUILD, TOOL)
        if got.cannot:
            raise unittest.SkipTest("kernel: " + got.cannot.group(1))
        self.assertEqual(got.bad + got.beyond(kind.always), [], got.figures)


def add_tests():
    for name in experiments.EXPERIMENTS:
        def test(self, name=name):
            self.experiment(name)
        setattr(Soak, "test_" + name.replace("-", "_"), test)


add_tests()
