# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that a target chose: what is in their place is looked at before it is opened, what is not
what is mapped is not believed, and what the target's user may not read is not read for him. Each
run ends by itself, with all threads; files that merely changed are test_files.py's."""
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import unittest

from harness import Case, DEADLINE, TARGETS, TOOL, clean_environment, functions, need, need_namespaces, \
    need_root, on_screen, read_file

CHAIN = ("chain_hold", "f3", "f2", "f1", "f0", "main")
NOBODY, OTHER = 65534, 65533


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout}")


def section(path, name):
    """(offset of its header, offset, size) of a section."""
    with open(path, "rb") as f:
        data = f.read()
    table, = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3a)
    strings, = struct.unpack_from("<Q", data, table + names * entry + 24)
    for i in range(count):
        at = table + i * entry
        start = strings + struct.unpack_from("<I", data, at)[0]
        if data[start:data.index(b"\0", start)].decode() == name:
            return at, *struct.unpack_from("<QQ", data, at + 24)
    raise AssertionError(f"no section {name} in {path}")


def grow(path, size=1 << 40):
    """A hole of a terabyte behind what is there."""
    try:
        os.truncate(path, size)
    except OSError as error:
        raise unittest.SkipTest(f"kernel: no sparse files so large: {error}") from None


def lie(path, *names, size=1 << 39):
    """Sections say that they are as large as that."""
    with open(path, "r+b") as f:
        for name in names:
            f.seek(section(path, name)[0] + 32)
            f.write(struct.pack("<Q", size))


class Special(Case):
    """Something that is no file where the program, or a library, was."""
    asan = True

    def places(self):
        def node(path):
            os.mknod(path, 0o20666, os.makedev(1, 5))
        def unix_socket(path):
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path)
        def loop(path):
            os.symlink(path, path)
        def to_fifo(path):
            os.mkfifo(path + ".fifo")
            os.symlink(path + ".fifo", path)
        def to_terminal(path):
            os.symlink("/dev/ptmx", path)
        places = [os.mkfifo, os.mkdir, unix_socket, loop, to_fifo, to_terminal]
        if os.geteuid() == 0:
            places.append(node)
        return places

    def test_in_the_programs_place(self):
        for place in self.places():
            with self.subTest(place=place.__name__):
                path = os.path.join(self.scratch(), "chain")
                shutil.copy(os.path.join(TARGETS, "chain"), path)
                victim = self.program([path])
                os.unlink(path)
                place(path)
                stack = self.node(victim.pid)["stacks"][0]
                self.assert_calls(stack, *CHAIN)
                self.assertTrue(any(e.get("line") for e in stack["entries"]))
                victim.close()

    def test_in_a_librarys_place(self):
        for place in self.places():
            with self.subTest(place=place.__name__):
                path = os.path.join(self.scratch(), "libplugin.so")
                shutil.copy(os.path.join(TARGETS, "libplugin.so"), path)
                victim = self.victim("plug", path)
                os.unlink(path)
                place(path)
                # map_files, which has it still, is for root
                node = self.node(victim.pid, status=0 if os.geteuid() == 0 else 1)
                names = functions(node["stacks"][0])
                self.assertIn("plug_callback", names)
                self.assertEqual("plug_inner" in names, os.geteuid() == 0, names)
                victim.close()

    def test_upgraded(self):
        """Renamed over, as packages do; the new file is of another build."""
        path = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        victim = self.program([path])
        shutil.copy(os.path.join(TARGETS, "noreturn"), path + ".new")
        os.rename(path + ".new", path)
        node = self.node(victim.pid)
        self.assert_calls(node["stacks"][0], *CHAIN)
        self.assertEqual(node["labels"].get("exe_deleted"), "true", node["labels"])


