# SPDX-License-Identifier: LGPL-2.1-or-later
"""Waiting for a program to come to rest, so that two looks at it see the same."""
import os
import time

WAIT_SECONDS = 60


def wait_until(condition, what="it does not come to rest"):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.02)


def is_blocked(pid):
    """Whether all its threads are in system calls, asleep."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as file:
            if file.read().startswith("running"):
                return False
    return True


def until_blocked(pid):
    wait_until(lambda: is_blocked(pid))
