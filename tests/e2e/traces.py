# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a Chrome trace of ours must be, as strict as the strictest reader: Perfetto's importer, which
drops what it does not like without a word."""

# Names of colours that Catapult reserves, and that we use; it refuses others.
COLORS = {"thread_state_running", "thread_state_sleeping", "thread_state_uninterruptible",
          "thread_state_unknown", "yellow", "black", "grey"}
KEYS = {
    "M": ({"ph", "pid", "tid", "name", "args"}, set()),
    "X": ({"ph", "pid", "tid", "name", "ts", "dur"}, {"cname", "cat"}),
    "i": ({"ph", "pid", "tid", "name", "ts", "s", "cat"}, {"args"}),
    "C": ({"ph", "pid", "tid", "name", "ts", "cat", "args"}, set()),
}


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shape(event):
    """What is wrong with an event on its own."""
    if event.get("ph") not in KEYS:
        yield "unknown kind"
        return
    wanted, allowed = KEYS[event["ph"]]
    if not wanted <= set(event) <= wanted | allowed:
        yield f"keys {sorted(event)}"
        return
    if not all(is_whole(event[key]) and event[key] < 2 ** 31 for key in ("pid", "tid")):
        yield "pid or tid"
    if not all(is_whole(event[key]) for key in ("ts", "dur") if key in event):
        yield "ts or dur"
    if event.get("dur") == 0:
        yield "no length"
    if not isinstance(event["name"], str) or not event["name"]:
        yield "name"
    if "cname" in event and event["cname"] not in COLORS:
        yield "cname"
    if event["ph"] == "C" and not (event["args"] and all(map(is_number, event["args"].values()))):
        yield "counter without numbers"
    if event["ph"] == "M" and not (len(event["args"]) == 1 and
                                   all(isinstance(a, str) and a for a in event["args"].values())):
        yield "args"


def nesting(events):
    """Slices of each thread in the order of time, parents first, none beyond its parent."""
    stacks, last = {}, {}
    for event in events:
        if event["ph"] != "X":
            continue
        key = (event["pid"], event["tid"])
        begin, end = event["ts"], event["ts"] + event["dur"]
        stack = stacks.setdefault(key, [])
        if begin < last.get(key, 0):
            yield f"{key}: {event['name']} begins before the slice in front of it"
        last[key] = begin
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            yield f"{key}: {event['name']} ends after its parent"
        stack.append(end)


def naming(events):
    names = {}
    for event in events:
        if event["ph"] == "M":
            key = (event["name"], event["pid"], event["tid"])
            if key in names:
                yield f"two {key}"
            names[key] = event["args"]
    for pid, tid in sorted({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}):
        if ("thread_name", pid, tid) not in names:
            yield f"no name of thread {pid}/{tid}"
        if ("process_name", pid, pid) not in names:
            yield f"no name of process {pid}"


def counting(events):
    last = {}
    for event in events:
        if event["ph"] == "C":
            key = (event["pid"], event["name"])
            if event["ts"] <= last.get(key, -1):
                yield f"counter {key} goes back in time"
            last[key] = event["ts"]


def complaints(trace):
    """All that is wrong with a trace."""
    if set(trace) != {"traceEvents", "displayTimeUnit", "otherData"} or \
            trace["displayTimeUnit"] not in ("ms", "ns") or not isinstance(trace["traceEvents"], list):
        return ["not the object form of a trace"]
    events = trace["traceEvents"]
    found = [f"{what}: {event}" for event in events for what in shape(event)]
    return found or [*nesting(events), *naming(events), *counting(events)]


def slices(trace, tid=None):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and tid in (None, e["tid"])]


def time_of(trace, name, tid=None):
    """For how long a function was on the stack of a thread, in us; recursion counts once."""
    total, until = 0, 0
    for event in slices(trace, tid):
        end = event["ts"] + event["dur"]
        if event["name"] == name and event["ts"] >= until:
            total += event["dur"]
            until = end
    return total
