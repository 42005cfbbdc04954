# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares what the tool says of waits with what programs say of themselves (tests/waits/truth.h):
thread by thread, deadlock by deadlock. The benchmark of waits counts answers with it, too.

    tests/e2e/waits.py [--variant pie] locks mutexes rwlocks     what is wrong, and how many are right

Keys of a truth are those of `threads[].wait`, but for these:

  owner       a tid; 0: none may be named
  lack        what owner_unknown says
  peers, holders, children   pids that must be named, and no others
  most_s      the wait has a timeout, of which at most so many seconds are left (if it says how many: of a
              relative one only with --explain)
  outside     true: the process is not in the report
  hint        a tid: with --explain, if threads are named whose stack has the address, it is one of them
  queued      true: bytes stand in one of the queues
  deadlock, size, behind, certain, until, none, blocker, blocked, contended, waiters   of the report

A list stands for any of its values where the report has one value. What a build hides is in BUILDS."""
import argparse
import json
import os
import unittest

from harness import (SOURCE, TOOL, Case, Victim, build_once, need, need_namespaces, need_root, run_tool,
                     source_target, walk)

PROGRAMS = os.path.join(SOURCE, "tests", "waits")
USUAL = ["-g", "-D_GNU_SOURCE", "-w", "-pthread"]

# name: (compiler and flags, does the program have or import names of the C library, is it musl's)
BUILDS = {
    "pie": (["gcc", "-O1", "-fpie", "-pie"], True, False),
    "noplt": (["gcc", "-O2", "-fno-plt", "-fpie", "-pie"], True, False),
    "ibt": (["gcc", "-O2", "-fcf-protection=full", "-no-pie"], True, False),
    "clang": (["clang", "-O2"], True, False),
    "stripped": (["gcc", "-O2", "-s"], True, False),
    "static": (["gcc", "-O1", "-static"], True, False),
    "static-stripped": (["gcc", "-O1", "-static", "-s"], False, False),
    "musl": (["musl-gcc", "-O1", "-static"], False, True),
}
MOST_OF_AN_OBJECT = 56
# Without names these have nothing that tells them from any other futex.
NAMELESS = {"rwlock", "condition", "semaphore", "barrier", "once", "stdio", "malloc", "thread"}


# Debian's sources of other people's Rust.
REGISTRY = "/usr/share/cargo/registry"
# In a copy, as cargo writes beside what it builds.
PARKING = """set -e
rm -rf "$2.d"
cp -r "$0" "$2.d"
(cd "$2.d" && cargo build --quiet --offline --release --config 'source.crates-io.replace-with="debian"' \\
    --config "source.debian.directory=\\"$1\\"")
cp "$2.d/target/release/parking" "$2"
rm -rf "$2.d"
"""


def program(name, build):
    """A program of tests/waits in one of the builds."""
    command = BUILDS[build][0]
    headers = [os.path.join(PROGRAMS, "truth.h")]
    if name in ("locks", "objects", "dead"):
        headers.append(os.path.join(PROGRAMS, "mutexes.h"))
    includes = [word for header in headers for word in ("-include", header)]
    return build_once(f"waits_{name}.{build}", [*command, *USUAL, *includes, os.path.join(PROGRAMS, name + ".c"),
                                                "-o", "{out}"])


def program_of(language):
    """The command that runs a program in another language."""
    if language in ("c++", "static c++"):
        source, command = "objects.cc", ["g++", "-std=c++20", "-O1", "-g", "-pthread"]
        if language == "static c++":
            command.append("-static")
    elif language in ("rust", "system rust"):
        source, command = "objects.rs", [{"rust": "rustc"}.get(language, "/usr/bin/rustc"), "-O", "-g"]
    elif language == "parking_lot":
        return [build_once("waits_parking", ["sh", "-c", PARKING, os.path.join(PROGRAMS, "parking"), REGISTRY, "{out}",
                                             os.path.join(PROGRAMS, "parking", "main.rs")])]
    elif language == "go":
        path = build_once("gothreads", ["go", "build", "-o", "{out}", source_target("gothreads.go")],
                          env=dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS=""))
        return [path]
    elif language == "java":
        need("java")
        path = build_once("Monitors.jar.stamp", ["sh", "-c", "javac -d \"$(dirname \"$1\")\" \"$0\" && touch \"$1\"",
                                                 os.path.join(PROGRAMS, "Monitors.java"), "{out}"])
        return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", os.path.dirname(path), "Monitors"]
    else:
        need("/usr/bin/python3")
        return ["/usr/bin/python3", os.path.join(PROGRAMS, "gil.py")]
    return [build_once(f"waits_{language.replace(' ', '_')}_{source}", [*command, "-o", "{out}", os.path.join(PROGRAMS, source)])]


def truths_of(victim):
    """The lines behind its readiness."""
    return [json.loads(victim.process.stdout.readline()) for _ in range(victim["truth"])]


def waits_of(doc):
    """By tid: the thread's wait; None where it has none."""
    found = {}
    for node in walk(doc["processes"]):
        places = [node, *walk(node.get("logical", []))]
        for stack in (stack for place in places for stack in place.get("stacks", [])):
            for thread in stack.get("threads", ()):
                found[thread["tid"]] = thread.get("wait")
    return found


