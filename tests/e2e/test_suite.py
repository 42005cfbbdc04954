# SPDX-License-Identifier: LGPL-2.1-or-later
"""The suite itself: what runs beside what, and what is read of a run inside of a run."""
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
    def run_jobs(self, costs, alone=(), spare=(), processors=2, at_once=99):
        """Most that computed, and that ran, beside each other; what ran beside those that must be alone; the order."""
        lock, running, most, beside, order = threading.Lock(), set(), [0, 0], set(), []

        def job(name):
            def work():
                with lock:
                    running.add(name)
                    order.append(name)
                    computing = [n for n in running if costs[n].busy >= pool.COMPUTES * costs[n].seconds]
                    most[0], most[1] = max(most[0], len(computing)), max(most[1], len(running))
                    if name in alone:
                        beside.update(running - {name})
                threading.Event().wait(0.01)
                with lock:
                    running.discard(name)
            place = pool.ALONE if name in alone else pool.SPARE if name in spare else pool.BESIDE
            return pool.Job(name, place, None, work)
        ended = []
        pool.Pool(costs, processors, at_once).run([job(name) for name in costs], lambda job, _: ended.append(job.name))
        self.assertEqual(sorted(ended), sorted(costs))
        return most, beside, order

    def test_those_that_compute_take_a_processor_each(self):
        most, _, _ = self.run_jobs({f"{i}": pool.Cost(1, 1) for i in range(12)})
        self.assertEqual(most, [2, 2])

    def test_those_that_wait_share_one(self):
        most, _, _ = self.run_jobs({f"{i}": pool.Cost(1, 0.01) for i in range(30)})
        self.assertEqual(most, [0, pool.WAITERS])

    def test_of_few_at_once_one_computes(self):
        costs = {f"w{i}": pool.Cost(2, 0.01) for i in range(9)} | {f"c{i}": pool.Cost(1, 1) for i in range(9)}
        most, _, order = self.run_jobs(costs, at_once=3)
        self.assertEqual(most[1], 3)
        self.assertEqual(sorted(name[0] for name in order[:3]), ["c", "w", "w"])
        self.assertEqual(self.run_jobs(costs, at_once=1)[0][1], 1)

    def test_one_processor_is_enough(self):
        costs = {f"w{i}": pool.Cost(1, 0.01) for i in range(9)} | {f"c{i}": pool.Cost(1, 1) for i in range(9)}
        most, _, _ = self.run_jobs(costs, processors=1)
        self.assertEqual(most[0], 1)

    def test_alone_is_alone_and_the_long_come_first(self):
        costs = {"short": pool.Cost(1, 1), "long": pool.Cost(9, 9), "alone": pool.Cost(5, 5)}
        _, beside, order = self.run_jobs(costs, alone=("alone",), processors=1)
        self.assertEqual(beside, set())
        self.assertEqual(order, ["long", "short", "alone"])

    def test_spare_jobs_begin_at_once_and_take_no_processor(self):
        costs = {f"c{i}": pool.Cost(1, 1) for i in range(4)} | {f"s{i}": pool.Cost(1, 1) for i in range(3)}
        most, _, order = self.run_jobs(costs, spare=("s0", "s1", "s2"))
        self.assertEqual(most, [3, 3])
        self.assertIn("s0", order[:3])


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
