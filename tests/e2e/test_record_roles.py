# SPDX-License-Identifier: LGPL-2.1-or-later
"""`record` and its parser: who reads the target's files, with which rights, and what it costs when that
process is killed."""
import os
import shutil
import signal
import time

from harness import DEADLINE, ROOT, TARGETS, read_file, status_field, wait_until
from test_record import FOREVER, Recorder


def children_named(pid, name):
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        for child in (read_file(f"/proc/{pid}/task/{tid}/children") or "").split():
            if (read_file(f"/proc/{child}/comm") or "").strip() == name:
                found.append(int(child))
    return found


class Roles(Recorder):
    def parser_of(self, running, other_than=None):
        return wait_until(lambda: [p for p in children_named(running.pid, "snap-parser") if p != other_than],
                          "a parser")[0]

    def recorder(self, victim, *argv):
        return self.start("-p", victim.pid, *FOREVER, *argv)

    def target(self):
        """A program that runs all the time, of a name of its own."""
        path = os.path.join(self.scratch(), "target-of-its-own")
        shutil.copy(os.path.join(TARGETS, "shares"), path)
        return self.program([path], settled=False), path

    def test_the_recorder_maps_no_file_of_the_target(self):
        victim, path = self.target()
        out = os.path.join(self.scratch(), "out.folded")
        running = self.recorder(victim, "-o", out)
        parser = self.parser_of(running)
        wait_until(lambda: path in (read_file(f"/proc/{parser}/maps") or path), "the parser to read the target")
        for pid in [running.pid, *children_named(running.pid, "snap-tracer")]:
            self.assertNotIn(path, read_file(f"/proc/{pid}/maps") or "")
        # A busy machine may leave no time for a stop, which is another reason for 1.
        self.finish(running, status=(0, 1))
        self.assertIn("asleep_main", read_file(out))
        self.assertFalse(os.path.exists(f"/proc/{parser}"))

    def test_its_rights(self):
        victim, _ = self.target()
        running = self.recorder(victim, "-o", os.devnull, "-f", "folded")
        parser = self.parser_of(running)
        wait_until(lambda: status_field(parser, "Seccomp") == "2", "the sandbox")
        self.assertEqual(status_field(parser, "NoNewPrivs"), "1")
        for capabilities in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            self.assertEqual(int(status_field(parser, capabilities), 16), 0)
        if ROOT:
            self.assertNotIn("0", status_field(parser, "Uid").split())
        self.finish(running, status=(0, 1))

    def test_killed_it_is_replaced_and_the_recording_says_so(self):
        victim, _ = self.target()
        out = os.path.join(self.scratch(), "out.folded")
        running = self.recorder(victim, "-o", out)
        first = self.parser_of(running)
        os.kill(first, signal.SIGKILL)
        second = self.parser_of(running, other_than=first)
        got = self.finish(running, status=1)
        self.assertIn("stacks lost: the parser was killed by signal 9", got.err)
        self.assertIn("asleep_main", read_file(out))
        for pid in (first, second):
            self.assertFalse(os.path.exists(f"/proc/{pid}"), f"{pid} is left over")


class Hurry(Recorder):
    """A recording that is told to end does so, also where the parser that names its frames stands still."""

    LATE = "names are missing: the recording had to end before all were found"

    def stopped_naming(self, begin):
        """A recording whose naming parser was stopped; `begin` makes one that is about to name."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            running, known = begin()
            while running.process.poll() is None:
                for pid in children_named(running.pid, "snap-parser"):
                    if pid not in known and self.stop(pid):
                        return running
            running.close()
        self.fail("no naming parser was met")

    @staticmethod
    def stop(pid):
        try:
            os.kill(pid, signal.SIGSTOP)
            return True
        except ProcessLookupError:
            return False

    def begin(self, *argv):
        victim = self.victim("threads", "futex:3:worker:5")
        running = self.start("-p", victim.pid, *argv)
        known = wait_until(lambda: children_named(running.pid, "snap-parser"), "a parser")
        return running, known

    def told_to_end(self, *argv):
        running, known = self.begin(*FOREVER, *argv)
        running.send(signal.SIGTERM)
        return running, known

    def finish_soon(self, running, number=0):
        begin = time.monotonic()
        got = self.finish(running, status=1, number=number)
        self.assertLess(time.monotonic() - begin, 20, "it waits for a minute when nobody hurries it")
        self.assertIn(self.LATE, got.err)
        return got

    def test_at_the_end(self):
        got = self.finish_soon(self.stopped_naming(lambda: self.told_to_end("-f", "folded")))
        self.assertIn("threads", got.text)
        self.assertNotIn("worker_main", got.text)

    def test_a_file_is_named_later(self):
        path = os.path.join(self.scratch(), "out.snaprec")
        self.finish_soon(self.stopped_naming(lambda: self.told_to_end("-o", path)))
        got = self.run_tool("render", "-f", "folded", path)
        self.assertIn("worker_main", got.text)
        self.assertEqual(got.err, "")

    def test_after_the_end(self):
        """Its time was up before: it names, and is told only now."""
        running = self.stopped_naming(lambda: self.begin("-d", 1, "-f", "folded"))
        got = self.finish_soon(running, signal.SIGTERM)
        self.assertNotIn("worker_main", got.text)
