# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recordings and --no-stop of a process that does not respond: it alone has no stacks, which is said; the
others are sampled all along, nobody stands still, and a signal ends it. The hostile ones are hostile_fuse."""
import json
import os
import signal
import subprocess
import time

import bombs
from harness import functions, need_root, proc_state, processes, read_file, threads, tids_of, wait_until
from test_record import Recorder

END_SECONDS = 2  # from a signal to the end; it takes a tenth of that


def works_in(pid, folder):
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False  # it has ended


def left_behind(comm="snap-reader", folder=None):
    """Processes of the tool that nobody waits for any more, but for those that a file system holds; with this working
    directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        stat = read_file(f"/proc/{pid}/stat", "rb")
        if not stat or f"({comm})".encode() not in stat:
            continue
        parent = stat[stat.rindex(b")") + 2:].split()[1]
        if parent == b"1" and (folder is None or works_in(pid, folder)):
            found.append((int(pid), proc_state(pid)))
    return found


class Held(Recorder):
    level = "all"

    def hold(self, mode):
        """A process that does not respond, with its innocent child, and one that has nothing to do with it."""
        need_root()
        folder = self.scratch()
        if mode == "words":  # of a module more pages would be read, to tell which it is
            with open(os.path.join(folder, "image"), "wb") as f:
                f.truncate(4 * 4096)
        else:
            bombs.looks_sane(os.path.join(folder, "image"))
        self.hostile = self.victim("hostile_fuse", folder, mode, settled=False)
        self.innocent = self.victim("threads", "futex:3:worker")
        self.hostile.watched.append(self.hostile["innocent"])
        return ["-p", self.hostile.pid, "-p", self.innocent.pid]

    def check_report(self, doc):
        nodes = processes(doc)
        self.assertEqual(nodes[self.hostile.pid]["error"]["code"], "not_responding", doc)
        self.assertIn("does not respond", nodes[self.hostile.pid]["error"]["message"])
        for pid, count, name in (self.innocent.pid, 4, "wait_futex"), (self.hostile["innocent"], 3, "innocent_wait"):
            self.assertNotIn("error", nodes[pid])
            found = threads(nodes[pid])
            self.assertEqual(len(found), count, doc)
            self.assertTrue(all(stack["unwind"] == "complete" for _, stack in found.values()), doc)
            self.assertTrue(any(name in functions(stack) for _, stack in found.values()), doc)

    def check_nobody_stands(self):
        for pid in (self.hostile.pid, self.hostile["innocent"], self.innocent.pid):
            for tid in tids_of(pid):
                self.assertNotIn(proc_state(pid, tid), ("t", "T", "D"), f"{pid}/{tid}")
        # One whose last call has not returned is there until its server ends, and is nobody's.
        wait_until(lambda: all(state in ("D", "Z") for _, state in left_behind()), "readers that leave")

    def test_recording(self):
        for mode in ("detached", "chroot", "overlay", "asleep"):
            with self.subTest(mode=mode):
                targets = self.hold(mode)
                got = self.run_tool("record", *targets, "-d", "2", "-f", "json", status=1)
                self.check_report(got.doc)
                self.assertGreater(got.doc["recording"]["ticks"], 20)
                self.assertIn(f"process {self.hostile.pid} does not respond", got.err)
                self.check_nobody_stands()
                self.hostile.close()

    def test_page_beside_a_lock(self):
        """It costs what the threads wait for, once; nobody's stack, and no tick after that."""
        targets = self.hold("words")
        # Who looks for runtimes would read that page, too.
        got = self.run_tool("record", *targets, "--runtimes", "none", "-d", "2", "-f", "json", status=0)
        nodes = processes(got.doc)
        for pid, count, name in ((self.hostile.pid, 4, "futex_main"), (self.innocent.pid, 4, "wait_futex"),
                                 (self.hostile["innocent"], 3, "innocent_wait")):
            self.assertNotIn("error", nodes[pid])
            found = threads(nodes[pid])
            self.assertEqual(len(found), count, got.doc)
            self.assertTrue(any(name in functions(stack) for _, stack in found.values()), got.doc)
        self.assertGreater(got.doc["recording"]["ticks"], 20)
        self.check_nobody_stands()
        self.hostile.close()

    def test_no_stop(self):
        for mode in ("detached", "chroot", "overlay", "asleep"):
            with self.subTest(mode=mode):
                targets = self.hold(mode)
                doc = self.json("--no-stop", *targets, status=1)
                self.check_report(doc)
                self.check_nobody_stands()
                self.hostile.close()

    def test_mount_in_plain_sight(self):
        """Without a stop, and in a recording; the page is one that a mount of FUSE says it serves."""
        need_root()
        for arguments in (("--no-stop", "--json"), ("record", "-d", "2", "-f", "json")):
            with self.subTest(arguments=arguments):
                self.hostile = self.victim("attack_stack", "plain", settled=False)
                self.innocent = self.victim("threads", "futex:3:worker")
                got = self.run_tool(*arguments, "-p", self.hostile.pid, "-p", self.innocent.pid, status=1)
                nodes = processes(got.doc)
                for pid, count in (self.innocent.pid, 4), (self.hostile["bystander"], 1):
                    self.assertNotIn("error", nodes[pid])
                    found = threads(nodes[pid])
                    self.assertEqual(len(found), count, got.doc)
                    self.assertTrue(all(stack["unwind"] == "complete" for _, stack in found.values()), got.doc)
                for pid in (self.innocent.pid, self.hostile["bystander"]):
                    for tid in tids_of(pid):
                        self.assertNotIn(proc_state(pid, tid), ("t", "T", "D"), f"{pid}/{tid}")
                self.hostile.close()

    def test_few_are_left_behind(self):
        """Who looks again and again at a page that is never served leaves one reader behind, not one each time;
        and who looks at all processes does not show it."""
        need_root()
        self.hostile = self.victim("attack_stack", "plain", settled=False)
        folder = self.scratch()
        looks = 8
        for _ in range(looks):
            self.run_tool("--no-stop", "-p", self.hostile.pid, status=1, cwd=folder)
        wait_until(lambda: all(state in ("D", "Z") for _, state in left_behind(folder=folder)), "readers that leave")
        left = [pid for pid, state in left_behind(folder=folder) if state == "D"]
        self.assertTrue(left)
        self.assertLess(len(left), looks / 2)
        shown = set(processes(self.run_tool("list", "--all", "--json", status=(0, 1)).doc))
        self.assertFalse(shown & set(left))
        self.assertIn(self.hostile.pid, shown)
        self.hostile.close()

    def ended(self, number):
        targets = self.hold("asleep")
        recorder = self.start(*targets, "-d", "0", "-o", os.path.join(self.scratch(), "x.json"))
        begin = time.monotonic()
        recorder.send(number)
        recorder.process.wait(timeout=30)
        self.assertLess(time.monotonic() - begin, END_SECONDS)
        self.check_nobody_stands()
        recorder.close()

    def test_signals_end_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number=number):
                self.ended(number)
                self.hostile.close()

    def test_page_that_comes_when_it_stands_still(self):
        targets = self.hold("swapped")
        recorder = self.start(*targets, "-d", "0", "-o", os.path.join(self.scratch(), "x.json"))
        begin = time.monotonic()
        recorder.send(signal.SIGTERM)
        recorder.process.wait(timeout=30)
        self.assertLess(time.monotonic() - begin, END_SECONDS)
        recorder.close()