class Huge(Case):
    """Sparse files of a terabyte, and sections that claim to fill them."""
    level = "all"

    def plug(self, change):
        path = os.path.join(self.scratch(), "libplugin.so")
        shutil.copy(os.path.join(TARGETS, "libplugin.so"), path)
        victim = self.victim("plug", path)
        change(path)
        return victim

    def test_grown_while_mapped(self):
        victim = self.plug(grow)
        self.assert_calls(self.node(victim.pid, timeout=30)["stacks"][0], "plug_callback", "plug_inner", "plug_enter",
                          "main")

    def test_sections_that_lie(self):
        """A reader that believed one would read for hours. All threads are there, with offsets."""
        for names in ((".symtab",), (".symtab", ".strtab"), (".debug_info",), (".debug_line", ".debug_abbrev"),
                      (".debug_str", ".debug_line_str"), (".eh_frame",), (".dynsym", ".dynstr"),
                      (".rela.dyn", ".symtab")):
            with self.subTest(names=names):
                def change(path):
                    lie(path, *names)
                    grow(path)
                victim = self.plug(change)
                node = self.node(victim.pid, "--timeout", "15000", status=(0, 1), timeout=30)
                stack = node["stacks"][0]
                self.assertEqual(stack["count"], 1)
                self.assertTrue(all(e.get("offset") or e.get("function") for e in stack["entries"]), stack)
                victim.close()

    def test_a_debug_link_is_not_summed_up_for_hours(self):
        need("objcopy")
        folder = self.scratch()
        path = os.path.join(folder, "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        shutil.copy(path, path + ".debug")
        run("objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", "--add-gnu-debuglink=" + path + ".debug",
            path)
        grow(path + ".debug")
        victim = self.program([path])
        got = self.run_tool("-p", victim.pid, status=1, timeout=30)
        self.assertIn("too large to checksum", got.err)
        self.assertIn("f2", got.text)


class Namespace(Case):
    """A path that is one thing inside of the target's mount namespace and another outside."""
    asan = True

    def inside(self, name, argument="", outside=os.mkfifo, tail=""):
        """A program on a tmpfs of its own; `outside` is what others find at its path."""
        flags = ["-m"] if os.geteuid() == 0 else ["-Urm"]
        need("mount")
        need_namespaces(*flags)
        folder = self.scratch()
        path = os.path.join(folder, name)
        outside(path)
        script = f'mount -t tmpfs none "$1" && cp "$2" "$1/{name}" && {{ {tail or "true"}; }} && exec "$3" {argument}'
        program = path if not argument else os.path.join(TARGETS, "plug")
        return self.program(["unshare", *flags, "sh", "-c", script, "sh", folder, os.path.join(TARGETS, name),
                             program]), path

    def test_a_fifo_outside(self):
        victim, _ = self.inside("chain")
        self.assert_calls(self.node(victim.pid)["stacks"][0], *CHAIN)

    def test_another_program_outside(self):
        victim, _ = self.inside("chain", outside=lambda p: shutil.copy(os.path.join(TARGETS, "noreturn"), p))
        self.assert_calls(self.node(victim.pid)["stacks"][0], *CHAIN)

    def test_a_library(self):
        victim, _ = self.inside("libplugin.so", argument='"$1/libplugin.so"')
        self.assert_calls(self.node(victim.pid)["stacks"][0], "plug_callback", "plug_inner", "plug_enter", "main")

    def test_a_fifo_inside(self):
        """Replaced after it was mapped; what lies outside at that path is no stand-in."""
        victim, path = self.inside("libplugin.so", argument='"$1/libplugin.so"',
                                   outside=lambda p: shutil.copy(os.path.join(TARGETS, "libplugin.so"), p))
        inner = f"/proc/{victim.pid}/root{path}"
        os.unlink(inner)
        os.mkfifo(inner)
        stack = self.node(victim.pid, status=(0, 1))["stacks"][0]
        self.assertIn("plug_callback", functions(stack))
        if os.geteuid() == 0:
            self.assert_calls(stack, "plug_callback", "plug_inner", "plug_enter", "main")

    def test_debug_file_in_the_targets_root(self):
        """Found there by its build id; a FIFO in its place is not opened."""
        need_root()
        need("chroot", "objcopy", "readelf")
        root = self.scratch()
        program = os.path.join(root, "chain")
        run("objcopy", "--strip-debug", os.path.join(TARGETS, "chain_static"), program)
        notes = subprocess.run(["readelf", "-n", program], stdout=subprocess.PIPE, text=True).stdout
        ident = re.search("Build ID: ([0-9a-f]+)", notes).group(1)
        debug = os.path.join(root, "usr/lib/debug/.build-id", ident[:2], ident[2:] + ".debug")
        os.makedirs(os.path.dirname(debug))
        os.mkfifo(debug)
        victim = self.program(["chroot", root, "/chain"])
        for wanted in (False, True):
            stack = self.node(victim.pid, status=(0, 1))["stacks"][0]
            self.assert_calls(stack, *CHAIN)
            self.assertEqual(any(e.get("line") for e in stack["entries"] if e["function"] == "f2"), wanted)
            os.unlink(debug)
            run("objcopy", "--only-keep-debug", os.path.join(TARGETS, "chain_static"), debug)


class DebugFiles(Case):
    """Names out of a file of the target: a debug link, an alt link."""
    asan = True

    def linked(self, folder=None, user=None, change=None, beside=True):
        """A stripped program and its debug file; `change` alters both before the program runs."""
        need("objcopy")
        folder = folder or self.scratch()
        path, debug = os.path.join(folder, "chain"), os.path.join(folder, "abcdefgh.debug")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        run("objcopy", "--only-keep-debug", path, debug)
        run("objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", "--add-gnu-debuglink=" + debug, path)
        if not beside:
            os.mkdir(os.path.join(folder, ".debug"))
            shutil.move(debug, os.path.join(folder, ".debug"))
            debug = os.path.join(folder, ".debug", "abcdefgh.debug")
        if change:
            change(path, debug)
        who = dict(user=user, group=user, extra_groups=[]) if user else {}
        return self.program([path], **who)

    def lines(self, victim, *arguments):
        got = self.node(victim.pid, *arguments, status=(0, 1))["stacks"][0]
        self.assert_calls(got, *CHAIN)
        return any(e.get("line") for e in got["entries"] if e.get("function") in CHAIN)

    def test_a_plain_name_is_found(self):
        self.assertTrue(self.lines(self.linked()))
        self.assertTrue(self.lines(self.linked(beside=False)))

    def rename(self, new):
        """Another name in the link, as long as the old one, and the debug file there."""
        def change(path, debug):
            at, offset, size = section(path, ".gnu_debuglink")
            self.assertEqual(len(new), len("abcdefgh.debug"))
            with open(path, "r+b") as f:
                f.seek(offset)
                f.write(new.encode())
            there = os.path.normpath(os.path.join(os.path.dirname(path), new))
            os.makedirs(os.path.dirname(there), exist_ok=True)
            os.rename(debug, there)
            self.addCleanup(lambda: os.path.exists(there) and os.unlink(there))
        return change

    def test_a_link_holds_no_slash(self):
        self.assertTrue(self.lines(self.linked(change=self.rename("zbcdefgh.debug"))))
        for name in ("sub/efgh.debug", "../defgh.debug", "./cdefgh.debug", "/tmp/efg.debug"):
            with self.subTest(name=name):
                self.assertFalse(self.lines(self.linked(change=self.rename(name))))

    def test_another_users_debug_folder(self):
        need_root()
        for owner, wanted in ((NOBODY, True), (0, True), (OTHER, False)):
            victim = self.linked(user=NOBODY, beside=False, change=lambda path, debug: os.chown(debug, owner, owner))
            self.assertEqual(self.lines(victim), wanted, owner)

    def test_what_the_user_cannot_read(self):
        """Root's own file, which a namespace of his or a link could place there."""
        need_root()
        victim = self.linked(user=NOBODY, change=lambda path, debug: os.chmod(debug, 0o600))
        self.assertFalse(self.lines(victim))
        self.assertTrue(self.lines(self.linked(change=lambda path, debug: os.chmod(debug, 0o600))))

    def test_no_links_out_of_another_users_folder(self):
        need_root()
        def link_file(path, debug):
            os.rename(debug, debug + ".real")
            os.symlink(debug + ".real", debug)
        def link_folder(path, debug):
            folder = os.path.dirname(debug)
            os.rename(folder, folder + ".real")
            os.symlink(folder + ".real", folder)
        self.assertFalse(self.lines(self.linked(user=NOBODY, change=link_file)))
        self.assertFalse(self.lines(self.linked(user=NOBODY, beside=False, change=link_folder)))
        self.assertTrue(self.lines(self.linked(change=link_file)))

    def test_alt_link_to_a_fifo(self):
        for name in (b"fifo", b"/fifo", b"../fifo", b"./fifo"):
            with self.subTest(name=name):
                folder = self.scratch()
                path, link = os.path.join(folder, "chain"), os.path.join(folder, "link")
                os.mkfifo(os.path.join(folder, "fifo"))
                os.mkdir(os.path.join(folder, ".dwz"))
                os.mkfifo(os.path.join(folder, ".dwz", "fifo"))
                where = name.replace(b"/fifo", os.fsencode(folder) + b"/fifo", 1) if name.startswith(b"/") else name
                with open(link, "wb") as f:
                    f.write(where + b"\0" + bytes(range(20)))
                shutil.copy(os.path.join(TARGETS, "chain"), path)
                run("objcopy", "--add-section=.gnu_debugaltlink=" + link, path)
                self.assertTrue(self.lines(self.program([path])))


class PerfMaps(Case):
    """Why a perf map is not read, in words; that it is not is test_jit.py's."""
    asan = True

    def setUp(self):
        super().setUp()
        self.jit = self.victim("jit")
        self.path = f"/tmp/perf-{self.jit.pid}.map"
        self.addCleanup(self.remove, self.path)

    def remove(self, path):
        if os.path.lexists(path):
            os.unlink(path)

    def write(self, path=None, before=b"", name=b"jitted_function"):
        with open(path or self.path, "wb") as f:
            f.write(before + b"%x %x %s\n" % (self.jit["start"], int(self.jit.values["size"], 16), name))

    def refused(self, why, *arguments):
        for more in ((), ("--perf-map=always",)):
            got = self.run_tool("-p", self.jit.pid, *more, *arguments, status=(0, 1))
            self.assertIn(why, " ".join(got.err.split()), got)
            self.assertNotIn("jitted_function", got.text)
        self.assertNotIn("perf", self.run_tool("-p", self.jit.pid, "--perf-map=never", status=(0, 1)).err)

    def test_symbolic_link(self):
        real = os.path.join(self.scratch(), "map")
        self.write(real)
        os.symlink(real, self.path)
        self.refused("it is a symbolic link")

    def test_fifo(self):
        os.mkfifo(self.path)
        self.refused("it is not a regular file")

    def test_second_name(self):
        self.write()
        os.link(self.path, self.path + ".second")
        self.addCleanup(self.remove, self.path + ".second")
        self.refused("it has more than one hard link")

    def test_foreign(self):
        need_root()
        self.write()
        os.chown(self.path, OTHER, OTHER)
        self.refused(f"it belongs to uid {OTHER}")

    def test_too_large(self):
        self.write()
        os.truncate(self.path, (256 << 20) + 1)
        self.refused("it is larger than 256 MiB")

    def test_large_and_of_one_line(self):
        """Up to the cap it is read, in bounded memory: a hole is one line without an end."""
        self.write()
        os.truncate(self.path, 256 << 20)
        stack = self.node(self.jit.pid, status=(0, 1), timeout=30)["stacks"][0]
        self.assertIn("jitted_function", functions(stack))

    def test_too_many_lines(self):
        with open(self.path, "wb") as f:
            f.write(b"\n" * ((1 << 23) + 1))
        with open(self.path, "ab") as f:
            f.write(b"%x c jitted_function\n" % self.jit["start"])
        self.assertNotIn("jitted_function", functions(self.node(self.jit.pid, status=(0, 1))["stacks"][0]))


def unprivileged_copy(case):
    """The tool where anybody can run it."""
    tool = os.path.join(case.scratch(), "stacksnap")
    shutil.copy(TOOL, tool)
    os.chmod(tool, 0o755)
    return tool


class Capabilities(Case):
    """A copy of the tool with file capabilities, run by somebody who has none: what his environment
    says is not heard (ld.so(8), secure_getenv(3))."""

    def setUp(self):
        super().setUp()
        need_root()
        need("setcap")
        self.tool = unprivileged_copy(self)
        done = subprocess.run(["setcap", "cap_sys_ptrace,cap_dac_read_search+ep", self.tool], stderr=subprocess.PIPE)
        if done.returncode:
            self.skipTest(f"kernel: no file capabilities here: {done.stderr.decode()}")
        self.who = dict(tool=self.tool, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        if self.run_tool("list", os.getpid(), status=None, **self.who).status == 126:
            self.skipTest("kernel: file capabilities have no effect here")

    def test_no_pager_is_run(self):
        got = on_screen(["--per-thread", self.other().pid], {"STACKSNAP_PAGER": "echo paged"}, 5, **self.who)
        self.assertIn("chain_hold", got.text)
        self.assertNotIn("paged", got.text)

    def other(self, name="chain", **options):
        """A process of a third user."""
        path = os.path.join(self.scratch(), name)
        shutil.copy(os.path.join(TARGETS, name), path)
        return self.program([path], user=OTHER, group=OTHER, extra_groups=[], **options)

    def test_it_traces_what_the_caller_may_not(self):
        victim = self.other()
        self.assert_calls(self.node(victim.pid, **self.who)["stacks"][0], *CHAIN)
        plain = dict(self.who, tool=unprivileged_copy(self))
        self.run_tool("-p", victim.pid, status=2, **plain)

    def test_a_program_for_its_user_alone(self):
        """CAP_DAC_READ_SEARCH opens it, as its user may; not what he may only run."""
        for owner, mode, wanted in ((OTHER, 0o700, True), (0, 0o711, False)):
            path = os.path.join(self.scratch(), "chain")
            shutil.copy(os.path.join(TARGETS, "chain"), path)
            os.chown(path, owner, owner)
            os.chmod(path, mode)
            victim = self.program([path], user=OTHER, group=OTHER, extra_groups=[])
            node = self.node(victim.pid, status=0 if wanted else 1, **self.who)
            self.assertEqual("chain_hold" in functions(node["stacks"][0]), wanted)

    def test_nothing_is_loaded_for_the_caller(self):
        need("gcc")
        folder = self.scratch(0o777)
        proof, library = os.path.join(folder, "proof"), os.path.join(folder, "libevil.so")
        source = os.path.join(folder, "evil.c")
        with open(source, "w") as f:
            f.write('#include <fcntl.h>\n__attribute__((constructor)) static void evil(void)\n'
                    f'{{ open("{proof}", O_CREAT | O_WRONLY, 0666); }}\n')
        run("gcc", "-shared", "-fPIC", "-o", library, source)
        for name in ("libdw.so.1", "libelf.so.1", "libjansson.so.4", "libdebuginfod.so.1", "libnss_evil.so.2"):
            shutil.copy(library, os.path.join(folder, name))
        environment = dict(LD_PRELOAD=library, LD_LIBRARY_PATH=folder, LD_AUDIT=library, GCONV_PATH=folder,
                           LOCPATH=folder, HOME=folder, XDG_CACHE_HOME=folder, TMPDIR=folder, TERMINFO=folder,
                           DEBUGINFOD_URLS="http://127.0.0.1:9", DEBUGINFOD_CACHE_PATH=folder,
                           DEBUGINFOD_HEADERS_FILE="/etc/shadow", DEBUGINFOD_PROGRESS="1", DEBUGINFOD_VERBOSE="1")
        victim = self.other()
        before = sorted(os.listdir(folder))
        got = self.run_tool("-p", victim.pid, "--debuginfod", env=environment, status=(0, 1), **self.who)
        self.assertIn("chain_hold", got.text)
        self.assertEqual(sorted(os.listdir(folder)), before)
        # The same without capabilities is loaded: so this test can fail.
        run_plain = subprocess.run([unprivileged_copy(self), "--version"], stdout=subprocess.DEVNULL, cwd="/",
                                   env=clean_environment(dict(LD_PRELOAD=library)), user=NOBODY, group=NOBODY,
                                   extra_groups=[])
        self.assertEqual(run_plain.returncode, 0)
        self.assertTrue(os.path.exists(proof))

    def test_no_downloads(self):
        """Nobody connects, and it is said why."""
        need("objcopy")
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            urls = f"http://127.0.0.1:{server.getsockname()[1]}"
            folder = self.scratch()
            stripped = os.path.join(folder, "chain")
            run("objcopy", "--strip-debug", os.path.join(TARGETS, "chain"), stripped)
            os.chmod(stripped, 0o755)
            victim = self.program([stripped], user=OTHER, group=OTHER, extra_groups=[])
            got = self.run_tool("-p", victim.pid, "--debuginfod", env=dict(DEBUGINFOD_URLS=urls), status=(0, 1),
                                **self.who)
            self.assertIn("DEBUGINFOD_URLS is ignored", " ".join(got.err.split()))
            with self.assertRaises(BlockingIOError):
                server.accept()

    def test_perf_map_as_for_root(self):
        victim = self.other("jit")
        path = f"/tmp/perf-{victim.pid}.map"
        with open(path, "w") as f:
            f.write(f"{victim['start']:x} c jitted_function\n")
        os.chown(path, OTHER, OTHER)
        self.addCleanup(os.unlink, path)
        got = self.run_tool("-p", victim.pid, status=(0, 1), **self.who)
        self.assertIn("--perf-map=always", got.err)
        self.assertNotIn("jitted_function", got.text)
        got = self.run_tool("-p", victim.pid, "--perf-map=always", status=(0, 1), **self.who)
        self.assertIn("jitted_function", got.text)


class Shrinking(Case):
    """A file that gets shorter while it is read: whoever touches what is gone ends by SIGBUS."""
    alone = True

    def parsers(self, pid, path):
        """Processes below the tool that have the file mapped."""
        for child in (read_file(f"/proc/{pid}/task/{pid}/children") or "").split():
            if path in (read_file(f"/proc/{child}/maps") or ""):
                yield int(child)

    def cut_once_mapped(self, path, argv):
        tool = subprocess.Popen([TOOL, *map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=clean_environment())
        end = time.monotonic() + DEADLINE
        while tool.poll() is None and time.monotonic() < end:
            if any(self.parsers(tool.pid, path)):
                os.truncate(path, 4096)
                break
        out, err = tool.communicate(timeout=DEADLINE)
        return tool.returncode, out.decode(), err.decode()

    def test_debug_file_cut_while_it_is_read(self):
        """A symbol table of some hundred megabytes takes long enough to be cut meanwhile."""
        need_root()  # who reads is not dumpable: only root sees what it has mapped
        for attempt in range(8):
            path = os.path.join(self.scratch(), "libplugin.so")
            shutil.copy(os.path.join(TARGETS, "libplugin.so"), path)
            victim = self.victim("plug", path)
            at, offset, size = section(path, ".symtab")
            lie(path, ".symtab", size=24 << 24)
            grow(path, offset + (25 << 24))
            status, out, err = self.cut_once_mapped(path, ["-p", victim.pid])
            self.assertIn("plug[", out)
            self.assertIn("1 thread", out)
            self.assert_free(victim.pid)
            victim.watched = []
            victim.close()
            if "signal" in err:
                self.assertEqual(status, 1, err)
                self.assertRegex(err, r"signal 7\b")
                return
            self.assertIn(status, (0, 1), err)
        self.fail("nobody touched what was gone")
