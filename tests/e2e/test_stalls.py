# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many processes, each a tree of its own, that make who reads them wait: what they cost does not add
up, and where the time of the run is not enough for all, what there is by then is reported."""
from harness import Case, functions, need_root, processes, read_file, threads, wait_until


class Swarm(Case):
    level = "all"
    COUNT = 250

    def setUp(self):
        super().setUp()
        need_root()
        self.hostile = self.victim("attack_stack", "swarm", self.COUNT, settled=False)
        bystander = self.hostile["bystander"]
        children = wait_until(lambda: self.swarm(bystander), "the swarm")
        self.innocent = self.victim("threads", "futex:3:worker")
        self.pids = ",".join(map(str, [*children, self.innocent.pid]))
        self.children = children

    def swarm(self, bystander):
        """The processes that stand on the page; others are the server and the bystander."""
        pid = self.hostile.pid
        found = [int(p) for p in (read_file(f"/proc/{pid}/task/{pid}/children") or "").split()]
        found = [p for p in found if p != bystander and
                 (read_file(f"/proc/{p}/comm") or "").strip() == "on-stack"]
        return found if len(found) == self.COUNT else None

    def check_innocent(self, doc):
        node = processes(doc)[self.innocent.pid]
        self.assertNotIn("error", node, doc["_result"])
        found = threads(node)
        self.assertEqual(len(found), 4, doc["_result"])
        waits = [s for _, s in found.values() if "wait_futex" in functions(s)]
        self.assertEqual(len(waits), 3, doc["_result"])

    def test_their_stalls_do_not_add_up(self):
        doc = self.json("-p", self.pids, status=1, free=False)
        self.check_innocent(doc)
        errors = [processes(doc)[pid].get("error", {}).get("code") for pid in self.children]
        self.assertLessEqual(set(errors), {None, "out_of_time", "not_responding"}, doc["_result"])

    def test_what_there_is_when_the_time_is_up(self):
        doc = self.json("-p", self.pids, "--timeout", 4000, status=1, free=False)
        self.check_innocent(doc)
        late = [processes(doc)[pid] for pid in self.children]
        late = [node for node in late if node.get("error", {}).get("code") == "out_of_time"]
        self.assertTrue(late, doc["_result"])
        self.assertIn("--timeout", late[0]["error"]["message"])
        self.assertIn("the time of the run was up", doc["_result"].err)
