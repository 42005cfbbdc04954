# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whatever a target does: --stop-timeout bounds its stop, --timeout the run, 200 MB the memory of all
our processes together, 10 MB the output; and each thread that was copied has at least its pc. The
files are made by bombs.py, the positions by the victims hostile and hostile_fuse."""
import os
import unittest

import bombs
from bounds import Bounded
from harness import (PATIENCE, TARGETS, addresses, functions, need_root, proc_state, processes, read_file,
                     threads, tids_of, wait_until, walk)


class Files(Bounded):
    """Threads in code of a file whose tables nobody should believe."""
    level = "all"

    def bomb(self, name, whole=2500):
        path = os.path.join(self.scratch(), name)
        bombs.ALL[name](path)
        try:
            victim = self.victim("hostile", "code", path, 3)
            node, got = self.held(victim, whole=whole, text=False)
            self.all_threads(node, got, 4)
            inside = [s for t, s in threads(node).values() if t["name"] == "in-code"]
            self.assertEqual({s["entries"][0]["module"] for s in inside}, {path}, got)
            self.assertEqual({int(s["entries"][0]["offset"], 16) & ~0x1f for s in inside}, {bombs.CODE}, got)
            victim.close()
        finally:
            os.unlink(path)
        return node, got

    def all(self, *names):
        for name in names:
            with self.subTest(name=name):
                self.bomb(name)

    def test_symbols(self):
        self.all("million_symbols", "long_names", "demangler_bomb", "symbols_inflate")

    def test_sections(self):
        self.all("million_sections", "sparse", "xz_inflates")

    def test_lines(self):
        self.all("line_inflates", "info_inflates", "long_line_program", "many_files")

    def test_entries(self):
        self.all("deep_dies", "deep_inlines", "origin_loop", "many_abbrevs", "wide_abbrev", "many_units",
                 "shared_ranges")


class Unwinding(Files):
    """Programs of unwind information that are long, that remember, that never end."""
    level = "all"

    def test_symbols(self):
        self.all("long_fde", "remembering_fde")

    def test_sections(self):
        self.all("long_cie", "many_fdes")

    def test_lines(self):
        self.all("looping_expression", "growing_expression")

    def test_entries(self):
        self.all("long_expression")

    def test_a_sane_program_is_used(self):
        """What bounds the others does not bound this: the caller is found behind 2^19 entries."""
        _, got = self.bomb("many_fdes", whole=2500 * PATIENCE)
        stacks = [s for t, s in threads(next(iter(got.doc["processes"]))).values() if t["name"] == "in-code"]
        self.assertIn("code_main", functions(stacks[0]), got)


class Stacks(Bounded):
    level = "all"

    def creeping(self, *arguments):
        path = os.path.join(self.scratch(), "creep")
        bombs.looks_sane(path)
        victim = self.victim("hostile", "creep", path, 64 << 20)
        node, got = self.held(victim, "-n", "0", "--max-stack", str(256 << 20), *arguments, stop=500, text=False)
        return self.stack_of(node, name="creeping"), got

    def test_a_million_frames(self):
        victim = self.victim("deep", 1000000)
        node, got = self.held(victim)
        stack = self.stack_of(node, name="diver")
        self.assertEqual(len(addresses(stack)), 512, got)

    def test_many_deep_stacks_each_its_own(self):
        victim = self.victim("hostile", "deep", 5000, 500)
        node, got = self.held(victim, stop=1000, whole=4000)
        self.all_threads(node, got, 5001)
        self.assertIn("report_limited", {w["code"] for w in got.doc["warnings"]})
        self.assertIn("-n COUNT", got.err)
        self.assertGreater(max(s["gap"]["count"] for s in node["stacks"] if "gap" in s), 400, got)
        # Not all of them are unwound to their end: that would take the time of other processes.
        self.assertIn("limit", {s["unwind"] for s in node["stacks"]}, got)

    def test_a_report_of_usual_size_is_whole(self):
        victim = self.victim("hostile", "deep", 50, 400)
        node, got = self.held(victim, text=False)
        self.assertEqual(got.doc["warnings"], [], got)
        self.assertEqual({len(addresses(s)) > 400 for s in node["stacks"] if "bottom" in functions(s)}, {True})

    def test_mappings(self):
        victim = self.victim("hostile", "maps", 30000, settled=False)
        got = self.measure("-p", victim.pid, "--stop-all", "--json", seconds=1.5,
                           good=lambda got: got.doc["stop_duration_ns"] <= 20e6)
        self.all_threads(got.doc["processes"][0], got, 2)

    def test_smashed_registers(self):
        victim = self.victim("hostile", "wild", settled=False)
        node, got = self.held(victim)
        self.all_threads(node, got, 3)

    def test_endless_information(self):
        for mode in ("cycle", "creep", "endless", "bad_stack"):
            victim = self.victim("cfi", mode, running=1)
            node, got = self.held(victim, "-n", "0", text=False, computes=True)
            self.all_threads(node, got, 2)

    def test_libunwind_alone_is_ended(self):
        """The reference has no bounds of its own: there the parser is ended, and the pcs are shown."""
        victim = self.victim("cfi", "endless", running=1)
        node, got = self.held(victim, "--engine=libunwind", text=False, status=(0, 1), computes=True)
        self.all_threads(node, got, 2)

    def test_perf_map(self):
        need_root()
        victim = self.victim("jit", "anon")
        path = f"/tmp/perf-{victim.pid}.map"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        with open(path, "w") as f:
            for i in range(0, 400000, 10000):
                f.write("".join(f"{victim['start']:x} 100 {'n' * 120}{k}\n" for k in range(i, i + 10000)))
            f.truncate(1 << 40)
        node, got = self.held(victim, "--perf-map=always", text=False)
        self.all_threads(node, got, 1)


class Held(Bounded):
    """Memory that nobody serves, threads that do not stop, processes that never stay."""
    level = "all"

    def test_userfaultfd(self):
        victim = self.victim("uffd", "stack", settled=False)
        node, got = self.held(victim)
        self.all_threads(node, got, 2)

    def test_disk_and_vfork(self):
        victim = self.victim("uffd", "disk", settled=False)
        wait_until(lambda: any(proc_state(victim.pid, t) == "D" for t in os.listdir(f"/proc/{victim.pid}/task")),
                   "state D")
        node, got = self.held(victim, status=1)
        self.assertEqual(len(threads(node)), 2, got)
        victim = self.victim("vforker")
        node, got = self.held(victim, status=1)
        self.assertEqual(len(threads(node)), 4, got)

    def fuse(self, mode):
        need_root()
        folder = self.scratch()
        bombs.looks_sane(os.path.join(folder, "image"))
        return self.victim("hostile_fuse", folder, mode, settled=False)

    def test_file_system_that_is_silent(self):
        for mode in ("args", "stack", "code", "open"):
            with self.subTest(mode=mode):
                victim = self.fuse(mode)
                node, got = self.held(victim, whole=3000, text=False)
                self.all_threads(node, got, 1 if mode == "args" else 2)
                victim.close()

    def hidden(self, mode):
        """A process whose stack is served by nobody, which its mounts do not tell; its innocent child
        keeps all stacks."""
        for _ in range(5):
            victim = self.fuse(mode)
            child = victim["innocent"]
            victim.watched.append(child)
            node, got = self.held(victim, whole=3000, text=False)
            innocent = processes(got.doc)[child]
            self.assertEqual(len(threads(innocent)), 3, f"{innocent.get('error')} {got.doc['warnings']} {got}")
            for _, stack in threads(innocent).values():
                self.assertIn("innocent_wait", functions(stack), got)
            codes = {w["code"] for w in got.doc["warnings"] if w.get("pid") == victim.pid}
            if mode == "swapped" and "memory_stalled" not in codes:
                victim.close()
                continue  # the other process did not get a processor in time
            self.assertIn("memory_stalled", codes, got)
            self.assertEqual(got.status, 1, got)
            self.assertNotIn("security module", got.err)
            on_stack = [s for t, s in threads(node).values() if t["name"] == "on-stack"]
            self.assertEqual(len(on_stack), 1, got)
            self.assertTrue(on_stack[0]["entries"], got)
            victim.close()
            return
        self.fail("the page was never put there in time")

    def test_mount_that_is_detached(self):
        self.hidden("detached")

    def test_mount_that_is_out_of_sight(self):
        self.hidden("chroot")

    def test_mount_below_another_file_system(self):
        self.hidden("overlay")

    def test_page_that_comes_once_all_stand_still(self):
        self.hidden("swapped")

    def test_exec_that_does_not_end(self):
        victim = self.fuse("exec")
        child = victim["innocent"]
        victim.watched.append(child)
        node, got = self.held(victim, whole=3000, text=False)
        self.assertEqual(got.status, 1, got)
        for _, stack in threads(processes(got.doc)[child]).values():
            self.assertIn("innocent_wait", functions(stack), got)
        self.assertEqual(node["error"]["code"], "not_responding", got)
        victim.close()

    def churning(self, mode):
        victim = self.victim("churn", mode, settled=False)
        for _ in range(3):
            self.held(victim, status=(0, 1, 2), text=False)

    def test_churn(self):
        for mode in ("fork", "exec", "relay"):
            with self.subTest(mode=mode):
                self.churning(mode)

    def freezer(self):
        """A control group of our own that can be frozen: its folder, the file, and the two words."""
        need_root()
        for root, name, frozen, thawed in (("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
                                           ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
                                           ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")):
            folder = os.path.join(root, f"stacksnap-test-{os.getpid()}")
            try:
                os.mkdir(folder)
            except OSError:
                continue
            self.addCleanup(os.rmdir, folder)
            if os.path.exists(os.path.join(folder, name)):
                yield folder, os.path.join(folder, name), frozen, thawed

    def frozen(self):
        """Programs in a frozen control group, one after the other; and whether it is of version 2."""
        found = 0
        for folder, switch, frozen, thawed in self.freezer():
            victim = self.victim("threads", "futex:3:worker")
            try:
                with open(os.path.join(folder, "cgroup.procs"), "w") as f:
                    f.write(str(victim.pid))
                with open(switch, "w") as f:
                    f.write(frozen)
            except OSError:
                victim.close()
                continue
            found += 1
            try:
                yield victim, os.path.basename(switch) == "cgroup.freeze"
            finally:
                with open(switch, "w") as f:
                    f.write(thawed)
            victim.close()
            wait_until(lambda p=os.path.join(folder, "cgroup.procs"): not read_file(p), "an empty group")
        if not found:
            raise unittest.SkipTest("kernel: no control group can be frozen here")

    def test_frozen(self):
        for victim, _ in self.frozen():
            _, got = self.held(victim, status=(0, 1, 2), text=False)
            self.assertIn(got.status, (0, 1, 2), got)

    def test_what_is_frozen_is_not_idle(self):
        for victim, is_unified in self.frozen():
            def states(*filters, victim=victim):
                doc = self.json("-p", victim.pid, *filters, status=(0, 1), free=False)
                return [thread["state"] for node in walk(doc["processes"]) for stack in node["stacks"]
                        for thread in stack["threads"]]
            count = len(tids_of(victim.pid))
            wait_until(lambda: states("--no-idle", "--state", "frozen") == count * ["frozen"], "all threads to be frozen")
            if not is_unified:
                continue
            got = self.run_tool("record", "-j", "-p", victim.pid, "-d", "0.5", status=(0, 1), free=False)
            self.assertEqual([(row["kind"], row["threads"], row.get("idle")) for row in got.doc["time_by_wait"]],
                             [("frozen", count, None)])
            self.assertEqual({stack["labels"]["state"] for node in walk(got.doc["processes"]) for stack in node["stacks"]},
                             {"frozen"})


class Recordings(Bounded):
    level = "all"

    def record(self, victim, seconds=4.0):
        folder = self.scratch()
        out = os.path.join(folder, "out.txt")
        got = self.measure("record", "-p", victim.pid, "-d", "1", "--timeout", "1500", "-o", out,
                           seconds=seconds, status=(0, 1))
        self.assertLessEqual(os.stat(out).st_size, 10 << 20, got)
        self.assertIn(str(victim.pid), read_file(out))

    def test_files(self):
        for name in ("remembering_fde", "long_line_program", "looping_expression"):
            path = os.path.join(self.scratch(), name)
            bombs.ALL[name](path)
            with self.subTest(name=name):
                victim = self.victim("hostile", "code", path, 3)
                self.record(victim)
                victim.close()

    def test_stacks(self):
        self.record(self.victim("deep", 100000))
