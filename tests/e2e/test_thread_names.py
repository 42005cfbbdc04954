# SPDX-License-Identifier: LGPL-2.1-or-later
"""What runtimes call their threads, against what the programs say: in full, where comm has 15 bytes or the program's."""
import json
import os

from harness import Case, processes, threads
from test_waits_languages import pythons

PYTHON = """
import json, os, sys, threading
class Many(threading.Thread):
    def __init__(self, **options):
        super().__init__(daemon=True, **options)
        for i in range(60):
            setattr(self, f"attribute_{i}", i)
class Slots(threading.Thread):
    __slots__ = ("one", "two")
ready, names = threading.Barrier(COUNT + 6), {}
def waits():
    ready.wait()
    threading.Event().wait()
for i in range(COUNT):
    threading.Thread(target=waits, daemon=True, name=f"import of all orders, worker {i}").start()
Many(target=waits, name="one with many attributes").start()
Slots(target=waits, daemon=True, name="one with slots").start()
threading.Thread(target=waits, daemon=True, name="k\\xe4se \\u6f22\\u5b57 \\U0001d499, a long one").start()
threading.Thread(target=waits, daemon=True, name="\\x1b[31m\\u202e\\udcff\\n\\0" + "\\xe4" * 300).start()
named_later = threading.Thread(target=waits, daemon=True, name="x")
named_later.start()
named_later.name = "renamed, and longer than comm"
ready.wait()
names = {t.native_id: t.name for t in threading.enumerate() if t is not threading.main_thread()}
with open(sys.argv[1], "w") as file:
    json.dump(names, file)
print("ready", os.getpid(), flush=True)
threading.Event().wait()
"""
MOST = 127  # bytes


def shown(name):
    """As a report has it: cut, and with what is no text as bytes."""
    text = name.replace("\0", "\ufffd").encode(errors="surrogateescape")
    while len(text) > MOST:
        name = name[:-1]
        text = name.replace("\0", "\ufffd").encode(errors="surrogateescape")
    return text


class Names(Case):
    def check_names(self, victim, truth, *arguments):
        node = processes(self.json("-p", victim.pid, "--no-children", *arguments))[victim.pid]
        found = {tid: thread["name"] for tid, (thread, _) in threads(node).items()}
        for tid, name in truth.items():
            if shown(name).isascii() and name.isprintable():
                self.assertEqual(found[int(tid)], name)
            elif name.isprintable():
                self.assertEqual(found[int(tid)].encode(), shown(name))
            else:
                self.assertIn("31m", found[int(tid)])
        self.assertEqual(node["name"], found[victim.pid])

    def start_python(self, python, count):
        out = os.path.join(self.scratch(), "names")
        victim = self.program([python, "-c", f"COUNT = {count}" + PYTHON, out])
        with open(out, encoding="utf-8") as file:
            return victim, json.load(file)

    def test_python(self):
        for python in pythons():
            with self.subTest(python):
                victim, truth = self.start_python(python, 3)
                for arguments in ([], ["--no-stop"], ["--no-explain"]):
                    self.check_names(victim, truth, *arguments)

    def test_two_hundred_of_python(self):
        victim, truth = self.start_python(pythons()[0], 200)
        self.check_names(victim, truth)
        text = self.run_tool("-p", victim.pid, "--thread", "orders, worker 1[0-9]$").text
        self.assertIn("10 × import of all orders, worker *", text)

    def test_no_runtime_is_asked(self):
        victim, _ = self.start_python(pythons()[0], 3)
        node = processes(self.json("-p", victim.pid, "--runtimes", "none"))[victim.pid]
        self.assertEqual({thread["name"] for thread, _ in threads(node).values()}, {node["name"]})
