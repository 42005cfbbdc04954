# SPDX-License-Identifier: LGPL-2.1-or-later
"""The incidents of examples/: each is one command, and what the tool says of it names who is to blame."""
import json
import os
import subprocess

from harness import DEADLINE, SOURCE, TOOL, Case, clean_environment, need

RUN = os.path.join(SOURCE, "examples", "incidents", "run.sh")


class Incidents(Case):
    def look(self, name, *options, status=0):
        need("cc")
        done = subprocess.run([RUN, name, *options], env=clean_environment({"STACKSNAP": TOOL}), timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def threads(self, doc, name):
        return [thread for node in doc["processes"] for stack in node["stacks"] for thread in stack["threads"]
                if thread["name"] == name]

    def test_deadlock(self):
        doc = json.loads(self.look("deadlock", "--json"))
        dead, = doc["deadlocks"]
        self.assertEqual(sorted(link["name"] for link in dead["threads"]), ["audit", "transfer"])
        self.assertEqual({link["wait"]["symbol"] for link in dead["threads"]}, {"accounts", "journal"})
        self.assertEqual((dead["certain"], dead["behind"]), (True, 3))

    def test_as_text(self):
        self.assertRegex(self.look("deadlock"), r"\nDEADLOCK +2 threads, 3 more wait behind them\n")
        self.assertRegex(self.look("pool"), r"\nblocked +pool\[\d+\] 17 threads wait for \d+ worker-\d+ \(in recv on a unix socket")

    def test_slow_peer(self):
        doc = json.loads(self.look("slow_peer", "--json"))
        sends = [thread["wait"] for thread in self.threads(doc, "publisher") if thread["wait"]["kind"] == "tcp"]
        self.assertEqual(len(sends), 1)
        self.assertEqual([peer["name"] for peer in sends[0]["peers"]], ["stuck-reader"])
        self.assertGreater(sends[0]["send_queue"], 0)
        self.assertEqual([(blocker["name"], blocker["blocked"]) for blocker in doc["blockers"]], [("publisher", 3)])

    def test_pool(self):
        doc = json.loads(self.look("pool", "--json"))
        self.assertNotIn("deadlocks", doc)
        blocker, = doc["blockers"]
        self.assertEqual((blocker["blocked"], blocker["wait"]["kind"]), (17, "unix"))
        self.assertEqual([(row["symbol"], row["waiters"]) for row in doc["contended"]], [("cache_lock", 17)])
