# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads at rest are copied without a stop, at one instant with those that run (lib/stop/child/rest.c)."""
import json
import os

from harness import (TOOL, Case, functions, looks, need_bpf, need_root, processes, settle, status_field, threads,
                     tids_of, wait_until)


def switches(pid):
    return {tid: [status_field(pid, kind + "_ctxt_switches", tid) for kind in ("voluntary", "nonvoluntary")]
            for tid in tids_of(pid)}


def counts(victim):
    victim.tell()
    return {word.split("=")[0]: int(word.split("=")[1]) for word in victim.read_line().split()}


class Harmless(Case):
    """No stop ends a call early, or with a part of its bytes: the table of calls says which it would."""
    ENDED = {"epoll_wait", "sigtimedwait", "semop", "getevents", "write", "send", "recv_all", "timed_recv",
             "timed_accept"}

    def look(self, tool, pid, *options):
        doc = self.json("-p", pid, "--no-children", *options, tool=tool)
        found = threads(processes(doc)[pid])
        self.assertEqual({stack["unwind"] for _, stack in found.values()}, {"complete"})
        settle(pid)
        return {thread["name"]: thread["taken"] for thread, _ in found.values()}

    def test_no_call_ends_early(self):
        for tool in {TOOL, self.without_bpf()}:
            with self.subTest(tool):
                victim = self.victim("eintr", "all")
                for _ in range(looks(10)):
                    taken = self.look(tool, victim.pid)
                    self.assertEqual({taken[name] for name in self.ENDED}, {"confirmed"})
                self.assertEqual(set(counts(victim).values()), {0})

    def test_what_goes_on(self):
        """As the table says, whatever is stopped: a call of ENDED that goes on would be no harm."""
        for option in ("--stop-all", "--force-stop"):
            with self.subTest(option):
                victim = self.victim("eintr", "all")
                taken = self.look(self.without_bpf(), victim.pid, option)
                self.assertEqual(set(taken.values()), {"stopped"})
                wait_until(lambda v=victim: {name for name, times in counts(v).items() if times} == self.ENDED, "the calls")

    def test_a_call_that_ends_all_the_time(self):
        """It is of the instant, or late, and has its stack."""
        for tool in {TOOL, self.without_bpf()}:
            victim = self.victim("eintr", "busy", settled=False)
            for _ in range(looks(20)):
                doc = self.json("-p", victim.pid, "--no-children", tool=tool, status=(0, 1))
                found = {thread["name"]: stack for thread, stack in threads(processes(doc)[victim.pid]).values()}
                self.assertEqual(found["busy"]["unwind"], "complete", doc)


class Rest(Case):
    def setUp(self):
        super().setUp()
        need_root()
        need_bpf()

    def test_nothing_is_touched(self):
        """Not by a look that finds all asleep: their counters do not move, and no call ends."""
        victim = self.victim("eintr", "all")
        before = switches(victim.pid)
        before.pop(victim.pid)  # it answers us
        for _ in range(looks(10)):
            doc = self.json("-p", victim.pid)
            taken = {thread.get("taken") for thread, _ in threads(processes(doc)[victim.pid]).values()}
            self.assertEqual((taken, doc["stop"]["threads_stopped"], doc["stop"]["threads_late"]), ({"confirmed"}, 0, 0))
            self.assertNotIn("stop_duration_ns", doc)
        after = switches(victim.pid)
        after.pop(victim.pid)
        self.assertEqual(after, before)
        self.assertIn("one instant, no thread stopped", self.run_tool("-p", victim.pid).text.splitlines()[0])

    def test_what_runs_is_stopped(self):
        victim = self.victim("threads", "spin:1:runner", "futex:8:worker", running=1)
        doc = self.json("-p", victim.pid)
        taken = {tid: thread.get("taken") for tid, (thread, _) in threads(processes(doc)[victim.pid]).items()}
        self.assertLessEqual(doc["stop"]["threads_stopped"], 2)
        self.assertGreaterEqual(list(taken.values()).count("confirmed"), 8)
        whole = self.json("-p", victim.pid, "--stop-all")
        left = threads(processes(whole)[victim.pid]).values()
        self.assertEqual({thread["taken"] for thread, _ in left}, {"stopped"})
        self.assertEqual((whole["stop"]["threads_stopped"], whole["stop"]["rounds"]), (len(left), 1))
        self.assertEqual(whole["stop"]["duration_ns"], whole["stop_duration_ns"])

    def test_one_instant(self):
        """Of a baton there is one, and the owner of a lock holds it, however it is handed on."""
        victim = self.victim("baton", 24, settled=False)
        seen = 0
        for _ in range(looks(40)):
            node = processes(self.json("-p", victim.pid, status=(0, 1)))[victim.pid]
            found = threads(node)
            holders = [tid for tid, (_, stack) in found.items() if "holds_baton" in functions(stack)]
            self.assertLessEqual(len(holders), 1, holders)
            self.assertEqual([stack["unwind"] for _, stack in found.values() if stack["unwind"] != "complete"], [])
            for thread, _ in found.values():
                wait = thread.get("wait", {})
                owner = wait.get("owner", {}).get("tid") if wait.get("symbol") == "lock" else None
                if owner:
                    self.assertTrue({"holds_baton", "locker_main"} & set(functions(found[owner][1])), (owner, node))
                    seen += 1
        self.assertGreater(seen, 0)


