# SPDX-License-Identifier: LGPL-2.1-or-later
"""Profiles for the Firefox Profiler, read by its own command line without the network. And that a
broken file is refused."""
import gzip
import json
import os
import re
import subprocess

from harness import Case, DEADLINE, functions, need, wait_until
from readers import profiler_cli
from test_runtime_go import build


class Session:
    """A daemon of the profiler's command line with a profile loaded."""

    def __init__(self, case, path):
        home = case.scratch()
        self.command = profiler_cli()
        self.environment = dict(os.environ, HOME=home, PROFILER_CLI_SESSION_DIR=home,
                                PROFILER_CLI_NO_SYMBOLICATE="1", LC_ALL="C.UTF-8",
                                NODE_NO_WARNINGS="1")
        self.loaded = self.ask("load", path)
        case.addCleanup(self.ask, "stop", "--all")

    def ask(self, *args):
        return subprocess.run([*self.command, *map(str, args)], env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=DEADLINE)

    def wait_for(self, wanted, *args):
        """The answer that holds this: the daemon is slow to start."""
        last = None

        def answered():
            nonlocal last
            last = self.ask(*args)
            return wanted in last.stdout

        try:
            wait_until(answered, f"{wanted!r} from {args}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.loaded.stdout}\n{last and last.stdout}") from None
        return last.stdout


class Firefox(Case):
    level = "all"

    def save(self, *argv, suffix=".firefox.json"):
        path = os.path.join(self.scratch(), "profile" + suffix)
        self.run_tool(*argv, "-o", path)
        return path

    def test_the_reader_names_threads_and_functions(self):
        victim = self.victim("threads", "futex:3:worker", "spin:1:busy", running=1)
        path = self.save("-p", victim.pid)
        self.end_victims()
        session = Session(self, path)
        info = session.wait_for("contains", "profile", "info", "--all")
        self.assertRegex(info, r"contains 5 threads across 1 processes")
        self.assertIn(f"[pid {victim.pid}]", info)
        for name in ("worker-0", "worker-2", "busy"):
            self.assertIn(name, info)
        handle = re.search(r"(t-\d+): worker-1 ", info)
        self.assertIsNotNone(handle, info)
        shown = session.wait_for("worker_main", "thread", "functions", "--thread", handle.group(1),
                                 "--include-idle", "--limit", "0")
        self.assertIn("threads!worker_main", shown)
        # A thread that waits is idle: it is left out unless it is asked for.
        hidden = session.ask("thread", "functions", "--thread", handle.group(1), "--limit", "0")
        self.assertNotIn("worker_main", hidden.stdout)

    def test_inlined_functions_and_files(self):
        victim = self.victim("inlined")
        path = self.save("-p", victim.pid)
        session = Session(self, path)
        shown = session.wait_for("main", "thread", "functions", "--thread", "t-0",
                                 "--include-idle", "--limit", "0")
        stack = self.stack_of(self.node(victim.pid), tid=victim.pid)
        for name in functions(stack):
            if name:
                self.assertIn(name.split("(")[0], shown)
        with open(path) as f:
            profile = json.load(f)
        shared = profile["shared"]
        self.assertGreater(max(shared["frameTable"]["inlineDepth"]), 0)
        files = [shared["stringArray"][n] for n in shared["sources"]["filename"]]
        self.assertTrue(any(name.endswith("inlined.cc") for name in files), files)
        ids = {e["build_id"] for e in stack["entries"] if "build_id" in e}
        self.assertLessEqual(ids, {lib["codeId"] for lib in profile["libs"]})

    def test_compressed(self):
        victim = self.victim("threads", "futex:3:worker")
        path = self.save("-p", victim.pid, suffix=".firefox.json.gz")
        with gzip.open(path) as f:
            self.assertEqual(len(json.load(f)["threads"]), 4)
        session = Session(self, path)
        self.assertIn("contains 4 threads", session.wait_for("contains", "profile", "info", "--all"))

    def test_a_recording(self):
        victim = self.victim("threads", "futex:3:worker", "spin:1:busy", running=1)
        path = os.path.join(self.scratch(), "run.firefox.json")
        self.run_tool("record", "-p", victim.pid, "-d", 1, "--hz", 50, "-o", path)
        self.end_victims()
        with open(path) as f:
            profile = json.load(f)
        ticks = profile["counters"][0]["samples"]["length"]
        for thread in profile["threads"]:
            self.assertEqual(sum(thread["samples"]["weight"]), ticks, thread["name"])
        session = Session(self, path)
        info = session.wait_for("contains", "profile", "info", "--all")
        self.assertIn("contains 5 threads", info)
        self.assertIn(f"Stopped [{ticks} samples]", info)
        busy = re.search(r"(t-\d+): busy .* - ([0-9.]+)ms", info)
        self.assertIsNotNone(busy, info)
        self.assertGreater(float(busy.group(2)), 0)
        self.assertRegex(info, r"worker-1 .* - 0\.000ms")
        # What runs is no idle code: it is there without being asked for.
        shown = session.wait_for("spin", "thread", "functions", "--thread", busy.group(1))
        self.assertIn("threads!spin", shown)
        marked = session.ask("thread", "markers", "--thread", busy.group(1)).stdout
        self.assertIn("running", marked)

    def test_labels_are_markers(self):
        need("go")
        victim = self.program(["nice", "-n", "15", build("worker", ["worker/worker.go"])], running=1)
        path = self.save("-p", victim.pid)
        self.end_victims()
        with open(path) as f:
            threads = json.load(f)["threads"]
        number = next(i for i, thread in enumerate(threads)
                      if {"type": "Label", "value": "count"} in thread["markers"]["data"])
        session = Session(self, path)
        session.wait_for("contains", "profile", "info")
        shown = session.ask("thread", "markers", "--thread", f"t-{number}").stdout
        self.assertRegex(shown, r"(?m)^  job +1 markers")
        self.assertRegex(shown, r"(?m)^  queue +1 markers")

    def test_the_check_can_fail(self):
        path = os.path.join(self.scratch(), "broken.json")
        with open(path, "w") as f:
            f.write('{"meta": {"version": 24, "preprocessedProfileVersion": 66}, "threads": []}')
        session = Session(self, path)
        with self.assertRaises(AssertionError):
            got = session.ask("profile", "info", "--all").stdout
            self.assertIn("contains", got)
