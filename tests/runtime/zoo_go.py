# SPDX-License-Identifier: LGPL-2.1-or-later
"""Builds the zoo (go/zoo.go) in one of many ways, runs it, has live_reader read it, and compares that
with what it says of itself."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

import truth_go
import truth_tool

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "go")

# name: (cgo, arguments of go build, command that is run on the result)
VARIANTS = {
    "plain": (False, [], None),
    "stripped": (False, ["-ldflags=-s -w"], None),
    "pie": (False, ["-buildmode=pie"], None),
    "pie-stripped": (False, ["-buildmode=pie", "-ldflags=-s -w"], None),
    "cgo": (True, [], None),
    "cgo-stripped": (True, ["-ldflags=-s -w"], None),
    "cgo-pie": (True, ["-buildmode=pie", "-ldflags=-linkmode=external -s -w"], None),
    "no-sections": (False, ["-ldflags=-s -w"], ["objcopy", "--strip-section-headers"]),
    "no-inlining": (False, ["-gcflags=-l"], None),
    "unoptimised": (False, ["-gcflags=all=-N -l"], None),
    "trimmed": (False, ["-trimpath"], None),
}
# What single versions have beside: (GOEXPERIMENT, further arguments of the program). Bubbles of testing/synctest are in
# every zoo from 1.25 on, and goroutines that Go has found to be leaked in those that have looked for them.
MORE_VARIANTS = {
    "1.24": {"synctest": ("synctest", [])},
    "1.26": {"leaks": ("goroutineleakprofile", ["leaks"])},
    "1.27": {"leaks": ("", ["leaks"])},
}


def variants_of(version):
    return [*VARIANTS, *MORE_VARIANTS.get(version, ())]


def more_of(version, variant):
    return MORE_VARIANTS.get(version, {}).get(variant, ("", []))


def strip_section_headers(path):
    """As objcopy --strip-section-headers of newer binutils does it."""
    with open(path, "r+b") as f:
        head = bytearray(f.read(64))
        head[40:48] = bytes(8)  # e_shoff
        head[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
        f.seek(0)
        f.write(head)


def build(go, variant, output, cache=None, experiment=""):
    """The go command's answer, None: built."""
    cgo, arguments, after = VARIANTS.get(variant, VARIANTS["plain"])
    environment = dict(os.environ, CGO_ENABLED="1" if cgo else "0", GO111MODULE="off", GOTOOLCHAIN="local",
                       GOFLAGS="", GOTELEMETRY="off", GOEXPERIMENT=experiment)
    if cache:
        environment["GOCACHE"] = cache
    done = subprocess.run(["nice", "-n", "10", go, "build", *arguments, "-o", output], cwd=SOURCE, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        return done.stdout
    if after:
        strip_section_headers(output)
    return None


class Zoo:
    """A running zoo; with this, it and its files are gone at the end."""

    def __init__(self, program, count, environment=None, more=()):
        self.folder = tempfile.mkdtemp(prefix="zoo-")
        self.dump_path = os.path.join(self.folder, "dump")
        with open(self.dump_path, "w") as dump:
            self.process = subprocess.Popen(["nice", "-n", "10", program, str(count), *more], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=dump, text=True,
                                            env=dict(os.environ if environment is None else environment,
                                                     GOTRACEBACK="system"))
        line = self.process.stdout.readline().split()
        if not line or line[0] != "ready":
            raise RuntimeError("the zoo does not get ready: " + self.read(self.dump_path))
        self.pid = int(line[1])

    @staticmethod
    def read(path):
        with open(path, errors="surrogateescape") as f:
            return f.read()

    def profile(self, level):
        path = os.path.join(self.folder, f"debug{level}")
        self.process.stdin.write(f"debug{level} {path}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return self.read(path)

    def dump(self):
        """Its last words."""
        os.kill(self.pid, signal.SIGQUIT)
        self.process.wait(300)  # it is nice, and the machine may be busy
        return self.read(self.dump_path)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.folder)


def read(reader, pid, options=()):
    done = subprocess.run([reader, *options, "go", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"live_reader: status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return truth_go.Reading(done.stdout.decode(errors="surrogateescape"))


def settle(zoo, seconds=20):
    """Until all but the zoo's own goroutine sleep: as its profile tells."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dump = truth_go.parse_dump(zoo.profile(2))
        if not any(g.words[0] in ("runnable", "running") for n, g in dump.items() if n != "1"):
            return
        time.sleep(0.1)


def compare_tool(reading, report, moved):
    """What the tool shows of all goroutines that hold still."""
    comparison = truth_tool.Comparison()
    for number in sorted(set(reading.tasks) | set(report.tasks), key=int):
        task = reading.tasks.get(number)
        if number in moved:
            continue
        comparison.add_stack(f"stack of {number}", reading.stack(task) if task else [], report.tasks.get(number))
        if task:
            comparison.add(f"labels of {number}", task["labels"], report.labels.get(number))
            comparison.add(f"state of {number}", (task["state"], task["wait"]), report.states.get(number))
            comparison.add(f"creator of {number}", truth_go.entry(task["created_by"]), report.creators.get(number))
            comparison.add(f"parent of {number}", task["parent"], report.parents.get(number))
            # The garbage collector notes it, once while one waits: perhaps between the two.
            if task["since_ns"] > 0 and report.since.get(number):
                comparison.add(f"begin of the wait of {number}", task["since_ns"], report.since[number])
    return comparison


def compare(reader, program, count, has_parents, options=(), once=(), environment=None, tool=None,
            more=()):
    """
    The reading, and what compared equal. The options of `once` are for that reading alone. With a tool, what that
    shows, too: comparison.tool.
    """
    comparison = truth_go.Comparison()
    with Zoo(program, count, environment, more) as zoo:
        settle(zoo)
        reading = read(reader, zoo.pid, [*options, *once])
        report = truth_tool.read(tool, zoo.pid, "go") if tool else None
        profile, labels = truth_go.parse_dump(zoo.profile(2)), zoo.profile(1)
        again = read(reader, zoo.pid, options)
        dump = truth_go.parse_dump(zoo.dump())
    moved = {number for number in set(dump) | set(reading.tasks) if reading.where(number) != again.where(number)}
    truth_go.compare_dump(reading, dump, profile, comparison, has_parents, moved)
    truth_go.compare_profile(reading, profile, comparison, moved)
    truth_go.compare_labels(reading, labels, comparison)
    comparison.tool = compare_tool(reading, report, moved) if report else None
    return reading, comparison
