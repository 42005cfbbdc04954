# SPDX-License-Identifier: LGPL-2.1-or-later
"""What threads wait for in calls that are not locks of their process: descriptors, other processes,
time, signals, memory. See waits.py."""
import errno
import os
import shutil
import socket
import unittest

import bombs
from harness import TOOL, need, need_namespaces, need_root, read_file, refusing_tool, wait_until, walk
from waits import WaitCase, program, truths_of, waits_of


class Calls(WaitCase):
    asan = True

    def test_descriptors(self):
        self.compare("calls", "descriptors")

    def test_polls(self):
        self.compare("calls", "polls")

    def test_children(self):
        self.compare("calls", "children")

    def test_groups_of_children(self):
        self.compare("calls", "groups")

    def test_groups_of_children_in_a_pid_namespace(self):
        """The call's number is not that of this host, which is shown."""
        need_root()
        need_namespaces("--pid", "--fork", "--mount-proc")
        victim = self.program(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; true', "sh",
                               program("calls", self.build), "groups"], settled=False)
        doc = self.json("-p", victim.process.pid, free=False)
        inner = {node["ns_pid"]: node["pid"] for node in walk(doc["processes"]) if "ns_pid" in node}
        wanted = {(truth["call"], tuple(inner[pid] for pid in truth["children"]))
                  for truth in truths_of(victim) if "pgrp" in truth}
        got = {(wait["call"], tuple(wait["children"])): wait["pgrp"] for wait in waits_of(doc).values()
               if wait and "pgrp" in wait}
        self.assertEqual(set(got), wanted, doc)
        for (call, children), group in got.items():
            self.assertEqual(group, children[0] if len(children) == 2 else victim.process.pid, call)

    def test_vfork(self):
        self.compare("calls", "vfork")

    def test_sleeps(self):
        self.compare("calls", "sleeps")

    def test_sleeps_that_were_restarted(self):
        """After one stop the kernel restarts them, and the number of the call is another one."""
        victim = self.run_program("calls", "sleeps", "polls", "signals")
        truths = truths_of(victim)
        for _ in range(3):
            doc = self.look(victim)
        self.judge(truths, doc)

    def test_sleeps_with_times(self):
        """Of a relative sleep it says what is left where it says since when: with --explain."""
        victim = self.run_program("calls", "sleeps")
        truths = truths_of(victim)
        doc = self.look(victim, "--explain")
        self.judge(truths, doc)
        sleeps = [wait for wait in waits_of(doc).values() if wait["kind"] == "sleep"]
        self.assertTrue(all(2900e9 < wait["remaining_ns"] <= 3000e9 for wait in sleeps), sleeps)

    def test_sleeps_in_a_time_namespace(self):
        """A moment by its own clock: how long it is until then is not told, if it cannot be told rightly."""
        need_root()
        flags = ("--time", "--fork", "--monotonic", "100000", "--boottime", "200000")
        need_namespaces(*flags)
        victim = self.program(["unshare", *flags, program("calls", self.build), "sleeps"], settled=False)
        doc = self.json("-p", victim.process.pid, free=False)
        self.judge(truths_of(victim), doc)
        left = ["remaining_ns" in wait for wait in waits_of(doc).values() if wait and wait.get("timed")]
        self.assertEqual(left.count(False), 1, doc)

    def test_signals(self):
        self.compare("calls", "signals")

    def test_system_v(self):
        self.compare("calls", "sysv")

    def test_system_v_in_namespaces(self):
        """The same number is another queue in another IPC namespace."""
        need_root()
        truths, doc = self.compare("calls", "namespaces")
        self.assertEqual({truth["id"] for truth in truths if truth.get("kind") == "msgqueue"}, {0})
        self.assertNotIn("waits_lack", doc)

    def test_system_v_in_words(self):
        victim = self.run_program("calls", "sysv")
        truths_of(victim)
        text = self.run_tool("-p", victim.pid).text
        for said in (r"read on message queue \d+", r"read on message queue \d+ \(type 7\)",
                     r"read on message queue \d+ \(types up to 7\)", r"read on message queue \d+ \(types but 7\)",
                     r"write to message queue \d+ \(type 12\)", r"\w+ on semaphore set \d+ \(semaphore 1\)"):
            self.assertRegex(text, r"(?m)^\W+" + said + r"(  |$)")

    def test_page_fault(self):
        self.compare("calls", "fault")

    def test_rings(self):
        self.compare("calls", "rings")

    def test_words_that_look_like_a_mutex(self):
        self.compare("calls", "raw")


