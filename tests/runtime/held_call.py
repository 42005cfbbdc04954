# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a program in which a system call does not return: whoever makes it waits for an answer that nobody gives.

    held_call.py NUMBER BITS PROGRAM [ARG…]

With BITS other than 0 only calls whose first argument has one of them. It prints "cannot …" where the kernel refuses."""
import ctypes
import os
import struct
import sys

LOAD, AND_TEST, EQUAL, GIVE = 0x20, 0x45, 0x15, 0x06  # instructions of a filter, linux/filter.h
ALLOW, ASK = 0x7fff0000, 0x7fc00000                   # answers, linux/seccomp.h
NO_NEW_PRIVILEGES, SECCOMP, SET_FILTER, NEW_LISTENER = 38, 317, 1, 8


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def hold(number, bits):
    rows = [instruction(LOAD, 0), instruction(EQUAL, number, 0, 3 if bits else 1)]
    if bits:
        rows += [instruction(LOAD, 16), instruction(AND_TEST, bits, 0, 1)]
    rows += [instruction(GIVE, ASK), instruction(GIVE, ALLOW)]
    code = b"".join(rows)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(rows), ctypes.addressof(buffer)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return os.strerror(ctypes.get_errno())
    listener = libc.syscall(SECCOMP, SET_FILTER, NEW_LISTENER, program)
    if listener < 0:
        return os.strerror(ctypes.get_errno())
    # As long as somebody could answer, the call waits.
    os.set_inheritable(listener, True)
    return None


if __name__ == "__main__":
    trouble = hold(int(sys.argv[1]), int(sys.argv[2], 0))
    if trouble:
        print("cannot hold a system call:", trouble, flush=True)
    else:
        os.execv(sys.argv[3], sys.argv[3:])
