# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that are alike are one in the text, and the odd one stands apart: real servers and shells."""
import glob
import os
import re
import signal
import sys

from harness import Case, SOURCE, missing, need_root, proc_state, processes, read_file, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402


def children(pid):
    return [int(word) for word in (read_file(f"/proc/{pid}/task/{pid}/children") or "").split()]


# Calls of x86-64: asleep in anything else, a program is on its way there.
ACCEPT, SLEEP = ("43", "288"), ("35", "230", "219")


def waits_in(pid, calls):
    return proc_state(pid) == "S" and (read_file(f"/proc/{pid}/syscall") or "").split(" ")[0] in calls


class Fold(Case):
    asan = True

    def whole(self, *arguments):
        """A report in which nothing is missing: on a busy machine a process may answer too late."""
        def look():
            got = self.run_tool("--stop-timeout", "20000", *arguments, status=(0, 1, 2))
            return got if got.status == 0 else None
        return wait_until(look, "a whole report")

    def test_children_of_a_shell(self):
        count = 20
        shell = self.program(["sh", "-c", f"for i in $(seq {count}); do sleep 36$i & done; echo ready $$; read line"])
        wait_until(lambda: len(children(shell.pid)) == count and
                   all(read_file(f"/proc/{p}/comm") == "sleep\n" for p in children(shell.pid)), "its children")
        sleepers = children(shell.pid)

        def text(*options):
            wait_until(lambda: all(waits_in(p, SLEEP) or proc_state(p) == "T" for p in sleepers), "all to sleep")
            return self.whole("-p", shell.pid, *options).text

        folded = text()
        self.assertRegex(folded, rf"─ {count} × sleep  sleep \*  +pids ")
        self.assertRegex(folded, rf"─ {count} × sleep   sleeping in clock_nanosleep  +tids ")
        self.assertNotIn("sleep[", folded)
        self.assertIn(f"{count + 1} processes, {count + 1} threads", " ".join(folded.split()))
        self.assertEqual(text("--no-fold").count("─ sleep["), count)
        self.assertEqual(text("--flat").count("× sleep["), count)
        self.assertEqual(len(processes(self.whole("--json", "-p", shell.pid).doc)), count + 1)
        odd = sleepers[7]
        os.kill(odd, signal.SIGSTOP)
        wait_until(lambda: proc_state(odd) == "T", "the odd one to stop")
        folded = text()
        self.assertRegex(folded, rf"─ {count - 1} × sleep  sleep \*  +pids ")
        self.assertEqual(re.findall(r"─ sleep\[(\d+)\]", folded), [str(odd)])

    def test_a_pool_of_php_with_one_that_works(self):
        need_root()
        programs = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not programs:
            missing("php-fpm", "php-fpm")
        with php_server.Server(programs[-1], self.scratch(0o777), workers=6) as server:
            wait_until(lambda: sum(waits_in(p, ACCEPT) for p in server.workers()) == 5 and
                       sum(waits_in(p, SLEEP) for p in server.workers()) == 1, "five to be idle, and one to work")
            text = self.whole("-p", server.pid).text
            self.assertRegex(text, r"─ 5 × php-fpm\S*  php-fpm: pool demo  +pids ")
            own = re.findall(r"─ php-fpm\S*\[(\d+)\]  php-fpm: pool demo\n.*request_method=GET.*/app/users\.php", text)
            self.assertEqual(len(own), 1, text)
            self.assertIn(int(own[0]), server.workers())
