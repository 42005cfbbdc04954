# SPDX-License-Identifier: LGPL-2.1-or-later
"""Python in unusual positions, as a report shows it: several interpreters on a thread, generators, deep recursion,
names beyond ASCII, start-up and finalization, embedded in another program."""
import glob
import json
import os
import shutil
import subprocess
import sys

from harness import Case, SOURCE, TARGETS, missing, need, wait_until, walk

RECURSION = os.path.join(SOURCE, "tests", "runtime", "python", "recursion.py")

# A thread runs a second interpreter, which runs a third one; another thread sleeps in the first.
INTERPRETERS = """
import os, threading, time
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
first = interpreters.create()
second = '''
import os, time
def innermost():
    BODY
innermost()
'''
def waits():
    run(first, second)
thread = threading.Thread(target=waits)
def says():
    time.sleep(3600)
threading.Thread(target=says, daemon=True).start()
thread.start()
thread.join()
"""
SAYS_READY = 'print("ready", os.getpid(), flush=True)'

GENERATORS = """
import os, sys, time
def numbers():
    yield 1
    time.sleep(3600)
    yield 2
def through():
    yield from numbers()
class Iterates:
    def __iter__(self):
        return through()
def consumes():
    for number in Iterates():
        print("ready", os.getpid(), flush=True)
consumes()
"""

CALLS_BACK = """
import ctypes, os, time
libc = ctypes.CDLL(None)
def compares(_left, _right):
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)
    return 0
def sorts():
    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, ctypes.c_size_t(2), ctypes.c_size_t(4), Compare(compares))
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
sorts()
"""

NAMES = """
import os, time
class Größe:
    def ändern(self):
        self.名前()
    def 名前(self):
        𝒹𝓮𝓮𝓅()
def 𝒹𝓮𝓮𝓅():
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)
Größe().ändern()
"""

ENDS = """
import atexit, os, time
def waits():
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)
class Last:
    def __del__(self, write=os.write, sleep=time.sleep, line=b"ready %d\\n" % os.getpid()):
        write(1, line)
        sleep(3600)
WHEN
"""

# asyncio is there, but no loop: one has run, threads have locals, and there are objects of 60 MB.
NO_LOOP = """
import asyncio, os, threading, time
asyncio.run(asyncio.sleep(0))
local = threading.local()
def waits():
    local.number = 1
    time.sleep(3600)
for _ in range(3):
    threading.Thread(target=waits, daemon=True).start()
objects = [[number] for number in range(600000)]
print("ready", os.getpid(), flush=True)
time.sleep(3600)
"""

LOOP_OF_A_THREAD = """
import asyncio, os, threading, time
async def waits():
    task = asyncio.create_task(asyncio.sleep(3600), name="sleeps")
    await asyncio.sleep(0)
    print("ready", os.getpid(), flush=True)
    await task
locals = [threading.local() for _ in range(20)]
def runs():
    for number, local in enumerate(locals):
        local.number = number
    asyncio.run(waits())
threading.Thread(target=runs, daemon=True).start()
time.sleep(3600)
"""

LOOP_THAT_IS_BLOCKED = """
import asyncio, os, time
def blocks(depth):
    if depth:
        return blocks(depth - 1)
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)
async def main():
    task = asyncio.create_task(asyncio.sleep(3600), name="sleeps")
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(blocks, 300)
    await task
asyncio.run(main())
"""

