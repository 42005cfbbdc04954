# SPDX-License-Identifier: LGPL-2.1-or-later
"""A filter chooses what is shown and changes nothing of it: random filters on real programs, in three ways. The run
itself, its capture and its JSON document print the same text, and what is shown is a part of what is shown without
filters, in the same words. STACKSNAP_FILTERS=500 tries so many filters on each program, one in ten with -n as well."""
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys

from harness import Case, need, settle, wait_until, walk
from test_runtime_go import build
from waits import program, program_of

TRIES = int(os.environ.get("STACKSNAP_FILTERS", "2"))
SEED = int(os.environ.get("STACKSNAP_SEED", "1"))

# An option, its values, and how often it is there. Filters choose; a view orders and words.
FILTERS = [("--thread", ["a", "worker", "^m", "[0-9]", "cat", "zzz"], 0.3),
           ("--match", ["read", "wait", "poll", "main", "^clone", "nomatch"], 0.3),
           ("--state", ["sleeping", "running", "running,disk", "R,S"], 0.3),
           ("--no-idle", None, 0.4), ("--no-system", None, 0.3)]
VIEWS = [("--group-by", ["stack", "process,state", "name", "wait", "process,state,wait"], 0.25), ("--flat", None, 0.3),
         ("--explain", None, 0.2), ("--deadlocks", None, 0.2), ("--summary", None, 0.2)]

PYTHON = """
import queue, threading, time
lock, jobs = threading.Lock(), queue.Queue()
def work():
    jobs.get()
def held():
    with lock: time.sleep(600)
for target in (work, work, held, held): threading.Thread(target=target).start()
print("ready", __import__("os").getpid(), flush=True)
"""
SLEEPS = """
import os, threading, time
def asleep(): time.sleep(600)
threading.Thread(target=asleep).start()
print("ready", os.getpid(), flush=True)
"""
ANSWERS = """
import concurrent.futures, os, queue, socket, threading
work, full, turn, end = queue.Queue(), queue.Queue(1), threading.Semaphore(0), os.pipe()
def for_work(): work.get()
def for_room(): full.put(1); full.put(2)
def for_turn(): turn.acquire()
def for_reply():
    ends = socket.socketpair()
    ends[0].settimeout(600)
    ends[0].makefile("rb").read(1)
def for_result(): concurrent.futures.Future().result()
class Full(threading.Thread):
    def run(self):
        while True: os.write(end[1], bytes(1 << 20))
for target in (for_work, for_room, for_turn, for_reply, for_result): threading.Thread(target=target).start()
Full().start()
print("ready", os.getpid(), flush=True)
"""
NODE = "setInterval(() => 0, 1e6); require('fs').readFile('/dev/stdin', () => 0); console.log('ready ' + process.pid)"
JAVA = """
public class Held {
    public static void main(String[] arguments) throws Exception {
        Object lock = new Object();
        for (int i = 0; i < 3; i++)
            new Thread(() -> { synchronized (lock) { try { Thread.sleep(600000); } catch (Exception e) { } } }).start();
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
    }
}
"""
PHP = "echo 'ready ', getmypid(), \"\\n\"; sleep(600);"
PERL = "$| = 1; print \"ready $$\\n\"; fork(); sleep 600;"
# Programs of Debian that wait by themselves; `{}` is a folder of the test.
SERVERS = {
    "redis-server": "--port 0 --unixsocket {}/sock --dir {} --io-threads 3",
    "tmux": "-D -S {}/sock -f /dev/null",
    "dbus-daemon": "--session --nofork --nopidfile --address=unix:path={}/sock",
    "gdb": "-nx -q --interpreter=mi",
    "script": "-qc sleep\ 600 {}/typescript",
    "strace": "-f -o {}/trace sleep 600",
    "perl": "-e fork();sleep(600)",
    "bash": "-c sleep\ 777|cat",
}
VICTIMS = [("threads", "futex:3:held", "sleep:2:asleep", "epoll:2:served", "spin:1:busy", "pipe:1:piped", "sem:2:sem"),
           ("convoy", 6, 500), ("family",), ("recursion", 3, 60), ("inlined",)]


def chosen(options, dice):
    found = []
    for name, values, share in options:
        if dice.random() < share:
            found += [name] if values is None else [name, dice.choice(values)]
    return found


