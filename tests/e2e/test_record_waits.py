# SPDX-License-Identifier: LGPL-2.1-or-later
"""What recordings say of waits: for what threads waited, for how long, and who had it meanwhile. Programs know
that of themselves (tests/waits); lengths are given as time, but what is compared is what they measured."""
import json
import os
import re
import signal
import socket

from harness import BUILD, SOURCE, build_once, need, read_file, wait_until
from test_record import Recorder

PROGRAMS = os.path.join(BUILD, "tests", "waits")
SECONDS = "3"
TOLERANCE = 0.15  # of shares: a busy machine misses ticks, and not evenly


def rows_of(doc, **wanted):
    return [row for row in doc.get("time_by_wait", ())
            if all(row.get(key) == value for key, value in wanted.items())]


def lock_rows(doc):
    """By name of the lock."""
    return {row["object"].split()[-1]: row for row in rows_of(doc, kind="mutex")}


def function_of(holder):
    return holder.get("function", "").split("(")[0]


class Waits(Recorder):
    def built(self, name, *arguments):
        path = os.path.join(PROGRAMS, "waits_" + name)
        if not os.path.exists(path):
            self.skipTest("built without sanitizers alone")
        return self.program([path, *arguments], settled=False)

    def document(self, victim, *arguments, status=0):
        got = self.run_tool("record", "-j", "-p", victim.pid, *arguments, status=status)
        return got.doc