# One more task, whose code, or whose coroutine, lies on a page of its own that nobody can read.
UNREAD = """
import asyncio, ctypes, gc, os
libc = ctypes.CDLL(None)
libc.mallopt(-3, 1 << 16)
async def plain():
    await forever
async def hidden():
    await forever
async def main():
    global forever
    forever = asyncio.get_running_loop().create_future()
    code, what = hidden.__code__, "WHAT"
    if what == "code":
        hidden.__code__ = code.replace(co_code=code.co_code + bytes([9, 0]) * 100000)
    elif what == "coroutine":
        hidden.__code__ = code.replace(co_stacksize=30000)
    tasks = [asyncio.create_task(plain(), name=f"plain-{number}") for number in range(COUNT)]
    tasks.append(asyncio.create_task(hidden(), name="hidden"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    gc.disable()
    at = {"code": id(hidden.__code__), "coroutine": id(tasks[-1].get_coro())}.get(what)
    if at and libc.mprotect(ctypes.c_void_p(at & ~4095), ctypes.c_size_t(4096), 0):
        raise OSError("mprotect")
    print("ready", os.getpid(), flush=True)
    await forever
asyncio.run(main())
"""
# Each argument is a thread, which takes the locks in its name one after the other: "x" is no RLock. At "_" it waits for
# the others, at "z" it sleeps, and with "t" a lock is taken for an hour at most.
LOCKS = """
import os, sys, threading, time
locks = {name: threading.Lock() if name == "x" else threading.RLock() for name in "abx"}
turns = threading.Barrier(sum("_" in names for names in sys.argv[1:]) or 1)
def takes(names):
    for name in names:
        if name == "_":
            turns.wait()
        elif name == "z":
            time.sleep(3600)
        elif name != "t":
            locks[name].acquire(timeout=3600 if "t" in names else -1)
for names in sys.argv[1:]:
    threading.Thread(target=takes, args=(names,), name=names, daemon=True).start()
    time.sleep(0.05)
print("ready", os.getpid(), flush=True)
time.sleep(3600)
"""

# A thread has a lock while another one forks, and the child wants it. A new thread of the child could have it: it gets the
# memory, and so the number, of the one that had it.
LOCK_AT_FORK = """
import os, sys, threading, time
lock, held = threading.RLock(), threading.Event()
def has_it():
    with lock:
        held.set()
        time.sleep(3600)
holder = threading.Thread(target=has_it, name="has_it", daemon=True)
holder.start()
held.wait()
pid = os.fork()
if pid:
    print("ready", os.getpid(), f"child={pid}", f"holder={holder.native_id}", flush=True)
    time.sleep(3600)
lock.acquire()
"""

TAKES_IN_ORDER = """
import os, threading, time
first, second = threading.RLock(), threading.RLock()
def takes():
    while True:
        with first, second, first:
            pass
for _ in range(2):
    threading.Thread(target=takes, daemon=True).start()
print("ready", os.getpid(), flush=True)
time.sleep(3600)
"""
PATIENT = ("--runtime-budget", 20000, "--stop-timeout", 40000, "--timeout", 60000)


def functions(stack):
    return [entry.get("function") for entry in stack["entries"]]


