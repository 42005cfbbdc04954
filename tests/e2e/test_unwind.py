# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks that are hard to unwind, and the engines held to each other address for address."""
import json
import os
import re
import resource
import struct
import subprocess

from harness import (Case, addresses, bpf_works, build_once, functions, need, proc_state, processes, source_target,
                     threads, tids_of, wait_until)

# Without BPF, --no-stop has no registers that lead to another stack.
STOPS = ((), ("--no-stop",)) if bpf_works() else ((),)

# The functions of no_cfi_sizes.c that are on its stack.
OF_ALL_SIZES = ["waits", "behind_jump", "middle", "by_pointer", "large", "small", "main"]


class Hard(Case):
    level = "test"
    asan = "all"

    def weird(self, mode, status=(0, 1)):
        victim = self.victim("cfi", mode, running=1)
        node = self.node(victim.pid, "-n", "0", status=status, timeout=60)
        main = [s for s in node["stacks"] if "victim_hold" in functions(s)]
        self.assertEqual(main[0]["unwind"], "complete")
        return self.stack_of(node, name="weird")

    def test_signal_frames(self):
        for mode, extra in (("plain", ()), ("alt", ()), ("malloc", ()), ("nested", ("on_second",)), ("fault", ())):
            victim = self.victim("signals", mode)
            stack = self.node(victim.pid)["stacks"][0]
            got = functions(stack)
            self.assertEqual(stack["unwind"], "complete", (mode, got))
            order = ["victim_hold", "in_handler", *extra, "on_first", "interrupted",
                     "caller_of_interrupted", "main", "_start"]
            places = [got.index(n) for n in order]
            self.assertEqual(places, sorted(places), (mode, got))
            at = got.index("on_first") + 1
            self.assertEqual(got[at], "<signal handler called>", got)
            self.assertTrue(stack["entries"][at]["system"], got)
            self.assertIn("<signal handler called>", self.run_tool("-p", victim.pid).text)
            for option in "-r", "-q":
                self.assertNotIn("<signal handler", self.run_tool("-p", victim.pid, option).text)

    def test_calls_of_what_is_no_code(self):
        """The caller is where the call has pushed it, below a handler of the signal, too."""
        for mode, address in (("null", "0x0"), ("wild", "0x7000000000")):
            victim = self.victim("signals", mode)
            for options in STOPS:
                stack = self.node(victim.pid, *options)["stacks"][0]
                frames = [e for e in stack["entries"] if not e.get("inlined")]
                at = next(i for i, e in enumerate(frames) if e["address"] == address)
                self.assertEqual([e.get("function") for e in frames[at - 2:at + 4]],
                                 ["on_first", "<signal handler called>", None, "interrupted", "caller_of_interrupted", "main"])
                self.assertEqual(stack["unwind"], "complete")

    def chain_without_frame_pointers(self):
        """A program's path, its bytes, and the places of its header of .eh_frame: that of the segment, of the
        section, and of the header itself."""
        path = os.path.join(self.scratch(), "whole")
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", path,
                        *[source_target(f) for f in ("chain.c", "f0.c", "f1.c", "f2.c", "f3.c")]], check=True)
        with open(path, "rb") as file:
            whole = file.read()
        segments, sections = struct.unpack_from("<QQ", whole, 32)
        count, _, section_count = struct.unpack_from("<3H", whole, 56)
        segment = next(at for at in range(segments, segments + 56 * count, 56)
                       if struct.unpack_from("<I", whole, at) == (0x6474e550,))  # PT_GNU_EH_FRAME
        header, = struct.unpack_from("<Q", whole, segment + 8)
        section = next(at for at in range(sections, sections + 64 * section_count, 64)
                       if struct.unpack_from("<Q", whole, at + 24) == (header,))
        return path, whole, segment, section, header

    def stack_of_changed(self, path, whole, place, data):
        with open(path, "wb") as file:
            file.write(whole[:place] + data + whole[place + len(data):])
        os.chmod(path, 0o755)
        return self.node(self.program([path]).pid, "--raw", status=(0, 1))["stacks"][0]

    def assert_sure(self, stack):
        self.assert_calls(stack, "chain_hold", "f3", "f2", "f1", "f0", "main")
        self.assertEqual(stack["unwind"], "complete")
        self.assertEqual([entry["trust"] for entry in stack["entries"] if "trust" in entry], [])

    def assert_overflowed(self, stack, outer):
        """From the handler to where the recursion began: of a stack pointer that lies below its mapping."""
        got = functions(stack)
        self.assertEqual(stack["unwind"], "complete", got[:8] + got[-8:])
        places = [got.index(n) for n in ("in_handler", "on_first", "<signal handler called>", "overflows", "interrupted",
                                         "caller_of_interrupted", outer)]
        self.assertEqual(places, sorted(places), got[:8] + got[-8:])
        self.assertGreater(got.count("overflows"), 50)

    def test_overflowed_stacks(self):
        for mode, outer in (("overflow", "main"), ("thread", "runs_in_thread")):
            victim = self.victim("signals", mode, settled=False)
            for options in STOPS:
                stacks = self.node(victim.pid, "-n", "0", *options)["stacks"]
                self.assert_overflowed(next(s for s in stacks if "overflows" in functions(s)), outer)
            run = self.run_tool("record", victim.pid, "-d", "0.5", "-f", "folded", status=(0, 1))
            lines = [line for line in run.text.splitlines() if "on_first" in line]
            self.assertTrue(lines and all("interrupted" in line and outer in line for line in lines), run.text[:2000])

    def test_headers_of_eh_frame_in_any_form(self):
        """Where its table is of no use, .eh_frame is read in turn."""
        need("gcc", "objcopy")
        path, whole, segment, _, header = self.chain_without_frame_pointers()
        relative = b"\x3b" + whole[header + 2:header + 4] + \
            struct.pack("<i", struct.unpack_from("<i", whole, header + 4)[0] + 4)
        forms = {"empty segment": (segment + 32, bytes(16)), "no table": (header + 2, b"\xff\xff"),
                 "pointer of 8 bytes": (header + 1, b"\x1c"), "table of 8 bytes": (header + 3, b"\x3c"),
                 "unknown version": (header, b"\x02"), "relative to the header": (header + 1, relative)}
        for name, (place, data) in forms.items():
            with self.subTest(name):
                self.assert_sure(self.stack_of_changed(f"{path} {name}", whole, place, data))
        subprocess.run(["objcopy", "-R", ".eh_frame_hdr", path, path + " no section"], check=True)
        self.assert_sure(self.node(self.program([path + " no section"]).pid, "--raw")["stacks"][0])

    def test_headers_where_libdw_goes_by_segments(self):
        """It does where it finds no names of sections: what it would take is not what was checked."""
        need("gcc")
        path, whole, _, _, header = self.chain_without_frame_pointers()
        relative = b"\x3b" + whole[header + 2:header + 4] + \
            struct.pack("<i", struct.unpack_from("<i", whole, header + 4)[0] + 4)
        odd = whole[:header + 1] + relative + whole[header + 1 + len(relative):]
        sections, = struct.unpack_from("<Q", whole, 40)
        names, = struct.unpack_from("<H", whole, 62)
        for name, place, data in (("names of another kind", sections + 64 * names + 4, struct.pack("<I", 1)),
                                  ("no names", 62, bytes(2))):
            with self.subTest(name):
                stack = self.stack_of_changed(f"{path} {name}", odd, place, data)
                self.assertTrue(stack["unwind"] != "complete" or any("trust" in e for e in stack["entries"]), stack)

    def test_stacks_of_several_mappings(self):
        """A part that mlock() or madvise() was asked about is a mapping of its own."""
        victim = self.victim("split_stack")
        documents = [self.node(victim.pid, *options)["stacks"] for options in STOPS]
        if bpf_works():  # else nothing tells the thread pointer of a thread that was never stopped
            recording = os.path.join(self.scratch(), "recording.json")
            self.run_tool("record", "-d", "1", "-o", recording, victim.pid)
            with open(recording, encoding="utf-8") as file:
                documents.append(json.load(file)["processes"][0]["stacks"])
        for stacks in documents:
            self.assertEqual(sorted({"main", "thread_main"}.intersection(sum(map(functions, stacks), []))), ["main", "thread_main"])
            for stack in stacks:
                self.assertEqual(functions(stack).count("descends"), 20)
                self.assertEqual(stack["unwind"], "complete")

    def assert_moved(self, node, how):
        stack, = node["stacks"]
        self.assert_calls(stack, "victim_hold", "works", "plans", "main")
        works = next(e for e in stack["entries"] if e.get("function") == "works")
        self.assertEqual((stack["unwind"], [e for e in stack["entries"] if "trust" in e]), ("complete", []), how)
        self.assertIn("moved_code", os.path.basename(works["module"]), how)
        return works

    def test_code_that_was_moved_to_memory(self):
        """Programs move their code to huge pages at the same addresses."""
        for how in ("anonymous", "memfd", "part"):
            victim = self.victim("moved_code", how)
            works = {self.assert_moved(self.node(victim.pid, *options), how)["line"] for options in ((), ("--no-stop",))}
            self.assertEqual(len(works), 1)

    def test_moved_code_of_segments_that_are_far_apart(self):
        need("gcc")
        path = os.path.join(self.scratch(), "moved_code")
        subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-Wl,-z,max-page-size=0x200000", "-D_GNU_SOURCE",
                        "-pthread", "-o", path, source_target("moved_code.c")], check=True)
        for how in ("anonymous", "memfd"):
            self.assert_moved(self.node(self.program([path, how]).pid), how)

    def test_line_of_a_faulting_frame_is_not_moved(self):
        """Below a signal frame the pc itself is looked up, not the byte before it."""
        victim = self.victim("signals", "fault")
        stack = self.node(victim.pid)["stacks"][0]
        entry = next(e for e in stack["entries"] if e.get("function") == "interrupted")
        source = open(entry["file"]).read().splitlines() if os.path.exists(entry["file"]) else None
        if source is None:
            from harness import source_target
            source = open(source_target("signals.c")).read().splitlines()
        self.assertIn("*nowhere = 1", source[entry["line"] - 1])

    def test_frame_pointers_without_cfi(self):
        victim = self.victim("cfi", "fp")
        stack = self.stack_of(self.node(victim.pid), name="weird")
        self.assert_calls(stack, "held", "fp_middle", "fp_outer", "weird_main")
        self.assertEqual(stack["unwind"], "guessed")
        # The function above has no unwind information: so were these two found.
        self.assertEqual(self.trust(stack, "held", "fp_middle", "fp_outer", "weird_main"),
                         [None, None, "frame_pointer", "frame_pointer"])

    def trust(self, stack, *names):
        found = {e.get("function"): e.get("trust") for e in stack["entries"]}
        return [found[name] for name in names]

    def test_neither_cfi_nor_frame_pointer(self):
        stack = self.weird("no_fp")
        self.assertEqual(functions(stack)[:2], ["no_fp", "weird_main"])
        self.assertEqual(self.trust(stack, "no_fp", "weird_main"), [None, "scan"])
        self.assertEqual(stack["unwind"], "scanned")
        self.assertNotIn("unwind_detail", stack)

    def test_frames_of_all_sizes(self):
        """By what the code up to the pc does to the stack pointer; a function that jumped there is on no stack."""
        for compiler, *flags in (["gcc", "-O1"], ["gcc", "-O2"], ["gcc", "-Os"], ["clang", "-O2"], ["gcc", "-O2", "-static"]):
            with self.subTest(compiler=compiler, flags=flags):
                program = build_once("no_cfi_sizes" + "".join([compiler, *flags]), [
                    compiler, *flags, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer",
                    source_target("no_cfi_sizes.c"), "-o", "{out}"])
                victim = self.program([program])
                for options in ((), ("--no-stop",)):
                    stack = self.node(victim.pid, *options)["stacks"][0]
                    names = functions(stack)
                    first = names.index("waits")
                    # With -O1 it calls.
                    self.assertEqual([n for n in names[first:] if n != "jumps"][:len(OF_ALL_SIZES)], OF_ALL_SIZES, options)
                    self.assertEqual(stack["unwind"], "scanned", names)

    def test_rust_without_cfi(self):
        """The stacks of a program, most in the standard library, are those that its call frame information leads to."""
        need("rustc", "objcopy")
        program = build_once("sleepers", ["rustc", "-O", source_target("sleepers.rs"), "-o", "{out}"])
        bare = os.path.join(self.scratch(), "sleepers")
        subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", program, bare], check=True)
        stacks = []
        for path in (program, bare):
            victim = self.program([path])
            stacks.append({thread["name"]: functions(stack, inlined=False)
                           for stack in self.node(victim.pid)["stacks"] for thread in stack["threads"]})
        self.assertEqual(len(stacks[0]), 6)
        self.assertEqual(stacks[0]["receive"].count(next(f for f in stacks[0]["receive"] if f and "descends" in f)), 13)
        self.assertEqual(stacks[1], stacks[0])

    def test_no_search_table(self):
        """Entries of .eh_frame are read in turn: without a table for them, and where it was cut out of the file."""
        need("gcc", "objcopy")
        source = source_target("no_cfi_sizes.c")
        for name, command in (("none", f"gcc -O2 -Wl,--no-eh-frame-hdr {source} -o {{out}}"),
                              ("cut", f"gcc -O2 {source} -o {{out}} && objcopy -R .eh_frame_hdr {{out}}")):
            victim = self.program([build_once("no_table_" + name, ["sh", "-c", command])])
            stack = self.node(victim.pid)["stacks"][0]
            self.assertEqual([n for n in functions(stack) if n in OF_ALL_SIZES], OF_ALL_SIZES, name)
            self.assertEqual(stack["unwind"], "complete", name)

    def test_leaf_without_cfi_keeps_its_caller(self):
        """rbp is that of a function further out: following it would leave out the caller."""
        stack = self.weird("leaf")
        self.assertEqual(functions(stack)[:4], ["leaf", "leaf_inner", "leaf_outer", "weird_main"])
        self.assertEqual(self.trust(stack, "leaf", "leaf_inner", "leaf_outer", "weird_main"),
                         [None, "scan", None, None])
        self.assertEqual(stack["unwind"], "scanned")
        victim = self.victim("cfi", "leaf", running=1)
        capture = os.path.join(self.scratch(), "capture")
        recording = os.path.join(self.scratch(), "it.snaprec")
        self.run_tool("-p", victim.pid, "--save-capture", capture, status=(0, 1))
        node = self.run_tool("render", capture, "--json", status=(0, 1)).doc["processes"][0]
        again = self.stack_of(node, name="weird")
        self.assertEqual([(e.get("function"), e.get("trust")) for e in stack["entries"]],
                         [(e.get("function"), e.get("trust")) for e in again["entries"]])
        recorded = None
        for _ in range(5):  # on a busy machine a thread that runs is not stopped in time
            self.run_tool("record", "-p", victim.pid, "-d", "0.5", "-o", recording, status=(0, 1), timeout=60)
            node = self.run_tool("render", recording, "--json", status=(0, 1)).doc["processes"][0]
            recorded = recorded or next((s for s in node["stacks"] if "leaf" in functions(s)), None)
        self.assertIsNotNone(recorded, node["stacks"])
        self.assertEqual(recorded["unwind"], "scanned")
        self.assertEqual(self.trust(recorded, "leaf", "leaf_inner", "leaf_outer"), [None, "scan", None])

    def test_cycle_of_frame_pointers(self):
        stack = self.weird("cycle")
        self.assertEqual(functions(stack)[0], "fp_cycle")
        self.assertIn(stack["unwind"], ("cycle", "no_cfi"))
        self.assertLess(len(stack["entries"]), 20)

    def test_creeping_cfa_ends(self):
        stack = self.weird("creep")
        self.assertEqual(functions(stack)[0], "creep")
        self.assertLessEqual(len(stack["entries"]), 5000)

    def test_endless_cfi_expression_ends(self):
        stack = self.weird("endless")
        self.assertEqual(functions(stack)[0], "endless")

    def test_smashed_registers(self):
        stack = self.weird("bad_stack")
        self.assertEqual(functions(stack)[0], "bad_stack")
        self.assertNotEqual(stack["unwind"], "complete")
        self.assertTrue(stack["unwind_detail"])

    def test_plt_stubs(self):
        for mode in ("stub", "zero"):
            victim = self.victim("plt", mode, running=1)
            stack = self.stack_of(self.node(victim.pid), name="in-plt")
            got = functions(stack)
            self.assertIn("calls_the_stub", got[:3], (mode, got))
            self.assertIn("stub_main", got)
            self.assertEqual(stack["unwind"], "complete", (mode, got))

    def test_call_at_the_very_end_of_a_function(self):
        victim = self.victim("noreturn")
        stack = self.node(victim.pid)["stacks"][0]
        self.assert_calls(stack, "never_returns", "ends_in_a_call", "main")
        self.assertNotIn("innocent_neighbour", functions(stack))

    def test_first_function_without_cfi(self):
        """Its name says that the stack is whole; without symbols nobody can know."""
        victim = self.victim("bare")
        stack = self.node(victim.pid)["stacks"][0]
        self.assert_calls(stack, "bare_hold", "bare_main", "_start")
        self.assertEqual(stack["unwind"], "complete", stack)
        self.assertNotIn("unwind_detail", stack)
        nameless = self.node(victim.pid, "-q")["stacks"][0]
        self.assertEqual(nameless["unwind"], "no_cfi", nameless)
        self.assertIn("no unwind information", nameless["unwind_detail"])

    def test_vdso_frame(self):
        """A thread that asks for the time all day is met inside the vDSO sooner or later."""
        victim = self.program(["/usr/bin/python3", "-c", SPINNING_CLOCK], running=1)
        for _ in range(60):
            node = self.node(victim.pid, status=(0, 1))
            stack = node["stacks"][0]
            # The kernel of aarch64 writes no CFI for it, and x30 is believed if a call stands before that.
            self.assertIn(stack["unwind"], ("complete",) if os.uname().machine == "x86_64" else ("complete", "scanned"),
                          stack)
            inside = [e for e in stack["entries"] if e.get("module") == "[vdso]"]
            if inside:
                # Where the clock is a paravirtual one, it calls another function, which is not exported.
                self.assertTrue(any("clock_gettime" in e.get("function", "") for e in inside), stack)
                return
        self.skipTest("kernel: the thread was never met in the vDSO")


