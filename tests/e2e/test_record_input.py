# SPDX-License-Identifier: LGPL-2.1-or-later
"""What `render` reads: captures, snapshots in JSON, recordings; from files and through pipes; and
what it refuses."""
import datetime
import json
import os
import random
import signal
import subprocess

import bounds
from harness import Case, TOOL, blocked, clean_environment, wait_until
from test_record import formats


class Json(Case):
    asan = True

    def save(self, victim, *arguments):
        path = os.path.join(self.scratch(), "snap.json")
        self.run_tool("-p", victim.pid, "-o", path, *arguments)
        return path

    def test_a_snapshot_in_json_becomes_any_format(self):
        victim = self.victim("threads", "futex:9:worker", "epoll:2:poller")
        path = self.save(victim)
        victim.close()
        text = self.run_tool("render", path).text
        self.assertIn("9 × worker", text)
        with open(path, "rb") as f:
            self.assertEqual(self.run_tool("render", path, "-f", "json").raw, f.read())
        folded = self.run_tool("render", path, "-f", "folded").text
        self.assertRegex(folded, r"(?m)^threads\[\d+\];worker-3;.*;worker_main;.* 1$")
        self.assertEqual(self.json("render", path, "--thread", "^poller")["thread_count"], 2)

    def test_through_a_pipe(self):
        victim = self.victim("threads", "futex:9:worker")
        path = self.save(victim)
        plain = self.run_tool("render", path).raw
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
            self.assertEqual(self.run_tool("render", "-", stdin=cat.stdout).raw, plain)
        with open(path) as f:
            self.assertEqual(self.run_tool("render", "-", stdin=f).raw, plain)
        fifo = os.path.join(self.scratch(), "fifo")
        os.mkfifo(fifo)
        with subprocess.Popen(f"exec cat '{path}' > '{fifo}'", shell=True):
            self.assertEqual(self.run_tool("render", fifo).raw, plain)

    def test_what_is_none_of_ours_ends_at_once(self):
        """An endless stream is not read to its end."""
        for source, why in (("/dev/zero", "it is not a capture, a recording, a JSON snapshot or a core"),
                            ("/bin/true", "this is an ELF file, but not a core")):
            with subprocess.Popen(["cat", source], stdout=subprocess.PIPE) as cat:
                got = self.run_tool("render", "-", stdin=cat.stdout, status=2)
                cat.stdout.close()
            self.assertIn(why, got.err)
            self.assertEqual(len(got.err.splitlines()), 1, got)

    def test_damaged_json(self):
        victim = self.victim("chain")
        path = self.save(victim)
        with open(path, "rb") as f:
            data = f.read()
        for content in (data[:len(data) // 2], b"{", b"{}", b'{"schema": 1}', b'{"schema": "other"}' * 3):
            with open(path + ".bad", "wb") as f:
                f.write(content)
            got = self.run_tool("render", path + ".bad", status=2)
            self.assertEqual(got.raw, b"")
            self.assertEqual(len(got.err.splitlines()), 1, got)

    def test_a_signal_ends_it_while_the_pipe_waits(self):
        reading, writing = os.pipe()
        tool = subprocess.Popen([TOOL, "render", "-"], stdin=reading, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=clean_environment())
        os.close(reading)
        wait_until(lambda: blocked(tool.pid, tool.pid), "the tool to read")
        tool.send_signal(signal.SIGTERM)
        self.assertEqual(tool.communicate(timeout=30), (b"", b""))
        self.assertEqual(tool.returncode, -signal.SIGTERM)
        os.close(writing)


class Recordings(Case):
    level = "test"
    asan = "all"

    def record(self, *specifications, length="0.5", **options):
        victim = self.victim("threads", *(specifications or ("futex:5:worker:5", "epoll:2:poller")), **options)
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", victim.pid, "-d", length, "-o", path)
        self.end_victims()
        return path

    def test_any_format_from_a_recording(self):
        path = self.record()
        for name, suffix in formats().items():
            with self.subTest(format=name):
                made = path + suffix
                self.run_tool("render", path, "-o", made)
                self.assertGreater(os.path.getsize(made), 20)
                if name not in ("pprof", "snaprec") and not name.endswith("-gz"):
                    self.assertGreater(len(self.run_tool("render", path, "-f", name).raw), 20)
        again = self.run_tool("render", path + ".snaprec", "-f", "folded").raw
        self.assertEqual(again, self.run_tool("render", path, "-f", "folded").raw)

    def test_any_format_from_captures_and_snapshots(self):
        victim = self.victim("threads", "futex:5:worker:5")
        path = os.path.join(self.scratch(), "a")
        self.run_tool("-p", victim.pid, "--save-capture", path, "-o", path + ".json")
        for name, suffix in formats().items():
            for source in (path, path + ".json"):
                with self.subTest(format=name, source=source):
                    made = path + ".made" + suffix
                    self.run_tool("render", source, "-o", made)
                    self.assertGreater(os.path.getsize(made), 20)

    def test_filters_when_it_is_rendered(self):
        path = self.record("futex:3:worker", "epoll:2:poller", "spin:1:busy", running=1)
        def functions(*filters):
            text = self.run_tool("render", path, "-f", "folded", *filters).text
            return {f for f in ("wait_futex", "wait_epoll", "spin", "victim_hold") if f";{f}" in text}
        self.assertEqual(functions(), {"wait_futex", "wait_epoll", "spin", "victim_hold"})
        self.assertEqual(functions("--thread", "^poller"), {"wait_epoll"})
        self.assertEqual(functions("--state", "running"), {"spin"})
        self.assertEqual(functions("--match", "^wait_futex$"), {"wait_futex"})

    def ticks(self, path, *slice_options, status=0):
        """The times of the samples of a slice, in nanoseconds since 1970."""
        times = []
        for line in self.run_tool("render", path, "-f", "jsonl", *slice_options, status=status).text.splitlines():
            whole, fraction = json.loads(line)["time"].rstrip("Z").split(".")
            seconds = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp()
            times.append(int(seconds) * 10 ** 9 + int(fraction.ljust(9, "0")))
        return times

    def test_slices_hold_what_lies_in_them(self):
        path = self.record(length="1")
        every = self.ticks(path)
        start = every[0]
        self.assertGreater(len(every), 20)
        def between(low, high):
            return [t for t in every if low <= t - start < high]
        s = 10 ** 9
        self.assertEqual(self.ticks(path, "--from", "0.25s"), between(s // 4, s * 99))
        self.assertEqual(self.ticks(path, "--to", "250ms"), between(0, s // 4))
        self.assertEqual(self.ticks(path, "--from", "0.25", "--to", "0.5"), between(s // 4, s // 2))
        self.assertEqual(self.ticks(path, "--from", "0"), every)
        def date(t):
            whole = datetime.datetime.fromtimestamp(t // s, datetime.timezone.utc)
            return f"{whole:%Y-%m-%dT%H:%M:%S}.{t % s:09d}"
        self.assertEqual(self.ticks(path, "--from", date(start) + "Z"), every)
        self.assertEqual(self.ticks(path, "--from", date(every[5]) + "+00:00", "--to", date(every[9]) + "Z"), every[5:9])
        tail = self.ticks(path, "--from=-0.3s")
        self.assertEqual(tail, every[-len(tail):])
        self.assertTrue(0 < len(tail) < len(every))
        head = self.ticks(path, "--to", "-0.3s")
        self.assertEqual(head + tail, every)

    def test_an_empty_slice(self):
        path = self.record()
        for options in (("--from", "1h"), ("--to", "1970-01-01T00:00:00Z"), ("--from", "0.3", "--to", "0.2")):
            got = self.run_tool("render", path, *options, status=(0, 1, 2, 64))
            self.assertNotIn("wait_futex", got.text)

    def test_slices_are_for_recordings(self):
        victim = self.victim("chain")
        path = os.path.join(self.scratch(), "a")
        self.run_tool("-p", victim.pid, "--save-capture", path, "-o", path + ".json")
        for source in (path, path + ".json"):
            for option in ("--from", "--to"):
                got = self.run_tool("render", source, option, "1s", status=64)
                self.assertIn("is not one", got.err)

    def test_moments_that_make_no_sense(self):
        path = self.record()
        for value in ("yesterday", "2026-11-20", "2026-11-20T07:52:18", "--5", "5d"):
            got = self.run_tool("render", path, "--from=" + value, status=64)
            self.assertIn("not a time", got.err)

    def test_cut_short(self):
        """What is whole of a truncated recording is shown, and it says that there is no end."""
        path = self.record(length="3")
        with open(path, "rb") as f:
            data = f.read()
        shown = 0
        for cut in (len(data) - 1, len(data) - 20, len(data) * 3 // 4, len(data) // 2, len(data) // 4, 40, 20, 17):
            with open(path + ".cut", "wb") as f:
                f.write(data[:cut])
            got = self.run_tool("render", path + ".cut", "-f", "folded", status=(1, 2))
            self.assertTrue(got.err, cut)
            if got.status == 1:
                self.assertIn("unfinished", got.err)
                shown += "wait_futex" in got.text
        self.assertGreater(shown, 0)

    def test_a_long_tail_takes_no_memory(self):
        """Of a sparse file of 3 GiB, and of one that is larger than any."""
        victim = self.victim("chain")
        capture = os.path.join(self.scratch(), "tail.capture")
        recording = os.path.join(self.scratch(), "tail.snaprec")
        self.run_tool("-q", "-p", victim.pid, "--save-capture", capture)
        self.run_tool("record", "-p", victim.pid, "-q", "-d", "0.2", "-o", recording, status=(0, 1))
        for path, word in ((capture, "capture"), (recording, "recording")):
            for size, why in ((3 << 30, f"the {word} is damaged: trailing data"), (1 << 40, f"the {word} is too large")):
                os.truncate(path, size)
                got = bounds.Measured(["render", path])
                self.check(got, (2,))
                self.assertIn(why, got.err)
                self.assertLess(got.memory, 256 << 20, got)

    def test_damaged(self):
        path = self.record()
        with open(path, "rb") as f:
            data = f.read()
        chance = random.Random(5)
        for _ in range(40):
            changed = bytearray(data)
            for _ in range(chance.choice((1, 3, 20))):
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7f, 0x80, 0xff))
            with open(path + ".bad", "wb") as f:
                f.write(changed)
            self.run_tool("render", path + ".bad", "-f", "json", status=(0, 1, 2), timeout=30)

    def test_foreign_and_another_version(self):
        path = self.record()
        with open(path, "rb") as f:
            data = f.read()
        refused = False
        for at in range(4, 24):
            changed = bytearray(data)
            changed[at] = (changed[at] + 1) & 0xff
            with open(path + ".bad", "wb") as f:
                f.write(changed)
            got = self.run_tool("render", path + ".bad", status=(0, 1, 2))
            refused = refused or (got.status == 2 and "this stacksnap reads format 1" in got.err)
        self.assertTrue(refused)
        with open(path + ".bad", "wb") as f:
            f.write(b"perf.data " * 100)
        self.assertIn("not a capture, a recording, a JSON snapshot or a core", self.run_tool("render", path + ".bad", status=2).err)
