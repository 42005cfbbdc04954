# SPDX-License-Identifier: LGPL-2.1-or-later
"""The rules of the house, read from the sources: who includes whom, which file is the one door to a
foreign library, what the shared library shows."""
import os
import re
import subprocess

from harness import BUILD, Case, SOURCE, TOOL, need

LIB = os.path.join(SOURCE, "lib")
STAGES = ("capture", "analyze", "render")
# The rooms that make up the stage of capture.
CAPTURE = {"bpf", "proc", "discover", "stop", "sample", "capture", "core"}

# include -> the only files that may have it, as regular expressions on the path below lib/
DOORS = {
    r"sys/ptrace\.h|linux/ptrace\.h": r"stop/(child/)?\w+\.c|analyze/unwind/engine_ptrace\.c",
    r"libunwind[\w-]*\.h": r"analyze/unwind/engine_\w+\.c",
    r"jansson\.h": r"store/json/\w+\.c",
    r"libiberty/\w+\.h|demangle\.h": r"analyze/symbol/demangle\w*\.c",
    r"(elfutils/)?libdw(fl)?\.h|libelf\.h|gelf\.h|(elfutils/)?libdwelf\.h":
        r"analyze/(elf|dwarf|unwind|symbol)/\w+\.c",
    r"elfutils/debuginfod\.h": r"roles/file_opener/download\.c",
    r"linux/bpf\.h|bpf/(bpf_|skel_)\w+\.h": r"bpf/threads(\.bpf)?\.c",
    r"zstd\.h": r"core/unpack\.c|analyze/elf/image_section\.c",
    r"lz4frame\.h": r"core/unpack\.c",
    r"getopt\.h": r"(?!)",
}
FOREIGN = re.compile(r"\b(Elf|Elf_Scn|Elf_Data|Dwarf\w*|Dwfl\w*|GElf_\w+|unw_\w+|json_t|struct user_regs_struct)\b")


def sources(*extensions, below=LIB):
    for folder, _, names in os.walk(below):
        for name in sorted(names):
            if name.endswith(extensions):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as f:
                    yield os.path.relpath(path, below), f.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def includes(text):
    return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.M)


