# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is said of waits, by the options that ask for more or less of it.

STACKSNAP_LOOKS in the environment is how often a program is looked at whose locks have time limits, STACKSNAP_LOAD how
many loops run beside it (1000 and 20 for the figure of doc/FIGURES.md)."""
import os
import re
import subprocess
import sys

from harness import Case, settle, walk
from waits import WaitCase, truths_of

LOOKS = int(os.environ.get("STACKSNAP_LOOKS", "30"))
LOAD = int(os.environ.get("STACKSNAP_LOAD", "0"))
REAL = ("two", "ring:5", "self", "pair:rwlock", "pair:stdio", "pair:thread", "shared", "unix")


def waits_of(doc):
    """All waits of threads in a document."""
    return [t["wait"] for node in walk(doc["processes"]) for s in node.get("stacks", [])
            for t in s["threads"] if "wait" in t]


class Explain(Case):
    asan = True

    def test_no_explain_says_nothing(self):
        victim = self.victim("threads", "futex:3:worker", "pipe:1:reader")
        doc = self.json("-p", victim.pid, "--no-explain")
        self.assertEqual(waits_of(doc), [])
        for key in ("deadlocks", "blockers", "contended", "waits_lack"):
            self.assertNotIn(key, doc)
        text = self.run_tool("-p", victim.pid, "--no-explain").text
        self.assertNotIn("waits ", text)

    def test_since_comes_with_explain_alone(self):
        victim = self.victim("threads", "futex:3:worker", "pipe:1:reader")
        self.assertFalse([w for w in waits_of(self.json("-p", victim.pid)) if "since_ns" in w])
        for wait in waits_of(self.json("-p", victim.pid, "--explain")):
            self.assertGreaterEqual(wait.get("since_ns", 0), 0)

    def test_group_by_wait_tells_objects_apart(self):
        victim = self.victim("threads", "futex:4:worker", "pipe:2:reader")
        for stack in self.node(victim.pid, "--group-by", "process,state,wait")["stacks"]:
            kinds = {t.get("wait", {}).get("kind") for t in stack["threads"]}
            self.assertEqual(len(kinds), 1)
            addresses = {t.get("wait", {}).get("address") for t in stack["threads"]}
            self.assertEqual(len(addresses), 1)


def threads_of(doc):
    """Each thread with its process's number and its stack."""
    return {t["tid"]: (node["pid"], t, s) for node in walk(doc["processes"]) for s in node.get("stacks", [])
            for t in s.get("threads", [])}


LOCKS = ("mutex", "rwlock", "monitor", "once", "stdio", "malloc", "file_lock")


def owners_of(doc):
    """Threads that have a lock for which another thread waits."""
    return {party["tid"] for _, thread, _ in threads_of(doc).values()
            for wait in [thread.get("wait", {})] if wait.get("kind") in LOCKS
            and wait.get("confidence") in ("certain", "likely")
            for party in [wait.get("owner", {})] if "tid" in party}


class Idle(WaitCase):
    def test_locks_and_their_holders_are_not_idle(self):
        victim = self.run_program("locks", "mutexes", "rwlocks")
        truths_of(victim)
        capture = os.path.join(self.scratch(), "locks.capture")
        every = self.json("-p", victim.pid, "--save-capture", capture)
        shown = self.json("render", capture, "--no-idle")
        owners = owners_of(every)
        self.assertGreater(len(owners), 2)
        wanted = owners | {tid for tid, (_, thread, _) in threads_of(every).items()
                           if thread.get("wait", {}).get("owner", {}).get("tid") in owners}
        self.assertLessEqual(wanted, set(threads_of(shown)))
        self.assertLess(len(threads_of(shown)), len(threads_of(every)))

    def test_a_child_for_which_a_holder_waits_is_not_idle(self):
        victim = self.victim("holder_awaits")
        child, grandchild = int(victim.values["child"]), int(victim.values["grandchild"])
        settle(child)
        settle(grandchild)
        for stop in [], ["--no-stop"]:
            shown = threads_of(self.json("-p", victim.pid, "--no-idle", *stop))
            self.assertLessEqual({child, grandchild}, set(shown))
        # Where no lock hangs on it, as in a shell, it is idle.
        self.assertNotIn(grandchild, threads_of(self.json("-p", child, "--no-idle")))

    def test_what_is_hidden_is_told(self):
        victim = self.victim("threads", "sem:1:lonely", "futex:7:worker")
        capture = os.path.join(self.scratch(), "threads.capture")
        every = self.json("-p", victim.pid, "--save-capture", capture)
        shown = self.json("render", capture, "--no-idle")
        hidden = set(threads_of(every)) - set(threads_of(shown))
        stacks = {threads_of(every)[tid][2]["id"] for tid in hidden}
        text = self.run_tool("render", capture, "--no-idle").text
        self.assertIn(f"\nhidden as idle: {len(hidden)} threads in {len(stacks)} stack", text)
        self.assertRegex(text, r", most: 7 × worker\S* in \w*pthread_cond_wait")


