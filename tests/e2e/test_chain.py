# SPDX-License-Identifier: LGPL-2.1-or-later
"""The known chain in C, C++, Rust and Go: names, lines, inlined functions, and how much is shown."""
import os
import re
import subprocess

from harness import (Case, TARGETS, build_once, functions, need, source_target, threads)


class Chain(Case):
    asan = True

    def test_names_lines_modules(self):
        victim = self.victim("chain")
        node = self.node(victim.pid)
        self.assertEqual(len(node["stacks"]), 1)
        stack = node["stacks"][0]
        at = self.assert_calls(stack, "chain_hold", "f3", "f2", "f1", "f0", "main")
        for entry, name in zip(stack["entries"][at:], ["chain", "f3", "f2", "f1", "f0", "chain"]):
            self.assertTrue(entry["file"].endswith(f"tests/targets/{name}.c"), entry)
            self.assertEqual(entry["module"], os.path.join(TARGETS, "chain"))
            self.assertTrue(entry["build_id"])
        lines = {e["function"]: e["line"] for e in stack["entries"][at:at + 6]}
        for name in ("f0", "f1", "f2", "f3"):
            text = open(source_target(name + ".c")).read().splitlines()
            self.assertIn("got = ", text[lines[name] - 1])
        self.assertEqual(functions(stack)[-1], "_start")
        self.assertEqual(stack["unwind"], "complete")
        self.assertEqual(stack["threads"][0]["syscall"], "read")
        self.assertEqual(stack["threads"][0]["state"], "sleeping")
        self.assertEqual(node["exe"], os.path.join(TARGETS, "chain"))
        self.assertEqual(node["args"], [os.path.join(TARGETS, "chain")])

    def test_innermost_first_in_text(self):
        victim = self.victim("chain")
        text = self.run_tool("-p", victim.pid).text
        places = [text.index(" " + name + " ") for name in ("chain_hold", "f3", "f2", "f1", "f0", "main")]
        self.assertEqual(places, sorted(places))
        self.assertRegex(text, r"f2\.c:\d+")
        self.assertIn(f"chain[{victim.pid}]", text)

    def test_a_narrow_terminal_has_files_and_lines(self):
        victim = self.victim("chain")
        places = {f"{os.path.basename(entry['file'])}:{entry['line']}"
                  for entry in self.node(victim.pid)["stacks"][0]["entries"] if "file" in entry and not entry.get("system")}
        self.assertGreater(len(places), 4)
        for width in range(28, 90, 3):
            for flags in ((), ("--full-names",)):
                text = self.run_tool("-p", victim.pid, "--width", width, *flags).text
                self.assertEqual({place for place in places if place not in text}, set(), text)

    def test_addresses_without_symbols(self):
        victim = self.victim("chain")
        stack = self.node(victim.pid, "-q")["stacks"][0]
        for entry in stack["entries"]:
            self.assertNotIn("function", entry)
            self.assertNotIn("line", entry)
            self.assertRegex(entry["address"], "^0x[0-9a-f]+$")
        whole = self.node(victim.pid, "--no-inlines")["stacks"][0]
        self.assertEqual([e["address"] for e in whole["entries"]],
                         [e["address"] for e in stack["entries"]])

    def test_bare_pid_and_eu_stack_letters(self):
        victim = self.victim("chain")
        for arguments in ([victim.pid], ["-i", "-s", "-p", victim.pid], [f"--pid={victim.pid}"]):
            self.assertIn("chain_hold", self.run_tool(*arguments).text)

    def test_module_and_build_id_columns(self):
        victim = self.victim("chain")
        node = self.node(victim.pid)
        build_id = next(e["build_id"] for e in node["stacks"][0]["entries"] if e.get("function") == "f1")
        self.assertIn(build_id, self.run_tool("-b", victim.pid).text)
        self.assertIn("chain", self.run_tool("-m", victim.pid).text)

    def test_max_frames_keeps_head_and_tail(self):
        victim = self.victim("chain")
        whole = self.node(victim.pid, "-n", "0", "--no-inlines")["stacks"][0]
        for wanted in (1, 2, 4, 6):
            cut = self.node(victim.pid, "-n", wanted, "--no-inlines")["stacks"][0]
            self.assertEqual(len(cut["entries"]), wanted)
            if wanted == 1 and cut["unwind"] == "limit":
                continue  # the head alone: nobody looked for the tail
            gap = cut["gap"]
            self.assertEqual(gap["count"] + wanted, len(whole["entries"]))
            head = gap["after"] + 1 if len(cut["entries"]) > gap["after"] else gap["after"]
            self.assertEqual(cut["entries"][0], whole["entries"][0])
            if wanted > 1:
                self.assertEqual(cut["entries"][-1], whole["entries"][-1])
            self.assertLessEqual(head, wanted)
        self.assertNotIn("gap", self.node(victim.pid, "-n", 512)["stacks"][0])

    def test_no_lines(self):
        victim = self.victim("chain")
        for entry in self.node(victim.pid, "--no-lines")["stacks"][0]["entries"]:
            self.assertNotIn("line", entry)
            self.assertNotIn("file", entry)

    def test_static_programs(self):
        for name in ("chain_static", "chain_static_pie"):
            victim = self.victim(name)
            stack = self.node(victim.pid)["stacks"][0]
            self.assert_calls(stack, "chain_hold", "f3", "f2", "f1", "f0", "main")
            self.assertEqual(functions(stack)[-1], "_start")
            self.assertEqual(stack["unwind"], "complete")


