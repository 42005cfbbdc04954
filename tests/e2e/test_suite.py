# SPDX-License-Identifier: LGPL-2.1-or-later
"""The suite itself: what runs beside what, and what is read of a run inside of a run."""
import argparse
import contextlib
import io
import os
import sys
import threading

from harness import Case, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests"))
import pool  # noqa: E402
import run  # noqa: E402


class Pool(Case):
    def run_jobs(self, costs, alone=(), processors=2, at_once=99):
        """Most that was asked of processors, and most that ran, beside each other; what ran beside those that must be
        alone; the order."""
        lock, running, most, beside, order = threading.Lock(), set(), [0, 0], set(), []

        def job(name):
            def work():
                with lock:
                    running.add(name)
                    order.append(name)
                    asked = sum(costs[n].busy / costs[n].seconds for n in running)
                    most[0], most[1] = max(most[0], asked), max(most[1], len(running))
                    if name in alone:
                        beside.update(running - {name})
                threading.Event().wait(0.01)
                with lock:
                    running.discard(name)
            return pool.Job(name, pool.ALONE if name in alone else pool.BESIDE, None, work)
        ended = []
        pool.Pool(costs, processors, at_once).run([job(name) for name in costs], lambda job, _: ended.append(job.name))
        self.assertEqual(sorted(ended), sorted(costs))
        return most, beside, order

    def test_those_that_compute_ask_for_somewhat_more_than_there_is(self):
        most, _, _ = self.run_jobs({f"{i}": pool.Cost(1, 1) for i in range(12)})
        self.assertEqual(most, [int(2 * pool.ASKED)] * 2)

    def test_those_that_wait_are_as_many_as_may_be(self):
        most, _, _ = self.run_jobs({f"{i}": pool.Cost(1, 0.01) for i in range(30)}, at_once=7)
        self.assertEqual(most[1], 7)

    def test_what_waits_leaves_room_for_what_computes(self):
        costs = {f"w{i}": pool.Cost(2, 0.2) for i in range(9)} | {f"c{i}": pool.Cost(1, 1) for i in range(9)}
        most, _, order = self.run_jobs(costs, at_once=12)
        self.assertLessEqual(most[0], 2 * pool.ASKED + 1e-6)
        self.assertEqual(sorted(name[0] for name in order[:11]), ["c"] * 2 + ["w"] * 9)
        self.assertEqual(self.run_jobs(costs, at_once=1)[0][1], 1)

    def test_one_that_fits_passes_a_longer_one_that_does_not(self):
        costs = {f"c{i}": pool.Cost(9 - i, 9 - i) for i in range(4)} | {"w": pool.Cost(1, 0)}
        _, _, order = self.run_jobs(costs, processors=1)
        self.assertEqual(order[:2], ["c0", "w"])

    def test_one_processor_is_enough(self):
        costs = {f"w{i}": pool.Cost(1, 0.01) for i in range(9)} | {f"c{i}": pool.Cost(1, 4) for i in range(9)}
        _, _, order = self.run_jobs(costs, processors=1)
        self.assertEqual(len(order), 18)

    def test_alone_is_alone_and_the_long_come_first(self):
        costs = {"short": pool.Cost(1, 1), "long": pool.Cost(9, 9), "alone": pool.Cost(5, 5)}
        _, beside, order = self.run_jobs(costs, alone=("alone",), processors=1)
        self.assertEqual(beside, set())
        self.assertEqual(order, ["long", "short", "alone"])

    def test_one_at_a_time_has_what_there_is_once(self):
        """Those that wait for it leave their room to others, and begin early, as one is behind the other."""
        running, most, order = set(), [0], []

        def job(name, only):
            def work():
                order.append(name)
                running.add(name)
                most[0] = max(most[0], sum(n.startswith("b") for n in running))
                threading.Event().wait(0.02)
                running.discard(name)
            return pool.Job(name, pool.BESIDE, None, work, only)
        costs = {"long": pool.Cost(5, 0), "b1": pool.Cost(2, 0), "b2": pool.Cost(2, 0), "b3": pool.Cost(2, 0), "c": pool.Cost(1, 0)}
        pool.Pool(costs, 1, 3).run([job(n, "browser" if n[0] == "b" else None) for n in costs], lambda *_: None)
        self.assertEqual((most, len(order)), ([1], 5))
        self.assertEqual(order[0], "b1")
        self.assertEqual(set(order[1:3]), {"long", "c"})

    def test_what_is_not_known_costs_what_it_costs_in_the_other_build(self):
        known = pool.Pool({"a.B.asan": pool.Cost(9, 1)}, 2, 9)
        self.assertEqual([known.cost(name) for name in ("a.B.asan", "a.B.release", "c.D.asan")],
                         [pool.Cost(9, 1), pool.Cost(9, 1), pool.UNKNOWN])

    def test_simulated_time(self):
        """Of those that compute as much as they compute; those that wait take as long as one of them."""
        for costs, seconds in (([pool.Cost(4, 4)] * 6, 12), ([pool.Cost(4, 0)] * 9, 4), ([pool.Cost(4, 0)] * 11, 8)):
            named = {f"{i}": cost for i, cost in enumerate(costs)}
            self.assertAlmostEqual(pool.simulated(pool.Pool(named, 2, 10), named), seconds, places=3)


