#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""matrix_python.py READER PYTHON…: zoo.py and, from 3.11 on, tasks.py with every interpreter; two lines each, and
what differs. An interpreter is a path, or ROOT:PATH for one that lives in a root folder of its own."""
import os
import shutil
import subprocess
import sys
import tempfile

import truth_python

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")
TASKS_SINCE = 11


def run(reader, interpreter, program, arguments, compare):
    root, _, path = interpreter.rpartition(":")
    folder = tempfile.mkdtemp(prefix="stacksnap-matrix.", dir=os.path.join(root or "/", "tmp"))
    inside = "/" + os.path.relpath(folder, root or "/")
    shutil.copy(os.path.join(PROGRAMS, program), folder)
    command = (["chroot", root] if root else []) + [path, f"{inside}/{program}", f"{inside}/out", *arguments]
    victim = subprocess.Popen(["nice", "-n", "15", *command], stdout=subprocess.PIPE, text=True)
    try:
        if victim.stdout.readline().split()[:1] != ["ready"]:
            return "it does not run"
        options = os.environ.get("READER_OPTIONS", "--image").split()
        document, result = truth_python.read(reader, "cpython", victim.pid, options)
        if not result or result["refused"]:
            return f"{result and result['version']}: FAILED: {result and result['refused']}"
        timing = f"scout {document['scout_ns'] / 1e6:.1f} ms, copied in {document.get('image_ns', 0) / 1e6:.2f} ms, " \
                 f"{document.get('image_bytes', 0) / 1024:.0f} KiB, read in {document['read_ns'] / 1e6:.2f} ms"
        try:
            return f"{result['version']}: {compare(result, os.path.join(folder, 'out'), victim.pid)}; {timing}"
        except truth_python.Differs as error:
            return f"{result['version']}: FAILED: {error}"
    finally:
        victim.kill()
        victim.wait()
        shutil.rmtree(folder)


def compare_threads(result, path, pid):
    threads, frames = truth_python.compare_threads(result, path, pid)
    return f"{threads} of {threads} threads, {frames} frames"


def compare_tasks(result, path, _pid):
    tasks, longer = truth_python.compare_tasks(result, path)
    return f"{tasks} of {tasks} tasks, {longer} of them longer than asyncio can tell"


def main():
    bad = False
    for interpreter in sys.argv[2:]:
        lines = [run(sys.argv[1], interpreter, "zoo.py", [], compare_threads)]
        if lines[0].startswith("3.") and int(lines[0].split(":")[0].split(".")[1]) >= TASKS_SINCE:
            lines.append(run(sys.argv[1], interpreter, "tasks.py", [os.environ.get("COUNT", "1000")], compare_tasks))
        for line in lines:
            print(f"{interpreter}: {line}", flush=True)
            bad |= "FAILED" in line
    return bad


if __name__ == "__main__":
    sys.exit(main())
