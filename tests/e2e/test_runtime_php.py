# SPDX-License-Identifier: LGPL-2.1-or-later
"""PHP's functions as the reader of PHP finds them in memory, against debug_backtrace() and what a server was
asked for. `./dev runtimes` does the same with another PHP."""
import glob
import os
import subprocess
import sys

from harness import BUILD, Case, SOURCE, need, need_root, missing, settle, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402
import truth_php  # noqa: E402
import truth_python  # noqa: E402

READER = os.path.join(BUILD, "tests", "runtime", "live_reader")

class Php(Case):
    def read(self, pid, *options):
        _, result = truth_python.read(READER, "php", pid, options)
        self.assertIsNotNone(result, "no PHP was found")
        self.assertIsNone(result["refused"])
        self.assertFalse(result["torn"])
        return result

    def test_functions_are_those_of_debug_backtrace(self):
        need("php")
        states = subprocess.run(["php", truth_php.STATES, "list"], capture_output=True, text=True, check=True).stdout
        self.assertGreater(len(states.split()), 20)
        for state in states.split():
            with self.subTest(state):
                victim = subprocess.Popen(["php", truth_php.STATES, state], stdout=subprocess.PIPE, text=True)
                try:
                    line = victim.stdout.readline()
                    settle(victim.pid)
                    for options in ((), ("--image",)):
                        frames = truth_php.compare(self.read(victim.pid, *options), line, truth_php.STATES)
                        self.assertGreater(frames, 3)
                finally:
                    victim.kill()
                    victim.communicate()

    def test_a_server_says_what_it_was_asked_for(self):
        need_root()
        programs = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not programs:
            missing("php-fpm", "php-fpm")
        folder = self.scratch(0o777)
        with php_server.Server(programs[-1], folder) as server:
            php_server.compare([self.read(pid, "--image") for pid in server.workers()], folder)

    def test_without_a_stop(self):
        need("php")
        victim = self.program(["php", "-r", "function waits() { echo 'ready ', getmypid(), \"\\n\"; sleep(3600); } "
                               "class Job { function runs() { waits(); } } (new Job)->runs();"])

        def whole():
            """Who copies has some milliseconds, and may lose the processor to others for longer."""
            node = self.node(victim.pid, "--no-stop", status=(0, 1))
            return None if any("cut" in runtime for runtime in node.get("runtimes", [])) else node

        node = wait_until(whole, "its memory to be copied in time")
        self.assertEqual([r["name"] for r in node["runtimes"]], ["php"])
        own = [e["function"] for e in node["stacks"][0]["entries"] if e.get("language") == "php"]
        self.assertEqual(own[:3], ["sleep", "waits", "Job->runs"])
        self.assertEqual(node["stacks"][0]["threads"][0]["taken"], "unstopped")

    def test_a_program_that_is_none_of_phps(self):
        victim = self.victim("chain")
        self.assertIsNone(truth_python.read(READER, "php", victim.pid)[1])
