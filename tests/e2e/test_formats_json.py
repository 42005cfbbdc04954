# SPDX-License-Identifier: LGPL-2.1-or-later
"""JSON Lines: documents as programs read them, by jq and by the schema."""
import gzip
import json
import os
import subprocess

from harness import Case, SOURCE, check_counts, check_schema, need, processes, schema


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

    def test_compressed(self):
        victim = self.victim("threads", "futex:3:worker")
        plain, packed = (os.path.join(self.scratch(), "snap.json" + end) for end in ("", ".gz"))
        self.run_tool(victim.pid, "-o", packed)
        with gzip.open(packed, "rb") as f:
            text = f.read()
        check_schema(json.loads(text))
        with open(plain, "wb") as f:
            f.write(text)
        for view in ((), ("--json",)):
            self.assertEqual(self.run_tool("render", packed, *view).text, self.run_tool("render", plain, *view).text)
        self.assertIn("nothing changed", self.run_tool("diff", plain, packed).text)
        for more in (), ("-j",):
            self.run_tool("render", plain, *more, "-o", plain + ".2.json.gz")
            with gzip.open(plain + ".2.json.gz", "rb") as f:
                self.assertEqual(f.read().decode(), self.run_tool("render", plain, "--json").text)
        self.run_tool(4000000, "-o", packed, status=2)
        with gzip.open(packed, "rb") as f:
            self.assertEqual(processes(json.load(f))[4000000]["error"]["code"], "no_such_process")

    def test_compressed_and_damaged(self):
        path = os.path.join(self.scratch(), "snap.json.gz")
        for name, data, why in (("cut", gzip.compress(b'{"schema": "stacksnap.snapshot"}' * 9)[:20], "not a JSON document"),
                                ("other", gzip.compress(b"text"), "not a JSON document"),
                                ("no gzip", b"\x1f\x8b\x08" + b"x" * 40, "damaged"),
                                ("plain", b"{}", "not a stacksnap snapshot")):
            with open(path, "wb") as f:
                f.write(data)
            self.assertIn(why, self.run_tool("render", path, status=2).err, name)

    def test_when_something_went_wrong(self):
        got = self.run_tool("-p", 4000000, "-f", "jsonl", status=2)
        document = json.loads(got.text)
        check_schema(document)
        check_counts(document)
        self.assertEqual(got.text.count("\n"), 1)
        self.assertEqual(processes(document)[4000000]["error"]["code"], "no_such_process")


def recording_schema():
    with open(os.path.join(SOURCE, "lib", "render", "json", "stacksnap-recording.schema.json")) as f:
        return json.load(f)


def stacks_of(document):
    return [stack for node in processes(document).values() for stack in node["stacks"]]


class Schemas(Case):
    def test_they_are_schemas(self):
        import jsonschema
        for found in (schema(), recording_schema()):
            kind = jsonschema.validators.validator_for(found)
            kind.check_schema(found)
            with self.assertRaises(jsonschema.SchemaError):
                kind.check_schema({**found, "type": "thing"})


class Recordings(Case):
    level = "test"

    def record(self, victim, suffix, *options):
        path = os.path.join(self.scratch(), "run" + suffix)
        self.run_tool("record", "-p", victim.pid, "-d", 1, "-o", path, *options)
        return path

    def test_a_document_for_each_tick(self):
        victim = self.victim("threads", "futex:3:worker", "spin:1:busy", running=1)
        path = self.record(victim, ".jsonl", "--hz", 50)
        documents = [json.loads(line) for line in jq(".", path)]
        # Ticks may be missed on a busy machine, but not nearly all of them.
        self.assertGreater(len(documents), 10)
        for document in documents:
            check_schema(document)
            check_counts(document)
            self.assertEqual(document["thread_count"], 5)
            self.assertIs(document["consistent"], False)
        times = [document["time"] for document in documents]
        self.assertEqual(times, sorted(set(times)))
        # The same group is called the same at all ticks, and in a snapshot.
        name = self.stack_of(self.node(victim.pid), name="worker-1")["id"]
        for document in documents:
            self.assertEqual(self.stack_of(processes(document)[victim.pid], name="worker-1")["id"],
                             name)

    def test_interval(self):
        victim = self.victim("threads", "futex:3:worker")
        every = self.record(victim, ".jsonl", "--hz", 50, "--interval", "400ms")
        self.assertIn(len(jq(".time", every)), (2, 3))

    def test_one_document(self):
        import jsonschema
        victim = self.victim("threads", "futex:3:worker", "spin:1:busy", running=1)
        path = self.record(victim, ".json", "--hz", 50)
        with open(path) as f:
            document = json.load(f)
        schema = recording_schema()
        check = jsonschema.validators.validator_for(schema)(schema)
        self.assertEqual([e.message for e in check.iter_errors(document)], [])
        stacks = stacks_of(document)
        self.assertEqual(sum(s["samples"] for s in stacks), document["sample_count"])
        self.assertEqual(len(stacks), document["stack_count"])
        for stack in stacks:
            self.assertEqual(sum(t["samples"] for t in stack["threads"]), stack["samples"])
            self.assertEqual(sum(stack["states"].values()), stack["samples"])
        self.assertEqual(document["recording"]["end"], "time")
        self.assertEqual(document["thread_count"], 5)
        waiting = [s for s in stacks if any(t["name"] == "worker-1" for t in s["threads"])]
        self.assertEqual([s["labels"]["state"] for s in waiting], ["sleeping"])
        self.assertEqual(waiting[0]["samples"], 3 * document["tick_count"])
        # What jq sees of it.
        total = jq("[.. | objects | select(has(\"states\")) | .samples] | add", path)
        self.assertEqual(total, [str(document["sample_count"])])

    def test_text(self):
        victim = self.victim("threads", "futex:3:worker", "spin:1:busy", running=1)
        got = self.run_tool("record", "-p", victim.pid, "-d", 1, "--hz", 50, "-f", "text", "-o", "-")
        self.assertRegex(got.text, r"(?m)^.*60\.0 %  +\d+ samples . worker-\*   sleeping in futex")
        self.assertIn("  share  state     function\n", got.text)

    def test_a_slice(self):
        import jsonschema
        victim = self.victim("threads", "futex:3:worker")
        path = self.record(victim, ".snaprec", "--hz", 50)
        whole = [json.loads(line) for line in
                 self.run_tool("render", path, "-f", "jsonl").text.splitlines()]
        late = [json.loads(line) for line in
                self.run_tool("render", path, "-f", "jsonl", "--from", "500ms").text.splitlines()]
        self.assertLess(len(late), len(whole))
        self.assertEqual([d["time"] for d in late], [d["time"] for d in whole][-len(late):])
        document = json.loads(self.run_tool("render", path, "-f", "json", "--from", "500ms").text)
        schema = recording_schema()
        check = jsonschema.validators.validator_for(schema)(schema)
        self.assertEqual([e.message for e in check.iter_errors(document)], [])
        self.assertIs(document["slice"], True)
        self.assertGreaterEqual(document["from_ns"], 500_000_000)
        self.assertEqual(document["tick_count"], len(late))
        self.assertEqual(document["sample_count"], sum(d["thread_count"] for d in late))
        self.assertEqual(document["recording"]["ticks"], len(whole))
