# SPDX-License-Identifier: LGPL-2.1-or-later
"""--call-tree and --reverse: all stacks of a process as one tree, of real processes."""
import json
import os
import re
import unittest

from harness import Case, SOURCE, check_schema, processes, stacks_of


def name_of(entry):
    place = entry.get("module") or entry.get("file")
    name = entry.get("function") or entry.get("symbol")
    return (name, place) if name else (None, place, entry.get("offset", entry.get("address")))


def spell(stack, reverse):
    """The functions of a stack from where its tree begins."""
    names, gap = [], stack.get("gap")
    for number, entry in enumerate(stack["entries"]):
        names.append(name_of(entry))
        if gap and gap["after"] == number:
            names.append("gap")
    if not names or stack["unwind"] not in ("complete", "guessed", "scanned") or "unwind_detail" in stack:
        names.append(("end", stack["unwind"]))
    return tuple(names if reverse else names[::-1])


def spell_node(node):
    if node.get("kind") == "gap":
        return "gap"
    return ("end", node["unwind"]) if "kind" in node else name_of(node)


def brute_force(stacks, reverse, weight):
    tree = {}
    for stack in stacks:
        names = spell(stack, reverse)
        for length in range(1, len(names) + 1):
            count, own = tree.get(names[:length], (0, 0))
            tree[names[:length]] = count + stack[weight], own + stack[weight] * (length == len(names))
    return tree


def flatten(nodes):
    """Path -> (count, own) of a tree; checks sums and order on the way."""
    found, todo = {}, [((), nodes)]
    while todo:
        path, siblings = todo.pop()
        counts = [node["count"] for node in siblings]
        assert counts == sorted(counts, reverse=True), counts
        for node in siblings:
            here = path + (spell_node(node),)
            assert here not in found, here
            found[here] = node["count"], node.get("own", 0)
            assert node["count"] == node.get("own", 0) + sum(c["count"] for c in node["children"]), here
            todo.append((here, node["children"]))
    return found


def check_recording(doc):
    import jsonschema
    with open(os.path.join(SOURCE, "lib", "render", "json", "stacksnap-recording.schema.json")) as f:
        jsonschema.validate(doc, json.load(f))


class Calls(Case):
    asan = True

    def check_trees(self, doc, reverse, weight="count"):
        self.assertEqual(doc.get("reverse", False), reverse)
        for node in processes(doc).values():
            self.assertEqual(flatten(node["call_tree"]), brute_force(stacks_of(node), reverse, weight))
        return {pid: node["call_tree"] for pid, node in processes(doc).items()}

    def test_a_live_process(self):
        victim = self.victim("threads", "futex:3:worker", "poll:2:poller:5", "sleep:1:sleeper")
        for options in ((), ("--reverse",), ("-n", "3"), ("--per-thread", "--reverse"), ("--flat", "--no-inlines")):
            doc = self.json("-p", victim.pid, "--call-tree", *options)
            tree = self.check_trees(doc, "--reverse" in options)[victim.pid]
            self.assertEqual(sum(n["count"] for n in tree), sum(s["count"] for n in processes(doc).values() for s in stacks_of(n)))

    def test_text_and_what_is_read_back(self):
        victim = self.victim("threads", "futex:6:worker")
        path = os.path.join(self.scratch(), "snapshot.json")
        self.run_tool("-p", victim.pid, "--call-tree", "-o", path)
        with open(path) as f:
            doc = json.load(f)
        # The tree in the document is made anew of its stacks.
        again = json.loads(self.run_tool("render", path, "--call-tree", "--json").text)
        self.assertEqual(again["processes"], doc["processes"])
        self.assertNotIn('"call_tree"', self.run_tool("render", path, "--json").text)
        backwards = json.loads(self.run_tool("render", path, "--call-tree", "--reverse", "--json").text)
        check_schema(backwards)
        self.check_trees(backwards, True)
        for width in (80, 200):
            text = self.run_tool("render", path, "--call-tree", "--width", width).text
            # What stands outside of it has a name where the debug file of the C library is installed.
            self.assertRegex(text, r"(?m)^├─ 6 × .*(start_thread|libc\.so\.6\+0x)")
            self.assertLessEqual(max(map(len, text.split("\n"))), width)
        text = self.run_tool("render", path, "--call-tree").text
        self.assertRegex(text, r"(?m)^├─ 6 × .* → .*   sleeping in futex.*  tids \d+")
        text = self.run_tool("render", path, "--call-tree", "--reverse").text
        # Since glibc 2.41 both kinds of calls are made at the same place, so their branches have that in common.
        self.assertRegex(text, r"(?m)^ *├─ 6 × .* ← worker_main ← (start_thread|libc\.so\.6\+0x)")
        # Each function has a line where something is told of each.
        text = self.run_tool("render", path, "--call-tree", "-m").text
        self.assertRegex(text, r"(?m)^│ +(start_thread|libc\.so\.6\+0x\w+) +/\S+/libc\.so\.6$")

    def test_all_processes_together(self):
        victims = [self.victim("threads", "futex:2:worker") for _ in range(2)]
        doc = self.json(*[v.pid for v in victims], "--call-tree", "--group-by", "stack")
        self.assertEqual(flatten(doc["call_tree"]), brute_force(doc["stacks"], False, "count"))
        self.assertEqual([n["call_tree"] for n in doc["processes"]], [[], []])
        self.assertIn(4, [node["count"] for node in doc["call_tree"]])

    def test_the_stack_is_always_told_apart(self):
        victim = self.victim("threads", "futex:3:worker", "poll:2:poller:5", "sleep:1:sleeper")
        for options in (("--group-by", "process,state", "--call-tree"), ("--call-tree", "--group-by", "process,state")):
            doc = self.json("-p", victim.pid, *options)
            self.assertNotIn("innermost frames differ", json.dumps(doc["processes"]))
            self.check_trees(doc, False)

    def test_a_recording(self):
        victim = self.victim("threads", "futex:2:worker", "spin:1:spinner", running=1)
        path = os.path.join(self.scratch(), "r.snaprec")
        self.run_tool("record", "-p", victim.pid, "--duration", "1", "--hz", "50", "-o", path, status=(0, 1))
        for options in ((), ("--reverse",)):
            doc = json.loads(self.run_tool("render", path, "--json", "--call-tree", *options, status=(0, 1)).text)
            check_recording(doc)
            tree = self.check_trees(doc, bool(options), "samples")[victim.pid]
            self.assertEqual(sum(n["count"] for n in tree), doc["sample_count"])
        text = self.run_tool("render", path, "--call-tree", status=(0, 1)).text
        shares = re.findall(r"(?m)^[├└]─ +(\d+\.\d) %  ", text)
        self.assertAlmostEqual(sum(map(float, shares)), 100, delta=0.05 * len(shares) + 0.01)
        lines = self.run_tool("render", path, "-f", "jsonl", "--call-tree", status=(0, 1)).text.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.check_trees(json.loads(line), False)

    def test_usage(self):
        for arguments in (("--reverse",), ("--call-tree", "--summary")):
            got = self.run_tool("-p", os.getpid(), *arguments, status=64)
            self.assertIn(arguments[0], got.err)


if __name__ == "__main__":
    unittest.main()
