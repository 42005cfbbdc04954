# SPDX-License-Identifier: LGPL-2.1-or-later
"""PHP's functions as the reader of PHP finds them in memory, against debug_backtrace() and what a server was
asked for. `./dev runtimes` does the same with another PHP."""
import contextlib
import glob
import os
import signal
import socket
import struct
import subprocess
import sys

from harness import BUILD, Case, SOURCE, need, need_root, missing, settle, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import truth_php  # noqa: E402
import truth_python  # noqa: E402

READER = os.path.join(BUILD, "tests", "runtime", "live_reader")

FPM = """
[global]
error_log = {folder}/log
daemonize = no
[demo]
listen = {folder}/socket
user = root
group = root
pm = static
pm.max_children = 2
catch_workers_output = yes
"""

SCRIPT = """<?php
function answers() {
    touch($_SERVER['READY']);
    sleep(3600);
}
answers();
"""


def record(kind, content=b""):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def request(path, values):
    """Asks as a web server does, and waits for no answer."""
    def pair(key, value):
        key, value = key.encode(), value.encode()
        return struct.pack(">II", len(key) | 1 << 31, len(value) | 1 << 31) + key + value

    asked = socket.socket(socket.AF_UNIX)
    asked.connect(path)
    asked.sendall(record(1, struct.pack(">HBxxxxx", 1, 0)) +
                  record(4, b"".join(pair(k, v) for k, v in values.items())) + record(4) + record(5))
    return asked


class Php(Case):
    def read(self, pid, *options):
        _, result = truth_python.read(READER, "php", pid, options)
        self.assertIsNotNone(result, "no PHP was found")
        self.assertIsNone(result["refused"])
        self.assertFalse(result["torn"])
        return result

    def test_functions_are_those_of_debug_backtrace(self):
        need("php")
        states = subprocess.run(["php", truth_php.STATES, "list"], capture_output=True, text=True, check=True).stdout
        self.assertGreater(len(states.split()), 20)
        for state in states.split():
            with self.subTest(state):
                victim = subprocess.Popen(["php", truth_php.STATES, state], stdout=subprocess.PIPE, text=True)
                try:
                    line = victim.stdout.readline()
                    settle(victim.pid)
                    for options in ((), ("--image",)):
                        frames = truth_php.compare(self.read(victim.pid, *options), line, truth_php.STATES)
                        self.assertGreater(frames, 3)
                finally:
                    victim.kill()
                    victim.communicate()

    def test_a_server_says_what_it_was_asked_for(self):
        need_root()
        programs = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not programs:
            missing("php-fpm", "php-fpm")
        folder = self.scratch(0o777)
        for name, text in (("conf", FPM.format(folder=folder)),
                           ("script.php", SCRIPT)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        server = subprocess.Popen([programs[-1], "-R", "-y", folder + "/conf"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        children = f"/proc/{server.pid}/task/{server.pid}/children"

        def workers():
            with open(children, encoding="ascii") as file:
                return [int(word) for word in file.read().split()]

        def end():
            started = workers()
            server.kill()
            server.wait()
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        self.addCleanup(end)
        wait_until(lambda: os.path.exists(folder + "/socket") and len(workers()) == 2, "its workers")
        with request(folder + "/socket", {
                "SCRIPT_FILENAME": folder + "/script.php", "REQUEST_METHOD": "GET", "QUERY_STRING": "id=7&x=ä",
                "SCRIPT_NAME": "/app/users.php", "READY": folder + "/ready"}):
            wait_until(lambda: os.path.exists(folder + "/ready"), "the request to run")
            results = [self.read(pid, "--image") for pid in workers()]
        busy = [result for result in results if result["threads"]]
        idle = [result for result in results if not result["threads"]]
        self.assertEqual((len(busy), len(idle)), (1, 1))
        self.assertEqual(idle[0]["labels"], {})
        self.assertEqual(busy[0]["labels"], {"request_method": "GET", "query_string": "id=7&x=ä",
                                             "request_uri": "/app/users.php"})
        functions = [function for _, _, function in
                     truth_python.frames_of(busy[0], busy[0]["threads"][0]["stack"])]
        self.assertEqual(functions[-2:], ["answers", "{main}"])

    def test_without_a_stop(self):
        need("php")
        victim = self.program(["php", "-r", "function waits() { echo 'ready ', getmypid(), \"\\n\"; sleep(3600); } "
                               "class Job { function runs() { waits(); } } (new Job)->runs();"])
        node = self.node(victim.pid, "--no-stop")
        self.assertEqual([r["name"] for r in node["runtimes"]], ["php"])
        own = [e["function"] for e in node["stacks"][0]["entries"] if e.get("language") == "php"]
        self.assertEqual(own[:3], ["sleep", "waits", "Job->runs"])
        self.assertEqual(node["stacks"][0]["threads"][0]["taken"], "unstopped")

    def test_a_program_that_is_none_of_phps(self):
        victim = self.victim("chain")
        self.assertIsNone(truth_python.read(READER, "php", victim.pid)[1])
