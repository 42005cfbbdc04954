# SPDX-License-Identifier: LGPL-2.1-or-later
"""Captures on disk: rendered at once or from the file, the same bytes; damaged files are refused."""
import os
import random
import shutil

from harness import ASAN, Case, TARGETS, functions, processes

FORMATS = (["--json"], [], ["--summary"], ["-q", "--json"], ["--no-lines", "--no-inlines"], ["--per-thread", "-m"],
           ["-b"], ["-r", "--flat", "--json"], ["-n", "3"], ["--width", "60"], ["--color=always"])


class CaptureFile(Case):
    level = "test"
    asan = "all"

    def save(self, *arguments, status=(0, 1)):
        path = os.path.join(self.scratch(), "snap.capture")
        return path, self.run_tool(*arguments, "--save-capture", path, status=status, color=True)

    def test_the_same_bytes(self):
        plain = ("threads", "futex:20:worker:5", "epoll:2:poller", "spin:1:busy")
        for number, program in enumerate((plain, ("family",), ("inlined",))):
            victim = self.victim(*program, running=program.count("spin:1:busy"))
            # With sanitizers each view is one of one victim, as a look takes ten times as long.
            for view in FORMATS[number::3] if ASAN else FORMATS:
                with self.subTest(view=view, victim=victim.pid):
                    path, direct = self.save("-p", victim.pid, *view)
                    again = self.run_tool("render", path, *view, status=(0, 1), color=True)
                    self.assertEqual(direct.raw.decode(), again.raw.decode())
                    self.assertEqual(direct.status, again.status)
            self.end_victims()

    def test_rendered_without_the_process(self):
        victim = self.victim("jit")
        with open(f"/tmp/perf-{victim.pid}.map", "w") as f:
            f.write(f"{victim['start']:x} c from_the_map\n")
        self.addCleanup(os.unlink, f"/tmp/perf-{victim.pid}.map")
        path, direct = self.save("-p", victim.pid)
        victim.close()
        os.truncate(f"/tmp/perf-{victim.pid}.map", 0)
        again = self.run_tool("render", path, status=(0, 1), color=True)
        self.assertEqual(direct.raw, again.raw)
        self.assertIn("from_the_map", again.text)

    def test_modules_without_a_path_ride_inside(self):
        program = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), program)
        victim = self.program([program])
        os.unlink(program)
        path, direct = self.save("-p", victim.pid)
        victim.close()
        again = self.run_tool("render", path)
        self.assertEqual(direct.raw, again.raw)
        self.assertIn("f2.c:", again.text)

    def test_looked_up_again_by_build_id(self):
        """A program that has gone from its path since: no names, but offsets; others unharmed."""
        program = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), program)
        victim = self.program([program])
        path, direct = self.save("-p", victim.pid, "--json")
        victim.close()
        shutil.copy(os.path.join(TARGETS, "noreturn"), program)
        again = self.run_tool("render", path, "--json", status=(0, 1))
        names = functions(again.doc["processes"][0]["stacks"][0])
        self.assertNotIn("f2", names)
        self.assertNotIn("ends_in_a_call", names)
        offsets = [e.get("offset") for e in direct.doc["processes"][0]["stacks"][0]["entries"]
                   if e.get("module") == program]
        self.assertEqual(offsets[:1], [e.get("offset") for e in again.doc["processes"][0]["stacks"][0]["entries"]
                                       if e.get("module") == program][:1])

    def test_other_views_of_one_capture(self):
        victim = self.victim("threads", "futex:9:worker", "epoll:3:poller")
        path, _ = self.save("-p", victim.pid)
        some = self.json("render", path, "--thread", "^poller")
        self.assertEqual(some["thread_count"], 3)
        self.assertEqual(len(self.json("render", path, "--per-thread")["processes"][0]["stacks"]), 13)
        got = self.run_tool("render", path, "-o", path + ".json")
        self.assertEqual(got.raw, b"")
        import json
        with open(path + ".json") as f:
            self.assertEqual(json.load(f)["thread_count"], 13)

    def test_refusals(self):
        victim = self.victim("chain")
        path, _ = self.save("-p", victim.pid)
        data = open(path, "rb").read()
        def refused(content, *words):
            bad = path + ".bad"
            with open(bad, "wb") as f:
                f.write(content)
            got = self.run_tool("render", bad, status=2)
            self.assertEqual(got.raw, b"")
            self.assertRegex(got.err, "|".join(words))
            self.assertEqual(len(got.err.splitlines()), 1, got)
        refused(b"", "not a capture|trunc")
        refused(b"hello, world\n" * 100, "not a capture")
        refused(open("/bin/true", "rb").read(), "an ELF file, but not a core")
        for cut in (9, 100, len(data) // 2, len(data) - 1):
            refused(data[:cut], "trunc|short|damaged|corrupt|incomplete")
        got = self.run_tool("render", "/nonexistent/file", status=2)
        self.assertIn("/nonexistent/file", got.err)
        self.run_tool("render", self.scratch(), status=2)
        self.run_tool("render", status=64)

    def test_another_version_is_refused(self):
        victim = self.victim("chain")
        path, _ = self.save("-p", victim.pid)
        data = bytearray(open(path, "rb").read())
        hit = False
        # The version follows the magic: raise each of the next bytes in turn until one is it.
        for at in range(4, 24):
            changed = bytearray(data)
            changed[at] = (changed[at] + 1) & 0xff
            with open(path + ".new", "wb") as f:
                f.write(changed)
            got = self.run_tool("render", path + ".new", status=(0, 1, 2))
            hit = hit or bool(got.status == 2 and "this stacksnap reads format 1" in got.err)
        self.assertTrue(hit, "no byte of the head is a version that is checked")

    def test_damaged_files_never_crash(self):
        victim = self.victim("threads", "futex:4:worker:3")
        path, _ = self.save("-p", victim.pid)
        data = open(path, "rb").read()
        chance = random.Random(11)
        for _ in range(60 if ASAN else 20):
            changed = bytearray(data)
            for _ in range(chance.choice((1, 3, 20))):
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7f, 0x80, 0xff))
            with open(path + ".bad", "wb") as f:
                f.write(changed)
            self.run_tool("render", path + ".bad", status=(0, 1, 2), timeout=30)

    def test_fifo_and_device(self):
        fifo = os.path.join(self.scratch(), "fifo")
        os.mkfifo(fifo)
        self.run_tool("render", fifo, status=2, timeout=20)
        self.run_tool("render", "/dev/null", status=2, timeout=20)

    def test_save_to_a_bad_place(self):
        victim = self.victim("chain")
        got = self.run_tool("-p", victim.pid, "--save-capture", "/nonexistent/x", status=(1, 2, 64))
        self.assertIn("/nonexistent/x", got.err)
        if os.path.exists("/dev/full"):
            got = self.run_tool("-p", victim.pid, "--save-capture", "/dev/full", status=(1, 2))
            self.assertIn("No space left", got.err)
