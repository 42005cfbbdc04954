# SPDX-License-Identifier: LGPL-2.1-or-later
"""Groups, labels and filters on processes with threads made to order."""
import os
import re
import subprocess

from harness import Case, functions, need_root, proc_state, read_file, threads, tids_of, wait_until

MIXED = ("futex:6:worker", "epoll:2:poller:3", "pipe:1:reader", "sleep:3:napper", "sem:1:waiter")


class Groups(Case):
    asan = "all"

    def test_equal_threads_are_one_group(self):
        victim = self.victim("threads", "futex:40:worker:5")
        node = self.node(victim.pid)
        stack = self.stack_of(node, "wait_futex")
        self.assertEqual(stack["count"], 40)
        self.assertEqual({t["name"] for t in stack["threads"]}, {f"worker-{i}" for i in range(40)})
        self.assertEqual(functions(stack).count("walk"), 6)
        self.assertEqual(stack["labels"]["state"], "sleeping")
        self.assertEqual(stack["labels"]["syscall"], "futex")
        self.assertEqual(stack["description"], "worker_main")
        # A label is the group's only if all its threads agree.
        self.assertEqual("cpu" in stack["labels"], len({t["cpu"] for t in stack["threads"]}) == 1)
        self.assertEqual(sorted(threads(node)), tids_of(victim.pid))
        self.assertEqual(node["thread_count"], 41)
        self.assertEqual(node.get("threads_missed", 0), 0)

    def test_text_folds_names_and_tids(self):
        victim = self.victim("threads", "futex:40:worker:5")
        text = self.run_tool("-p", victim.pid).text
        tids = tids_of(victim.pid)[1:]
        self.assertRegex(text, r"40 × worker-\*\s+sleeping in futex")
        if tids == list(range(tids[0], tids[0] + 40)):
            self.assertIn(f"{tids[0]}-{tids[-1]}", text)
        self.assertRegex(text, r"walk × 5")
        self.assertRegex(text.splitlines()[0], r"^stacksnap: .* 1 process, 41 threads, 2 stacks +(stopped \d|one instant, )")

    def test_mixed_groups(self):
        victim = self.victim("threads", *MIXED, "spin:1:busy", running=1)
        node = self.node(victim.pid)
        epoll_wait = "epoll_wait" if os.uname().machine == "x86_64" else "epoll_pwait"
        counts = {"wait_futex": (6, "futex"), "wait_epoll": (2, epoll_wait), "wait_pipe": (1, "read"),
                  "wait_sleep": (3, "clock_nanosleep"), "wait_sem": (1, "futex")}
        for function, (count, call) in counts.items():
            stack = self.stack_of(node, function)
            self.assertEqual(stack["count"], count)
            self.assertEqual({t["syscall"] for t in stack["threads"]}, {call})
        spinning = self.stack_of(node, "spin")
        self.assertEqual(spinning["labels"]["state"], "running")
        self.assertNotIn("syscall", spinning["labels"])
        self.assertEqual(node["stacks"][0]["count"], 6)
        text = self.run_tool("-p", victim.pid).text
        self.assertRegex(text, r"1 × busy\s+RUNNING")

    def test_per_thread(self):
        victim = self.victim("threads", *MIXED)
        node = self.node(victim.pid, "--per-thread")
        self.assertEqual([s["count"] for s in node["stacks"]], [1] * 14)
        self.assertEqual(sorted(threads(node)), tids_of(victim.pid))

    def test_group_by(self):
        victim = self.victim("threads", *MIXED)
        def groups(by):
            return [s["count"] for s in self.node(victim.pid, "--group-by", "process," + by)["stacks"]]
        self.assertEqual(groups("state"), [14])
        self.assertEqual(groups("syscall"), [7, 3, 2, 2])
        self.assertEqual(groups("stack,state"), groups("stack"))
        self.assertEqual(sorted(groups("name")), [1, 1, 1, 2, 3, 6])
        self.assertIn(self.run_tool("-p", victim.pid, "--group-by", "nonsense", status=64).status, (64,))

    def test_filters(self):
        victim = self.victim("threads", *MIXED, "spin:1:busy", running=1)
        path = os.path.join(self.scratch(), "capture")
        node = self.node(victim.pid, "--thread", "^napper", "--save-capture", path)
        self.end_victims()
        def names(*arguments):
            node, = self.json("render", path, *arguments)["processes"]
            self.assertEqual(node["thread_count"], 15)
            return {t["name"] for t, _ in threads(node).values()}
        self.assertEqual({t["name"] for t, _ in threads(node).values()}, {"napper-0", "napper-1", "napper-2"})
        self.assertEqual(names("--thread", "^napper"), {"napper-0", "napper-1", "napper-2"})
        self.assertEqual(names("--match", "wait_(epoll|pipe)"), {"poller-0", "poller-1", "reader"})
        self.assertEqual(names("--state", "running"), {"busy"})
        self.assertNotIn("busy", names("--state", "sleeping"))
        self.assertEqual(len(names("--state", "running,sleeping")), 15)
        self.assertIn("busy", names("--no-idle"))
        self.assertNotIn("poller-0", names("--no-idle"))

    def test_bad_filters_are_usage(self):
        victim = self.victim("chain")
        for arguments in (["--thread", "("], ["--match", "["], ["--state", "tired"], ["--name", "("]):
            got = self.run_tool("-p", victim.pid, *arguments, status=64)
            self.assertTrue(got.err.startswith("stacksnap: "), got)
            self.assertEqual(got.raw, b"")

    def test_summary_is_shorter(self):
        victim = self.victim("threads", *MIXED)
        whole = self.run_tool("-p", victim.pid).text
        short = self.run_tool("-p", victim.pid, "--summary").text
        self.assertLess(len(short.splitlines()), len(whole.splitlines()) / 2)
        self.assertIn("worker-*", short)

    def test_ids_are_stable_across_runs_and_processes(self):
        first = self.victim("threads", *MIXED)
        second = self.victim("threads", *MIXED)
        ids = [sorted(s["id"] for s in self.node(v.pid)["stacks"]) for v in (first, second, first)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(ids[0], ids[2])
        self.assertEqual(len(set(ids[0])), 6)

    def test_many_threads(self):
        victim = self.victim("threads", "futex:1500:worker:20", "epoll:500:poller")
        node = self.node(victim.pid, timeout=120)
        self.assertEqual(sorted(threads(node)), tids_of(victim.pid))
        self.assertEqual(self.stack_of(node, "wait_futex")["count"], 1500)
        self.assertEqual(self.stack_of(node, "wait_epoll")["count"], 500)

    def test_labels_of_threads(self):
        victim = self.victim("threads", "futex:2:worker", "spin:1:busy", running=1)
        for tid, (thread, _) in threads(self.node(victim.pid)).items():
            self.assertEqual(thread["type"], "user")
            self.assertIn("cpu", thread)
            self.assertIn(thread["state"], ("running", "sleeping"))
            self.assertNotIn("ns_tid", {k: v for k, v in thread.items() if v == tid} if
                             thread.get("ns_tid") != tid else {})

    def test_system_and_idle_words(self):
        victim = self.victim("threads", "futex:2:worker")
        stack = self.stack_of(self.node(victim.pid), "wait_futex")
        by_name = {e.get("function"): e for e in stack["entries"]}
        self.assertTrue(by_name["pthread_cond_wait"].get("system") or
                        any(e.get("system") for e in stack["entries"]))
        self.assertNotIn("system", by_name["wait_futex"])
        self.assertTrue(stack["entries"][-1].get("system"), stack["entries"][-1])

    def test_kernel_option(self):
        victim = self.victim("threads", "futex:2:worker")
        node = self.node(victim.pid, "--kernel", status=(0, 1))
        stack = self.stack_of(node, "wait_futex")
        kernel = [e for e in stack["entries"] if e.get("kernel")]
        try:
            with open(f"/proc/{victim.pid}/stack") as f:
                readable = bool(f.read().strip())
        except OSError:
            readable = False
        if readable:
            self.assertTrue(any("futex" in e["function"] for e in kernel), kernel)
            self.assertEqual(stack["entries"][:len(kernel)], kernel)
        else:
            self.assertEqual(kernel, [])

    def test_kernel_thread(self):
        need_root()
        if read_file("/proc/2/comm") != "kthreadd\n" or not read_file("/proc/2/stack").strip():
            self.skipTest("kernel: no stacks of kernel threads are seen here")
        text = self.run_tool("-p", "2", status=2).text
        # One in D stands below, as those of RCU may for a moment.
        self.assertRegex(text, r"\nkthreadd\[2\]  \(\d+ kernel threads\)\n")
        node = self.json("-p", "2", "--no-children", "--kernel")["processes"][0]
        self.assertNotIn("error", node)
        self.assertEqual([(s["unwind"], s["entries"][0]["function"]) for s in node["stacks"]], [("complete", "kthreadd")])

    def test_group_stopped_state_filter(self):
        import os, signal
        victim = self.victim("threads", "futex:2:worker")
        os.kill(victim.pid, signal.SIGSTOP)
        wait_until(lambda: all(proc_state(victim.pid, t) == "T" for t in tids_of(victim.pid)), "T")
        node = self.node(victim.pid, "--state", "stopped", stopped=True)
        self.assertEqual({t["state"] for t, _ in threads(node).values()}, {"stopped"})
        self.assertEqual(node["state"], "stopped")
