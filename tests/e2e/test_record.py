# SPDX-License-Identifier: LGPL-2.1-or-later
"""`record` from the command line: how it begins, how it ends, what is where afterwards, and what it
says. Lengths are given as time, but no measured time decides a result."""
import contextlib
import fcntl
import json
import os
import pty
import re
import selectors
import shutil
import signal
import struct
import subprocess
import termios
import time

from harness import (Case, ROOT, TARGETS, TOOL, Result, Timeout, blocked, clean_environment, need_root,
                     note_options, proc_state, read_file, run_tool, tids_of, wait_until)

FOREVER = ("-d", "0")
NOBODY = 65534


def formats():
    """name -> suffix, as the help lists them."""
    text = run_tool(["help", "formats"]).text
    return dict(re.findall(r"(?m)^  ([\w-]+) +(\.[\w.]+) ", text))


class Running:
    """A recorder that has taken its first sample."""

    def __init__(self, argv, tool=TOOL, env=None, **popen):
        self.argv = ["record", "-v", *map(str, argv)]
        note_options(self.argv)
        popen.setdefault("stdout", subprocess.PIPE)
        self.process = subprocess.Popen([tool, *self.argv], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env=clean_environment(env), **popen)
        self.pid = self.process.pid
        self.err = b""
        try:
            self.wait_for("recording \\d+ thread")
        except BaseException:
            self.close()
            raise

    def wait_for(self, pattern, seconds=60):
        """Until standard error holds the pattern."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while not re.search(pattern.encode(), self.err):
                if not selector.select(max(0, end - time.monotonic())):
                    raise Timeout(f"{self.argv}: no {pattern!r} in {self.err!r}")
                got = os.read(self.process.stderr.fileno(), 65536)
                if not got:
                    raise AssertionError(f"{self.argv}: ended without {pattern!r}: {self.err!r}")
                self.err += got

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGINT):
        if number:
            self.send(number)
        try:
            out, err = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Timeout(f"{self.argv} did not end") from None
        return Result(self.argv, self.process.returncode, out or b"", (self.err + err).decode())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                stream.close()


def catches(pid, number):
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", read_file(f"/proc/{pid}/status") or "", re.M)
    return found and int(found[1], 16) >> number - 1 & 1


class Recorder(Case):
    """What the tests of recordings share."""

    def start(self, *argv, **options):
        running = Running(argv, **options)
        self.addCleanup(running.close)
        return running

    def finish(self, running, status=0, number=signal.SIGINT):
        got = running.end(number)
        self.check(got, status)
        for victim in self.victims:
            for pid in victim.watched:
                self.assert_free(pid)
        return got

    def order(self, victim, text):
        """Tells an obedient victim, and waits until it has obeyed."""
        victim.tell(text + "\n")
        self.assertEqual(victim.read_line(), f"did {text.split()[0]}\n")

    def write_until(self, recorder, path, *words):
        """A recorder with --ring and -o PATH writes what it has, until it has all of these words; with their names."""
        def held():
            count = len(re.findall(b"recording written", recorder.err))
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(recording written[^$]*){{{count + 1}}}")
            text = read_file(path)
            return all(word in text for word in words)
        wait_until(held, f"{words} in the recording")

    def figures(self, path):
        with open(path) as f:
            return json.load(f)


class Basics(Recorder):
    asan = "both"

    def test_text_on_stdout(self):
        victim = self.victim("threads", "futex:20:worker:5", "epoll:2:poller")
        got = self.run_tool("record", "-p", victim.pid, "-d", "0.5")
        self.assertIn("wait_futex", got.text)
        self.assertRegex(got.err, r"\A(stacksnap: \d+ of \d+ ticks were missed.*\n)?\Z")

    def test_every_format_by_its_suffix(self):
        victim = self.victim("threads", "futex:5:worker:5", "epoll:2:poller")
        known = formats()
        self.assertIn("snaprec", known)
        for name, suffix in known.items():
            with self.subTest(format=name):
                folder = self.scratch()
                got = self.run_tool("record", victim.pid, "-d", "300ms", "-o", os.path.join(folder, "a" + suffix))
                self.assertEqual(got.raw, b"")
                self.assertEqual(os.listdir(folder), ["a" + suffix])
                self.assertGreater(os.path.getsize(os.path.join(folder, "a" + suffix)), 20)
                self.assertIn(f"recording written to {folder}/a{suffix}", got.err)
                self.assertRegex(got.err, "wait_futex|wait_epoll", "no summary")
        self.run_tool("record", victim.pid, "-d", "0.2", "--format=folded", "-o", os.path.join(folder, "b.json"))
        self.assertNotIn("{", read_file(os.path.join(folder, "b.json")))

    def test_figures(self):
        victim = self.victim("threads", "futex:5:worker:5", "spin:1:busy", running=1)
        path = os.path.join(self.scratch(), "stats.json")
        self.run_tool("record", victim.pid, "--hz", "50", "-d", "1", "--stats", path)
        stats = self.figures(path)
        self.assertEqual(stats["hz_asked"], 50)
        for key in ("hz_reached", "ticks", "ticks_missed", "duration_ns", "stopped_ns", "stopped_percent", "threads",
                    "thread_samples", "stacks"):
            self.assertIn(key, stats)
        self.assertEqual(stats["threads"], 7)
        self.assertEqual(stats["thread_samples"], 7 * stats["ticks"])
        self.assertGreaterEqual(stats["stacks"], 3)
        got = self.run_tool("record", victim.pid, "--hz=20", "--duration=0.3s", "-o", path + ".txt", "--stats", "-")
        self.assertEqual(json.loads(got.text)["hz_asked"], 20)

    def test_a_process_stands_for_no_longer_than_asked(self):
        victim = self.victim("threads", "futex:5:worker:5", "spin:4:busy", running=4)
        path = os.path.join(self.scratch(), "stats.json")
        recording = os.path.join(self.scratch(), "out.snaprec")
        told = self.run_tool("record", victim.pid, "--hz", "2000", "-d", "2", "--max-stopped", "0.1", "--stats", path,
                             "-o", recording, status=(0, 1), tool=self.without_bpf())
        stats = self.figures(path)
        self.assertGreater(stats["left_out"], 0)
        # What has no stack for that reason says so.
        doc = json.loads(self.run_tool("render", recording, "-f", "json", status=(0, 1)).text)
        details = {stack["unwind_detail"] for stack in doc["processes"][0]["stacks"] if stack["unwind"] == "not_stopped"}
        self.assertIn("to keep within --max-stopped", details)
        self.assertIn("(not stopped: to keep within --max-stopped)",
                      self.run_tool("render", recording, "-f", "text", status=(0, 1)).text)
        got = self.run_tool("render", recording, "-f", "chrome", status=(0, 1))
        # Nobody knows how long a stop will be, on a busy machine least of all. But none is begun when
        # the share of the time so far is used up: without the longest one all of them fit into it.
        stops = [event["args"]["us"] * 1000 for event in json.loads(got.text)["traceEvents"]
                 if event["name"] == "stop_us"]
        self.assertGreater(stats["stopped_ns"], 0)
        self.assertLessEqual(stats["stopped_ns"] - max(stops), stats["duration_ns"] / 1000)
        self.assertRegex(told.err, r"stacksnap: \d+ samples were left out, as no process .* more than 0\.1 % of")
        got = self.run_tool("record", victim.pid, "--hz", "200", "-d", "0.5", "--max-stopped", "100", "--stats", path)
        self.assertNotIn("left out", got.err)
        self.assertEqual(self.figures(path)["left_out"], 0)
        self.assertLessEqual(self.figures(path)["stopped_percent"], 100)

    def test_mode_cpu(self):
        victim = self.victim("threads", "futex:5:worker:5", "spin:1:busy", running=1)
        for mode, seen in (("cpu", 0), ("wall", 1)):
            text = self.run_tool("record", victim.pid, "--mode", mode, "-d", "0.5", "-f", "folded").text
            self.assertIn("spin", text)
            self.assertEqual("wait_futex" in text, bool(seen), text)

    def test_an_idle_process_has_no_time_on_cpu_and_that_is_all_right(self):
        victim = self.victim("threads", "futex:5:worker:5")
        self.run_tool("record", victim.pid, "--mode=cpu", "-d", "0.3")

    def test_filters(self):
        victim = self.victim("threads", "futex:3:worker", "epoll:2:poller", "spin:1:busy", running=1)
        def functions(*filters):
            text = self.run_tool("record", victim.pid, "-d", "0.3", "-f", "folded", *filters).text
            return {f for f in ("wait_futex", "wait_epoll", "spin", "victim_hold") if f";{f}" in text}
        self.assertEqual(functions(), {"wait_futex", "wait_epoll", "spin", "victim_hold"})
        self.assertEqual(functions("--thread", "^poller"), {"wait_epoll"})
        self.assertEqual(functions("--state", "running"), {"spin"})
        self.assertEqual(functions("--match", "^wait_futex$"), {"wait_futex"})
        self.assertEqual(functions("--no-idle") - {"victim_hold"}, {"spin"})

    def test_children_are_followed(self):
        victim = self.victim("obey")
        def children():
            return (read_file(f"/proc/{victim.pid}/task/{victim.pid}/children") or "").split()
        def followed():
            """A child of the time of a recording; on a busy machine it may be late for one."""
            before = set(children())
            recorder = self.start(victim.pid, *FOREVER, "-f", "folded")
            self.order(victim, "fork")
            child = wait_until(lambda: set(children()) - before, "a child").pop()
            self.run_tool("record", victim.pid, "-d", "0.5", "-f", "folded")
            got = self.finish(recorder)
            return f"obey[{child}]" in got.text and (child, got)
        self.order(victim, "threads 3")
        child, got = wait_until(followed, "the child in a recording")
        self.assertIn("sleeping_main", got.text)
        alone = self.run_tool("record", victim.pid, "-d", "0.2", "--no-children", "-f", "folded").text
        self.assertNotIn(f"obey[{child}]", alone)

    def test_never_itself(self):
        self.victim("chain")
        path = os.path.join(self.scratch(), "a.folded")
        recorder = self.start("--all", "--ring=1h", "-o", path, "--hz", "20")
        def children():
            return set((read_file(f"/proc/{recorder.pid}/task/{recorder.pid}/children") or "").split())
        before = children()
        # Of thousands of processes some are read later than others.
        self.write_until(recorder, path, f"[{self.victims[0].pid}]")
        own = [str(recorder.pid), *(before & children())]  # the number of one that has ended may be another one's
        self.assertGreater(len(own), 1)
        self.finish(recorder, status=(0, 1))
        text = read_file(path)
        for pid in own:
            self.assertNotIn(f"[{pid}]", text)
        self.assertIn(f"[{self.victims[0].pid}]", text)


class Ends(Recorder):
    """How a recording ends, and with which status."""
    asan = True

    def test_signals_end_it_in_order(self):
        victim = self.victim("threads", "futex:5:worker:5")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            path = os.path.join(self.scratch(), "a.folded")
            recorder = self.start(victim.pid, "-d", "1h", "-o", path, "--stats", path + ".stats")
            self.assertFalse(os.path.exists(path))
            self.finish(recorder, number=number)
            self.assertIn("wait_futex", read_file(path))
            self.assertGreater(self.figures(path + ".stats")["ticks"], 0)
            got = self.finish(self.start(victim.pid, *FOREVER), number=number)
            self.assertIn("wait_futex", got.text)

    def test_a_signal_before_it_begins(self):
        """It ends by itself, and says that nothing was recorded or writes what little there is."""
        victim = self.victim("threads", "futex:5:worker:5")
        for i, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 3):
            path = os.path.join(self.scratch(), "a.snaprec" if i % 2 else "a.json")
            tool = subprocess.Popen([TOOL, "record", "-p", str(victim.pid), "-d", "1h", "-o", path],
                                    stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean_environment())
            self.addCleanup(tool.kill)
            wait_until(lambda: catches(tool.pid, number), "it to catch signals")
            tool.send_signal(number)
            err = tool.communicate(timeout=60)[1].decode()
            self.assertIn(tool.returncode, (0, 2), err)
            if os.path.exists(path) and path.endswith(".snaprec"):
                self.run_tool("render", path, status=tool.returncode)
            elif os.path.exists(path):
                self.assertEqual((json.loads(read_file(path))["schema"], tool.returncode), ("stacksnap.recording", 0))
            else:
                self.assertEqual(tool.returncode, 2, err)
                self.assertIn("nothing was recorded", err)
                self.assertEqual(len(err.splitlines()), 1, err)
        self.assert_free(victim.pid)

    def test_a_second_signal_kills_and_the_target_runs_on(self):
        """The first one makes it write, into a pipe that nobody reads."""
        victim = self.victim("threads", "futex:40:worker:40")
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        fcntl.fcntl(writing, 1031, 4096)  # F_SETPIPE_SZ
        recorder = self.start(victim.pid, *FOREVER, "-f", "folded", stdout=writing)
        os.close(writing)
        recorder.send(signal.SIGINT)
        first = time.monotonic()
        wait_until(lambda: (read_file(f"/proc/{recorder.pid}/syscall") or "").startswith("1 "), "it to write")
        wait_until(lambda: time.monotonic() > first + 1.1, "the second in which signals mean the same")
        self.assertIsNone(recorder.process.poll())
        self.finish(recorder, status=-signal.SIGINT)

    def test_signals_at_once_are_one(self):
        """As timeout(1) sends them, to its command and to the group, and a hurried user's."""
        victim = self.victim("threads", "futex:5:worker:5")
        for pair in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)):
            path = os.path.join(self.scratch(), "a.html")
            recorder = self.start(victim.pid, *FOREVER, "-o", path)
            recorder.send(pair[0])
            self.finish(recorder, number=pair[1])
            self.assertIn("wait_futex", read_file(path))

    def test_a_second_signal_leaves_no_half_file(self):
        victim = self.victim("threads", "futex:40:worker:40")
        folder = self.scratch()
        recorder = self.start(victim.pid, *FOREVER, "-o", os.path.join(folder, "a.folded"), "-f", "jsonl")
        recorder.send(signal.SIGINT)
        while recorder.process.poll() is None:
            recorder.send(signal.SIGTERM)  # at some moment of its work
        self.finish(recorder, status=(0, -signal.SIGTERM, -signal.SIGINT), number=0)
        self.assertEqual([n for n in os.listdir(folder) if n.startswith(".")], [])

    def test_the_target_ends(self):
        victim = self.victim("obey")
        victim.watched = []
        path = os.path.join(self.scratch(), "a.snaprec")
        for arguments in (("-f", "folded"), ("-o", path)):
            victim = self.victim("obey")
            victim.watched = []
            recorder = self.start(victim.pid, *FOREVER, *arguments)
            victim.tell("exit\n")
            got = self.finish(recorder, status=1, number=0)
            text = got.text or self.run_tool("render", path, "-f", "folded", status=1).text
            self.assertIn("wait_for_word", text)

    def test_a_target_goes_on_as_another_program(self):
        other = os.path.join(self.scratch(), "other")
        shutil.copy(os.path.join(TARGETS, "chain"), other)
        victim = self.victim("obey")
        path = os.path.join(self.scratch(), "a.folded")
        recorder = self.start(victim.pid, "--ring=1h", "-o", path, "--max-stopped", "100")
        victim.tell(f"exec {other}\n")
        self.assertTrue(victim.read_line().startswith("ready"))
        # Once it has written the names, it need not look for them in the second that it has when it is told to end.
        self.write_until(recorder, path, "wait_for_word", "chain_hold")
        self.finish(recorder)
        text = read_file(path)
        self.assertIn("wait_for_word", text)
        self.assertIn("chain_hold", text)

    def test_a_target_may_not_be_read_any_more(self):
        """A program without permission to be read is not dumpable: nobody but root may look."""
        need_root()
        folder = self.scratch()
        for name in ("obey", "chain"):
            shutil.copy(os.path.join(TARGETS, name), folder)
        tool = os.path.join(folder, "stacksnap")
        shutil.copy(TOOL, tool)
        os.chmod(os.path.join(folder, "chain"), 0o711)
        as_nobody = dict(user=NOBODY, group=NOBODY, extra_groups=[])
        victim = self.program([os.path.join(folder, "obey")], **as_nobody)
        recorder = self.start(victim.pid, *FOREVER, "-f", "folded", tool=tool, cwd="/", **as_nobody)
        victim.tell(f"exec {folder}/chain\n")
        got = self.finish(recorder, status=1, number=0)
        self.assertIn("wait_for_word", got.text)
        self.assertTrue(got.err.splitlines()[1:], "it does not say why")

    def test_nobody_to_record(self):
        """The old recording is still there."""
        path = os.path.join(self.scratch(), "a.snaprec")
        with open(path, "w") as f:
            f.write("old")
        pid = next(p for p in range(4000000, 1, -1) if not os.path.exists(f"/proc/{p}"))
        got = self.run_tool("record", "-p", pid, "-o", path, status=2)
        self.assertRegex(got.err, str(pid))
        self.assertEqual(read_file(path), "old")
        self.assertEqual(self.run_tool("record", "--name", "^stacksnap-nobody$", status=2).raw, b"")

    def test_it_says_when_it_could_not_keep_up(self):
        victim = self.victim("threads", "futex:300:worker:20")
        path = os.path.join(self.scratch(), "stats")
        # Some threads may not have been read even once: status 1.
        got = self.run_tool("record", victim.pid, "--hz", "10000", "-d", "0.5", "--stats", path, status=(0, 1))
        if self.figures(path)["ticks_missed"]:
            self.assertIn("missed", got.err + got.text)

    def test_killed(self):
        """What was written is there, and says that it is not all."""
        victim = self.victim("threads", "futex:5:worker:5")
        path = os.path.join(self.scratch(), "a.snaprec")
        recorder = self.start(victim.pid, *FOREVER, "-o", path)
        def grown():
            got = self.run_tool("render", path, "-f", "folded", status=None, free=False)
            return got if got.status == 1 and "wait_futex" in got.text else None
        got = wait_until(grown, "samples in the file")
        self.assertIn("unfinished", got.err)
        recorder.send(signal.SIGKILL)
        recorder.process.wait()
        got = self.run_tool("render", path, "-f", "folded", status=1)
        self.assertIn("wait_futex", got.text)
        self.assertIn("unfinished", got.err)