class Builds(Case):
    def builds_of(self, asan, level, has_asan=True, **asked):
        """Where a test of that class runs: for each of the halves of a run, or for what is asked."""
        kind = type("Kind", (), {"asan": asan, "level": level, "test": None})
        options = argparse.Namespace(**{"all": False, "filter": "", "rest": False, "quick": False, "asan_all": False, **asked})
        return [variant for variant in ("release", "asan") if run.variant_runs(kind, "test", variant, options, has_asan)]

    def test_no_test_is_left_out_and_those_that_compute_run_once(self):
        for level in ("quick", "test", "all"):
            for asan, whole in ((False, ["release"]), ("all", ["asan"]), ("both", ["release", "asan"]), (True, ["asan"])):
                with self.subTest(level=level, asan=asan):
                    halves = self.builds_of(asan, level, False, rest=True) + self.builds_of(asan, level, asan_all=True)
                    self.assertEqual(halves, whole)
                    self.assertEqual(self.builds_of(asan, level, all=True), ["release", "asan"] if asan else ["release"])

    def test_without_all_the_fast_build_is_enough_for_most(self):
        for asan, builds in ((False, ["release"]), ("all", ["release"]), ("both", ["release"]), (True, ["asan"])):
            self.assertEqual(self.builds_of(asan, "test"), builds)
            self.assertEqual(self.builds_of(asan, "all"), [])
            self.assertEqual(self.builds_of(asan, "quick", False, quick=True), ["release"])


class Rows(Case):
    def printed_by(self, *fails_for_good):
        report, test = run.Report(False), object()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            report.add("test_a.B.test_c", "ok", 0.25, "", "asan")
            report.add("test_a.B.test_d", "skipped", 0.25, "kernel: no", "asan")
            for name in fails_for_good:
                report.add(name, "FAILED", 0.25, "why\nof it", "asan")
            report.add("test_a.B.test_f", "FAILED", 0.25, "why", "release", test)
            report.passed_alone(test)
            report.close()
        return list(run.printed_rows(printed.getvalue()))

    def test_rows_of_a_run_are_read_back(self):
        passed = [("a.B.test_c [asan]", "ok", 0.25, ""), ("a.B.test_d [asan]", "skipped", 0.25, "kernel: no")]
        alone = ("a.B.test_f", "ok", 0.25, "")
        self.assertEqual(self.printed_by("test_a.B.test_e"),
                         [*passed, ("a.B.test_e [asan]", "FAILED", 0.25, "why\nof it"), alone])
        self.assertEqual(self.printed_by(), [*passed, alone])