def pids_of(value):
    return {party["pid"] if isinstance(party, dict) else party for party in value}


def agrees(key, wanted, wait):
    """Whether the report says this."""
    if key == "owner":
        got = 0 if "owner_unknown" in wait else wait.get("owner", {}).get("tid", 0)
        return got in wanted if isinstance(wanted, list) else got == wanted
    if key == "lack":
        return wait.get("owner_unknown") in (wanted if isinstance(wanted, list) else [wanted])
    if key == "most_s":
        return wait.get("timed") is True and 0 <= wait.get("remaining_ns", 0) <= wanted * 1e9
    if key == "near":  # a futex is a word of the object
        return abs(int(wait.get("address", "0"), 16) - int(wanted, 16)) <= MOST_OF_AN_OBJECT
    if key == "queued":
        return wait.get("send_queue", 0) + wait.get("peer_queue", {}).get("recv_queue", 0) > 0
    if key == "timed":
        return wait.get("timed", False) is wanted
    if key in ("peers", "holders", "children"):
        return pids_of(wait.get(key, ())) == set(wanted)
    if key == "hint":  # where there are any, it is among them
        return wanted in {hint["tid"] for hint in wait.get("hints", [{"tid": wanted}])}
    if key in ("signals", "fds"):
        return sorted(wait.get(key, ())) == sorted(wanted)
    if isinstance(wanted, list):
        return wait.get(key) in wanted
    if wanted == 0 and not isinstance(wanted, bool):
        return wait.get(key, 0) == 0
    return wait.get(key) == wanted


def allowed(truth, build):
    """The truth without what cannot be known in a build."""
    names = BUILDS[build][1]
    kind = truth.get("kind")
    kinds = kind if isinstance(kind, list) else [kind]
    if names or not set(kinds) & (NAMELESS | {"mutex", "rwlock"}):
        return truth
    if "mutex" in kinds and isinstance(truth.get("owner"), int) and truth["owner"] > 0:
        return truth  # the data say it
    # What remains to be asked: no wrong kind, no wrong owner.
    left = {key: value for key, value in truth.items() if key in ("row", "pid", "tid", "timed")}
    left["kind"] = [*kinds, "futex"]
    if "address" in truth and set(kinds) <= {"mutex", "rwlock", "semaphore"}:
        left["near"] = truth["address"]
    if "owner" in truth:
        left["owner"] = [0, *(truth["owner"] if isinstance(truth["owner"], list) else [truth["owner"]])]
    return left


def wrong_answers(truth, wait, build="pie"):
    """What is wrong with what the report says of a thread, as texts; none if nothing is."""
    whole, truth = truth, allowed(truth, build)
    if wait is None:
        return ["no wait"]
    wrong = [f"{key} is not {wanted!r}" for key, wanted in truth.items()
             if key not in ("row", "pid", "tid") and not agrees(key, wanted, wait)]
    if truth is whole and "confidence" not in truth and wait.get("confidence") not in ("certain", "likely"):
        wrong.append("not certain, nor likely")
    return wrong


def false_owner(truth, wait):
    """Whether an owner is named who is none."""
    owner = truth.get("owner")
    return bool(wait) and owner is not None and "owner" in wait and "owner_unknown" not in wait and \
        wait["owner"].get("tid") not in (owner if isinstance(owner, list) else [owner])


def wrong_deadlocks(truths, doc, names):
    """(missed, false, otherwise wrong) as texts."""
    wanted = [truth for truth in truths if "deadlock" in truth]
    cycles = [[link["tid"] for link in cycle["threads"]] for cycle in doc.get("deadlocks", [])]
    missed, wrong = [], []
    for truth in wanted:
        if truth["deadlock"] in cycles:
            wrong += wrong_deadlock(truth, doc["deadlocks"][cycles.index(truth["deadlock"])], names)
        elif not truth.get("optional") and (names or truth["row"] in ("ring", "self")):
            missed.append(f"{truth['row']}: deadlock {truth['deadlock']} is missed: {cycles}")
    false = [] if any(truth.get("optional") for truth in wanted) else \
        [f"a false deadlock: {cycle}" for cycle in cycles if cycle not in [truth["deadlock"] for truth in wanted]]
    return missed, false, wrong


def wrong_blockers(truths, doc):
    """What is wrong with blockers and contention."""
    wrong = []
    for truth in truths:
        if "blocker" in truth and not any(
                blocker.get("tid") == truth["blocker"] and blocker["blocked"] == truth["blocked"]
                for blocker in doc.get("blockers", [])):
            wrong.append(f"{truth['row']}: blocker {truth['blocker']} is missed: {doc.get('blockers')}")
        if "contended" in truth and not any(
                row["waiters"] == truth["waiters"] and row.get("address") == truth["contended"]
                for row in doc.get("contended", [])):
            wrong.append(f"{truth['row']}: contention is missed: {doc.get('contended')}")
    return wrong