def words_of(text):
    """What a text says of frames and waits: its lines below a group's first, without the tree and without columns."""
    found, inside = set(), False
    for line in text.splitlines():
        plain = re.sub(r"\s+", " ", line.lstrip("│├└─ ")).strip()
        if re.match(r"\d+ × ", plain):
            inside = True
        elif not plain or re.search(r"[├└]─", line) or not line.startswith(("│", " ")):
            inside = False
        elif inside:
            found.add(plain)
    return found


def without_groups(wait):
    """A wait without the ids of groups, which are there for groups that are shown."""
    if isinstance(wait, dict):
        return {key: without_groups(value) for key, value in wait.items() if key != "stack"}
    return [without_groups(value) for value in wait] if isinstance(wait, list) else wait


def stacks_by_tid(doc):
    return {thread["tid"]: (stack["entries"], without_groups(thread.get("wait")), thread.get("state"))
            for node in walk(doc["processes"]) for stack in node.get("stacks", [])
            for thread in stack.get("threads", [])}


class Filters(Case):
    level = "all"

    def text(self, *argv):
        got = self.run_tool(*argv, status=(0, 1, 2, 3), free=False, timeout=120)
        return got.status, got.raw.decode()

    def assert_part(self, part, whole, filters, what):
        """Frames may be left out of a stack by --no-system alone, and then in their order."""
        whole, part = stacks_by_tid(json.loads(whole)), stacks_by_tid(json.loads(part))
        for tid, (entries, wait, state) in part.items():
            all_entries, all_wait, all_state = whole[tid]
            self.assertEqual((wait, state), (all_wait, all_state), what)
            rest = iter(all_entries)
            self.assertTrue(all(entry in rest for entry in entries), (tid, what))
            if "--no-system" not in filters:
                self.assertEqual(len(entries), len(all_entries), (tid, what))

    def assert_same_threads(self, capture, filters, what):
        """Frames that -n does not show are there for filters."""
        shown, cut = ({tid: wait for tid, (_, *wait) in stacks_by_tid(json.loads(text)).items()} for text in
                      (self.text("render", capture, "--json", *filters, *few)[1] for few in ((), ("-n", "1"))))
        self.assertEqual(cut, shown, "-n 1 of " + what)

    def assert_cut_document(self, capture, filters, views, what):
        """Which threads are idle was found before -n cut their stacks; frames that are gone match nothing."""
        if "--match" in filters:
            return
        document = os.path.join(os.path.dirname(capture), "cut.json")
        explain = [view for view in views if view == "--explain"]
        with open(document, "w", encoding="utf-8") as file:
            file.write(self.text("render", capture, "--json", "-n", "2", *explain)[1])
        self.assertEqual(self.text("render", document, *filters, *views),
                         self.text("render", capture, "-n", "2", *filters, *views), "JSON with -n 2 of " + what)

    def try_filters(self, pid, dice, tasks, cuts):
        folder = self.scratch()
        capture, json_file = os.path.join(folder, "a.capture"), os.path.join(folder, "a.json")
        # Which folders are left out of source paths depends on all that is shown: they are not.
        # Tasks of a document keep their groups.
        filters, views = chosen(FILTERS, dice), ["--full-names", *chosen(VIEWS[1:] if tasks else VIEWS, dice)]
        what = f"process {pid}: {' '.join(filters + views)}"
        live = self.text("-p", pid, *filters, *views, "--save-capture", capture)
        self.assertEqual(self.text("render", capture, *filters, *views), live, "capture of " + what)
        if cuts:
            self.assert_same_threads(capture, filters, what)
            self.assert_cut_document(capture, filters, views, what)
        # Hints are there only where they were asked for.
        explain = [view for view in views if view == "--explain"]
        whole = self.text("render", capture, "--json", *explain)[1]
        with open(json_file, "w", encoding="utf-8") as file:
            file.write(whole)
        self.assertEqual(self.text("render", json_file, *filters, *views), live, "JSON of " + what)
        self.assert_part(self.text("render", capture, "--json", *explain, *filters)[1], whole, filters, what)
        # A group of several stacks shows what they share.
        if "--summary" not in views and ("--group-by" not in views or "stack" in views):
            odd = words_of(live[1]) - words_of(self.text("render", capture, *views)[1])
            # Of a group of which one thread is left, the words are those of that thread.
            odd = odd and odd - words_of(self.text("render", capture, "--per-thread", "--full-names", *explain)[1])
            self.assertFalse(odd, "words of " + what)

    def try_program(self, name, pid):
        dice = random.Random(f"{SEED} {name}")
        with self.subTest(program=name):
            for number in range(TRIES):
                self.try_filters(pid, dice, name == "gothreads", TRIES <= 10 or number % 10 == 0)
        self.end_victims()

    def test_victims(self):
        for name, *arguments in VICTIMS:
            self.try_program(name, self.victim(name, *arguments, settled=False).pid)

    def test_languages(self):
        need("node", "java", "javac", "php")
        folder = self.scratch()
        with open(os.path.join(folder, "Held.java"), "w", encoding="ascii") as file:
            file.write(JAVA)
        subprocess.run(["javac", "-d", folder, os.path.join(folder, "Held.java")], check=True)
        for argv in ([sys.executable, "-c", PYTHON], ["node", "-e", NODE], ["php", "-r", PHP],
                     ["java", "-Xmx64m", "-cp", folder, "Held"], program_of("go"), program_of("rust")):
            self.try_program(os.path.basename(argv[0]), self.program(argv, settled=False).pid)

    def test_locks(self):
        for name in ("locks", "dead"):
            self.try_program(name, self.program([program(name, "pie")], settled=False).pid)

    def test_servers(self):
        need(*SERVERS)
        for name, arguments in SERVERS.items():
            argv = [name, *shlex.split(arguments.replace("{}", self.scratch()))]
            server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True)
            self.addCleanup(self.end, server)
            settle(server.pid)
            self.try_program(name, server.pid)

    def end(self, server):
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


