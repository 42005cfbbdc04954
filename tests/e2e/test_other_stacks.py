# SPDX-License-Identifier: LGPL-2.1-or-later
"""Frames of one thread on several stacks: all are followed, in every way to look at a process, within
bounds where a target makes many stacks."""
import os
import subprocess

from bounds import Bounded
from harness import build_once, functions, need, processes, source_target

WAYS = [(), ("--stop-all",), ("--no-stop",)]
INNERMOST = ["innermost", "dive"]
OUTERMOST = ["main", "_start"]


class OtherStacks(Bounded):

    def core_of(self, pid):
        """The process as a core has it."""
        need("gcore")
        path = os.path.join(self.scratch(), "core")
        subprocess.run(["gcore", "-o", path, str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL, check=True)
        return processes(self.json("core", f"{path}.{pid}", free=False))[pid]

    def looks_at(self, pid):
        """The same process in every way, also without the rights that BPF takes: then a stop alone tells the registers
        that CFI may need."""
        for way in WAYS:
            yield " ".join(way), self.node(pid, *way)
            yield " ".join(("no bpf",) + way), self.node(pid, *way, "--force-stop", tool=self.without_bpf())
        yield "core", self.core_of(pid)

    def assert_whole(self, victim, function, wanted, text):
        for way, node in self.looks_at(victim.pid):
            stack = self.stack_of(node, function)
            named = [name for name in functions(stack) if name in set(wanted)]
            # A thread that is stopped for its registers alone runs before its other stacks are known.
            if stack["threads"][0].get("taken") == "alone":
                self.assertEqual(named, wanted[:len(named)], (way, text))
                continue
            self.assertEqual((way, named), (way, wanted), text)
            self.assertEqual(stack["unwind"], "complete", way)

    def calls(self, how, count):
        victim = self.victim("other_stacks", how, count)
        wanted = INNERMOST + ["on_stack_by_" + how, "dive"] * count + OUTERMOST
        self.assert_whole(victim, "innermost", wanted, how)

    def test_cfi_that_computes_the_stack(self):
        self.calls("record", 5)

    def test_cfi_by_the_frame_pointer(self):
        self.calls("pointer", 5)

    def test_split_stacks(self):
        need("gcc", "ld.gold")
        program = build_once("other_stacks_split", [
            "gcc", "-g", "-O1", "-fsplit-stack", "-fuse-ld=gold", source_target("other_stacks_split.c"), "-lpthread",
            "-o", "{out}"])
        self.assert_whole(self.program([program]), "rest", [
            "rest", "descend", *["__morestack", "descend"] * 5, "__morestack", "thread_main"], "split")

    def test_stack_of_makecontext(self):
        """It was never called: its function is the outermost one that is."""
        victim = self.victim("other_stacks", "context")
        for way, node in self.looks_at(victim.pid):
            stack = self.stack_of(node, "coroutine")
            self.assertEqual(functions(stack)[-1] or "__start_context", "__start_context", way)
            self.assertEqual((way, functions(stack)[-2]), (way, "coroutine"))
            self.assertEqual(stack["unwind"], "complete", way)

    def test_ten_thousand_stacks(self):
        """Each thread, and all of them together, get a part of the time and of the memory."""
        victim = self.victim("other_stacks", "record", 10000)
        for way in WAYS:
            got = self.measure("-p", victim.pid, "--json", *way, seconds=2)
            stack = self.stack_of(processes(got.doc)[victim.pid], "innermost")
            self.assertEqual(stack["unwind"], "limit", way)
            self.assertIn("the copy of the stack ends", stack["unwind_detail"], way)
            self.assertGreater(functions(stack).count("on_stack_by_record"), 50, way)