def wrong_deadlock(truth, cycle, names):
    wrong = []
    if cycle.get("size", len(cycle["threads"])) != truth.get("size", len(truth["deadlock"])):
        wrong.append(f"it is not of {truth['size']} threads")
    if cycle.get("behind", 0) != truth["behind"]:
        wrong.append(f"{cycle.get('behind')} threads are behind, not {truth['behind']}")
    if names and truth.get("certain") and cycle.get("certain") is not True:
        wrong.append("the deadlock is not certain")
    if bool(truth.get("until")) != ("until_ns" in cycle):
        wrong.append(f"until_ns: {cycle.get('until_ns')}")
    return [f"{truth['row']}: {text}" for text in wrong]


class Tally:
    """Answers that were right and wrong."""

    def __init__(self):
        self.right, self.wrong, self.left_out = 0, [], []
        self.false_owners = self.false_deadlocks = self.missed_deadlocks = 0

    def judge_thread(self, truth, wait, build, label):
        wrong = wrong_answers(truth, wait, build)
        self.false_owners += false_owner(truth, wait)
        if wrong:
            self.wrong.append(f"{label} {truth['row']}: {'; '.join(wrong)}: {json.dumps(wait)} of {json.dumps(truth)}")
        self.right += not wrong

    def add(self, truths, doc, build, label=""):
        waits = waits_of(doc)
        for truth in truths:
            if "left_out" in truth:
                self.left_out.append(f"{label} {truth['row']}: {truth['left_out']}")
            if "tid" not in truth or truth.get("outside"):
                continue
            self.judge_thread(truth, waits.get(truth["tid"]), build, label)
        missed, false, other = wrong_deadlocks(truths, doc, BUILDS[build][1])
        told = missed + false + other + wrong_blockers(truths, doc)
        self.false_deadlocks += len(false)
        self.missed_deadlocks += len(missed)
        self.wrong += [f"{label} {text}" for text in told]
        self.right += not told


class WaitCase(Case):
    """Tests that compare; `build` is one of BUILDS."""
    build = "pie"
    tries = 20  # at most, until one had time for all

    def run_program(self, name, *modes, build=None, **options):
        need(BUILDS[build or self.build][0][0])
        path = program(name, build or self.build)
        return self.program([path, *modes], **options)

    def look(self, victim, *arguments, **options):
        """On a busy machine, or one with many locks of files, a report may have had too little time for waits."""
        for _ in range(self.tries):
            doc = self.json("-p", victim.pid, *arguments, free=False, status=(0, 1, 3), **options)
            if "time" not in doc.get("waits_lack", []):
                break
        return doc

    def compare(self, name, *modes, arguments=(), build=None):
        """Every thread of a program, and the whole report."""
        victim = self.run_program(name, *modes, build=build)
        truths = truths_of(victim)
        doc = self.look(victim, *arguments)
        self.judge(truths, doc, build)
        return truths, doc

    def judge(self, truths, doc, build=None):
        tally = Tally()
        tally.add(truths, doc, build or self.build)
        lacks = f"waits_lack: {doc.get('waits_lack')}"
        self.assertEqual(tally.wrong, [], "\n".join(["", lacks, *tally.wrong])[:6000])
        self.assertGreater(tally.right, 1)


def without_debug_files(case, argv):
    """A program in a mount namespace that has no debug files, and a tool that runs there, too."""
    need_root()
    need("nsenter")
    need_namespaces("--mount")
    shut = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /usr/lib/debug && exec \"$0\" \"$@\"", *argv]
    os.makedirs("/usr/lib/debug", exist_ok=True)
    return case.adopt(Victim(shut))


def tool_beside(case, victim, tool):
    """A command that runs the tool in the mount namespace of a program."""
    path = os.path.join(case.scratch(), "tool")
    with open(path, "w", encoding="ascii") as file:
        # In a chroot the namespace's root is another directory than the program's.
        file.write(f"#!/bin/sh\nexec nsenter --mount=/proc/{victim.pid}/ns/mnt --root=/proc/{victim.pid}/root -- "
                   f"{tool} \"$@\"\n")
    os.chmod(path, 0o755)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="pie", choices=BUILDS)
    parser.add_argument("--no-debug-files", action="store_true")
    parser.add_argument("program")
    parser.add_argument("modes", nargs="+")
    options = parser.parse_args()

    class Once(WaitCase):
        def runTest(self):
            argv, tool = [program(options.program, options.variant), *options.modes], TOOL
            if options.no_debug_files:
                victim = without_debug_files(self, argv)
                tool = tool_beside(self, victim, tool)
            else:
                victim = self.program(argv)
            truths = truths_of(victim)
            tally = Tally()
            tally.add(truths, self.look(victim, tool=tool), options.variant)
            print(*tally.left_out, *tally.wrong, f"{tally.right} right, {len(tally.wrong)} wrong", sep="\n")
            print(run_tool(["-p", victim.pid], tool=tool).text)

    unittest.TextTestRunner().run(Once())


if __name__ == "__main__":
    main()