class Choice(Case):
    def test_a_cut_leaves_the_frame_that_matches(self):
        victim = self.victim("chain")
        whole = self.stack_of(self.node(victim.pid), "f0")["entries"]
        for at, entry in enumerate(whole[:-1]):
            for most in (2, 3, 5):
                stack = self.stack_of(self.node(victim.pid, "--match", f"^{entry['function']}$", "-n", most))
                self.assertIn(entry, stack["entries"])
                self.assertEqual(len(stack["entries"]), most)
                self.assertEqual(stack["entries"][0], whole[0])
                gap = stack.get("gap", {"after": 0, "count": 0})
                self.assertEqual(stack["entries"][gap["after"] + 1], whole[gap["after"] + 1 + gap["count"]])


    def test_a_group_that_lost_threads_says_what_the_others_have_in_common(self):
        """Of a document, whose groups are there already."""
        for arguments in (("futex:1:one", "futex:2:two", "sem:1:one", "sem:1:three"), ("spin:2:one",)):
            victim = self.victim("threads", *arguments, settled=False)
            folder = self.scratch()
            capture, document = os.path.join(folder, "a.capture"), os.path.join(folder, "a.json")
            self.run_tool("-p", victim.pid, "--save-capture", capture, "--json", "-o", document, free=False)
            for names in ("^one", "^two", "^t", "-1$", "threads"):
                of_capture, of_document = (self.json("render", file, "--thread", names)["processes"] for file in
                                           (capture, document))
                self.assertEqual(of_document, of_capture, names)

    def test_groups_of_a_document_keep_their_ids(self):
        """Those with frames in no file, too."""
        victim = self.victim("jit", "anon")
        folder = self.scratch()
        capture, document = os.path.join(folder, "a.capture"), os.path.join(folder, "a.json")
        self.run_tool("-p", victim.pid, "--save-capture", capture, "--json", "-o", document, status=(0, 1))
        documents = [self.json("render", file, "--group-by", "process,stack", status=(0, 1)) for file in (capture, document)]
        ids = [[stack["id"] for stack in document["processes"][0]["stacks"]] for document in documents]
        self.assertEqual(len(ids[0]), 1)
        self.assertEqual(ids[0], ids[1])


