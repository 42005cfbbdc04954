# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recordings of programs that an interpreter runs: which functions they show, and how often."""
import glob
import json
import os
import sys

from harness import Case, SOURCE, build_once, missing, need, need_root, read_file
from test_record import Recorder
import traces

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402
import zoo_go      # noqa: E402

RECURSION = os.path.join(SOURCE, "tests", "runtime", "python", "recursion.py")

SHARES = """
import os, sys, threading, time
def napper():
    time.sleep(3600)
def count(name, n, spent):
    begin = time.thread_time()
    for i in range(n):
        pass
    spent[name] += time.thread_time() - begin
def small(spent):
    count("small", 20000, spent)
def middle(spent):
    count("middle", 60000, spent)
def large(spent):
    count("large", 120000, spent)
def main():
    threading.Thread(target=napper, daemon=True).start()
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    spent = {"small": 0, "middle": 0, "large": 0}
    while not os.path.exists(sys.argv[1]):
        small(spent); middle(spent); large(spent)
    print(*spent.values(), flush=True)
main()
"""


PHP = """
class Job {
    function runs() { $this->works(); }
    function works() { for ($i = 0;; $i++) { if ($i % 100000 == 0 && file_exists($GLOBALS["argv"][1])) break; } }
}
function waits() { fgets(STDIN); }
echo "ready ", getmypid(), "\\n";
waits();
(new Job)->runs();
"""


def documents(case, path, *options):
    got = case.run_tool("render", path, "--format", "json", *options, status=(0, 1))
    return json.loads(got.text)


def stacks(node):
    yield from node["stacks"]
    for child in node.get("children", []):
        yield from stacks(child)


class Python(Case):
    def setUp(self):
        super().setUp()
        need("python3")
        self.folder = self.scratch()

    def record(self, pid, *options, seconds="2"):
        path = os.path.join(self.folder, "out.snaprec")
        self.run_tool("record", pid, "-d", seconds, "-o", path, *options, status=(0, 1))
        return path

    def test_shares_of_functions(self):
        stop = os.path.join(self.folder, "stop")
        program = self.program(["python3", "-c", SHARES, stop], settled=False)
        program.tell()
        path = self.record(program.pid, "--max-stopped", "50", seconds="4")
        with open(stop, "w", encoding="utf-8"):
            pass
        spent = [float(word) for word in program.read_line(60).split()]
        shown = {}
        for stack in (s for node in documents(self, path)["processes"] for s in stacks(node)):
            functions = [entry.get("function") for entry in stack["entries"]]
            self.assertNotIn("_PyEval_EvalFrameDefault",
                             functions if "main" in functions else [], functions)
            for name in ("small", "middle", "large", "napper"):
                if name in functions:
                    shown[name] = shown.get(name, 0) + stack["samples"]
        self.assertGreater(shown.get("napper", 0), 0, shown)
        total = sum(shown.get(name, 0) for name in ("small", "middle", "large"))
        if total < 100:
            self.skipTest(f"the machine is too busy: {total} samples")
        for name, own in zip(("small", "middle", "large"), spent):
            self.assertAlmostEqual(shown.get(name, 0) / total, own / sum(spent), delta=0.15,
                                   msg=f"{shown} {spent}")

    def test_frames(self):
        """A blocked thread: lines and languages as in a snapshot; --native when it is shown."""
        stop = os.path.join(self.folder, "stop")
        program = self.program(["python3", "-c", SHARES, stop], settled=False)
        path = self.record(program.pid, seconds="0.3")
        node = documents(self, path)["processes"][0]
        entry = next(e for s in stacks(node) for e in s["entries"] if e.get("function") == "napper")
        self.assertEqual((entry["file"], entry["line"], entry["language"]), ("<string>", 4, "python"))
        with_loops = documents(self, path, "--native")["processes"][0]
        names = [e.get("function") for s in stacks(with_loops) for e in s["entries"]
                 if any(x.get("function") == "napper" for x in s["entries"])]
        self.assertIn("napper", names)
        self.assertGreater(len(names), len([e for s in stacks(node) for e in s["entries"]
                                            if any(x.get("function") == "napper" for x in s["entries"])]))
        matching = documents(self, path, "--match", "napper")
        self.assertEqual(matching["thread_count"], 1)

    def test_without_runtimes(self):
        stop = os.path.join(self.folder, "stop")
        program = self.program(["python3", "-c", SHARES, stop], settled=False)
        path = self.record(program.pid, "--runtimes", "none", seconds="0.3")
        entries = [e for node in documents(self, path)["processes"] for s in stacks(node) for e in s["entries"]]
        self.assertNotIn("napper", [e.get("function") for e in entries])
        self.assertNotIn("python", [e.get("language") for e in entries])

    def test_written_again(self):
        stop = os.path.join(self.folder, "stop")
        program = self.program(["python3", "-c", SHARES, stop], settled=False)
        path = self.record(program.pid, seconds="0.3")
        again = os.path.join(self.folder, "again.snaprec")
        self.run_tool("render", path, "-o", again, status=(0, 1))
        for form in ("folded", "json", "speedscope"):
            texts = [self.run_tool("render", name, "--format", form, status=(0, 1)).text
                     for name in (path, again)]
            self.assertEqual(*texts)

    def test_languages_in_profiles(self):
        program = self.program(["python3", "-c", SHARES, os.path.join(self.folder, "stop")], settled=False)
        path = self.record(program.pid, seconds="0.3")
        trace = json.loads(self.run_tool("render", path, "-f", "chrome", status=(0, 1)).text)
        self.assertEqual(traces.complaints(trace), [])
        self.assertEqual({e.get("cat") for e in traces.slices(trace) if e["name"] in ("main", "napper")} - {None},
                         {"python"})
        profile = json.loads(self.run_tool("render", path, "-f", "firefox", status=(0, 1)).text)
        shared = profile["shared"]
        names = [shared["stringArray"][shared["funcTable"]["name"][func]] for func in shared["frameTable"]["func"]]
        category = shared["frameTable"]["category"][names.index("napper")]
        self.assertEqual(profile["meta"]["categories"][category]["name"], "Python")

    def test_deep_recursion(self):
        """More functions than fit: none is made up, and the recording goes on."""
        program = self.program(["python3", RECURSION, "3000"], settled=False)
        path = self.record(program.pid, seconds="0.5")
        found = [s for node in documents(self, path)["processes"] for s in stacks(node)]
        deepest = max(found, key=lambda s: len([e for e in s["entries"] if e.get("function") == "recurse"]))
        count = len([e for e in deepest["entries"] if e.get("function") == "recurse"])
        self.assertGreater(count, 50)
        self.assertLessEqual(count, 3001)
        if count < 3001:
            self.assertTrue("gap" in deepest or deepest["unwind"] != "complete", deepest["unwind"])


