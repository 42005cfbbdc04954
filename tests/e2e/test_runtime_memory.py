# SPDX-License-Identifier: LGPL-2.1-or-later
"""Options of managed runtimes on a program that has none: nothing changes, and what makes no sense is refused."""
import os
import shutil
import sys

from harness import Case, functions, need, processes

# The list of interpreters goes on in a page that nobody serves: whoever follows it sleeps.
UNSERVED = """
import ctypes, os, struct
libc = ctypes.PyDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
page = libc.mmap(None, 1 << 20, 3, 0x22, -1, 0)
fd = libc.syscall(323, 0)
api = ctypes.create_string_buffer(struct.pack("<QQQ", 0xaa, 0, 0))
area = ctypes.create_string_buffer(struct.pack("<QQQQ", page, 1 << 20, 1, 0))
served = fd < 0 or libc.ioctl(fd, ctypes.c_ulong(0xc018aa3f), api) or libc.ioctl(fd, ctypes.c_ulong(0xc020aa00), area)
ctypes.pythonapi.PyInterpreterState_Head.restype = ctypes.c_void_p
head = ctypes.pythonapi.PyInterpreterState_Head()
runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
words = [ctypes.c_uint64.from_address(runtime + at) for at in range(0, 4096, 8)]
words = [word for word in words if word.value == head]
os.write(1, b"0" if served else b"1")
os.close(1)
if not served:
    for word in words:
        word.value = page
libc.pause()
"""

INNOCENT = """
import os, time
def is_innocent():
    os.close(1)
    time.sleep(3600)
is_innocent()
"""

FAMILY = """
import os, subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for code in sys.argv[1:]]
unserved = [child.stdout.read().decode() for child in children][0]
def waits():
    print("ready", os.getpid(), f"unserved={unserved}", *(f"child{i}={child.pid}" for i, child in enumerate(children)),
          flush=True)
    time.sleep(3600)
waits()
"""


class RuntimeMemory(Case):
    def stacks(self, *arguments):
        doc = self.run_tool("-j", *arguments).doc
        return [functions(stack) for process in processes(doc).values() for stack in process["stacks"]]

    def test_a_program_without_a_runtime(self):
        victim = self.victim("threads", "futex:20:worker:5", "epoll:2:poller")
        plain = self.stacks("-p", victim.pid)
        self.assertTrue(plain)
        for arguments in (["--runtimes", "none"], ["--runtimes", "auto"], ["--runtimes", "go,python,php"],
                          ["--runtimes=go", "--runtime-budget", "1", "--runtime-memory", "64k"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.stacks("-p", victim.pid, *arguments), plain)

    def test_refused(self):
        for arguments, word in ((["--runtimes", "perl"], "not one of go, cpython, php, java, auto, none"),
                                (["--runtimes", "none,go"], "stand alone"),
                                (["--runtime-budget", "0"], "milliseconds"),
                                (["--runtime-memory", "1"], "not a size of memory")):
            got = self.run_tool("-p", "1", *arguments, status=64)
            self.assertIn(word, got.err)

    def test_who_does_not_answer_takes_nobody_elses_time(self):
        need("python3")
        python = os.path.realpath(shutil.which("python3", path="/usr/bin") or sys.executable)
        victim = self.program(["nice", "-n", "15", python, "-c", FAMILY, UNSERVED, INNOCENT], settled=False)
        if not victim["unserved"]:
            self.skipTest("kernel: no userfaultfd for the kernel's own reads")
        doc = self.json("-p", victim.pid, status=(0, 1))
        nodes = processes(doc)
        for pid, function in ((victim.pid, "waits"), (victim["child1"], "is_innocent")):
            self.assertTrue(any(function in functions(stack) for stack in nodes[pid]["stacks"]), doc)
        self.assertEqual(nodes[victim["child0"]]["runtimes"][0]["cut"], "time")
        said = [warning["message"] for warning in doc["warnings"] if warning.get("pid") == victim["child0"]]
        self.assertTrue(any("its memory was not copied in time" in message for message in said), said)
