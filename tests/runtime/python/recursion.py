# SPDX-License-Identifier: LGPL-2.1-or-later
"""A thread that calls itself as often as the first argument says, and then sleeps."""
import os
import sys
import threading
import time


def recurse(n):
    if n:
        return recurse(n - 1)
    print("ready", os.getpid(), flush=True)
    return time.sleep(3600)


sys.setrecursionlimit(10000)
threading.stack_size(256 << 20)
thread = threading.Thread(target=recurse, args=(int(sys.argv[1]),))
thread.start()
thread.join()
