#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""matrix_php.py READER PHP…: every state of states.php with every interpreter: one line each, and what differs. An
interpreter is a path, or ROOT:PATH for one that lives in a root folder of its own."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import truth_php
import truth_python


def run(reader, command, script, state):
    """How many frames are equal."""
    victim = subprocess.Popen([*command, script, state], stdout=subprocess.PIPE, text=True)
    try:
        line = victim.stdout.readline()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with open(f"/proc/{victim.pid}/syscall", encoding="ascii") as file:
                if not file.read().startswith("running"):
                    break
        _, result = truth_python.read(reader, "php", victim.pid, ["--image"])
        if not result or result["refused"]:
            raise truth_php.Differs(result and result["refused"])
        return result["version"], truth_php.compare(result, line, script)
    finally:
        victim.kill()
        victim.communicate()


def main():
    bad = False
    for interpreter in sys.argv[2:]:
        root, _, path = interpreter.rpartition(":")
        folder = tempfile.mkdtemp(prefix="stacksnap-matrix.", dir=os.path.join(root or "/", "tmp"))
        script = os.path.join("/" + os.path.relpath(folder, root or "/"), "states.php")
        shutil.copy(truth_php.STATES, folder)
        command = (["chroot", root] if root else []) + [path]
        states = subprocess.run([*command, script, "list"], capture_output=True, text=True, check=True).stdout.split()
        equal = frames = 0
        version = "PHP"
        for state in states:
            try:
                version, count = run(sys.argv[1], command, script, state)
                equal, frames = equal + 1, frames + count
            except truth_php.Differs as error:
                print(f"{interpreter}: {state}: FAILED: {error}", flush=True)
                bad = True
        print(f"{interpreter}: {version}: {equal} of {len(states)} states, {frames} frames", flush=True)
        shutil.rmtree(folder)
    return bad


if __name__ == "__main__":
    sys.exit(main())