class Peers(WaitCase):
    asan = "all"

    def test_pipes(self):
        self.compare("peers", "pipes")

    def test_fifos(self):
        self.compare("peers", "fifos:" + self.scratch())

    def test_unix(self):
        self.compare("peers", "unix")

    def test_transfers(self):
        self.compare("peers", "transfers")

    def test_tcp(self):
        self.compare("peers", "tcp")

    def test_udp(self):
        self.compare("peers", "udp")

    def test_locks_of_files(self):
        self.compare("peers", "locks:" + self.scratch())

    def test_locks_of_files_that_several_share(self):
        """All who have the file open under the lock hold it."""
        self.compare("peers", "shared-locks:" + self.scratch())

    def test_more_sockets_than_anybody_needs(self):
        """100,000 of the tree: the one that a thread waits with is found among them, or it is said that it was not."""
        victim = self.run_program("peers", "many-sockets:100000")
        truths = truths_of(victim)
        doc = self.look(victim)
        if not {"cut", "time"} & set(doc.get("waits_lack", [])):
            self.judge(truths, doc)
        truth = next(truth for truth in truths if truth["row"] == "unix.recv")
        peers = {peer["pid"] for peer in waits_of(doc)[truth["tid"]].get("peers", ())}
        self.assertLessEqual(peers, set(truth["peers"]))


class ManyFileLocks(WaitCase):
    """The kernel's one table of locks gets so long that no other test has the time to read it."""
    alone = True
    tries = 1

    def test_more_locks_than_are_looked_at(self):
        """100,000 of a process, on 50 files; and 20,000 on one. Whoever is named has them, and it is said that some
        were left out, or that there was no time for them."""
        for files, locks in ((50, 2000), (1, 20000)):
            with self.subTest(f"{files} files"):
                victim = self.run_program("peers", f"many-locks:{files},{locks},{self.scratch()}")
                truths = truths_of(victim)
                doc = self.look(victim)
                self.assertTrue({"cut", "time"} & set(doc.get("waits_lack", [])), doc["_result"].err)
                self.judge(truths, doc)
                holder = next(truth["pid"] for truth in truths if truth["row"] == "file_lock.holder")
                named = [set(wait.get("holders", ())) for wait in waits_of(doc).values() if wait["kind"] == "file_lock"]
                self.assertEqual(len(named), files)
                self.assertLessEqual(set().union(*named), {holder})

    def test_locks_of_files_beside_many_of_others(self):
        """Another program's 100,000 make the kernel's table so long that there is no time to read it."""
        truths_of(self.run_program("peers", f"many-locks:50,2000,{self.scratch()}"))
        _, doc = self.compare("peers", "locks:" + self.scratch())
        self.assertIn("time", doc.get("waits_lack", []))
        self.compare("peers", "shared-locks:" + self.scratch())