class Until(Recorder):
    asan = True

    def ends_when(self, victim, condition, change):
        """It ends after the change and not before."""
        recorder = self.start(victim.pid, "--until", condition, "-f", "folded")
        self.assertIsNone(recorder.process.poll())
        change()
        return self.finish(recorder, number=0)

    def test_threads(self):
        victim = self.victim("obey")
        got = self.ends_when(victim, "threads>3", lambda: self.order(victim, "threads 3"))
        self.assertIn("sleeping_main", got.text)
        self.ends_when(victim, "threads>5 for 100ms", lambda: self.order(victim, "threads 3"))

    def test_fewer_threads(self):
        victim = self.victim("family")
        recorder = self.start(victim.pid, "--until", "threads<5", "-f", "folded")
        os.kill(victim["grand_a"], signal.SIGKILL)
        self.finish(recorder, number=0, status=(0, 1))

    def test_state(self):
        victim = self.victim("obey")
        self.ends_when(victim, "state=running for 0.1s", lambda: self.order(victim, "spin"))
        self.ends_when(victim, "state=running,disk<1 for 0.1s", lambda: self.order(victim, "rest"))
        def stop():
            os.kill(victim.pid, signal.SIGSTOP)
        recorder = self.start(victim.pid, "--until", "state=stopped", "-f", "folded")
        stop()
        recorder.end(0)
        self.assertEqual(recorder.process.returncode, 0)
        self.assertEqual(proc_state(victim.pid), "T")
        os.kill(victim.pid, signal.SIGCONT)

    def test_cpu(self):
        victim = self.victim("obey")
        self.ends_when(victim, "cpu>20% for 0.2s", lambda: self.order(victim, "spin"))
        self.ends_when(victim, "cpu<10% for 0.2s", lambda: self.order(victim, "rest"))

    def test_duration_holds_beside_it(self):
        victim = self.victim("chain")
        self.run_tool("record", victim.pid, "--until", "threads>1000", "-d", "0.3")


