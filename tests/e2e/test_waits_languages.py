# SPDX-License-Identifier: LGPL-2.1-or-later
"""What threads wait for in programs of other languages: see waits.py."""
import glob
import os
import re
import subprocess

from harness import blocked, missing, need, read_file, tids_of, wait_until
from waits import PROGRAMS, REGISTRY, WaitCase, false_owner, program_of, truths_of, waits_of

CLOCK_NANOSLEEP = "230 "


def pythons():
    """Whose lock is known, of those that this machine has."""
    need("/usr/bin/python3")
    versions = os.path.expanduser("~/.pyenv/versions")
    names = sorted(os.listdir(versions)) if os.path.isdir(versions) else []
    return ["/usr/bin/python3", *(os.path.join(versions, name, "bin", "python3") for name in names
                                  if re.fullmatch(r"3\.([89]|1[0-4])\.\d+", name))]


class Languages(WaitCase):
    def start(self, language, **options):
        return self.program(program_of(language), **options)

    def compare_language(self, language, *arguments, **options):
        victim = self.start(language, **options)
        truths = truths_of(victim)
        doc = self.look(victim, *arguments)
        self.judge(truths, doc)
        return doc

    def test_cpp(self):
        need("g++")
        self.compare_language("c++")

    def test_static_cpp(self):
        need("g++")
        self.compare_language("static c++")

    def test_static_initialiser(self):
        """The thread that is in the function with the variable runs its initialiser: likely, no more."""
        need("g++")
        path = os.path.join(self.scratch(), "guard")
        subprocess.run(["g++", "-O1", "-g", "-pthread", os.path.join(PROGRAMS, "guard.cc"), "-o", path], check=True)
        for mode, status in (("dead", 3), ("alive", 0)):
            victim = self.program([path, mode])
            wait_until(lambda: len(tids_of(victim.pid)) == 3 and all(
                blocked(victim.pid, tid) and not read_file(f"/proc/{victim.pid}/task/{tid}/syscall").startswith(CLOCK_NANOSLEEP)
                for tid in tids_of(victim.pid)), "all threads wait")
            doc = self.json("-p", victim.pid, "--deadlocks", status=status)
            text = self.run_tool("-p", victim.pid).text
            self.assertRegex(text, r"waits for static initialiser table\(\)::value, run by \d+ guard")
            self.assertEqual("possible deadlock  2 threads" in text, mode == "dead", text)
            self.assertEqual(bool(doc.get("deadlocks")), mode == "dead", doc)

    def test_rust(self):
        need("rustc")
        self.compare_rust("rust")

    def test_rust_of_the_system(self):
        """Debian's is older than the one that is first in the path of many machines."""
        need("/usr/bin/rustc")
        self.compare_rust("system rust")

    def compare_rust(self, language):
        doc = self.compare_language(language, "--explain")
        hinted = [wait for wait in waits_of(doc).values() if wait and wait.get("hints")]
        self.assertGreaterEqual(len(hinted), 3, "Rust's locks are on the stacks of those who have them")

    def test_parking_lot(self):
        """Locks of Rust that are not the library's: their names tell what they are, and nobody has their owner."""
        need("cargo", "rustc")
        if not glob.glob(os.path.join(REGISTRY, "parking_lot-0.12.*")):
            missing("librust-parking-lot-dev")
        self.compare_language("parking_lot")

    def test_python(self):
        """Who computes wakes up for the interpreter's lock 200 times a second."""
        victim = self.start("python", settled=False)
        truths = truths_of(victim)
        holder = next(truth["tid"] for truth in truths if truth["row"] == "python.holder")
        wait_until(lambda: (read_file(f"/proc/{victim.pid}/task/{holder}/syscall") or "").startswith(CLOCK_NANOSLEEP),
                   "the holder to sleep")
        waiting = [truth["tid"] for truth in truths if truth["row"] == "python.gil"]
        wait_until(lambda: all(blocked(victim.pid, tid) for tid in waiting), "the others to wait for it")
        for _ in range(20):  # who wakes up meanwhile runs, for some microseconds
            doc = self.look(victim, "--threads")
            if all(waits_of(doc)[tid] for tid in waiting):
                break
        self.judge(truths, doc)

    def test_python_deadlock(self):
        """Who wants the interpreter's lock waits with a timeout, which does not end the deadlock."""
        need("/usr/bin/python3")
        victim = self.program(["/usr/bin/python3", os.path.join(PROGRAMS, "gil_dead.py")], settled=False)

        def deadlocks():
            return self.look(victim).get("deadlocks")
        wait_until(deadlocks, "the deadlock")
        dead, = deadlocks()
        self.assertEqual(len(dead["threads"]), 2)
        self.assertIn("gil", [link["wait"]["kind"] for link in dead["threads"]])
        self.assertNotIn("timed", dead)

    def test_lines_of_locks_name_functions_of_python(self):
        folder = self.scratch()
        code = ("import fcntl, os, sys\n"
                "def take(first, second):\n"
                "    fcntl.flock(first, fcntl.LOCK_EX)\n"
                "    os.write(end[1], b'x')\n"
                "    while len(os.read(look[0], 1)): break\n"
                "    fcntl.flock(second, fcntl.LOCK_EX)\n"
                "look, end = os.pipe(), os.pipe()\n"
                "parent = os.getpid()\n"
                f"a, b = [lambda n=n: open('{folder}/' + n, 'w') for n in 'ab']\n"
                "if os.fork(): (lambda: (os.read(end[0], 1), os.read(end[0], 1), os.write(look[1], b'xx'),"
                " print('ready', parent, flush=True), os.wait()))()\n"
                "elif os.fork(): take(a(), b())\n"
                "else: take(b(), a())\n")
        victim = self.program(["/usr/bin/python3", "-c", code], settled=False)
        def threads():
            doc = self.json("-p", victim.pid, free=False, status=(0, 1))
            return [thread for deadlock in doc.get("deadlocks", []) for thread in deadlock["threads"]]
        found = wait_until(threads, "the deadlock")
        self.assertEqual([(thread["function"], thread["line"]) for thread in found], [("take", 6)] * 2)

    def test_python_deadlock_without_a_stop(self):
        """Who wants the interpreter's lock wakes up 200 times a second: a look that finds it awake looks again."""
        for python in pythons():
            with self.subTest(python):
                victim = self.program([python, os.path.join(PROGRAMS, "gil_dead.py")], settled=False)
                dead, = wait_until(lambda pid=victim.pid: self.json("-p", pid, "--no-stop", free=False, status=(0, 1)).get("deadlocks"),
                                   "the deadlock")
                self.assertEqual(sorted(link["wait"]["kind"] for link in dead["threads"]), ["gil", "mutex"])
                self.assertTrue(dead["certain"])  # as in a stop
                wait_until(lambda pid=victim.pid: self.run_tool("--watch=deadlock", "--once", "-p", pid, free=False,
                                                                status=(0, 1, 3)).status == 1, "a check that notices it")

    def test_python_without_a_stop(self):
        """Whoever has the interpreter's lock sleeps, and will let it go: no deadlock, for all that the others want."""
        for python in {pythons()[0], pythons()[-1]}:
            with self.subTest(python):
                victim = self.program([python, os.path.join(PROGRAMS, "gil.py")], settled=False)
                truths = truths_of(victim)
                for _ in range(3):
                    doc = self.json("-p", victim.pid, "--no-stop", "--threads", free=False, status=(0, 1))
                    self.assertNotIn("deadlocks", doc)
                    waits = waits_of(doc)
                    for truth in truths:
                        self.assertFalse(false_owner(truth, waits.get(truth["tid"])), (truth, waits))

    def test_java(self):
        self.compare_language("java", settled=False)

    def test_java_monitors(self):
        """Of a JVM that the table of fields fits: who waits for which monitor, and who has it."""
        need("java", "javac")
        version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
        if "OpenJDK" not in version or ' "17.' not in version:
            self.skipTest("no OpenJDK 17")
        victim = self.start("java", settled=False)
        truths = [{key: value for key, value in truth.items() if key != "optional"} for truth in truths_of(victim)
                  if truth["row"] in ("java.monitor", "java.dead")]
        for arguments in ([], ["--runtimes", "java"]):
            doc = self.look(victim, "--threads", *arguments)
            self.judge(truths, doc)
            waits = waits_of(doc)
            for truth in truths:
                if "tid" in truth:
                    wait = waits[truth["tid"]]
                    self.assertEqual((wait["kind"], wait["confidence"]), ("monitor", "certain"))
                    self.assertEqual(wait["owner"]["tid"], max(truth["owner"]))
                    self.assertFalse(wait.get("timed"))
            self.assertEqual(doc["processes"][0]["runtimes"], [{"name": "java", "version": "17", "unread": True}])
            self.assertEqual(doc.get("warnings", []), [])
            self.assertEqual([cycle["certain"] for cycle in doc["deadlocks"]], [True])
            # Where each stands is Java's, which has no names here, and not how the machine enters a monitor.
            self.assertEqual({link.get("function") for link in doc["deadlocks"][0]["threads"]}, {None})
        text = self.run_tool("-p", victim.pid, free=False, status=(0, 1)).text
        self.assertIn(f"java 17 (functions of Java are not shown: jcmd {victim.pid} Compiler.perfmap, "
                      f"or jstack {victim.pid})", text)
        for arguments in (["--runtimes", "none"], ["--no-stop"]):
            doc = self.look(victim, "--threads", *arguments)
            self.assertNotIn("monitor", [wait["kind"] for wait in waits_of(doc).values() if wait])
            self.assertNotIn("deadlocks", doc)

    def test_go(self):
        """The runtime's own futexes have no owner, whatever stands around them."""
        need("go")
        victim = self.start("go", settled=False)
        doc = self.look(victim, "--threads", "--explain")
        kinds = {wait["kind"] for wait in waits_of(doc).values() if wait}
        self.assertLessEqual(kinds, {"runtime", "epoll", "sleep", "pipe", "signal", "syscall"})
        self.assertIn("runtime", kinds)
        self.assertNotIn("deadlocks", doc)
        self.assertNotIn("blockers", doc)
        self.assertFalse([wait for wait in waits_of(doc).values() if wait and "owner" in wait])