class Layers(Case):
    def test_arrows_run_one_way(self):
        allowed = {
            "base": {"base"},
            "model": {"base", "model"},
            "bpf": {"base", "model", "bpf"},
            "proc": {"base", "model", "proc"},
            "discover": {"base", "model", "proc", "discover"},
            "stop": {"base", "model", "bpf", "proc", "stop"},
            "sample": {"base", "model", "bpf", "proc", "discover", "stop", "sample"},
            "capture": {"base", "model"} | CAPTURE - {"core"},
            "core": {"base", "model", "proc", "stop", "core"},
            "analyze": {"base", "model", "analyze"},
            "diff": {"base", "model", "diff"},
            "store": {"base", "model", "store"},
            "containers": {"base", "model", "store", "containers"},
            "merge": {"base", "model", "store", "merge"},
            "render": {"base", "model", "store", "render"},
            "files": {"base", "model", "files"},
            "roles": {"base", "model", "store", "analyze", "files", "render", "roles"} | CAPTURE,
            "watch": {"base", "model", "analyze", "watch"} | CAPTURE,
            "record": {"base", "model", "store", "analyze", "files", "roles", "record"} | CAPTURE,
        }
        bad = []
        for path, text in sources(".c", ".h"):
            own = path.split("/")[0]
            if own not in allowed:
                continue
            for include in includes(text):
                other = include.split("/")[0] if "/" in include else None
                if include.startswith(("stacksnap.h", "api/", "pipeline.h")) or \
                        (other in allowed and other not in allowed[own]):
                    bad.append(f"{path} includes {include}")
        self.assertEqual(bad, [])

    def test_stages_never_include_each_other(self):
        for path, text in sources(".c", ".h"):
            own = path.split("/")[0]
            for include in includes(text):
                other = include.split("/")[0]
                own, other = ("capture" if room in CAPTURE else room for room in (own, other))
                self.assertFalse(own in STAGES and other in STAGES and own != other, f"{path}: {include}")

    def test_private_headers_are_included_by_their_own_folder(self):
        bad = []
        for path, text in sources(".c", ".h"):
            for include in includes(text):
                if re.search(r"(^|/|_)internal\.h$", include) and os.path.dirname(include) != os.path.dirname(path):
                    bad.append(f"{path} includes {include}")
        self.assertEqual(bad, [])
        # Each one more is a room whose files cannot be told apart.
        self.assertLessEqual(len([p for p, _ in sources(".h") if p.endswith("internal.h")]), 12)

    def test_no_folder_is_a_heap(self):
        """About 20 files a room; who adds the 25th makes a room of what belongs together."""
        for folder, _, names in os.walk(LIB):
            count = sum(name.endswith((".c", ".h")) for name in names)
            self.assertLess(count, 25, os.path.relpath(folder, LIB))

    def test_lists_of_sources_are_sorted(self):
        for folder, _, names in os.walk(LIB):
            if "meson.build" in names:
                with open(os.path.join(folder, "meson.build")) as f:
                    listed = re.findall(r"^  '(\w+\.c)',$", f.read(), re.M)
                self.assertEqual(listed, sorted(listed), folder)
                if folder != LIB:
                    self.assertEqual(listed, sorted(n for n in names if re.fullmatch(r"\w+\.c", n)), folder)

    def test_one_door_for_every_foreign_library(self):
        bad = []
        for path, text in sources(".c", ".h"):
            for include in includes(text):
                for pattern, doors in DOORS.items():
                    if re.fullmatch(pattern, include) and not re.fullmatch(doors, path):
                        bad.append(f"{path} includes {include}")
        self.assertEqual(bad, [])

    def test_proc_is_named_in_one_place(self):
        bad = []
        for path, text in sources(".c", ".h"):
            if path in ("proc/procfs.c", "base/reopen.c"):
                continue
            for string in re.findall(r'"(?:[^"\\\n]|\\.)*"', without_comments(text)):
                if re.search(r"/proc\b", string):
                    bad.append(f"{path}: {string}")
        self.assertEqual(bad, [])

    def test_the_machine_is_asked_for_in_few_places(self):
        """Whatever understands a capture goes by the capture's processor."""
        allowed = {"model/arch/registers.h", "bpf/running.c", "stop/child/copy.c", "roles/sandbox/fstat_trap.c",
                   "roles/sandbox/seccomp.c", "roles/unwinder/exchange.h"}
        found = {path for path, text in sources(".c", ".h")
                 if re.search(r"__(x86_64|aarch64)__", without_comments(text))}
        self.assertEqual(found, allowed)
        # libunwind is built for one processor.
        own = {path for path, text in sources(".c", ".h", below=os.path.join(LIB, "analyze"))
               if "SNAP_OWN_" in without_comments(text)}
        self.assertEqual(own, {"unwind/engine_libunwind.c", "unwind/engine_ptrace.c", "unwind/unwind.c"})

    def test_no_foreign_type_in_a_header(self):
        bad = []
        for path, text in sources(".h"):
            found = FOREIGN.search(without_comments(text))
            if found:
                bad.append(f"{path}: {found.group()}")
        self.assertEqual(bad, [])

    def test_cli_sees_the_public_header_only(self):
        bad = []
        own = {n for n, _ in sources(".h", below=os.path.join(SOURCE, "cli"))}
        for path, text in sources(".c", ".h", below=os.path.join(SOURCE, "cli")):
            for include in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
                if include not in own and include != "stacksnap.h":
                    bad.append(f"cli/{path} includes {include}")
        self.assertEqual(bad, [])

    def test_curses_has_one_door(self):
        with_curses = [path for path, text in sources(".c", ".h", below=os.path.join(SOURCE, "cli"))
                       if any(re.fullmatch(r"n?curses\w*\.h|term\.h", include) for include in includes(text))]
        self.assertEqual(with_curses, ["top/screen.c"])

    def test_one_door_for_the_http_library(self):
        seen = {path for path, text in sources(".c", ".h", below=os.path.join(SOURCE, "cli"))
                if "microhttpd.h" in includes(text)}
        self.assertEqual(seen, {"serve/library.h"})

    def test_the_http_library_is_loaded_by_who_serves(self):
        """Linked, with what it needs, it would be a cost of each start of every command."""
        needed = subprocess.run(["readelf", "-d", TOOL], stdout=subprocess.PIPE, check=True, text=True).stdout
        self.assertIn("libdw", needed)
        self.assertNotIn("libmicrohttpd", needed)

    def test_library_does_not_print_or_exit(self):
        bad = []
        calls = re.compile(r"(?<![\w.>])(printf|puts|perror|exit|abort|signal|sigaction|system|popen|"
                           r"vprintf|putchar|fork|vfork|setlocale|chdir|putenv)\s*\(")
        for path, text in sources(".c"):
            if re.fullmatch(r"base/spawn\.c|stop/(child/)?\w+\.c|roles/sandbox/\w+\.c|"
                            r"roles/file_opener/download\.c", path):
                continue  # where other processes are made
            for found in calls.finditer(without_comments(re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text))):
                bad.append(f"{path}: {found.group()}")
        self.assertEqual(bad, [])

    def test_no_mutable_file_scope_state(self):
        """nm names them: data and bss of the library's objects, constants aside."""
        need("nm")
        archive = os.path.join(BUILD, "lib", "libstacksnap-internal.a")
        done = subprocess.run(["nm", archive], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        bad, member = [], ""
        for line in done.stdout.splitlines():
            if line.endswith(".o:"):
                member = line
            found = re.match(r"[0-9a-f]+ ([bBC]|[dD]) (\S+)", line)
            # Relocated constants lie in .data.rel.ro, which nm also calls d.
            if found and found.group(1) in "bBC":
                bad.append(f"{member} {found.group(2)}")
        self.assertEqual(bad, [])

    def test_exported_names_are_the_public_ones(self):
        need("nm")
        library = os.path.join(BUILD, "lib", "libstacksnap.so")
        done = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True)
        exported = {l.split()[-1].split("@")[0] for l in done.stdout.splitlines()} - {"STACKSNAP_0"}
        with open(os.path.join(LIB, "stacksnap.h")) as f:
            declared = set(re.findall(r"\b(stacksnap_\w+)\s*\(", without_comments(f.read())))
        self.assertEqual(exported, declared)

    def test_soname_and_pkg_config(self):
        need("readelf")
        library = os.path.join(BUILD, "lib", "libstacksnap.so")
        text = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("libstacksnap.so.0", text)

    def test_every_file_says_what_it_is(self):
        bad = []
        for top in ("lib", "cli"):
            for path, text in sources(".c", ".h", below=os.path.join(SOURCE, top)):
                if not text.startswith("/* SPDX-License-Identifier: LGPL-2.1-or-later */\n"):
                    bad.append(f"{top}/{path}: no SPDX line")
                elif "/*" not in "\n".join(text.splitlines()[1:3]):
                    bad.append(f"{top}/{path}: does not say what it is")
        self.assertEqual(bad, [])

    def test_shared_names_have_the_prefix(self):
        need("nm")
        archive = os.path.join(BUILD, "lib", "libstacksnap-internal.a")
        done = subprocess.run(["nm", "-g", "--defined-only", archive], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        names = re.findall(r"^[0-9a-f]+ [A-Z] (\S+)$", done.stdout, re.M)
        self.assertGreater(len(names), 50)
        self.assertEqual([n for n in names if not n.startswith(("snap_", "stacksnap_"))], [])
