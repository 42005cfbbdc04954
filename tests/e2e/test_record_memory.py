# SPDX-License-Identifier: LGPL-2.1-or-later
"""`record --max-memory`: what a recording and its report take is bounded, whatever its targets do, and
what is left out for that is told. Margins are wide: what is wrong here is wrong by factors."""
import os

from bounds import Measured
from harness import ASAN, Case, at_level, functions, processes, walk
from test_record import formats

LIMIT = "16M"
OUTPUT = 110 << 20  # bytes of a report
MEMORY = 120 << 20  # of all processes together; without a limit it is several times that after seconds


class Memory(Case):
    level = "all"

    def record(self, victim, *arguments, seconds=3, memory=MEMORY):
        # On a busy machine it takes longer until there is too much.
        for _ in range(4):
            # There stops are long, too, for which samples would be left out: a matter of other tests.
            got = Measured(["record", "-p", victim.pid, "-d", f"{seconds}s", "--max-memory", LIMIT,
                            "--max-stopped", "100", *arguments])
            # Something else may be told there, as of a process that did not respond for want of a processor.
            if got.status not in (0, 1) or "reached its memory limit" in got.err:
                break
            seconds *= 2
        self.check(got, 1)
        if not ASAN:
            self.assertLessEqual(got.memory, memory, got)
        for pid in victim.watched:
            self.assert_free(pid)
        return got

    def small(self, path):
        self.assertLessEqual(os.path.getsize(path), OUTPUT, path)
        os.remove(path)

    def warning(self, doc):
        found = [w["message"] for w in doc["warnings"] if w["code"] == "memory_limit"]
        self.assertEqual(len(found), 1, doc["warnings"])
        return found[0]

    @at_level("test")
    def test_ever_new_stacks(self):
        victim = self.victim("recursion", 30, 3000, settled=False)
        got = self.record(victim, "-f", "json")
        self.assertIn("innermost frames only", self.warning(got.doc))
        self.assertIn("(--max-memory sets it)", self.warning(got.doc))
        self.assertIn("memory limit of 16 MiB", got.err)
        node = processes(got.doc)[victim.pid]
        cut = [s for s in node["stacks"] if s["unwind"] == "limit" and "memory limit" in s.get("unwind_detail", "")]
        self.assertTrue(cut, node["stacks"][:3])
        self.assertLessEqual(max(len(functions(s, inlined=False)) for s in cut), 16)
        # Nobody is left out of the sums.
        samples = sum(s["samples"] for n in walk(got.doc["processes"]) for s in n["stacks"])
        self.assertEqual(samples, got.doc["sample_count"])
        self.assertEqual(len({t["tid"] for s in node["stacks"] for t in s["threads"]}), 31)
        self.assertTrue(any("stay" in functions(s) for s in cut), cut[:3])

    def test_each_format(self):
        victim = self.victim("recursion", 30, 3000, settled=False)
        folder = self.scratch()
        recording = os.path.join(folder, "recording.snaprec")
        self.record(victim, "-o", recording)
        self.end_victims()
        for name, suffix in sorted(formats().items()):
            if name == "snaprec":
                continue
            out = os.path.join(folder, "report" + suffix)
            got = Measured(["render", recording, "-f", name, "-o", out])
            self.check(got, 1)
            self.assertLessEqual(got.memory, MEMORY, got)
            self.small(out)
        self.small(recording)

    def test_long_names(self):
        """Names of kilobytes in stacks of thousands of frames: reports count bytes, not frames."""
        victim = self.victim("recursion_names", 2, 3000, settled=False)
        recording = os.path.join(self.scratch(), "recording.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "1s", "-o", recording)
        self.end_victims()
        for name, suffix in sorted(formats().items()):
            if name == "snaprec":
                continue
            got = Measured(["render", recording, "-f", name, "-o", recording + suffix])
            self.check(got, 0)
            # What compares with the limit for all formats: JSON Lines have 64 KiB a tick more.
            self.assertLessEqual(os.path.getsize(recording + suffix), (66 << 20) + 500 * (64 << 10), got)
            if not ASAN:
                self.assertLessEqual(got.memory, 400 << 20, got)
            if name in ("text", "json", "jsonl", "folded", "chrome"):
                self.assertIn("the report would be larger than", got.err, name)
            os.remove(recording + suffix)
        # Who asks for more gets it.
        got = self.run_tool("render", recording, "-n", "50", "-f", "folded", "-o", recording + ".folded")
        self.assertNotIn("larger", got.err)

    def test_a_ring(self):
        victim = self.victim("recursion", 30, 3000, settled=False)
        got = self.record(victim, "--ring", "60", "-f", "json", seconds=6)
        self.assertIn("the ring holds less time", self.warning(got.doc))
        # Who came last is there: the newest ticks.
        self.assertTrue(got.doc["slice"], got.doc["recording"])
        self.assertGreater(got.doc["from_ns"], 0)

    def test_ever_new_threads(self):
        victim = self.victim("churn", "swarm", settled=False)
        # How long it takes until there are too many is the machine's matter.
        for seconds in (6, 15, 40):
            got = self.record(victim, "-f", "json", seconds=seconds)
            if "new threads are counted, but not shown" in self.warning(got.doc):
                break
        self.assertIn("new threads are counted, but not shown", self.warning(got.doc))
        shown = {t["tid"] for s in processes(got.doc)[victim.pid]["stacks"] for t in s["threads"]}
        self.assertGreater(got.doc["recording"]["threads"], len(shown))

    def test_ever_new_processes(self):
        victim = self.victim("churn", "crowd", settled=False)
        # One that does not respond for a while forks on unseen: how long it takes is the machine's matter.
        for seconds in (6, 15, 40):
            got = self.record(victim, "-f", "json", seconds=seconds)
            if "new processes are counted, but not shown" in self.warning(got.doc):
                break
        self.assertIn("new processes are counted, but not shown", self.warning(got.doc))
        # Who was there before goes on to be recorded. It forks with thousands of mappings, and where it gets no
        # processor meanwhile it does not respond: then it is let be for a while, and the report says so of it.
        node = processes(got.doc)[victim.pid]
        samples = sum(s["samples"] for s in node["stacks"])
        if node.get("error", {}).get("code") == "not_responding":
            self.assertIn(samples, range(1, 2 * got.doc["tick_count"]))
        else:
            self.assertEqual(samples, 2 * got.doc["tick_count"])

    def test_enough_memory(self):
        """What a usual program does is far from the limit: nothing is told, nothing is missing."""
        victim = self.victim("threads", "futex:40:worker:5", "spin:1:busy", running=1)
        got = self.run_tool("record", "-p", victim.pid, "-d", "1s", "--max-memory", LIMIT, "-f", "json")
        self.assertEqual([w for w in got.doc["warnings"] if w["code"] in ("memory_limit", "report_limited")], [])
