# SPDX-License-Identifier: LGPL-2.1-or-later
"""A thread that keeps the interpreter's lock while it sleeps, two that want it, and threads that wait
for locks of Python's own; says so as truth.h tells. The main thread reads its standard input."""
import ctypes
import json
import os
import threading

READ, FUTEX = "0", "202"
lock, condition = threading.Lock(), threading.Condition()
truths = []


def truth(row, **keys):
    truths.append(dict(row="python." + row, pid=os.getpid(), tid=threading.get_native_id(), **keys))


def want_lock():
    truth("lock", kind="semaphore", owner=0)
    lock.acquire()


def want_condition():
    with condition:
        truth("condition", kind="semaphore", owner=0)
        condition.wait()


def compute(holder):
    while not holder:
        pass
    truth("gil", kind="gil", owner=holder[0])
    while True:
        pass


def is_there(line):
    """Who wants the interpreter's lock is in futex(2), too, but with a timeout, the fourth argument."""
    with open(f"/proc/self/task/{line['tid']}/syscall", encoding="ascii") as file:
        call = file.read().split()
    return call[0] == READ if line["kind"] == "pipe" else call[0] == FUTEX and call[4] == "0x0"


def hold(holder):
    """Says what there is, and sleeps with the interpreter's lock: PyDLL does not let it go."""
    library = ctypes.PyDLL(None)
    holder.append(threading.get_native_id())
    while len(truths) < 5:
        pass
    while not all(is_there(line) for line in truths if line["kind"] in ("pipe", "semaphore")):
        pass
    truth("holder", kind="sleep")
    text = "".join(json.dumps(line) + "\n" for line in truths)
    os.write(1, f"ready {os.getpid()} truth={len(truths)}\n{text}".encode())
    library.sleep(3000)


def main():
    holder = []
    lock.acquire()
    truth("main", kind="pipe", fd=0, call="read")
    threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, arguments in
               ((want_lock, ()), (want_condition, ()), (compute, (holder,)), (compute, (holder,)), (hold, (holder,)))]
    for thread in threads:
        thread.start()
    os.read(0, 1)
    os._exit(0)


main()
