# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code made at run time, and the perf maps that may name it: which are believed, which are not."""
import os
import unittest

from harness import Case, functions, need_root


class PerfMap(Case):
    asan = True

    def jit(self, mode="anon"):
        victim = self.victim("jit", mode)
        path = f"/tmp/perf-{victim.pid}.map"
        def remove():
            try:
                os.unlink(path)
            except OSError:
                pass
        self.addCleanup(remove)
        return victim, path

    def write(self, victim, path, name="jitted_function", before="", after=""):
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(f"{before}{victim['start']:x} {int(victim.values['size'], 16):x} {name}\n{after}")

    def frame(self, victim, *arguments, status=(0, 1)):
        stack = self.node(victim.pid, *arguments, status=status)["stacks"][0]
        got = functions(stack)
        at = got.index("from_jit")
        self.assertEqual(got[at + 2], "main", got)
        # Code in no file is believed to keep a frame pointer; who called it was found so.
        self.assertEqual([e.get("trust") for e in stack["entries"][at:at + 4]],
                         [None, None, "frame_pointer", None], got)
        self.assertEqual(stack["unwind"], "complete")
        return stack["entries"][at + 1]

    def test_named_by_the_map(self):
        for mode in ("anon", "memfd"):
            victim, path = self.jit(mode)
            self.write(victim, path)
            self.assertEqual(self.frame(victim, status=0)["function"], "jitted_function")

    def test_without_a_map(self):
        victim, _ = self.jit()
        self.assertNotIn("function", self.frame(victim))

    def test_neighbours_and_gaps(self):
        victim, path = self.jit()
        start = victim["start"]
        self.write(victim, path, before=f"{start - 16:x} 10 before\n", after=f"{start + 12:x} 10 after\n")
        self.assertEqual(self.frame(victim)["function"], "jitted_function")
        with open(path, "w") as f:
            f.write(f"{start - 16:x} 10 before\n{start + 12:x} 10 after\n")
        self.assertNotIn("function", self.frame(victim))

    def test_never_and_always(self):
        victim, path = self.jit()
        self.write(victim, path)
        self.assertNotIn("function", self.frame(victim, "--perf-map=never"))
        self.assertEqual(self.frame(victim, "--perf-map=always")["function"], "jitted_function")

    def test_escapes_in_names(self):
        victim, path = self.jit()
        self.write(victim, path, name="evil\x1b]52;c;x\x07\u202ename\udcff")
        entry = self.frame(victim)
        self.assertIn("\\x1b", entry["function"])
        self.assertIn("\\xff", entry["function"])
        self.assertNotIn("\x1b", self.run_tool("-p", victim.pid, status=(0, 1)).text)

    def test_symlink_is_refused(self):
        victim, path = self.jit()
        real = os.path.join(self.scratch(), "map")
        self.write(victim, real)
        os.symlink(real, path)
        self.assertNotIn("function", self.frame(victim))

    def test_hard_link_is_refused(self):
        victim, path = self.jit()
        self.write(victim, path)
        os.link(path, path + ".second")
        self.addCleanup(os.unlink, path + ".second")
        self.assertNotIn("function", self.frame(victim))

    def test_fifo_is_refused(self):
        victim, path = self.jit()
        os.mkfifo(path)
        self.assertNotIn("function", self.frame(victim))

    def test_foreign_owner_is_refused(self):
        need_root()
        victim, path = self.jit()
        self.write(victim, path)
        os.chown(path, 65534, 65534)
        self.assertNotIn("function", self.frame(victim))
        self.assertNotIn("function", self.frame(victim, "--perf-map=always"))

    def test_root_against_another_user(self):
        """auto: not when root looks at another user's process; always: then too."""
        need_root()
        program = os.path.join(self.scratch(), "jit")
        import shutil
        from harness import TARGETS
        shutil.copy(os.path.join(TARGETS, "jit"), program)
        victim = self.program([program], user=65534, group=65534, extra_groups=[])
        path = f"/tmp/perf-{victim.pid}.map"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        self.write(victim, path)
        os.chown(path, 65534, 65534)
        self.assertNotIn("function", self.frame(victim))
        self.assertEqual(self.frame(victim, "--perf-map", "always")["function"], "jitted_function")

    def test_a_huge_map_is_bounded(self):
        victim, path = self.jit()
        with open(path, "w") as f:
            for i in range(300000):
                f.write(f"{0x10000000 + i * 16:x} 10 filler_{i}\n")
            f.write(f"{victim['start']:x} c jitted_function\n")
        self.assertIn(self.frame(victim).get("function"), ("jitted_function", None))

    def test_nonsense_lines(self):
        victim, path = self.jit()
        self.write(victim, path, before="zz\n\n1 2\nffffffffffffffffffff 1 x\n-1 -1 y\n" + "a" * 70000 + "\n")
        self.frame(victim)