class Later(Recorder):
    def test_a_library_that_is_loaded_meanwhile(self):
        """The recording has begun when the program gets its interpreter, whose functions show from then on."""
        libraries = sorted(glob.glob("/usr/lib/*/libpython3.*[0-9].so.1.0"))
        if not libraries:
            missing("libpython3")
        victim = self.victim("embeds", "later", libraries[0])
        path = os.path.join(self.scratch(), "stacks.folded")
        recorder = self.start("--ring", "1m", "-f", "folded", "-o", path, victim.pid)
        self.write_until(recorder, path, ";main;wait_here;")
        victim.tell("x")
        self.assertEqual(victim.read_line().split(), ["ready", str(victim.pid)])
        self.write_until(recorder, path, ";main;run_python;call;<module>;outer;inside;")
        victim.tell("x")
        self.assertEqual(victim.read_line().split(), ["ready", str(victim.pid)])
        self.finish(recorder, status=(0, 1))
        for line in read_file(path).splitlines():
            names = line.rpartition(" ")[0].split(";")
            if "inside" in names:
                self.assertLess(names.index("run_python"), names.index("<module>"), line)
                self.assertFalse([name for name in names if "EvalFrame" in name], line)
            if "wait_here" in names:
                self.assertNotIn("run_python", names, line)


class Go(Case):
    def test_labels_in_profiles(self):
        """Of the goroutine that runs, in every format that has a place for them."""
        need("go")
        source = os.path.join(zoo_go.SOURCE, "worker", "worker.go")
        program = build_once("worker", ["go", "build", "-o", "{out}", source],
                             env=dict(os.environ, CGO_ENABLED="0", GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS=""))
        victim = self.program(["nice", "-n", "15", program], running=1)
        path = os.path.join(self.scratch(), "out.snaprec")
        self.run_tool("record", victim.pid, "-d", "1", "-o", path, status=(0, 1))

        def text(form, *options):
            return self.run_tool("render", path, "-f", form, *options, status=(0, 1)).text

        found = [s for node in json.loads(text("json"))["processes"] for s in stacks(node)]
        self.assertIn(("count", "main"), [(s["labels"].get("job"), s["labels"].get("queue")) for s in found])
        self.assertIn(";job=count;", text("folded", "--group-by", "label:job"))
        self.assertNotIn("job=count", text("folded"))
        frames = json.loads(text("speedscope", "--group-by", "label:job"))["shared"]["frames"]
        self.assertIn("job=count", [frame["name"] for frame in frames])
        trace = json.loads(text("chrome"))
        self.assertEqual(traces.complaints(trace), [])
        self.assertIn({"job": "count", "queue": "main"},
                      [e["args"] for e in trace["traceEvents"] if e["name"] == "labels"])
        markers = [m for thread in json.loads(text("firefox"))["threads"] for m in thread["markers"]["data"]]
        self.assertIn({"type": "Label", "value": "count"}, markers)


class Php(Case):
    def record(self, pid, *options):
        path = os.path.join(self.scratch(), "out.snaprec")
        self.run_tool("record", pid, "-o", path, *options, status=(0, 1))
        return documents(self, path)["processes"][0]

    @staticmethod
    def own(stack):
        return [entry["function"] for entry in stack["entries"] if entry.get("language") == "php"]

    def test_functions_on_and_off_the_processor(self):
        need("php")
        stop = os.path.join(self.scratch(), "stop")
        program = self.program(["php", "-r", PHP, stop])
        shown = [self.own(stack) for stack in stacks(self.record(program.pid, "-d", "0.3"))]
        self.assertEqual(shown, [["fgets", "waits", "{main}"]])
        program.tell()
        shown = [self.own(stack) for stack in stacks(self.record(program.pid, "-d", "1"))]
        working = [names for names in shown if "Job->works" in names]
        self.assertTrue(working, shown)
        for names in working:
            self.assertEqual(names[-3:], ["Job->works", "Job->runs", "{main}"])
            self.assertIn(names[:-3], ([], ["file_exists"]))
        with open(stop, "w", encoding="ascii"):
            pass

    def test_a_request(self):
        """It is told from others by what was asked for."""
        need_root()
        servers = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not servers:
            missing("php-fpm", "php-fpm")
        with php_server.Server(servers[-1], self.scratch(0o777)) as server:
            found = [s for s in stacks(self.record(server.pid, "-d", "0.3")) if self.own(s)]
        self.assertEqual([self.own(stack) for stack in found], [["sleep", *php_server.LINES]])
        self.assertEqual({key: value for key, value in found[0]["labels"].items() if key in php_server.LABELS},
                         php_server.LABELS)
