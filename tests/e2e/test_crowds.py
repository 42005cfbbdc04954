# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hundreds of threads that sleep for some milliseconds and wake up again, of which the kernel thinks that they have had
little: who has an ordinary priority waits behind them. Reports are whole beside them all the same, in time."""
import signal
import subprocess

from harness import TOOL, Case, functions, need_root, processes, threads


class Awake(Case):
    level = "all"
    # Whatever runs beside it would wait as well.
    alone = True

    def setUp(self):
        super().setUp()
        need_root()
        self.innocent = self.victim("threads", "futex:3:worker", "sleep:2:sleeper")
        self.crowd = self.victim("attack_wake", "200", settled=False)

    def check_innocent(self, doc):
        node = processes(doc)[self.innocent.pid]
        self.assertNotIn("error", node, doc["_result"])
        found = threads(node)
        self.assertEqual(len(found), 6, doc["_result"])
        waits = [s for _, s in found.values() if "wait_futex" in functions(s)]
        self.assertEqual(len(waits), 3, doc["_result"])

    def test_beside_a_target(self):
        self.check_innocent(self.json("-p", self.innocent.pid, free=False))

    def test_as_another_target(self):
        doc = self.json("-p", f"{self.crowd.pid},{self.innocent.pid}", "-n", "8", "-q", status=(0, 1), free=False)
        node = processes(doc)[self.innocent.pid]
        self.assertNotIn("error", node, doc["_result"])
        self.assertEqual(len(threads(node)), 6, doc["_result"])

    def test_a_recording_ends_when_it_is_told_to(self):
        recorder = subprocess.Popen([TOOL, "record", "-d", "0", "-f", "firefox", "-o", "/dev/null", "-p",
                                     f"{self.crowd.pid},{self.innocent.pid}"], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            with self.assertRaises(subprocess.TimeoutExpired):
                recorder.wait(2)
            recorder.send_signal(signal.SIGTERM)
            _, told = recorder.communicate(timeout=60)
        finally:
            recorder.kill()
            recorder.wait()
        self.assertIn(recorder.returncode, (0, 1), told)
