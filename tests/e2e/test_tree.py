# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who is in the report: descendants, several targets, names, cgroups, namespaces, and the views."""
import ctypes
import json
import os
import shutil
import struct
import threading
import unittest

from harness import (Case, TARGETS, functions, need_namespaces, need_root, processes, read_file,
                     status_field, threads, walk)


def silent_mount(place):
    """A file system in user space whose server takes requests and answers but the first; how it is ended."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"silent", place.encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount")
    except OSError as error:
        raise unittest.SkipTest(f"kernel: FUSE: {error}")

    def serve():
        try:
            unique = struct.unpack_from("IIQ", os.read(device, 1 << 17))[2]
            os.write(device, struct.pack("IiQ", 80, 0, unique) + struct.pack("IIII48x", 7, 31, 0, 0))
            while True:
                os.read(device, 1 << 17)
        except OSError:
            pass  # it was unmounted

    server = threading.Thread(target=serve, daemon=True)
    server.start()

    def end():
        libc.umount2(place.encode(), 3)  # by force: what waits for it wakes up
        server.join()
        os.close(device)

    return end


class Family(Case):
    asan = True

    def test_descendants_and_their_order(self):
        victim = self.victim("family")
        victim.watched += [victim[k] for k in ("child_a", "child_b", "grand_a", "grand_b")]
        doc = self.json("-p", victim.pid)
        found = processes(doc)
        self.assertEqual(set(found), {victim.pid, *(victim[k] for k in
                         ("child_a", "child_b", "grand_a", "grand_b", "zombie"))})
        self.assertNotIn(victim["orphan"], found)
        self.assertEqual(len(doc["processes"]), 1)
        root = doc["processes"][0]
        self.assertEqual([c["pid"] for c in root["children"]],
                         sorted([victim["child_a"], victim["child_b"], victim["zombie"]]))
        child = found[victim["child_a"]]
        self.assertEqual([c["pid"] for c in child["children"]], [victim["grand_a"]])
        self.assertEqual((child["name"], child["ppid"]), ("child-a", victim.pid))
        self.assertIn("child_work", functions(child["stacks"][0]))
        self.assertIn("grandchild_work", functions(found[victim["grand_b"]]["stacks"][0]))
        zombie = found[victim["zombie"]]
        self.assertEqual((zombie["type"], zombie["state"]), ("dead", "zombie"))
        self.assertEqual(zombie.get("stacks", []), [])
        self.assertEqual(doc["process_count"], 6)

    def test_text_of_the_tree(self):
        victim = self.victim("family")
        text = self.run_tool("-p", victim.pid).text
        lines = text.splitlines()
        def at(key):
            return next(i for i, l in enumerate(lines) if f"[{victim[key]}]" in l)
        self.assertLess(at("child_a"), at("grand_a"))
        self.assertLess(at("grand_a"), at("child_b"))
        indent = lambda key: len(lines[at(key)]) - len(lines[at(key)].lstrip(" │├└─"))
        self.assertLess(indent("child_a"), indent("grand_a"))
        self.assertIn("(dead process)", text)

    def test_no_children_flat_and_list(self):
        victim = self.victim("family")
        alone = self.json("-p", victim.pid, "--no-children")
        self.assertEqual(list(processes(alone)), [victim.pid])
        flat = self.json("-p", victim.pid, "--flat")
        self.assertEqual(len(flat["processes"]), 6)
        self.assertFalse(any("children" in n for n in flat["processes"]))
        listed = self.run_tool("list", "-p", victim.pid).text
        for key in ("child_a", "grand_b"):
            self.assertIn(str(victim[key]), listed)
        self.assertNotIn("child_work", listed)

    def test_list_as_json_has_no_stacks(self):
        victim = self.victim("family")
        doc = self.json("list", "-p", victim.pid)
        self.assertEqual(doc["process_count"], 6)
        self.assertFalse(any(n.get("stacks") for n in walk(doc["processes"])))

    def test_several_targets_and_a_pid_inside_another(self):
        victim = self.victim("family")
        other = self.victim("chain")
        arguments = (f"{victim.pid},{other.pid}", "-p", victim["child_a"], victim["grand_a"])
        doc = self.json("-p", *arguments)
        pids = [n["pid"] for n in walk(doc["processes"])]
        self.assertEqual(len(pids), len(set(pids)))
        self.assertEqual(len(pids), 7)
        self.assertEqual({n["pid"] for n in doc["processes"]}, {victim.pid, other.pid})

    def test_tid_is_answered_by_its_process(self):
        victim = self.victim("threads", "futex:2:worker")
        tid = max(threads(self.node(victim.pid)))
        got = self.run_tool("-p", tid, "--json")
        self.assertEqual(got.doc["processes"][0]["pid"], victim.pid)
        self.assertIn(str(tid), got.err)

    def test_name_option(self):
        folder = self.scratch()
        odd = os.path.join(folder, "odd-name-77")
        shutil.copy(os.path.join(TARGETS, "chain"), odd)
        victim = self.program([odd])
        for pattern in ("^odd-name-7+$", "odd-nam"):
            doc = self.json("--name", pattern)
            self.assertEqual([n["pid"] for n in doc["processes"]], [victim.pid])
        got = self.run_tool("--name", "^no-such-name-anywhere$", status=2)
        self.assertIn("no-such-name-anywhere", got.err)

    def test_two_trees_of_one_parent(self):
        victim = self.victim("family")
        doc = self.json(victim["child_b"], victim["child_a"])
        self.assertEqual({n["pid"] for n in doc["processes"]}, {victim["child_a"], victim["child_b"]})

    def test_process_facts(self):
        victim = self.victim("chain")
        node = self.node(victim.pid)
        self.assertEqual(node["uid"], os.getuid())
        self.assertEqual(node["type"], "normal")
        stat = read_file(f"/proc/{victim.pid}/stat").rsplit(")", 1)[1].split()
        self.assertEqual(node["start_ticks"], int(stat[19]))
        self.assertRegex(node["start_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$")
        self.assertEqual(node["ppid"], os.getpid())
        doc = self.json("-p", victim.pid, "--stop-all")
        self.assertRegex(doc["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$")
        self.assertGreater(doc["stop_duration_ns"], 0)
        self.assertGreaterEqual(doc["duration_ns"], doc["stop_duration_ns"])
        self.assertLessEqual(doc["stop_skew_ns"], doc["stop_duration_ns"])
        host = os.uname()
        self.assertEqual((doc["host"]["name"], doc["host"]["kernel"], doc["host"]["arch"]),
                         (host.nodename, host.release, host.machine))
        self.assertEqual(doc["host"]["boot_id"],
                         read_file("/proc/sys/kernel/random/boot_id").strip())

    def test_key_order(self):
        victim = self.victim("chain")
        doc = self.json("-p", victim.pid)
        keys = [k for k in doc if k != "_result"]
        order = ["schema", "schema_version", "tool", "host", "time", "monotonic_ns", "duration_ns",
                 "stop", "stop_duration_ns", "stop_skew_ns", "process_count", "thread_count", "stack_count", "processes", "warnings"]
        self.assertEqual(keys, [k for k in order if k in doc])
        self.assertEqual((doc["schema"], doc["schema_version"]), ("stacksnap.snapshot", 1))
        def no_nulls(value, path="$"):
            self.assertIsNotNone(value, path)
            if isinstance(value, dict):
                for key, inner in value.items():
                    self.assertNotEqual(inner, "", f"{path}.{key}")
                    if key != "_result":
                        no_nulls(inner, f"{path}.{key}")
            elif isinstance(value, list):
                for inner in value:
                    no_nulls(inner, path)
        no_nulls(doc)


class Machine(Case):
    alone = True

    def test_all(self):
        victim = self.victim("family")
        other = self.victim("chain")
        doc = self.json("--all", status=(0, 1), timeout=120)
        found = processes(doc)
        for pid in (victim.pid, other.pid, victim["child_a"], victim["orphan"]):
            self.assertIn(pid, found)
        self.assertNotIn(os.getpid(), found)  # an ancestor of the tool
        # Neither the tool nor its tracing child, which has the same command line; others may run.
        self.assertEqual([n["pid"] for n in found.values()
                          if n.get("name") == "stacksnap" and "--all" in n.get("args", [])], [])
        kernel = [n for n in found.values() if n["type"] == "kernel"]
        listed = self.json("list", "--all", "--no-system", status=(0, 1), timeout=120)
        types = {n["type"] for n in walk(listed["processes"])}
        self.assertFalse(types & {"system", "kernel", "none"}, types)
        if kernel:
            self.assertNotIn(kernel[0]["pid"], processes(listed))


class Cgroups(Case):
    """Unit, container and cgroup are read from cgroup paths, so cgroups of the right names do."""

    def make(self, *parts):
        need_root()
        # The unified hierarchy, or that of a service manager where there is none.
        for base in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/systemd"):
            if os.path.exists(os.path.join(base, "cgroup.procs")):
                break
        else:
            raise unittest.SkipTest("kernel: no writable hierarchy of cgroups that name units")
        path, made = base, []
        for part in parts:
            path = os.path.join(path, part)
            try:
                os.mkdir(path)
                made.append(path)
            except FileExistsError:
                pass
            except OSError as error:
                raise unittest.SkipTest(f"kernel: cgroup: {error}")
        def remove():
            for folder in reversed(made):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass
        self.addCleanup(remove)
        return path, "/" + "/".join(parts)

    def move(self, path, pid):
        try:
            with open(os.path.join(path, "cgroup.procs"), "w") as f:
                f.write(str(pid))
        except OSError as error:
            raise unittest.SkipTest(f"kernel: cgroup: {error}")

    def test_unit(self):
        path, name = self.make("system.slice", "stacksnap-test.service")
        victim = self.victim("chain")
        self.move(path, victim.pid)
        for unit in ("stacksnap-test.service", "stacksnap-test"):
            doc = self.json("--unit", unit)
            self.assertEqual([n["pid"] for n in doc["processes"]], [victim.pid])
        node = doc["processes"][0]
        self.assertEqual(node["unit"], "stacksnap-test.service")
        self.assertEqual(node["cgroup"], name)
        self.assertIn("stacksnap-test.service", self.run_tool("-u", "stacksnap-test").text)
        victim.close()

    def test_container_and_cgroup(self):
        ident = "0123456789abcdef" * 4
        path, name = self.make("system.slice", f"docker-{ident}.scope")
        victim = self.victim("chain")
        self.move(path, victim.pid)
        for text in (ident, ident[:12]):
            doc = self.json("--container", text)
            self.assertEqual([n["pid"] for n in doc["processes"]], [victim.pid])
        self.assertTrue(doc["processes"][0]["container"].startswith(ident[:12]))
        for text in (name, "/system.slice/"):
            self.assertIn(victim.pid, processes(self.json("--cgroup", text)))
        got = self.run_tool("--container", "feedfeedfeed", status=2)
        self.assertIn("feedfeedfeed", got.err)
        victim.close()

    def test_names_that_a_unit_gives(self):
        """A service that was given its group to a user may call groups below it what it likes."""
        ident = "fedcba9876543210" * 4
        for last in ("sshd.service", f"libpod-{ident}.scope"):
            with self.subTest(last=last):
                path, name = self.make("system.slice", "stacksnap-given.service", "app.slice", last)
                for folder in (path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
                    os.chown(folder, 12345, 12345)
                victim = self.victim("chain")
                self.move(path, victim.pid)
                container = last.startswith("libpod")
                option, long = ("--container", ident) if container else ("--unit", "sshd.service")
                for text in (long, long[:12] if container else "sshd"):
                    self.assertNotIn(victim.pid, processes(self.json(option, text, status=(0, 1, 2))))
                node = self.node(victim.pid)
                self.assertEqual(node["unit"], f"stacksnap-given.service/app.slice/{last}")
                self.assertEqual(node.get("container"),
                                 f"stacksnap-given.service/{ident}" if container else None)
                for target in (("--unit", node["unit"]), ("--unit", "stacksnap-given"), ("--cgroup", name),
                               ("--container", f"stacksnap-given.service/{ident[:9]}")):
                    if container or target[0] != "--container":
                        self.assertEqual(list(processes(self.json(*target))), [victim.pid], target)
                if container:  # of root's, it is found by its own name
                    for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
                        os.chown(folder, 0, 0)
                    self.assertEqual(self.json(option, long)["processes"][0]["container"], ident)
                victim.close()

    def test_container_by_name(self):
        """The engine's own files say which id a name has, also to a user who keeps them at home."""
        ident = "89abcdef01234567" * 4
        path, _ = self.make("machine.slice", f"libpod-{ident}.scope")
        victim = self.victim("chain")
        self.move(path, victim.pid)
        home = self.scratch()
        folder = os.path.join(home, "containers", "storage", "overlay-containers")
        os.makedirs(folder)
        with open(os.path.join(folder, "containers.json"), "w") as f:
            json.dump([{"id": "0" * 64, "names": ["other"]}, {"id": ident, "names": ["web-7"]}], f)
        env = {"XDG_DATA_HOME": home}
        doc = self.json("--container", "web-7", env=env)
        self.assertEqual([n["pid"] for n in doc["processes"]], [victim.pid])
        for text in ("web", "other"):
            self.assertIn(f"'{text}'", self.run_tool("--container", text, status=2, env=env).err)
        victim.close()

    def test_a_home_that_does_not_answer(self):
        """The files of engines in it are given up; those of the system are read, and an id needs none."""
        ident = "7654321089abcdef" * 4
        path, _ = self.make("machine.slice", f"libpod-{ident}.scope")
        victim = self.victim("chain")
        self.move(path, victim.pid)
        home = os.path.join(self.scratch(), "home")
        os.mkdir(home)
        self.addCleanup(silent_mount(home))
        for _ in range(3):
            doc = self.json("--container", ident[:12], env={"XDG_DATA_HOME": home}, status=1, timeout=20)
            self.assertEqual([n["pid"] for n in doc["processes"]], [victim.pid])
            self.assertEqual([w["code"] for w in doc["warnings"]], ["processes_late"])
        victim.close()

    def test_ancestors_in_the_same_cgroup(self):
        path, _ = self.make("stacksnap-test-ancestors")
        victim = self.victim("family")
        for key in ("child_a", "grand_a"):
            self.move(path, victim[key])
        self.move(path, victim.pid)
        node = self.node(victim["grand_a"])
        self.assertEqual([a["pid"] for a in node["ancestors"]], [victim["child_a"], victim.pid])
        self.assertEqual(node["ancestors"][0]["name"], "child-a")
        victim.close()