SPINNING_CLOCK = """
import os, sys, threading, time
print("ready", os.getpid(), flush=True)
clock, monotonic = time.clock_gettime_ns, time.CLOCK_MONOTONIC
import select
while not select.select([0], [], [], 0)[0]:
    for _ in range(20000):
        clock(monotonic)
"""


class Deep(Case):
    level = "all"

    def test_a_million_frames(self):
        victim = self.victim("deep", 1000000)
        node = self.node(victim.pid)
        stack = self.stack_of(node, name="diver")
        got = functions(stack)
        self.assertEqual(len(got), 512)
        self.assertEqual(stack["unwind"], "limit", stack["unwind"])
        self.assertIn("bottom", got[:4])
        deep = ("-n", "0", "--max-stack", str(256 << 20))
        got = self.run_tool("-p", victim.pid, "--json", *deep, timeout=120)
        # Counted in the text: a tree of so many objects would take Python minutes to check.
        self.assertEqual(got.raw.count(b'"function": "descend"'), 1000001)
        self.assertEqual(got.raw.count(b'"unwind": "complete"'), 2)
        text = self.run_tool("-p", victim.pid, *deep, timeout=120).text
        self.assertIn("descend × 1000000", text)
        self.assertLess(len(text.splitlines()), 60)

    def test_functions_that_call_each_other_in_turn(self):
        for turns, inner, outer in ((2, "answer ← ask", "ask → answer"),
                                    (3, "forward ← answer ← ask", "ask → answer → forward")):
            victim = self.victim("deep", 40 * turns, turns)
            text = self.run_tool("-p", victim.pid, "-n", "0").text
            self.assertRegex(text, rf"(?m)^[│ ]+ask +.*deep\.c:\d+\n[│ ]+\({inner}\) × 40 +.*deep\.c:\d+\n[│ ]+deep_main ")
            for width in 80, 200:
                options = "--call-tree", "-n", "0", "--width", width
                self.assertIn(f"({outer}) × 40 → ask", self.run_tool("-p", victim.pid, *options).text)
                self.assertIn(f"× 40 ←",
                              self.run_tool("-p", victim.pid, *options, "--reverse").text)
            self.assertIn(f"({outer}) × 40 ", self.run_tool("-p", victim.pid, "--call-tree", "-n", "0", "-v").text)
            # What -n leaves out is in no cycle.
            self.assertRegex(self.run_tool("-p", victim.pid, "-n", "30").text, r"(?s)× \d+ .* left out .* × \d+")

    def test_head_and_tail_around_a_gap(self):
        victim = self.victim("deep", 5000)
        stack = self.stack_of(self.node(victim.pid), name="diver")
        got = functions(stack)
        self.assertEqual(len(got), 512)
        self.assertIn("deep_main", got[-5:])
        whole = self.stack_of(self.node(victim.pid, "-n", "0"), name="diver")
        self.assertEqual(stack["gap"]["count"], len(whole["entries"]) - 512)
        self.assertEqual(stack["unwind"], "complete")
        text = self.run_tool("-p", victim.pid).text
        self.assertRegex(text, r"descend.*× \d+")
        self.assertLess(len(text.splitlines()), 60)


