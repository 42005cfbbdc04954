# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a target names is read with the rights of the target's user, and only if it is what the target
has mapped: what he cannot read is neither read for him nor copied into a capture.

STACKSNAP_RACES in the environment is how often a process is looked at that changes its rights (5000 for the figure of
the security design)."""
import os
import re
import shutil
import subprocess

from harness import Case, TARGETS, functions, need, need_namespaces, need_root, processes, read_file
from test_core import Cores
from test_record import Running

NOBODY = 65534  # whose rights count where none are known
USER = 4711
PLUG = ("plug_callback", "plug_inner", "plug_enter", "main")
SECRET = b"what nobody but root may read"
DROPS = """
import ctypes, os, sys, time
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
ctypes.CDLL(sys.argv[1]).plug_enter(ctypes.CFUNCTYPE(None)(lambda: time.sleep(1000)))
"""
RACES = int(os.environ.get("STACKSNAP_RACES", "48"))


class Lured(Case):
    """A process of a user with namespaces of his own has mapped a library, and lays something else where
    that was, once it stands still. All that he may not read looks like the library, and holds SECRET."""

    def setUp(self):
        super().setUp()
        need_root()
        need("unshare", "mount")
        self.folder = self.scratch()
        os.chown(self.folder, NOBODY, NOBODY)
        self.place = os.path.join(self.folder, "place")
        os.mkdir(self.place)
        os.chown(self.place, NOBODY, NOBODY)
        self.library = os.path.join(self.place, "libplugin.so")
        for name in ("libplugin.so", "plug"):
            shutil.copy(os.path.join(TARGETS, name), self.folder)

    def lured(self, lay, goal, before="true"):
        """The process; its library lies in a file system of its own. `lay` is what his shell does when the
        process stands still."""
        for name in ("go", "gone"):
            path = os.path.join(self.folder, name)
            if not os.path.exists(path):
                os.mkfifo(path)
                os.chown(path, NOBODY, NOBODY)
        script = f'mount -t tmpfs none "$1/place" && {before} && cp "$1/libplugin.so" "$1/place" && ' \
                 f'{{ ( read go < "$1/go"; {lay}; echo $? > "$1/gone" ) & }} && ' \
                 'exec "$1/plug" "$1/place/libplugin.so"'
        who = dict(user=NOBODY, group=NOBODY, extra_groups=[])
        argv = ["unshare", "-Urm", "sh", "-c", script, "sh", self.folder, goal]
        need_namespaces("-Urm", **who)
        return self.program(argv, **who)

    def lay(self):
        with open(os.path.join(self.folder, "go"), "w") as f:
            f.write("\n")
        with open(os.path.join(self.folder, "gone")) as f:
            self.assertEqual(f.read(), "0\n")

    def secret(self, folder, folder_mode, mode):
        """A file of root's that has the library's build id."""
        path = os.path.join(folder, "secret.so")
        with open(self.folder + "/libplugin.so", "rb") as f, open(path, "wb") as out:
            out.write(f.read() + SECRET)
        os.chmod(path, mode)
        os.chmod(folder, folder_mode)
        return path

    def assert_kept_secret(self, victim):
        """What is mapped is shown all the same, and what was copied is no secret."""
        path = os.path.join(self.scratch(), "capture")
        got = self.node(victim.pid, "--save-capture", path, status=(0, 1))
        self.assert_calls(got["stacks"][0], *PLUG)
        with open(path, "rb") as f:
            self.assertNotIn(SECRET, f.read())

    OVERMOUNT = 'mount -t tmpfs none "$1/place" && ln -s "$2" "$1/place/libplugin.so"'

    def test_a_link_into_a_folder_that_he_cannot_enter(self):
        victim = self.lured(self.OVERMOUNT, self.secret(self.scratch(), 0o700, 0o644))
        self.lay()
        self.assert_kept_secret(victim)

    def test_a_file_with_the_same_number_on_another_device(self):
        device = self.scratch()
        subprocess.run(["mount", "-t", "tmpfs", "none", device], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", device])
        goal = self.secret(device, 0o755, 0o600)
        # He makes files until the number is that one.
        count = os.stat(goal).st_ino
        victim = self.lured(self.OVERMOUNT, goal, f'for i in $(seq 1 {2 * count}); do cp "$1/libplugin.so" "$1/place"; '
                            f'[ $(stat -c %i "$1/place/libplugin.so") -ge {count} ] && break; '
                            'mv "$1/place/libplugin.so" "$1/place/$i"; done')
        inside = f"/proc/{victim.pid}/root{self.library}"
        self.assertEqual(os.stat(inside).st_ino, count, "the numbers of a tmpfs count up")
        self.lay()
        self.assert_kept_secret(victim)

    def test_a_debug_file_that_he_cannot_read(self):
        """Readable by itself, in a folder that he cannot enter; then a copy of his own."""
        need("objcopy", "readelf")
        if not os.path.isdir("/usr/lib/debug"):
            self.skipTest("missing: /usr/lib/debug, to mount something there")
        library = os.path.join(self.folder, "libplugin.so")
        notes = subprocess.run(["readelf", "-n", library], stdout=subprocess.PIPE, text=True).stdout
        ident = re.search("Build ID: ([0-9a-f]+)", notes).group(1)
        for hidden, wanted in ((self.scratch(0o700), False), (self.scratch(), True)):
            debug = os.path.join(hidden, "plugin.debug")
            subprocess.run(["objcopy", "--only-keep-debug", os.path.join(TARGETS, "libplugin.so"), debug], check=True)
            subprocess.run(["objcopy", "--strip-debug", library], check=True)
            os.chmod(debug, 0o644)
            folder = f"/usr/lib/debug/.build-id/{ident[:2]}"
            victim = self.lured(f'mount -t tmpfs none /usr/lib/debug && mkdir -p {folder} && '
                                f'ln -s "$2" {folder}/{ident[2:]}.debug', debug)
            self.lay()
            entries = self.node(victim.pid, status=(0, 1))["stacks"][0]["entries"]
            self.assertEqual(any(e.get("line") for e in entries if e.get("function") == "plug_inner"), wanted)
            victim.close()


class Imitated(Case):
    """attack_secret: what a process has mapped is replaced by a file that its user cannot read and that says it
    is the same program. That file's bytes are in nothing that the tool writes."""

    def test_in_three_ways(self):
        need_root()
        for mode in ("symlink", "inode", "overmounted"):
            with self.subTest(mode=mode):
                private = self.scratch()
                # A new tmpfs counts its files up: after some, a number that another one is yet to reach.
                subprocess.run(["mount", "-t", "tmpfs", "none", private], check=True)
                self.addCleanup(subprocess.run, ["umount", "-l", private])
                for i in range(64):
                    open(os.path.join(private, str(i)), "w").close()
                goal = os.path.join(private, "program")
                with open(os.path.join(TARGETS, "attack_secret"), "rb") as f, open(goal, "wb") as out:
                    out.write(f.read() + SECRET)
                os.chmod(goal, 0o644)
                os.chmod(private, 0o700)
                victim = self.victim("attack_secret", mode, goal)
                self.assertEqual(victim["readable"], 0, "he could have read it himself")
                capture = os.path.join(self.scratch(), "capture")
                got = self.run_tool("--json", "-p", victim.pid, "--save-capture", capture, status=(0, 1))
                nodes = processes(got.doc)
                self.assertTrue(any(t["name"] == "in-file" for stack in nodes[victim.pid]["stacks"]
                                    for t in stack["threads"]), got.doc)
                self.assertTrue(nodes[victim["bystander"]]["stacks"])
                self.assertNotIn(SECRET, read_file(capture, "rb"))
                self.assertNotIn(SECRET.decode(), got.text)
                recording = os.path.join(self.scratch(), "recording.snaprec")
                self.run_tool("record", "-p", victim.pid, "-d", "0.3", "-o", recording, status=(0, 1))
                self.assertNotIn(SECRET, read_file(recording, "rb"))
                victim.close()


