#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Asks ten questions of an incident, each of a program that has that trouble, by one command.

    answers.py TOOL            prints doc/INCIDENTS.md: questions, commands, first screens
    answers.py TOOL NUMBER     prints the whole output for one question

tests/e2e/test_incidents.py holds each answer to the first 24 lines of 80 columns."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LINES, COLUMNS = 24, 80

# What is asked, the program, the options, what the first screen must match, and what a reader takes from it.
QUESTIONS = [
    ("Why is it slow now?", "slow_peer", "PID", r"(?s)blocked .*3 threads wait for (\d+) publisher.*\n.* \1\n.*send on tcp .*stuck-reader",
     "A feed delivers late. The line `blocked` names the thread that three others wait for. That thread sends to "
     "`stuck-reader`, which leaves its data unread."),
    ("Which lock is it?", "deadlock", "--deadlocks PID", r"(?s)DEADLOCK .*waits for mutex journal .*waits for mutex accounts .*contended +4 × mutex accounts",
     "A bank answers no request. Two threads wait for each other: each holds the lock that the other waits for. "
     "The last line names the lock that most threads wait for. The exit status is 1."),
    ("What does this process in state D do?", "backup", "--state D --kernel PID",
     r"DISK in \w+ .*\n.*waits until child \d+ execs or exits\n[^\n]*\n?.*vfork",
     "A backup cannot be killed. It waits in the kernel until its child executes a program, which is how vfork(2) "
     "works. Kernel frames need root. Without `--state D` the child is shown too: it opens a FIFO that has no reader."),
    ("Why does shutdown hang?", "shutdown", "PID", r"waits for thread \d+ exporter to end \(in recv",
     "SIGTERM came, and the service does not end. Its main thread waits for `exporter`, and `exporter` waits for an answer."),
    ("Is the garbage collector stuck?", "Report", "--no-idle -n 8 PID", r"(?s)(?=.*SafepointSynchronize::).*× report +RUNNING",
     "A Java service answers nothing. `SafepointSynchronize` says that `VM Thread` waits until all threads have stopped. "
     "One has not: `report` runs compiled code. The collector is not stuck; it waits for that loop."),
    ("Who holds the pool?", "pool", "PID", r"blocked .*17 threads wait for (\d+) (worker-\d+) \(in recv on a unix\n? *socket\)(?s:.*)1 × \2 .* tid \1\n.*database",
     "No worker is free. 17 of 18 wait for one lock. Its holder waits for the database, and has the lock meanwhile."),
    ("Why 100 % cpu?", "spin", "--state running PID", r"RUNNING .*\n.* find_price ",
     "A service uses a whole processor. One thread runs, in `find_price`. `stacksnap record -d 10 PID` says how much of its "
     "time is spent there."),
    ("Which request is stuck?", "notes", "--summary PID", r"sleeping in recvfrom +(announce|Mail\.announce)",
     "Some requests of a Python service hang. One of them announces its note by mail, and the mail server does not answer. "
     "Three others sleep until they get the database."),
    ("Is memory growing?", "leak", "--again 1 PID", r"rss",
     "The header has the memory of the process before and after the time of `--again`."),
    ("What changed?", "changed", "diff before.json after.json", r"appeared\n +17 × worker-\*.*\n +waits for mutex cache_lock",
     "The first snapshot is from a good day: all workers wait for jobs. In the second they wait for a lock."),
]


def start(argv, folder):
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, text=True,
                               start_new_session=True)
    ready = program.stdout.readline().split()
    if ready[:1] != ["ready"]:
        end(program)
        raise RuntimeError(f"{argv[0]} is not ready: {ready}")
    return program, ready[1]


def end(program):
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()


def await_collection(pid):
    """Until HotSpot's thread for collections has something to do: it no longer waits for a futex."""
    futex = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]
    tasks = f"/proc/{pid}/task"
    for tid in os.listdir(tasks):
        with open(f"{tasks}/{tid}/comm", encoding="utf-8") as file:
            if file.read() != "VM Thread\n":
                continue
        awake = 0
        while awake < 100:
            with open(f"{tasks}/{tid}/syscall", encoding="utf-8") as file:
                awake = 0 if file.read().split()[0] == futex else awake + 1
            time.sleep(0.01)


def command_of(name, folder):
    """Builds the program; its source is said to be in /srv."""
    if name == "Report":
        subprocess.run(["javac", "-d", folder, os.path.join(HERE, "Report.java")], check=True)
        return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "Report"]
    if name == "notes":
        shutil.copy(os.path.join(SOURCE, "examples", "notes", "notes.py"), folder)
        return ["/usr/bin/python3", "notes.py"]
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-g", "-D_GNU_SOURCE", "-pthread", f"-ffile-prefix-map={HERE}=/srv",
                    "-o", os.path.join(folder, name), os.path.join(HERE, name + ".c")], check=True)
    return ["./" + name]


def look(tool, name, options, folder):
    program, pid = start(command_of(name.partition(" ")[0], folder) + name.split()[1:], folder)
    try:
        if name == "Report":
            await_collection(pid)
        return subprocess.run([tool, *(pid if word == "PID" else word for word in options.split()), "--width", str(COLUMNS)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder,
                              text=True, check=False).stdout
    finally:
        end(program)


def answer(tool, number):
    """The whole output for a question."""
    _, name, options, _, _ = QUESTIONS[number]
    folder = tempfile.mkdtemp()
    try:
        if name != "changed":
            return look(tool, name, options, folder)
        for day, program in (("before", "pool calm"), ("after", "pool")):
            with open(os.path.join(folder, day + ".json"), "w", encoding="utf-8") as file:
                file.write(look(tool, program, "--json PID", folder))
        return subprocess.run([tool, *options.split(), "--width", str(COLUMNS)], stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, cwd=folder, text=True, check=False).stdout
    finally:
        shutil.rmtree(folder)


def first_screen(text):
    return "\n".join(text.splitlines()[:LINES])


def is_answered(number, text):
    return re.search(QUESTIONS[number][3], first_screen(text)) is not None


def page(tool):
    yield ("# Ten questions of an incident\n\nEach question is asked of a small program that has that trouble, in examples/incidents and"
           " examples/notes.\nThe output is what stacksnap prints on a terminal of 80 × 24, and the answer is on that screen."
           f"\n`examples/incidents/{os.path.basename(__file__)} build/cli/stacksnap` makes this page; a test holds it to its promise.\n")
    for number, (question, _, options, _, words) in enumerate(QUESTIONS):
        text = answer(tool, number)
        if not is_answered(number, text):
            raise RuntimeError(f"no answer to {question!r}:\n{text}")
        shown = first_screen(text).rstrip()
        more = "\n…" if len(text.splitlines()) > LINES else ""
        yield f"## {question}\n\n    stacksnap {options}\n\n```\n{shown}{more}\n```\n\n{fold(words)}\n"


def fold(words):
    lines, line = [], ""
    for word in words.split():
        if len(line) + len(word) >= 106:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.stdout.write(answer(os.path.abspath(sys.argv[1]), int(sys.argv[2])))
    elif len(sys.argv) == 2:
        print("\n".join(page(os.path.abspath(sys.argv[1]))), end="")
    else:
        sys.exit(__doc__)
