# SPDX-License-Identifier: LGPL-2.1-or-later
"""zoo.py OUT: threads in many states, which stay where they are. Writes what faulthandler says of them to OUT, each
thread's two ids behind it, says `ready PID`, and waits in last(). Runs in every Python from 3.8 on."""
import contextlib
import faulthandler
import os
import re
import sys
import threading
import time

waiting = []
never = threading.Event()


def wait():
    waiting.append(1)
    never.wait()


def deep(n):
    return deep(n - 1) if n else wait()


class Käse:  # Latin-1
    def größe(self):
        wait()

    def 漢字(self):  # two bytes a letter
        self.größe()

    def 𝒙𝒚(self):  # four
        self.漢字()


def inner():
    wait()
    yield 1


def outer():
    yield from inner()


def generators():
    for _ in outer():
        pass


def replace(_match):
    wait()
    return ""


def from_re():
    re.sub("a", replace, "bab")


def from_sort():
    def key(_item):
        wait()

    sorted([3, 2, 1], key=key)


def from_sqlite():
    try:
        import sqlite3
    except ImportError:
        return wait()

    def callback(x):
        deep(3)
        return x

    connection = sqlite3.connect(":memory:")
    connection.create_function("callback", 1, callback)
    connection.execute("select callback(1)").fetchall()


def many_lines():
    (lambda: [
        wait() for _ in
        [1,
         2]
    ])()


@contextlib.contextmanager
def manager():
    wait()
    yield


def from_with():
    with manager():
        pass


def last(out):
    with open(out, "w", encoding="ascii", errors="replace") as file:
        faulthandler.dump_traceback(file)
        file.flush()
        for thread in threading.enumerate():
            file.write(f"ids {thread.ident:#x} {thread.native_id}\n")
    print("ready", os.getpid(), flush=True)
    time.sleep(3600)


def main():
    functions = [wait, lambda: deep(90), lambda: Käse().𝒙𝒚(), generators, from_re, from_sort, from_sqlite, many_lines,
                 from_with, wait]
    for function in functions:
        threading.Thread(target=function, daemon=True).start()
    while len(waiting) < len(functions):
        time.sleep(0.01)
    time.sleep(0.1)  # from the list to the event; the comparison tells if that was too short
    last(sys.argv[1])


main()