class Schedule(Waits):
    """Threads that wait for 70, 20 and 10 % of their time behind three locks."""
    locks = ["ledger_lock", "journal_lock", "cache_lock"]

    def truth(self, victim):
        victim.tell("\n")
        return {lock["lock"]: lock for lock in json.loads(victim.read_line())}

    def measure(self, victim, record):
        """What record() returns, and what the program measured meanwhile."""
        before = self.truth(victim)
        got = record()
        after = self.truth(victim)
        waited = {name: after[name]["waited_ns"] - before[name]["waited_ns"] for name in after}
        held = {}
        for name in after:
            of = held[name] = {}
            for old, new in zip(before[name]["held_by"], after[name]["held_by"]):
                of[new["function"]] = of.get(new["function"], 0) + new["ns"] - old["ns"]
        return got, waited, held

    def judge(self, doc, waited, held):
        rows = lock_rows(doc)
        self.assertEqual(set(rows), set(self.locks), doc.get("time_by_wait"))
        told = [row["object"].split()[-1] for row in rows_of(doc, kind="mutex")]
        self.assertEqual(told, self.locks, "they are not in the order of their times")
        all_told, all_waited = sum(row["total_ns"] for row in rows.values()), sum(waited.values())
        for name, row in rows.items():
            self.assertAlmostEqual(row["total_ns"] / all_told, waited[name] / all_waited, delta=TOLERANCE, msg=row)
            self.assertIn(row["threads"], (2, 3), row)  # on a busy machine it is late, and its keeper waits, too
            self.assertNotIn("idle", row)
            most = max(held[name], key=held[name].get)
            self.assertEqual(function_of(row["holders"][0]), most, row)
            self.assertLess(row.get("unknown_ns", 0), row["total_ns"] / 2, row)
            self.assertEqual({holder["pid"] for holder in row["holders"]}, {doc["processes"][0]["pid"]})
        # the lock that two have in turn
        functions = {function_of(holder): holder["ns"] for holder in rows[self.locks[0]]["holders"]}
        for function, ns in held[self.locks[0]].items():
            if ns > sum(held[self.locks[0]].values()) / 10:
                self.assertIn(function, functions)
                self.assertAlmostEqual(functions[function] / rows[self.locks[0]]["total_ns"],
                                       ns / waited[self.locks[0]], delta=2 * TOLERANCE, msg=rows[self.locks[0]])

    def test_locks_and_holders(self):
        victim = self.built("schedule")
        self.judge(*self.measure(victim, lambda: self.document(victim, "-d", SECONDS)))

    def test_mutexes_of_cpp(self):
        need("g++")
        folder = os.path.join(SOURCE, "tests", "waits")
        path = build_once("waits_schedule_cpp", ["g++", "-std=c++17", "-O1", "-g", "-D_GNU_SOURCE", "-pthread",
                                                 os.path.join(folder, "schedule.cc"), "-o", "{out}"])
        victim = self.program([path], settled=False)
        self.judge(*self.measure(victim, lambda: self.document(victim, "-d", SECONDS)))

    def test_file_that_is_rendered_later(self):
        victim = self.built("schedule")
        path = os.path.join(self.scratch(), "a.snaprec")
        _, waited, held = self.measure(victim, lambda: self.run_tool("record", "-p", victim.pid, "-d", SECONDS,
                                                                     "-o", path))
        victim.close()
        self.judge(self.run_tool("render", "-j", path, free=False).doc, waited, held)
        # a part of it has a part of the time, and shares of the same kind
        doc = self.run_tool("render", "-j", path, "--from", "1s", "--to", "2500ms", free=False).doc
        self.judge(doc, waited, held)
        self.assertLess(lock_rows(doc)["ledger_lock"]["total_ns"], 1.6e9 * 2)
        text = self.run_tool("render", path, free=False).text
        self.assertRegex(text, r"(?s)time by wait\n.*mutex ledger_lock\n.*\(in post_ledger\)\n.*mutex journal_lock\n")
        # Written again it says the same.
        again = os.path.join(self.scratch(), "b.snaprec")
        self.run_tool("render", path, "-o", again, free=False)
        whole, other = (self.run_tool("render", "-j", p, free=False).doc["time_by_wait"] for p in (path, again))
        self.assertEqual([(row["object"], row["samples"]) for row in whole],
                         [(row["object"], row["samples"]) for row in other])
        text = self.run_tool("render", path, "--no-explain", free=False).text
        self.assertNotIn("time by wait", text)

    def test_ring(self):
        victim = self.built("schedule")
        path = os.path.join(self.scratch(), "a.snaprec")
        _, waited, held = self.measure(victim, lambda: self.run_tool("record", "-p", victim.pid, "-d", "5", "--ring", "2s",
                                                                     "-o", path))
        doc = self.run_tool("render", "-j", path, free=False).doc
        self.judge(doc, waited, held)
        self.assertLess(lock_rows(doc)["ledger_lock"]["total_ns"], 2.2e9 * 2)

    def let_it_look(self, running):
        """Some ticks: it sleeps between two of them."""
        def sleeps():
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", read_file(f"/proc/{running.pid}/status"), re.M)[1])
        begun = sleeps()
        wait_until(lambda: sleeps() > begun + 50, "the recorder to look")

    def test_missed_ticks(self):
        """The recorder gets no processor: who sleeps on waited all the time, of others nobody knows."""
        victim = self.built("schedule")
        still = self.victim("threads", "futex:2:worker:5")
        running = self.start("-j", "-p", victim.pid, "-p", still.pid, "-d", "0")
        self.let_it_look(running)
        begun = sum(lock["waited_ns"] for lock in self.truth(victim).values())
        running.send(signal.SIGSTOP)
        wait_until(lambda: sum(lock["waited_ns"] for lock in self.truth(victim).values()) - begun > 1e9,
                   "its threads to wait")
        running.send(signal.SIGCONT)
        self.let_it_look(running)
        doc = json.loads(self.finish(running, status=(0, 1)).raw)  # names may be missing, as it was told to end
        recording, period = doc["recording"], doc["period_ns"]
        self.assertGreater(recording["ticks_missed"], 10)
        self.assertGreater(doc["missed_ns"], 10 * period, "of threads that ran meanwhile")
        rows = rows_of(doc, pid=still.pid)
        self.assertTrue(rows, doc["time_by_wait"])
        for row in rows:
            self.assertGreater(row["total_ns"], (row["samples"] + 10) * period, row)
            self.assertEqual(row["total_ns"], row["longest_ns"] * row["threads"], row)

    def test_nothing_without_explanations(self):
        victim = self.built("schedule")
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "1", "--no-explain", "-o", path)
        got = self.run_tool("render", "-j", path, free=False)
        for word in ("time_by_wait", '"waits"', "wait_number", "ledger_lock"):
            self.assertNotIn(word, got.text)
        self.assertNotIn("time by wait", self.run_tool("render", path, free=False).text)


