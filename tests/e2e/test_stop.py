# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pause: what is stopped, what cannot be, and that everything runs on whatever happens to us."""
import contextlib
import os
import random
import signal
import subprocess
import time
import unittest

from harness import (Case, TOOL, blocked, bpf_works, clean_environment, functions, looks, need, need_root,
                     note_options, proc_state, processes, read_file, settle, status_field, threads,
                     tids_of, wait_until)


def start_tool(*argv, **popen):
    note_options(argv)
    popen.setdefault("stdout", subprocess.DEVNULL)
    popen.setdefault("stderr", subprocess.DEVNULL)
    return subprocess.Popen([TOOL, *map(str, argv)], stdin=subprocess.DEVNULL,
                            env=clean_environment(), **popen)


def cpu_time(pid, tid):
    fields = read_file(f"/proc/{pid}/task/{tid}/schedstat")
    return int(fields.split()[0])


class Special(Case):
    asan = "both"

    def test_group_stopped_stays_stopped(self):
        victim = self.victim("threads", "futex:3:worker")
        os.kill(victim.pid, signal.SIGSTOP)
        wait_until(lambda: all(proc_state(victim.pid, t) == "T" for t in tids_of(victim.pid)), "T")
        os.waitpid(victim.process.pid, os.WUNTRACED)
        for number in range(looks(20)):
            # A thread that was just let go is for a moment on its way back into its stop.
            wait_until(lambda: all(proc_state(victim.pid, t) == "T" for t in tids_of(victim.pid)), "T")
            node = self.node(victim.pid, *["--stop-all"] * (number % 2), stopped=True)
            self.assertEqual({t["state"] for t, _ in threads(node).values()}, {"stopped"})
            self.assertEqual(self.stack_of(node, "wait_futex")["count"], 3)
        wait_until(lambda: all(proc_state(victim.pid, t) == "T" for t in tids_of(victim.pid)), "T")
        pid, _ = os.waitpid(victim.process.pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG)
        self.assertEqual(pid, 0, "the parent saw the snapshots")
        os.kill(victim.pid, signal.SIGCONT)
        settle(victim.pid)
        self.assertEqual(self.node(victim.pid)["state"], "sleeping")

    def test_many_group_stopped_threads(self):
        """Seizing them takes several ticks of the tracer's timer, and each has told of its stop by then."""
        count = 3000
        victim = self.victim("threads", f"futex:{count}:worker")
        os.kill(victim.pid, signal.SIGSTOP)
        os.waitpid(victim.process.pid, os.WUNTRACED)
        wait_until(lambda: all(proc_state(victim.pid, t) == "T" for t in tids_of(victim.pid)), "T")
        node = self.node(victim.pid, "--stop-all", "--stop-timeout", "10000", stopped=True)
        self.assertEqual(self.stack_of(node, "wait_futex")["count"], count)

    def test_parent_sees_nothing(self):
        victim = self.victim("threads", "futex:3:worker")
        for _ in range(10):
            self.run_tool("-p", victim.pid, "--stop-all")
        pid, _ = os.waitpid(victim.process.pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG)
        self.assertEqual(pid, 0)

    def test_vfork_parent(self):
        victim = self.victim("vforker")
        doc = self.json("-p", victim.pid, "--stop-all", status=(0, 1), timeout=20)
        node = processes(doc)[victim.pid]
        # All its threads have the program's name.
        held = {(t["state"], s["unwind"]) for t, s in threads(node).values() if t["state"] != "sleeping"}
        self.assertEqual(held, {("disk", "not_stopped")})
        self.assertEqual(doc["_result"].status, 1)
        self.assertEqual(len(threads(node)), 4)
        self.assertTrue(any("victim_hold" in functions(s) for s in node["stacks"]))
        self.assertLess(doc["stop_duration_ns"], 900e6)
        child = node["children"][0]
        self.assertIn(child["stacks"][0]["unwind"], ("complete", "no_cfi"))
        if bpf_works():
            found = threads(self.node(victim.pid, status=(0, 1), timeout=20))
            held = {(t["state"], s["unwind"]) for t, s in found.values() if t["state"] != "sleeping"}
            self.assertEqual(held, {("disk", "complete")})

    def test_disk_wait(self):
        victim = self.victim("uffd", "disk", settled=False)
        slow = wait_until(lambda: [t for t in tids_of(victim.pid) if proc_state(victim.pid, t) == "D"],
                          "state D")[0]
        got = self.run_tool("-p", victim.pid, "--stop-all", "--json", status=1, timeout=20)
        node = processes(got.doc)[victim.pid]
        thread, stack = threads(node)[slow]
        self.assertEqual((thread["state"], stack["unwind"]), ("disk", "not_stopped"))
        self.assertTrue(any("victim_hold" in functions(s) for s in node["stacks"]), got)
        text = self.run_tool("-p", victim.pid, "--stop-all", status=1).text
        self.assertIn("DISK", text)
        self.assertIn("not stopped", text + got.err)
        if bpf_works():
            thread, stack = threads(self.node(victim.pid))[slow]
            self.assertEqual((thread["state"], stack["unwind"]), ("disk", "complete"))
            self.assertIn("disk_main", functions(stack))
            self.assertTrue([e for e in stack["entries"] if e.get("kernel")], stack)

    def test_zombie_leader(self):
        victim = self.victim("zleader", settled=False)
        wait_until(lambda: proc_state(victim.pid) == "Z", "a zombie leader")
        victim.watched = []
        node = self.node(victim.pid, status=(0, 1))
        names = {t["name"] for t, _ in threads(node).values()}
        self.assertLessEqual({"survivor", "remaining"}, names)
        self.stack_of(node, "survive")

    def test_already_traced(self):
        victim = self.victim("traced")
        got = self.run_tool("-p", victim["child"], "--stop-all", status=2, free=False)
        self.assertRegex(got.err, rf"traced by .*{victim.pid}")
        doc = self.json("-p", victim.pid, "--stop-all", status=1, free=False)
        child = processes(doc)[victim["child"]]
        self.assertEqual(child["error"]["code"], "already_traced")
        self.assertIn("victim_hold", functions(processes(doc)[victim.pid]["stacks"][0]))
        if bpf_works():
            node = processes(self.json("-p", victim.pid, free=False))[victim["child"]]
            self.assertEqual([stack["unwind"] for stack in node["stacks"]], ["complete"])

    def test_a_seccomp_filter_without_restart_syscall(self):
        """A stop ends some calls, which the kernel takes up again by restart_syscall: that would kill the process."""
        without_bpf = self.without_bpf()
        for how in ("poll", "sleep", "futex"):
            with self.subTest(how):
                victim = self.victim("filtered", how, settled=False)
                wait_until(lambda: blocked(victim.pid, victim.pid), "the call")
                for tool in (TOOL, without_bpf):
                    for options in ([], ["--stop-all"], ["--no-stop"]):
                        node = self.node(victim.pid, *options, tool=tool)
                        self.assertEqual([stack["unwind"] for stack in node["stacks"]], ["complete"])
                        self.stack_of(node, "rest_filtered")
                    path = os.path.join(self.scratch(), "filtered.snaprec")
                    self.run_tool("record", victim.pid, "-q", "-d", "0.3", "--max-stopped", "100", "-o", path,
                                  status=(0, 1), tool=tool)
                self.assertIsNone(victim.process.poll())

    def test_strict_seccomp(self):
        victim = self.victim("strict", settled=False)
        wait_until(lambda: blocked(victim.pid, victim.pid), "the read")
        self.stack_of(self.node(victim.pid), "locked_in")

    def test_stop_timeout_and_max_stack(self):
        victim = self.victim("threads", "futex:2:worker:2000")
        node = self.node(victim.pid, "--stop-timeout", "5000", "--timeout", "30000")
        self.assertEqual(self.stack_of(node, "wait_futex")["unwind"], "complete")
        cut = self.node(victim.pid, "--max-stack", "4096", "-n", "0", status=(0, 1))
        stack = self.stack_of(cut, "wait_futex")
        self.assertEqual(stack["unwind"], "limit")
        self.assertTrue(stack["unwind_detail"])
        self.assertNotIn("worker_main", functions(stack))

    def test_unserved_stack_memory(self):
        victim = self.victim("uffd", "stack", settled=False)
        began = time.monotonic()
        got = self.run_tool("-p", victim.pid, "--json", status=(0, 1), timeout=30)
        node = processes(got.doc)[victim.pid]
        self.assertEqual(len(threads(node)), 2, got)
        self.assertTrue(any("victim_hold" in functions(s) for s in node["stacks"]), got)
        self.assertLess(time.monotonic() - began, 25)

    def test_kernel_made_worker(self):
        victim = self.victim("uring", settled=False)
        if len(tids_of(victim.pid)) < 2:
            raise unittest.SkipTest("kernel: io_uring made no worker")
        # It gives itself its name when it first runs.
        wait_until(lambda: any((read_file(f"/proc/{victim.pid}/task/{t}/comm") or "").startswith("iou-sqp")
                               for t in tids_of(victim.pid)), "the worker to have its name")
        node = self.node(victim.pid, status=(0, 1))
        workers = [t for t, _ in threads(node).values() if t["name"].startswith("iou-sqp")]
        self.assertEqual([t["type"] for t in workers], ["kernel"])
        hidden = self.node(victim.pid, "--no-system", status=(0, 1))
        self.assertFalse([t for t, _ in threads(hidden).values() if t["type"] == "kernel"])

    def test_no_stop_letter_is_unknown_until_built(self):
        victim = self.victim("chain")
        listed = self.run_tool("help", "options").text
        if "--no-stop" not in listed:
            self.run_tool("-p", victim.pid, "--no-stop", status=64)