class Order(WaitCase):
    """The first groups of a report are those that one asks about first."""

    def shown(self, pid):
        """The least rank of a thread of each group, as the text shows them."""
        capture = os.path.join(self.scratch(), "order.capture")
        doc = self.json("-p", pid, "--save-capture", capture)
        owners, threads = owners_of(doc), threads_of(doc)

        def rank(tid):
            thread = threads[tid][1]
            if thread["state"] in ("running", "disk"):
                return ("running", "disk").index(thread["state"])
            if tid in owners:
                return 2
            wait = thread.get("wait", {})
            return 3 if wait.get("kind") in LOCKS and "tid" in wait.get("owner", {}) else 4

        text = self.run_tool("render", capture, "-v", "--group-by", "process,stack,tid").text
        tids = [int(tid) for tid in re.findall(r"(?m)^\S* ?.─ 1 × .*?\b(\d+)$", text)]
        self.assertEqual(sorted(tids), sorted(threads), text)
        return [rank(tid) for tid in tids]

    def test_running_and_locks_come_first(self):
        spins = self.victim("threads", "spin:1:busy", "futex:9:waiter", running=1)
        ranks = self.shown(spins.pid)
        self.assertEqual((ranks[0], ranks), (0, sorted(ranks)))
        locks = self.run_program("locks", "mutexes")
        truths_of(locks)
        ranks = self.shown(locks.pid)
        self.assertEqual(ranks, sorted(ranks))
        self.assertLessEqual({2, 3}, set(ranks))


class Deadlocks(WaitCase):
    def test_nothing_is_silent(self):
        victim = self.victim("threads", "futex:3:worker")
        self.assertEqual(self.run_tool("-p", victim.pid, "--deadlocks").text, "")

    def test_a_circle_with_a_time_limit_is_none(self):
        victim = self.run_program("dead", "timed")
        truths_of(victim)
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=0)
        self.assertRegex(run.text.splitlines()[0], r"^circle  2 threads wait in a circle until a time limit \(\d+ min\)$")
        self.assertNotIn("DEADLOCK", run.text)
        self.assertEqual(self.run_tool("-p", victim.pid, "--watch=deadlock", "--once", status=0).text, "")

    def test_locks_with_time_limits_are_never_a_deadlock(self):
        """And what is one is found meanwhile."""
        for _ in range(LOAD):
            loop = subprocess.Popen(["nice", "-n", "19", "sh", "-c", "while :; do :; done"])
            self.addCleanup(loop.communicate)
            self.addCleanup(loop.kill)
        victim = self.run_program("dead", "churn")
        truths_of(victim)
        statuses = [0] * 4
        for _ in range(LOOKS):
            run = self.run_tool("-p", victim.pid, "--deadlocks", status=(0, 3))
            self.assertNotIn("DEADLOCK", run.text)
            statuses[run.status] += 1
        self.assertGreater(statuses[0], LOOKS * 9 // 10, "looks that saw all")
        for mode in REAL:
            victim = self.run_program("dead", mode)
            truths_of(victim)
            self.assertIn("DEADLOCK", self.run_tool("-p", victim.pid, "--deadlocks", status=1).text, mode)

    def test_what_is_not_known_is_a_status(self):
        """Python's own locks keep no owner: of a program that waits for one, no deadlock proves nothing."""
        code = ("import os, threading\nlock = threading.Lock()\nlock.acquire()\n"
                "print('ready', os.getpid(), flush=True)\nlock.acquire()")
        victim = self.program([sys.executable, "-c", code])
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=3)
        self.assertIn("waits are not known in full: owners of Python's locks", run.text)
        run = self.run_tool("-p", victim.pid, "--deadlocks", "--json", status=3)
        self.assertIn("a deadlock may have been missed; not known: owners of Python's locks", run.err)
        run = self.run_tool("-p", victim.pid, "--watch=deadlock", "--once", status=3)
        self.assertIn("a deadlock may have been missed", run.err)

    def test_an_end_in_flight_is_no_deadlock(self):
        """Two processes wait for each other's pipes. Whoever receives the end that was sent may write, too, as may a
        request of an io_uring."""
        code = """
import ctypes, os, socket, sys
up, down = os.pipe(), os.pipe()
sockets = socket.socketpair()
if sys.argv[1] == "sent":
    socket.send_fds(sockets[0], [b"x"], [down[1]])
if sys.argv[1] == "ring" and ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) < 0:
    sys.exit("no io_uring")
if os.fork() == 0:
    os.close(up[0]), os.close(down[1])
    os.read(down[0], 1)
    os._exit(0)
os.close(up[1]), os.close(down[0])
print("ready", os.getpid(), flush=True)
os.read(up[0], 1)
"""
        known = tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 11)
        for how, status in (("kept", 1), ("sent", 3 if known else 1), ("ring", 3)):
            with self.subTest(how):
                try:
                    victim = self.program(["/usr/bin/python3", "-c", code, how])
                except AssertionError:
                    if how != "ring":
                        raise
                    self.skipTest("kernel: there is no io_uring")
                for options in ([], ["--no-stop"]):
                    run = self.run_tool("-p", victim.pid, "--deadlocks", *options, status=status)
                    self.assertEqual("DEADLOCK" in run.text, status == 1, run)

    def test_locks_without_an_owner_are_not_known(self):
        victim = self.run_program("locks", "rwlocks")
        truths_of(victim)
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=3)
        self.assertIn("owners of locks that keep none", run.text)

    def test_status_and_text(self):
        victim = self.run_program("dead", "two")
        truth = next(t for t in truths_of(victim) if "deadlock" in t)
        run = self.run_tool("-p", victim.pid, "--deadlocks", status=1)
        lines = run.text.splitlines()
        self.assertRegex(lines[0], r"^DEADLOCK  2 threads")
        self.assertEqual([int(line.split()[0]) for line in lines[1:3]], truth["deadlock"])
        self.assertIn("held by", lines[1])
        # All of it in JSON, with the same status; without the option it is 0.
        doc = self.look(victim, "--deadlocks")
        self.assertTrue(doc["processes"])
        self.assertEqual([t["tid"] for t in doc["deadlocks"][0]["threads"]], truth["deadlock"])
        whole = self.run_tool("-p", victim.pid)
        self.assertIn("\nDEADLOCK", whole.text)