class Changed(Case):
    """attack_rights: root becomes a user and executes a program that only root may read. Whenever that happens,
    no function of that program is named."""
    WAYS = (("--json",), ("--json", "--no-stop"), ("record", "-d", "0.2", "-f", "json"))

    def changing(self, mode, *fixed):
        """Its functions have other names in the program that it executes, at the same addresses."""
        folder = self.scratch()
        plain, royal = (os.path.join(folder, name) for name in ("plain", "royal"))
        data = read_file(os.path.join(TARGETS, "attack_rights"), "rb")
        ident = data.index(b"\x14\0\0\0\x03\0\0\0GNU\0") + 12
        if not fixed:  # what has the same build id may have the same names
            data = data[:ident] + bytes(20) + data[ident + 20:]
        for path, name, bits in ((plain, b"plain_hold", 0o755), (royal, b"royal_hold", mode)):
            with open(path, "wb") as f:
                f.write(data.replace(b"plain_hold", name))
            os.chmod(path, bits)
        if not fixed:
            shutil.copy(os.path.join(TARGETS, "attack_rights"), plain)
        return self.program([plain, str(NOBODY), royal, *fixed], settled=False)

    def texts(self, victim):
        """What the tool says of it, in several ways."""
        for i in range(RACES // 2):
            argv = self.WAYS[i % len(self.WAYS)]
            yield argv, self.run_tool(*argv, "-p", victim.pid, status=(0, 1), free=False).text

    def test_names_that_root_alone_may_read(self):
        need_root()
        for fixed in ((), ("fixed",)):
            victim = self.changing(0o711, *fixed)
            told = [argv for argv, text in self.texts(victim) if "royal_hold" in text]
            self.assertEqual(told, [], fixed)
            victim.close()

    def test_names_that_all_may_read(self):
        need_root()
        victim = self.changing(0o755)
        self.assertTrue(any("royal_hold" in text for _, text in self.texts(victim)))


class Members(Case):
    """What he can read is read: by his groups, too."""

    def test_a_program_for_a_group(self):
        need_root()
        path = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        os.chown(path, 0, 4242)
        os.chmod(path, 0o750)
        victim = self.program([path], user=NOBODY, group=NOBODY, extra_groups=[7, 4242])
        for argv in (("--json", "-p"), ("record", "-d", "0.2", "-f", "json", "-p")):
            doc = self.run_tool(*argv, victim.pid).doc
            self.assertIn("chain_hold", functions(processes(doc)[victim.pid]["stacks"][0]))

    def test_a_program_that_he_may_run_but_not_read(self):
        need_root()
        path = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        os.chmod(path, 0o711)
        victim = self.program([path], user=NOBODY, group=NOBODY, extra_groups=[])
        node = self.node(victim.pid, status=1)
        self.assertNotIn("chain_hold", functions(node["stacks"][0]))
        self.assertTrue(all(e.get("offset") for e in node["stacks"][0]["entries"]))

    def test_root_without_capabilities(self):
        """As root is in a container: modes of files count."""
        need_root()
        need("setpriv")
        path = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        os.chown(path, USER, USER)
        for mode, named in ((0o711, False), (0o755, True)):
            os.chmod(path, mode)
            victim = self.program(["setpriv", "--bounding-set=-all", "--inh-caps=-all", path])
            for argv in (("--json", "-p"), ("record", "-d", "0.2", "-f", "json", "-p")):
                doc = self.run_tool(*argv, victim.pid, status=(0, 1)).doc
                self.assertEqual("chain_hold" in functions(processes(doc)[victim.pid]["stacks"][0]), named, (argv, mode))
            victim.close()


class Saved(Cores):
    """A file for `stacksnap render` names other files: they are opened as its owner may, in no group, or in a file of
    root's as the user of the process."""

    def setUp(self):
        super().setUp()
        need_root()
        folder = self.scratch()
        self.path = os.path.join(folder, "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), self.path)
        os.chmod(self.path, 0o700)
        self.chain = self.program([self.path])

    def save(self, victim):
        """A capture and a recording without names."""
        files = [os.path.join(self.scratch(), name) for name in ("capture", "recording.snaprec")]
        self.run_tool("-p", victim.pid, "--save-capture", files[0], status=(0, 1))
        self.run_tool("record", "-p", victim.pid, "-d", "0.2", "-q", "-o", files[1], status=(0, 1))
        return files

    def has_names(self, file, owner, mode, *argv, **options):
        os.chown(file, owner, owner)
        os.chmod(file, mode)
        got = self.run_tool("core" if "--exe" in argv else "render", file, *argv, "--json", status=(0, 1), **options)
        return "chain_hold" in functions(processes(got.doc)[self.chain.pid]["stacks"][0])

    def assert_owner_counts(self, file):
        for owner, mode, named in ((0, 0o600, True), (0, 0o664, True), (NOBODY, 0o600, False), (0, 0o666, False)):
            self.assertEqual(self.has_names(file, owner, mode), named, (file, owner, mode))
        # What he owns is his.
        os.chown(self.path, NOBODY, NOBODY)
        self.assertTrue(self.has_names(file, NOBODY, 0o600))
        os.chown(self.path, 0, 0)

    def test_a_capture(self):
        file, _ = self.save(self.chain)
        self.assert_owner_counts(file)
        # --debug-dir is the caller's.
        self.assertTrue(self.has_names(file, NOBODY, 0o600, "--debug-dir", os.path.dirname(self.path)))

    def test_a_recording(self):
        _, file = self.save(self.chain)
        self.assert_owner_counts(file)

    def test_what_root_saved(self):
        """A user's process has named files, and they may be others by now."""
        os.chown(self.path, USER, USER)
        self.chain = self.program([self.path], user=USER, group=USER, extra_groups=[])
        files = self.save(self.chain)
        self.assertEqual([self.has_names(file, 0, 0o600) for file in files], [True, True])
        os.chown(self.path, 0, 0)
        self.assertEqual([self.has_names(file, 0, 0o600) for file in files], [False, False])

    def test_a_daemon_that_drops_its_rights(self):
        """While it is recorded; then it maps a file, which may be another one by now."""
        need("python3")
        library = os.path.join(self.scratch(), "libplugin.so")
        file = os.path.join(self.scratch(), "recording.snaprec")
        shutil.copy(os.path.join(TARGETS, "libplugin.so"), library)
        victim = self.program(["/usr/bin/python3", "-c", DROPS, library, str(USER)], settled=False)
        running = Running(["-p", victim.pid, "-d", "3", "-q", "-o", file])
        self.addCleanup(running.close)
        victim.tell("\n")
        self.assertIn(running.end(number=0).status, (0, 1))
        for owner in (USER, 0):
            os.chown(library, owner, owner)
            os.chmod(library, 0o700)
            got = self.run_tool("render", file, "--json", status=(0, 1))
            named = any("plug_inner" in functions(stack) for stack in processes(got.doc)[victim.pid]["stacks"])
            self.assertEqual(named, owner == USER)

    def test_a_core(self):
        file = self.gdb_core(self.chain)
        self.assert_owner_counts(file)
        # So is --exe.
        self.assertTrue(self.has_names(file, NOBODY, 0o600, "--exe", self.path))
        packed = file + ".gz"
        with open(packed, "wb") as out:
            subprocess.run(["gzip", "-c", file], stdout=out, check=True)
        self.assert_owner_counts(packed)

    def test_what_comes_through_a_pipe(self):
        """It is of those who may have written into the pipe: into root's that is not known."""
        file, _ = self.save(self.chain)
        pipe = os.path.join(self.scratch(), "pipe")
        os.mkfifo(pipe)
        for owner, mode, programs, named in ((0, 0o600, 0, False), (0, 0o622, 0, False), (0, 0o600, NOBODY, True),
                                             (USER, 0o600, 0, False), (USER, 0o600, USER, True)):
            os.chown(self.path, programs, programs)
            with subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", file, pipe]):
                self.assertEqual(self.has_names(pipe, owner, mode), named, (owner, mode, programs))


class OtherMounts(Case):
    """The same root directory, with other mounts in it."""

    def test_a_recording_of_it(self):
        need_root()
        need("mount")
        need_namespaces("-m")
        folder = self.scratch()
        path = os.path.join(folder, "chain")
        shutil.copy(os.path.join(TARGETS, "noreturn"), path)
        script = 'mount -t tmpfs none "$1" && cp "$2" "$1/chain" && exec "$1/chain"'
        victim = self.program(["unshare", "-m", "sh", "-c", script, "sh", folder, os.path.join(TARGETS, "chain")])
        doc = self.run_tool("record", "-d", "0.2", "-f", "json", "-p", victim.pid).doc
        self.assert_calls(processes(doc)[victim.pid]["stacks"][0], "chain_hold", "f3", "f2", "f1", "f0", "main")
