# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that are alike are one in the text, and the odd one stands apart: real servers and shells."""
import glob
import json
import os
import re
import signal
import sys

import jsonschema

from harness import Case, SOURCE, check_counts, check_schema, missing, need_root, proc_state, processes, read_file, settle, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402


def children(pid):
    return [int(word) for word in (read_file(f"/proc/{pid}/task/{pid}/children") or "").split()]


# Calls of x86-64: asleep in anything else, a program is on its way there.
ACCEPT, SLEEP = ("43", "288"), ("35", "230", "219")


def waits_in(pid, calls):
    return proc_state(pid) == "S" and (read_file(f"/proc/{pid}/syscall") or "").split(" ")[0] in calls


class Fold(Case):
    asan = True

    def whole(self, *arguments):
        """A report in which nothing is missing: on a busy machine a process may answer too late."""
        def look():
            for victim in self.victims:
                settle(victim.pid)
            got = self.run_tool("--stop-timeout", "20000", *arguments, status=(0, 1, 2))
            return got if got.status == 0 else None
        return wait_until(look, "a whole report")

    def test_children_of_a_shell(self):
        count = 20
        shell = self.program(["sh", "-c", f"for i in $(seq {count}); do sleep 36$i & done; echo ready $$; read line"])
        wait_until(lambda: len(children(shell.pid)) == count and
                   all(read_file(f"/proc/{p}/comm") == "sleep\n" for p in children(shell.pid)), "its children")
        sleepers = children(shell.pid)

        def text(*options):
            wait_until(lambda: all(waits_in(p, SLEEP) or proc_state(p) == "T" for p in sleepers), "all to sleep")
            return self.whole("-p", shell.pid, *options).text

        folded = text()
        self.assertRegex(folded, rf"─ {count} × sleep  sleep \*  +pids ")
        self.assertRegex(folded, rf"─ {count} × sleep   sleeping in clock_nanosleep  +tids ")
        self.assertNotIn("sleep[", folded)
        self.assertIn(f"{count + 1} processes, {count + 1} threads", " ".join(folded.split()))
        self.assertEqual(text("--no-fold").count("─ sleep["), count)
        self.assertEqual(text("--flat").count("× sleep["), count)
        self.assertEqual(len(processes(self.whole("--json", "-p", shell.pid).doc)), count + 1)
        odd = sleepers[7]
        os.kill(odd, signal.SIGSTOP)
        wait_until(lambda: proc_state(odd) == "T", "the odd one to stop")
        folded = text()
        self.assertRegex(folded, rf"─ {count - 1} × sleep  sleep \*  +pids ")
        self.assertEqual(re.findall(r"─ sleep\[(\d+)\]", folded), [str(odd)])

    def test_all_processes_together(self):
        victims = [self.victim("threads", "futex:2:worker") for _ in range(3)] + [self.victim("chain")]
        pids = [v.pid for v in victims]
        apart = self.whole("--json", *pids).doc
        threads = sorted((n["pid"], t["tid"]) for n in apart["processes"] for s in n["stacks"] for t in s["threads"])
        document = self.whole("--json", *pids, "--group-by", "stack,state").doc
        check_schema(document)
        check_counts(document)
        self.assertEqual(sorted((t["pid"], t["tid"]) for s in document["stacks"] for t in s["threads"]), threads)
        self.assertEqual([n["stacks"] for n in document["processes"]], [[]] * 4)
        workers = [s for s in document["stacks"] if s["labels"].get("thread_name") == "worker"
                   or s["labels"].get("thread_name", "").startswith("worker-")]
        self.assertEqual([s["count"] for s in workers], [6])
        self.assertEqual({t["pid"] for t in workers[0]["threads"]}, set(pids[:3]))
        text = self.whole(*pids, "--group-by", "stack,state").text
        self.assertRegex(text, r"(?m)^6 × worker\S*   sleeping in futex  +pids ")
        self.assertNotIn("─ ", text)
        self.assertRegex(self.whole(*pids, "--group-by", "stack,state", "--summary").text, r"(?m)^  6 × worker")
        # It is read back as a snapshot as any.
        path = os.path.join(self.scratch(), "together.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        again = self.json("render", path)
        self.assertEqual({n["pid"]: [s["count"] for s in n["stacks"]] for n in again["processes"]},
                         {n["pid"]: [s["count"] for s in n["stacks"]] for n in apart["processes"]})
        joined = self.json("render", path, "--group-by", "stack,state")
        self.assertEqual(joined["stacks"], document["stacks"])
        folded = self.run_tool("render", path, "-f", "folded", "--group-by", "stack").text
        self.assertEqual({int(line.split("[")[1].split("]")[0]) for line in folded.splitlines()}, set(pids))
        document["stacks"][0]["threads"][0]["pid"] = 1
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        self.assertIn("pid", self.run_tool("render", path, status=2).err)

    def test_all_processes_of_a_recording_together(self):
        victims = [self.victim("threads", "futex:2:worker") for _ in range(2)]
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-d", "0.5", "-o", path, *(v.pid for v in victims), status=(0, 1))
        document = json.loads(self.run_tool("render", path, "-j", "--group-by", "stack").raw)
        with open(os.path.join(SOURCE, "lib/render/json/stacksnap-recording.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.validators.validator_for(schema)(schema).validate(document)
        apart = json.loads(self.run_tool("render", path, "-j", "--group-by", "process,stack").raw)
        total = sum(s["samples"] for n in apart["processes"] for s in n["stacks"])
        self.assertEqual(sum(s["samples"] for s in document["stacks"]), total)
        self.assertEqual(document["sample_count"], total)
        self.assertEqual(document["stack_count"], len(document["stacks"]))
        self.assertEqual({t["pid"] for s in document["stacks"] for t in s["threads"]},
                         {n["pid"] for n in apart["processes"] if n["stacks"]})
        for stack in document["stacks"]:
            self.assertEqual(sum(t["samples"] for t in stack["threads"]), stack["samples"])
        lines = self.run_tool("render", path, "-f", "jsonl", "--group-by", "stack").text.splitlines()
        self.assertTrue(all(check_schema(json.loads(line)) is None for line in lines[:20]))
        self.assertRegex(self.run_tool("render", path, "--group-by", "stack").text, r"(?m)^ *[0-9.]+ %.* pids? \d")

    def test_a_pool_of_php_with_one_that_works(self):
        need_root()
        programs = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not programs:
            missing("php-fpm", "php-fpm")
        with php_server.Server(programs[-1], self.scratch(0o777), workers=6) as server:
            wait_until(lambda: sum(waits_in(p, ACCEPT) for p in server.workers()) == 5 and
                       sum(waits_in(p, SLEEP) for p in server.workers()) == 1, "five to be idle, and one to work")
            text = self.whole("-p", server.pid).text
            self.assertRegex(text, r"─ 5 × php-fpm\S*  php-fpm: pool demo  +pids ")
            own = re.findall(r"─ php-fpm\S*\[(\d+)\]  php-fpm: pool demo\n.*request_method=GET.*/app/users\.php", text)
            self.assertEqual(len(own), 1, text)
            self.assertIn(int(own[0]), server.workers())
            groups = self.whole("--json", "-p", server.pid, "--group-by", "label:request_uri,label:request_method").doc["stacks"]
            asked = [s for s in groups if "request_uri" in s["labels"]]
            self.assertEqual([(s["count"], s["labels"]["request_uri"], s["labels"]["request_method"]) for s in asked],
                             [(1, "/app/users.php", "GET")])
            self.assertEqual([s["count"] for s in groups if s not in asked], [6])
            self.assertIn("request_uri=/app/users.php",
                          self.whole("-p", server.pid, "--group-by", "label:request_uri", "--summary").text)