class WithoutRights(WaitCase):
    """A user who may look at his own processes alone: what he may not see is said, and nobody is named for it."""
    who = dict(user=65534, group=65534, extra_groups=[])

    def setUp(self):
        super().setUp()
        need_root()
        self.tool = os.path.join(self.scratch(), "stacksnap")
        shutil.copy(TOOL, self.tool)
        os.chmod(self.tool, 0o755)

    def of_him(self, name, *argv, **options):
        path = os.path.join(self.scratch(), name)
        shutil.copy(program(name, self.build), path)
        os.chmod(path, 0o755)
        return self.program([*argv, path, *options.pop("modes")], cwd="/", **self.who, **options)

    def test_pipe_to_another_user(self):
        """This process writes to the victim's standard input."""
        victim = self.of_him("peers", modes=["pipes"])
        truths = truths_of(victim)
        mine, doc = self.look(victim), self.look(victim, tool=self.tool, cwd="/", **self.who)
        self.assertEqual(waits_of(mine)[victim.pid]["peers"][0]["pid"], os.getpid())
        self.assertTrue(waits_of(mine)[victim.pid]["peers"][0]["outside"])
        self.assertNotIn("waits_lack", mine)
        self.assertNotIn("peers", waits_of(doc)[victim.pid])
        self.assertEqual(doc["waits_lack"], ["rights"])
        self.judge(truths, doc)  # those of his own are known
        text = self.run_tool("-p", victim.pid, "--explain", tool=self.tool, cwd="/", **self.who).text
        self.assertRegex(text, r"read on a pipe whose writers are not seen")
        self.assertRegex(text, r"waits are not known in full: .*user")

    def test_sockets_of_another_network_namespace(self):
        """Without the right to enter it, the kernel's tables of its processes are counted."""
        need("ip")
        need_namespaces("--user", "--map-root-user", "--net")
        victim = self.of_him("peers", "unshare", "--user", "--map-root-user", "--net", "sh", "-c",
                             'ip link set lo up && exec "$@"', "sh", modes=["tcp"])
        truths = truths_of(victim)
        doc = self.look(victim, tool=self.tool, cwd="/", **self.who)
        tcp = [truth for truth in truths if truth.get("kind") == "tcp"]
        self.assertTrue(tcp)
        for truth in tcp:
            wait = waits_of(doc)[truth["tid"]]
            self.assertEqual(wait["kind"], "tcp", truth)
            for key in {"local", "remote"} & set(truth):
                self.assertEqual(wait.get(key), truth[key], truth)
        self.assertNotIn("deadlocks", doc)


class WithoutSockDiag(WaitCase):
    """A machine where nobody may ask the kernel for sockets: what its tables have is told, and that more is not."""

    def test_tcp(self):
        path = refusing_tool(self.scratch(), "socket", socket.AF_NETLINK, errno.EPERM)
        victim = self.run_program("peers", "tcp", "unix")
        truths = truths_of(victim)
        whole, doc = self.look(victim), self.look(victim, tool=path)
        self.assertNotIn("waits_lack", whole)
        self.assertEqual(doc["waits_lack"], ["sockets"])
        for truth in truths:
            wait = waits_of(doc).get(truth.get("tid")) or {}
            for key in {"local", "remote", "state"} & set(truth):
                self.assertEqual(wait.get(key), truth[key], truth)
            # Nobody is named who is not there; tables do not tell who the other end of a unix socket is.
            self.assertLessEqual({peer["pid"] for peer in wait.get("peers", ())} if wait.get("kind") in ("tcp", "unix") else set(),
                                 set(truth.get("peers", ())))
        self.assertNotIn("deadlocks", doc)


class Fuse(WaitCase):
    """Threads in calls that a server of files does not answer: without a stop they stay as they are, asleep; a stop turns
    them to state D."""

    def test_silent(self):
        """For fstat() glibc makes one call or the other; the path of newfstatat is empty here."""
        need_root()
        folder = self.scratch()
        bombs.looks_sane(os.path.join(folder, "image"))
        victim = self.victim("hostile_fuse", folder, "inside", settled=False)
        tasks = f"/proc/{victim.pid}/task"
        wait_until(lambda: sum(read_file(f"{tasks}/{tid}/wchan") == "request_wait_answer" for tid in os.listdir(tasks)) == 2,
                   "both in their calls")
        for options, path in (["--no-stop"], r" of mount/file"), (["--stop-all"], ""):
            doc = self.json("-p", victim.pid, *options, free=False, status=(0, 1))
            found = {wait["call"]: wait for wait in waits_of(doc).values() if wait and wait.get("variant") == "fuse"}
            size = "fstat" if "fstat" in found else "newfstatat"
            self.assertEqual({(call, wait["kind"], wait["wchan"]) for call, wait in found.items()},
                             {(call, "disk", "request_wait_answer") for call in ("openat", size)})
            text = self.run_tool("-p", victim.pid, *options, free=False, status=(0, 1)).text
            self.assertRegex(text, rf"openat{path}: the server of its FUSE file system does not answer")
            self.assertRegex(text, r"(newfstatat|fstat( of \S+/mount/file)?): the server of its FUSE file system does not answer")


