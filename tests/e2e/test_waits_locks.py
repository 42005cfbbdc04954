# SPDX-License-Identifier: LGPL-2.1-or-later
"""What threads wait for, who holds it, and deadlocks, in programs that know it of themselves, in each
build of them. See waits.py."""
import collections
import json
import os
import re
import signal

from harness import SOURCE, TOOL, blocked, need_namespaces, need_root, proc_state, tids_of, wait_until
from html_pages import Page
from waits import WaitCase, program, tool_beside, truths_of, waits_of, without_debug_files

LOCKS = ["mutexes", "timed", "rwlocks", "exited"]
OBJECTS = ["conditions", "semaphores", "barrier", "once", "join", "stdio", "c11", "clocks"]


class Rows:
    """What is asked of every build."""

    def test_locks(self):
        self.compare("locks", *LOCKS)

    def test_places(self):
        self.compare("locks", "places")

    def test_held_at_fork(self):
        self.compare("locks", "fork")

    def test_between_processes(self):
        self.compare("locks", "shared")

    def test_refused(self):
        self.compare("locks", "refused")

    def test_objects(self):
        self.compare("objects", *OBJECTS)

    def test_malloc_in_a_handler(self):
        self.compare("objects", "malloc")

    def test_deadlock_of_two(self):
        self.compare("dead", "two")

    def test_ring(self):
        self.compare("dead", "ring:5")

    def test_until_a_timeout(self):
        self.compare("dead", "timed")

    def test_itself(self):
        self.compare("dead", "self")

    def test_through_others(self):
        for what in ("rwlock", "stdio", "once", "thread"):
            with self.subTest(what):
                self.compare("dead", "pair:" + what)

    def test_between_processes_by_descriptors(self):
        for what in ("pipe", "unix", "tcp", "own", "child", "shared", "flock"):
            with self.subTest(what):
                self.compare("dead", what)

    def test_what_is_no_deadlock(self):
        for what in ("near-pipe", "near-threads", "near-handler", "near-condition", "near-readers", "near-pool"):
            with self.subTest(what):
                self.compare("dead", what)


