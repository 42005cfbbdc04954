# SPDX-License-Identifier: LGPL-2.1-or-later
"""The incidents of examples/: each is one command, and what the tool says of it names the thread that causes it."""
import importlib.util
import json
import os
import re
import subprocess

from harness import DEADLINE, SOURCE, TOOL, Case, clean_environment, need, need_root

RUN = os.path.join(SOURCE, "examples", "incidents", "run.sh")


class Incidents(Case):
    def look(self, name, *options, status=0):
        need("cc")
        done = subprocess.run([RUN, name, *options], env=clean_environment({"STACKSNAP": TOOL}), timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def threads(self, doc, name):
        return [thread for node in doc["processes"] for stack in node["stacks"] for thread in stack["threads"]
                if thread["name"] == name]

    def test_deadlock(self):
        doc = json.loads(self.look("deadlock", "--json"))
        dead, = doc["deadlocks"]
        self.assertEqual(sorted(link["name"] for link in dead["threads"]), ["audit", "transfer"])
        self.assertEqual({link["wait"]["symbol"] for link in dead["threads"]}, {"accounts", "journal"})
        self.assertEqual((dead["certain"], dead["behind"]), (True, 3))

    def test_as_text(self):
        self.assertRegex(self.look("deadlock"), r"\nDEADLOCK +2 threads, 3 more wait behind them\n")
        self.assertRegex(self.look("pool"), r"\nblocked +pool\[\d+\] 17 threads wait for \d+ worker-\d+ \(in recv on a unix socket")

    def test_slow_peer(self):
        doc = json.loads(self.look("slow_peer", "--json"))
        sends = [thread["wait"] for thread in self.threads(doc, "publisher") if thread["wait"]["kind"] == "tcp"]
        self.assertEqual(len(sends), 1)
        self.assertEqual([peer["name"] for peer in sends[0]["peers"]], ["stuck-reader"])
        self.assertGreater(sends[0]["send_queue"], 0)
        self.assertEqual([(blocker["name"], blocker["blocked"]) for blocker in doc["blockers"]], [("publisher", 3)])

    def test_pool(self):
        doc = json.loads(self.look("pool", "--json"))
        self.assertNotIn("deadlocks", doc)
        blocker, = doc["blockers"]
        self.assertEqual((blocker["blocked"], blocker["wait"]["kind"]), (17, "unix"))
        self.assertEqual([(row["symbol"], row["waiters"]) for row in doc["contended"]], [("cache_lock", 17)])


def load_answers():
    path = os.path.join(SOURCE, "examples", "incidents", "answers.py")
    spec = importlib.util.spec_from_file_location("answers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Answers(Case):
    """doc/INCIDENTS.md: the answer to each question stands on the first screen of a terminal of 80 x 24."""
    level = "test"

    def assert_answers(self, *programs):
        answers = load_answers()
        for number, (question, name, *_) in enumerate(answers.QUESTIONS):
            if name in programs:
                with self.subTest(question):
                    text = answers.answer(TOOL, number)
                    self.assertTrue(answers.is_answered(number, text), text)

    def test_programs_in_c(self):
        need("cc")
        self.assert_answers("slow_peer", "deadlock", "shutdown", "pool", "spin", "leak", "changed")

    def test_disk_state(self):
        need("cc")
        need_root()  # for kernel frames
        self.assert_answers("backup")

    def test_java(self):
        need("java", "javac")
        self.assert_answers("Report")

    def test_python(self):
        need("/usr/bin/python3")
        self.assert_answers("notes")

    def test_page_has_each_question(self):
        with open(os.path.join(SOURCE, "doc", "INCIDENTS.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(re.findall(r"^## (.*)\n\n    stacksnap (.*)$", text, re.M),
                         [(question, options) for question, _, options, _, _ in load_answers().QUESTIONS])
        for screen in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
            lines = [line for line in screen.splitlines() if line != "…"]
            self.assertLessEqual(len(lines), 24)
            self.assertLessEqual(max(map(len, lines)), 80)