class Engines(Case):
    """One capture, unwound by each engine: what the fast one says is what the references say."""
    level = "test"

    def compare(self, victim, least=1, may_end_early=False):
        folder = self.scratch()
        capture = os.path.join(folder, "capture")
        self.run_tool("-p", victim.pid, "--engine=ptrace", "--no-sandbox", "--save-capture", capture, "-n", "0",
                      status=(0, 1), timeout=120)
        found = {}
        for engine in ("auto", "libunwind", "ptrace"):
            got = self.run_tool("render", capture, "--json", "--per-thread", "--no-inlines", "-n", "0",
                                "--engine", engine, status=(0, 1), timeout=120)
            found[engine] = {(pid, tid): addresses(stack)
                             for pid, node in processes(got.doc).items()
                             for tid, (_, stack) in threads(node).items()
                             if stack["unwind"] not in ("not_stopped",)}
        self.assertGreaterEqual(len(found["auto"]), least)
        self.assertEqual(found["auto"].keys(), found["ptrace"].keys())
        for engine in ("ptrace", "libunwind"):
            for key, pcs in found["auto"].items():
                theirs = found[engine][key]
                if may_end_early and theirs == pcs[:len(theirs)]:
                    continue
                self.assertEqual([hex(a) for a in pcs], [hex(a) for a in theirs],
                                 f"auto and {engine} differ on {key}")

    def test_victims(self):
        for name, arguments in (("chain", ()), ("chain_static", ()), ("chain_static_pie", ()),
                                ("inlined", ()), ("signals", ("plain",)), ("signals", ("alt",)),
                                ("signals", ("nested",)), ("noreturn", ()), ("family", ()),
                                ("threads", ("futex:20:w:12", "epoll:20:p:3", "pipe:5:r", "sem:4:s"))):
            with self.subTest(victim=name, arguments=arguments):
                # Without .eh_frame_hdr, which a static program lacks, libunwind finds no CFI.
                self.compare(self.victim(name, *arguments), may_end_early=name == "chain_static")

    def test_spinning_threads_in_one_stop(self):
        victim = self.victim("threads", "spin:4:busy:10", "futex:10:w:4", running=4)
        for _ in range(5):
            self.compare(victim, 15)

    def test_plt(self):
        if os.uname().machine != "x86_64":
            self.skipTest("arch: linkers of x86-64 alone write CFI for stubs, and libunwind knows nothing else of them")
        for mode in ("stub", "zero"):
            self.compare(self.victim("plt", mode, running=1), 2)
