# SPDX-License-Identifier: LGPL-2.1-or-later
"""What `render` reads: captures, snapshots in JSON, recordings; from files and through pipes; and
what it refuses."""
import os
import signal
import subprocess

from harness import Case, TOOL, blocked, clean_environment, wait_until


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
        for source in ("/dev/zero", "/bin/true"):
            with subprocess.Popen(["cat", source], stdout=subprocess.PIPE) as cat:
                got = self.run_tool("render", "-", stdin=cat.stdout, status=2)
                cat.stdout.close()
            self.assertIn("no capture, no recording and no snapshot", got.err)
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
