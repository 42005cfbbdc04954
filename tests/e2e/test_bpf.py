# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that are on no processor, with the registers that BPF tells: those that wait for a processor, and those that
cannot be stopped, are copied without a stop; without that right all is as ever. How many of them run at a tick is chance,
and the way in which a copy was made is not."""
import json
import os

from harness import Case, functions, need_bpf, proc_state, processes, threads, tids_of, wait_until


class Bpf(Case):
    def busy(self):
        """More threads that spin than processors, of which each tick finds most waiting for one."""
        count = os.cpu_count() + 4
        return count, self.victim("threads", f"spin:{count}:busy", running=count)

    def record(self, victim, *argv, **options):
        """Its stacks, folded, and its figures."""
        path = os.path.join(self.scratch(), "stats.json")
        got = self.run_tool("record", "-v", victim.pid, "-d", "1", "-f", "folded", "--stats", path, *argv,
                            status=(0, 1), **options)
        with open(path, encoding="utf-8") as file:
            return got, json.load(file)

    def count(self, got, word):
        return sum(int(line.rsplit(" ", 1)[1]) for line in got.text.splitlines() if word in line)

    def test_threads_that_wait_for_a_processor_are_not_stopped(self):
        need_bpf()
        for mode in ("wall", "cpu"):
            with self.subTest(mode):
                _, victim = self.busy()
                got, stats = self.record(victim, "--mode", mode, "--max-stopped", "0.1")
                # In each tick at least four of them have no processor. Main is blocked, and copied once.
                self.assertGreater(stats["unstopped"], stats["ticks"], stats)
                self.assertGreater(self.count(got, ";spin"), self.count(got, "(not stopped"), got.text)
                victim.close()

    def test_without_the_right_they_are_stopped(self):
        _, victim = self.busy()
        got, stats = self.record(victim, "--max-stopped", "100", tool=self.without_bpf())
        self.assertIn("BPF cannot be used", got.err)
        self.assertLessEqual(stats["unstopped"], 2, stats)
        self.assertGreater(self.count(got, ";spin"), 0, got.text)

    def test_a_single_look(self):
        need_bpf()
        count, victim = self.busy()
        node = processes(self.json("-p", victim.pid, "--no-stop", "--per-thread"))[victim.pid]
        spinning = [(thread, stack) for thread, stack in threads(node).values() if thread["name"].startswith("busy")]
        self.assertEqual(len(spinning), count)
        self.assertIn("late", [thread["taken"] for thread, _ in spinning])
        for thread, stack in spinning:
            self.assertEqual((thread["state"], stack["unwind"]), ("running", "complete"), stack)
            self.assertIn("spin", functions(stack))

    def test_what_cannot_be_stopped(self):
        """A thread in vfork, whose return address is in a register, not on the stack that it shares."""
        need_bpf()
        victim = self.victim("vforker", settled=False)
        tid, = wait_until(lambda: [t for t in tids_of(victim.pid) if proc_state(victim.pid, t) == "D"], "state D")
        node = processes(self.json("-p", victim.pid, "--no-stop"))[victim.pid]
        thread, stack = threads(node)[tid]
        self.assertEqual((thread["state"], thread["taken"], stack["unwind"]), ("disk", "late", "complete"), stack)
        self.assert_calls(stack, "vfork", "vfork_main")
        self.assertEqual(thread["wait"]["kind"], "vfork")
