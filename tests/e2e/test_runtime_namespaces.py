# SPDX-License-Identifier: LGPL-2.1-or-later
"""Go, Python and PHP in namespaces of their own, as in a container: another number for each thread, and a program that
lies where nobody else can open it."""
import os
import shutil

from harness import (Case, functions, need, need_namespaces, need_root, processes, read_file, settle, stacks_of,
                     wait_until)
from test_runtime_go import build

PYTHON = """
import os, threading, time
def naps(): time.sleep(3600)
def starts():
    threading.Thread(target=naps, daemon=True).start()
    print("ready", os.getpid(), flush=True)
    input()
starts()
"""

PHP = """<?php
class Job { function runs() { waits(); } }
function waits() { echo 'ready ', getmypid(), "\\n"; fgets(STDIN); }
(new Job)->runs();
"""

INSIDE = """
mount -t tmpfs none "$1" && cp "$2" "$1/program" && shift 2 && exec "$@"
"""


class Namespaces(Case):
    asan = True

    def setUp(self):
        super().setUp()
        need_root()
        need("mount")
        need_namespaces("-mpf")

    def inside(self, source, *argv):
        """The process that runs there, by its number here; it reads `program` in a folder that is empty elsewhere."""
        folder = self.scratch()
        victim = self.program(["unshare", "-mpf", "--kill-child", "sh", "-c", INSIDE, "sh", folder, source,
                               *(word.replace("{}", folder + "/program") for word in argv)], settled=False)
        self.assertEqual(victim.line.split()[1], "1")  # its own number for itself
        self.assertEqual(os.listdir(folder), [])

        def child():
            return (read_file(f"/proc/{victim.process.pid}/task/{victim.process.pid}/children") or "").split()

        return victim, int(wait_until(child, "the program")[0])

    def source(self, name, text):
        path = os.path.join(self.scratch(), name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def check_runtime(self, victim, pid, name):
        victim.watched = [pid]
        settle(pid)
        doc = self.json("-p", pid)
        node = processes(doc)[pid]
        self.assertEqual([runtime["name"] for runtime in node["runtimes"]], [name])
        self.assertEqual(node["ns_pid"], 1)
        for stack in stacks_of(node):
            self.assertEqual(stack["unwind"], "complete", stack)
        return node

    def test_python(self):
        need("python3")
        python = os.path.realpath(shutil.which("python3"))
        victim, pid = self.inside(self.source("program.py", PYTHON), python, "{}")
        node = self.check_runtime(victim, pid, "cpython")
        stack = self.stack_of(node, "naps")
        self.assertIn("Thread.run", functions(stack))
        entry = next(e for e in stack["entries"] if e.get("function") == "naps")
        self.assertEqual((entry["line"], entry["language"]), (3, "python"))
        self.assertTrue(entry["file"].endswith("/program"))
        main = [e["function"] for e in self.stack_of(node, tid=pid)["entries"] if e.get("language") == "python"]
        self.assertEqual(main, ["starts", "<module>"])

    def test_php(self):
        need("php")
        victim, pid = self.inside(self.source("program.php", PHP), os.path.realpath(shutil.which("php")), "{}")
        stack, = self.check_runtime(victim, pid, "php")["stacks"]
        own = [(e["function"], e.get("line")) for e in stack["entries"] if e.get("language") == "php"]
        self.assertEqual(own, [("fgets", None), ("waits", 3), ("Job->runs", 2), ("{main}", 4)])

    def test_go(self):
        """The threads that its goroutines are on are found by Go's own numbers for them."""
        victim, pid = self.inside(build("waiting-stripped", ["waiting/waiting.go"], ["-ldflags=-s -w"]), "{}")
        node = self.check_runtime(victim, pid, "go")
        reads, = [s for s in stacks_of(node) if "main.main" in functions(s)]
        task, = reads["tasks"]
        self.assertEqual(task["state"], "syscall")
        self.assertEqual(functions(reads)[-2:], ["runtime.main", "runtime.goexit"])
        self.assertIn(task["tid"], [int(tid) for tid in os.listdir(f"/proc/{pid}/task")])
        self.assertEqual(sum(s["count"] for s in stacks_of(node) if "main.receive" in functions(s)), 30)
