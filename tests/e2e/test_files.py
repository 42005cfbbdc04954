# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs and libraries that are not what they were: deleted, replaced, cut, or no files at all."""
import os
import random
import shutil
import struct

from harness import Case, TARGETS, functions, need_root, processes

CHAIN = ("chain_hold", "f3", "f2", "f1", "f0", "main")


class Changed(Case):
    asan = True

    def copy(self, name="chain"):
        path = os.path.join(self.scratch(), name)
        shutil.copy(os.path.join(TARGETS, name), path)
        return path

    def test_deleted_program(self):
        path = self.copy()
        victim = self.program([path])
        os.unlink(path)
        stack = self.node(victim.pid)["stacks"][0]
        self.assert_calls(stack, *CHAIN)
        self.assertTrue(any(e.get("line") for e in stack["entries"]))
        self.assertEqual(stack["entries"][-1]["module"].removesuffix(" (deleted)"), path)

    def test_replaced_program(self):
        for other in ("noreturn", "chain_static"):
            path = self.copy()
            victim = self.program([path])
            os.unlink(path)
            shutil.copy(os.path.join(TARGETS, other), path)
            self.assert_calls(self.node(victim.pid)["stacks"][0], *CHAIN)

    def test_something_else_in_the_programs_place(self):
        def fifo(path):
            os.mkfifo(path)
        def folder(path):
            os.mkdir(path)
        def link(path):
            os.symlink("/etc/hostname", path)
        def empty(path):
            open(path, "w").close()
        for change in (fifo, folder, link, empty):
            path = self.copy()
            victim = self.program([path])
            os.unlink(path)
            change(path)
            self.assert_calls(self.node(victim.pid)["stacks"][0], *CHAIN)

    def plug(self, change):
        library = os.path.join(self.scratch(), "libplugin.so")
        shutil.copy(os.path.join(TARGETS, "libplugin.so"), library)
        victim = self.victim("plug", library)
        change(library)
        node = self.node(victim.pid, status=(0, 1), timeout=30)
        stack = node["stacks"][0]
        self.assertIn("plug_callback", functions(stack))
        return stack

    def assert_plugin_named(self, stack):
        self.assert_calls(stack, "plug_callback", "plug_inner", "plug_enter", "main")

    def test_library_in_place(self):
        self.assert_plugin_named(self.plug(lambda path: None))

    def test_deleted_library(self):
        stack = self.plug(os.unlink)
        if os.geteuid() == 0:  # map_files asks for CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE
            self.assert_plugin_named(stack)

    def test_library_replaced_by_another_is_not_believed(self):
        def change(path):
            os.unlink(path)
            shutil.copy(os.path.join(TARGETS, "libplugin.so"), path)
            # A different build id: the note's bytes differ.
            data = bytearray(open(path, "rb").read())
            at = data.index(b"GNU\0", data.index(b".note") if b".note" in data[:64] else 0)
            data[at + 4] ^= 0xff
            open(path, "wb").write(data)
        stack = self.plug(change)
        names = functions(stack)
        self.assertNotIn("innocent_neighbour", names)

    def test_fifo_in_a_librarys_place(self):
        def change(path):
            os.unlink(path)
            os.mkfifo(path)
        self.plug(change)

    def test_device_in_a_librarys_place(self):
        need_root()
        def change(path):
            os.unlink(path)
            os.mknod(path, 0o20644, os.makedev(1, 5))
        self.plug(change)

    def test_truncated_copy_in_a_librarys_place(self):
        def change(path):
            data = open(path, "rb").read()
            os.unlink(path)
            open(path, "wb").write(data[:1500])
        self.plug(change)

    def test_cut_while_mapped(self):
        """The mapped file itself gets shorter: its tail, where the sections are, is gone."""
        path = os.path.join(self.scratch(), "libplugin.so")
        shutil.copy(os.path.join(TARGETS, "libplugin.so"), path)
        victim = self.victim("plug", path)
        # Behind the code, which the victim still needs.
        keep = 0x3000
        os.truncate(path, min(keep, os.path.getsize(path)))
        node = self.node(victim.pid, status=(0, 1), timeout=30)
        self.assertIn("plug_callback", functions(node["stacks"][0]))

    def test_damaged_elf_files(self):
        """Seeded damage in a mapped library: always an answer, always the same thread."""
        source = open(os.path.join(TARGETS, "libplugin.so"), "rb").read()
        chance = random.Random(7)
        code_end = 0x2000
        for round_number in range(12):
            path = os.path.join(self.scratch(), "libplugin.so")
            with open(path, "wb") as f:
                f.write(source)
            victim = self.victim("plug", path)
            with open(path, "r+b") as f:
                for _ in range(40):
                    f.seek(chance.randrange(code_end + 0x1000, len(source)))
                    f.write(bytes([chance.randrange(256)]))
                # and a section header table that lies
                f.seek(0x28)
                f.write(struct.pack("<Q", chance.choice([0, 1, len(source) - 8, 1 << 62])))
            node = self.node(victim.pid, status=(0, 1), timeout=30)
            self.assertIn("plug_callback", functions(node["stacks"][0]), round_number)
            victim.close()
