# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other tools as witnesses: the pcs of every thread as eu-stack and gdb see them."""
import json
import os
import re
import subprocess
import tempfile

from harness import need

GDB_SCRIPT = r"""
import gdb, json
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("set backtrace limit unlimited")
found = {}
for inferior in gdb.inferiors():
    for thread in inferior.threads():
        thread.switch()
        pcs, why = [], ""
        try:
            frame = gdb.newest_frame()
            while frame is not None and len(pcs) < 100000:
                # Neither has a machine frame of its own.
                if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                    pcs.append(frame.pc())
                why = gdb.frame_stop_reason_string(frame.unwind_stop_reason())
                frame = frame.older()
        except gdb.error as error:
            why = str(error)
        found[thread.ptid[1]] = [pcs, why]
print("WITNESS " + json.dumps(found))
"""


def eu_stack(pid):
    """tid -> (pcs innermost first, what it said about the thread's end)"""
    need("eu-stack")
    done = subprocess.run(["eu-stack", "-n", "0", "-r", "-p", str(pid)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=300)
    found, tid = {}, None
    for line in done.stdout.splitlines():
        thread = re.match(r"TID (\d+):", line)
        frame = re.match(r"#\d+\s+0x([0-9a-f]+)", line)
        if thread:
            tid = int(thread.group(1))
            found[tid] = ([], "")
        elif frame and tid is not None:
            found[tid][0].append(int(frame.group(1), 16))
    for line in done.stderr.splitlines():
        thread = re.search(r"tid (\d+)", line)
        if thread and int(thread.group(1)) in found:
            found[int(thread.group(1))] = (found[int(thread.group(1))][0], line)
    return found


def gdb(pid):
    need("gdb")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(GDB_SCRIPT)
        script.flush()
        done = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex",
                               "set debuginfod enabled off", "-p", str(pid), "-x", script.name],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=300, env=dict(os.environ, LC_ALL="C"))
    for line in done.stdout.splitlines():
        if line.startswith("WITNESS "):
            return {int(t): (pcs, why) for t, (pcs, why) in json.loads(line[8:]).items()}
    raise AssertionError("gdb says nothing: " + done.stderr[-2000:])