class PythonStates(Case):
    def python(self):
        need("python3")
        return os.path.realpath(shutil.which("python3", path="/usr/bin") or sys.executable)

    def start(self, code, **options):
        return self.program(["nice", "-n", "15", self.python(), "-c", code], **options)

    def process(self, victim, *options):
        document = self.json(victim.pid, *options)
        self.assertEqual(document.get("warnings", []), [])
        return document["processes"][0]

    def stack_with(self, process, function):
        found = [stack for stack in process["stacks"] if function in functions(stack)]
        self.assertEqual(len(found), 1, process["stacks"])
        return found[0]

    def test_two_interpreters_on_a_thread(self):
        victim = self.start(INTERPRETERS.replace("BODY", SAYS_READY + "; time.sleep(3600)"))
        process = self.process(victim)
        names = functions(self.stack_with(process, "innermost"))
        python = [name for name in names if name in ("innermost", "waits", "Thread.run", "says")]
        self.assertEqual(python, ["innermost", "waits", "Thread.run"])
        self.assertEqual(self.stack_with(process, "innermost")["unwind"], "complete")
        self.assertNotIn("gil", process["runtimes"][0])

    def test_who_holds_the_lock_in_which_interpreter(self):
        body = f"import sys; sys.setswitchinterval(1000); {SAYS_READY}\n    while True: pass"
        for code, number in (("import os, sys, time\n" + body.replace("\n    ", "\n"), 0),
                             (INTERPRETERS.replace("BODY", body), 1)):
            victim = self.start(code, settled=False)

            def holders(pid=victim.pid):
                return self.json(pid)["processes"][0]["runtimes"][0].get("gil")

            gil = wait_until(holders, "a thread to hold the lock")
            self.assertEqual([holder["interpreter"] for holder in gil], [number])
            text = self.run_tool(victim.pid).text
            self.assertIn(f"GIL held by {gil[0]['tid']}" + (" (interpreter 1)" if number else " "), text)

    def tasks_of(self, process):
        self.assertNotIn("cut", process["runtimes"][0])
        nodes = list(process.get("logical", []))
        for node in nodes:
            nodes.extend(node.get("children", []))
        return sorted(node["name"] for node in nodes)

    def test_memory_is_copied_where_a_loop_runs(self):
        if self.minor() < 11:
            self.skipTest("python3: tasks are understood from 3.11 on")
        process = self.process(self.start(NO_LOOP), *PATIENT)
        self.assertLess(process["runtimes"][0]["memory_bytes"], 4 << 20)
        self.assertEqual(self.tasks_of(process), [])
        for code in LOOP_OF_A_THREAD, LOOP_THAT_IS_BLOCKED:
            self.assertEqual(self.tasks_of(self.process(self.start(code), *PATIENT)), ["Task-1", "sleeps"])

    def minor(self):
        says = subprocess.run([self.python(), "-c", "import sys; print(sys.version_info[1])"], capture_output=True, check=True)
        return int(says.stdout)

    def unread(self, what, count):
        if self.minor() != 11:
            self.skipTest("python3: code of 3.11 is patched")
        victim = self.start(UNREAD.replace("WHAT", what).replace("COUNT", str(count)))
        process = self.process(victim, *PATIENT)
        stacks = process["stacks"] + [s for node in process.get("logical", []) for s in node["stacks"]]
        return process["runtimes"][0], {t.get("name"): (s, t) for s in stacks for t in s.get("tasks", [])}

    def test_a_task_whose_code_cannot_be_read_is_shown(self):
        runtime, tasks = self.unread("code", 5)
        self.assertEqual(runtime.get("cut"), "memory")
        self.assertEqual(sorted(tasks), ["Task-1", "hidden", *(f"plain-{n}" for n in range(5))])
        stack, task = tasks["hidden"]
        self.assertEqual((task["state"], stack["unwind"], stack["entries"]), ("unknown", "unreadable", []))

    def test_a_task_whose_coroutine_cannot_be_read_is_shown(self):
        runtime, tasks = self.unread("coroutine", 5)
        self.assertEqual(runtime.get("cut"), "memory")
        self.assertEqual(tasks["hidden"][0]["unwind"], "unreadable")

    def test_ten_thousand_tasks_that_can_be_read(self):
        runtime, tasks = self.unread("nothing", 10000)
        self.assertNotIn("cut", runtime)
        self.assertEqual(len(tasks), 10002)

    def test_generators_that_run(self):
        names = functions(self.process(self.start(GENERATORS))["stacks"][0])
        python = [name for name in names if name in ("numbers", "through", "consumes", "<module>")]
        self.assertEqual(python, ["numbers", "through", "consumes", "<module>"])

    def test_an_extension_that_calls_back(self):
        """Python calls C, which calls a sort in C, which calls Python: each part stands where it runs."""
        stack = self.process(self.start(CALLS_BACK))["stacks"][0]
        self.assertEqual(stack["unwind"], "complete")
        parts = [e["function"] if e.get("language") == "python" else "C" for e in stack["entries"]]
        parts = [part for i, part in enumerate(parts) if i == 0 or part != parts[i - 1]]
        self.assertEqual(parts, ["C", "compares", "C", "sorts", "<module>", "C"])
        names = functions(stack)
        between = names[names.index("compares"):names.index("sorts")]
        self.assertTrue([name for name in between if name and "sort" in name], names)
        self.assertFalse([name for name in names if name and "EvalFrame" in name], names)

    def test_recursion_of_five_thousand(self):
        victim = self.program(["nice", "-n", "15", self.python(), RECURSION, "5000"])
        stack = self.stack_with(self.process(victim, "-n", "0"), "recurse")
        self.assertEqual(functions(stack).count("recurse"), 5001)
        self.assertEqual(stack["unwind"], "complete")
        cut = self.stack_with(self.process(victim), "recurse")
        self.assertEqual(functions(cut)[-5:], functions(stack)[-5:])
        self.assertEqual(cut["gap"]["count"], len(stack["entries"]) - len(cut["entries"]))

    def test_names_beyond_ascii(self):
        script = os.path.join(self.scratch(), "skrípt-日本.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(NAMES)
        victim = self.program(["nice", "-n", "15", self.python(), script])
        stack = self.process(victim)["stacks"][0]
        python = [(entry["function"], entry["line"]) for entry in stack["entries"] if entry.get("file") == script]
        # The compiler makes plain letters of mathematical ones.
        self.assertEqual(python, [("deep", 10), ("Größe.名前", 7), ("Größe.ändern", 5), ("<module>", 11)])

    def test_interpreter_that_begins(self):
        """It reads the configuration of a virtual environment, before it can run anything of ours."""
        folder = self.scratch()
        os.mkdir(os.path.join(folder, "bin"))
        os.mkfifo(os.path.join(folder, "pyvenv.cfg"))
        os.symlink(self.python(), os.path.join(folder, "bin", "python3"))
        path = os.path.join(folder, "bin", "python3")
        victim = self.start("import os; print('ready', os.getpid(), flush=True); "
                            f"os.execv({path!r}, [{path!r}, '-c', 'pass'])", settled=False)

        def is_there():
            with open(f"/proc/{victim.pid}/cmdline", "rb") as file, \
                    open(f"/proc/{victim.pid}/wchan", encoding="ascii") as wchan:
                return file.read().startswith(path.encode()) and wchan.read() == "wait_for_partner"

        wait_until(is_there, "it to wait for its configuration")
        document = self.json(victim.pid)
        self.assertEqual(document["processes"][0]["runtimes"][0]["name"], "cpython")
        names = functions(document["processes"][0]["stacks"][0])
        self.assertTrue(any("open" in (name or "") for name in names), names)
        # What finds it is Python from 3.11 on; before, there is no interpreter yet, and a line says so.
        if "<module>" not in names:
            self.assertEqual([warning["code"] for warning in document["warnings"]], ["runtime_unsupported"])

    def test_interpreter_that_ends(self):
        for when, wanted in (("atexit.register(waits)", ["waits"]),
                             ("import sys; sys.kept = Last()", ["Last.__del__"])):
            victim = self.start(ENDS.replace("WHEN", when))
            names = functions(self.process(victim)["stacks"][0])
            self.assertEqual([name for name in names if name in ("waits", "Last.__del__")], wanted)
            victim.close()

    def test_interpreters_that_nobody_understands(self):
        """One line each says why, and the native stack is there."""
        for target, name, message in (
                ("unknown_python", "python3.16", "CPython 3.16.0: it is newer than 3.15"),
                ("unknown_php", "php8.4", "PHP 8.4.1: builds with threads are not understood")):
            path = os.path.join(self.scratch(), name)
            shutil.copy(os.path.join(TARGETS, target), path)
            victim = self.program([path])
            document = self.json(victim.pid)
            self.assertEqual([(warning["code"], warning["pid"], warning["message"].split(": ", 1)[1])
                              for warning in document["warnings"]], [("runtime_unsupported", victim.pid, message)])
            process = document["processes"][0]
            self.assertEqual(process["runtimes"][0]["version"], message.split()[1].rstrip(":"))
            self.assertIn("victim_hold", functions(process["stacks"][0]))

    def embed(self, how):
        libraries = glob.glob("/usr/lib/*/libpython3.*[0-9].so.1.0")
        if not libraries:
            missing("libpython3")
        victim = self.victim("embeds", how, sorted(libraries)[0])
        before = self.json(victim.pid)
        victim.tell("x")
        self.assertEqual(victim.read_line().split(), ["ready", str(victim.pid)])
        wait_until(lambda: self.is_reading(victim.pid), "it to wait")
        inside = self.process(victim)
        names = functions(inside["stacks"][0])
        wanted = ["inside", "outer", "<module>", "run_python", "main"]
        self.assertEqual([name for name in names if name in wanted], wanted)
        self.assertFalse([name for name in names if "EvalFrame" in (name or "")])
        victim.tell("x")
        self.assertEqual(victim.read_line().split(), ["ready", str(victim.pid)])
        wait_until(lambda: self.is_reading(victim.pid), "it to wait")
        after = self.json(victim.pid)
        names = functions(after["processes"][0]["stacks"][0])
        self.assertEqual([name for name in names if name in ("wait_here", "main")], ["wait_here", "main"])
        self.assertEqual([warning["code"] for warning in after["warnings"]], ["runtime_unsupported"])
        return before

    def is_reading(self, pid):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return file.read().split()[:2] == ["0", "0x0"]

    def test_embedded_from_the_start(self):
        before = self.embed("linked")
        self.assertEqual([warning["code"] for warning in before["warnings"]], ["runtime_unsupported"])
        self.assertIn("it starts, or ends", before["warnings"][0]["message"])

    def test_embedded_later(self):
        before = self.embed("later")
        self.assertEqual(before.get("warnings", []), [])
        self.assertNotIn("runtimes", before["processes"][0])


class PythonLockCase(Case):
    def start(self, code, *arguments):
        need("python3")
        python = os.path.realpath(shutil.which("python3", path="/usr/bin") or sys.executable)
        return self.program(["nice", "-n", "15", python, "-c", code, *arguments], settled=False)

    def look(self, pid, *options):
        """The document, and threads by the names that Python gives them."""
        document = self.json("-p", pid, *options, status=(0, 1, 3))
        nodes = list(walk(document["processes"]))
        return document, {t.get("name"): t for node in nodes for stack in node["stacks"] for t in stack["threads"]}

    def waits(self, pid, kinds, *options):
        """The same, when the threads of these names wait for such objects."""
        def there():
            document, threads = self.look(pid, *options)
            found = {name: threads.get(name, {}).get("wait", {}).get("kind") for name in kinds}
            return (document, threads) if found == kinds else None
        return wait_until(there, f"threads to wait for {kinds}")


class PythonLocks(PythonLockCase):
    """An RLock has an owner, which is a thread of the process."""
    asan = True

    def test_two_locks_in_a_circle(self):
        victim = self.start(LOCKS, "a_b", "b_a", "a")
        document, threads = self.waits(victim.pid, {"a_b": "mutex", "b_a": "mutex", "a": "mutex"})
        for name, owner in ("a_b", "b_a"), ("b_a", "a_b"), ("a", "a_b"):
            wait = threads[name]["wait"]
            self.assertEqual((wait["variant"], wait["confidence"], wait["owner"]["tid"]),
                             ("rlock", "certain", threads[owner]["tid"]))
        self.assertEqual(threads["a"]["wait"]["address"], threads["b_a"]["wait"]["address"])
        dead, = document["deadlocks"]
        self.assertEqual((dead["certain"], dead["behind"]), (True, 1))
        text = self.run_tool("-p", victim.pid, "--deadlocks", status=1).text
        self.assertRegex(text, r"a_b +waits for RLock of Python #\d +held by \d+ b_a")

    def test_without_a_stop_none_is_certain(self):
        victim = self.start(LOCKS, "a_b", "b_a")
        self.waits(victim.pid, {"a_b": "mutex", "b_a": "mutex"})
        self.run_tool("-p", victim.pid, "--deadlocks", "--no-stop", status=3)

    def test_a_time_limit_is_no_deadlock(self):
        victim = self.start(LOCKS, "a_bt", "b_a")
        document, threads = self.waits(victim.pid, {"a_bt": "mutex", "b_a": "mutex"})
        self.assertTrue(threads["a_bt"]["wait"]["timed"])
        self.assertFalse([dead for dead in document.get("deadlocks", []) if not dead.get("timed")])

    def test_the_holder_sleeps(self):
        """It has the lock once or twice; a Lock of the same thread has no owner."""
        for holder in "axz", "aaxz":
            victim = self.start(LOCKS, holder, "a", "x")
            document, threads = self.waits(victim.pid, {"a": "mutex", "x": "semaphore"})
            self.assertEqual(threads["a"]["wait"]["owner"]["tid"], threads[holder]["tid"])
            self.assertEqual(threads["x"]["wait"]["variant"], "python")
            self.assertNotIn("owner", threads["x"]["wait"])
            self.assertNotIn("deadlocks", document)
            victim.close()

    def test_left_behind_by_fork(self):
        victim = self.start(LOCK_AT_FORK)
        child = int(victim.values["child"])

        def waits(pid):
            nodes = walk(self.json("-p", pid)["processes"])
            return [t["wait"] for node in nodes if node["pid"] == child for stack in node["stacks"]
                    for t in stack["threads"] if t.get("wait", {}).get("variant") == "rlock"]

        wait, = wait_until(lambda: waits(victim.pid), "the child to wait for the lock")
        self.assertEqual((wait["owner_unknown"], wait["owner"]["tid"], wait["confidence"]),
                         ("held at fork", int(victim.values["holder"]), "certain"))
        # Of the child alone it is not known whose it was.
        wait, = waits(child)
        self.assertEqual(wait["owner_unknown"], "exited")
        text = self.run_tool("-p", child, "--deadlocks", status=1).text
        self.assertIn("a thread", text)


class PythonLocksInOrder(PythonLockCase):
    level = "all"

    def test_they_are_no_deadlock(self):
        victim, seen = self.start(TAKES_IN_ORDER), 0
        for _ in range(40):
            document, threads = self.look(victim.pid)
            self.assertNotIn("deadlocks", document)
            seen += sum(thread.get("wait", {}).get("variant") == "rlock" for thread in threads.values())
        self.assertGreater(seen, 0)


# Greenlets that wait, in two places, one that runs, one that has ended and one that has not begun.
GREENLETS = """
import greenlet, json, os, sys, time, traceback
kept = []
def parks():
    greenlet.getcurrent().parent.switch()
def waits():
    def inner():
        parks()
    inner()
class Below(greenlet.greenlet):
    pass
def runs():
    cache = [{"k": [i]} for i in range(int(sys.argv[1]))]
    stacks = [[frame.name for frame in traceback.extract_stack(each.gr_frame)] for each in kept if each.gr_frame]
    print("ready", os.getpid(), "stacks=" + json.dumps(stacks).replace(" ", ""), flush=True)
    time.sleep(3600)
def top(count):
    for kind in (greenlet.greenlet, Below):
        kept.extend(kind(waits) for _ in range(count))
    kept.append(greenlet.greenlet(parks))
    for each in kept:
        each.switch()
    kept.extend([greenlet.getcurrent(), greenlet.greenlet(waits), greenlet.greenlet(lambda: None)])
    kept[-1].switch()
    greenlet.greenlet(runs).switch()
top(int(sys.argv[2]))
"""


class Greenlets(Case):
    asan = True

    def start(self, objects, count):
        python = shutil.which("python3", path="/usr/bin")
        if not python or subprocess.run([python, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
            missing("greenlet", "python3-greenlet")
        return self.program([python, "-c", GREENLETS, str(objects), str(count)])

    def check_greenlets(self, victim, node):
        theirs = sorted(json.loads(victim.values["stacks"]))
        stacks = [stack for stack in node["stacks"] if "tasks" in stack]
        names = sorted([entry["function"].rpartition(".")[2] for entry in reversed(stack["entries"])]
                       for stack in stacks for _ in stack["tasks"])
        self.assertEqual(names, theirs)
        self.assertEqual({stack["unwind"] for stack in stacks}, {"complete"})
        self.assertEqual({entry["file"] for stack in stacks for entry in stack["entries"]}, {"<string>"})
        self.assertEqual(node["task_count"], len(names))

    def test_those_that_wait(self):
        victim = self.start(0, 3)
        capture = os.path.join(self.scratch(), "capture")
        self.check_greenlets(victim, self.node(victim.pid, "--save-capture", capture))
        (node,) = self.json("render", capture)["processes"]
        self.check_greenlets(victim, node)
        self.assertRegex(self.run_tool("-p", victim.pid).text, "8 tasks")

    def test_many_in_a_large_process(self):
        victim = self.start(50000, 300)
        self.check_greenlets(victim, self.node(victim.pid, "-n", "0"))

    def test_in_a_core(self):
        need("gcore")
        victim = self.start(0, 1)
        path = os.path.join(self.scratch(), "core")
        subprocess.run(["gcore", "-o", path, str(victim.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL, check=True)
        (node,) = self.json("core", f"{path}.{victim.pid}")["processes"]
        self.check_greenlets(victim, node)