class Ring(Recorder):
    level = "test"
    asan = "both"

    def test_each_request_replaces_the_file(self):
        victim = self.victim("threads", "futex:5:worker:5")
        folder = self.scratch()
        path = os.path.join(folder, "a.folded")
        recorder = self.start(victim.pid, "--ring", "30s", "-o", path)
        self.assertEqual(os.listdir(folder), [])
        inodes = []
        for number in (1, 2):
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(recording written[^$]*){{{number}}}")
            self.assertEqual(os.listdir(folder), ["a.folded"])
            inodes.append(os.open(path, os.O_RDONLY))
            self.addCleanup(os.close, inodes[-1])
            self.assertIn("wait_futex", read_file(path))
        self.finish(recorder)
        self.assertEqual(os.listdir(folder), ["a.folded"])
        inodes.append(os.open(path, os.O_RDONLY))
        self.addCleanup(os.close, inodes[-1])
        self.assertEqual(len({os.fstat(fd).st_ino for fd in inodes}), 3)

    def test_names_with_sequences(self):
        victim = self.victim("threads", "futex:5:worker:5")
        folder = self.scratch()
        before = time.time()
        recorder = self.start(victim.pid, "--ring=10s", "-o", f"{folder}/a%N-100%%-%F-%s.folded")
        self.assertEqual(os.listdir(folder), [])
        for number in (1, 2):
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(recording written[^$]*){{{number}}}")
            self.assertEqual(len(os.listdir(folder)), number)
        self.finish(recorder)
        found = [re.fullmatch(r"a(\d)-100%-(\d{4}-\d\d-\d\d)-(\d+)\.folded", n) for n in sorted(os.listdir(folder))]
        self.assertEqual([m and m.group(1) for m in found], ["1", "2", "3"], os.listdir(folder))
        for m in found:
            self.assertLessEqual(int(before), int(m.group(3)))
            self.assertEqual(time.strftime("%Y-%m-%d", time.gmtime(int(m.group(3)))), m.group(2))

    def test_a_condition_writes_it_and_it_goes_on(self):
        victim = self.victim("obey")
        folder = self.scratch()
        recorder = self.start(victim.pid, "--ring", "10s", "--until", "threads>2", "-o", f"{folder}/%N.folded")
        self.order(victim, "threads 3")
        recorder.wait_for("recording written")
        self.assertIsNone(recorder.process.poll())
        self.finish(recorder)
        self.assertEqual(sorted(os.listdir(folder)), ["1.folded", "2.folded"])

    def test_it_forgets(self):
        """What is older than the ring is gone; the figures are of the whole run."""
        victim = self.victim("obey")
        path = os.path.join(self.scratch(), "a.folded")
        recorder = self.start(victim.pid, "--ring", "0.5s", "-o", path, "--stats", path + ".stats")
        self.order(victim, "spin")
        recorder.send(signal.SIGUSR1)
        recorder.wait_for("recording written")
        self.assertIn("wait_for_word", read_file(path))
        other = os.path.join(TARGETS, "chain")
        victim.tell(f"exec {other}\n")
        self.assertTrue(victim.read_line().startswith("ready"))
        def forgotten():
            count = len(re.findall(b"recording written", recorder.err))
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(recording written[^$]*){{{count + 1}}}")
            text = read_file(path)
            return "wait_for_word" not in text and "chain_hold" in text
        wait_until(forgotten, "the ring to forget")
        self.finish(recorder)
        self.assertIn("chain_hold", read_file(path))
        self.assertNotIn("wait_for_word", read_file(path))

    def test_a_place_that_cannot_be_written_later(self):
        """The ring goes on, and the last writing counts."""
        victim = self.victim("threads", "futex:5:worker:5")
        folder = os.path.join(self.scratch(), "d")
        os.mkdir(folder)
        recorder = self.start(victim.pid, "--ring", "10s", "-o", f"{folder}/a.folded")
        os.rmdir(folder)
        recorder.send(signal.SIGUSR1)
        recorder.wait_for("cannot .*a.folded: No such file")
        self.assertIsNone(recorder.process.poll())
        os.mkdir(folder)
        recorder.send(signal.SIGUSR1)
        recorder.wait_for("recording written")
        self.finish(recorder)
        shutil.rmtree(folder)
        os.mkdir(folder)
        recorder = self.start(victim.pid, "--ring", "10s", "-o", f"{folder}/a.folded")
        os.rmdir(folder)
        self.finish(recorder, status=2)

    def test_full_disk(self):
        victim = self.victim("threads", "futex:5:worker:5")
        recorder = self.start(victim.pid, "--ring", "10s", "-o", "/dev/full", "-f", "folded")
        for number in (1, 2):
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(No space left on device[^$]*){{{number}}}")
            self.assertIsNone(recorder.process.poll())
        self.finish(recorder, status=2)

    def test_so_far_without_a_ring(self):
        victim = self.victim("threads", "futex:5:worker:5")
        path = os.path.join(self.scratch(), "a.folded")
        recorder = self.start(victim.pid, *FOREVER, "-o", path)
        recorder.send(signal.SIGUSR1)
        recorder.wait_for("recording written")
        self.assertIn("wait_futex", read_file(path))
        self.finish(recorder)

    def test_a_ring_of_a_recording_file(self):
        victim = self.victim("threads", "futex:5:worker:5")
        path = os.path.join(self.scratch(), "a.snaprec")
        recorder = self.start(victim.pid, "--ring", "10s", "-o", path)
        self.assertFalse(os.path.exists(path))
        recorder.send(signal.SIGUSR1)
        recorder.wait_for("recording written")
        self.assertIn("wait_futex", self.run_tool("render", path, "-f", "folded", status=(0, 1)).text)
        self.finish(recorder)
        self.assertIn("wait_futex", self.run_tool("render", path, "-f", "folded").text)

    def test_slices_of_a_ring_count_from_its_first_sample(self):
        victim = self.victim("threads", "futex:5:worker:5")
        path = os.path.join(self.scratch(), "a.snaprec")
        # On a busy machine there may be no tick for a while.
        recorder = self.start(victim.pid, "--ring", "3s", "-o", path)
        def document(*options):
            return json.loads(self.run_tool("render", path, "-f", "json", *options).text)
        def forgotten():
            count = len(re.findall(b"recording written", recorder.err))
            recorder.send(signal.SIGUSR1)
            recorder.wait_for(f"(recording written[^$]*){{{count + 1}}}")
            return document().get("from_ns", 0) > 10 ** 9
        wait_until(forgotten, "the ring to forget its first second")
        self.finish(recorder)
        whole, first, middle = document(), document("--to", "1.5s"), document("--from", "600ms", "--to", "2.4s")
        self.assertEqual(first["from_ns"], whole["from_ns"])
        self.assertLess(first["duration_ns"], 2.1 * 10 ** 9)
        self.assertGreaterEqual(middle["from_ns"], whole["from_ns"] + 6 * 10 ** 8)
        self.assertLess(middle["from_ns"], whole["from_ns"] + 24 * 10 ** 8)


