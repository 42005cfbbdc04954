# SPDX-License-Identifier: LGPL-2.1-or-later
"""What changed between two looks at real processes: groups, processes, threads that are stuck; of files of all kinds."""
import json
import os
import signal
import subprocess
import unittest

from harness import (Case, SOURCE, TOOL, check_schema, clean_environment, missing, proc_state, processes, read_file, threads,
                     tids_of, wait_until)

SLEEPERS, MORE = 5, 3


def check_diff_schema(document):
    try:
        import jsonschema
    except ImportError:
        missing("python3-jsonschema")
    with open(os.path.join(SOURCE, "lib/render/diff/stacksnap-diff.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.validators.validator_for(schema)(schema).validate(document)


class Diff(Case):
    asan = "all"

    def setUp(self):
        super().setUp()
        self.folder = self.scratch()

    def path(self, name):
        return os.path.join(self.folder, name)

    def obey(self):
        """A program with threads that sleep, and a main thread that does what it is told."""
        victim = self.victim("obey")
        self.order(victim, f"threads {SLEEPERS}")
        return victim

    def order(self, victim, line):
        victim.tell(line + "\n")
        self.assertEqual(victim.read_line().split(), ["did", line.split()[0]])
        wait_until(lambda: line == "spin" or
                   all(proc_state(victim.pid, tid) == "S" for tid in tids_of(victim.pid)), "all to sleep")

    def save(self, victim, name, *options):
        """A document in which nothing is missing: its path."""
        def look():
            got = self.run_tool("--json", *(options or ["--no-stop"]), "-p", victim.pid, status=(0, 1, 2))
            return got if got.status == 0 else None
        got = wait_until(look, "a whole report")
        check_schema(got.doc)
        with open(self.path(name), "wb") as file:
            file.write(got.raw)
        return self.path(name)

    def diff(self, *arguments, status=1):
        got = self.run_tool("diff", "--json", *arguments, status=status)
        check_diff_schema(got.doc)
        return got.doc

    def sleepers(self, path):
        with open(path, encoding="utf-8") as file:
            found = [s for n in processes(json.load(file)).values() for s in n["stacks"] if s["description"] == "sleeping_main"]
        return {t["tid"] for s in found for t in s["threads"]}

    def test_groups_and_stuck(self):
        victim = self.obey()
        first = self.save(victim, "a.json")
        same = self.diff(first, first, status=0)
        self.assertEqual((same["groups"], same["processes"], same["differs"]), ([], [], False))
        self.order(victim, f"threads {MORE}")
        second = self.save(victim, "b.json")
        doc = self.diff(first, second)
        grown = [g for g in doc["groups"] if g["description"] == "sleeping_main"]
        self.assertEqual([(g["change"], g["before"], g["after"]) for g in grown], [("grew", SLEEPERS, SLEEPERS + MORE)])
        self.assertIn("sleeping_main", [e.get("function") for e in grown[0]["entries"]])
        # The main thread stands where it stood, but has been somewhere else meanwhile.
        self.assertEqual({t["tid"] for t in doc["stuck"]}, self.sleepers(first))
        self.assertTrue(all(t["pid"] == victim.pid and t["id"] == grown[0]["id"] for t in doc["stuck"]))
        self.assertEqual(doc["processes"], [])
        text = self.run_tool("diff", first, second, status=1).text
        self.assertRegex(text, rf"(?m)^grew\n +{SLEEPERS} → {SLEEPERS + MORE} × obey ")
        self.assertRegex(text, rf"(?m)^ +{SLEEPERS} of {SLEEPERS + MORE} × obey .* tids ")
        self.assertRegex(self.run_tool("diff", "--summary", first, second, status=1).text, r"× obey .*sleeping_main")
        back = [g for g in self.diff(second, first)["groups"] if g["description"] == "sleeping_main"]
        self.assertEqual([(g["change"], g["before"], g["after"]) for g in back], [("shrank", SLEEPERS + MORE, SLEEPERS)])

    def test_stop_is_no_run(self):
        victim = self.obey()
        tids = {t for t in tids_of(victim.pid) if t != victim.pid}

        def look():  # on a busy machine a thread may be preempted on its way into a stop
            first = self.save(victim, "a.json", "--explain")
            second = self.save(victim, "b.json", "--explain")
            return tids <= {t["tid"] for t in self.diff(first, second, status=(0, 1))["stuck"]}
        wait_until(look, "all to be stuck")
        # Without the count nobody is said to be stuck, and that is told.
        first, second = self.save(victim, "c.json", "--no-lines"), self.save(victim, "d.json", "--no-lines")
        doc = self.diff(first, second, status=(0, 1))
        self.assertEqual(doc["stuck"], [])
        self.assertIn("runs_unknown", [w["code"] for w in doc["warnings"]])

    def test_processes(self):
        victim = self.obey()
        first = self.save(victim, "a.json")
        self.order(victim, "fork")
        second = self.save(victim, "b.json")
        with open(second, encoding="utf-8") as file:
            child = next(pid for pid in processes(json.load(file)) if pid != victim.pid)
        doc = self.diff(first, second)
        self.assertEqual([(p["pid"], p["change"]) for p in doc["processes"]], [(child, "came")])
        doc = self.diff(second, first)
        self.assertEqual([(p["pid"], p["change"]) for p in doc["processes"]], [(child, "went")])
        self.assertRegex(self.run_tool("diff", first, second, status=1).text, rf"(?m)^came   obey\[{child}\]")
        # The same pid, given to another process.
        with open(second, encoding="utf-8") as file:
            later = json.load(file)
        processes(later)[child]["start_ticks"] += 1
        with open(self.path("c.json"), "w", encoding="utf-8") as file:
            json.dump(later, file)
        doc = self.diff(second, self.path("c.json"))
        self.assertEqual([(p["pid"], p["change"]) for p in doc["processes"]], [(child, "came"), (child, "went")])
        self.assertNotIn(child, [t["pid"] for t in doc["stuck"]])
        # Another host, another boot.
        later["host"]["boot_id"] = "another"
        with open(self.path("c.json"), "w", encoding="utf-8") as file:
            json.dump(later, file)
        doc = self.diff(second, self.path("c.json"), status=0)
        self.assertEqual([w["code"] for w in doc["warnings"]], ["other_boot"])
        self.assertEqual(doc["stuck"], [])

    def test_again(self):
        victim = self.obey()
        self.order(victim, "spin")
        got = self.run_tool("--json", "--no-stop", "--again", "100ms", "-p", victim.pid, status=(0, 1))
        check_schema(got.doc)
        self.assertGreaterEqual(got.doc["again_ns"], 50000000)
        found = threads(processes(got.doc)[victim.pid])
        self.assertEqual({tid for tid, (thread, _) in found.items() if thread.get("stuck")}, set(found) - {victim.pid})
        self.assertTrue(all(thread["runs"] > 0 for thread, _ in found.values()))
        # It can be read back.
        with open(self.path("again.json"), "wb") as file:
            file.write(got.raw)
        again = self.run_tool("render", "--json", self.path("again.json"), status=(0, 1))
        self.assertEqual(again.raw, got.raw)
        text = self.run_tool("--no-stop", "--again", "100ms", "-p", victim.pid, status=(0, 1)).text
        self.assertRegex(text, rf"(?m)^stuck      {SLEEPERS} threads have not run for ")
        self.assertRegex(text, rf"{SLEEPERS} × obey   sleeping in pause.*   stuck ")
        # A process that a signal has stopped is in no wait, and has not run either.
        os.kill(victim.pid, signal.SIGSTOP)
        wait_until(lambda: proc_state(victim.pid) == "T", "it to be stopped")
        text = self.run_tool("--no-stop", "--again", "100ms", "-p", victim.pid, status=(0, 1), free=False).text
        self.assertRegex(text, rf"(?m)^stuck      none; {SLEEPERS + 1} threads are stopped by a signal$")
        os.kill(victim.pid, signal.SIGCONT)
        self.run_tool("--again", "1s", "--save-capture", self.path("x"), "-p", victim.pid, status=64)
        self.run_tool("--again", "0", "-p", victim.pid, status=64)
        self.assertIn("--again", self.run_tool("--watch", "--again", "1s", "-p", victim.pid, status=64).err)

    def test_captures_and_recordings(self):
        victim = self.obey()
        capture = self.path("a.capture")
        self.run_tool("--no-stop", "--save-capture", capture, "-o", os.devnull, "-p", victim.pid, status=(0, 1))
        self.order(victim, f"threads {MORE}")
        doc = self.diff(capture, self.save(victim, "b.json"))
        self.assertEqual([(g["before"], g["after"]) for g in doc["groups"] if g["description"] == "sleeping_main"],
                         [(SLEEPERS, SLEEPERS + MORE)])
        self.assertEqual(len(doc["stuck"]), SLEEPERS)
        # It sleeps in one recording and spins in the other: its function moves.
        def record(name):
            self.run_tool("record", "--hz", "200", "-d", "2", "-o", self.path(name), "-p", victim.pid, status=(0, 1))
            return self.path(name)
        idle = record("idle.snaprec")
        self.order(victim, "spin")
        busy = record("busy.snaprec")
        doc = self.diff(idle, f"{busy}@-1..")
        self.assertEqual((doc["before"]["kind"], doc["after"]["kind"]), ("recording", "recording"))
        moved = {f["function"]: f for f in doc["functions"] if f["of"] == "running"}
        self.assertIn("busy_work", moved)
        self.assertGreater(moved["busy_work"]["after"], moved["busy_work"]["before"])
        self.assertEqual(doc["stuck"], [])
        self.assertRegex(self.run_tool("diff", idle, busy, status=1).text,
                         r"(?m)^functions, of the samples that ran\n(.*\n)*.* busy_work\b")
        same = self.diff(busy, busy, status=0)
        self.assertLess(doc["after"]["ticks"], same["after"]["ticks"])
        early = self.diff(f"{busy}@..0.5", busy, status=(0, 1))
        self.assertEqual(early["after"]["ticks"], same["after"]["ticks"])
        self.assertLess(early["before"]["ticks"], same["before"]["ticks"])
        doc = self.diff(capture, busy, status=1)
        self.assertIn("one_recording", [w["code"] for w in doc["warnings"]])

    def test_a_number_that_is_used_again(self):
        """Whichever process has it by then was not meant, and is not shown."""
        victim = self.victim("reuse")
        running = subprocess.Popen([TOOL, "--again", "3", "--json", str(victim.pid)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=clean_environment())
        self.addCleanup(running.kill)
        wait_until(lambda: "nanosleep" in (read_file(f"/proc/{running.pid}/wchan") or ""), "the time between the two")
        victim.tell()
        self.assertEqual(victim.read_line(), "again\n")
        out, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 2, err)
        self.assertIn(f"process {victim.pid} has ended; another one has its number now", err.decode())
        node = processes(json.loads(out))[victim.pid]
        self.assertEqual((node["error"]["code"], node.get("name"), node.get("stacks", [])), ("no_such_process", None, []))
        self.assertIn("other_process", self.run_tool(victim.pid).text)

    def test_bad_input(self):
        victim = self.obey()
        good = self.save(victim, "a.json")
        with open(good, "rb") as file:
            whole = file.read()
        bad = {"cut": whole[:len(whole) // 2], "empty": b"", "other": b"hello, world, this is no document",
               "version": whole.replace(b'"schema_version": 1', b'"schema_version": 2', 1),
               "deep": b'{"schema":"stacksnap.snapshot","schema_version":1,"x":' + b"[" * 10000}
        for name, content in bad.items():
            with self.subTest(name):
                with open(self.path(name), "wb") as file:
                    file.write(content)
                for pair in ((good, self.path(name)), (self.path(name), good)):
                    doc = self.diff(*pair, status=2)
                    self.assertEqual((doc["groups"], len(doc["warnings"])), ([], 1))
                    got = self.run_tool("diff", *pair, status=2)
                    self.assertEqual(got.text, "")
                    self.assertIn(self.path(name), got.err)
        self.assertIn("cannot read", self.run_tool("diff", good, self.path("none"), status=2).err)
        for arguments in ([good], [good, good, good], [good, good + "@1..2"], ["-f", "pprof", good, good], ["-", "-"]):
            self.run_tool("diff", *arguments, status=64)
        # One of them comes through a pipe.
        with open(good, "rb") as file:
            got = self.run_tool("diff", "-", good, stdin=file)
        self.assertIn("nothing changed", got.text)


if __name__ == "__main__":
    unittest.main()
