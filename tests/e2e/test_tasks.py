# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tasks and logical processes in the views of the command line, from a document that has some."""
import json
import os

from harness import SOURCE, Case, walk

DOCUMENT = os.path.join(SOURCE, "tests", "golden", "tasks-analyzed.json")


def ids(nodes):
    """The tree of logical processes as nested lists."""
    return [[node.get("id")] + ids(node.get("children", [])) for node in nodes]


class Tasks(Case):
    def process(self, *options):
        return self.json("render", DOCUMENT, *options)["processes"][0]

    def test_same_bytes(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            document = json.load(file)
        got = self.json("render", DOCUMENT)
        self.assertEqual(got["processes"], document["processes"])
        self.assertEqual(got["task_count"], 8)

    def test_tree(self):
        whole = [["web", ["r1", ["c1"]], ["r2"]], ["gone", ["orphan"]], [None]]
        self.assertEqual(ids(self.process()["logical"]), whole)
        self.assertEqual(ids(self.process("--no-system")["logical"]), [["r1", ["c1"]], ["r2"], ["gone", ["orphan"]]])
        flat = self.process("--flat")["logical"]
        self.assertEqual([node.get("id") for node in flat], ["web", "r1", "c1", "r2", "gone", "orphan", None])
        self.assertNotIn("children", flat[0])

    def test_filters(self):
        self.assertEqual(ids(self.process("--state", "running")["logical"]), [["web", ["r2"]]])
        self.assertEqual(ids(self.process("--match", "main.serve")["logical"]), [["web"]])
        self.assertEqual(self.process("--state", "sleeping").get("logical"), None)

    def tasks(self, *options):
        """By id: the values of its labels."""
        return {task["id"]: set(task.get("labels", {}).values()) for node in walk(self.process(*options)["logical"])
                for stack in node.get("stacks", ()) for task in stack["tasks"]}

    def test_ids_and_labels_choose_tasks(self):
        whole = self.tasks()
        self.assertTrue(any(whole.values()))
        for wanted in set(whole).union(*whole.values()) - {""}:
            self.assertEqual(self.tasks("--thread", f"^{wanted}$"),
                             {id: values for id, values in whole.items() if wanted in {id} | values}, wanted)
        got = self.run_tool("render", DOCUMENT, "--state", "tired", status=64)
        self.assertIn("waiting", got.err)

    def test_text(self):
        text = self.run_tool("render", DOCUMENT).text
        for part in ("8 goroutines", "GET:/ [r1]  request   2 tasks", "(dead process) [gone]", "(unassociated)",
                     "1 idle thread of go (--threads)", "goroutines 9-10"):
            self.assertIn(part, text)
        summary = self.run_tool("render", DOCUMENT, "--summary").text
        self.assertLess(len(summary.splitlines()), len(text.splitlines()))

    def test_options(self):
        """What they do is decided when tasks are made: here they are taken, or refused."""
        victim = self.victim("threads", "futex:2:worker:5")
        self.run_tool(victim.pid, "--task-tree", "request,parent", "--threads", "--system-tasks", "--native",
                      "--group-by", "stack,label:tenant")
        for wrong in ("a,b,c,d,e", "a,,b"):
            self.assertIn("task-tree", self.run_tool(victim.pid, "--task-tree", wrong, status=64).err)
