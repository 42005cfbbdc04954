# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks of aarch64, on any machine: a capture that was taken there of tests/aarch64/frames.c, whose return addresses are
signed, is rendered here. What gdb said of each process there is written down beside, function by function."""

import lzma
import os
import unittest

from harness import SOURCE, Case

FOLDER = os.path.join(SOURCE, "tests", "aarch64")
SIGNAL = ["wait_for_ever", "handler", "__kernel_rt_sigreturn", "leaf_faults", "is_interrupted"]
# By gdb 13 on aarch64, but for call-of-null, which is by its source. gdb calls the return from a signal handler
# "<signal handler called>".
GDB = {
    "chain": ["wait_for_ever", "large_frame", "in_a_chain"],
    "leaf": ["leaf_spins", "calls_leaf"],
    "handler": SIGNAL + ["in_handler"],
    "other-stack": SIGNAL + ["on_other_stack"],
    "call-of-null": SIGNAL[:3] + [None, "calls_nothing", "with_nothing"],
    "no-cfi": ["wait_for_ever", "no_cfi_record", "without_cfi"],
    "no-cfi-leaf": ["no_cfi_leaf", "leaf_without_cfi"],
}


def processes_of(processes):
    for process in processes:
        yield process
        yield from processes_of(process.get("children", ()))


class Recorded(Case):
    def setUp(self):
        super().setUp()
        self.dir = self.scratch()
        for name in ("frames", "frames.capture"):
            with lzma.open(os.path.join(FOLDER, name + ".xz")) as packed, \
                    open(os.path.join(self.dir, name), "wb") as out:
                out.write(packed.read())

    def render(self, *arguments):
        return self.run_tool("render", os.path.join(self.dir, "frames.capture"), "--debug-dir", self.dir, *arguments)

    def test_stacks_are_those_of_gdb(self):
        found = {}
        for process in processes_of(self.render("--json").doc["processes"]):
            found[process["name"]] = [entry.get("symbol") for stack in process["stacks"] for entry in stack["entries"]]
        for name, functions in GDB.items():
            with self.subTest(name):
                self.assertEqual(found[name], functions + ["begin", "_start"])

    def test_text_has_the_bytes_that_it_had_there(self):
        with open(os.path.join(FOLDER, "frames.txt"), encoding="utf-8") as there:
            self.assertEqual(self.render().text, there.read())


if __name__ == "__main__":
    unittest.main()
