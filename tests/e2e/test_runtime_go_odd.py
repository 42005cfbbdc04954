# SPDX-License-Identifier: LGPL-2.1-or-later
"""Go where it is not expected, not whole, or not known: in a library that a program in C loads later, in plugins, of a
version that nobody has seen, in a program that just begins, ends, or becomes another one. What is shown is right, or
it is the stacks of threads and one line."""
import os
import re
import subprocess
import sys

from harness import (Case, SOURCE, build_once, functions, processes, read_file, run_tool, stacks_of, tids_of,
                     wait_until)
from test_runtime_go import build

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import zoo_go  # noqa: E402


def tasks(node):
    return [(s, t) for s in stacks_of(node) for t in s.get("tasks", [])]


def shared(name, *arguments, mode="c-shared"):
    source = {"c-shared": "library/library.go", "plugin": "plugin/plugin.go"}[mode]
    return build(name + ".so", [source], ["-buildmode=" + mode, *arguments], cgo=True)


class GoOdd(Case):
    level = "all"

    def refusal(self, pid, message):
        """One line says why there are no goroutines; its threads have their stacks."""
        doc = self.json("-p", pid, status=(0, 1))
        node = processes(doc)[pid]
        warnings = [w for w in doc["warnings"] if w["code"] == "runtime_unsupported"]
        self.assertEqual([w["pid"] for w in warnings], [pid], doc["warnings"])
        self.assertIn(message, warnings[0]["message"])
        self.assertEqual(tasks(node), [])
        self.assertTrue(any("threads" in s for s in node["stacks"]))
        return node

    # ---- where it is ----

    def check_library(self, library):
        host = build_once("go-host", ["gcc", "-o", "{out}", os.path.join(zoo_go.SOURCE, "library", "host.c"), "-ldl",
                                      "-pthread"])
        victim = self.program([host, library])
        node = self.node(victim.pid)
        self.assertNotIn("runtimes", node)
        victim.tell()
        self.assertEqual(victim.read_line(), "loaded\n")

        def called():
            node = self.node(victim.pid)
            return node if any("main.sitInGo" in functions(s) for s, _ in tasks(node)) else None

        node = wait_until(called, "a thread of the host to be in Go")
        self.assertEqual([r["name"] for r in node["runtimes"]], ["go"])
        waiting = [(s, t) for s, t in tasks(node) if "main.waitsInLibrary" in functions(s)]
        self.assertEqual(len(waiting), 5)
        for stack, task in waiting:
            self.assertEqual(task["labels"], {"kind": "library"})
            self.assertEqual(functions(stack)[-2:], ["main.waitsInLibrary", "runtime.goexit"])
            self.assertEqual(stack["unwind"], "complete")
        main = [s for s in node["stacks"] if victim.pid in [t["tid"] for t in s.get("threads", [])]]
        self.assertEqual(len(main), 1)
        self.assertIn("main", functions(main[0]))

    def test_a_library_in_a_program_in_c(self):
        self.check_library(shared("go-library"))

    def test_go_that_python_calls_and_that_calls_python(self):
        """The frames of both stand in the order of calls."""
        program = ("import ctypes, os, sys, threading\n"
                   f"library = ctypes.CDLL({shared('go-library')!r})\n"
                   "inside = threading.Event()\n"
                   "@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)\n"
                   "def python_callback(n):\n"
                   "    inside.set()\n"
                   "    return len(sys.stdin.readline())\n"
                   "def through_go(): library.callBack(python_callback)\n"
                   "def sits_in_go(): library.sitInGo()\n"
                   "threading.Thread(target=through_go, daemon=True).start()\n"
                   "threading.Thread(target=sits_in_go, daemon=True).start()\n"
                   "inside.wait()\n"
                   "print('ready', os.getpid(), flush=True)\n"
                   "threading.Event().wait()\n")
        victim = self.program(["/usr/bin/python3", "-c", program])
        ways = (("python_callback", "main.relayInGo", "runtime.goexit", "through_go", "Thread.run"),
                ("main.sitInGo", "runtime.goexit", "sits_in_go", "Thread.run"))

        def found():
            got = [functions(s) for s, _ in tasks(self.node(victim.pid, "-n", "0", status=(0, 1)))]
            return [names for way in ways for names in got if [n for n in names if n in way] == list(way)]

        self.assertEqual(len(wait_until(lambda: len(found()) == 2 and found(), "both threads to be in Go")), 2)

    def test_a_library_that_does_not_say_so_in_its_first_page(self):
        self.check_library(shared("go-library-bare", "-ldflags=-s -w -buildid="))

    def test_plugins(self):
        for name, arguments in (("go-plugin", []), ("go-plugin-stripped", ["-ldflags=-s -w"])):
            with self.subTest(name):
                host = build(name + "-host", ["plugin_host/plugin_host.go"], arguments, cgo=True)
                victim = self.program([host, shared(name, *arguments, mode="plugin")], settled=False)

                def waiting():
                    node = self.node(victim.pid)
                    return [s for s, _ in tasks(node) if functions(s)[-2:-1] and
                            re.fullmatch(r"plugin/unnamed-\w+\.waitsInPlugin", functions(s)[-3])]

                stacks = wait_until(lambda: len(waiting()) == 3 and waiting(), "three goroutines to wait")
                for stack in stacks:
                    entry = stack["entries"][-3]
                    self.assertTrue(entry["file"].endswith("plugin.go"), entry)
                    self.assertEqual(stack["unwind"], "complete")

    def test_two_runtimes(self):
        """One of them is shown; of the other one a line says that it is there."""
        victim = self.program([build("go-two", ["two/two.go"], cgo=True), shared("go-library")], settled=False)

        def waiting():
            doc = self.json("-p", victim.pid)
            names = [functions(s)[-2] for s, _ in tasks(processes(doc)[victim.pid]) if len(functions(s)) > 1]
            return doc if "main.waitsInHost" in names or "main.waitsInLibrary" in names else None

        doc = wait_until(waiting, "goroutines to wait")
        self.assertEqual(len({s["entries"][-2]["module"] for s, _ in tasks(processes(doc)[victim.pid])
                              if functions(s)[-2].startswith("main.")}), 1)
        self.assertEqual([w["code"] for w in doc["warnings"]], ["runtime_unsupported"])
        self.assertIn("another runtime", doc["warnings"][0]["message"])

    # ---- which one it is ----

    def changed(self, changes):
        """A copy of the stripped zoo with other bytes of the same length."""
        with open(build("zoo-stripped", ["zoo.go", "zoo_plain.go"], ["-ldflags=-s -w"]), "rb") as file:
            program = file.read()
        for pattern, to in changes:
            found = set(re.findall(pattern, program))
            self.assertTrue(found, pattern)
            for text in found:
                program = program.replace(text, to(text))
        path = os.path.join(self.scratch(), "zoo")
        with open(path, "wb") as file:
            file.write(program)
        os.chmod(path, 0o755)
        return path

    OTHER_VERSION = (rb"go1\.\d\d\.\d+", lambda text: text[:4] + b"99" + text[6:])

    def test_a_version_that_nobody_knows(self):
        """Its goroutines tell where their fields are; they are held to the program's own dump."""
        program = self.changed([self.OTHER_VERSION])
        with zoo_go.Zoo(program, 200) as zoo:
            zoo_go.settle(zoo)
            node = self.node(zoo.pid)
            self.assertTrue(node["runtimes"][0]["version"].startswith("1.99"), node["runtimes"])
            dump = zoo_go.truth_go.parse_dump(zoo.profile(2))
            shown = {t["id"]: (s, t) for s, t in tasks(node)}
            self.assertGreater(len(shown), 200)
            self.assertLessEqual(set(shown), set(dump) | {"1"})
            for number, (stack, task) in shown.items():
                if number != "1":
                    self.assertEqual((task["state"], task.get("wait")), dump[number].state, number)
                    self.assertEqual(functions(stack)[-1], "runtime.goexit")

    def test_a_version_that_is_not_understood(self):
        """Nor do its goroutines tell: the runtime's own have other names there."""
        own = rb"\0runtime\.(?:forcegchelper|bgsweep|bgscavenge|gcenable)"
        program = self.changed([self.OTHER_VERSION, (own, lambda text: text[:-1] + b"X")])
        with zoo_go.Zoo(program, 50) as zoo:
            zoo_go.settle(zoo)
            node = self.refusal(zoo.pid, "Go 1.99")
            self.assertTrue(any("main.main" in functions(s) for s in node["stacks"]), node["stacks"])

    # ---- when it is looked at ----

    def names(self):
        """All functions of churn, by a build that has symbols."""
        program = build("churn", ["churn/churn.go"])
        text = subprocess.run(["readelf", "-sW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = {line.split(None, 7)[7] for line in text.splitlines() if len(line.split()) > 7 and "FUNC" in line}
        return {re.sub(r"\[.*\]", "[...]", re.sub(r"\.abi0$", "", name)) for name in found}

    def check_churn(self, node, known):
        for stack, task in tasks(node):
            names = functions(stack)
            for entry in stack["entries"]:
                if not entry.get("inlined") and entry.get("language") == "go" and entry["function"] != "panic":
                    self.assertIn(entry["function"], known)
            if stack["unwind"] == "complete":
                self.assertEqual(names[-1], "runtime.goexit")
            else:
                self.assertTrue(stack.get("unwind_detail") or stack["unwind"], stack)
            labels = task.get("labels", {})
            if labels:
                turn = {value[1:] for value in labels.values()}
                self.assertEqual((sorted(labels), len(turn)), (["a", "b", "c"], 1), labels)
                self.assertEqual([v[0] for _, v in sorted(labels.items())], ["a", "b", "c"])

    def test_what_changes_all_the_time(self):
        """The list grows, labels change, and the process becomes a new program between any two looks at it."""
        program, known = build("churn-stripped", ["churn/churn.go"], ["-ldflags=-s -w"]), self.names()
        victim = self.program(["nice", "-n", "15", program], settled=False)
        seen, labelled, looks = 0, 0, 0
        # Who gets no processor changes no labels: most looks see some, and none need.
        while looks < 15 or (looks < 300 and not labelled):
            looks += 1
            doc = self.json("-p", victim.pid, status=(0, 1, 2))
            node = processes(doc).get(victim.pid)
            self.assertIsNotNone(node)
            self.assertNotIn(node.get("error", {}).get("code"), ("exited", "zombie"), node)
            self.check_churn(node, known)
            seen += bool(tasks(node))
            labelled += any(t.get("labels") for _, t in tasks(node))
            for warning in doc["warnings"]:
                self.assertNotIn("crash", warning["message"])
        self.assertGreater(seen, 0)
        self.assertGreater(labelled, 0)

    # ---- what starts programs ----

    HELD = os.path.join(SOURCE, "tests", "runtime", "held_call.py")
    STARTING = ["syscall.forkAndExecInChild1", "syscall.forkAndExecInChild", "syscall.forkExec", "syscall.StartProcess",
                "os.startProcess", "os.StartProcess", "os/exec.(*Cmd).Start", "main.forks", "runtime.goexit"]

    def forking(self, call, bits):
        """A program that starts another one, and does not get beyond that system call."""
        program = build("forks-stripped", ["forks/forks.go"], ["-ldflags=-s -w"])
        return self.program([sys.executable, self.HELD, str(call), hex(bits), program], settled=False)

    @staticmethod
    def calls_of(stack):
        """All but what a version has around system calls, and what its linker adds to names."""
        return [re.sub(r"\.abi0$", "", name) for name in functions(stack) if name and "yscall6" not in name and
                not name.startswith(("syscall.RawSyscall", "syscall.Syscall"))]

    def check_calls_that_fork(self, calls):
        """Since Go 1.23 the first child is made to see whether the kernel knows CLONE_PIDFD."""
        if "os.checkClonePidfd" in calls:
            self.assertEqual(calls[:3], ["syscall.rawVforkSyscall", "syscall.doCheckClonePidfd", "os.checkClonePidfd"])
            calls = [calls[0], *self.STARTING[:4], *calls[calls.index("os.startProcess"):]]
        self.assertEqual(calls, ["syscall.rawVforkSyscall", *self.STARTING])

    def test_a_process_is_made_just_now(self):
        """The call that makes a child on the same stack has taken its return address off that."""
        victim = self.forking(56, 0x4000)  # clone with CLONE_VFORK

        def is_held():
            return any((read_file(f"/proc/{victim.pid}/task/{tid}/syscall") or "").startswith("56 ")
                       for tid in tids_of(victim.pid))

        wait_until(is_held, "the call to be held")
        stack, = [s for s, _ in tasks(self.node(victim.pid)) if "main.forks" in functions(s)]
        self.assertEqual(stack["unwind"], "complete")
        self.check_calls_that_fork(self.calls_of(stack))
        stack, = [s for s in self.node(victim.pid, "--runtimes", "none")["stacks"] if "main.forks" in functions(s)]
        self.assertEqual(stack["unwind"], "complete")
        self.check_calls_that_fork(self.calls_of(stack))
        self.assertFalse(any("trust" in entry for entry in stack["entries"]))

    def test_a_child_that_shares_its_stack(self):
        """Its parent's thread cannot be stopped, and what it saved long ago is not shown; it has no goroutines."""
        victim = self.forking(112, 0)  # setsid

        def child():
            for tid in tids_of(victim.pid):
                for pid in (read_file(f"/proc/{victim.pid}/task/{tid}/children") or "").split():
                    if (read_file(f"/proc/{pid}/syscall") or "").startswith("112 "):
                        return int(pid)
            return None

        pid = wait_until(child, "the child to be held")
        doc = self.json("-p", victim.pid, "--stop-all", status=1)
        stack, = [s for s, t in tasks(processes(doc)[victim.pid]) if t["state"] == "running"]
        self.assertEqual(stack["entries"], [])
        self.assertIn("registers", stack["unwind_detail"])
        self.assertEqual([w["code"] for w in doc["warnings"]], ["thread_not_stopped"], doc["warnings"])
        stack, = processes(doc)[pid]["stacks"]
        self.assertNotIn("runtimes", processes(doc)[pid])
        self.assertEqual(self.calls_of(stack), self.STARTING)

    def test_beginning_and_end(self):
        program, known = build("churn-stripped", ["churn/churn.go"], ["-ldflags=-s -w"]), self.names()
        for _ in range(15):
            process = subprocess.Popen(["nice", "-n", "15", program, "once"], stdout=subprocess.DEVNULL)
            try:
                while process.poll() is None:
                    got = run_tool(["--json", "-p", str(process.pid)])
                    self.check(got, (0, 1, 2))
                    for node in processes(got.doc).values():
                        if node["pid"] == process.pid:
                            self.check_churn(node, known)
            finally:
                process.kill()
                process.wait()
