# SPDX-License-Identifier: LGPL-2.1-or-later
"""--watch: what is told, when it is over, what is kept, and that a look disturbs nobody."""
import json
import os
import re
import selectors
import signal
import subprocess
import sys

from harness import BUILD, SOURCE, Case, TOOL, clean_environment, note_options, status_field, tids_of, wait_until


class Watch:
    """A running watch; its alerts come by line()."""

    def __init__(self, case, *argv, tool=TOOL):
        argv = [str(a) for a in argv]
        note_options(argv)
        self.process = subprocess.Popen([tool, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=clean_environment())
        self.unread = b""
        case.addCleanup(self.close)

    def begun(self, victim):
        """It has looked: it keeps files of the victim's threads open."""
        def links():
            folder = f"/proc/{self.process.pid}/fd"
            return [os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)]

        def looked():
            try:
                return any(re.search(rf"/{victim.pid}/task/\d+/", link) for link in links())
            except FileNotFoundError:
                return False
        wait_until(looked, "the first look")

    def line(self, seconds=60):
        """Several may come at once: a file object would keep the others where select() does not see them."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.unread:
                if not selector.select(seconds):
                    raise AssertionError("no alert")
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    break
                self.unread += more
        line, newline, self.unread = self.unread.partition(b"\n")
        return (line + newline).decode()

    def alert(self, word):
        """The next alert of a kind."""
        while True:
            text = self.line()
            if not text:
                raise AssertionError(f"the watch ended: {self.process.stderr.read()!r}")
            alert = json.loads(text)
            if alert["alert"] == word:
                return alert

    def end(self, signal_number=signal.SIGINT):
        self.process.send_signal(signal_number)
        self.process.wait(60)
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


# Begins threads until its input is closed, or there are as many as anybody asks for.
GROWS = """
import os, sys, threading, time
print('ready', os.getpid(), flush=True)
sys.stdin.readline()
for _ in range(900):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    time.sleep(0.05)
sys.stdin.read()
os._exit(0)
"""


def documented_keys():
    """Of alerts, as stacksnap-json(5) lists them."""
    with open(os.path.join(SOURCE, "man", "stacksnap-json.5.scd"), encoding="utf-8") as file:
        section = re.search(r"(?ms)^# ALERT$(.*?)^# ", file.read()).group(1)
    return {key for line in re.findall(r"(?m)^\|  (.*)$", section) for key in line.split(", ")}


class Alerts(Case):
    asan = "both"

    def waits(self, name, *modes):
        return self.program([os.path.join(BUILD, "tests", "waits", "waits_" + name), *modes])

    def deadlock(self):
        return self.waits("dead", "two")

    def test_deadlock_is_told_once(self):
        victim = self.deadlock()
        watch = Watch(self, "--watch=deadlock", "--every", "0.1", "--json", "-p", victim.pid)
        alert = watch.alert("deadlock")
        self.assertEqual(alert["schema"], "stacksnap.alert")
        self.assertEqual(alert["state"], "raised")
        self.assertEqual(alert["pid"], victim.pid)
        self.assertEqual(len(alert["threads"]), 2)
        self.assertTrue(set(alert["threads"]) <= set(tids_of(victim.pid)))
        self.assertEqual(watch.end(), 0)
        self.assertEqual(watch.process.stdout.read(), b"")
        self.assert_free(victim.pid)

    def test_a_number_that_is_used_again(self):
        """Whichever process has it by then is not watched: the watch ends as its target has."""
        victim = self.victim("reuse")
        watch = Watch(self, "--watch=stuck for 1s", "--every", "0.1", "--json", "-p", victim.pid)
        watch.begun(victim)
        victim.tell()
        self.assertEqual(victim.read_line(), "again\n")
        self.assertEqual(watch.process.wait(60), 0)
        self.assertNotIn(b"other", watch.process.stdout.read())

    def test_once_is_a_health_check(self):
        victim = self.deadlock()
        got = self.run_tool("--watch=deadlock", "--once", "-p", victim.pid, status=1)
        self.assertRegex(got.text, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ deadlock \w+ \d+: \d+, \d+ wait for each other, the first waits for ")
        healthy = self.victim("threads", "futex:3:worker")
        got = self.run_tool("--watch", "--once", "-p", healthy.pid)
        self.assertEqual(got.text, "")

    def test_busy_lock_holds_nobody_up(self):
        """Each look finds waiters, and somebody who has the lock; but it moves all the time."""
        victim = self.victim("convoy", 50, 20000, settled=False)
        clock = self.victim("convoy", 3, 3600 * 10 ** 6)
        watch = Watch(self, "--watch=blocked>=3 for 3s,stuck for 8s", "--every", "0.1", "--json", "-p", victim.pid,
                      "-p", clock.pid)
        # Long enough for several alerts, as the watch itself tells.
        alert = json.loads(watch.line())
        self.assertEqual((alert["alert"], alert["pid"]), ("stuck", clock.pid))

    def test_who_has_a_lock_for_long_holds_up_others(self):
        victim = self.victim("convoy", 50, 3600 * 10 ** 6)
        watch = Watch(self, "--watch=blocked>=3 for 1s", "--every", "0.1", "--json", "-p", victim.pid)
        alert = watch.alert("blocked")
        self.assertEqual((alert["state"], alert["count"]), ("raised", 49))
        self.assertEqual((alert["held"]["kind"], alert["held"]["symbol"]), ("mutex", "busy"))
        self.assertEqual(alert["function"], "take")
        text = Watch(self, "--watch=blocked>=3 for 1s", "--every", "0.1", "-p", victim.pid)
        self.assertIn(" holds up 49 threads with mutex busy, sleeps", text.line())

    def test_spinning_ends(self):
        victim = self.victim("threads", "spin:1:busy", running=1)
        watch = Watch(self, "--watch=spinning>=2% for 300ms", "--every", "0.1", "--json", "-p", victim.pid)
        alert = watch.alert("spinning")
        self.assertEqual(alert["pid"], victim.pid)
        self.assertGreaterEqual(alert["count"], 2)
        self.assertIn("entries", alert["stack"])
        os.kill(victim.pid, signal.SIGSTOP)
        over = watch.alert("spinning")
        self.assertEqual((over["state"], over["threads"]), ("over", alert["threads"]))
        self.assertNotIn("stack", over)

    def test_what_was_sent_and_nobody_reads(self):
        victim = self.waits("peers", "tcp")
        watch = Watch(self, "--watch=peer for 300ms", "--every", "0.1", "--json", "-p", victim.pid)
        alert = watch.alert("peer")
        self.assertEqual((alert["state"], alert["pid"], alert["wait"]["kind"]), ("raised", victim.pid, "tcp"))
        self.assertTrue(alert["wait"].get("send_queue", 0) > 0 or alert["wait"]["state"] == "syn_sent", alert)

    def test_who_does_not_come_back_from_the_kernel(self):
        victim = self.waits("calls", "vfork")
        watch = Watch(self, "--watch=disk for 300ms", "--every", "0.1", "--json", "-p", victim.pid)
        alert = watch.alert("disk")
        self.assertEqual((alert["state"], alert["pid"], len(alert["threads"])), ("raised", victim.pid, 1))
        self.assertEqual(alert["wait"]["kind"], "vfork")

    def test_threads_that_become_ever_more(self):
        victim = self.program([sys.executable, "-c", GROWS], settled=False)
        # On a busy machine it may get no processor for a while, and there must be more of them at each check.
        watch = Watch(self, "--watch=growth>=5%", "--every", "0.6", "--json", "-p", victim.pid)
        watch.begun(victim)
        victim.tell()
        alert = watch.alert("growth")
        self.assertEqual((alert["state"], alert["pid"]), ("raised", victim.pid))
        self.assertGreaterEqual(100 * alert["count"], 105 * alert["before"])

    def test_keys_are_those_of_the_manual(self):
        victims = [self.deadlock(), self.waits("peers", "tcp"), self.victim("convoy", 5, 3600 * 10 ** 6)]
        watch = Watch(self, "--watch=deadlock,peer for 300ms,blocked>=3 for 300ms", "--every", "0.1", "--json",
                      *(word for victim in victims for word in ("-p", victim.pid)))
        seen, keys = set(), set()
        while seen != {"deadlock", "peer", "blocked"}:
            alert = json.loads(watch.line())
            seen.add(alert["alert"])
            keys |= set(alert)
        self.assertEqual(keys - documented_keys(), set())
        self.assertLessEqual({"wait", "held", "function", "stack", "deadlock"}, keys)

    def test_snapshots_are_apart(self):
        """Two alerts of one look: one snapshot shows both, and the next one may be written half a minute later."""
        victims = [self.deadlock(), self.deadlock()]
        folder = self.scratch()
        watch = Watch(self, "--watch=deadlock", "--every", "0.1", "--json", "-o", os.path.join(folder, "stall-%N.json"),
                      *(word for victim in victims for word in ("-p", victim.pid)))
        times = [watch.alert("deadlock")["time"] for _ in victims]
        self.assertEqual(watch.end(), 0)
        written = re.findall(r"written to \S+", watch.process.stderr.read().decode())
        if times[0][:17] == times[1][:17] and int(times[1][17:19]) - int(times[0][17:19]) < 29:
            self.assertEqual(os.listdir(folder), ["stall-1.json"])
            self.assertEqual(len(written), 1)

    def test_snapshot_is_kept(self):
        victim = self.deadlock()
        folder = self.scratch()
        watch = Watch(self, "--watch=deadlock", "--every", "0.1", "-o", os.path.join(folder, "stall-%N.json"),
                      "-p", victim.pid)
        self.assertIn(" deadlock ", watch.line())
        path = os.path.join(folder, "stall-1.json")
        wait_until(lambda: os.path.exists(path), "the snapshot of the alert")
        with open(path, encoding="utf-8") as f:
            doc = json.load(f)
        self.assertEqual(len(doc["deadlocks"]), 1)
        self.assertEqual(watch.end(signal.SIGTERM), 0)

    def test_end_of_the_target_is_the_end(self):
        victim = self.victim("threads", "sleep:2:worker")
        watch = Watch(self, "--watch", "--every", "0.05", "-p", victim.pid)
        watch.begun(victim)
        victim.close()
        self.assertEqual(watch.process.wait(60), 0)

    def test_reader_who_goes_away_is_no_failure(self):
        victim = self.deadlock()
        watch = Watch(self, "--watch=deadlock", "--every", "0.1", "-p", victim.pid)
        watch.process.stdout.close()
        watch.process.stdout = open(os.devnull, "rb")
        self.assertEqual(watch.process.wait(60), 0)

    def test_what_makes_no_sense(self):
        for argv in (["--watch=nonsense"], ["--watch", "-f", "pprof"], ["--watch", "-o", "-"], ["--watch=stuck>=3"],
                     ["--watch", "--every", "0"]):
            got = self.run_tool(*argv, "-p", os.getpid(), status=64)
            self.assertNotEqual(got.err, "")
        self.run_tool("--watch", "-p", 2 ** 22 - 1, status=2)


class Quiet(Case):
    def test_threads_at_rest_do_not_run(self):
        """A stop would count as a switch of the thread; a look does not."""
        victim = self.victim("threads", "futex:20:worker")

        def switches():
            return {tid: (status_field(victim.pid, "voluntary_ctxt_switches", tid),
                          status_field(victim.pid, "nonvoluntary_ctxt_switches", tid)) for tid in tids_of(victim.pid)}

        before = switches()
        watch = Watch(self, "--watch", "--every", "0.02", "-p", victim.pid)
        watch.begun(victim)
        looks = status_field(watch.process.pid, "voluntary_ctxt_switches")
        wait_until(lambda: int(status_field(watch.process.pid, "voluntary_ctxt_switches")) > int(looks) + 50,
                   "fifty looks")
        self.assertEqual(watch.end(), 0)
        self.assertEqual(switches(), before)
