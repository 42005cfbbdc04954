# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tool itself prints of a process with a managed runtime, against what live_reader has made of the same memory:
a reading may be right, and lost or mixed up on its way to the document."""
import json
import re
import subprocess

# Enough that nothing is left out, folded or cut.
OPTIONS = ["--json", "-n", "0", "--system-tasks", "--threads", "--task-tree", "none", "--stop-timeout", "30000",
           "--timeout", "120000", "--runtime-budget", "20000", "--runtime-memory", "1G"]


def plain(text):
    """A text of a document as it was before it was escaped."""
    if not text or "\\" not in text:
        return text
    raw = re.sub(rb"\\(\\|x[0-9a-f]{2})",
                 lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1][1:], 16)]), text.encode())
    return raw.decode(errors="surrogateescape")


class Report:
    """Managed frames, innermost first, as (function, file, line): of tasks by id, of threads by tid."""

    def __init__(self, document, language):
        self.document = document
        self.language = language
        self.tasks, self.threads = {}, {}
        self.states, self.labels = {}, {}
        self.creators, self.parents, self.since = {}, {}, {}
        self.nodes = []
        for process in document["processes"]:
            self.add(process)

    def add(self, node):
        self.nodes.append(node)
        for stack in node.get("stacks", ()):
            frames = [(plain(e.get("function")), plain(e.get("file")), e.get("line"))
                      for e in stack["entries"] if e.get("language") == self.language]
            for task in stack.get("tasks", ()):
                self.tasks[task["id"]] = frames
                self.states[task["id"]] = (task["state"], task.get("wait"))
                self.labels[task["id"]] = {plain(k): plain(v) for k, v in task.get("labels", {}).items()}
                made = task.get("created_by")
                self.creators[task["id"]] = made and (plain(made["function"]), plain(made["file"]), made["line"])
                self.parents[task["id"]] = task.get("parent")
                self.since[task["id"]] = task.get("since_ns")
            for thread in stack.get("threads", ()):
                self.threads[thread["tid"]] = frames
        for child in node.get("children", []) + node.get("logical", []):
            self.add(child)

    def where(self, number):
        """What is equal in two reports if a task has not run between them; None: it is not there."""
        return (self.tasks[number], self.states[number]) if number in self.tasks else None

    def runtimes(self):
        return [runtime for process in self.document["processes"] for runtime in process.get("runtimes", ())]

    def process_labels(self):
        """Of those processes that have any."""
        return [{plain(key): plain(value) for key, value in process["labels"].items()}
                for process in self.nodes if process.get("labels")]

    def messages(self):
        return [warning["message"] for warning in self.document.get("warnings", ()) if warning.get("message")]


def read(tool, pid, language):
    done = subprocess.run([tool, *OPTIONS, "-p", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"stacksnap: status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return Report(json.loads(done.stdout), language)


class Comparison:
    """How many are the same, and those that are not."""

    def __init__(self):
        self.equal, self.count, self.differences = 0, 0, []

    def add(self, what, wanted, found):
        self.count += 1
        self.equal += wanted == found
        if wanted != found:
            self.differences.append(f"{what}: read {wanted!r}, the tool shows {found!r}")

    def add_stack(self, what, frames, found):
        """Of frames as live_reader has them, whose line 0 is none."""
        self.add(what, [(function, file, line or None) for function, file, line in frames], found)