class Titles(Case):
    """A command line is of the instant of the stacks: servers write there what they do."""
    def test_they_say_what_the_stack_does(self):
        for how in ("short", "grown"):
            for tool, option in ((TOOL, "--explain"), (TOOL, "--stop-all"), (self.without_bpf(), "--explain")):
                with self.subTest(how, tool=tool, option=option):
                    victim = self.victim("titles", how, "x" * 40, env={"PAD": "p" * 300}, settled=False)
                    seen = set()
                    for _ in range(looks(30)):
                        node = processes(self.json("-p", victim.pid, option, tool=tool, status=(0, 1)))[victim.pid]
                        called = functions(threads(node)[victim.pid][1])
                        for name in {"in_alpha", "in_beta"} & set(called):
                            says = "alpha" if name == "in_alpha" else "beta, longer"
                            self.assertEqual(node["description"].rstrip(".").split("titles: ")[1], says, node)
                            seen.add(name)
                    self.assertEqual(seen, {"in_alpha", "in_beta"})


class Samples(Case):
    """What runs is sampled by the kernel, where that is permitted: nothing is stopped for it."""
    def setUp(self):
        super().setUp()
        need_root()
        need_bpf()

    def record(self, pid, *options):
        path = os.path.join(self.scratch(), "running.snaprec")
        self.run_tool("record", pid, "-q", "-o", path, *options, status=(0, 1))
        doc = json.loads(self.run_tool("render", path, "-f", "json", "-n", "0", status=(0, 1)).text)
        return [stack for stack in doc["processes"][0]["stacks"] if stack["labels"]["state"] == "running"]

    def test_recordings(self):
        """A budget that permits hardly any stop leaves out nothing."""
        victim = self.victim("threads", "spin:4:busy", "futex:20:idle", running=4)
        found = self.record(victim.pid, "-d", "2", "--max-stopped", "0.1")
        shown = sum(stack["samples"] for stack in found if stack["unwind"] == "complete")
        self.assertGreater(shown, 0.9 * sum(stack["samples"] for stack in found), found)
        for stack in found:
            if stack["unwind"] == "complete":
                self.assertTrue({"spin", "worker_main", "start_thread"} <= set(functions(stack)), stack)

    def test_deep_stacks(self):
        """More than a sample has at first, and more than it can have."""
        for depth in (300, 3000):
            with self.subTest(depth):
                victim = self.victim("threads", f"spin:1:busy:{depth}", running=1)
                found = [stack for stack in self.record(victim.pid, "-d", "1") if stack["unwind"] == "complete"]
                self.assertTrue(found)
                for stack in found:
                    # Of very many frames a recording leaves out some in the middle.
                    self.assertGreater(functions(stack).count("walk"), min(depth, 400))
                    self.assertIn("start_thread", functions(stack))

    def test_without_a_stop(self):
        victim = self.victim("threads", "spin:1:busy:9", "futex:5:idle", running=1)
        doc = self.json("-p", victim.pid, "--no-stop")
        self.assertNotIn("stop_duration_ns", doc)
        found = {thread["name"]: (thread["taken"], stack) for thread, stack
                 in threads(processes(doc)[victim.pid]).values()}
        self.assertEqual(found["busy"][0], "late")
        self.assertEqual(functions(found["busy"][1]).count("walk"), 10)