class Pie(Rows, WaitCase):
    asan = "all"

    def test_copy_of_who_locked_before_a_fork(self):
        """The first thread of a child may release the lock, if it does not wait for it itself."""
        for mode, status, words in (("copy", 3, "only its copy can release it"), ("", 1, "no thread can release it")):
            victim = self.victim("atfork", *mode.split())
            child = int(victim.line.split("child=")[1])
            wait_until(lambda: len(tids_of(child)) == 2 and all(blocked(child, tid) for tid in tids_of(child)),
                       "the child to have two threads")
            self.assertIn(words, self.run_tool("-p", victim.pid, "--deadlocks", status=status).text)

    def test_symbols(self):
        """Objects with a name have it, with the offset inside; those on the heap and on stacks have a place."""
        truths, doc = self.compare("locks", "mutexes")
        named = [thread["wait"] for node in doc["processes"] for stack in node["stacks"]
                 for thread in stack["threads"] if thread["wait"]["kind"] == "mutex"]
        self.assertEqual({wait.get("symbol") for wait in named}, {"some_mutexes"})
        self.assertEqual({int(str(wait.get("offset", "0")), 16) % 40 for wait in named}, {0})
        self.assertGreater(len(truths), 10)

    def test_a_number_that_was_given_out_again(self):
        """A thread that began after the wait did has not what is waited for, whatever the words say: known where
        it is known since when the wait lasts."""
        victim = self.run_program("locks", "reused")
        truths = truths_of(victim)
        doc = self.look(victim, "--explain", "--no-stop")
        if not any("since_ns" in wait for wait in waits_of(doc).values() if wait):
            self.skipTest("kernel: no se.exec_start")
        self.judge(truths, doc)
        path = os.path.join(self.scratch(), "capture")  # a second stop would not know since when any more
        text = self.run_tool("-p", victim.pid, "--explain", "--save-capture", path, status=(0, 1)).text
        self.assertRegex(text, r"\(owner unknown: its number is that of \d+ .*, which is younger than this wait\)")
        self.assertEqual(self.run_tool("render", "--explain", path, status=(0, 1)).text, text)
        self.judge(truths, self.run_tool("render", "--explain", "-j", path, status=(0, 1)).doc)

    def test_owners_that_are_gone_in_a_pid_namespace(self):
        """There a process numbers its threads itself: whoever has that number elsewhere is not meant."""
        need_root()
        need_namespaces("--pid", "--fork", "--mount-proc")
        victim = self.program(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; true', "sh",
                               program("locks", self.build), "shared"], settled=False)
        doc = self.json("-p", victim.process.pid, free=False, status=(0, 1))
        said = [wait.get("owner_unknown", "a thread") for wait in waits_of(doc).values()
                if wait and wait["kind"] in ("mutex", "rwlock")]
        # The one that is outside of its parent's tree is a child of the namespace's first process.
        self.assertEqual(collections.Counter(said), {"exited": 4, "a thread": 8})

    def test_owners_that_are_gone_in_words(self):
        victim = self.run_program("locks", "shared")
        truths_of(victim)
        text = self.run_tool("-p", victim.pid, status=(0, 1), free=False).text
        self.assertRegex(text, r"mutex \S+, whose owner, thread \d+, has exited: no thread can release it")
        self.assertRegex(text, r"blocked +2 threads wait, through 2 locks, for thread \d+, which has exited: no thread")

    def test_a_lock_of_who_has_exited_is_no_good_sign(self):
        """It is held for ever, as those of a deadlock are: where that is sure the status says so."""
        victim = self.run_program("locks", "exited")
        truths_of(victim)
        got = self.run_tool("-p", victim.pid, "--deadlocks", status=1, free=False)
        self.assertRegex(got.text, r"^blocked +\d+ threads? waits? .*for thread \d+ of process \d+, which has exited")
        self.assertIn('"owner_unknown": "exited", "certain": true',
                      self.run_tool("-p", victim.pid, "--deadlocks", "--json", status=1, free=False).text)
        self.run_tool("-p", victim.pid, "--deadlocks", "--no-stop", status=3, free=False)

    def deadlock_lines(self, text):
        found = re.search(r"^DEADLOCK .*\n(?:  .*\n)+", text, re.M)
        return found[0] if found else ""

    def test_deadlock_in_a_recording(self):
        """In the words of a snapshot, and not of what ends at a time limit."""
        for mode in ("two", "ring:5", "self"):
            with self.subTest(mode):
                victim = self.run_program("dead", mode)
                truths_of(victim)
                snapshot = self.deadlock_lines(self.run_tool("-p", victim.pid, status=(0, 1), free=False).text)
                self.assertTrue(snapshot)
                text = self.run_tool("record", "-d", "1", "-p", victim.pid, status=(0, 1), free=False).text
                self.assertEqual(self.deadlock_lines(text), snapshot, text)
                self.assertLess(text.index("DEADLOCK"), text.index("time by wait"))
                self.check_deadlocks_of_formats(victim)
        victim = self.run_program("dead", "timed")
        truths_of(victim)
        text = self.run_tool("record", "-d", "1", "-p", victim.pid, status=(0, 1), free=False).text
        self.assertNotIn("DEADLOCK", text)

    def check_deadlocks_of_formats(self, victim):
        """JSON has the threads of a snapshot's document, a page the lines that stand out first."""
        import jsonschema
        wanted = [[link["tid"] for link in dead["threads"]] for dead in self.json("-p", victim.pid)["deadlocks"]]
        recording, page = (os.path.join(self.scratch(), name) for name in ("run.snaprec", "page.html"))
        self.run_tool("record", "-d", "1", "-p", victim.pid, "-o", recording, free=False)
        doc = self.run_tool("render", recording, "--json").doc
        self.assertEqual([[link["tid"] for link in dead["threads"]] for dead in doc["deadlocks"]], wanted)
        with open(os.path.join(SOURCE, "lib/render/json/stacksnap-recording.schema.json"), encoding="utf-8") as file:
            jsonschema.validate(doc, json.load(file))
        self.run_tool("render", recording, "-o", page)
        with open(page, encoding="utf-8") as file:
            data = Page(file.read()).data
        self.assertEqual([[link["tid"] for link in dead["threads"]] for dead in data["deadlocks"]], wanted)

    def test_deadlock_of_who_is_stopped(self):
        """That somebody has stopped the process, to look at it, changes nothing: its locks stay what they are. Who waits
        for one of a process that merely is stopped is held up by it, and in no deadlock."""
        victim = self.run_program("dead", "two")
        truths = truths_of(victim)
        os.kill(victim.pid, signal.SIGSTOP)
        self.addCleanup(victim.close)
        self.addCleanup(os.kill, victim.pid, signal.SIGCONT)
        wait_until(lambda: proc_state(victim.pid) == "T", "a process that is stopped")
        for options in ([], ["--no-stop"]):
            doc = self.look(victim, *options)
            self.assertEqual([[link["tid"] for link in cycle["threads"]] for cycle in doc["deadlocks"]],
                             [truth["deadlock"] for truth in truths if "deadlock" in truth])
        victim = self.run_program("locks", "shared")
        truths_of(victim)
        doc = self.look(victim)
        self.assertNotIn("deadlocks", doc)
        self.assertEqual([blocker["blocked"] for blocker in doc["blockers"] if blocker.get("state") == "stopped"], [2])

    def test_of_two_thousand(self):
        """Words of 2,000 places take their time in a stop of a busy machine."""
        self.compare("dead", "ring:2000", arguments=["--stop-timeout", "20000"])

    def test_with_everything(self):
        self.compare("locks", *LOCKS, arguments=["--explain"])

    def test_without(self):
        victim = self.run_program("dead", "two")
        doc = self.look(victim, "--no-explain")
        self.assertNotIn("deadlocks", doc)
        self.assertNotIn('"wait"', doc["_result"].text)