class Namespaces(Case):
    def unshared(self, flags, script):
        need_namespaces(*flags)
        return self.program(["unshare", *flags, "sh", "-c", script], settled=False)

    def outer_pid(self, victim):
        """The pid outside of the one that said ready inside, below the program that was started."""
        def below(pid):
            for tid in os.listdir(f"/proc/{pid}/task"):
                for child in (read_file(f"/proc/{pid}/task/{tid}/children") or "").split():
                    yield int(child)
                    yield from below(int(child))
        for pid in [victim.process.pid, *below(victim.process.pid)]:
            inner = (status_field(pid, "NSpid") or "").split()
            if inner and int(inner[-1]) == victim.ready_pid and \
                    os.readlink(f"/proc/{pid}/exe").endswith("chain"):
                victim.watched = [pid]
                return pid
        self.fail("the victim is not found outside")

    def test_own_pid_and_mount_namespace(self):
        program = os.path.join(TARGETS, "chain")
        mount = ("mount -t tmpfs inner /mnt && mkdir /mnt/deep && cp %s /mnt/deep/chain && "
                 "exec /mnt/deep/chain" % program)
        victim = self.unshared(["-Urmpf", "--mount-proc"], mount)
        pid = self.outer_pid(victim)
        self.assertFalse(os.path.exists("/mnt/deep/chain"))
        node = self.node(pid)
        self.assertEqual(node["ns_pid"], victim.ready_pid)
        stack = node["stacks"][0]
        self.assert_calls(stack, "chain_hold", "f3", "f2", "f1", "f0", "main")
        self.assertEqual(stack["entries"][3]["module"], "/mnt/deep/chain")
        self.assertTrue(any("line" in e for e in stack["entries"]))

    def test_whole_tree_over_a_namespace_border(self):
        program = os.path.join(TARGETS, "chain")
        victim = self.unshared(["-Urpf", "--mount-proc"], f"{program}; true")
        pid = self.outer_pid(victim)
        doc = self.json("-p", victim.process.pid, "--no-system")
        found = processes(doc)
        self.assertIn(pid, found)
        self.assertEqual(found[pid]["ns_pid"], victim.ready_pid)

    def test_a_device_of_the_same_name_here(self):
        """What is a program inside is a device here: the inner one is read, nothing blocks."""
        need_root()
        program = os.path.join(TARGETS, "chain")
        victim = self.unshared(["-m"], f"mount -t tmpfs inner /dev/shm && cp {program} /dev/shm/chain "
                                       "&& exec /dev/shm/chain")
        pid = self.outer_pid(victim)
        fifo = "/dev/shm/chain"
        os.mkfifo(fifo)
        self.addCleanup(os.unlink, fifo)
        self.assert_calls(self.node(pid)["stacks"][0], "f3", "f2", "f1", "f0", "main")
