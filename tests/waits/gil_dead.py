# SPDX-License-Identifier: LGPL-2.1-or-later
"""A deadlock through the interpreter's lock: one thread has a mutex and wants that lock, the other keeps it
and wants the mutex. PyDLL does not let the lock go, CDLL does."""
import ctypes
import os
import threading

keep, leave = ctypes.PyDLL(None), ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
taken = threading.Event()


def lock_and_compute():
    leave.pthread_mutex_lock(mutex)
    taken.set()
    while True:
        pass


def lock_with_everything():
    taken.wait()
    os.write(1, f"ready {os.getpid()}\n".encode())
    keep.pthread_mutex_lock(mutex)


for target in (lock_and_compute, lock_with_everything):
    threading.Thread(target=target, daemon=True).start()
threading.Event().wait()
