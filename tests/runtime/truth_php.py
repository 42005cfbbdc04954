# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the reader of PHP finds in a process that runs states.php, against what debug_backtrace() told it."""
import json
import os

import truth_python

STATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "php", "states.php")


class Differs(AssertionError):
    pass


def wanted_frames(line, script):
    """(function, file, line), innermost first: a call of debug_backtrace() stands where its caller is."""
    with open(STATES, encoding="utf-8") as file:
        waits = next(number for number, text in enumerate(file, 1) if "sleep(3600)" in text)
    place, frames = (script, waits), [("sleep", None, 0)]
    for function, file, number in json.loads(line):
        # Classes without a name are told from each other by what follows a NUL.
        name, nul, rest = function.partition("\0")
        frames.append((name + rest[rest.rindex("->"):] if nul else name, *place))
        place = (file, number)
    return frames + [("{main}", *place)]


def compare(result, line, script):
    """How many frames there are. Differs: one is another."""
    wanted = wanted_frames(line, script)
    stack = result["threads"][0]["stack"]
    found = [(function, file, number) for file, number, function in truth_python.frames_of(result, stack)]
    # Functions in C have no place of their own.
    wanted = [(w[0], *f[1:]) if f[1] is None else w for w, f in zip(wanted, found)] + wanted[len(found):]
    if found != wanted or stack["end"] != "complete":
        raise Differs(f"{stack['end']}: {found}\nby itself: {wanted}")
    return len(found)