class Places(Recorder):
    """Where it goes, and who cannot have it."""
    asan = True

    def test_what_cannot_be_written_is_known_before(self):
        victim = self.victim("threads", "futex:3:worker")
        folder = self.scratch()
        for path in ("/nonexistent/x.snaprec", "/nonexistent/x.folded", folder):
            for more in ((), ("--ring", "1s")):
                got = self.run_tool("record", victim.pid, *FOREVER, "-o", path, *more, status=2)
                self.assertIn(path, got.err)
                self.assertEqual(len(got.err.splitlines()), 1, got)
        got = self.run_tool("record", victim.pid, *FOREVER, "--stats", "/nonexistent/x", status=2)
        self.assertIn("/nonexistent/x", got.err)
        self.assertEqual(os.listdir(folder), [])

    def test_somebody_elses_folder(self):
        need_root()
        folder = self.scratch()
        tool = os.path.join(folder, "stacksnap")
        shutil.copy(TOOL, tool)
        for more in ((), ("--ring", "1s")):
            got = self.run_tool("record", os.getpid(), *FOREVER, "-o", f"{folder}/a.snaprec", *more, status=2, tool=tool,
                                user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
            self.assertRegex(got.err, "a.snaprec: Permission denied")

    def test_full_disk(self):
        victim = self.victim("threads", "futex:20:worker:5")
        for arguments in (("-o", "/dev/full"), ("-o", "/dev/full", "-f", "snaprec"),
                          ("-o", "/dev/null", "--stats", "/dev/full")):
            got = self.run_tool("record", victim.pid, "-d", "0.3", *arguments, status=2)
            self.assertIn("No space left on device", got.err)
        for flags in ((), ("-f", "folded"), ("-f", "snaprec")):
            with open("/dev/full", "w") as full:
                got = self.run_tool("record", victim.pid, "-d", "0.3", *flags, status=2, stdout=full)
            self.assertIn("No space left on device", got.err)

    def test_reader_that_goes(self):
        victim = self.victim("threads", "futex:20:worker:5")
        for flags in ((), ("-f", "snaprec"), ("-f", "folded", "--ring", "5s")):
            reading, writing = os.pipe()
            os.close(reading)
            got = self.run_tool("record", victim.pid, "-d", "0.3", *flags, status=(0, 2, -13), stdout=writing)
            os.close(writing)
            self.assertEqual(got.err, "", got)

    def test_a_recording_through_a_pipe(self):
        victim = self.victim("threads", "futex:5:worker:5")
        shell = f"{TOOL} record {victim.pid} -d 0.3 -f snaprec | {TOOL} render - -f folded"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=clean_environment(), timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, rb"\A(stacksnap: \d+ of \d+ ticks were missed.*\n)?\Z")
        self.assertIn(b"wait_futex", done.stdout)

    def test_fifo(self):
        victim = self.victim("threads", "futex:5:worker:5")
        fifo = os.path.join(self.scratch(), "a.folded")
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as cat:
            self.run_tool("record", victim.pid, "-d", "0.3", "-o", fifo)
            self.assertIn(b"wait_futex", cat.communicate(timeout=30)[0])

    def test_binary_is_nothing_for_a_terminal(self):
        victim = self.victim("chain")
        for name in [n for n in formats() if n in ("pprof", "snaprec")]:
            master, slave = pty.openpty()
            self.addCleanup(os.close, master)
            self.addCleanup(os.close, slave)
            got = self.run_tool("record", victim.pid, "-d", "0.1", "-f", name, stdout=slave, status=2)
            self.assertIn("terminal", got.err)

    def test_progress_on_a_terminal(self):
        victim = self.victim("threads", "futex:5:worker:5")
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        tool = subprocess.Popen([TOOL, "record", str(victim.pid), "-d", "1h", "-f", "folded"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=slave, env=clean_environment())
        os.close(slave)
        text = b""
        while not re.search(rb"(0:59:\d\d|59:\d\d) left.*6 threads.*stopped \d", text):
            text += os.read(master, 4096)
        tool.send_signal(signal.SIGINT)
        while True:
            try:
                got = os.read(master, 4096)
            except OSError:
                break
            if not got:
                break
            text += got
        self.assertEqual(tool.wait(30), 0)
        self.assertNotIn(b" left", text.rsplit(b"\r\x1b[K", 1)[1], "the line was not erased")


    def test_the_summary_fits_the_terminal(self):
        victim = self.victim("threads", "futex:5:worker:5", "spin:1:a_name_of_15", running=1)
        for flags, columns in (([], 60), (["-v"], 44)):
            master, slave = pty.openpty()
            self.addCleanup(os.close, master)
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            path = os.path.join(self.scratch(), "a.json")
            self.run_tool("record", victim.pid, "-d", "0.5", "-o", path, *flags, stderr=slave, status=None)
            os.close(slave)
            text = b""
            with contextlib.suppress(OSError):
                while got := os.read(master, 65536):
                    text += got
            lines = text.rsplit(b"\r\x1b[K", 1)[-1].decode().replace("stacksnap: recording written to " + path, "")
            lines = [line for line in lines.split("\r\n") if "ticks were missed" not in line and "left out" not in line]
            self.assertEqual([line for line in lines if len(line) > columns], [])
            self.assertIn("share  state     function", "\n".join(lines))
            words = " ".join(line.removeprefix("stacksnap: ") for line in lines)
            self.assertRegex(words, r"\b7 threads, \d+ samples, \d+ distinct stacks?\b")
            self.assertEqual("read without a stop" in words, bool(flags), words)


class Usage(Recorder):
    """Status 64, nothing on stdout, nobody touched."""
    asan = True

    def test_rows(self):
        pid = str(os.getpid())
        for arguments, word in ((["--hz", "0"], "1 to 10000"), (["--hz", "-5"], "1 to 10000"),
                                (["--hz", "fast"], "1 to 10000"), (["--hz", "20000"], "1 to 10000"),
                                (["--hz", "0"], "1 to 10000"), (["--hz", "99.5"], "1 to 10000"),
                                (["-d", "-1"], "not a duration"), (["-d", "soon"], "not a duration"),
                                (["-d", ""], "empty"), (["--duration", "1d"], "not a duration"),
                                (["--ring", "0"], "above 0"), (["--ring", "-1s"], "not a duration"),
                                (["--until", "threads"], "threads>N"), (["--until", "cpu<5"], "cpu<N%"),
                                (["--until", "state=tired for 5s"], "state=LIST"), (["--mode", "off"], "wall, cpu"),
                                (["--interval", "0"], "above 0"), (["--state-frames", "top"], "root, leaf, no"),
                                (["-f", "nonsense"], "snaprec"), (["-o", "a%q"], "%N"), (["-o", "50%"], "%%"),
                                (["-o", "a%n"], "%N"), (["-o", "a%D"], "%N"),
                                (["--from", "5s"], "cannot be used"), (["--kernel"], "cannot be used"),
                                (["--stats", "-"], "standard output"), (["--save-capture", "x"], "cannot be used")):
            with self.subTest(arguments=arguments):
                got = self.run_tool("record", "-p", pid, *arguments, status=64)
                self.assertEqual(got.raw, b"")
                self.assertIn(word, got.err)
                self.assertLessEqual(len(got.err.splitlines()), 2, got)
        self.run_tool("record", status=64)
        self.run_tool("record", "-p", "abc", status=64)
        self.run_tool("--hz", "9", pid, status=64)
