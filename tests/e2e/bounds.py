# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs of the tool that are measured: how long, how much memory all its processes have together, how
much they print. A machine that is busy with something else makes a run slow, never fast, so the best
of a few runs is what counts."""
import os
import subprocess
import tempfile
import time

from harness import ASAN, Case, PATIENCE, Result, TOOL, clean_environment, note_options, processes, status_field, threads, tids_of

# An emulated machine, whose patience is 10, gets three times as long; one that is busy, not.
SLOWNESS = max(1, PATIENCE // 3)
OVERRUN = 0.5  # seconds beyond --timeout
MEMORY = 200 << 20
OUTPUT = 10 << 20
TRIES = 4


def family(pid):
    """The process and its descendants."""
    found = [pid]
    for tid in tids_of(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/children") as f:
                children = f.read().split()
        except OSError:
            continue
        for child in children:
            found += family(int(child))
    return found


def memory(pid):
    """Bytes of memory that the process and its descendants share out among themselves; not less than
    the most that one of them ever had, which no look between two others can miss."""
    total = most = 0
    for member in family(pid):
        most = max(most, int((status_field(member, "VmHWM") or "0").split()[0]) << 10)
        try:
            with open(f"/proc/{member}/smaps_rollup") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:")) << 10
        except (OSError, StopIteration):
            continue
    return max(total, most)


class Measured(Result):
    """A Result, with seconds, seconds of processor time, and the most memory."""

    def __init__(self, argv, limit=60.0):
        note_options(argv)
        command = [TOOL, *map(str, argv)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            began = time.monotonic()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=clean_environment())
            self.memory = 0
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                self.memory = max(self.memory, memory(process.pid))
                if time.monotonic() - began > limit:
                    process.kill()
                    limit = float("inf")
                time.sleep(0.004)  # between two looks at its memory
            self.seconds = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            out.seek(0)
            err.seek(0)
            super().__init__(command, process.returncode, out.read(),
                             err.read().decode("utf-8", errors="replace"))

    def __repr__(self):
        return (f"{self.seconds:.2f} s ({self.cpu:.2f} s of a processor), {self.memory >> 20} MiB, "
                f"{len(self.raw)} bytes of output\n{super().__repr__()}")


class Bounded(Case):
    """A test of what may not be exceeded, whatever the target does."""

    def measure(self, *argv, seconds, status=(0, 1), good=lambda got: True):
        """The first run that ends in time (and is good); the last one that does not is the failure."""
        seconds *= SLOWNESS
        for _ in range(TRIES):
            got = Measured(argv)
            self.check(got, status)
            # Processor time is the tool's own: no load of the machine excuses it.
            self.assertLessEqual(got.cpu, 2 * seconds, got)
            if not ASAN:
                self.assertLessEqual(got.memory, MEMORY, got)
            self.assertLessEqual(len(got.raw), OUTPUT, got)
            if got.seconds <= seconds and good(got):
                break
        self.assertLessEqual(got.seconds, seconds, got)
        self.assertTrue(good(got), got)
        for victim in self.victims:
            for pid in victim.watched:
                self.assert_free(pid)
        return got

    def held(self, victim, *arguments, stop=300, whole=1500, status=(0, 1), text=True, computes=False):
        """
        Both limits hold, also where threads at rest are not stopped; the node of the victim, and its document, of a
        stop of all. `computes`: a thread of it does, which stops as soon as it gets a processor. Beside other tests that
        may be too late, which is told, and tried again.
        """
        limits = ("-p", victim.pid, "--stop-timeout", stop * SLOWNESS, "--timeout", whole * SLOWNESS, *arguments)

        def stopped_shortly(got):
            if computes and (any(w["code"] == "thread_not_stopped" for w in got.doc["warnings"]) or
                             any("error" in node for node in processes(got.doc).values())):
                return False
            return got.doc["stop_duration_ns"] <= (stop * 1000000 + OVERRUN * 2e8) * SLOWNESS
        got = self.measure(*limits, "--stop-all", "--json", seconds=whole / 1000 + OVERRUN, status=status,
                           good=stopped_shortly)
        form = [] if text else ["--json"]
        self.measure(*limits, *form, seconds=whole / 1000 + OVERRUN, status=(0, 1, 2))
        node = processes(got.doc).get(victim.pid)
        self.assertIsNotNone(node, got)
        return node, got

    def all_threads(self, node, got, count):
        """Each with its pc as address and, where something is mapped there, as module+offset."""
        self.assertEqual(len(threads(node)), count, got)
        for tid, (_, stack) in threads(node).items():
            if stack["unwind"] == "not_stopped" and stack["labels"].get("state") == "disk":
                continue  # where the kernel waits for a server, nobody is stopped
            self.assertTrue(stack["entries"], f"{tid}: {got}")
            first = stack["entries"][0]
            self.assertIn("address", first, got)
            if int(first["address"], 16) >= 0x1000 and "module" in first and first["module"] != "[vdso]":
                self.assertTrue("offset" in first, f"{first}: {got}")
