# SPDX-License-Identifier: LGPL-2.1-or-later
"""Options of managed runtimes on a program that has none: nothing changes, and what makes no sense is refused."""
from harness import Case, functions, processes


class RuntimeMemory(Case):
    def stacks(self, *arguments):
        doc = self.run_tool("-j", *arguments).doc
        return [functions(stack) for process in processes(doc).values() for stack in process["stacks"]]

    def test_a_program_without_a_runtime(self):
        victim = self.victim("threads", "futex:20:worker:5", "epoll:2:poller")
        plain = self.stacks("-p", victim.pid)
        self.assertTrue(plain)
        for arguments in (["--runtimes", "none"], ["--runtimes", "auto"], ["--runtimes", "go,python,php"],
                          ["--runtimes=go", "--runtime-budget", "1", "--runtime-memory", "64k"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.stacks("-p", victim.pid, *arguments), plain)

    def test_refused(self):
        for arguments, word in ((["--runtimes", "perl"], "not one of go, cpython, php, auto, none"),
                                (["--runtimes", "none,go"], "stand alone"),
                                (["--runtime-budget", "0"], "milliseconds"),
                                (["--runtime-memory", "1"], "not a size of memory")):
            got = self.run_tool("-p", "1", *arguments, status=64)
            self.assertIn(word, got.err)
