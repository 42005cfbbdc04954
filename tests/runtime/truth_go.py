# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a Go program says of its goroutines (its dump on SIGQUIT, its profile), and what live_reader
has made of its memory, goroutine by goroutine."""
import collections
import json
import re

STATES = {"runnable": "runnable", "preempted": "runnable", "running": "running", "copystack": "running",
          "syscall": "syscall"}
HEADER = re.compile(r"^goroutine (\d+) (?:gp=\S+ )?(?:m=\S+ )?(?:mp=\S+ )?\[(.*?)\](?: \{.*\})?:$")
ELIDED = re.compile(r"^\.\.\.(\d+|additional) frames elided\.\.\.$")


class Goroutine:
    def __init__(self, number, words):
        self.number = number
        self.words = words
        self.frames = []  # (function, file, line), innermost first
        self.gap = None   # frames are left out before this one
        self.created_by = None
        self.parent = None

    @property
    def state(self):
        """The state and the reason to wait as live_reader has them."""
        word = re.sub(r" \(scan\)", "", self.words[0])
        # 1.25 adds this to what has once waited, and goes on now.
        going_on = word.removesuffix(" (durable)")
        return (STATES[going_on], None) if going_on in STATES else ("waiting", None if word == "waiting" else word)


def function_of(line):
    """What stands before the arguments of a call."""
    depth = 0
    for i in range(len(line) - 1, -1, -1):
        if line[i] == ")":
            depth += 1
        elif line[i] == "(":
            depth -= 1
            if depth == 0:
                return line[:i]
    return line


def place_of(line):
    found = re.match(r"^\t(.*):(\d+)(?: \+0x[0-9a-f]+)?(?: fp=.*)?$", line)
    return (found.group(1), int(found.group(2))) if found else None


def parse_dump(text):
    """All goroutines of a dump by number; the one that handled the signal on g0 has none."""
    found, at = {}, None
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        header = HEADER.match(line)
        if header:
            at = Goroutine(header.group(1), header.group(2).split(", "))
            if at.number != "0":
                found[at.number] = at
        elif not line:
            at = None
        elif at and ELIDED.match(line):
            at.gap = len(at.frames)
        elif at and i + 1 < len(lines) and place_of(lines[i + 1]):
            place = place_of(lines[i + 1])
            created = re.match(r"^created by (.*?)(?: in goroutine (\d+))?$", line)
            if created:
                at.created_by = (created.group(1),) + place
                at.parent = created.group(2)
            else:
                at.frames.append((function_of(line),) + place)
            i += 1
        i += 1
    return found


def parse_labels(text):
    """How often each set of labels stands in a profile with debug=1."""
    counts, number, labels = collections.Counter(), 0, None

    def add():
        if number:
            counts[labels or "{}"] += number

    for line in text.split("\n"):
        head = re.match(r"^(\d+) @", line)
        if head:
            add()
            number, labels = int(head.group(1)), None
        elif line.startswith("# labels: "):
            labels = json.dumps(json.loads(line[len("# labels: "):]), sort_keys=True)
    add()
    return counts


class Reading:
    """What live_reader printed."""

    def __init__(self, text):
        self.document = json.loads(text)
        self.result = self.document["result"]
        self.tasks = {task["id"]: task for task in self.result["tasks"]} if self.result else {}
        self.frames = self.result["frames"] if self.result else []

    def stack(self, task):
        return [(entry["function"], entry["file"], entry["line"])
                for number in task["stack"]["frames"] for entry in self.frames[number]["entries"]]

    def where(self, number):
        """What is equal in two readings if the goroutine has not run between them."""
        task = self.tasks.get(number)
        return task and (task["state"], task["wait"], self.stack(task))

    def labels(self):
        return collections.Counter(json.dumps(task["labels"], sort_keys=True)
                                   for task in self.tasks.values() if not task["system"])


def entry(value):
    return (value["function"], value["file"], value["line"]) if value else None


def is_exported(name):
    """Of the runtime's functions (isExportedRuntime)."""
    receiver, _, function = name.removeprefix("runtime.").replace("[...]", "").rpartition(".")
    receiver = receiver.removeprefix("(*")
    return function[:1].isupper() and (not receiver or receiver[0].isupper())


def is_shown(frame, is_first):
    """Whether Go prints such a function where it does not print its own runtime (showfuncinfo)."""
    name = frame[0]
    if name == "panic":
        return not is_first
    if name in ("runtime.runFinalizers", "runtime.runCleanups"):
        return True
    return "." in name and (not name.startswith("runtime.") or is_exported(name))


def left_out(truth, stack):
    """The frames of the truth that are not in a stack, which has no others; else None."""
    missing, at = [], 0
    for frame in truth:
        if at < len(stack) and stack[at] == frame:
            at += 1
        else:
            missing.append(frame)
    return missing if at == len(stack) else None


