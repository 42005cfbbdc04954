# SPDX-License-Identifier: LGPL-2.1-or-later
"""Objects of managed runtimes on a page that nobody serves, which no look at the mappings tells: who reads it sleeps for
ever. What was to be read is said to be missing, nothing gets another's name, native stacks and everybody else are whole."""
import os
import re
import shutil
import subprocess
import sys

from harness import BUILD, Case, functions, need, need_root, processes, read_file, threads, tids_of
from test_runtime_go import build

LIBRARY = os.path.join(BUILD, "tests", "targets", "libholds.so")
TASKS = 40  # more than a page has room for
GOROUTINES = 900  # of holds.go
STANDARD = ("run", "Runner.run", "BaseEventLoop.run_until_complete", "BaseEventLoop.run_forever",
            "BaseEventLoop._run_once", "Handle._run")

PYTHON = """
import asyncio, ctypes, sys
hold = ctypes.PyDLL(sys.argv[1]).hold_page
class Own(asyncio.Task):
    pass
async def leaf():
    await asyncio.get_running_loop().create_future()
async def waits():
    await leaf()
async def main():
    tasks = [Own(waits(), name=f"own{i}") for i in range(int(sys.argv[3]))]
    await asyncio.sleep(0)
    code = waits.__code__
    objects = {"task": tasks[10], "coroutine": tasks[10].get_coro(), "type": Own, "code": code, "name": code.co_name}
    hold(ctypes.c_uint64(id(objects[sys.argv[2]])))
asyncio.run(main())
"""

# Of executor_globals, which has the innermost frame at this place in 7.3 to 8.4; zend_function is at 24 of a frame.
PHP = """
function waits($library, $what) {
    $globals = FFI::cdef('extern uint64_t executor_globals[80];');
    $hold = FFI::cdef('void hold_page(uint64_t); uint64_t read_word(uint64_t);', $library);
    $frame = $globals->executor_globals[61];
    $hold->hold_page($what == 'frame' ? $frame : $hold->read_word($frame + 24));
}
waits($argv[1], $argv[2]);
"""

class Held(Case):
    def look(self, argv, language, known, whole=None):
        """The process with such a page beside one that has none."""
        innocent = self.victim("threads", "futex:3:worker")
        alone = threads(self.node(innocent.pid))
        victim = self.program(argv, settled=False)
        doc = self.json("-p", victim.pid, "-p", innocent.pid, "--threads", status=(0, 1))
        nodes = processes(doc)
        self.assertEqual({tid: functions(stack) for tid, (_, stack) in threads(nodes[innocent.pid]).items()},
                         {tid: functions(stack) for tid, (_, stack) in alone.items()}, doc["_result"])
        node = nodes[victim.pid]
        entries = [entry for stack in node["stacks"] for entry in stack["entries"]]
        self.assertTrue(any(entry.get("function") == "hold_page" for entry in entries), doc["_result"])
        names = {entry["function"] for entry in entries if entry.get("language") == language and "function" in entry}
        self.assertLessEqual(names, known, doc["_result"])
        for runtime in node.get("runtimes", ()):
            self.assertTrue(runtime.get("cut") or (whole and runtime.get("tasks") == whole), doc["_result"])
        return node, [w["message"] for w in doc["warnings"] if w.get("pid") == victim.pid]

    def test_tasks_of_python(self):
        need_root()
        need("python3")
        python = os.path.realpath(shutil.which("python3", path="/usr/bin") or sys.executable)
        for what in ("task", "coroutine", "type", "code", "name"):
            with self.subTest(what=what):
                node, _ = self.look([python, "-c", PYTHON, LIBRARY, what, str(TASKS)], "python",
                                    {"leaf", "waits", "main", "<module>", *STANDARD},
                                    # From 3.14 on tasks stand in lists, and nobody asks for their type.
                                    TASKS + 1 if what == "type" else None)
                tasks = {task["name"] for stack in node["stacks"] for task in stack.get("tasks", ()) if "name" in task}
                self.assertIn("runtimes", node)
                self.assertLessEqual(tasks, {"Task-1"} | {f"own{i}" for i in range(TASKS)})

    def test_functions_of_php(self):
        need_root()
        need("php")
        for what in ("frame", "function"):
            with self.subTest(what=what):
                node, said = self.look(["php", "-d", "ffi.enable=1", "-r", PHP, LIBRARY, what], "php",
                                    {"waits", "{main}", "FFI->hold_page"})
                self.assertIn("runtimes", node)
                if what == "frame":
                    self.assertTrue(any("its memory was not copied in time" in message for message in said), said)

    # ---- Go ----

    def go_programs(self):
        """With symbols and without, and where the list of goroutines is in both."""
        named = build("go-holds", ["holds/holds.go"], ["-buildmode=exe"], cgo=True)
        stripped = os.path.join(self.scratch(), "go-holds-stripped")
        subprocess.run(["strip", "-o", stripped, named], check=True)
        text = subprocess.run(["readelf", "-sW", named], stdout=subprocess.PIPE, text=True, check=True).stdout
        return (named, stripped), re.search(r"^.*: ([0-9a-f]+) .* runtime\.allgs$", text, re.MULTILINE)[1]

    def check_goroutines(self, node):
        """Each at most once, with its own functions alone; how many there are."""
        stacks = [(functions(stack), stack) for stack in node["stacks"] if "tasks" in stack]
        ids = [task["id"] for _, stack in stacks for task in stack["tasks"]]
        self.assertEqual(len(ids), len(set(ids)))
        for names, stack in stacks:
            own = [name for name in names if name and name.startswith("main.")]
            self.assertIn(own, ([], ["main.waits"] * 2, ["main._Cfunc_hold", "main.main"]), names)
            self.assertTrue(stack["unwind"] != "complete" or (own and names[-1] == "runtime.goexit"), stack)
        return len(ids)

    def test_goroutines(self):
        """Of the list, what says where it is, a descriptor, a stack."""
        need_root()
        need("strip")
        programs, at = self.go_programs()
        for program in programs:
            for what in ("descriptor", "stack", "list", "list's end", "header"):
                with self.subTest(os.path.basename(program), what=what):
                    node, said = self.look([program, LIBRARY, what, at], "of tasks, below", set())
                    self.assertTrue(any("blocked (userfaultfd, FUSE, " in message for message in said), said)
                    shown = self.check_goroutines(node)
                    if what == "stack":
                        self.assertGreaterEqual(shown, GOROUTINES)
                    self.assertTrue(shown or any("runtime" in m or "not copied in time" in m for m in said), said)
                    for tid in tids_of(node["pid"]):
                        status = read_file(f"/proc/{node['pid']}/task/{tid}/status") or ""
                        self.assertNotRegex(status, r"TracerPid:\t[1-9]|State:\t[tT]")
