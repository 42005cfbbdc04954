# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that becomes another program all the time: two programs in turns, at addresses that have nothing in
common. Registers and stacks of one of them are never shown with the name or the mappings of the other."""
import json
import os
import re

from harness import Case, processes, run_tool, stacks_of, walk

LOOKS = 40


class Exec(Case):
    level = "all"
    def check_node(self, node, is_told=False):
        """How many stacks it has, all of which are of its program; or, where a line says so, of the next one."""
        stacks = [s for s in stacks_of(node) if s["entries"]]
        for stack in stacks:
            entries = [e for e in stack["entries"] if not e.get("kernel")]
            # Where there was no time for mappings there are no names; but none are of another program.
            if is_told and not any(e.get("module") for e in entries):
                continue
            self.assertNotIn(None, [e.get("module") for e in entries], (node.get("exe"), stack))
            programs = {e["module"] for e in entries if "/turns_" in e["module"]}
            self.assertEqual(len(programs), 1, stack)
            if not is_told:
                self.assertEqual(programs, {node["exe"]}, stack)
        return len(stacks)

    def check_looks(self, *options, by=()):
        victim = self.victim("turns_low", 3, *by, settled=False)
        stacks, names = 0, set()
        for _ in range(LOOKS):
            got = run_tool(["--json", "-p", str(victim.pid), *options])
            self.check(got, (0, 1, 2))
            node = processes(got.doc)[victim.pid]
            stacks += self.check_node(node, "execed" in [w["code"] for w in got.doc["warnings"]])
            names.add(node.get("exe"))
        self.assertGreater(stacks, 2)
        self.assertGreater(len(names), 1)

    def test_in_a_stop(self):
        self.check_looks()

    def test_in_a_stop_by_a_thread(self):
        self.check_looks(by=("thread",))

    def test_without_a_stop(self):
        self.check_looks("--no-stop")

    def test_without_a_stop_by_a_thread(self):
        self.check_looks("--no-stop", by=("thread",))

    def test_it_has_not_ended(self):
        """Between its programs a process has no thread that can be stopped, or its first one is a zombie. A look that
        meets that in all its tries may still call it ended: one in fifty does, of a program that does nothing else."""
        victim = self.victim("turns_low", 1, "thread", settled=False)
        ended = 0
        for _ in range(3 * LOOKS):
            got = run_tool(["--json", "-p", str(victim.pid)])
            self.check(got, (0, 1, 2))
            node = processes(got.doc)[victim.pid]
            ended += node.get("error", {}).get("code") in ("exited", "zombie", "no_such_process") or node["type"] == "dead"
        self.assertLessEqual(10 * ended, 3 * LOOKS)

    def check_recording(self, *by):
        """In each tick it has samples, or it is told that it has none; and the recording goes on to its end."""
        victim = self.victim("turns_low", 3, *by, settled=False)
        path = os.path.join(self.scratch(), "recording")
        self.check(run_tool(["record", "-p", str(victim.pid), "-d", "2s", "-f", "json", "-o", path]), (0, 1))
        with open(path, encoding="utf-8") as file:
            doc = json.load(file)
        stats = doc["recording"]
        self.assertEqual(stats["end"], "time")
        told = [re.match(r"(\d+) times? in (\d+) ticks", w["message"]) for w in doc["warnings"]
                if w["code"] == "samples_in_exec"]
        nodes = [n for n in walk(doc["processes"]) if stacks_of(n)]
        self.assertGreater(sum(self.check_node(n) for n in nodes), 1)
        self.assertEqual({os.path.basename(n["exe"]) for n in nodes}, {"turns_low", "turns_high"})
        self.assertGreaterEqual(stats["thread_samples"] + sum(int(t.group(1)) for t in told), 0.9 * stats["ticks"])

    def test_recording(self):
        self.check_recording()

    def test_recording_by_a_thread(self):
        self.check_recording("thread")