def compare_stack(truth, stack, profile=None):
    """
    The dump shows the wrappers that the compiler makes for methods and go statements; nothing else
    shows them, not even Go's own profile.
    """
    if truth.gap is not None:
        outer = len(truth.frames) - truth.gap
        return compare_frames(truth.frames[:truth.gap], stack[:truth.gap], profile, True) and \
            compare_frames(truth.frames[truth.gap:], stack[len(stack) - outer:], profile, True)
    frames = truth.frames
    if truth.words[0] == "syscall":
        # Go begins where its own code has left the goroutine, some lines before the call itself.
        at = next((i for i, frame in enumerate(stack) if frame[:2] == frames[0][:2]), None)
        if at is None:
            return False
        frames, stack = frames[1:], stack[at + 1:]
    return compare_frames(frames, stack, profile, False)


def compare_frames(truth, stack, profile, is_part):
    missing = left_out(truth, stack) if not is_part else [] if truth == stack else None
    if missing is None or (missing and profile is None):
        return False
    return not any(frame in profile.frames for frame in missing)


class Comparison:
    """Counts what is equal, and keeps what is not."""

    def __init__(self):
        self.counts = collections.Counter()
        self.differences = []

    def add(self, what, number, truth, found):
        self.counts[what, truth == found] += 1
        if truth != found:
            self.differences.append(f"{what} of {number}: {truth!r} is read as {found!r}")

    def summary(self):
        kinds = sorted({what for what, _ in self.counts})
        return ", ".join(f"{what} {self.counts[what, True]} of {self.counts[what, True] + self.counts[what, False]}"
                         for what in kinds)


def compare_dump(reading, dump, profile, comparison, has_parents, moved):
    """Against SIGQUIT with GOTRACEBACK=system: all goroutines that hold still, all their frames."""
    nothing = Goroutine("", [])
    for number, truth in dump.items():
        task = reading.tasks.get(number)
        comparison.add("goroutines", number, True, task is not None)
        if not task or number in moved:
            comparison.counts["moved", True] += 1
            continue
        comparison.add("states", number, truth.state, (task["state"], task["wait"]))
        stack = reading.stack(task)
        if compare_stack(truth, stack, profile.get(number, nothing)):
            comparison.add("stacks", number, True, True)
        else:
            comparison.add("stacks", number, truth.frames, stack)
        comparison.add("ends", number, "complete", task["stack"]["end"])
        comparison.add("creators", number, truth.created_by, entry(task["created_by"]))
        if has_parents and truth.created_by:
            comparison.add("parents", number, truth.parent, task["parent"])
        comparison.add("locked", number, "locked to thread" in truth.words, task["locked"])
    for number in reading.tasks:
        comparison.add("invented", number, True, number in dump)


def compare_profile(reading, dump, comparison, moved):
    """Against the profile with debug=2, which leaves out the runtime's functions and goroutines."""
    for number, task in reading.tasks.items():
        if number not in moved:
            comparison.add("the runtime's own", number, number not in dump, task["system"])
    for number, truth in dump.items():
        task = reading.tasks.get(number)
        if not task or number in moved or truth.words[0] == "running":  # the one that wrote it
            continue
        stack = [frame for i, frame in enumerate(reading.stack(task)) if is_shown(frame, i == 0)]
        if compare_stack(truth, stack, truth):
            comparison.add("profiled", number, True, True)
        else:
            comparison.add("profiled", number, truth.frames, stack)


def report_of(report, truth):
    """How the tool's report of a goroutine differs from the program's profile with debug=2; None: it does not."""
    number = truth.number
    stack = [frame for i, frame in enumerate(report.tasks[number]) if is_shown(frame, i == 0)]
    wanted = (truth.state, truth.created_by)
    found = (report.states[number], report.creators[number])
    if wanted != found or (truth.parent and report.parents[number] != truth.parent):
        return f"{number}: {wanted}, {truth.parent} is shown as {found}, {report.parents[number]}"
    return None if compare_stack(truth, stack, truth) else f"stack of {number}: {truth.frames} is shown as {stack}"


def compare_labels(reading, profile, comparison):
    truth = parse_labels(profile)
    found = reading.labels()
    comparison.counts["labels", True] += sum((truth & found).values())
    comparison.counts["labels", False] += sum(((truth - found) | (found - truth)).values())
    for labels, count in (truth - found).items():
        comparison.differences.append(f"labels {labels}: {count} more than were read")
    for labels, count in (found - truth).items():
        comparison.differences.append(f"labels {labels}: {count} more than there are")
    for task in reading.tasks.values():
        comparison.add("whole labels", task["id"], False, task["labels_cut"])