class Traced(WaitCase):
    """Threads that somebody else has stopped."""
    asan = True

    def readable(self):
        """Their stacks are read without a stop, as they are, which nobody else can ask for."""
        if os.uname().machine != "x86_64":
            self.skipTest("arch: the return address of a call without a frame is in a register, which needs a stop")

    def test_by_whom(self):
        self.readable()
        victim = self.victim("traced", "stopped")
        victim.watched = []
        path = os.path.join(self.scratch(), "capture")
        doc = self.json("-p", victim["child"], "--no-stop", "--save-capture", path, free=False, status=(0, 1))
        wait = waits_of(doc)[victim["child"]]
        self.assertEqual((wait["kind"], wait["owner"]["pid"], wait["owner"]["name"], wait["owner"]["outside"]),
                         ("traced", victim.pid, "traced", True))
        text = self.run_tool("render", path, status=(0, 1), free=False).text
        self.assertRegex(text, rf"\btraced by {victim.pid} traced\n")

    def test_by_somebody_in_the_report(self):
        self.readable()
        victim = self.victim("traced", "stopped")
        victim.watched = []
        doc = self.json("-p", victim.pid, "--no-stop", free=False, status=(0, 1))
        owner = waits_of(doc)[victim["child"]]["owner"]
        self.assertEqual((owner["pid"], owner["tid"], "outside" in owner), (victim.pid, victim.pid, False))

    def test_not_while_it_goes_its_way(self):
        victim = self.victim("traced")
        victim.watched = []
        doc = self.json("-p", victim["child"], "--no-stop", free=False, status=(0, 1))
        wait = waits_of(doc)[victim["child"]]
        self.assertEqual(wait["kind"], "signal")
        self.assertNotIn("owner", wait)


class Frozen(WaitCase):
    """All threads of a frozen control group wait for that, whatever their calls are, which are those of before."""

    def frozen(self, root, name, frozen, thawed, events):
        need_root()
        folder = os.path.join(root, f"stacksnap-waits-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError:
            raise unittest.SkipTest(f"kernel: no control groups in {root}") from None
        self.addCleanup(os.rmdir, folder)
        if not os.path.exists(os.path.join(folder, name)):
            raise unittest.SkipTest(f"kernel: no {name}")
        victim = self.run_program("calls", "signals", "sleeps")
        truths = truths_of(victim)

        def write(file, text):
            with open(os.path.join(folder, file), "w", encoding="ascii") as out:
                out.write(text)
        try:
            write("cgroup.procs", str(victim.pid))
            write(name, frozen)
        except OSError as error:
            victim.close()
            raise unittest.SkipTest(f"kernel: {error}") from None
        try:
            said = "frozen 1\n" if events == "cgroup.events" else frozen + "\n"
            wait_until(lambda: said in (read_file(os.path.join(folder, events)) or ""), "a frozen group")
            docs = [self.json("-p", victim.pid, *options, free=False, status=(0, 1, 2))
                    for options in ([], ["--explain"], ["--no-stop"])]
        finally:
            write(name, thawed)
            victim.close()
            wait_until(lambda: not read_file(os.path.join(folder, "cgroup.procs")), "an empty group")
        for doc in docs:
            waits = waits_of(doc)
            self.assertEqual(set(waits), {truth["tid"] for truth in truths})
            self.assertEqual({wait and wait["kind"] for wait in waits.values()}, {"frozen"}, doc)
        return folder, docs

    def test_version_2(self):
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            if os.path.exists(os.path.join(root, "cgroup.controllers")):
                folder, docs = self.frozen(root, "cgroup.freeze", "1", "0", "cgroup.events")
                for doc in docs:
                    self.assertEqual({wait["cgroup"] for wait in waits_of(doc).values()},
                                     {"/" + os.path.basename(folder)})
                return
        raise unittest.SkipTest("kernel: no control groups of version 2")

    def test_version_1(self):
        self.frozen("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state")


class Static(Calls):
    """Numbers and arguments alone."""
    asan = False
    build = "static-stripped"