class Kinds(Waits):
    """One of each: between processes, and with the kernel."""

    def test_mutex_of_two_processes(self):
        victim = self.built("locks", "shared")
        truths = [json.loads(victim.process.stdout.readline()) for _ in range(victim["truth"])]
        wanted = [truth for truth in truths if truth.get("kind") == "mutex" and truth.get("owner")]
        self.assertTrue(wanted, truths)
        doc = self.document(victim, "-d", "1")
        rows = rows_of(doc, kind="mutex")
        for truth in wanted:
            holders = [holder for row in rows for holder in row.get("holders", ())]
            self.assertIn(truth["owner"], [holder.get("tid") for holder in holders], rows)

    def test_a_join_is_idle(self):
        """Whoever waits for the end of a thread holds up nothing, and no other thread owes it anything."""
        victim = self.built("objects", "join")
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "1", "-o", path)
        rows = rows_of(self.run_tool("render", "-j", path, free=False).doc, kind="thread")
        self.assertTrue(rows)
        self.assertEqual({row.get("idle") for row in rows}, {True}, rows)
        self.assertRegex(self.run_tool("render", path, free=False).text, r"(?m)^ +idle .*\bthread\n.* for the end of \d+")

    def test_a_lock_that_a_program_of_python_takes_is_not_idle(self):
        """That of a queue is, as it is the queue that takes it."""
        victim = self.program(["/usr/bin/python3", "-c", TAKEN], settled=False)
        wait_until(lambda: victim_waits(victim.pid, 3), "its threads to wait")
        rows = rows_of(self.document(victim, "-d", "1"), kind="semaphore")
        self.assertEqual({row["threads"]: row.get("idle") for row in rows}, {2: None, 1: True}, rows)

    def test_slow_peer(self):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        victim = self.program(["python3", "-c", PEER, str(port)], settled=False)
        peer, _ = listener.accept()
        self.addCleanup(peer.close)
        wait_until(lambda: victim_waits(victim.pid, 3), "its threads to wait")
        doc = self.document(victim, "-d", "1")
        tcp, pipe, sleep = (rows_of(doc, kind=kind) for kind in ("tcp", "pipe", "sleep"))
        self.assertEqual(len(tcp), 1, doc["time_by_wait"])
        self.assertIn(f"127.0.0.1:{port}", tcp[0]["object"])
        self.assertEqual([row["threads"] for row in pipe], [1, 1], "its own pipe, and standard input")
        self.assertEqual([row.get("idle") for row in sleep], [True])
        for row in (*tcp, *pipe, *sleep):
            self.assertGreaterEqual(row["samples"], doc["tick_count"] / 2, row)
        wait = {of["number"]: of["wait"] for of in doc["waits"]}[tcp[0]["wait_number"]]
        self.assertEqual(wait["remote"], f"127.0.0.1:{port}")
        self.assertEqual(wait["mode"], "read")
        # each thread that waits says for what
        numbers = {stack.get("wait_number") for process in doc["processes"] for stack in process["stacks"]}
        self.assertTrue({row["wait_number"] for row in (*tcp, *pipe, *sleep)} <= numbers, numbers)

    def test_program_that_becomes_another_and_one_that_ends(self):
        victim = self.program(["python3", "-c", LIVES], settled=False)
        running = self.start("-j", "-p", victim.pid, "-d", "0")
        for line in ("exec", "end"):
            victim.tell(line + "\n")
            self.assertEqual(victim.read_line(), f"did {line}\n")
        got = self.finish(running, status=(0, 1))  # names may be missing, as it was told to end
        doc = json.loads(got.raw)
        pipes = rows_of(doc, kind="pipe")
        self.assertTrue(pipes, doc["time_by_wait"])
        execed = [process for process in doc["processes"] if process.get("execed")]
        self.assertEqual(len(execed), 1)
        # what it waited for before belongs to it, and is there under its number
        numbers = {stack.get("wait_number") for stack in execed[0]["stacks"]}
        self.assertTrue(numbers & {of["number"] for of in doc["waits"]})