class Churn(Case):
    level = "all"

    def check_mode(self, mode, count, threads_wanted=1):
        """The main thread is always there and whole; what was missed is said."""
        victim = self.victim("churn", mode, settled=False)
        main = f"/proc/{victim.pid}/task/{victim.pid}/syscall"
        wait_until(lambda: (read_file(main) or "").startswith("0 "), "the main thread to read")
        crowded = 0
        for number in range(count):
            stops = ["--stop-all"] * (number % 2)
            got = self.run_tool("-p", victim.pid, *stops, "--json", status=(0, 1), free=False)
            node = processes(got.doc).get(victim.pid)
            self.assertIsNotNone(node, got)
            main = [s for t, s in threads(node).values() if t["tid"] == victim.pid]
            self.assertTrue(main and "victim_hold" in functions(main[0]), got)
            if node.get("threads_missed"):
                self.assertEqual(got.status, 1, got)
            crowded += len(threads(node)) >= threads_wanted
        self.assertGreaterEqual(crowded, count * 9 // 10)

    def test_thread_relay(self):
        self.check_mode("relay", 30, 2)

    def test_thread_create_and_join(self):
        self.check_mode("join", 20, 2)

    def test_children_that_come_and_go(self):
        self.check_mode("fork", 20)

    def test_mappings_that_come_and_go(self):
        self.check_mode("maps", 10, 2)

    def test_exec_by_a_thread(self):
        victim = self.victim("churn", "exec", settled=False)
        answered = 0
        for number in range(20):
            stops = ["--stop-all"] * (number % 2)
            got = self.run_tool("-p", victim.pid, *stops, "--json", status=(0, 1, 2), free=False)
            answered += got.status == 0
            self.assertEqual([n["pid"] for n in got.doc["processes"]], [victim.pid], got)
        self.assertGreater(answered, 0)
        wait_until(lambda: status_field(victim.pid, "TracerPid") == "0", "no tracer")


class Killed(Case):
    """Whatever ends the tool, the target runs on."""
    level = "all"

    def rounds(self, number, count, seed, **popen):
        victim = self.victim("threads", "futex:4:worker", "spin:2:busy", "epoll:1:poller", running=2)
        spinners = [t for t in tids_of(victim.pid) if not blocked(victim.pid, t)]
        chance = random.Random(seed)
        hit = 0
        for _ in range(count):
            tool = start_tool("-p", victim.pid, "--stop-all", start_new_session=True, **popen)
            time.sleep(chance.uniform(0, 0.02))  # a moment of the snapshot, whichever
            tool.send_signal(number)
            status = tool.wait(30)
            hit += status < 0
            if status < 0:
                self.assertEqual(-status, number)
            wait_until(lambda: all(proc_state(victim.pid, t) not in ("T", "t")
                                   for t in tids_of(victim.pid)), "nobody stopped", 5)
            wait_until(lambda: all(status_field(victim.pid, "TracerPid", t) == "0"
                                   for t in tids_of(victim.pid)), "nobody traced", 5)
        self.assertGreater(hit, 0)
        before = [cpu_time(victim.pid, t) for t in spinners]
        wait_until(lambda: all(cpu_time(victim.pid, t) > b for t, b in zip(spinners, before)),
                   "the busy threads to go on")

    def test_sigkill(self):
        self.rounds(signal.SIGKILL, 150, 1)

    def test_sigint(self):
        self.rounds(signal.SIGINT, 60, 2)

    def test_sigterm(self):
        self.rounds(signal.SIGTERM, 60, 3)

    def test_sighup(self):
        self.rounds(signal.SIGHUP, 30, 4)

    def test_full_pipe_does_not_hold_the_target(self):
        victim = self.victim("threads", "futex:300:worker:30", "spin:1:busy", running=1)
        tool = start_tool("-p", victim.pid, "--stop-all", "--per-thread", stdout=subprocess.PIPE)
        self.addCleanup(tool.stdout.close)
        wait_until(lambda: "pipe" in (read_file(f"/proc/{tool.pid}/wchan") or "pipe") and
                   proc_state(tool.pid) == "S", "the tool to block on its output")
        self.assert_free(victim.pid)
        tool.stdout.read()
        self.assertEqual(tool.wait(30), 0)

    def test_signal_while_output_blocks(self):
        victim = self.victim("threads", "futex:300:worker:30")
        tool = start_tool("-p", victim.pid, "--stop-all", "--per-thread", stdout=subprocess.PIPE)
        self.addCleanup(tool.stdout.close)
        wait_until(lambda: "pipe" in (read_file(f"/proc/{tool.pid}/wchan") or "pipe") and
                   proc_state(tool.pid) == "S", "the tool to block on its output")
        tool.terminate()
        self.assertEqual(tool.wait(10), -signal.SIGTERM)
        self.assert_free(victim.pid)


class Signals(Case):
    def test_no_queued_signal_is_lost(self):
        wanted = 20000
        victim = self.victim("sigcount", wanted)
        victim.tell()
        runs = 0
        while not victim_line_ready(victim):
            stops = ["--stop-all"] if runs % 2 else []
            self.run_tool("-p", victim.pid, "--no-children", "-q", *stops, status=(0, 1), free=False)
            runs += 1
        words = victim.read_line().split()
        self.assertEqual(words, ["counted", str(wanted), "disorder", "0"])
        self.assertGreater(runs, 0)

    def lost_signals(self, end, *argv):
        """How many signals a target misses while end(tool, tracer) ends the tool, or its tracer, in stops."""
        wanted, ended = 12000, 0
        victim = self.victim("sigcount", wanted, 300)
        victim.tell()
        while not victim_line_ready(victim):
            tool = start_tool("-p", victim.pid, "--stop-all", "--no-children", "-q", *argv)
            while tool.poll() is None and proc_state(victim.pid) != "t":
                pass
            tracer = int(status_field(victim.pid, "TracerPid") or 0)
            if tracer and self.is_made_by(tracer, tool):
                ended += 1
                end(tool, tracer)
            tool.wait(60)
        counted = int(victim.read_line().split()[1])
        self.assertGreater(ended, 0)
        self.assert_free(victim.pid)
        return wanted - counted

    def is_made_by(self, pid, tool):
        """Other tests look at all processes, this one among them."""
        while pid > 1 and pid != tool.pid:
            pid = int(status_field(pid, "PPid") or 0)
        return pid == tool.pid

    def kill_tracer(self, _, tracer):
        with contextlib.suppress(ProcessLookupError):
            os.kill(tracer, signal.SIGKILL)

    def test_none_is_lost_when_the_tracer_is_killed(self):
        self.assertEqual(self.lost_signals(self.kill_tracer), 0)

    def test_none_is_lost_beside_an_exec(self):
        """SEIZE waits for the program that a neighbour executes, while others stand still: tens of milliseconds."""
        chance = random.Random(5)
        neighbours = [self.victim("churn", "hold", settled=False).pid for _ in range(2)]

        def kill_later(tool, tracer):
            time.sleep(chance.uniform(0, 0.03))
            if self.is_made_by(tracer, tool):
                self.kill_tracer(tool, tracer)

        self.assertEqual(self.lost_signals(kill_later, "-p", neighbours[0], "-p", neighbours[1]), 0)

    def test_none_is_lost_when_the_tool_is_ended(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assertEqual(self.lost_signals(lambda tool, _, n=number: tool.send_signal(n)), 0)

    def test_restarted_calls_do_not_come_back(self):
        victim = self.victim("eintr")
        for _ in range(looks(20)):
            self.run_tool("-p", victim.pid, "--stop-all")
            settle(victim.pid)
        victim.tell()
        line = victim.read_line()
        self.assertEqual({w.split("=")[1] for w in line.split()}, {"0"}, line)


def victim_line_ready(victim):
    import select
    return bool(select.select([victim.process.stdout], [], [], 0)[0])
