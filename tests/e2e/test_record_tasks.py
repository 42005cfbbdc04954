# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tasks that wait, in recordings: the same as a snapshot of a program at rest shows, in all formats; and how
often a program is stopped for them."""
import json
import os

from harness import Case, SOURCE, TOOL, build_once, need, need_bpf, need_root, status_field
import traces

WAITING = os.path.join(SOURCE, "tests", "runtime", "go", "waiting", "waiting.go")
# A busy machine may take its time.
PATIENCE = ["--runtime-budget", "5000"]
ASYNCIO = """
import asyncio, os, sys
async def inner(event):
    await event.wait()
async def worker(event):
    await inner(event)
async def main():
    event = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, event.set)
    tasks = [asyncio.create_task(worker(event), name=f"worker-{i}") for i in range(20)]
    print("ready", os.getpid(), flush=True)
    await asyncio.gather(*tasks)
asyncio.run(main())
"""


def nodes(node):
    yield node
    for child in node.get("children", []):
        yield from nodes(child)


def stacks(document):
    for process in (p for root in document["processes"] for p in nodes(root)):
        yield from process["stacks"]
        for logical in (n for root in process.get("logical", []) for n in nodes(root)):
            yield from logical["stacks"]


def waiting(document):
    """Of each task that waits, by id: what it is, and where."""
    found = {}
    for stack in stacks(document):
        place = [(e.get("function"), e.get("file"), e.get("line"), e.get("language"), e.get("system", False),
                  e.get("inlined", False)) for e in stack["entries"]]
        for task in stack.get("tasks", []):
            if "tid" in task or task["state"] != "waiting":
                continue
            kept = {key: task.get(key) for key in ("name", "state", "wait", "parent", "created_by", "labels")}
            found[task["id"]] = (stack["runtime"], kept, stack["unwind"], place)
    return found


class Recorded(Case):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.scratch(), "out.snaprec")

    def record(self, pid, *options, seconds="1", status=(0, 1), tool=TOOL):
        self.run_tool("record", pid, "-d", seconds, "-o", self.path, *PATIENCE, *options, status=status, tool=tool)
        return self.render("json")

    def render(self, form, *options, path=None):
        text = self.run_tool("render", path or self.path, "-f", form, *options, status=(0, 1)).text
        return json.loads(text) if form in ("json", "chrome", "speedscope", "firefox") else text

    def waiting_program(self):
        need("go")
        program = build_once("waiting", ["go", "build", "-o", "{out}", WAITING],
                             env=dict(os.environ, CGO_ENABLED="0", GO111MODULE="off", GOTOOLCHAIN="local",
                                      GOFLAGS=""))
        return self.program([program], settled=False)

    def same_as_a_snapshot(self, pid, count):
        snapshot = waiting(json.loads(self.run_tool(pid, "--json", *PATIENCE, status=(0, 1)).text))
        self.assertGreaterEqual(len(snapshot), count)
        document = self.record(pid)
        recorded = waiting(document)
        self.assertEqual(sorted(recorded), sorted(snapshot))
        for task, what in snapshot.items():
            self.assertEqual(recorded[task], what)
        self.assertGreaterEqual(document["recording"]["task_looks"], 1)
        self.assertEqual(document["task_count"], len(recorded))
        self.assertEqual(document["processes"][0]["task_count"], len(recorded))
        for stack in stacks(document):
            if stack.get("kind") == "task":
                self.assertEqual(stack["states"], {"waiting": stack["samples"]})
                self.assertEqual(stack["samples"], sum(task["samples"] for task in stack["tasks"]))
        return document

    def formats(self, function, tasks):
        """A function of tasks that wait is there in each, and the files are what they claim to be."""
        text = self.render("text")
        self.assertIn(function, text)
        self.assertIn("waiting", text)
        self.assertIn(f"{tasks} tasks", text)
        self.assertIn(function, self.render("folded"))
        self.assertIn(function, [f["name"] for f in self.render("speedscope")["shared"]["frames"]])
        trace = self.render("chrome")
        self.assertEqual(traces.complaints(trace), [])
        self.assertIn(function, [e["name"] for e in traces.slices(trace)])
        self.assertIn(function, self.render("firefox")["shared"]["stringArray"])
        last = json.loads(self.render("jsonl").splitlines()[-1])
        self.assertEqual(len(waiting(last)), tasks)
        self.assertEqual(last["task_count"], tasks)

    def written_again(self):
        again = os.path.join(self.scratch(), "again.snaprec")
        self.run_tool("render", self.path, "-o", again, status=(0, 1))
        for form in ("folded", "json", "text"):
            self.assertEqual(self.render(form), self.render(form, path=again), form)

    def test_goroutines(self):
        program = self.waiting_program()
        self.same_as_a_snapshot(program.pid, 34)
        self.formats("main.receive", len(waiting(self.render("json"))))
        self.written_again()
        grouped = [s for s in stacks(self.render("json", "--group-by", "process,label:request"))
                   if s.get("labels", {}).get("request")]
        self.assertEqual(sorted((s["labels"]["request"], len(s["tasks"])) for s in grouped),
                         [("0", 10), ("1", 10), ("2", 10)])
        self.assertIn(";request=1;", self.render("folded", "--group-by", "label:request"))

    def test_threads_of_go_are_named_as_goroutines_are(self):
        program = self.waiting_program()
        document = self.record(program.pid, "--task-hz", "0")
        entries = [e for s in stacks(document) for e in s["entries"]]
        self.assertEqual({e.get("language") for e in entries}, {"go"})
        main = next(e for e in entries if e["function"] == "main.main")
        self.assertTrue(main["file"].endswith("/waiting.go"))
        self.assertEqual((main.get("system"), main["module"]), (None, os.path.realpath(f"/proc/{program.pid}/exe")))
        self.assertEqual({e.get("system") for e in entries if e["function"].startswith("runtime.")}, {True})
        self.assertNotIn("abi0", "".join(e["function"] for e in entries))

    def test_filters(self):
        program = self.waiting_program()
        self.record(program.pid)
        matching = waiting(self.render("json", "--match", "main.lock"))
        lock, = [what["wait"] for _, what, _, _ in matching.values()]
        self.assertIn(lock, ("semacquire", "sync.Mutex.Lock"))  # before Go 1.20, and since then
        self.assertEqual(len(waiting(self.render("json", "--state", "waiting"))), 34)
        self.assertEqual(waiting(self.render("json", "--state", "running")), {})
        # Those that wait for work are idle, the one that wants a lock is not, nor are those that wait further inside.
        self.assertEqual(sorted(what["wait"] for _, what, _, _ in waiting(self.render("json", "--no-idle")).values()),
                         30 * ["chan receive"] + [lock])

    def test_asyncio(self):
        need("python3")
        program = self.program(["python3", "-c", ASYNCIO], settled=False)
        self.same_as_a_snapshot(program.pid, 21)
        self.formats("inner", 21)
        self.written_again()

    def test_a_program_at_rest_is_not_touched(self):
        """Its wait for events would end early, and its thread run."""
        need("python3")
        need_root()
        need_bpf()
        program = self.program(["python3", "-c", ASYNCIO], settled=False)
        self.assertEqual(len(waiting(self.record(program.pid))), 21)
        before = status_field(program.pid, "voluntary_ctxt_switches")
        document = self.record(program.pid, "--task-hz", "10")
        self.assertEqual(len(waiting(document)), 21)
        self.assertGreaterEqual(document["recording"]["task_looks"], 2)
        self.assertEqual(status_field(program.pid, "voluntary_ctxt_switches"), before)

    def test_none_are_wanted(self):
        program = self.waiting_program()
        for options in (["--task-hz", "0"], ["--mode", "cpu"], ["--runtimes", "none"]):
            document = self.record(program.pid, *options, seconds="0.5")
            self.assertEqual(waiting(document), {}, options)
            self.assertNotIn("task_looks", document["recording"])

    def test_without_runtimes_nobody_is_stopped(self):
        victim = self.victim("threads", "futex:4:worker")
        document = self.record(victim.pid, "--task-hz", "100", seconds="0.5")
        self.assertNotIn("task_looks", document["recording"])
        self.assertNotIn("task_looks_left_out", document["recording"])

    def test_a_process_does_not_stand_for_long(self):
        """A hundred looks a second would be a tenth of the time or more: most are left out, and that is said."""
        program = self.waiting_program()
        document = self.record(program.pid, "--task-hz", "100", seconds="2", tool=self.without_bpf())
        figures = document["recording"]
        self.assertGreater(figures["task_looks_left_out"], figures["task_looks"])
        self.assertIn("task_looks_left_out", [warning["code"] for warning in document["warnings"]])
        self.assertGreaterEqual(len(waiting(document)), 34)

    def test_a_ring(self):
        """What has been forgotten of tasks is not missed by what is left."""
        program = self.waiting_program()
        self.run_tool("record", program.pid, "--ring", "1", "-d", "3", "--task-hz", "20", *PATIENCE, "-o", self.path,
                      status=(0, 1))
        self.assertEqual(len(waiting(self.render("json"))), 34)

    def test_rates_that_are_none(self):
        for value in ("-1", "x", "101", "0.00001"):
            got = self.run_tool("record", os.getpid(), "--task-hz", value, status=64)
            self.assertIn("rate of looks at tasks", got.err)

