# SPDX-License-Identifier: LGPL-2.1-or-later
"""A php-fpm of two workers, or more, that is asked something, as web servers do, and is at it until it ends."""
import contextlib
import os
import signal
import socket
import struct
import subprocess

import still
import truth_python

CONFIGURATION = """
[global]
error_log = {folder}/log
daemonize = no
[demo]
listen = {folder}/socket
user = root
group = root
pm = static
pm.max_children = {workers}
catch_workers_output = yes
"""

SCRIPT = """<?php
function answers() {
    touch($_SERVER['READY']);
    sleep(3600);
}
answers();
"""
ASKED = {"REQUEST_METHOD": "GET", "QUERY_STRING": "id=7&x=ä", "SCRIPT_NAME": "/app/users.php"}
# What is to be read of the worker that is at it: who asked what, and the frames.
LABELS = {"request_method": "GET", "query_string": "id=7&x=ä", "request_uri": "/app/users.php"}
LINES = {"answers": 4, "{main}": 6}


class Differs(AssertionError):
    pass


def record(kind, content=b""):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def request(path, values):
    """Asks, and waits for no answer."""
    def pair(key, value):
        key, value = key.encode(), value.encode()
        return struct.pack(">II", len(key) | 1 << 31, len(value) | 1 << 31) + key + value

    asked = socket.socket(socket.AF_UNIX)
    asked.connect(path)
    asked.sendall(record(1, struct.pack(">HBxxxxx", 1, 0)) +
                  record(4, b"".join(pair(k, v) for k, v in values.items())) + record(4) + record(5))
    return asked


class Server:
    """With this, one of its workers is at the request; at the end they are all gone."""

    def __init__(self, program, folder, *options, workers=2):
        self.folder = folder
        self.count = workers
        for name, text in (("conf", CONFIGURATION.format(folder=folder, workers=workers)), ("script.php", SCRIPT)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        self.process = subprocess.Popen([program, *options, "-R", "-y", folder + "/conf"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.asked = None

    def workers(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]

    def __enter__(self):
        try:
            still.wait_until(lambda: os.path.exists(self.folder + "/socket") and len(self.workers()) == self.count,
                             "its workers do not start")
            ready = self.folder + "/ready"
            self.asked = request(self.folder + "/socket",
                                 ASKED | {"SCRIPT_FILENAME": self.folder + "/script.php", "READY": ready})
            still.wait_until(lambda: os.path.exists(ready), "the request does not run")
            for pid in self.workers():
                still.until_blocked(pid)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        if self.asked:
            self.asked.close()
        started = self.workers()
        self.process.kill()
        self.process.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def compare(results, folder):
    """What was read of its workers: one is at it, the other idle. The one that is at it; Differs: they are not so."""
    busy = [result for result in results if result["threads"]]
    idle = [result for result in results if not result["threads"]]
    if (len(busy), len(idle)) != (1, 1) or idle[0]["labels"] or busy[0]["labels"] != LABELS:
        raise Differs(f"{results}")
    script = folder + "/script.php"
    frames = truth_python.frames_of(busy[0], busy[0]["threads"][0]["stack"])
    wanted = [(None, 0, "sleep")] + [(script, line, function) for function, line in LINES.items()]
    if frames != wanted or busy[0]["threads"][0]["stack"]["end"] != "complete":
        raise Differs(f"{frames}, not {wanted}")
    return busy[0]
