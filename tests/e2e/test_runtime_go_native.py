# SPDX-License-Identifier: LGPL-2.1-or-later
"""Machine stacks of Go programs from which symbols and debug information were removed: by the table that each
carries they have the functions, files, lines and inlined calls that the same program has with them."""
import json
import os
import re
import sys

from harness import Case, SOURCE, functions, stacks_of, threads, wait_until
from test_runtime_go import build

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import zoo_go  # noqa: E402

SOURCES = ["zoo.go", "zoo_plain.go"]
WAYS = {
    "zoo": [],
    "zoo-symbols": ["-ldflags=-w"],
    "zoo-stripped": ["-ldflags=-s -w"],
    "zoo-pie": ["-buildmode=pie", "-ldflags=-s -w"],
}


def plain_name(name):
    """Linkers give functions that are written in assembly a suffix."""
    return re.sub(r"\.abi0$", "", name)


def places(stack):
    return [(plain_name(e["function"]), e.get("file"), e.get("line"), e.get("inlined", False)) for e in stack["entries"]]


class GoNative(Case):
    level = "all"
    asan = "all"

    def stacks(self, program):
        """All stacks of its threads, and that of its main goroutine, which reads."""
        with zoo_go.Zoo(program, 50) as zoo:
            zoo_go.settle(zoo)

            def reads():
                node = self.node(zoo.pid, "--runtimes", "none", "--per-thread", status=(0, 1))
                found = [s for s in node["stacks"] if "bufio.(*Scanner).Scan" in functions(s)]
                return (node["stacks"], found[0]) if found else None

            return wait_until(reads, "the main goroutine to read")

    def hold(self, program, cgo=False):
        all_stacks, main = self.stacks(program)
        self.assertEqual(main["unwind"], "complete")
        for stack in all_stacks:
            for entry in stack["entries"]:
                self.assertTrue(entry.get("function"), stack)
                self.assertNotIn("trust", entry, stack)
            last = plain_name(functions(stack)[-1])
            if stack["unwind"] == "complete":
                self.assertIn(last, ("runtime.goexit", "runtime.mstart", "runtime.mcall") +
                              (("start_thread", "clone3", "__clone3") if cgo else ()), stack)
            else:
                self.assertIn("another stack", stack["unwind_detail"], stack)
        return places(main)

    def test_without_symbols(self):
        truth = self.hold(build("zoo", SOURCES))
        self.assertIn(("os.(*File).read", "/usr/lib/go-1.19/src/os/file_posix.go", 31, True) if os.path.exists(
            "/usr/lib/go-1.19/src/os/file_posix.go") else truth[0], truth)
        self.assertTrue(any(inlined for _, _, _, inlined in truth))
        for name, arguments in list(WAYS.items())[1:]:
            with self.subTest(name):
                self.assertEqual(self.hold(build(name, SOURCES, arguments)), truth)

    def test_without_sections(self):
        truth = self.hold(build("zoo", SOURCES))
        program = build("zoo-no-sections", SOURCES, ["-ldflags=-s -w"])
        zoo_go.strip_section_headers(program)
        self.assertEqual(self.hold(program), truth)

    def test_linked_by_the_linker_of_c(self):
        truth = self.hold(build("zoo", SOURCES))
        for name, arguments in (("zoo-external-pie", ["-buildmode=pie", "-ldflags=-linkmode=external -s -w"]),
                                ("zoo-external-static", ["-ldflags=-linkmode=external -extldflags=-static -s -w"])):
            with self.subTest(name):
                program = build(name, ["zoo.go", "zoo_cgo.go"], arguments, cgo=True)
                _, main = self.stacks(program)
                # The packages of its library were compiled with other paths.
                self.assertEqual([(f, line, i) for f, _, line, i in places(main)],
                                 [(f, line, i) for f, _, line, i in truth])

    def test_frames_in_c(self):
        """Stripped: of C only what it exports has a name, yet no frame of it is missing."""
        for name, arguments in (("zoo-cgo", []), ("zoo-cgo-stripped", ["-ldflags=-s -w"])):
            with self.subTest(name), zoo_go.Zoo(build(name, ["zoo.go", "zoo_cgo.go"], arguments, cgo=True), 3) as zoo:
                zoo_go.settle(zoo)
                node = self.node(zoo.pid)
                stacks = [s for s in node["stacks"] + [s for n in node.get("logical", []) for s in n["stacks"]]
                          if "runtime.cgocall" in functions(s) and "pause" in functions(s)]
                self.assertEqual(len(stacks), 2)
                for stack in stacks:
                    names = functions(stack)
                    at = names.index("runtime.cgocall")
                    self.assertEqual(names[at:at + 2], ["runtime.cgocall", "main._Cfunc_sleep_in_c"])
                    # From glibc 2.41 on it is not itself that makes the call.
                    self.assertTrue(all(name is None or "syscall_cancel" in name for name in
                                        names[:names.index("pause")]), names)
                    self.assertGreaterEqual(at, names.index("pause") + 2, names)
                    self.assertNotIn("runtime.asmcgocall", names)
                    self.assertEqual((stack["unwind"], stack.get("unwind_detail")), ("complete", None))
                alone = self.node(zoo.pid, "--runtimes", "none", status=(0, 1))
                for stack in (s for s in alone["stacks"] if "pause" in functions(s)):
                    self.assertEqual(plain_name(functions(stack)[-1]), "runtime.asmcgocall")
                    self.assertIn("another stack", stack["unwind_detail"])

    def test_recorded(self):
        """What runs, in a handler of signals, too."""
        victim = self.program(["nice", "-n", "15", build("busy-stripped", ["busy/busy.go"], ["-ldflags=-s -w"])],
                              settled=False)
        folder = self.scratch()
        seen = set()

        def all_seen():
            path = os.path.join(folder, "out.json")
            self.run_tool("record", "-d", "0.5", "--hz", "50", "-f", "json", "-o", path, "-p", victim.pid,
                          status=(0, 1))
            with open(path) as file:
                node = json.load(file)["processes"][0]
            for stack in node["stacks"]:
                names = functions(stack)
                # Newer versions call it runtime.sigreturn__sigaction.
                seen.update(re.sub("__sigaction$", "", entry.get("symbol", "")) for entry in stack["entries"])
                for entry in stack["entries"]:
                    if entry.get("module", "").endswith("busy-stripped"):
                        self.assertTrue(entry.get("function") and entry.get("file"), stack)
                if "main.computes" in names and stack["unwind"] == "complete":
                    self.assertEqual(names[-2:], ["main.computes", "runtime.goexit"])
            return {"main.computes", "main.faults.func1", "runtime.sigreturn"} <= seen

        wait_until(all_seen, "all that runs to be seen", 60)

    # ---- goroutines whose thread is elsewhere ----

    def place_of(self, stack):
        """Where the thread of a goroutine that runs stands."""
        names = [plain_name(e.get("function", "")) for e in stack["entries"]]
        if any(name.startswith(("runtime.sigtramp", "runtime.cgoSigtramp")) for name in names):
            return "signal"
        if any(name in ("runtime.systemstack", "runtime.morestack", "runtime.mcall") for name in names):
            return "scheduler"
        return "vdso" if any(e.get("module") == "[vdso]" for e in stack["entries"]) else "own"

    def look_until(self, program, wanted, end):
        """Snapshots until goroutines were seen in all those places: their stacks are whole, or are too deep."""
        victim = self.program(["nice", "-n", "15", program], settled=False)
        seen = set()

        def all_seen():
            # All other programs come before this one, so its threads may take long to stop.
            node = self.node(victim.pid, "--threads", "--stop-timeout", "20000", status=(0, 1))
            own = threads(node)
            for stack in stacks_of(node):
                for task in stack.get("tasks", []):
                    if stack["unwind"] == "complete":
                        self.assertEqual(functions(stack)[-1], "runtime.goexit")
                    else:
                        self.assertTrue(stack.get("unwind_detail"), stack)
                    seen.update(end(stack, task))
                    if task["state"] == "running" and task.get("tid") in own and stack["unwind"] == "complete":
                        seen.add(self.place_of(own[task["tid"]][1]))
            return wanted <= seen

        wait_until(all_seen, f"goroutines in {wanted}", 90)

    def test_goroutines_on_every_stack(self):
        self.look_until(build("busy-stripped", ["busy/busy.go"], ["-ldflags=-s -w"]),
                        {"own", "scheduler", "vdso", "signal"}, lambda stack, task: ())

    def test_what_computes_in_c_and_in_go(self):
        """C frames down to the call, then the goroutine; Go that C has called stands on the goroutine that called C."""

        def places_seen(stack, task):
            names = functions(stack)
            if "main.computesInGo" in names and "main.callsC" in names:
                self.assertLess(names.index("main.computesInGo"), names.index("runtime.cgocall"))
                yield "Go in C in Go"
            if "runtime.cgocall" in names and names[0] == "computes_in_c" and "main.staysInC" in names:
                self.assertNotIn("runtime.asmcgocall", names)
                yield "C in Go"
            if names[0] == "computes_in_c" and "calls_go" in names:
                self.assertIn("main.callsC", names)
                yield "C in C in Go"

        self.look_until(build("busy-cgo", ["busy_cgo/busy_cgo.go"], cgo=True),
                        {"Go in C in Go", "C in Go", "C in C in Go"}, places_seen)
