# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads at rest are copied without a stop, at one instant with those that run (lib/stop/child/rest.c)."""
from harness import Case, functions, looks, need_bpf, need_root, processes, status_field, threads, tids_of


def switches(pid):
    return {tid: [status_field(pid, kind + "_ctxt_switches", tid) for kind in ("voluntary", "nonvoluntary")]
            for tid in tids_of(pid)}


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
            self.assertEqual((taken, doc.get("threads_stopped")), ({"confirmed"}, None))
            self.assertNotIn("stop_duration_ns", doc)
        after = switches(victim.pid)
        after.pop(victim.pid)
        self.assertEqual(after, before)
        self.assertIn("one instant, no thread stopped", self.run_tool("-p", victim.pid).text.splitlines()[0])

    def test_what_runs_is_stopped(self):
        victim = self.victim("threads", "spin:1:runner", "futex:8:worker", running=1)
        doc = self.json("-p", victim.pid)
        taken = {tid: thread.get("taken") for tid, (thread, _) in threads(processes(doc)[victim.pid]).items()}
        self.assertLessEqual(doc.get("threads_stopped", 0), 2)
        self.assertGreaterEqual(list(taken.values()).count("confirmed"), 8)
        whole = self.json("-p", victim.pid, "--stop-all")
        self.assertNotIn("threads_stopped", whole)
        left = threads(processes(whole)[victim.pid]).values()
        self.assertNotIn("confirmed", [thread.get("taken") for thread, _ in left])

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