class Strangers(Recorder):
    """Processes that nobody asked for, which a look at all of the machine meets. Since Linux 6.18 stat waits for an
    exec, and one of these never ends."""
    level = "all"

    def hold(self):
        need_root()
        self.hostile = self.victim("attack_lock", "kin", settled=False)
        self.hostile.watched = []
        return self.victim("threads", "futex:3:worker")

    def test_child_that_looks_like_a_worker_of_ours(self):
        innocent = self.hold()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number=number):
                recorder = self.start("-p", innocent.pid, "-d", "0", "-o", os.path.join(self.scratch(), "x.json"))
                begin = time.monotonic()
                recorder.send(number)
                recorder.process.wait(timeout=30)
                self.assertLess(time.monotonic() - begin, END_SECONDS)
                recorder.close()

    def test_snapshot_beside_it(self):
        innocent = self.hold()
        for options in [], ["--no-stop"]:
            with self.subTest(options=options):
                doc = self.json(*options, "-p", innocent.pid, status=0)
                found = threads(processes(doc)[innocent.pid])
                self.assertEqual(len(found), 4, doc)


class Late(Recorder):
    """A process whose exec begins, and does not end, just when it has told its command line: what else is read of it
    is asked by somebody who may be left behind."""
    level = "all"

    def begin(self):
        need_root()
        self.hostile = self.victim("attack_lock", "late", settled=False)
        self.hostile.watched = [self.hostile["bystander"]]
        return self.victim("threads", "futex:3:worker")

    def let_it_begin(self, hostile):
        hostile.tell("go\n")
        self.assertEqual(hostile.read_line(), "held\n")

    def check_innocents(self, doc, innocent):
        nodes = processes(doc)
        for pid, count in (innocent.pid, 4), (self.hostile["bystander"], 1):
            self.assertNotIn("error", nodes[pid])
            self.assertEqual(len(threads(nodes[pid])), count, doc)
        late = [node for node in nodes.values() if node.get("error", {}).get("code") == "not_responding"]
        # It may have been told to end before it was known.
        self.assertLessEqual(len(late), 1, doc)

    def test_recording_ends(self):
        innocent = self.begin()
        path = os.path.join(self.scratch(), "x.json")
        recorder = self.start("-p", self.hostile.pid, "-p", innocent.pid, "-d", "0", "-o", path)
        self.let_it_begin(self.hostile)
        recorder.send(signal.SIGTERM)
        recorder.process.wait(timeout=60)
        self.assertIn(recorder.process.returncode, (0, 1))
        with open(path, encoding="utf-8") as file:
            self.check_innocents(json.load(file), innocent)
        recorder.close()


class Leaders(Recorder):
    level = "all"

    def test_a_leader_that_has_exited_before_its_threads(self):
        victim = self.victim("zleader", settled=False)
        wait_until(lambda: proc_state(victim.pid) == "Z", "a zombie leader")
        victim.watched = []
        got = self.run_tool("record", "-p", victim.pid, "-d", "0.5", "-f", "folded", status=(0, 1))
        self.assertIn("survive", got.text)


