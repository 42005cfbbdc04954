# SPDX-License-Identifier: LGPL-2.1-or-later
"""zoo.py and, from 3.11 on, tasks.py with many interpreters, against faulthandler and asyncio, and the tool's report
against the reading. An interpreter is a path, or ROOT:PATH for one that lives in a root folder of its own."""
import os
import shutil
import subprocess
import tempfile

import matrix_rows as rows
import still
import truth_python
import truth_tool

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")
TASKS_SINCE = 11
FREE_TASKS_SINCE = 14


class Victim:
    """A program of ours in an interpreter; with this, it and its files are gone at the end."""

    def __init__(self, interpreter, program, *arguments):
        root, _, path = interpreter.rpartition(":")
        self.folder = tempfile.mkdtemp(prefix="stacksnap-matrix.", dir=os.path.join(root or "/", "tmp"))
        inside = "/" + os.path.relpath(self.folder, root or "/")
        shutil.copy(os.path.join(PROGRAMS, program), self.folder)
        self.out = os.path.join(self.folder, "out")
        command = (["chroot", root] if root else []) + [path, f"{inside}/{program}", f"{inside}/out", *arguments]
        self.process = subprocess.Popen(["nice", "-n", "15", *command], stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def is_ready(self):
        return self.process.stdout.readline().split()[:1] == ["ready"]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder)


def version_of(interpreter):
    """3.13.5, and how it was built: '', 'debug', 'free-threaded'; None: it does not run."""
    root, _, path = interpreter.rpartition(":")
    code = "import sys, sysconfig as s; print('.'.join(map(str, sys.version_info[:3])), " \
           "'debug' if hasattr(sys, 'gettotalrefcount') else '', " \
           "'free-threaded' if s.get_config_var('Py_GIL_DISABLED') else '')"
    done = subprocess.run((["chroot", root] if root else []) + [path, "-c", code], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (words[0], ", ".join(words[1:])) if words else None


def compare_tool(result, report):
    """What the tool shows of all threads and tasks."""
    comparison = truth_tool.Comparison()

    def stack_of(what):
        return [(function, file, line) for file, line, function in truth_python.frames_of(result, what["stack"])]

    for thread in result["threads"]:
        comparison.add_stack(f"thread {thread['tid']}", stack_of(thread), report.threads.get(thread["tid"]))
    for task in result["tasks"]:
        comparison.add_stack(f"task {task['name']}", stack_of(task), report.tasks.get(task["id"]))
    return comparison


def compare(bed, interpreter, build, version, with_tasks):
    """zoo.py, or tasks.py."""
    program, *arguments = ("tasks.py", str(min(bed.count, 1000))) if with_tasks else ("zoo.py",)
    with Victim(interpreter, program, *arguments) as victim:
        if not victim.is_ready():
            return rows.skipped("CPython", version, build, f"{program} does not run")
        still.until_blocked(victim.pid)
        _, result = truth_python.read(bed.reader, "cpython", victim.pid, ["--image"])
        report = truth_tool.read(bed.tool, victim.pid, "python")
        refused = result["refused"] if result else "not found"
        if refused:
            shown = any(frames for frames in list(report.threads.values()) + list(report.tasks.values()))
            is_fine = build.rsplit(", ", 1)[-1] in ("debug", "free-threaded") and not shown and report.threads
            return rows.Row("CPython", version, build, rows.REFUSED if is_fine else rows.WRONG,
                            tool=f"{len(report.threads)} native stacks", why=(report.messages() or [refused])[0])
        if with_tasks:
            tasks, _ = truth_python.compare_tasks(result, victim.out)
            said = rows.of(tasks, tasks, "tasks")
        else:
            said = "{} threads, {} frames".format(*truth_python.compare_threads(result, victim.out, victim.pid))
        comparison = compare_tool(result, report)
        return rows.Row("CPython", version, build, rows.WRONG if comparison.differences else rows.RIGHT, said,
                        rows.of(comparison.equal, comparison.count, "stacks"), differences=comparison.differences)


def run(bed, interpreter, where):
    """Threads and tasks of one interpreter: a row."""
    found = version_of(interpreter)
    if not found:
        return rows.skipped("CPython", "", where, "it does not run")
    version, build = found[0], ", ".join(word for word in (where, found[1]) if word)
    row = None
    try:
        for with_tasks in (False, True):
            # A free-threaded 3.13 says that its tasks cannot be listed.
            is_free = "free-threaded" in build
            if with_tasks and int(version.split(".")[1]) < (FREE_TASKS_SINCE if is_free else TASKS_SINCE):
                continue
            again = compare(bed, interpreter, build, version, with_tasks)
            if row:
                again.said, again.tool = f"{row.said}; {again.said}", f"{row.tool}; {again.tool}"
            row = again
            if row.result != rows.RIGHT:
                break
        return row
    except (truth_python.Differs, RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        return rows.Row("CPython", version, build, rows.WRONG, differences=(str(error),))
