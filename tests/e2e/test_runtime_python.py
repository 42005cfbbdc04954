# SPDX-License-Identifier: LGPL-2.1-or-later
"""Python's frames as the reader of CPython finds them in memory, against what the program says of itself
(faulthandler, asyncio). `./dev runtimes` does the same with many versions of Python."""
import os
import shutil
import subprocess
import sys

from harness import BUILD, Case, SOURCE, need, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import truth_python  # noqa: E402

READER = os.path.join(BUILD, "tests", "runtime", "live_reader")
TASKS_SINCE = 11
PROGRAMS = os.path.join(SOURCE, "tests", "runtime", "python")

SPINNER = """
import os, sys, threading, time
sys.setswitchinterval(1000)
def spin():
    print("ready", os.getpid(), flush=True)
    while True:
        pass
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
time.sleep(0.05)
spin()
"""

INTERPRETERS = """
import os, threading, time
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
code = '''
import os, time
def in_other():
    print("ready", os.getpid(), "thread=" + str(%s), flush=True)
    time.sleep(3600)
in_other()
'''
def runs_other():
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    run(other, code % threading.get_native_id())
threading.Thread(target=runs_other, daemon=True).start()
time.sleep(3600)
"""

AWAITS = """
import asyncio, os
begun = 0
def begins():
    global begun
    begun += 1
def tells(loop):
    if begun == 2 + 1000 + 3 + 6 + 2:
        print("ready", os.getpid(), flush=True)
    else:
        loop.call_soon(tells, loop)
async def sleeper():
    begins()
    await asyncio.sleep(3600)
async def worker(queue):
    begins()
    await queue.get()
async def request():
    begins()
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(sleeper())
async def shielded(task):
    begins()
    await asyncio.shield(task)
async def main():
    queue = asyncio.Queue()
    alone, shared = [asyncio.create_task(sleeper(), name=name) for name in ("alone", "shared")]
    made = [asyncio.create_task(worker(queue), name=f"worker-{i}") for i in range(1000)]
    made += [asyncio.create_task(request(), name=f"GET /{i}") for i in range(3)]
    made += [asyncio.create_task(shielded(shared), name=name) for name in ("first", "second")]
    tells(asyncio.get_running_loop())
    await asyncio.gather(*made)
asyncio.run(main())
"""

FORKS = """
import os, threading, time
def forks():
    if os.fork():
        time.sleep(3600)
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)
threading.Thread(target=forks).start()
"""

# Small objects of a cache lie around the tasks, with some hundred MiB.
LARGE = """
import sys
if sys.argv[1] == "python":
    sys.modules["_asyncio"] = None
import asyncio, os, threading
cache = [{"k": [i]} for i in range(400000)]
begun, said, other = 0, [], threading.Event()
async def sleeper():
    global begun
    begun += 1
    await asyncio.sleep(3600)
async def gathers():
    await asyncio.gather(*(sleeper() for _ in range(100)))
async def groups():
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(sleeper())
async def waits():
    await asyncio.wait_for(sleeper(), 3600)
def says(loop, wanted):
    if begun < wanted:
        loop.call_soon(says, loop, wanted)
        return
    said.extend(task.get_name() for task in asyncio.all_tasks())
    cache.extend({"k": [i]} for i in range(200000))
    other.set()
    if wanted == 402:
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with open(sys.argv[2], "w") as file:
            file.write(" ".join(sorted(said)))
        print("ready", os.getpid(), f"resident={resident}", flush=True)
async def main(wanted):
    loop = asyncio.get_running_loop()
    made = [loop.create_task(each()) for each in (gathers, groups, waits)]
    says(loop, wanted)
    await asyncio.gather(*made)
threading.Thread(target=lambda: asyncio.run(main(201)), daemon=True).start()
other.wait()
asyncio.run(main(402))
"""

MAPS = """
import mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=flags) for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED)]
print("ready", os.getpid(), flush=True)
time.sleep(3600)
"""


