#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the seeds of the fuzz targets, a folder each, from what a built tree and the compilers of this
machine give: captures and recordings of victims, small ELF files in many forms, texts of /proc.

    tests/fuzz/make_corpus.py --build build OUTPUT

Nothing is kept in the repository; what a machine cannot make is left out, and said."""
import argparse
import base64
import gzip
import lzma
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

# Functions inlined into each other, a loop, a table, and a name that is no C++ but looks like it.
SOURCE = r"""
struct item { int key; struct item *next; };
static int table[16];
static inline __attribute__((always_inline)) int innermost(int x) { return x * 3 + table[x & 15]; }
static inline __attribute__((always_inline)) int inner(struct item *i)
{
    int sum = 0;
    for (; i; i = i->next)
        sum += innermost(i->key);
    return sum;
}
__attribute__((noinline)) int outer(struct item *i, int n)
{
    int sum = inner(i);
    if (n > 3)
        sum += innermost(n);
    { int deep = sum; while (deep--) table[deep & 15] += inner(i); }
    return sum;
}
__attribute__((noinline)) static int _ZN4demo4thatEiPKc(int n) { char room[n + 8]; table[n & 15] = room[0] = n; return outer(0, n); }
int recursive(int n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2) + _ZN4demo4thatEiPKc(n); }
void _start(void) { recursive(table[3]); for (;;) ; }
"""

FORMS = {
    "dwarf4": ["-gdwarf-4", "-O2"],
    "dwarf5": ["-gdwarf-5", "-O2"],
    "dwarf3": ["-gdwarf-3", "-O1"],
    "dwarf2": ["-gdwarf-2", "-gstrict-dwarf", "-O1"],
    "dwarf64": ["-gdwarf-5", "-gdwarf64", "-O2"],
    "zlib": ["-gdwarf-5", "-O2", "-gz=zlib"],
    "gnu": ["-gdwarf-4", "-O2", "-gz=zlib-gnu"],
    "O0": ["-g", "-O0"],
    "debug_frame": ["-gdwarf-4", "-O1", "-fno-asynchronous-unwind-tables"],
    "types": ["-gdwarf-4", "-O2", "-fdebug-types-section"],
    "split4": ["-gdwarf-4", "-O2", "-gsplit-dwarf"],
    "split5": ["-gdwarf-5", "-O2", "-gsplit-dwarf"],
}

# The numbers of fuzz_dwarf.c.
SECTIONS = [".debug_info", ".debug_abbrev", ".debug_str", ".debug_line", ".debug_line_str", ".debug_ranges",
            ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_aranges", ".debug_info.dwo",
            ".debug_abbrev.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo", ".debug_line.dwo",
            ".debug_rnglists.dwo", ".gnu_debuglink", ".gnu_debugaltlink", ".strtab", ".symtab", ".debug_cu_index"]


def say(text):
    print(f"make_corpus: {text}", file=sys.stderr)


def run(*argv, **options):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        say(f"left out: {' '.join(map(str, argv))[:100]}: {done.stdout.decode(errors='replace').strip()[-200:]}")
    return done.returncode == 0


class Corpus:
    def __init__(self, folder):
        self.folder = folder

    def put(self, target, name, data):
        folder = os.path.join(self.folder, target)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


# ---- victims ----

class Victim:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        words = self.process.stdout.readline().split()
        self.pid = int(words[1]) if words[:1] == [b"ready"] else None

    def __enter__(self):
        return self.pid

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


VICTIMS = {"chain": [], "threads": ["futex:4:worker:2", "epoll:1:e", "pipe:2:p", "poll:1:q"], "inlined": [],
           "signals": ["alt"], "jit": [], "names": [b"esc\x1b[31m\xff".hex(), b"a) R 1 2".hex()], "family": [],
           "deep": []}
# Programs of tests/waits, and the modes of each that are seeds. FOLDER is one for what they make.
WAITS = {"calls": ("descriptors", "polls", "children", "sleeps", "signals", "sysv", "fault"),
         "dead": ("two", "ring:4", "timed", "self", "pair:once", "pipe", "unix", "tcp", "own", "child", "near-pool"),
         "locks": ("mutexes", "places", "timed", "rwlocks", "exited", "refused", "shared"),
         "objects": ("conditions", "semaphores", "barrier", "once", "join", "stdio", "malloc"),
         "peers": ("pipes", "fifos:FOLDER", "unix", "tcp", "udp", "locks:FOLDER")}
# The first byte of fuzz_procfs.c for each text.
PROCFS = {"stat": 0, "maps": 1, "status": 2, "others": 3, "fdinfo": 4, "tables": 5, "diag": 6, "link": 7}
EXPLAIN, LIBC = 64, 128  # bits of the first byte of fuzz_capture.c


def recorded(corpus, tool, name, pid, path):
    """In each format, with the waits of all that wait."""
    if run(tool, "record", "-p", str(pid), "--duration", "60ms", "--hz", "200", "-o", path + ".snaprec"):
        for kind in range(10):
            corpus.put("recording", f"{name}-{kind}", bytes([kind, kind & 6]) + read(path + ".snaprec"))


def of_victim(corpus, tool, name, pid, path):
    common = ["-p", str(pid), "--max-stack", "4096"]
    if run(tool, *common, "--explain", "--save-capture", path + ".cap", "-o", path + ".txt"):
        for flags in (0, 2, 16, 45):
            corpus.put("capture", f"{name}-{flags}", bytes([flags & ~1]) + read(path + ".cap"))
    if run(tool, *common, "--json", "-o", path + ".json"):
        corpus.put("json", name, read(path + ".json"))
    recorded(corpus, tool, name, pid, path)
    for text in ("stat", "maps", "status", "syscall"):
        corpus.put("procfs", f"{name}-{text}", bytes([PROCFS.get(text, PROCFS["others"])]) + read(f"/proc/{pid}/{text}"))
    for text in ("schedstat", "sched"):
        if os.path.exists(f"/proc/{pid}/{text}"):
            corpus.put("procfs", f"{name}-{text}", bytes([PROCFS["others"]]) + read(f"/proc/{pid}/{text}"))


def of_descriptors(corpus, name, pid):
    for number in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        link = os.readlink(f"/proc/{pid}/fd/{number}")
        corpus.put("procfs", f"{name}-fdinfo-{number}", bytes([PROCFS["fdinfo"]]) + read(f"/proc/{pid}/fdinfo/{number}"))
        corpus.put("procfs", f"{name}-link-{number}", bytes([PROCFS["link"]]) + link.encode())


def of_waits(corpus, tool, name, pid, path):
    """What its threads wait for, with and without the names of the C library; small, with little of the stacks."""
    common = ["-p", str(pid), "--explain", "--max-stack", "1024"]
    if run(tool, *common, "--save-capture", path + ".cap", "-o", path + ".txt"):
        for flags in (0, LIBC, EXPLAIN | LIBC | 2):
            corpus.put("capture", f"{name}-{flags}", bytes([flags]) + read(path + ".cap"))
    if run(tool, *common, "--json", "-o", path + ".json"):
        corpus.put("json", name, read(path + ".json"))
    recorded(corpus, tool, name, pid, path)
    of_descriptors(corpus, name, pid)


def of_victims(corpus, build, scratch):
    """Captures, recordings, documents and texts of /proc of programs in known positions."""
    tool = os.path.join(build, "cli", "stacksnap")
    programs = [(name, os.path.join("targets", name), arguments, of_victim) for name, arguments in VICTIMS.items()]
    for name, modes in WAITS.items():
        programs += [(f"{name}-{mode.partition(':')[0]}", os.path.join("waits", "waits_" + name),
                      [mode.replace("FOLDER", scratch)], of_waits) for mode in modes]
    for name, program, arguments, take in programs:
        program = os.path.join(build, "tests", program)
        if not os.path.exists(program):
            say(f"left out: {name} is not built")
            continue
        with Victim([program, *arguments]) as pid:
            if pid is None:
                say(f"left out: {name} does not run here")
                continue
            take(corpus, tool, name, pid, os.path.join(scratch, name))


# ---- ELF files ----

def sections_of(elf):
    """Name -> bytes of an ELF file of 64 bits."""
    shoff, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, shoff + size * i) for i in range(count)]
    text = elf[headers[names][4]:headers[names][4] + headers[names][5]]
    return {text[h[0]:text.index(b"\0", h[0])].decode(): elf[h[4]:h[4] + h[5]] for h in headers if h[1] != 8}


def pack(elf, extra=None):
    found = sections_of(elf)
    found.update({k: v for k, v in (sections_of(extra) if extra else {}).items()
                  if k.endswith(".dwo") or k == ".debug_cu_index"})
    out = b""
    for number, name in enumerate(SECTIONS):
        data = found.get(name, b"")
        if data and len(data) < 65536:
            out += bytes([number]) + struct.pack("<H", len(data)) + data
    return out


def of_compilers(corpus, scratch):
    source = os.path.join(scratch, "seed.c")
    with open(source, "w") as f:
        f.write(SOURCE)
    for compiler in ("gcc", "clang"):
        for form, flags in FORMS.items():
            if not shutil.which(compiler) or (compiler == "clang" and form in ("gnu", "types", "dwarf2")):
                continue
            name = f"{compiler}-{form}"
            out = os.path.join(scratch, name)
            if not run(compiler, *flags, "-w", "-ffreestanding", "-fno-stack-protector", "-static", "-fno-pie", "-c", "-o",
                       out + ".o", source, cwd=scratch):
                continue
            if not run("gcc", "-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x1000,--build-id=sha1",
                       *(["-Wl,--compress-debug-sections=zlib-gnu"] if form == "gnu" else []),
                       *(["-gz=zlib"] if form == "zlib" else []), "-o", out, out + ".o"):
                continue
            elf = read(out)
            corpus.put("symbols", name, elf)
            if form not in ("zlib", "gnu"):
                dwo = read(out + ".dwo") if form.startswith("split") else None
                for flags_byte in (0, 4) if dwo else (0, 1, 2):
                    corpus.put("dwarf", f"{name}-{flags_byte}", bytes([flags_byte]) + pack(elf, dwo))
                if dwo:
                    corpus.put("symbols", name + ".dwo", dwo)
                if form == "split4" and shutil.which("dwp") and run("dwp", "-e", out, "-o", out + ".dwp", cwd=scratch):
                    corpus.put("dwarf", name + "-package", bytes([4]) + pack(elf, read(out + ".dwp")))
            for number, section in ((1, ".eh_frame"), (2, ".debug_frame")):
                data = sections_of(elf).get(section)
                if data:
                    corpus.put("frames", f"{name}-{number}", bytes([number, 0]) + data)
    first = os.path.join(scratch, "gcc-dwarf4")
    if os.path.exists(first):
        if run("strip", "-o", first + ".stripped", first):
            corpus.put("symbols", "stripped", read(first + ".stripped"))
        if shutil.which("xz") and run("xz", "-kf", first):
            with open(first + ".note", "wb") as f:
                f.write(read(first + ".xz"))
            if run("objcopy", "--add-section", f".gnu_debugdata={first}.note", first + ".stripped", first + ".mini"):
                corpus.put("symbols", "mini", read(first + ".mini"))


# ---- unwind information ----

def uleb(value):
    out = b""
    while True:
        value, low = value >> 7, value & 0x7f
        out += bytes([low | (0x80 if value else 0)])
        if not value:
            return out


def entry(body, size=8):
    body += b"\0" * (-(len(body) + 4) % size)
    return struct.pack("<I", len(body)) + body


# What a function's description may do, see DWARF 5, section 6.4.2.
PROGRAMS = {
    "plain": b"",
    "push": b"\x41\x0e\x10\x86\x02\x43\x0d\x06",
    "expression": b"\x0f\x03\x77\x08\x06",
    "val_expression": b"\x16\x07\x03\x77\x10\x06\x10\x10\x02\x77\x08",
    "loop": b"\x0f\x05\x30\x2f\xfc\xff\x9f",
    "remember": b"\x0a\x0e\x20\x0b\x0a\x0a\x0b\x0b",
    "registers": b"\x09\x06\x03\x07\x10\x08\x03\x12\x06\x10",
    "advance": b"\x02\x10\x0e\x18\x03\x00\x01\x0e\x20\x04\x00\x02\x00\x00\x0e\x28",
    "arguments": b"\x2e\x10\x0c\x07\x08\x90\x01\x11\x03\x7f\x14\x03\x01\x15\x06\x7f",
    "branch": b"\x0f\x0c\x77\x08\x12\x40\x4b\x24\x22\x28\x02\x00\x13\x12",
}


# What was found, and is not to come back: each took gigabytes.
FOUND_FRAMES = {
    "skipped entry":
        "AQAUAAAAAAAAAAF6UgABeBABGwwHCJABAAAUAAAAHADzAODv//9AAAAAAA8DdwgGAAAUAAAAZgAAAAjw//9AAAAAAA8DdwhQ5XRk"
        "AAAATAAAADDw//9SAAF4EAEbDAcIkAEAABQAAAAcAPMA4O///0AAAAAADwN3CAYAABQAAABmAAAACPD//0AAAAAADwN3CAYAABQA"
        "AABMAAAAMPD//0A6AAAAAA8DdwgGAABAOgAAAAAPA3cIBgAAAAAAAA==",
    "large register":
        "AQAUAAAAAAAAAAF6UlMAAXgQARsMBwiQAQAcAAAAHAAAAODv//9AAAAAABYHA3cQBhDu/Yj3AAAAABwAAAA8AAAAAPD//0AAAAAA"
        "FgcDdxAGEBACdwgAAAAAHPD//0AAAAAAFgcDdxAGEBACdwgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "table out of order":
        "BSQBGwM7nP///wMAAAAA8P//GAAAAEDw//8YAAAAgPD//xgAAAAUAAAAAAAAAAF6UgABeBABGwwHCJABAAAUAAAAHAAAAODv//9A"
        "AAAAAA8DdwgGAAAUAAAANAAAAAjw//9AAAA0AAAACPD//0AAAAEADykDdwgGAAAUAAAATAAAADDw//9AAAABAA8pA3cIBgAAFAAA"
        "AEwAAAAw8P//QAAAAAAPA3cIBgAAAAAAAA==",
}


def of_frames(corpus):
    """.eh_frame at 0x2000, where fuzz_elf() puts the first section, and the same as .debug_frame."""
    base, code = 0x2000, 0x1000
    for name, text in FOUND_FRAMES.items():
        corpus.put("frames", "found-" + name.replace(" ", "-"), base64.b64decode(text))
    for name, program in PROGRAMS.items():
        for augmentation in (b"zR\0", b"zRS\0", b"zPLR\0", b"\0"):
            size = 1 + (6 if b"P" in augmentation else 0) if augmentation != b"\0" else 0
            data = b"\x1b" if augmentation != b"zPLR\0" else b""
            if augmentation == b"zPLR\0":
                data = b"\x1b" + struct.pack("<i", 64) + b"\x1b\x1b"
            head = struct.pack("<I", 0) + b"\x01" + augmentation + b"\x01\x78\x10"
            if augmentation != b"\0":
                head += uleb(len(data)) + data
            cie = entry(head + b"\x0c\x07\x08\x90\x01")
            out = cie
            for number in range(3):
                at = len(out)
                body = struct.pack("<I", at + 4)
                if augmentation == b"\0":
                    body += struct.pack("<QQ", code + 64 * number, 64)
                else:
                    body += struct.pack("<iI", code + 64 * number - (base + at + 8), 64) + (b"\x04\0\0\0\0" if b"P" in augmentation else b"\0")
                out += entry(body + program)
            out += b"\0\0\0\0"
            label = f"{name}-{augmentation[:-1].decode() or 'none'}"
            corpus.put("frames", label, b"\x01\0" + out)
            table = b"".join(struct.pack("<ii", code + 64 * i - 0x2000, len(cie)) for i in range(3))
            header = b"\x01\x1b\x03\x3b" + struct.pack("<iI", -len(out), 3) + table
            corpus.put("frames", label + "-hdr", bytes([5, len(header)]) + header + out)
        head = struct.pack("<I", 0xffffffff) + b"\x01\0\x01\x78\x10\x0c\x07\x08\x90\x01"
        out = entry(head)
        for number in range(3):
            out += entry(struct.pack("<IQQ", 0, code + 64 * number, 64) + program)
        corpus.put("frames", f"{name}-debug", b"\x02\0" + out)
        head = struct.pack("<I", 0xffffffff) + b"\x04\0\x08\0\x01\x78\x10\x0c\x07\x08\x90\x01"
        out = entry(head) + entry(struct.pack("<IQQ", 0, code, 4096) + program)
        corpus.put("frames", f"{name}-debug4", b"\x02\0" + out)


# ---- texts ----

def of_texts(corpus):
    pid = os.getpid()
    for name in ("stat", "maps", "status", "syscall"):
        try:
            corpus.put("procfs", f"own-{name}", bytes([PROCFS.get(name, PROCFS["others"])]) + read(f"/proc/{pid}/{name}"))
        except OSError as error:
            say(f"left out: {error}")
    for name, text in (("running", b"running\n"), ("blocked", b"-1 0x7ffd0 0x7f00\n"),
                       ("deleted", b"/usr/bin/x (deleted)")):
        corpus.put("procfs", name, bytes([PROCFS["others"]]) + text)
    corpus.put("procfs", "odd-stat", b"\x0042 (a) R 1 (\\n) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n")
    for number, line in enumerate((
            "0::/system.slice/cron.service", "0::/user.slice/user-1000.slice/session-3.scope",
            "1:name=systemd:/docker/" + "0123456789abcdef" * 4,
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-" + "fe" * 32 + ".scope",
            "0::/machine.slice/libpod-" + "ab" * 32 + ".scope/container", "0::/lxc.payload.web/system.slice",
            "12:cpu,cpuacct:/\n0::/../..", "0::/machine.slice/systemd-nspawn@web.service/payload")):
        corpus.put("cgroup", f"line{number}", line.encode())
    values = ["4711,12", "threads>500", "state=disk for 5s", "cpu<5% for 10s", "0.5", "250ms", "2m", "-10s", "sleeping,disk",
              "2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05+01:00", "stack,state,name", "1m", "always", "cpu", "auto", "80"]
    for number, value in enumerate(values):
        for option in range(25):
            corpus.put("options", f"{number}-{option}", bytes([option]) + value.encode())
    for number, text in enumerate((b"plain", b"\x1b[31m", "é€😀".encode(), b"\xed\xa0\x80", b"a\\x41\\\\b;c", b"\xe2\x80\xae")):
        corpus.put("escape", str(number), bytes([number & 3]) + text)
    corpus.put("perfmap", "plain", b"0 10 zero\n10 20 one two\n0x30 0x8 _ZN3foo3barEv\n40 1000 last")
    corpus.put("perfmap", "odd", b"ffffffffff 10 a\x1b[31m\n20 0 none\nxyz\n10 ffffffffffffffff huge\n")
    names = [b"_ZNSt6vectorI3JobSaIS0_EE2atEm", b"_RNvCs123_3foo3bar", b"_ZN3foo17h0123456789abcdefE", b"_D3std5stdioQnFZv",
             b"_ZZN4demo4RingIiE4turnERKSt6vectorIiSaIiEENKUliE_clEi", b"_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE",
             b"_ZN1AC2Ev.cold", b"_D4test3fooFNaNbNiNfiZQg", b"_Z1fIXadL_Z1gvEEEvv@plt"]
    for number, name in enumerate(names):
        corpus.put("demangle", str(number), name)
    corpus.put("json", "least", b'{"schema":"stacksnap.snapshot","schema_version":1,"tool":{"name":"stacksnap","version":"0"},'
                                b'"time":"1970-01-01T00:00:00.000000001Z","processes":[]}')
    golden = os.path.join(TESTS, "golden")
    for name in sorted(os.listdir(golden)):
        if name.endswith(".json"):
            document = read(os.path.join(golden, name))
            corpus.put("json", "golden-" + name[:-5], document)
            corpus.put("merge", "golden-" + name[:-5], document)
            corpus.put("diff", name[:-5], document + b"\0" + read(os.path.join(golden, "service.json")))
    corpus.put("merge", "golden-merged", read(os.path.join(golden, "merged.document")))
    # Each snapshot that fuzz_snapshot.c makes, with each of its options; room for changes, which change nothing yet.
    for first in range(1, 64):
        corpus.put("snapshot", str(first), bytes([first]) + b"\0\0\1\0" * 64)
    chance = random.Random(1)
    for number in range(24):
        corpus.put("writers", str(number), bytes(chance.choice((chance.randrange(256), chance.randrange(8), 0x1b, 0xe2, 0x80))
                                                 for _ in range(200 + 60 * number)))


# ---- texts and messages about what is waited for ----

# Lines as the kernel writes them; what a machine of the tests has none of is among them.
FDINFO = {
    "epoll": b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t4711\n"
             b"tfd:        7 events:       1f data:                7  pos:0 ino:40e sdev:10\n" * 5,
    "inotify": b"inotify wd:1 ino:40e sdev:10 mask:fce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:00\n",
    "eventfd": b"eventfd-count:               1f\neventfd-id: 10\neventfd-semaphore: 0\n",
    "timerfd": b"clockid: 1\nticks: 0\nsettime flags: 01\nit_value: (3, 200000000)\nit_interval: (0, 0)\n",
    "ring": b"SqMask:\t0x3\nSqHead:\t4294967295\nSqTail:\t1\nCachedSqHead:\t1\n",
    "others": b"sigmask:\t0000001000000800\nPid:\t-1\nNSpid:\t-1\nlock:\t1: FLOCK  ADVISORY  WRITE 713 00:13:4711 0 EOF\n",
    "mounts": b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
}
TABLES = {
    "locks": b"1: FLOCK  ADVISORY  WRITE 713 00:13:4711 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 714 00:13:4711 0 EOF\n"
             b"2: POSIX  MANDATORY READ  -1 fe:01:12 100 119\n3: OFDLCK ADVISORY  READ  -1 08:01:12 0 0\n"
             b"4: LEASE  ACTIVE    READ  9 08:01:12 0 EOF\n5: DELEG  BREAKING  UNLCK 9 08:01:12 0 EOF\n",
    "tcp": b"   1: 0100007F:BF45 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0\n",
    "tcp6": b"   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 "
            b"02:000AD0B2 00000003  1000        0 4711 2 0 20 4 24 10 -1\n",
    "unix": b"0000000040810d51: 00000003 00000000 00000000 0001 03 4711 /run/x\n"
            b"0000000000000000: 00000002 00000000 00010000 0005 01 12 @abstract\n",
    "msg": b"         0          3   600           5           1   713   714     0     0     0     0 1 2 3\n",
    "sem": b"         0          3   600          2     0     0     0     0 1 2\n",
}


def netlink(kind, body):
    return struct.pack("<IHHII", 16 + len(body), kind, 2, 1, 1) + body + b"\0" * (-len(body) % 4)


def attribute(kind, data):
    return struct.pack("<HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def of_wait_texts(corpus):
    for name, text in FDINFO.items():
        corpus.put("procfs", "wait-" + name, bytes([PROCFS["fdinfo"]]) + text)
    for name, text in TABLES.items():
        corpus.put("procfs", "wait-" + name, bytes([PROCFS["tables"]]) + text)
    for number, text in enumerate((b"pipe:[4711]", b"socket:[4711]", b"anon_inode:[eventpoll]", b"net:[4026531833]",
                                   b"pidfd:[7]", b"/pipe:[1] (deleted)", b"anon_inode:inotify")):
        corpus.put("procfs", f"wait-link-{number}", bytes([PROCFS["link"]]) + text)
    # linux/inet_diag.h, unix_diag.h, netlink_diag.h: kinds 20 of a socket, 2 of an error, 3 of the end.
    unix, four, six, link = 1, 2, 3, 6
    end = netlink(3, bytes(4))
    address = b"\x7f\0\0\1" + bytes(12)
    inet = [bytes([family, 1, 1, 3]) + b"\x1f\x90\xbf\x45" + address * 2 + bytes(12) +
            struct.pack("<5I", 0, 5, 6, 1000, 4711) for family in (2, 10)]
    local = bytes([1, 1, 10, 0]) + struct.pack("<I2I", 4711, 0, 0) + attribute(0, b"\0abstract") + \
        attribute(2, struct.pack("<I", 4712)) + attribute(3, struct.pack("<3I", 1, 2, 3)) + \
        attribute(4, struct.pack("<2I", 3, 128))
    messages = {"unix": (unix, netlink(20, local) * 3 + end), "tcp": (four, netlink(20, inet[0]) * 2 + end),
                "tcp6": (six, netlink(20, inet[1]) + end),
                "netlink": (link, netlink(20, bytes([16, 3, 0, 0]) + struct.pack("<7I", 1, 0, 0, 4711, 0, 0, 0)) + end),
                "error": (unix, netlink(2, struct.pack("<i", -2))), "cut": (unix, netlink(20, local)[:-5])}
    for name, (family, data) in messages.items():
        corpus.put("procfs", "wait-diag-" + name, bytes([PROCFS["diag"], family]) + data)


# ---- managed runtimes ----

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDED = os.path.join(TESTS, "runtime", "recorded")
# struct snap_plan_step: op, source, flags, count_width, if_width, low_count, sources; field … skip_factor, next_add; every, len, max;
# cap; mul, plus; address, mask, add, if_mask, if_value
STEP = struct.Struct("<7Bx13Hh3IQ2I2Qq2Q")
LITERAL, MEMORY = 0xff, 0x7f0000000000


def plan_step(chance, index):
    """What a parser may write, and what it may not, now and then; the source is earlier."""
    fields = (0, 8, 16, 24, 56, 120, 4095, 65535)
    op = chance.randrange(6)
    literal = op in (0, 1) and (index == 0 or chance.random() < 0.3)
    return STEP.pack(
        op, LITERAL if literal else chance.randrange(index + 1), chance.choice((0, 0, 0, 0, 1, 2, 4, 8, 16, 12, 64)),
        chance.choice((1, 2, 4, 8)), chance.choice((1, 2, 4, 8)), chance.choice((1, 2)), chance.choice((0, 0, 0, 1, 2)),
        chance.choice(fields),
        chance.choice((0, 0, 1, 2, 16, 4096)), chance.choice((0, 1, 8, 64, 65535)),
        *(chance.choice(fields) for _ in range(7)), chance.choice(fields), chance.choice((1, 2, 4, 8)),
        chance.choice((0, 0, 0, 8, 65535)), chance.choice((0, 8, -8, -32768)),
        chance.choice((0, 0, 0, 8, 4096, 0xffffffff)), chance.choice((1, 8, 64, 512, 100000, 16 << 20)),
        chance.choice((0, 1, 16, 1000, 0xffffffff)), chance.choice((1, 64, 4096, 1 << 20, 16 << 20)),
        chance.choice((0, 0, 1, 4, 0xffffffff)), chance.choice((0, 0, 1, 0xffffffff)),
        MEMORY + chance.choice((0, 64, 0x4000, 0x100000, chance.randrange(1 << 22))),
        chance.choice((0, 0, 0, 0xfffffffffffffff8, 0xffff)), chance.choice((0, 0, 0, 8, -16, (1 << 63) - 1, -(1 << 63))),
        chance.choice((0, 1, 0xffffffffffffffff)), chance.choice((0, 1)))


def of_runtimes(corpus):
    chance = random.Random(2)
    for number in range(60):
        steps = [plan_step(chance, i) for i in range(chance.choice((1, 2, 4, 8, 24, 127)))]
        words = [MEMORY + chance.randrange(1 << 12) * 8 for _ in range(chance.choice((0, 16, 512)))]
        corpus.put("plan", str(number), bytes([number & 3, len(steps)]) + b"".join(steps) +
                   b"".join(struct.pack("<Q", word) for word in words))
    for image in range(len([name for name in os.listdir(RECORDED) if name.endswith(".xz")])):
        for number, count in enumerate((0, 1, 2, 4, 8, 16, 32)):
            data = bytes([image, number]) + chance.randbytes(18 * count)
            corpus.put("runtime", f"{image}-{number}", data)
            corpus.put("runtime_probe", f"{image}-{number}", data)


# ---- cores ----

def core_note(kind, data):
    return struct.pack("<3I8s", 5, len(data), kind, b"CORE") + data + bytes(-len(data) % 4)


def small_image(base, other):
    """A program as it lies in memory: headers, a dynamic section, and the list of libraries that begins there."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<2HI3QI6H", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    head += struct.pack("<2I6Q", 1, 4, 0, 0, 0, 1024, 1024, 4096)
    head += struct.pack("<2I6Q", 1, 5, 4096, 4096, 0, 4096, 4096, 4096)
    head += struct.pack("<2I6Q", 2, 6, 512, 512, 0, 64, 64, 8) + bytes(512 - 64 - 3 * 56)
    head += struct.pack("<8Q", 21, base + 576, 5, base + 672, 14, 1, 0, 0) + struct.pack("<2Q", 1, base + 592)
    head += struct.pack("<5Q", base, base + 672, base + 512, base + 632, 0)
    head += struct.pack("<5Q", other, base + 673, other + 64, 0, base + 592) + b"\0libworker.so\0./worker\0"
    return head + bytes(1024 - len(head))


