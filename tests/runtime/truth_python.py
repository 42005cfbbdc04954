# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the reader of CPython finds in a process, against what that process says of itself."""
import json
import re
import subprocess


class Differs(AssertionError):
    pass


def read(reader, runtime, pid, options=()):
    """What live_reader says, and its result, which is None where there is no such runtime."""
    done = subprocess.run([reader, *options, runtime, str(pid)], capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    document = json.loads(done.stdout)
    return document, document["result"]


def frames_of(result, stack):
    """(file, line, function), innermost first; line 0: none."""
    entries = [result["frames"][number]["entries"][0] for number in stack["frames"]]
    return [(e["file"], e["line"], e["function"]) for e in entries]


def escaped(text):
    """As faulthandler writes it."""
    def number(match):
        value = ord(match[0])
        return "\\x%02x" % value if value < 0x100 else "\\u%04x" % value if value < 0x10000 else "\\U%08x" % value
    return re.sub(r"[^\x20-\x7e]", number, text)


def parse_dump(path):
    """tid -> [(file, line, function)], by faulthandler."""
    threads, frames, tids = {}, None, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            head = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)", line)
            frame = re.match(r'  File "(.*)", line (\d+|\?\?\?) in (.*)', line)
            ids = re.match(r"ids (0x[0-9a-f]+) (\d+)", line)
            if head:
                frames = threads[int(head[1], 16)] = []
            elif frame:
                frames.append((frame[1], int(frame[2]) if frame[2].isdigit() else 0, frame[3]))
            elif ids:
                tids[int(ids[1], 16)] = int(ids[2])
    return {tids[ident]: frames for ident, frames in threads.items()}


def compare_threads(result, path, pid):
    """Every thread and frame of zoo.py; (threads, frames) that are equal. Differs: some are not."""
    truth = parse_dump(path)
    found = {t["tid"]: t for t in result["threads"]}
    count = 0
    if sorted(truth) != sorted(found):
        raise Differs(f"threads {sorted(found)}, by itself {sorted(truth)}")
    for tid, wanted in truth.items():
        thread = found[tid]
        frames = [(escaped(file), line, escaped(function.rsplit(".", 1)[-1]))
                  for file, line, function in frames_of(result, thread["stack"])]
        if tid == pid:  # the one that wrote has gone on
            frames, wanted = [f[::2] for f in frames], [f[::2] for f in wanted]
        if frames != wanted or thread["stack"]["end"] != "complete":
            raise Differs(f"thread {tid}, {thread['stack']}:\n{frames}\nby itself:\n{wanted}")
        if sum(run["count"] for run in thread["runs"]) != len(frames):
            raise Differs(f"thread {tid}: {thread['runs']} for {len(frames)} frames")
        count += len(frames)
    return len(truth), count


def compare_tasks(result, path):
    """
    Every task of tasks.py, and who awaits it; (tasks, those whose chain goes on where Python cannot look).
    """
    with open(path, encoding="utf-8") as file:
        truth = {task["id"]: task for task in json.load(file)}
    found = {task["id"]: task for task in result["tasks"]}
    longer = 0
    if sorted(truth) != sorted(found):
        raise Differs(f"{len(found)} tasks, by itself {len(truth)}")
    for number, wanted in truth.items():
        task = found[number]
        frames = [[function, line] for _, line, function in frames_of(result, task["stack"])]
        parents = sorted(wanted["awaited_by"], key=lambda address: int(address, 16))
        if wanted["current"]:
            if task["state"] != "running" or frames[-1][0] != wanted["chain"][-1][0]:
                raise Differs(f"{wanted} runs: {task}")
        elif frames != wanted["chain"]:
            # It does not show what an asynchronous generator awaits.
            if frames[len(frames) - len(wanted["chain"]):] != wanted["chain"]:
                raise Differs(f"{frames}\nby itself {wanted}")
            longer += 1
        if task["name"] != wanted["name"]:
            raise Differs(f"{task['name']} is {wanted['name']}")
        if task["parent"] != (parents[0] if parents else None):
            raise Differs(f"{task['name']}: awaited by {task['parent']}, by itself {parents}")
    return len(truth), longer
