#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""record_images.py READER FOLDER NAME=PLACE…: images of programs in many versions of their runtimes, for
tests/unit/test_recorded.c and the fuzz targets: FOLDER/NAME.image.xz, and NAME.truth beside it, what a reader must
make of it. An image is kept only if that equals what the program has said of itself at that moment.

NAME begins with go, cpython or php. PLACE is the go command, an interpreter, or ROOT:PATH for one that lives in a root
folder of its own. Programs run in BED, without an environment, in a mount namespace where their interpreter is in BED,
too: so no path of the machine gets into an image."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import truth_php
import truth_python
import zoo_go
from matrix_go import PARENTS_SINCE

HERE = os.path.dirname(os.path.abspath(__file__))
BED = "/tmp/stacksnap-recorded"
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "HOME": BED, "PYTHONNOUSERSITE": "1",
               # What is compiled already tells where it was installed.
               "PYTHONPYCACHEPREFIX": BED + "/none", "PYTHONDONTWRITEBYTECODE": "1"}
PHP_STATES, PHP_STATES_WITHOUT_FIBERS = ("delegate", "fiber"), ("delegate", "eval")
GOROUTINES, TASKS, ATTEMPTS = 30, 3, 5
# Words that are in no image: where sources and toolchains are on the machine.
PRIVATE = [os.path.expanduser("~") + "/", HERE.split("/tests/")[0] + "/"]


class Bad(RuntimeError):
    pass


# ---- Go ----

def record_go(reader, output, go, name):
    """The zoo, as in matrix_go.py; nothing of it may have moved. NAME is go-VERSION, or that with -cgo or a variant."""
    _, version, variant = (name + "-").split("-")[:3]
    experiment, more = zoo_go.more_of(version, variant)
    source, program = os.path.join(BED, "go"), os.path.join(BED, "zoo")
    shutil.copytree(os.path.join(HERE, "go"), source, ignore=shutil.ignore_patterns("busy"))
    zoo_go.SOURCE = source
    zoo_go.VARIANTS["recorded"] = (variant == "cgo", ["-trimpath", "-ldflags=-s -w"], None)
    trouble = zoo_go.build(go, "recorded", program, experiment=experiment)
    if trouble:
        raise Bad(trouble)
    has_parents = int(version.split(".")[1]) >= PARENTS_SINCE
    for _ in range(ATTEMPTS):
        reading, comparison = zoo_go.compare(reader, program, GOROUTINES, has_parents, ["--image"],
                                             ["--save=" + output], ENVIRONMENT, more=more)
        moved = comparison.counts["moved", True]
        if not comparison.differences and not moved and not reading.result["refused"]:
            return comparison.summary()
    raise Bad(f"{moved} moved, {comparison.differences[:3]}")


# ---- interpreters ----

def moved_away(path):
    """
    Mounts and command for an interpreter that lives in a folder of its own (pyenv): a place with a name as long as
    that folder's, so that copies of its program and library can name that.
    """
    home, name = os.path.dirname(os.path.dirname(path)), os.path.basename(path)
    # Its last letter stays: where that is the abiflags' one, linkers have one text for both.
    inside = os.path.join(BED, "r" * (len(home) - len(BED) - 2) + home[-1])
    mounts = [(home, inside)]
    for file in [f"bin/{name}"] + [f"lib/{f}" for f in os.listdir(f"{home}/lib") if f"lib{name}.so." in f]:
        copy = os.path.join(BED, os.path.basename(file))
        with open(os.path.join(home, file), "rb") as old, open(copy, "wb") as new:
            new.write(old.read().replace(home.encode(), inside.encode()[:len(home)]))
        os.chmod(copy, 0o755)
        mounts.append((copy, os.path.join(inside, file)))
    return mounts, [os.path.join(inside, "bin", name)]