class NoPlt(Rows, WaitCase):
    level = "all"
    build = "noplt"


class Ibt(Rows, WaitCase):
    build = "ibt"


class Clang(Rows, WaitCase):
    level = "all"
    build = "clang"


class Stripped(Rows, WaitCase):
    level = "all"
    build = "stripped"


class Static(Rows, WaitCase):
    build = "static"


class StaticStripped(Rows, WaitCase):
    level = "all"
    build = "static-stripped"


class Musl(Rows, WaitCase):
    build = "musl"

    def test_barrier_is_read_as_musls(self):
        """A static program with names says which library it is made of: glibc's words are nothing here."""
        _, doc = self.compare("objects", "barrier")
        barriers = [wait for wait in waits_of(doc).values() if wait["kind"] == "barrier"]
        self.assertFalse([wait for wait in barriers if "arrived" in wait], barriers)


class WithoutDebugFiles(Rows, WaitCase):
    """The hard case: of the C library only what it exports has names."""
    level = "all"
    build = "pie"

    def run_program(self, name, *modes, build=None, **options):
        victim = without_debug_files(self, [program(name, build or self.build), *modes])
        self.tool = tool_beside(self, victim, TOOL)
        return victim

    def look(self, victim, *arguments, **options):
        return super().look(victim, *arguments, tool=self.tool, **options)


class WithoutDebugFilesNoPlt(WithoutDebugFiles):
    level = "all"
    build = "noplt"


class WithoutDebugFilesClang(WithoutDebugFiles):
    level = "all"
    build = "clang"


class OfACapture(WaitCase):
    """A saved capture, rendered later, says the same as the look itself."""

    def test_same(self):
        victim = self.run_program("locks", *LOCKS)
        truths = truths_of(victim)
        path = os.path.join(self.scratch(), "capture")
        direct = self.look(victim, "--save-capture", path)
        later = self.run_tool("render", path, "--json", status=(0, 1), free=False).doc
        self.judge(truths, direct)
        self.judge(truths, later)
        self.assertEqual(json.dumps(later.get("contended")), json.dumps(direct.get("contended")))
