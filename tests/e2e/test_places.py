# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that are written and read: links, modes, leftovers, places that nobody reads, and the time that
a run may take."""
import json
import os
import shutil
import signal
import stat
import subprocess

from harness import (Case, DEADLINE, TOOL, check_schema, clean_environment, need_root, proc_state,
                     wait_until)


class Places(Case):
    asan = True

    def test_link_stays_and_mode_is_kept(self):
        victim = self.victim("chain")
        folder = self.scratch()
        real, link = os.path.join(folder, "real"), os.path.join(folder, "link")
        with open(real, "w") as f:
            f.write("old")
        os.chmod(real, 0o640)
        os.symlink("real", link)
        self.run_tool(victim.pid, "-o", link)
        self.assertEqual(os.readlink(link), "real")
        self.assertEqual(stat.S_IMODE(os.stat(real).st_mode), 0o640)
        self.assertIn("chain_hold", open(real).read())
        self.assertEqual(sorted(os.listdir(folder)), ["link", "real"])

    def test_new_file_has_the_usual_mode_and_a_capture_is_private(self):
        victim = self.victim("chain")
        folder = self.scratch()
        report, capture = os.path.join(folder, "report"), os.path.join(folder, "capture")
        mask = os.umask(0o027)
        try:
            self.run_tool(victim.pid, "-o", report, "--save-capture", capture)
        finally:
            os.umask(mask)
        self.assertEqual(stat.S_IMODE(os.stat(report).st_mode), 0o640)
        self.assertEqual(stat.S_IMODE(os.stat(capture).st_mode), 0o600)
        self.assertEqual(sorted(os.listdir(folder)), ["capture", "report"])

    def test_capture_that_cannot_be_written(self):
        victim = self.victim("chain")
        got = self.run_tool(victim.pid, "--save-capture", "/nonexistent/x", status=2)
        self.assertIn("/nonexistent/x", got.err)
        self.assertEqual(got.raw, b"")
        got = self.run_tool(victim.pid, "--save-capture", "/dev/full", status=2)
        self.assertIn("No space left", got.err)
        self.assertIn("chain_hold", got.text)  # the target stood still for it
        self.run_tool(victim.pid, "--save-capture", "-", status=64)

    def test_standard_streams_by_name(self):
        victim = self.victim("chain")
        for path in ("/dev/stdout", "/proc/self/fd/1", "-"):
            self.assertIn("chain_hold", self.run_tool(victim.pid, "-o", path).text)

    def test_group_is_kept(self):
        need_root()
        victim = self.victim("chain")
        path = os.path.join(self.scratch(), "report")
        with open(path, "w"):
            os.chown(path, 0, 65534)
        os.chmod(path, 0o640)
        self.run_tool(victim.pid, "-o", path)
        status = os.stat(path)
        self.assertEqual((status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)), (0, 65534, 0o640))

    def test_long_name(self):
        victim = self.victim("chain")
        folder = self.scratch()
        self.run_tool(victim.pid, "-o", os.path.join(folder, "n" * 255))
        self.assertEqual(os.listdir(folder), ["n" * 255])
        self.run_tool(victim.pid, "-o", os.path.join(folder, "n" * 256), status=2)
        self.assertEqual(os.listdir(folder), ["n" * 255])


class Others(Case):
    """Another user was there first: he gets nothing of what is written, and does not say where."""
    OTHER = 65534

    def setUp(self):
        super().setUp()
        need_root()
        self.shared = self.scratch(0o1777)

    def lay(self, make, *names, folder=None):
        """What the other user makes in a folder."""
        path = os.path.join(folder or self.shared, *names)
        make(path)
        os.chown(path, self.OTHER, self.OTHER, follow_symlinks=False)
        return path

    def old_file(self, name):
        """A file of the other user, which he has open."""
        path = self.lay(lambda path: open(path, "w").close(), name)
        os.chmod(path, 0o666)
        held = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, held)
        return path, held

    def assert_ours(self, path, mode, held):
        status = os.stat(path)
        self.assertEqual((status.st_uid, status.st_gid), (os.geteuid(), os.getegid()))
        self.assertEqual(stat.S_IMODE(status.st_mode), mode)
        self.assertGreater(status.st_size, 0)
        self.assertEqual(os.pread(held, 100, 0), b"")

    def test_files_that_he_has_made(self):
        victim = self.victim("chain")
        mask = os.umask(0o022)
        self.addCleanup(os.umask, mask)
        path, held = self.old_file("capture")
        self.run_tool(victim.pid, "--save-capture", path, "-o", "/dev/null")
        self.assert_ours(path, 0o600, held)
        path, held = self.old_file("report")
        self.run_tool(victim.pid, "-o", path)
        self.assert_ours(path, 0o644, held)
        path, held = self.old_file("recording.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "0.2", "-o", path)
        self.assert_ours(path, 0o644, held)
        self.assertEqual(len(os.listdir(self.shared)), 3)

    def test_a_capture_is_private_whatever_was_there(self):
        victim = self.victim("chain")
        path = os.path.join(self.scratch(), "capture")
        with open(path, "w"):
            os.chown(path, 0, self.OTHER)
        os.chmod(path, 0o666)
        self.run_tool(victim.pid, "--save-capture", path, "-o", "/dev/null")
        status = os.stat(path)
        self.assertEqual((status.st_uid, status.st_gid), (os.geteuid(), os.getegid()))
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)

    def refused(self, victim, path, reason):
        for arguments in ((victim.pid, "-o", path), (victim.pid, "-o", "/dev/null", "--save-capture", path),
                          ("record", "-p", victim.pid, "-d", "0.1", "-o", path)):
            got = self.run_tool(*arguments, status=2)
            self.assertIn(reason, got.err)

    def test_links_that_he_has_laid(self):
        victim = self.victim("chain")
        private = self.scratch(0o700)
        goal = os.path.join(private, "goal")
        # The kernel has a rule for folders like /tmp alone, and can be told to have none.
        for mode in (0o1777, 0o777, 0o755):
            folder = self.lay(os.mkdir, f"{mode:o}")
            os.chmod(folder, mode)
            links = [self.lay(lambda path: os.symlink(goal, path), "file", folder=folder)]
            links.append(os.path.join(self.lay(lambda path: os.symlink(private, path), "way", folder=folder),
                                      "goal"))
            links.append(self.lay(lambda path: os.symlink("/dev/null", path), "device", folder=folder))
            for link in links:
                self.refused(victim, link, "belongs to another user")
        self.assertEqual(os.listdir(private), [])
        # Through a link of our own to one of his.
        os.symlink(links[0], os.path.join(private, "ours"))
        self.refused(victim, os.path.join(private, "ours"), "belongs to another user")

    def test_our_own_links_in_a_shared_folder(self):
        victim = self.victim("chain")
        private = self.scratch(0o700)
        os.symlink(private, os.path.join(self.shared, "way"))
        os.symlink(f"way/../{os.path.basename(self.shared)}/./way//goal", os.path.join(self.shared, "file"))
        self.run_tool(victim.pid, "-o", os.path.join(self.shared, "file"))
        self.assertEqual(os.listdir(private), ["goal"])
        os.symlink("circle", os.path.join(private, "circle"))
        got = self.run_tool(victim.pid, "-o", os.path.join(private, "circle"), status=2)
        self.assertIn("Too many levels", got.err)

    def test_a_fifo_that_he_has_made(self):
        victim = self.victim("chain")
        fifo = self.lay(os.mkfifo, "fifo")
        os.chmod(fifo, 0o666)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.refused(victim, fifo, "belongs to another user")
        self.assertEqual(os.read(reader, 100), b"")
        # In a folder where only he lays anything it is what was named.
        folder = self.lay(os.mkdir, "folder")
        fifo = self.lay(os.mkfifo, "fifo", folder=folder)
        other = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, other)
        self.run_tool(victim.pid, "-o", fifo)
        self.assertIn(b"chain_hold", os.read(other, 1 << 16))


class Racing(Case):
    """attack_names: another user makes the name that is written to before and while it is written, in six ways,
    and takes away or opens whatever comes up beside it."""

    SECRET = "what nobody but root may read"

    def race(self, mode, name, *arguments, writes=True):
        """Runs the tool until it has refused some, and written a few if it `writes`; what he has got of that. In a
        folder that is not sticky he may take away what he likes, so that nothing need be written there; and a
        recording looks once whether the name is free, which it nearly never is."""
        folder, private = self.scratch(mode), self.scratch(0o700)
        goal = os.path.join(private, "goal")
        with open(goal, "w") as f:
            f.write(self.SECRET)
        victim = self.victim("chain")
        other = self.victim("attack_names", folder, name, goal, settled=False)
        self.assertNotEqual(other["uid"], 0)
        path, written, refused, runs = os.path.join(folder, name), 0, 0, 0
        sticky = bool(mode & stat.S_ISVTX)
        while (min(written, refused) < 3 if writes else refused < 40) and runs < 400:
            got = self.run_tool(*[victim.pid if word == "PID" else path if word == "FILE" else word
                                  for word in arguments], status=None)
            runs += 1
            self.assertIn(got.status, (0, 1, 2), got)
            written += got.status == 0
            refused += got.status == 2
            if sticky and os.path.lexists(path) and os.lstat(path).st_uid == 0:
                os.unlink(path)
        if writes:
            self.assertGreater(written, 0, "it never wrote")
        self.assertGreater(refused, 0, "nothing was in its way")
        with open(goal) as f:
            self.assertEqual(f.read(), self.SECRET)
        out, _ = other.process.communicate(timeout=DEADLINE)
        return out.decode()

    def test_captures(self):
        """Nothing of a capture can be read by him, whoever has made the name or takes it away."""
        need_root()
        for mode in (0o1777, 0o777):
            with self.subTest(mode=oct(mode)):
                self.assertEqual(self.race(mode, "capture", "PID", "--save-capture", "FILE", "-o", "/dev/null",
                                           writes=mode == 0o1777), "")

    def test_reports(self):
        """A report may be read by all, as the umask says; a file that he holds never takes it."""
        need_root()
        mask = os.umask(0o077)
        self.addCleanup(os.umask, mask)
        for arguments in (("PID", "-o", "FILE"), ("record", "-p", "PID", "-d", "0.1", "-o", "FILE")):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.race(0o1777, "report", *arguments, writes="record" not in arguments), "")


class Waiting(Case):
    """A FIFO without its other end: the run waits, nothing is stopped, and it can be ended."""

    def fifo(self):
        path = os.path.join(self.scratch(), "fifo")
        os.mkfifo(path)
        return path

    def test_time_is_up(self):
        victim = self.victim("chain")
        fifo = self.fifo()
        got = self.run_tool("render", fifo, "--timeout", "50", status=2)
        self.assertIn("gave up after 50 ms (--timeout)", got.err)
        doc = self.json("render", fifo, "--timeout", "50", status=2)
        self.assertEqual(doc["warnings"][0]["code"], "timeout")
        got = self.run_tool(victim.pid, "-o", fifo, "--timeout", "50", status=2)
        self.assertIn("it has no reader", got.err)

    def test_signal(self):
        victim = self.victim("chain")
        for arguments in (["render"], [str(victim.pid), "-o"]):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                tool = subprocess.Popen([TOOL, *arguments, self.fifo()], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=clean_environment())
                # Asleep with the handlers set: in open().
                wait_until(lambda: b"open" in (self.kernel_function(tool.pid) or b"open") and
                           proc_state(tool.pid) == "S" and self.catches(tool.pid, number), "the tool to wait")
                tool.send_signal(number)
                out, err = tool.communicate(timeout=60)
                self.assertEqual((tool.returncode, out, err), (-number, b"", b""))

    def kernel_function(self, pid):
        try:
            with open(f"/proc/{pid}/syscall") as f:
                # openat is what open(3) is; the kernel shows its number, the same on all 64-bit x86
                return b"open" if f.read().split()[0] in ("257", "56") else b"other"
        except (OSError, IndexError):
            return None

    def catches(self, pid, number):
        with open(f"/proc/{pid}/status") as f:
            caught = next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt:"))
        return caught >> (number - 1) & 1

    def test_ignored_signal_stays_ignored(self):
        """As under nohup: SIGHUP changes nothing."""
        victim = self.victim("chain")
        fifo = self.fifo()
        tool = subprocess.Popen(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", TOOL, str(victim.pid), "-j", "-o", fifo],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        wait_until(lambda: proc_state(tool.pid) == "S" and self.catches(tool.pid, signal.SIGINT), "the tool to wait")
        self.assertFalse(self.catches(tool.pid, signal.SIGHUP))
        tool.send_signal(signal.SIGHUP)
        with open(fifo) as reader:
            doc = json.load(reader)
        check_schema(doc)
        self.assertEqual(tool.communicate(timeout=60), (b"", b""))
        self.assertEqual(tool.returncode, 0)


class Operands(Case):
    """Where options and operands may stand, and which command takes which."""
    asan = True

    def test_order_and_short_forms(self):
        victim = self.victim("chain")
        for arguments in ([victim.pid, "-jq"], ["-jqp", victim.pid], ["--json", "--quiet", f"--pid={victim.pid}"],
                          ["-j", "-q", "--", victim.pid], [f"-qjp{victim.pid}"], [f"{victim.pid},{victim.pid}", "-jq"],
                          ["-i", "-s", "-jq", victim.pid],
                          ["--inlines", "--source", "-f", "text", "-j", "-q", victim.pid]):
            with self.subTest(arguments=arguments):
                doc = self.json(*[a for a in arguments])
                self.assertEqual(doc["process_count"], 1)

    def test_options_of_other_commands(self):
        for arguments, name in ((["render", "x", "-p", "1"], "pid"), (["list", "--kernel", "1"], "kernel"),
                                (["list", "1", "--save-capture", "x"], "save-capture"),
                                (["render", "x", "--max-stack", "1M"], "max-stack")):
            got = self.run_tool(*arguments, status=64)
            self.assertIn(f"--{name}", got.err)
            self.assertIn(arguments[0], got.err)

    def test_render_takes_one_file(self):
        for arguments in (["render"], ["render", "a", "b"]):
            self.assertIn("one file", self.run_tool(*arguments, status=64).err)

    def test_escaped_in_messages(self):
        got = self.run_tool(b"\x1b[31mred\xff", status=64)
        self.assertIn("\\x1b[31mred\\xff", got.err)
        got = self.run_tool("--name", b"no\x07such\xff", status=2)
        self.assertIn("no\\x07such\\xff", got.err)
        doc = self.json("--name", b"no\x07such\xff", status=2)
        self.assertIn("no\\x07such\\xff", doc["warnings"][0]["message"])


class Setuid(Case):
    def test_setuid_is_refused(self):
        if os.geteuid():
            self.skipTest("root: only root can make such a copy")
        tool = os.path.join(self.scratch(), "stacksnap")
        shutil.copy(TOOL, tool)
        os.chown(tool, 65534, 65534)
        os.chmod(tool, 0o4755)
        got = self.run_tool("--version", tool=tool, status=2)
        self.assertIn("setuid", got.err)