class Victim:
    """An interpreter that runs in BED with a script of ours; at the end it is gone."""

    def __init__(self, place, script, arguments):
        root, _, path = place.rpartition(":")
        self.root, self.folder = root, root + BED
        # A place for the bed in that root folder, which is not ours.
        os.makedirs(self.folder, exist_ok=True)
        shutil.copy(script, self.folder)
        self.script = os.path.join(BED, os.path.basename(script))
        if root:
            inside = os.path.join(BED, "system")
            mounts, command = [(root, inside)], ["chroot", inside, path]
        elif path.startswith("/usr/"):
            mounts, command = [], [path]
        else:
            mounts, command = moved_away(path)
        for _, there in mounts[:1]:
            os.makedirs(there, exist_ok=True)
        shell = "".join(f"mount --bind {here} {there} && " for here, there in mounts) + 'exec nice -n 15 "$@"'
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", shell, "sh", *command, self.script, *arguments],
                                        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd="/")
        self.line = self.process.stdout.readline()
        self.pid = self.process.pid
        if not self.line:
            self.__exit__()
            raise Bad("it does not run")

    def path(self, name):
        """Of a file that it has written in BED, as we see it."""
        return os.path.join(self.folder, name)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        if self.root:
            shutil.rmtree(self.folder)


def read(reader, runtime, victim, output):
    _, result = truth_python.read(reader, runtime, victim.pid, ["--image", "--save=" + output])
    if not result or result["refused"]:
        raise Bad(result and result["refused"])
    return result


def record_python(reader, output, place, name):
    """zoo.py; from 3.11 on tasks.py, too, as NAME-tasks, but for a free-threaded 3.13 (3.13t), which has none to read."""
    with Victim(place, os.path.join(HERE, "python", "zoo.py"), [f"{BED}/out"]) as victim:
        result = read(reader, "cpython", victim, output)
        said = "{} threads, {} frames".format(
            *truth_python.compare_threads(result, victim.path("out"), victim.pid))
    if int(re.search(r"\.(\d+)", name)[1]) < 11 or name.endswith("3.13t"):
        return said
    with Victim(place, os.path.join(HERE, "python", "tasks.py"), [f"{BED}/out", str(TASKS)]) as victim:
        result = read(reader, "cpython", victim, output + "-tasks")
        return said + ", {} tasks".format(truth_python.compare_tasks(result, victim.path("out"))[0])


def record_php(reader, output, place, name):
    """States of states.php, as NAME-STATE."""
    frames = 0
    states = PHP_STATES if name > "php-8.0" else PHP_STATES_WITHOUT_FIBERS
    for state in states:
        with Victim(place, truth_php.STATES, [state]) as victim:
            end = time.monotonic() + 10
            while time.monotonic() < end:
                with open(f"/proc/{victim.pid}/syscall", encoding="ascii") as file:
                    if not file.read().startswith("running"):
                        break
            result = read(reader, "php", victim, f"{output}-{state}")
            frames += truth_php.compare(result, victim.line, victim.script)
    return f"{len(states)} states, {frames} frames"


# ---- all ----

def check_private(folder, names):
    """No image tells where things are on this machine."""
    for name in names:
        if not name.endswith(".image.xz"):
            continue
        data = subprocess.run(["xz", "-dc", os.path.join(folder, name)], capture_output=True, check=True).stdout
        for word in PRIVATE:
            # Not within a longer path: some are built into programs.
            found = re.search(rb"(?<![\w.-])" + re.escape(word.encode()), data)
            if found:
                raise Bad(f"{name} has {data[max(0, found.start() - 100):found.start() + 100]!r}")


def record(reader, folder, name, place):
    made = os.path.join(BED, "made")
    os.makedirs(made)
    kinds = {"go": record_go, "cpython": record_python, "php": record_php}
    said = kinds[name.split("-")[0]](reader, os.path.join(made, name), place, name)
    names = sorted(os.listdir(made))
    check_private(made, names)
    for file in names:
        shutil.copy(os.path.join(made, file), folder)
    size = sum(os.path.getsize(os.path.join(made, file)) for file in names)
    return f"{said}; {size / 1024:.0f} KiB"


def main():
    reader, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    bad = False
    for name, place in (word.split("=", 1) for word in sys.argv[3:]):
        os.mkdir(BED)
        try:
            print(f"{name}: {record(reader, folder, name, place)}", flush=True)
        except (Bad, OSError, RuntimeError, json.JSONDecodeError, truth_python.Differs, truth_php.Differs) as error:
            print(f"{name}: FAILED: {error}", flush=True)
            bad = True
        finally:
            shutil.rmtree(BED)
    return bad


if __name__ == "__main__":
    sys.exit(main())
