# SPDX-License-Identifier: LGPL-2.1-or-later
"""Core files: of the kernel and of gdb, whole, packed, through a pipe, cut off and damaged. And names that are looked
up where something is rendered, not where it was taken."""
import glob
import os
import random
import re
import resource
import shutil
import struct
import subprocess

from harness import Case, TARGETS, addresses, functions, need, processes, read_file, stacks_of, threads
from unittest import SkipTest

ADDRESS = "0x1234"  # where targets/crash.c writes


def kernel_writes_files():
    pattern = read_file("/proc/sys/kernel/core_pattern").strip()
    if pattern.startswith("|") or "/" in pattern:
        raise SkipTest(f"kernel: cores go to {pattern!r} (core_pattern)")


def set_filter(dumped):
    """Which memory of this process, and of what it executes, gets into a core."""
    with open("/proc/self/coredump_filter", "w") as f:
        f.write(hex(dumped))


def without_list(core):
    """The same core without the list of its mapped files: the note NT_FILE is one that nobody knows."""
    with open(core, "rb") as f:
        data = f.read()
    note = struct.pack("<I", 0x46494c45) + b"CORE\0"
    assert data.count(note) == 1
    with open(core + ".unlisted", "wb") as f:
        f.write(data.replace(note, struct.pack("<I", 0x46494c46) + b"CORE\0"))
    return core + ".unlisted"