def small_core(machine=62, registers=216, stack_pointer=19 * 8, image=None):
    """A core of two threads, a program, its data and a stack: see linux/elfcore.h. With an image, there is no list of
    mapped files."""
    code, data, stack = 0x400000, 0x600000, 0x7ff000
    image, listed = image or b"\x7fELF" + bytes(60), not image

    def thread(tid, signal):
        regs = bytearray(registers)
        struct.pack_into("<Q", regs, stack_pointer, stack + 0x800)
        return core_note(1, struct.pack("<12xH18xi76x", signal, tid) + regs + bytes(8))

    vector = struct.pack("<8Q", 3, code + 64, 9, code, 25, stack + 0xc00, 0, 0)
    if not listed:
        vector = struct.pack("<2Q", 31, code + 686) + vector
    names = b"/bin/worker\0/bin/worker\0"
    notes = thread(7, 11)
    notes += core_note(3, struct.pack("<4B4xQ2I4i16s80s", 0, ord("S"), 0, 0, 0, 1000, 1000, 7, 1, 7, 7, b"worker", b"worker -x"))
    notes += core_note(0x53494749, struct.pack("<iii4xQ104x", 11, 0, 1, 0x1234)) + core_note(6, vector)
    if listed:
        notes += core_note(0x46494c45, struct.pack("<2Q6Q", 2, 4096, code, code + 4096, 0, data, data + 4096, 1) + names)
    notes += thread(8, 0)
    bytes_of_stack = bytearray(4096)
    struct.pack_into("<4Q", bytes_of_stack, 0x900, 1, stack + 0xd00, 0, 0)
    bytes_of_stack[0x920:0x920 + len(vector)] = vector
    bytes_of_stack[0xd00:0xd08] = b"worker\0\0"
    at = 64 + 4 * 56 + len(notes)
    headers = struct.pack("<2I6Q", 4, 0, 64 + 4 * 56, 0, 0, len(notes), 0, 4)
    headers += struct.pack("<2I6Q", 1, 5, at, code, 0, len(image), 4096, 4096)
    headers += struct.pack("<2I6Q", 1, 6, at + len(image), data, 0, 0, 4096, 4096)
    headers += struct.pack("<2I6Q", 1, 6, at + len(image), stack, 0, 4096, 4096, 4096)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<2HI3QI6H", 4, machine, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    return head + headers + notes + image + bytes(bytes_of_stack)


def of_cores(corpus):
    core = small_core()
    corpus.put("core", "x86_64", b"\0" + core)
    image = small_image(0x400000, 0x600000)
    corpus.put("core", "unlisted", b"\0" + small_core(image=image))
    corpus.put("core", "unlisted_bare", b"\0" + small_core(image=bytes(64) + image[64:]))
    corpus.put("core", "aarch64", b"\0" + small_core(183, 272, 31 * 8))
    for name, packed in (("gzip", gzip.compress(core)), ("xz", lzma.compress(core))):
        corpus.put("core", name, b"\1" + packed)
    for packer in ("zstd", "lz4"):
        if shutil.which(packer):
            corpus.put("core", packer, b"\1" + subprocess.run([packer, "-c"], input=core, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("output")
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    corpus = Corpus(options.output)
    with tempfile.TemporaryDirectory(prefix="stacksnap-corpus-") as scratch:
        of_runtimes(corpus)
        of_texts(corpus)
        of_cores(corpus)
        of_wait_texts(corpus)
        of_frames(corpus)
        of_compilers(corpus, scratch)
        of_victims(corpus, os.path.abspath(options.build), scratch)


if __name__ == "__main__":
    main()
