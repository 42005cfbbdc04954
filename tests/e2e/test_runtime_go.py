# SPDX-License-Identifier: LGPL-2.1-or-later
"""Goroutines as the reader of Go finds them in a program's memory, against the program's own dump (SIGQUIT)
and its own profiles: states, stacks, lines, creators, labels. `./dev runtimes` does the same with many versions of Go."""
import os
import re
import subprocess
import sys

from harness import BUILD, Case, SOURCE, build_once, need, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import truth_go  # noqa: E402
import zoo_go  # noqa: E402

READER = os.path.join(BUILD, "tests", "runtime", "live_reader")
LAYOUT = os.path.join(BUILD, "tests", "runtime", "live_go_layout")


def build(name, sources, arguments=(), cgo=False):
    need("go")
    if cgo:
        need("gcc")
    return build_once(name, ["go", "build", *arguments, "-o", "{out}",
                             *(os.path.join(zoo_go.SOURCE, source) for source in sources)],
                      env=dict(os.environ, CGO_ENABLED="1" if cgo else "0", GO111MODULE="off", GOTOOLCHAIN="local",
                               GOFLAGS=""))


def symbol(program, name):
    """Where a function's code lies, up to the next one, in a program at a fixed address."""
    text = subprocess.run(["readelf", "-sW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FUNC" and re.sub(r"\.abi0$", "", words[7]) == name:
            return [int(words[1], 16), (int(words[1], 16) + int(words[2]) + 31) & ~31]
    return None


class GoRuntime(Case):
    def compare(self, program, *options, count=1500):
        """Equal in all, or the program's own runtime did something just then: three times it does not."""
        for _ in range(3):
            reading, comparison = zoo_go.compare(READER, program, count, False, options)
            if not comparison.differences:
                break
        self.assertIsNotNone(reading.result, "no Go was found")
        self.assertIsNone(reading.result["refused"])
        self.assertEqual(comparison.differences[:3], [])
        for what in ("states", "stacks", "ends", "creators", "profiled", "labels"):
            self.assertGreater(comparison.counts[what, True], count - 20, what)
        return reading

    def test_a_program_with_symbols(self):
        program = build("zoo", ["zoo.go", "zoo_plain.go"])
        reading = self.compare(program)
        system = [task for task in reading.tasks.values() if task["system"]]
        self.assertTrue(all(task["start"]["function"].startswith("runtime.") for task in system))
        self.assertGreaterEqual(len(system), 4)
        self.assertIn(True, [task["locked"] and task["tid"] > 0 for task in reading.tasks.values()])
        self.assertGreater(len(reading.result["idle_threads"]), 0)

    def test_one_without_by_what_a_plan_has_copied(self):
        self.compare(build("zoo-stripped", ["zoo.go", "zoo_plain.go"], ["-ldflags=-s -w"]), "--image")

    def test_one_at_an_address_of_the_kernels_choice(self):
        self.compare(build("zoo-pie", ["zoo.go", "zoo_plain.go"], ["-buildmode=pie", "-ldflags=-s -w"]), "--image")

    def test_one_with_c(self):
        program = build("zoo-cgo", ["zoo.go", "zoo_cgo.go"], cgo=True)
        reading = self.compare(program, "--image")
        in_c = [task for task in reading.tasks.values() if task["native_until"]]
        self.assertEqual(len(in_c), 2, [task["id"] for task in in_c])
        for task in in_c:
            self.assertEqual(task["native_until"], "runtime.asmcgocall")
            self.assertEqual(task["native_code"], symbol(program, "runtime.asmcgocall"))
            self.assertEqual(reading.stack(task)[0][0], "runtime.cgocall")
            self.assertGreater(task["tid"], 0)
        borrowed = [task for task in reading.tasks.values() if not task["start"]]
        self.assertEqual(len(borrowed), 1)
        self.assertIn("runtime.cgocallback", [function for function, _, _ in reading.stack(borrowed[0])])

    def test_changed_images_do_no_harm(self):
        """A reading that crashes or does not end has no document."""
        with zoo_go.Zoo(build("zoo-stripped", ["zoo.go", "zoo_plain.go"], ["-ldflags=-s -w"]), 200) as zoo:
            self.assertGreater(len(zoo_go.read(READER, zoo.pid, ["--image", "--mutate=500"]).tasks), 200)

    def test_what_was_not_copied_is_missing(self):
        """A plan that was cut in the middle of its goroutines, their stacks, threads or labels: what is there is
        right, the rest says that it is not there."""
        with zoo_go.Zoo(build("zoo-stripped", ["zoo.go", "zoo_plain.go"], ["-ldflags=-s -w"]), 1000) as zoo:
            zoo_go.settle(zoo)
            before = zoo_go.read(READER, zoo.pid, ["--image"])
            for records in (500, 1500, 2100, 2500, 4000):
                cut = zoo_go.read(READER, zoo.pid, ["--image", f"--records={records}"])
                whole = zoo_go.read(READER, zoo.pid, ["--image"])
                # Go's own goroutines may do something between two readings, as the scavenger does on a busy machine.
                held = {number for number in whole.tasks if whole.where(number) == before.where(number)}
                self.assertGreater(len(held), 1000)
                self.assertIsNone(cut.result["refused"])
                self.assertEqual(cut.result["torn"], not held <= set(cut.tasks), records)
                self.assertGreater(len(cut.tasks), 400)
                for number in held & set(cut.tasks):
                    task = cut.tasks[number]
                    if task["stack"]["end"] == "complete":
                        # In a system call, without its thread, it begins a little further out.
                        outer = cut.stack(task)[1:]
                        self.assertEqual(outer, whole.stack(whole.tasks[number])[-len(outer):])
                    else:
                        self.assertTrue(task["stack"]["reason"])
                    if not task["labels_cut"]:
                        self.assertEqual(task["labels"], whole.tasks[number]["labels"])
                before = whole

    def test_what_a_system_call_waits_for(self):
        """A goroutine in one has what its thread waits for, as a thread of the report has it."""
        with zoo_go.Zoo(build("zoo", ["zoo.go", "zoo_plain.go"]), 5) as zoo:
            zoo_go.settle(zoo)
            doc = self.json("-p", zoo.pid, "--task-tree", "none", status=(0, 1))
            waits = [stack["wait"] for stack in doc["processes"][0]["stacks"] if "wait" in stack]
            # It reads its own pipe, and commands of the test.
            self.assertEqual([wait["kind"] for wait in waits], ["pipe", "pipe"], doc)
            self.assertIn(zoo.pid, [peer["pid"] for wait in waits for peer in wait["peers"]])
            text = self.run_tool("-p", zoo.pid, "--task-tree", "none", status=(0, 1)).text
            self.assertRegex(text, rf"syscall.*\n.* read on a pipe written by {zoo.pid} ")

    def test_offsets_come_out_without_a_table(self):
        with zoo_go.Zoo(build("zoo", ["zoo.go", "zoo_plain.go"]), 200) as zoo:
            done = subprocess.run([LAYOUT, str(zoo.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_runs(self):
        """Computing, asking for the time in the vDSO, allocating, preempted by signals: each stack is whole, or
        says why not."""
        program = build("busy", ["busy/busy.go"])
        victim = self.program(["nice", "-n", "15", program], settled=False)
        seen = set()

        def all_seen():
            reading = zoo_go.read(READER, victim.pid, ["--image"])
            self.assertIsNone(reading.result["refused"])
            for task in reading.tasks.values():
                stack = [function for function, _, _ in reading.stack(task)]
                if task["stack"]["end"] == "complete":
                    self.assertEqual(stack[-1], "runtime.goexit")
                else:
                    self.assertTrue(task["stack"]["reason"])
                if task["state"] == "running":
                    self.assertGreater(task["tid"], 0)
                    seen.update(set(stack) & {"main.computes", "main.asksTheTime", "main.allocates"})
            return len(seen) == 3

        wait_until(all_seen, "all that runs to be seen", 60)
        self.assert_free(victim.pid)

    def test_what_runs_without_a_stop(self):
        """With its labels, as each thread says; who waits is no thread's."""
        for options in ((), ("-ldflags=-s -w",)):
            program = build("worker" + "-stripped" * len(options), ["worker/worker.go"], options)
            victim = self.program(["nice", "-n", "15", program], running=1)

            def running(victim=victim):
                node = self.node(victim.pid, "--no-stop")
                return [stack for stack in node["stacks"] if stack.get("tasks")]

            stack, = wait_until(running, "a goroutine to run on a thread")
            self.assertEqual(stack["tasks"][0]["state"], "running")
            self.assertEqual((stack["labels"]["job"], stack["labels"]["queue"]), ("count", "main"))
            self.assertEqual([e["function"] for e in stack["entries"]],
                             ["main.computes", "main.main.func1", "runtime/pprof.Do", "runtime.goexit"])

    def test_a_wide_frame(self):
        victim = self.program([build("wide", ["wide/wide.go"])], settled=False)
        stacks = []

        def waits():
            reading = zoo_go.read(READER, victim.pid, ["--image"])
            stacks[:] = [(task["wait"], task["stack"]["end"], [name for name, _, _ in reading.stack(task)])
                         for task in reading.tasks.values() if not task["system"] and task["id"] != "1"]
            return [wait for wait, _, _ in stacks] == ["IO wait"]

        wait_until(waits, "the reader to wait")
        self.assertEqual(stacks[0][1], "complete")
        self.assertEqual(stacks[0][2][-2:], ["main.readEvents", "runtime.goexit"])

    def test_data_is_no_module(self):
        """Files that are mapped to be read are not looked at: nobody is warned that they have no symbols."""
        data = os.path.join(self.scratch(), "data.db")
        with open(data, "wb") as file:
            file.write(b"no program" * 1000)
        code = ("import mmap, os, sys; file = open(sys.argv[1]); "
                "data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE); "
                "print('ready', os.getpid(), flush=True); sys.stdin.read()")
        victim = self.program([sys.executable, "-c", code, data])
        doc = self.json("-p", victim.pid)
        self.assertEqual([warning for warning in doc["warnings"] if data in warning["message"]], [])

    def test_a_program_that_is_none_of_gos(self):
        victim = self.victim("chain")
        self.assertIsNone(zoo_go.read(READER, victim.pid).result)

    def test_functions_before_arguments(self):
        self.assertEqual(truth_go.function_of("main.(*T).f(0x1, {0x2, 0x3})"), "main.(*T).f")
        self.assertEqual(truth_go.function_of("main.f[...](...)"), "main.f[...]")
