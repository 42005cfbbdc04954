# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tail-called functions have no frame, and are shown by call sites of the debug information (analyze/tails.c)."""
import os
import re
import subprocess

from harness import Case, build_once, functions, need, processes, run_tool, source_target, threads


class Tails(Case):
    asan = True

    WAYS = {"chain": ["second", "first"], "fork": ["fork_of_ways"], "cycle": ["even_one"], "any": ["any_way"],
             "far": ["far_away", "to_far"]}

    def build(self, compiler, *options):
        source, flags = source_target("tail_calls.c"), ["-O2", "-fno-optimize-strlen", *options]
        if compiler == "clang":
            flags.remove("-fno-optimize-strlen")
        name = "tails-" + compiler + "".join(options)
        far = build_once(name + ".o", [compiler, *flags, "-DFAR", "-c", "-o", "{out}", source])
        return build_once(name, [compiler, *flags, "-o", "{out}", source, far])

    def look(self, pid, *options, **more):
        stack, = [stack for _, stack in threads(processes(self.json("-p", pid, *options, **more))[pid]).values()]
        return stack

    def check_ways(self, program):
        for which, expected in self.WAYS.items():
            with self.subTest(which):
                stack = self.look(self.program([program, which]).pid)
                names = functions(stack)
                after = names.index("stand_still") + 1
                self.assertEqual(names[after:names.index("main")], expected)
                marked = [entry["function"] for entry in stack["entries"] if entry.get("tail_call")]
                self.assertEqual(marked, expected)

    def test_gcc(self):
        for options in (["-g"], ["-g", "-gdwarf-4"], ["-g", "-gsplit-dwarf"]):
            with self.subTest(options):
                self.check_ways(self.build("gcc", *options))

    def test_clang(self):
        need("clang")
        self.check_ways(self.build("clang", "-g"))

    def test_lines_are_those_of_gdb(self):
        need("gdb")
        victim = self.program([self.build("gcc", "-g"), "chain"])
        stack = self.look(victim.pid)
        done = subprocess.run(["gdb", "-p", str(victim.pid), "-batch", "-ex", "bt"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        theirs = re.findall(r"^#\d+ .*?(\w+) \(.* at .*:(\d+)$", done.stdout, re.M)
        ours = [(entry["function"], str(entry["line"])) for entry in stack["entries"] if entry.get("line")]
        self.assertIn("first", dict(theirs), done.stdout)
        for name in ("stand_still", "second", "first", "main"):
            self.assertEqual(dict(ours)[name], dict(theirs)[name], name)

    def test_no_guess(self):
        """Without debug information none is shown, nor with --no-inlines."""
        names = functions(self.look(self.program([self.build("gcc"), "chain"]).pid))
        self.assertFalse({"first", "second"} & set(names), names)
        victim = self.program([self.build("gcc", "-g"), "chain"])
        names = functions(self.look(victim.pid, "--no-inlines"))
        self.assertFalse({"first", "second"} & set(names), names)

    def test_all_outputs(self):
        """Text marks them; a saved capture and JSON render to the same."""
        victim = self.program([self.build("gcc", "-g"), "chain"])
        text = self.run_tool("-p", victim.pid).text
        self.assertRegex(text, r"\n +› second  +.*tail_calls\.c:\d+\n +› first ")
        folder = self.scratch()
        capture, document = os.path.join(folder, "t.capture"), os.path.join(folder, "t.json")
        self.run_tool("-p", victim.pid, "--save-capture", capture)
        self.run_tool("render", capture, "-o", document, "-f", "json")
        rendered = [run_tool(["render", path]).text.split("\n", 1)[1] for path in (capture, document)]
        self.assertEqual(rendered[0], rendered[1])
        self.assertIn("› first", rendered[0])
        merged = self.run_tool("merge", document, document, "-f", "json").text
        self.assertIn('"tail_call": true', merged)
        self.assertIn("first;second;stand_still", re.sub(r"_\[.\]", "", self.run_tool("-p", victim.pid, "-f", "folded").text))
