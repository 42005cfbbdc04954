# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that each make what they need once, and then do one task after the other. Knows nothing
of what the tasks are."""
import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback

PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A worker could not go on; what it said."""


def end(*_):
    sys.exit(1)


def work(pipe, make):
    """`make` is a context whose value takes a task and returns what became of it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, end)
    try:
        with make() as do:
            while True:
                task = pipe.recv()
                if task is None:
                    return
                pipe.send((True, do(task)))
    except Exception:  # pylint: disable=broad-except
        pipe.send((False, traceback.format_exc()))


class Jobs:
    def __init__(self, count, make):
        context = multiprocessing.get_context("fork")
        self.workers = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, make))
            process.start()
            theirs.close()
            self.workers.append((process, ours))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process, pipe in self.workers:
            if kind:
                process.terminate()
                continue
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process, _ in self.workers:
            process.join()

    def run(self, tasks, ended):
        """Calls ended(task, result) for each, as they end; returns when all have."""
        waiting, busy = list(reversed(tasks)), {}
        idle = [pipe for _, pipe in self.workers]
        while waiting or busy:
            while waiting and idle:
                pipe = idle.pop()
                busy[pipe] = waiting.pop()
                pipe.send(busy[pipe])
            for pipe in multiprocessing.connection.wait(list(busy)):
                try:
                    good, result = pipe.recv()
                except EOFError:
                    good, result = False, "a worker has ended"
                if not good:
                    raise Failed(result)
                idle.append(pipe)
                ended(busy.pop(pipe), result)