class Idle(Case):
    def test_locks_of_python_that_the_program_takes(self):
        """A thread that waits for a Lock is shown; one that waits for a queue, which has Locks inside, is idle."""
        victim = self.program([sys.executable, "-c", PYTHON], settled=False)
        def shown():
            doc = self.json("-p", victim.pid, "--no-idle", free=False)
            return [entry["function"] for node in walk(doc["processes"]) for stack in node["stacks"]
                    for entry in [e for e in stack["entries"] if e.get("language")][:1]]
        wait_until(lambda: shown() == 2 * ["held"], "the thread that waits for the lock, and who may have it")
        other = self.program([sys.executable, "-c", SLEEPS])
        self.assertEqual(self.json("-p", other.pid, "--no-idle")["thread_count"], 0)
        self.assertIn("locks", self.run_tool("--deadlocks", "-p", victim.pid, status=3).text)

    def test_who_waits_for_an_answer_or_hands_over_is_none(self):
        """Futures, queues that are full, and a write that has no reader: system code alone, and no wait for work."""
        victim = self.program([sys.executable, "-c", ANSWERS], settled=False)
        def shown():
            doc = self.json("-p", victim.pid, "--no-idle", free=False)
            return {entry["function"] for node in walk(doc["processes"]) for stack in node["stacks"]
                    for entry in stack["entries"] if entry.get("language")}
        wanted = {"for_result", "for_room", "for_turn", "for_reply"}
        wait_until(lambda: wanted <= shown() and "for_work" not in shown(), "those that wait for others")
        functions = {entry.get("function") for node in walk(self.json("-p", victim.pid, "--no-idle")["processes"])
                     for stack in node["stacks"] for entry in stack["entries"]}
        self.assertIn("Full.run", functions)

    def test_goroutines_wait_for_work_where_they_began(self):
        """Further inside they wait for one of a pool or for a reply; one that sleeps may have the lock of another."""
        program = build("pool", ["pool/pool.go"])
        for arguments, wanted in ((), set()), (("locked",), {"main.holder", "main.waiter"}):
            victim = self.program([program, *arguments], settled=False)
            doc = self.json("-p", victim.pid, "--no-idle", free=False)
            shown = {next(entry["function"] for entry in reversed(stack["entries"]) if not entry.get("system"))
                     for node in walk(doc["processes"]) for stack in node["stacks"] if stack.get("kind") == "task"}
            self.assertEqual(shown, {"main.main", "main.request", "main.query"} | wanted)
            text = self.run_tool("-p", victim.pid, "--no-idle", free=False).text
            hidden = self.json("-p", victim.pid)["task_count"] - doc["task_count"]
            self.assertRegex(text, rf"(?m)^hidden as idle: {hidden} goroutines")

    def test_monitors_of_java_count_without_a_stop(self):
        need("java", "javac")
        folder = self.scratch()
        with open(os.path.join(folder, "Held.java"), "w", encoding="ascii") as file:
            file.write(JAVA)
        subprocess.run(["javac", "-d", folder, os.path.join(folder, "Held.java")], check=True)
        victim = self.program(["java", "-XX:+UseSerialGC", "-cp", folder, "Held"], settled=False)
        def shown():
            doc = self.json("-p", victim.pid, "--no-idle", "--no-stop", free=False, status=(0, 1))
            return sum(thread["state"] == "sleeping" for node in walk(doc["processes"]) for stack in node["stacks"]
                       if any(entry.get("function", "").startswith("ObjectMonitor::enter") for entry in stack["entries"])
                       for thread in stack["threads"])
        wait_until(lambda: shown() == 2, "the threads that wait for the monitor")
        # Whose it is stands in memory that is not read without a stop.
        self.run_tool("--deadlocks", "--no-stop", "-p", victim.pid, status=3, free=False)

    def test_without_a_wait_for_a_lock_no_deadlock_is_missed(self):
        victim = self.program([sys.executable, "-c", "import os, time; print('ready', os.getpid(), flush=True); time.sleep(600)"])
        self.assertEqual(self.run_tool("--deadlocks", "-p", victim.pid).text, "")

    def test_one_thread_that_waits_for_a_lock_is_told_first(self):
        convoy = self.victim("convoy", 2, 3600 * 10 ** 6)
        text = self.run_tool("-p", convoy.pid).text
        self.assertRegex(text.split("\n\n")[1], r"^blocked +1 thread waits for ")

    def test_lines_above_name_a_process_that_is_hidden(self):
        convoy = self.victim("convoy", 4, 3600 * 10 ** 6)
        other = self.victim("threads", "futex:1:other")
        text = self.run_tool("-p", convoy.pid, "-p", other.pid, "--thread", "^other$").text
        self.assertRegex(text, rf"(?m)^blocked +\[{convoy.pid}\] 3 threads wait for ")
        self.assertNotIn(f"convoy[{convoy.pid}]", text)
