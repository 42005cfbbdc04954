# SPDX-License-Identifier: LGPL-2.1-or-later
"""JSON Lines: documents as programs read them, by jq and by the schema."""
import json
import os
import subprocess

from harness import Case, check_counts, check_schema, need, processes


def jq(program, path, *options):
    """What jq answers of a file, line by line."""
    need("jq")
    got = subprocess.run(["jq", "-c", *options, program, path], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if got.returncode or got.stderr:
        raise AssertionError(f"jq {program}: {got.stderr}")
    return got.stdout.splitlines()


class Lines(Case):
    def test_a_snapshot_is_one_line(self):
        victim = self.victim("threads", "futex:3:worker")
        capture = os.path.join(self.scratch(), "capture")
        self.run_tool("-p", victim.pid, "--save-capture", capture)
        line = self.run_tool("render", capture, "-f", "jsonl").text
        whole = self.json("render", capture)
        whole.pop("_result")
        self.assertEqual(line.count("\n"), 1)
        self.assertEqual(json.loads(line), whole)
        self.assertEqual(list(json.loads(line)), list(whole))

    def test_by_suffix_and_by_jq(self):
        victim = self.victim("threads", "futex:3:worker")
        path = os.path.join(self.scratch(), "snap.jsonl")
        self.run_tool("-p", victim.pid, "-o", path)
        self.assertEqual(jq(".schema", path), ['"stacksnap.snapshot"'])
        self.assertEqual(jq(".thread_count", path), ["4"])
        self.assertEqual(jq('[.processes[].stacks[] | select(any(.entries[]; '
                            '.function == "worker_main")) | .count]', path), ["[3]"])
        # What is printed can be read again.
        self.assertEqual(self.json("render", path)["thread_count"], 4)

    def test_when_something_went_wrong(self):
        got = self.run_tool("-p", 4000000, "-f", "jsonl", status=2)
        document = json.loads(got.text)
        check_schema(document)
        check_counts(document)
        self.assertEqual(got.text.count("\n"), 1)
        self.assertEqual(processes(document)[4000000]["error"]["code"], "no_such_process")
