# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trace of -vv and STACKSNAP_TRACE: each cause of a cut stack that can be made on purpose is said by
its name, and nothing is printed where nothing was asked for."""
import os
import re

from harness import TOOL, Case, bpf_works, need, tids_of

HEAD = re.compile(r"stacksnap: trace of (thread|the tasks of process) (\d+)(?:, and of (\d+) more)?")
EVENT = re.compile(r"stacksnap: +[\d.]+ ms  (.*)")
ASYNCIO = """
import asyncio, os
async def worker(event, depth):
    await (worker(event, depth - 1) if depth else event.wait())
async def main():
    event = asyncio.Event()
    tasks = [asyncio.create_task(worker(event, 8)) for i in range(20)]
    print("ready", os.getpid(), flush=True)
    await asyncio.gather(*tasks)
asyncio.run(main())
"""


def logical_of(node):
    for child in node.get("logical", node.get("children", [])):
        yield child
        yield from logical_of(child)


def traces(err):
    """By tid, of tasks by the pid, negative: the events, and how many threads have such ones."""
    found, events = {}, None
    for line in err.splitlines():
        head, event = HEAD.match(line), EVENT.match(line)
        if head:
            events = []
            number = int(head.group(2)) * (1 if head.group(1) == "thread" else -1)
            found[number] = (events, 1 + int(head.group(3) or 0))
        elif event:
            events.append(event.group(1))
    return found


class Trace(Case):
    asan = "both"

    def trace(self, pid, *arguments, tids=None, status=(0, 1), **options):
        """What is said of each of these threads."""
        more = {"env": {"STACKSNAP_TRACE": tids}} if tids else {}
        got = self.run_tool("-p", pid, *([] if tids else ["-vv"]), *arguments, status=status, **more, **options)
        return traces(got.err), got

    def assert_said(self, events, *words):
        """In this order, others may stand between them."""
        rest = iter(events)
        for word in words:
            self.assertTrue(any(word in event for event in rest), f"{word!r} in {events}")

    def test_nothing_is_printed_where_it_was_not_asked_for(self):
        victim = self.victim("threads", "futex:3:waiter")
        for arguments in ([], ["--no-stop"], ["--max-stack", "1024"]):
            got = self.run_tool("-p", victim.pid, *arguments, env={"STACKSNAP_TRACE": ""})
            self.assertEqual(got.err, "")
        self.assertNotIn("trace", self.run_tool("-p", victim.pid, "-v").err)

    def test_a_whole_stack_needs_no_words(self):
        victim = self.victim("threads", "futex:3:waiter")
        found, got = self.trace(victim.pid)
        self.assertEqual(found, {})
        self.assertIn("trace: nothing is wrong with 4 threads", got.err)
        ways = [(["--stop-all"], ["stopped together with all others", "copied in that stop: "])]
        if bpf_works():
            ways.append(([], ["copied without a stop, at rest until all others stood still: "]))
        for arguments, copied in ways:
            found, _ = self.trace(victim.pid, *arguments, tids="all")
            self.assertEqual(sorted(found), tids_of(victim.pid))
            for events, _ in found.values():
                self.assert_said(events, "listed", *copied, ": complete")

    def test_of_one_thread(self):
        victim = self.victim("threads", "futex:3:waiter")
        tids = tids_of(victim.pid)
        # What a copy of a few registers is enough for is found out by unwinding it.
        for tool, unwound in ((self.without_bpf(), 2), (TOOL, 1)):
            found, _ = self.trace(victim.pid, "--no-stop", tids=f"{tids[1]},{tids[2]}", tool=tool)
            self.assertEqual(sorted(found), tids[1:3])
            for events, _ in found.values():
                self.assert_said(events, "listed", "copied without a stop: ", *["unwound: "] * unwound)
        for wrong in ("x", f"{tids[0]},", "0", "-1", "1,,2", ",".join("1" * 65), "99999999999"):
            got = self.run_tool("-p", victim.pid, env={"STACKSNAP_TRACE": wrong}, status=64)
            self.assertIn("STACKSNAP_TRACE", got.err)

    def test_one_that_runs_is_stopped(self):
        victim = self.victim("threads", "spin:1:spinner", "futex:6:waiter", running=1)
        found, got = self.trace(victim.pid, "--no-stop", tool=self.without_bpf())
        alone = [events for events, _ in found.values() if "needs a stop of its own, because it ran" in events]
        self.assertEqual(len(alone), 1, got)
        self.assert_said(alone[0], "listed", "needs a stop of its own, because it ran", "copied in a stop of its own: ",
                         "unwound: ")

    def test_max_stack(self):
        victim = self.victim("deep", 1000)
        for arguments, copied in ((["--stop-all"], "copied in that stop: 1024 of "),
                                  (["--no-stop"], "copied without a stop: 1024 of ")):
            found, got = self.trace(victim.pid, "--max-stack", 1024, *arguments)
            events = found[max(tids_of(victim.pid))][0]
            self.assert_said(events, copied, "the copy is cut (--max-stack)", ": limit")
            self.assertRegex(got.err, r"copied [^:]*: 1024 of [1-9]\d{3,} bytes, from 0x[0-9a-f]+ on\n")

    def test_memory_of_all(self):
        """Of 128 MiB for all: three stacks of 64 MiB."""
        victims = [self.victim("deep", 4 << 20) for _ in range(3)]
        more = [word for victim in victims[1:] for word in ("-p", victim.pid)]
        for arguments in ([], ["--no-stop"]):
            found, got = self.trace(victims[0].pid, *more, "--max-stack", 100 << 20, *arguments, tids="all",
                                    timeout=120)
            cut = [events for events, _ in found.values() if
                   "the copy is cut, as all stacks together take too much memory" in events]
            self.assertTrue(cut, got)
            self.assert_said(cut[0], "copied ", "the copy is cut, as all stacks", ": limit")
            self.assertIn("stacks were cut to keep the snapshot within 128 MiB", got.err)

    def test_limits_of_frames(self):
        victim = self.victim("deep", 1000)
        found, _ = self.trace(victim.pid, "-n", 10)
        events = found[max(tids_of(victim.pid))][0]
        self.assert_said(events, "frames in the middle are left out (-n): 10 frames")
        self.assertNotIn("no room", " ".join(events))
        victim = self.victim("hostile", "deep", 1000, 500)
        found, got = self.trace(victim.pid, "--json", "-n", 512, timeout=120)
        self.assertEqual(found, {}, got.err)
        found, got = self.trace(victim.pid, "--json", "--stop-all", timeout=120)
        # Behind half a million frames a few of each thread are unwound, for which there may be room.
        rows = [events for events, _ in found.values() if "has no room" in " ".join(events)]
        self.assertTrue(rows, got.err)
        for events in rows:
            self.assert_said(events, "copied in that stop", "the report has no room for the frames in the middle: ")
            self.assertNotIn("(-n)", " ".join(events))
        self.assertGreaterEqual(sum(alike for _, alike in found.values()), 990)
        self.assertIn("report would be larger", got.err)

    def test_memory_that_cannot_be_read(self):
        victim = self.victim("half_stack")
        for arguments, copied in ((["--stop-all"], "copied in that stop: "), (["--no-stop"], "copied without a stop: ")):
            found, _ = self.trace(victim.pid, *arguments)
            self.assert_said(found[max(tids_of(victim.pid))][0], copied,
                             "the copy is cut at memory that could not be read", ": unreadable")

    def test_a_register_that_a_stop_tells(self):
        victim = self.victim("threads", "futex:3:waiter:5")
        found, _ = self.trace(victim.pid, "--no-stop", "--engine", "libunwind", "--force-stop",
                              tool=self.without_bpf())
        (events, alike), = found.values()
        self.assert_said(events, "copied without a stop: ", "a register is needed that only a stop tells",
                         "needs a stop of its own, as a copy without a stop is not enough",
                         "copied in a stop of its own: ", "unwound: ")
        self.assertEqual(alike, 4)

    def test_recordings(self):
        victim = self.victim("threads", "spin:1:spinner", "futex:6:waiter", running=1)
        path = os.path.join(self.scratch(), "x.snaprec")
        tids = tids_of(victim.pid)
        got = self.run_tool("record", "-p", victim.pid, "-d", "0.5", "-o", path, "-vv", tool=self.without_bpf())
        ran = [events for events, _ in traces(got.err).values() if "needs a stop of its own, because it ran" in events]
        self.assertEqual(len(ran), 1, got)
        self.assertIn("earlier events are not shown", got.err)
        self.assertLessEqual(len(ran[0]), 16)
        got = self.run_tool("record", "-p", victim.pid, "-d", "0.5", "-o", path, env={"STACKSNAP_TRACE": str(tids[-1])})
        (events, _), = traces(got.err).values()
        self.assert_said(events, "listed", "copied without a stop: ", "unwound: ")
        got = self.run_tool("render", path, "-vv", "--json")
        self.assertEqual(traces(got.err), {})

    def assert_tasks(self, pid, ids, found):
        tasks = dict(re.match(r"task (\w+): \d+ frames: (\w+)$", event).groups() for event in found[-pid][0])
        self.assertLessEqual(set(ids), set(tasks))
        self.assertEqual({tasks[task] for task in ids}, {"complete"})

    def test_tasks(self):
        """Those of a process are a trace of their own, which its pid asks for."""
        need("python3")
        victim = self.program(["/usr/bin/python3", "-c", ASYNCIO], settled=False)
        whole = ("--runtime-budget", 10000)  # a slow machine reads a heap longer than the usual pause
        doc = self.json("-p", victim.pid, "--system-tasks", *whole)
        ids = [task["id"] for node in (doc["processes"][0], *logical_of(doc["processes"][0]))
               for stack in node["stacks"] for task in stack.get("tasks", ())]
        self.assertEqual(len(ids), 21, doc)
        found, _ = self.trace(victim.pid, *whole, tids=str(victim.pid))
        self.assert_tasks(victim.pid, ids, found)
        found, got = self.trace(victim.pid, *whole)
        self.assertEqual(found, {})
        self.assertIn("trace: nothing is wrong with 1 thread,", got.err)
        found, got = self.trace(victim.pid, *whole, "-n", "4")
        self.assert_said(found[-victim.pid][0], "frames in the middle are left out (-n): 4 frames")
        path = os.path.join(self.scratch(), "x.snaprec")
        got = self.run_tool("record", "-p", victim.pid, "-d", "1", "-o", path, "--max-stopped", "100", *whole,
                            env={"STACKSNAP_TRACE": str(victim.pid)}, status=(0, 1))
        self.assert_tasks(victim.pid, ids[:-1], traces(got.err))

    def test_memory_of_a_recording(self):
        victim = self.victim("recursion", 30, 3000, settled=False)
        path = os.path.join(self.scratch(), "x.snaprec")
        for seconds in (3, 6, 12):
            got = self.run_tool("record", "-p", victim.pid, "-d", seconds, "-o", path, "--max-memory", "16M",
                                "--max-stopped", "100", "-vv", status=(0, 1), timeout=120)
            if "innermost frames only" in got.err:
                break
        cut = [events for events, _ in traces(got.err).values() if
               "the recording has not all of it (--max-memory)" in events]
        self.assertTrue(cut, got)

    def test_a_thousand_threads(self):
        """One of each kind stands for all, and the rest is a number."""
        victim = self.victim("threads", "futex:1000:waiter:40")
        found, got = self.trace(victim.pid, "--max-stack", 1024, "-q")
        self.assertEqual(sum(alike for _, alike in found.values()) +
                         int((re.search(r"nothing is wrong with (\d+) ", got.err) or [0, 0])[1]), 1001, got)
        self.assertLess(len(got.err.splitlines()), 60)