class Cores(Case):
    def kernel_core(self, *arguments, argv=None, dumped=None, cwd=None, **options):
        """A core that the kernel wrote of targets/crash, or of another build of it; and the pid of what it is of.
        `dumped`: which memory (coredump_filter)."""
        kernel_writes_files()
        folder = cwd or self.scratch()
        limit = resource.getrlimit(resource.RLIMIT_CORE)
        if limit[1] != resource.RLIM_INFINITY:
            raise SkipTest("kernel: cores may not be of any size (ulimit -Hc)")

        def prepare():
            resource.setrlimit(resource.RLIMIT_CORE, (limit[1], limit[1]))
            if dumped is not None:
                set_filter(dumped)
        argv = argv or [os.path.join(TARGETS, "crash")]
        victim = self.program([*argv, *map(str, arguments)], cwd=folder, preexec_fn=prepare, **options)
        victim.tell()
        victim.process.wait(60)
        victim.watched = []
        found = glob.glob(os.path.join(folder, "core*"))
        if not found:
            raise SkipTest("kernel: wrote no core")
        return found[0], victim.pid

    def gdb_core(self, victim):
        need("gcore")
        path = os.path.join(self.scratch(), "core")
        done = subprocess.run(["gcore", "-o", path, str(victim.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        self.assertTrue(os.path.exists(f"{path}.{victim.pid}"), done.stdout)
        return f"{path}.{victim.pid}"

    def core_json(self, *argv, **options):
        return self.json("core", *argv, **options)

    def assert_as_eu_stack(self, core, program, doc, pid):
        """Each thread's return addresses are those that another reader of cores finds."""
        need("eu-stack")
        done = subprocess.run(["eu-stack", "-n", "0", "--core", core, "--executable", program],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        theirs, last = {}, None
        for line in done.stdout.splitlines():
            begin = re.match(r"TID (\d+):", line)
            frame = re.match(r"#\d+\s+0x([0-9a-f]+)", line)
            if begin:
                last = theirs.setdefault(int(begin[1]), [])
            elif frame:
                last.append(int(frame[1], 16))
        ours = {tid: addresses(stack) for tid, (_, stack) in threads(processes(doc)[pid]).items()}
        self.assertEqual(ours, theirs)


class Kernel(Cores):
    def test_crash(self):
        core, pid = self.kernel_core(6)
        doc = self.core_json(core)
        node = processes(doc)[pid]
        self.assertEqual(node["signal"], {"name": "SIGSEGV", "number": 11, "code": 1, "address": ADDRESS, "tid": pid})
        self.assertEqual(node["name"], "crash")
        self.assertEqual(node["args"], [os.path.join(TARGETS, "crash"), "6"])
        self.assertEqual(node["exe"], os.path.join(TARGETS, "crash"))
        self.assertEqual(node["uid"], os.getuid())
        self.assertEqual(node["thread_count"], 7)
        self.assertEqual(doc["warnings"], [])
        self.assertIn("time", doc)
        # The crashed one first, though others are more.
        self.assertEqual(functions(node["stacks"][0])[:3], ["crash_here", "crash_caller", "main"])
        self.assertEqual([s["count"] for s in node["stacks"]], [1, 4, 2])
        # What they wait for is found in the core's memory.
        self.assertEqual(node["stacks"][1]["wait"]["owner"]["tid"], pid)
        text = self.run_tool("core", core).text
        self.assertIn(f"signal SIGSEGV at {ADDRESS} in thread {pid}", text)
        self.assertRegex(text, r"├─ 1 × crash .*crashed")
        self.assertRegex(text, f"waits for mutex lock, held by {pid} crash")

    def test_views(self):
        core, _ = self.kernel_core(3)
        for view in ([], ["--json"], ["--flat", "--no-system"], ["--call-tree"], ["-f", "html"], ["--per-thread", "-m"]):
            with self.subTest(view=view):
                printed = self.run_tool("core", core, *view)
                self.assertEqual(printed.raw, self.run_tool("render", core, *view).raw)
        path = os.path.join(self.scratch(), "report.json")
        self.run_tool("core", core, "-o", path)
        again = self.run_tool("render", path)
        self.assertEqual(again.text, self.run_tool("core", core).text)

    def test_pipe(self):
        core, _ = self.kernel_core(3)
        direct = self.core_json(core)
        for command in ("core", "render"):
            with open(core, "rb") as f:
                feeder = subprocess.Popen(["cat"], stdin=f, stdout=subprocess.PIPE)
            with feeder.stdout:
                piped = self.json(command, "-", stdin=feeder.stdout)
            feeder.wait()
            self.assertNotIn("time", piped)
            self.assertEqual(piped["processes"], direct["processes"])

    def test_packed(self):
        core, _ = self.kernel_core(3)
        direct = self.core_json(core)
        room = self.scratch()
        for packer in ("gzip", "xz", "zstd", "lz4"):
            with self.subTest(packer=packer):
                need(packer)
                packed = f"{core}.{packer}"
                with open(core, "rb") as f, open(packed, "wb") as out:
                    subprocess.run([packer, "-c"], stdin=f, stdout=out, check=True)
                got = self.run_tool("core", packed, "--json", status=(0, 2), env={"TMPDIR": room})
                if got.status == 2:
                    self.assertIn("was built without", got.err)
                    continue
                self.assertEqual(got.doc["processes"], direct["processes"])
                # Half of it: what there is, or why there is nothing.
                with open(packed, "rb+") as f:
                    f.truncate(os.path.getsize(packed) // 2)
                self.run_tool("core", packed, status=(1, 2))
        self.assertEqual(os.listdir(room), [])

    def test_program(self):
        core, pid = self.kernel_core(2)
        moved = shutil.copy(os.path.join(TARGETS, "crash"), os.path.join(self.scratch(), "moved"))
        doc = self.core_json(core, "--exe", moved)
        self.assertEqual(functions(processes(doc)[pid]["stacks"][0])[0], "crash_here")
        self.assertEqual(processes(doc)[pid]["stacks"][0]["entries"][0]["module"], moved)
        missing = self.run_tool("core", core, "--exe", "/nowhere/crash", status=1)
        self.assertIn("/nowhere/crash: the file cannot be found", missing.err)
        self.assertIn(f"signal SIGSEGV at {ADDRESS}", missing.text)
        other = self.run_tool("core", core, "--exe", os.path.join(TARGETS, "threads"), status=1)
        self.assertIn("the build id of the file differs", other.err)

    def test_as_eu_stack(self):
        core, pid = self.kernel_core(30)
        doc = self.core_json(core, "--per-thread", "-n", "0")
        self.assert_as_eu_stack(core, os.path.join(TARGETS, "crash"), doc, pid)


class Gdb(Cores):
    def test_as_the_live_snapshot(self):
        victim = self.victim("threads", "futex:20:worker:5", "epoll:2:poller")
        core = self.gdb_core(victim)
        live = threads(self.node(victim.pid, "--per-thread"))
        doc = self.core_json(core, "--per-thread")
        node = processes(doc)[victim.pid]
        # It was stopped by a debugger, and ended by nothing.
        self.assertNotIn("signal", node)
        dead = threads(node)
        self.assertEqual(set(live), set(dead))
        for tid, (thread, stack) in live.items():
            self.assertEqual(stack["entries"], dead[tid][1]["entries"])
            self.assertEqual(thread.get("syscall"), dead[tid][0].get("syscall"))
        self.assert_as_eu_stack(core, os.path.join(TARGETS, "threads"), doc, victim.pid)
        doc = self.core_json(core, "--runtimes", "none", "--max-stack", "4096", "--runtime-memory", "1M")
        self.assertEqual(len(threads(processes(doc)[victim.pid])), len(live))
        # What a core cannot say is one thing.
        self.assertEqual(doc["waits_lack"], ["core"])
        text = self.run_tool("core", core, "--deadlocks", status=3).text
        self.assertEqual([line for line in text.splitlines() if "not known" in line],
                         ["waits are not known in full: a core has no descriptors, no locks of files and no other "
                          "processes"])

    def test_overflowed_stack(self):
        """Its pointer lies below the mapping, in the guard pages or in none; a handler runs on another stack."""
        for mode, outer in (("overflow", "main"), ("thread", "runs_in_thread")):
            core = self.gdb_core(self.victim("signals", mode, settled=False))
            stack = next(s for s in self.core_json(core, "-n", "0")["processes"][0]["stacks"]
                         if "overflows" in functions(s))
            got = functions(stack)
            self.assertEqual(stack["unwind"], "complete", got[:8] + got[-8:])
            self.assertEqual([n for n in got if n in ("in_handler", "interrupted", "caller_of_interrupted", outer)],
                             ["in_handler", "interrupted", "caller_of_interrupted", outer])

    def test_python(self):
        program = ("import os, sys, threading, time\n"
                   "lock = threading.Lock()\n"
                   "lock.acquire()\n"
                   "def wait_for_lock(): lock.acquire()\n"
                   "threading.Thread(target=wait_for_lock, daemon=True, name='waits for the lock').start()\n"
                   "def hold(): sys.stdin.read()\n"
                   "print('ready', os.getpid(), flush=True)\n"
                   "hold()\n")
        python = shutil.which("python3", path="/usr/bin")
        if not python:
            raise SkipTest("python3: there is none of the system")
        victim = self.program([python, "-c", program])
        live = self.json("-p", victim.pid, status=(0, 1))
        if not processes(live)[victim.pid].get("runtimes"):
            raise SkipTest("python3: its frames are not read here")
        doc = self.core_json(self.gdb_core(victim), status=(0, 1))
        node = processes(doc)[victim.pid]
        self.assertEqual([r["name"] for r in node["runtimes"]], ["cpython"])
        names = [functions(stack) for stack in stacks_of(node)]
        for wanted in ("wait_for_lock", "hold"):
            self.assertTrue(any(wanted in found for found in names), names)
        self.assertIn("waits for the lock", [thread.get("name") for thread, _ in threads(node).values()])


IN_C = """package main

/*
#cgo CFLAGS: -O2 -g -fno-omit-frame-pointer
__attribute__((noinline)) static void crash_in_c(volatile int *where) { *where = 1; }
__attribute__((noinline)) static void call_in_c(long where)
{
	volatile int after = 0;
	crash_in_c((volatile int *)where);
	after = 1;
}
*/
import "C"
import (
	"fmt"
	"os"
)

//go:noinline
func crash() { C.call_in_c(0x1234) }

func main() {
	fmt.Println("ready", os.Getpid())
	os.Stdin.Read(make([]byte, 1))
	done := make(chan int)
	go func() { crash(); done <- 1 }()
	<-done
}
"""


class Go(Cores):
    def test_crash_in_c(self):
        """Go's handler of signals runs above the function that crashed: that one, and the goroutine, are shown."""
        need("go", "cc")
        folder = self.scratch()
        source, program = os.path.join(folder, "in_c.go"), os.path.join(folder, "in_c")
        with open(source, "w") as f:
            f.write(IN_C)
        subprocess.run(["go", "build", "-o", program, source], check=True, cwd=folder)
        core, pid = self.kernel_core(argv=[program], env={**os.environ, "GOTRACEBACK": "crash"})
        stack = stacks_of(processes(self.core_json(core, status=(0, 1)))[pid])[0]
        names = functions(stack)
        at = names.index("crash_in_c")
        self.assertIn("runtime.sigpanic", names[:at])
        self.assertEqual([name for name in names[at:] if name.startswith(("crash", "main."))][-3:],
                         ["main._Cfunc_call_in_c", "main.crash", "main.main.func1"])


BUILDS = {"pie": ["-pie"], "no_pie": ["-no-pie"], "static": ["-static"], "static_pie": ["-static-pie"],
          "libraries": ["-Wl,--no-as-needed", "-lm", "-lutil", "-lresolv", "-ldl"]}
WITH_HEADERS, WITHOUT_HEADERS = 0x33, 0x23


class Unlisted(Cores):
    """Cores without the list of mapped files (NT_FILE): memory tells as much."""

    def build(self, name):
        need("cc")
        path = os.path.join(self.scratch(), name)
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "targets", "crash.c")
        subprocess.run(["cc", "-O1", "-g", "-Wl,--build-id", "-pthread", source, "-o", path, *BUILDS[name]], check=True)
        return path

    def stacks(self, core, *argv, status=0):
        """By thread: the functions, lines and addresses."""
        doc = self.core_json(core, "--per-thread", "-n", "0", *argv, status=status)
        (node,) = processes(doc).values()
        return {tid: [[entry.get(key) for key in ("function", "file", "line", "address", "offset", "build_id")]
                      for entry in stack["entries"]] for tid, (_, stack) in threads(node).items()}, doc

    def assert_as_gdb(self, core, program, stacks):
        need("gdb")
        done = subprocess.run(["gdb", "-batch", "-ex", "thread apply all bt", program, core], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        theirs, last = {}, None
        for line in done.stdout.splitlines():
            begin = re.match(r"Thread \d+ \(.*LWP (\d+)", line)
            frame = re.match(r"#\d+ +(?:0x[0-9a-f]+ in )?(\S+) ", line)
            if begin:
                last = theirs.setdefault(int(begin[1]), [])
            elif frame and last is not None:
                last.append(frame[1])
        self.assertEqual(set(theirs), set(stacks))
        for tid, names in theirs.items():
            # It ends at main, and behind the outermost function. A function of libc has several names.
            while names and names[-1] == "??":
                names.pop()
            plain = [re.sub(r"^_*(GI_+)?|@.*", "", name) for name in names]
            self.assertTrue(plain, done.stdout)
            self.assertEqual(plain, [re.sub(r"^_+", "", entry[0]) for entry in stacks[tid]][:len(plain)])

    def test_as_with_the_list(self):
        for name in BUILDS:
            program = self.build(name)
            for dumped in WITH_HEADERS, WITHOUT_HEADERS:
                with self.subTest(name=name, dumped=dumped):
                    core, pid = self.kernel_core(3, argv=[program], dumped=dumped)
                    listed, before = self.stacks(core)
                    unlisted, doc = self.stacks(without_list(core))
                    self.assertEqual([entry[0] for entry in listed[pid]][:3], ["crash_here", "crash_caller", "main"])
                    self.assertEqual(unlisted, listed)
                    self.assertEqual(processes(doc)[pid]["exe"], program)
                    self.assertEqual(doc["warnings"], before["warnings"])
                    if dumped == WITH_HEADERS:
                        self.assert_as_gdb(core + ".unlisted", program, unlisted)

    def test_gcore(self):
        """gdb leaves out code, and tells nothing of its mappings."""
        for name in "no_pie", "static", "libraries":
            program = self.build(name)
            for dumped in WITH_HEADERS, WITHOUT_HEADERS:
                with self.subTest(name=name, dumped=dumped):
                    victim = self.program([program, "3"], preexec_fn=lambda: set_filter(dumped))
                    core = self.gdb_core(victim)
                    listed, _ = self.stacks(core)
                    self.assertIn("main", [entry[0] for entry in listed[victim.pid]])
                    self.assertEqual(self.stacks(without_list(core))[0], listed)

    def test_program(self):
        """It was started by a path that is not whole."""
        program = self.build("pie")
        folder, name = os.path.split(program)
        core, pid = self.kernel_core(2, argv=["./" + name], dumped=WITH_HEADERS, cwd=folder)
        core = without_list(core)
        bare, doc = self.stacks(core, status=1)
        self.assertEqual([warning["message"] for warning in doc["warnings"]],
                         ["cannot read the symbols of /pie: the file cannot be found (use --exe FILE)"])
        self.assertEqual(processes(doc)[pid]["exe"], "pie")
        self.assertIsNone(bare[pid][0][0])
        self.assertIsNotNone(bare[pid][0][5])
        found, doc = self.stacks(core, "--debug-dir", folder)
        self.assertEqual(found[pid][0][0], "crash_here")
        self.assertEqual(doc["warnings"], [])
        named, doc = self.stacks(core, "--exe", program)
        self.assertEqual(named, found)
        self.assertEqual(processes(doc)[pid]["exe"], program)
        self.assertEqual(doc["warnings"], [])
        other = self.run_tool("core", core, "--exe", os.path.join(TARGETS, "threads"), status=1)
        self.assertIn("the build id of the file differs", other.err)


class Hostile(Cores):
    asan = True

    def small_core(self):
        return self.kernel_core(2)[0]

    def test_no_core(self):
        folder = self.scratch()
        text = os.path.join(folder, "text")
        with open(text, "w") as f:
            f.write("hello\n" * 100)
        program = os.path.join(TARGETS, "crash")
        for path, why in ((text, "it is not a core"), (program, "but not a core"), (folder, "directory"),
                          (os.path.join(folder, "missing"), "No such file")):
            with self.subTest(path=path):
                got = self.run_tool("core", path, status=2)
                self.assertIn(why, got.err)
        with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
            self.assertIn("it is not a core", self.run_tool("core", "-", stdin=endless.stdout, status=2).err)
            endless.stdout.close()
        for argv in (["core"], ["core", "a", "b"], ["core", "a", "--exe"], ["core", "a", "--hz", "3"]):
            self.run_tool(*argv, status=64)

    def test_names_of_the_kernels_files(self):
        """A core that says that /proc/kmsg was mapped: it is not opened."""
        core = self.small_core()
        with open(core, "rb") as f:
            data = f.read()
        program = os.path.join(TARGETS, "crash").encode()
        self.assertIn(program + b"\0", data)
        for path in b"/proc/kmsg", b"/proc/self/maps", b"/sys/kernel/notes":
            folder, name = path.rsplit(b"/", 1)
            path = folder + b"/" * (len(program) - len(folder) - len(name)) + name
            with open(core + ".other", "wb") as f:
                f.write(data.replace(program + b"\0", path + b"\0"))
            doc = self.core_json(core + ".other", status=1)
            self.assertIn(f"{path.decode()}: it is on a file system without programs",
                          "\n".join(warning["message"] for warning in doc["warnings"]))

    def test_large_and_packed(self):
        """`render` takes its time, too."""
        core = self.small_core()
        with open(core, "ab") as f:
            f.truncate(os.path.getsize(core) + (1 << 30))
        need("zstd")
        subprocess.run(["zstd", "-q", "-1", core], check=True)
        self.assertIn("crash", self.run_tool("render", core + ".zst", timeout=300).text)
        got = self.run_tool("core", "--timeout", "10", core + ".zst", status=2)
        self.assertRegex(got.err, r"unpacking: out of time|gave up after 10 ms \(--timeout\)")

    def test_more_threads_than_are_read(self):
        """Notes of 140,000 threads, made by hand: some hundred megabytes for all of them would be too much."""
        def note(kind, content):
            return struct.pack("<III8s", 5, len(content), kind, b"CORE") + content
        def status(tid):
            return struct.pack("<32xi76x216x8x", tid)
        notes = b"".join(note(1, status(tid)) for tid in range(1, 140001))
        path = os.path.join(self.scratch(), "core")
        with open(path, "wb") as file:
            file.write(b"\x7fELF\2\1\1" + struct.pack("<9xHHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0))
            file.write(struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), 0, 4) + notes)
        got = self.run_tool("core", path, "--summary", status=1)
        self.assertIn("the core has more than 131072 threads: the rest is left out", got.err)
        self.assertIn("131072 threads", got.text)

    def test_cut_off(self):
        core = self.small_core()
        size = os.path.getsize(core)
        shown = 0
        for at in (0, 10, 63, 64, 500, 2000, 5000, 9000, size // 4, size // 2, size - 4096, size - 1):
            with self.subTest(at=at):
                os.truncate(shutil.copy(core, core + ".cut"), at)
                got = self.run_tool("core", core + ".cut", status=(1, 2))
                self.assertNotIn("signal 11", got.err)
                shown += got.status == 1
                if got.status == 1:
                    self.assertIn("the core is cut off", got.err)
        self.assertGreater(shown, 3)

    def test_packed_with_too_large_a_window(self):
        """512 MiB: it is not damaged, and zstd by hand unpacks it."""
        path = os.path.join(self.scratch(), "core.zst")
        with open(path, "wb") as f:
            f.write(bytes.fromhex("28b52ffd0098") + bytes(64))
        got = self.run_tool("core", path, status=2)
        self.assertIn("unpacking the core takes more than 128 MiB of memory (zstd): unpack it first", got.err)

    def test_damaged(self):
        """Headers and notes with any byte in them: a report, or a reason for none."""
        core = self.small_core()
        with open(core, "rb") as f:
            whole = f.read()
        chance = random.Random(5)
        for i in range(16):
            with self.subTest(i=i):
                damaged = bytearray(whole)
                for _ in range(chance.choice([1, 4, 40])):
                    damaged[chance.randrange(chance.choice([64, 3000, 16000]))] = \
                        chance.choice([0, 255, chance.randrange(256)])
                with open(core + ".bad", "wb") as f:
                    f.write(damaged)
                got = self.run_tool("core", core + ".bad", status=(0, 1, 2))
                self.assertNotIn("killed by signal", got.err)
                self.assertNotIn("invalid result", got.err)

    def test_damaged_memory(self):
        """Without the list of files: ELF headers, dynamic sections and the list of libraries with anything in them."""
        core = without_list(self.small_core())
        with open(core, "rb") as f:
            whole = f.read()
        headers = [at.start() for at in re.finditer(b"\x7fELF", whole)][1:]
        debug = [at.start() for at in re.finditer(struct.pack("<Q", 21), whole)]
        self.assertTrue(headers and debug)
        chance = random.Random(7)
        for i in range(24):
            with self.subTest(i=i):
                damaged = bytearray(whole)
                for _ in range(chance.choice([1, 8, 60])):
                    near = chance.choice([chance.choice(headers) + chance.randrange(1000),
                                          chance.choice(debug) + chance.randrange(-400, 400)])
                    damaged[min(max(near, 0), len(whole) - 1)] = chance.choice([0, 255, chance.randrange(256)])
                with open(core + ".bad", "wb") as f:
                    f.write(damaged)
                got = self.run_tool("core", core + ".bad", status=(0, 1, 2))
                self.assertNotIn("killed by signal", got.err)
                self.assertNotIn("invalid result", got.err)

    def test_no_room(self):
        """A packed core, and nowhere to unpack it."""
        core = self.small_core()
        subprocess.run(["gzip", core], check=True)
        got = self.run_tool("core", core + ".gz", status=2, env={"TMPDIR": "/nowhere"})
        self.assertIn("cannot unpack into /nowhere (TMPDIR)", got.err)
        with open(core + ".gz", "rb") as f:
            data = f.read()
        read, write = os.pipe()
        feeder = subprocess.Popen(["cat", core + ".gz"], stdout=write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            got = self.run_tool("core", "-", stdin=pipe, status=2, env={"TMPDIR": "/nowhere"})
        feeder.wait()
        self.assertTrue(data)
        self.assertIn("cannot read -", got.err)


class Elsewhere(Cores):
    def setUp(self):
        super().setUp()
        folder = self.scratch()
        self.program_path = shutil.copy(os.path.join(TARGETS, "chain"), os.path.join(folder, "chain"))
        self.symbols = os.path.join(folder, "symbols")
        os.mkdir(self.symbols)

    def move(self, victim):
        """The program is where debug files are, and not where it was mapped."""
        victim.close()
        victim.watched = []
        os.rename(self.program_path, os.path.join(self.symbols, "chain"))

    def test_capture(self):
        victim = self.program([self.program_path])
        path = os.path.join(self.scratch(), "chain.capture")
        bare = self.run_tool("-p", victim.pid, "--no-symbolize", "--save-capture", path)
        self.assertNotIn("f2", bare.text)
        named = self.run_tool("render", path)
        self.assertIn("f2.c:", named.text)
        self.move(victim)
        # The same bytes, wherever the program lies.
        self.assertEqual(self.run_tool("render", path, "--debug-dir", self.symbols).raw, named.raw)

    def test_recording(self):
        victim = self.program([self.program_path])
        path = os.path.join(self.scratch(), "chain.snaprec")
        self.run_tool("record", "--no-symbolize", "-d", "0.3", "-o", path, victim.pid)
        self.move(victim)
        shown = self.run_tool("render", path, "--debug-dir", self.symbols)
        self.assertIn("f2.c:", shown.text)
        self.assertNotIn("f2.c:", self.run_tool("render", "-q", path).text)