class Python(Case):
    """With --image the memory that a plan has copied is read, else the process itself."""

    def python(self):
        need("python3")
        return os.path.realpath(shutil.which("python3", path="/usr/bin") or sys.executable)

    def minor(self):
        return int(subprocess.run([self.python(), "-c", "import sys; print(sys.version_info[1])"], capture_output=True,
                                  check=True).stdout)

    def start(self, *arguments, **options):
        return self.program(["nice", "-n", "15", self.python(), *arguments], **options)

    def read(self, victim, *options):
        _, result = truth_python.read(READER, "cpython", victim.pid, options)
        self.assertIsNotNone(result, "no Python was found")
        self.assertIsNone(result["refused"])
        self.assertFalse(result["torn"])
        return result

    def functions(self, result, thread):
        return [function for _, _, function in truth_python.frames_of(result, thread["stack"])]

    def test_threads_are_those_of_faulthandler(self):
        out = os.path.join(self.scratch(), "dump")
        victim = self.start(os.path.join(PROGRAMS, "zoo.py"), out)
        for options in ((), ("--image",)):
            result = self.read(victim, *options)
            threads, frames = truth_python.compare_threads(result, out, victim.pid)
            self.assertEqual(threads, 11)
            self.assertGreater(frames, 140)

    def test_recursion_of_five_thousand(self):
        victim = self.start(os.path.join(PROGRAMS, "recursion.py"), "5000")
        result = self.read(victim, "--image")
        stack = max(result["threads"], key=lambda thread: len(thread["stack"]["frames"]))
        self.assertEqual(self.functions(result, stack).count("recurse"), 5001)
        self.assertEqual(stack["stack"]["end"], "complete")

    def test_who_holds_the_lock(self):
        victim = self.start("-c", SPINNER, settled=False)

        def holders():
            return [t["tid"] for t in self.read(victim, "--image")["threads"] if t["holds_gil"]]

        # It says that it is ready without the lock, and does not let go of it any more.
        self.assertEqual(wait_until(holders, "a thread to hold the lock"), [victim.pid])
        self.assertEqual(holders(), [victim.pid])

    def test_another_interpreter_is_on_the_thread_that_runs_it(self):
        try:
            victim = self.start("-c", INTERPRETERS)
        except AssertionError:
            self.skipTest("missing: interpreters")
        result = self.read(victim, "--image")
        found = {thread["tid"]: self.functions(result, thread) for thread in result["threads"]}
        functions = found[victim["thread"]]
        self.assertEqual(functions[0], "in_other")
        self.assertLess(functions.index("in_other"), functions.index("runs_other"))

    def test_a_child_of_fork_has_its_own_threads(self):
        victim = self.start("-c", FORKS, settled=False)
        result = self.read(victim, "--image")
        self.assertEqual([thread["tid"] for thread in result["threads"]], [victim.pid])
        self.assertEqual(self.functions(result, result["threads"][0])[0], "forks")

    def test_mapped_data_is_not_taken_for_a_program(self):
        """Wherever a runtime is looked for, a report of a program that maps a file of data has nothing to warn of."""
        data = os.path.join(self.scratch(), "python3.data")
        with open(data, "wb") as file:
            file.write(b"no program" * 1000)
        victim = self.start("-c", MAPS, data)
        document = self.json("-p", str(victim.pid))
        self.assertEqual(document.get("warnings", []), [])
        self.assertEqual([runtime["name"] for runtime in document["processes"][0]["runtimes"]], ["cpython"])

    def test_tasks_are_those_of_asyncio(self):
        if self.minor() < TASKS_SINCE:
            self.skipTest(f"python3: tasks are understood from 3.{TASKS_SINCE} on")
        out = os.path.join(self.scratch(), "tasks")
        victim = self.start(os.path.join(PROGRAMS, "tasks.py"), out, "100")
        tasks, _ = truth_python.compare_tasks(self.read(victim, "--image"), out)
        self.assertGreater(tasks, 100)

    def test_tasks_of_a_large_process_are_all_of_them(self):
        """In two threads with a loop each, by the module in C, and without it by classes in Python."""
        if self.minor() < TASKS_SINCE:
            self.skipTest(f"python3: tasks are understood from 3.{TASKS_SINCE} on")
        kinds = ("c", "python") if self.minor() <= 13 else ("c",)
        for kind in kinds:
            with self.subTest(kind=kind):
                out = os.path.join(self.scratch(), "names")
                victim = self.start("-c", LARGE, kind, out)
                self.assertGreater(victim["resident"], 200 << 20)
                process = self.json(victim.pid, "--runtime-budget", "10000", "--stop-timeout", "30000",
                                    "--timeout", "60000")["processes"][0]
                self.assertNotIn("cut", process["runtimes"][0])
                self.assertLess(process["runtimes"][0]["memory_bytes"], 4 << 20)
                nodes = list(process["logical"])
                for node in nodes:
                    nodes.extend(node["children"])
                # wait_for() makes a task up to 3.11.
                self.assertEqual(sorted((node["name"], node["task_count"]) for node in nodes if node["task_count"] < 3),
                                 [("gathers", 2), ("groups", 2), ("main", 2)] + [("sleeper", 2)] * (self.minor() == 11) +
                                 [("waits", 2)])
                self.assertEqual([node["task_count"] for node in nodes if node["task_count"] > 2], [200, 200])
                tasks = [task["name"] for node in nodes for stack in node["stacks"] for task in stack["tasks"]]
                with open(out, encoding="utf-8") as file:
                    self.assertEqual(sorted(tasks), file.read().split())

    def test_tree_of_tasks_that_await_each_other(self):
        if self.minor() < TASKS_SINCE:
            self.skipTest(f"python3: tasks are understood from 3.{TASKS_SINCE} on")
        victim = self.start("-c", AWAITS)

        def tree(nodes):
            return sorted((node["name"], node["task_count"], tree(node["children"])) for node in nodes)

        # On a busy machine it takes a while to read a thousand of them.
        patient = ("--runtime-budget", "10000", "--stop-timeout", "30000", "--timeout", "60000")
        process = self.json(victim.pid, *patient)["processes"][0]
        self.assertEqual({node["type"] for node in process["logical"]}, {"task"})
        self.assertEqual(tree(process["logical"]), [
            ("Task-1", 1, [("request", 3, [("sleeper", 6, [])]), ("shielded", 2, [("shared", 1, [])]),
                           ("worker", 1000, [])]),
            ("alone", 1, [])])
        text = self.run_tool(victim.pid, *patient).text
        self.assertLess(len(text.splitlines()), 60)
        self.assertIn("│ ├─ 1000 × worker-*   waiting", text)
        for options in (("--task-tree", "none"), ("--task-tree", "request,parent")):
            self.assertNotIn("logical", self.json(victim.pid, *options)["processes"][0])

    def test_a_program_that_is_none_of_pythons(self):
        victim = self.victim("chain")
        self.assertIsNone(truth_python.read(READER, "cpython", victim.pid)[1])
