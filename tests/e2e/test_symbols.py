# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where names and lines come from: separate debug files found and refused, compressed sections,
DWARF versions, split DWARF, dwz, MiniDebugInfo, stripped programs."""
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys

from harness import (TOOL, Case, at_level, build_once, functions, missing, need, need_namespaces, need_root, run_tool,
                     source_target)

SOURCES = [source_target(f) for f in ("chain.c", "f0.c", "f1.c", "f2.c", "f3.c")]
CHAIN = ("chain_hold", "f3", "f2", "f1", "f0", "main")
FLAGS = ["-O1", "-fno-optimize-sibling-calls", "-fno-ipa-icf", "-fcf-protection=none"]


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


def build_id_of(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path)).group(1)


class Debug(Case):
    level = "test"
    asan = "all"

    def build(self, *flags, name="chain", folder=None, link=()):
        """A copy of the program with those flags, which is compiled once."""
        need("gcc", "objcopy", "readelf")
        command = ["gcc", *FLAGS, *(flags or ("-g",)), "-Wl,--build-id=sha1", "-o", "{out}", *SOURCES, *link]
        made = build_once("chain-" + hashlib.sha1(" ".join(command).encode()).hexdigest()[:12], command)
        return shutil.copy(made, os.path.join(folder or self.scratch(), name))

    def split(self, path, *, link=True):
        """Moves the debug information out; returns the debug file."""
        debug = path + ".debug"
        run("objcopy", "--only-keep-debug", path, debug)
        run("strip", path)
        if link:
            run("objcopy", "--add-gnu-debuglink=" + debug, path)
        return debug

    def stack(self, path, *arguments, status=(0, 1)):
        victim = self.program([path])
        return self.node(victim.pid, *arguments, status=status)["stacks"][0]

    def assert_whole(self, stack, lines=True):
        at = self.assert_calls(stack, *CHAIN)
        if lines:
            self.assertTrue(stack["entries"][at].get("line"), stack["entries"][at])
            for entry in stack["entries"][at + 1:at + 6]:
                self.assertTrue(entry.get("line"), entry)
                self.assertRegex(entry["file"], r"(chain|f\d)\.c$")

    def assert_nameless(self, stack, path):
        names = functions(stack)
        self.assertNotIn("f2", names)
        for entry in stack["entries"]:
            if entry.get("module") == path:
                self.assertRegex(entry["offset"], "^0x")

    def test_dwarf_versions_and_compression(self):
        for flags in (("-g", "-gdwarf-4"), ("-g", "-gdwarf-5"), ("-g", "-gz"), ("-g", "-gz=zlib-gnu"),
                      ("-g", "-gdwarf-4", "-gz"), ("-g", "-fdebug-types-section"), ("-g1",), ("-g3",)):
            with self.subTest(flags=flags):
                self.assert_whole(self.stack(self.build(*flags)))

    def test_sections_packed_by_zstd(self):
        """Read, and told where they cannot be."""
        path = self.build("-g")
        run("objcopy", "--compress-debug-sections=zstd", path)
        shutil.copy(path, path + "-damaged")
        self.assert_whole(self.stack(path))
        path += "-damaged"
        said = subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(path, "r+b") as file:
            file.seek(int(re.search(r"\.debug_info +PROGBITS +\w+ (\w+)", said).group(1), 16))
            file.write(b"\x63")  # the kind of packing, which is none
        run_of = self.run_tool("-p", self.program([path]).pid, status=1)
        self.assertIn("section .debug_info cannot be unpacked, or is too large", run_of.err)

    def test_no_debug_information(self):
        stack = self.stack(self.build("-g0"), status=0)
        self.assert_calls(stack, *CHAIN)
        self.assertFalse(any("line" in e for e in stack["entries"] if e.get("function") in CHAIN))

    def test_functions_that_were_folded(self):
        """Name, file and line are of one function: that of which DWARF has the code."""
        need("g++", "ld.gold")
        victim = self.program([build_once("folded", ["g++", "-g", "-O1", "-fno-ipa-icf", "-ffunction-sections", "-fuse-ld=gold",
                                                     "-Wl,--icf=all", source_target("folded.cc"), "-o", "{out}"])])
        entries = self.node(victim.pid)["stacks"][0]["entries"]
        entry = entries[next(i for i, e in enumerate(entries) if e.get("function") == "main") - 1]
        with open(source_target("folded.cc"), encoding="ascii") as file:
            lines = file.read().splitlines()
        self.assertEqual(entry["function"], "store_the_order(int)")
        self.assertEqual(lines[entry["line"] - 3], "__attribute__((noinline)) int store_the_order(int n)", entry)

    def test_dollar_names(self):
        """Swift's functions; "$x" and "$d.3" are marks between code and data."""
        need("gcc", "objcopy")
        victim = self.program([build_once("dollar_names", ["sh", "-c", f"gcc -O2 {source_target('no_cfi_sizes.c')} -o {{out}} && "
            "objcopy --redefine-sym 'middle=$s4demo5inneryySiF' --redefine-sym 'large=$d' --redefine-sym 'small=$x.3' {out}"])])
        names = functions(self.node(victim.pid)["stacks"][0])
        self.assertIn("$s4demo5inneryySiF", names)
        self.assertEqual([n for n in names if n and n.startswith("$")], ["$s4demo5inneryySiF"])

    def test_stripped_falls_back_to_dynsym(self):
        path = self.build("-g")
        run("strip", path)
        self.assert_nameless(self.stack(path), path)
        exported = self.build("-g", link=["-rdynamic"])
        run("strip", exported)
        self.assert_whole(self.stack(exported), lines=False)
        text_victim = self.program([path])
        self.assertRegex(self.run_tool("-p", text_victim.pid, status=(0, 1)).text, r"\?\? \+0x[0-9a-f]+\s+chain")

    def test_which_files_have_no_symbols(self):
        path = self.build("-g")
        subprocess.run(["strip", path], check=True)
        victim = self.program([path])
        stacks = self.node(victim.pid)["stacks"]
        unnamed = [e for stack in stacks for e in stack["entries"] if e.get("module") == path and "function" not in e]
        self.assertGreater(len(unnamed), 1)
        self.assertRegex(self.run_tool("-p", victim.pid).text, rf"\nno symbols: {os.path.basename(path)} \({len(unnamed)} frames\)[,:].* "
                         r"--debug-dir or --debuginfod\n")
        self.assertNotIn("no symbols", self.run_tool("-p", victim.pid, "-q").text)

    def test_package_of_the_symbols(self):
        """As lists of apt know it, where they are not packed."""
        need_root()
        need("unshare", "mount", "readelf")
        need_namespaces("-m")
        path, lists = self.build("-g"), self.scratch()
        subprocess.run(["strip", path], check=True)
        notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        ident = re.search("Build ID: ([0-9a-f]+)", notes).group(1)
        with open(os.path.join(lists, "debug_main_Packages"), "w", encoding="utf-8") as file:
            file.write(f"Package: other-dbgsym\nBuild-Ids: {'ab' * 20}\n\nPackage: chain-dbgsym\nBuild-Ids: {ident}\n\n")
        tool = os.path.join(lists, "tool")
        with open(tool, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec unshare -m sh -c \'mkdir -p /var/lib/apt/lists && mount --bind "$1" '
                       f'/var/lib/apt/lists && shift && exec "$@"\' sh {lists} {TOOL} "$@"\n')
        os.chmod(tool, 0o755)
        text = self.run_tool("-p", self.program([path]).pid, tool=tool).text
        self.assertIn(" frames): chain-dbgsym, --debug-dir or --debuginfod", text.replace("\n ", ""))

    def test_debuglink_beside_the_file(self):
        path = self.build("-g")
        self.split(path)
        self.assert_whole(self.stack(path))

    def test_debuglink_in_a_debug_folder(self):
        path = self.build("-g")
        debug = self.split(path)
        folder = os.path.join(os.path.dirname(path), ".debug")
        os.mkdir(folder)
        shutil.move(debug, folder)
        self.assert_whole(self.stack(path))

    def test_debuglink_with_a_wrong_crc_is_refused(self):
        path = self.build("-g", link=["-Wl,--build-id=none"])
        debug = self.split(path)
        with open(debug, "ab") as f:
            f.write(b"\0")
        self.assert_nameless(self.stack(path), path)

    def test_wrong_build_id_is_refused(self):
        path = self.build("-g")
        self.split(path)
        other = self.build("-g", "-DOTHER", "-O2", name="chain")
        wrong = self.split(other)
        shutil.copy(wrong, path + ".debug")
        self.assert_nameless(self.stack(path), path)

    def test_fifo_as_a_debug_file(self):
        path = self.build("-g")
        debug = self.split(path)
        os.unlink(debug)
        os.mkfifo(debug)
        self.assert_nameless(self.stack(path), path)

    def test_build_id_folder(self):
        path = self.build("-g")
        debug = self.split(path, link=False)
        ident = build_id_of(path)
        folder = self.scratch()
        place = os.path.join(folder, ".build-id", ident[:2])
        os.makedirs(place)
        shutil.move(debug, os.path.join(place, ident[2:] + ".debug"))
        self.assert_nameless(self.stack(path), path)
        self.assert_whole(self.stack(path, "--debug-dir", folder, status=0))
        self.assert_whole(self.stack(path, f"--debug-dir={self.scratch()}", "--debug-dir", folder))

    def test_wrong_file_in_the_build_id_folder_is_refused(self):
        path = self.build("-g")
        self.split(path, link=False)
        other = self.split(self.build("-g", "-O2"), link=False)
        ident = build_id_of(path)
        folder = self.scratch()
        place = os.path.join(folder, ".build-id", ident[:2])
        os.makedirs(place)
        shutil.move(other, os.path.join(place, ident[2:] + ".debug"))
        self.assert_nameless(self.stack(path, "--debug-dir", folder), path)

    def test_corrupt_debug_file(self):
        path = self.build("-g")
        debug = self.split(path, link=False)
        data = bytearray(open(debug, "rb").read())
        ident = build_id_of(path)
        import random
        for seed in range(8):
            chance = random.Random(seed)
            bad = bytearray(data)
            for _ in range(60):
                bad[chance.randrange(0x400, len(bad))] = chance.randrange(256)
            folder = self.scratch()
            place = os.path.join(folder, ".build-id", ident[:2])
            os.makedirs(place)
            with open(os.path.join(place, ident[2:] + ".debug"), "wb") as f:
                f.write(bad if seed else bytes(data[:len(data) // 2]))
            stack = self.stack(path, "--debug-dir", folder)
            self.assertEqual(stack["unwind"], "complete")

    def test_minidebuginfo(self):
        need("xz", "nm")
        path = self.build("-g")
        mini = path + ".mini"
        run("objcopy", "-S", "--remove-section", ".gdb_index", "--remove-section", ".comment",
            "--keep-symbol=f0", "--keep-symbol=f1", "--keep-symbol=f2", "--keep-symbol=f3",
            "--keep-symbol=chain_hold", "--keep-symbol=main", path, mini)
        debug = path + ".dbg"
        run("objcopy", "--only-keep-debug", path, debug)
        run("objcopy", "-S", "--keep-symbol=f0", "--keep-symbol=f1", "--keep-symbol=f2", "--keep-symbol=f3",
            "--keep-symbol=chain_hold", "--keep-symbol=main", debug, mini)
        run("xz", "-f", mini)
        run("strip", path)
        run("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", path)
        os.unlink(debug)
        self.assert_whole(self.stack(path), lines=False)

    def dwz_pair(self):
        need("dwz")
        folder = self.scratch()
        first = self.build("-g", "-gdwarf-4", name="one", folder=folder)
        second = self.build("-g", "-gdwarf-4", "-DSECOND", name="two", folder=folder)
        done = subprocess.run(["dwz", "-m", "common.alt", "-r", "one", "two"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(os.path.join(folder, "common.alt")):
            self.skipTest("kernel: dwz found nothing in common: " + done.stdout[:100])
        return folder, first, second

    def test_dwz(self):
        folder, first, _ = self.dwz_pair()
        self.assert_whole(self.stack(first))

    def test_dwz_alt_file_missing_or_fifo(self):
        folder, first, second = self.dwz_pair()
        alt = os.path.join(folder, "common.alt")
        os.unlink(alt)
        self.assert_calls(self.stack(first), *CHAIN)
        os.mkfifo(alt)
        self.assert_calls(self.stack(second), *CHAIN)

    def test_split_dwarf(self):
        folder = self.scratch()
        objects = []
        for name in ("chain", "f0", "f1", "f2", "f3"):
            run("gcc", *FLAGS, "-g", "-gsplit-dwarf", "-c", source_target(name + ".c"), "-o", name + ".o",
                cwd=folder)
            objects.append(name + ".o")
        path = os.path.join(folder, "chain")
        run("gcc", "-o", path, *objects, cwd=folder)
        self.assert_whole(self.stack(path))
        for name in ("f1.dwo", "f2.dwo"):
            os.unlink(os.path.join(folder, name))
        os.mkfifo(os.path.join(folder, "f2.dwo"))
        self.assert_calls(self.stack(path), *CHAIN)

    def split_units(self, compiler, *flags):
        """A program of two units; what is inlined stands in outer.dwo and inner.dwo alone."""
        need(compiler)
        folder = self.scratch()
        for name, more in ("outer", ("-DOUTER",)), ("inner", ()):
            run(compiler, "-O2", "-g", "-gsplit-dwarf", *flags, *more, "-c", source_target("split_units.cc"), "-o",
                name + ".o", cwd=folder, env=dict(os.environ, CCACHE_DISABLE="1"))  # a cached object names its first folder
        run(compiler, "-o", "prog", "outer.o", "inner.o", cwd=folder)
        return os.path.join(folder, "prog")

    def calls_of(self, path, *arguments, lost=""):
        """From pause() to main, without arguments; `lost`: the file whose loss is told."""
        got = self.run_tool("-p", self.program([path]).pid, "--json", *arguments, status=1 if lost else 0)
        told = [w["message"] for w in got.doc["warnings"] if w["code"] == "module_symbols"]
        self.assertEqual(told, [f"{path}: inlined functions of {lost} (--debug-dir)"] if lost else [], got)
        names = [name and name.split("(")[0] for name in functions(got.doc["processes"][0]["stacks"][0])]
        return names[names.index("unload") - (not lost):names.index("main")]

    WITHOUT_INLINED = ["unload", "deliver"]
    WHOLE = ["sit", "unload", "lift", "carry", "deliver"]

    def check_package(self, path, *command):
        run(*command, "-e", "prog", "-o", "prog.dwp", cwd=os.path.dirname(path), timeout=60)
        for name in "outer.dwo", "inner.dwo":
            os.unlink(os.path.join(os.path.dirname(path), name))
        self.assertEqual(self.calls_of(path), self.WHOLE)
        folder = self.scratch()
        shutil.move(path + ".dwp", folder)
        self.assertEqual(self.calls_of(path, "--debug-dir", folder), self.WHOLE)
        self.assertEqual(self.calls_of(path, lost="2 units are missing: outer.dwo and others"), self.WITHOUT_INLINED)
        self.check_damaged_index(path, os.path.join(folder, "prog.dwp"))

    def check_damaged_index(self, path, package):
        """It costs the inlined functions of its own program."""
        table = package + ".index"
        run("objcopy", "--dump-section", ".debug_cu_index=" + table, package)
        with open(table, "rb") as file:
            whole = file.read()
        columns, units, slots = struct.unpack_from("<III", whole, 4)
        rows = 16 + 8 * slots
        changes = {16 + 12 * slots: 77}
        changes |= {rows + 4 * slot: 0xfffffff0 for slot in range(slots)}
        changes |= {rows + 4 * slots + 4 * i: 0xfffffff0 for i in range(columns, columns * (1 + units))}
        for part in ({4: 17}, {8: 0xffffffff}, {12: 0xffffffff}, {12: slots - 1}, {0: 9}, changes):
            damaged = bytearray(whole)
            for at, word in part.items():
                struct.pack_into("<I", damaged, at, word)
            with open(table, "wb") as file:
                file.write(damaged)
            run("objcopy", "--update-section", ".debug_cu_index=" + table, package)
            with self.subTest(part=part):
                self.assertEqual(self.calls_of(path, "--debug-dir", os.path.dirname(package),
                                               lost="2 units are missing: outer.dwo and others"), self.WITHOUT_INLINED)

    def test_packages_of_split_dwarf(self):
        need("dwp")
        for flags in (), ("-fdebug-types-section",):
            with self.subTest(flags=flags):
                self.check_package(self.split_units("g++", "-gdwarf-4", *flags), "dwp")

    @at_level("all")
    def test_packages_of_dwarf_5(self):
        need("llvm-dwp")  # dwp of binutils 2.40 crashes; LLVM 14's does not end with what gcc 12 writes
        self.check_package(self.split_units("clang++", "-gdwarf-5", "-fno-split-dwarf-inlining"), "llvm-dwp")

    def test_split_dwarf_with_type_units(self):
        for flags in ("-gdwarf-5",), ("-gdwarf-4",):
            with self.subTest(flags=flags):
                path = self.split_units("g++", "-fdebug-types-section", *flags)
                self.assertEqual(self.calls_of(path), self.WHOLE)
                os.unlink(os.path.join(os.path.dirname(path), "inner.dwo"))
                names = self.calls_of(path, lost="1 unit are missing: inner.dwo")
                self.assertEqual(names, self.WHOLE[1:])

    def test_clang_says_what_is_inlined_in_the_skeleton(self):
        path = self.split_units("clang++", "-fsplit-dwarf-inlining")
        for name in "outer.dwo", "inner.dwo":
            os.unlink(os.path.join(os.path.dirname(path), name))
        self.assertEqual(self.calls_of(path), self.WHOLE)

    def test_clang(self):
        need("clang")
        for flags in (("-g",), ("-g", "-gdwarf-4"), ("-g", "-fdebug-types-section")):
            folder = self.scratch()
            path = os.path.join(folder, "chain")
            run("clang", "-O1", "-fno-optimize-sibling-calls", "-fno-inline", *flags, "-o", path, *SOURCES, cwd=folder)
            with self.subTest(flags=flags):
                self.assert_whole(self.stack(path))

    def test_lines_are_addr2lines(self):
        need("addr2line")
        for flags in (("-g", "-gdwarf-4"), ("-g", "-gdwarf-5"), ("-g", "-O2", "-gdwarf-5")):
            path = self.build(*flags)
            stack = self.stack(path)
            compared = 0
            for entry in stack["entries"]:
                if entry.get("module") != path or entry.get("inlined") or "line" not in entry:
                    continue
                # The last of the inline chain is the function itself.
                said = run("addr2line", "-i", "-e", path, entry["offset"]).split("\n")[-2].split(" ")[0]
                self.assertEqual(f"{entry['file']}:{entry['line']}", said, entry)
                compared += 1
            self.assertGreaterEqual(compared, 6)


class Languages(Case):
    """Names as gdb shows them to users of these languages, and without debug information as far as symbols say."""
    level = "all"

    def check_calls(self, path, *calls, name=None):
        victim = self.program([path])
        stack = self.stack_of(self.node(victim.pid, status=(0, 1)), name=name) if name else \
            self.node(victim.pid, status=(0, 1))["stacks"][0]
        self.assert_calls(stack, *calls)
        return stack

    def test_manglings_of_newer_compilers(self):
        """Names that the demangler does not know are those of DWARF, where that is there."""
        need("g++", "strip")
        path = os.path.join(self.scratch(), "newer")
        run("g++", "-O1", "-g", source_target("newer.cpp"), "-o", path)
        self.check_calls(path, "box::A::method", "box::through", "box::inl", "main")
        run("strip", "-g", "-o", path + "-stripped", path)
        self.check_calls(path + "-stripped", "_ZNH3box1A6methodETk1CS0_i", "_ZN3box7throughITk1CiEvT_", "main")
        text = self.run_tool("-v", "-p", str(self.program([path + "-stripped"]).pid), status=(0, 1)).text
        self.assertIn("the demangler does not know names such as _ZN", text)

    def test_fortran(self):
        need("gfortran", "strip")
        path = os.path.join(self.scratch(), "journeys")
        run("gfortran", "-g", "-O0", source_target("journeys.f90"), "-o", path, cwd=os.path.dirname(path))
        stack = self.check_calls(path, "journeys::rest", "travel::inner", "journeys::travel", "main_trip", "main")
        self.assertIn("__journeys_MOD_rest", [entry.get("symbol") for entry in stack["entries"]])
        run("strip", "-g", "-o", path + "-stripped", path)
        self.check_calls(path + "-stripped", "journeys::rest", "inner.0", "journeys::travel", "MAIN__", "main")

    def test_ada(self):
        need("gnatmake")
        path = os.path.join(self.scratch(), "travel")
        run("gnatmake", "-q", "-g", source_target("travel.adb"), "-o", path, cwd=os.path.dirname(path))
        self.check_calls(path, "travel.journeys.rest", "travel", "main", name="travel")
        stack = self.check_calls(path, "travel.journeys.rest", "travel.journeys.rest", "travel.journeys.worker", name="w")
        self.assertIn("system.task_primitives.operations.monotonic.timed_delay", functions(stack))
        self.assertIn("travel__journeys__rest__2.2", [entry.get("symbol") for entry in stack["entries"]])