class Ends(Waits):
    """Who has the other end of what others wait with: programs of which each process is in one function."""

    def holder_of(self, mode, kind):
        """The row of who waits, and who had that for most of the time."""
        victim = self.built("flow", mode)
        doc = self.document(victim, "-d", "2")
        rows = rows_of(doc, kind=kind, pid=victim["waiter"])
        self.assertEqual(len(rows), 1, doc.get("time_by_wait"))
        row = rows[0]
        self.assertNotIn("idle", row)
        # Where it could not be stopped once it is there without a function, as another holder.
        self.assertEqual({holder["pid"] for holder in row.get("holders", ())}, {victim["holder"]}, row)
        return row["holders"][0], row, victim

    def judge(self, mode, kind):
        holder, row, victim = self.holder_of(mode, kind)
        self.assertEqual(function_of(holder), "work_slowly", row)
        self.assertEqual(holder["tid"], victim["holder"], row)
        unresponsive_ns = sum(holder["ns"] for holder in row["holders"])
        self.assertEqual(unresponsive_ns + row.get("unknown_ns", 0), row["total_ns"], row)

    def test_pipe_to_read(self):
        self.judge("pipe", "pipe")

    def test_pipe_to_write(self):
        self.judge("full", "pipe")

    def test_unix(self):
        self.judge("unix", "unix")

    def test_tcp(self):
        self.judge("tcp", "tcp")

    def test_child(self):
        self.judge("child", "child")

    def test_any_child(self):
        self.judge("any", "child")

    def test_flock(self):
        self.judge("flock:" + os.path.join(self.scratch(), "file"), "file_lock")

    def test_fcntl(self):
        self.judge("fcntl:" + os.path.join(self.scratch(), "file"), "file_lock")

    def test_process_of_several_threads(self):
        """Any of them may act, so no function is told."""
        holder, row, _ = self.holder_of("threads", "pipe")
        self.assertNotIn("function", holder, row)

    def test_several_processes(self):
        """Any of them may act, so none is told."""
        victim = self.built("flow", "several")
        rows = rows_of(self.document(victim, "-d", "1"), kind="pipe", pid=victim["waiter"])
        self.assertEqual([row.get("holders") for row in rows], [None])

    def test_file_that_is_rendered_later(self):
        victim = self.built("flow", "pipe")
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "2", "-o", path)
        victim.close()
        doc = self.run_tool("render", "-j", path, free=False).doc
        row, = rows_of(doc, kind="pipe", pid=victim["waiter"])
        self.assertEqual(function_of(row["holders"][0]), "work_slowly")
        text = self.run_tool("render", path, free=False).text
        self.assertRegex(text, rf"{victim['holder']}.*\(in work_slowly\)")
        # Written again it says the same.
        again = os.path.join(self.scratch(), "b.snaprec")
        self.run_tool("render", path, "-o", again, free=False)
        other, = rows_of(self.run_tool("render", "-j", again, free=False).doc, kind="pipe", pid=victim["waiter"])
        self.assertEqual(other["holders"], row["holders"])


def victim_waits(pid, count):
    """So many threads sleep."""
    asleep = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8", errors="replace") as stat:
            asleep += stat.read().rsplit(")", 1)[1].split()[0] == "S"
    return asleep >= count


PEER = """
import os, socket, sys, threading, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
pipe = os.pipe()
threading.Thread(target=lambda: peer.recv(1), daemon=True).start()
threading.Thread(target=lambda: os.read(pipe[0], 1), daemon=True).start()
threading.Thread(target=lambda: time.sleep(3000), daemon=True).start()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
"""

# Two threads wait for a lock, and one for work.
TAKEN = """
import os, queue, sys, threading
lock = threading.Lock()
def held():
    with lock: pass
lock.acquire()
for target in (held, held, queue.Queue().get): threading.Thread(target=target, daemon=True).start()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
"""

# A child that waits in a pipe and ends when told, and a process that becomes another program.
LIVES = """
import os, sys
if len(sys.argv) == 1:
    ends = os.pipe()
    for fd in ends:
        os.set_inheritable(fd, True)
    child = os.fork()
    if child == 0:
        os.close(ends[1])
        os.read(ends[0], 1)
        os._exit(0)
    os.close(ends[0])
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    code = open("/proc/self/cmdline").read().split("\\0")[2]
    os.execv(sys.executable, [sys.executable, "-c", code, str(ends[1]), str(child)])
print("did exec", flush=True)
sys.stdin.readline()
os.close(int(sys.argv[1]))
os.waitpid(int(sys.argv[2]), 0)
print("did end", flush=True)
sys.stdin.readline()
"""