class Languages(Case):
    asan = True

    def addr2line(self, module, offset, *flags):
        done = subprocess.run(["addr2line", "-e", module, "-f", "-C", "-i", *flags, offset],
                              stdout=subprocess.PIPE, check=True, text=True)
        lines = done.stdout.splitlines()
        return list(zip(lines[::2], lines[1::2]))

    def test_inlined_chain_is_addr2lines(self):
        need("addr2line")
        victim = self.victim("inlined")
        stack = self.node(victim.pid)["stacks"][0]
        self.assertTrue(any(e.get("inlined") for e in stack["entries"]), functions(stack))
        self.assert_calls(stack, "demo::Ring<int>::hold(int const&)")
        module = os.path.join(TARGETS, "inlined")
        groups, group = [], []
        for entry in stack["entries"]:
            group.append(entry)
            if not entry.get("inlined"):
                groups.append(group)
                group = []
        checked = 0
        for group in groups:
            if group[-1].get("module") != module or "function" not in group[-1]:
                continue
            if group[-1]["function"] == "_start":
                continue
            places = self.addr2line(module, group[-1]["offset"])
            self.assertEqual(len(places), len(group), (places, group))
            for depth, ((name, place), entry) in enumerate(zip(places, group)):
                # For the innermost of an inline chain addr2line may take the symbol's name instead.
                word = re.match(r"~?\w+", name.split("(")[0].split("::")[-1])
                if word and (depth or len(group) == 1):
                    self.assertIn(word.group(), entry["function"], (places, group))
                line = re.search(r":(\d+)", place)
                if line and line.group(1) != "0":
                    self.assertEqual(int(line.group(1)), entry["line"], (place, entry))
                    self.assertEqual(os.path.basename(place.split(":")[0]),
                                     os.path.basename(entry["file"]))
            checked += 1
        self.assertGreater(checked, 3)

    def test_no_inlines_leaves_machine_frames(self):
        victim = self.victim("inlined")
        some = self.node(victim.pid, "--no-inlines")["stacks"][0]
        self.assertFalse(any(e.get("inlined") for e in some["entries"]))

    def test_raw_names(self):
        victim = self.victim("inlined")
        raw = functions(self.node(victim.pid, "-r", "--no-inlines")["stacks"][0])
        self.assertIn("_ZN4demo4RingIiE4holdERKi", raw)
        whole = self.node(victim.pid, "--no-inlines")["stacks"][0]
        hold = next(e for e in whole["entries"] if "hold" in e.get("function", ""))
        self.assertEqual(hold["symbol"], "_ZN4demo4RingIiE4holdERKi")

    def rust(self, mangling):
        return build_once("rusty-" + mangling, [
            # The older of the two schemes asks for an unstable option in some versions.
            "rustc", "-g", "-Copt-level=1", "-Zunstable-options", "-Csymbol-mangling-version=" + mangling,
            "-o", "{out}", source_target("rusty.rs")], env=dict(os.environ, RUSTC_BOOTSTRAP="1"))

    def check_rust(self, mangling):
        victim = self.program([self.rust(mangling)])
        stack = self.node(victim.pid)["stacks"][0]
        names = " ".join(filter(None, functions(stack)))
        for wanted in ("stop_here", "rusty", "travel", "call_it", "main"):
            self.assertIn(wanted, names)
        self.assertNotIn("_ZN5rusty", names)
        self.assertNotIn("_RN", names)
        self.assertIsNone(re.search(r"::h[0-9a-f]{16}\b", names), names)
        self.assertEqual(stack["unwind"], "complete")
        self.assertTrue(any(e.get("file", "").endswith("rusty.rs") for e in stack["entries"]))
        for entry in stack["entries"]:
            library = "/library/" in entry.get("file", "") and "rusty" not in entry["function"]
            if library or "rusty::" in entry["function"]:
                self.assertEqual(entry.get("system", False), library, entry)
        text = self.run_tool("-p", victim.pid, "-v").text
        self.assertRegex(text, r"library/std/src/rt\.rs:\d+")
        self.assertNotIn("/rustc/", text)
        # Debian's own compiler has its library in /usr/src.
        if any("/rustc/" in entry.get("file", "") for entry in stack["entries"]):
            self.assertIn("/rustc/", self.run_tool("-p", victim.pid, "-v", "--full-names").text)

    def test_rust_legacy(self):
        self.check_rust("legacy")

    def test_rust_v0(self):
        self.check_rust("v0")

    def test_go_threads(self):
        need("go")
        program = build_once("gothreads", ["go", "build", "-o", "{out}", source_target("gothreads.go")],
                             env=dict(os.environ, GOFLAGS="-mod=mod", GO111MODULE="off", CGO_ENABLED="0",
                                      GOCACHE=os.path.join(os.path.dirname(TARGETS), "made", "go-cache")))
        victim = self.program([program], settled=False)
        node = self.node(victim.pid, "--per-thread", "--runtimes", "none", status=(0, 1))
        self.assertGreaterEqual(len(threads(node)), 5)
        reading = [s for s in node["stacks"] if "main.parked" in functions(s)]
        self.assertEqual(len(reading), 4, [functions(s) for s in node["stacks"]])
