# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real programs from Debian, thread by thread: the pcs of every stack as eu-stack and gdb see them,
and as the reference engines do. The programs wait, so that all tools meet the same moment."""
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
import unittest

import witness
from harness import (Case, DEADLINE, ROOT, Victim, addresses, blocked, build_once, functions, missing,
                     need, proc_state, processes, read_file, settle, source_target, status_field,
                     threads, tids_of, wait_until)

PYTHON = """
import os, threading, time, sys
def sink(n):
    if n:
        return sink(n - 1)
    time.sleep(3600)
for i in range(12):
    threading.Thread(target=sink, args=(i,), daemon=True).start()
lock = threading.Lock(); lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
threading.Thread(target=sorted, args=([3, 1, 2],), kwargs=dict(key=lambda x: time.sleep(3600)), daemon=True).start()
print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""

NODE = """
const http = require('http');
http.createServer((q, r) => r.end('x')).listen(process.argv[1], () => {
  console.log('ready ' + process.pid);
});
process.stdin.on('end', () => process.exit(0)); process.stdin.resume();
"""

# Computes in functions that are called through others, again and again.
BUSY_NODE = """
function compare(a, b) { return a.key < b.key ? -1 : a.key > b.key ? 1 : 0; }
function make(n) { const list = []; for (let i = 0; i < n; i++) list.push({ key: String((i * 7919) % n), value: i }); return list; }
function busy() { const list = make(2000); list.sort(compare); return JSON.stringify(list).replace(/[0-9]+/g, 'x').length; }
let total = 0;
console.log('ready ' + process.pid);
setTimeout(() => { for (;;) total += busy(); }, 10);
"""

# For gdb: the return addresses along the frame pointers, from the innermost built-in function of V8 on.
CHAIN = """
import gdb
gdb.execute("thread 1", to_string=True)
frame = gdb.newest_frame()
while frame and not (frame.name() or "").startswith("Builtins_"):
    frame = frame.older()
if not frame:
    print("NOT REACHED")
at, above = int(frame.read_register("rbp")) if frame else 0, 0
while at > above:
    above, (at, pc) = at, (int.from_bytes(gdb.selected_inferior().read_memory(at + i, 8).tobytes(), "little") for i in (0, 8))
    print("CHAIN", hex(pc))
"""

JAVA = """
public class Sleepers {
    static void f(int n) throws Exception { if (n > 0) f(n - 1); else Thread.sleep(3600000); }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 20; i++) {
            int depth = i;
            Thread t = new Thread(() -> { try { f(depth); } catch (Exception e) { } });
            t.setDaemon(true);
            t.start();
            while (t.getState() != Thread.State.TIMED_WAITING) Thread.yield();
        }
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
        while (System.in.read() >= 0) { }
    }
}
"""


SIGNAL_FRAME = "__kernel_rt_sigreturn"  # of aarch64


class Witness(Case):
    def ours(self, pid, *arguments):
        doc = self.json("-p", pid, "--no-children", "--per-thread", "-n", "0", "--no-inlines",
                        "--runtimes", "none", *arguments,
                        status=(0, 1), timeout=180)
        node = processes(doc)[pid]
        return {tid: (addresses(stack), stack) for tid, (_, stack) in threads(node).items()}

    def agree(self, pid, name, theirs, ours, after, may_stop_early=False):
        """Thread by thread the same pcs; returns the number of threads that were compared. A thread
        whose stack we saw change from before to after the witness proves nothing."""
        compared = 0
        for tid, (mine, stack) in sorted(ours.items()):
            if tid not in after or after[tid][0] != mine:
                continue
            self.assertIn(tid, theirs, f"{name} has not thread {tid}")
            pcs, why = theirs[tid]
            compared += 1
            if may_stop_early:
                # Up to the first frame of code that is in no file, where the witness guesses.
                frames = [e for e in stack["entries"] if not e.get("inlined")]
                made = next((i for i, e in enumerate(frames) if "module" not in e), len(frames) - 1) + 1
                mine, pcs = mine[:made], pcs[:made]
            if name == "eu-stack" and SIGNAL_FRAME in functions(stack):
                # That of elfutils 0.188 takes it twice, and ends soon. What gdb sees there is compared in full.
                made = functions(stack).index(SIGNAL_FRAME) + 1
                mine, pcs = mine[:made], pcs[:made]
            self.assertEqual([hex(p) for p in mine], [hex(p) for p in pcs],
                             f"{name} and we differ on {pid}/{tid} ({why}): {functions(stack)}, "
                             f"{stack['unwind']} {stack.get('unwind_detail')}")
        return compared

    def compare(self, pid, least, early=()):
        settle_threads(pid)
        ours = self.ours(pid)
        self.assertEqual(sorted(ours), tids_of(pid))
        for name, look in (("eu-stack", witness.eu_stack), ("gdb", witness.gdb),
                           ("--engine=ptrace", lambda p: plain(self.ours(p, "--engine=ptrace", "--no-sandbox"))),
                           ("--engine=libunwind", lambda p: plain(self.ours(p, "--engine=libunwind")))):
            before = self.ours(pid)
            theirs = look(pid)
            after = self.ours(pid)
            with self.subTest(witness=name, pid=pid):
                compared = self.agree(pid, name, theirs, before, after, name.removeprefix("--engine=") in early)
                self.assertGreaterEqual(compared, least)
        return ours


def plain(stacks):
    return {tid: (pcs, stack.get("unwind_detail", "")) for tid, (pcs, stack) in stacks.items()}


def moves(pid):
    return {t: read_file(f"/proc/{pid}/task/{t}/syscall") for t in tids_of(pid)}


def settle_threads(pid):
    """Until every thread stands in the same call at the same place twice in a row."""
    def quiet():
        first = moves(pid)
        if any(v is None or v.startswith("running") for v in first.values()):
            return False
        time.sleep(0.05)  # a poll interval, not a synchronisation: the condition decides
        return moves(pid) == first
    wait_until(quiet, f"{pid} to be quiet")


class Python(Witness):
    def test_python(self):
        victim = self.program(["/usr/bin/python3", "-c", PYTHON])
        ours = self.compare(victim.pid, 15)
        names = {f for _, stack in ours.values() for f in functions(stack)}
        # Not PyEval_EvalFrameDefault: an interpreter that is built with tail calls has that no longer.
        self.assertTrue(any(f and "PyEval_" in f for f in names), names)


class Node(Witness):
    level = "all"

    def test_node(self):
        need("node")
        path = os.path.join(self.scratch(), "socket")
        victim = self.program(["node", "-e", NODE, path], settled=False)
        self.compare(victim.pid, 5)

    def main_stack(self, victim):
        return self.stack_of(self.node(victim.pid, "-n", "0", "--runtimes=none", status=(0, 1), stopped=True), tid=victim.pid)

    def test_busy_node(self):
        """V8's built-in functions have no CFI, and frame pointers that some of them set up late. At 15 places all stacks lead
        to the program's start, and where C++ runs, which gdb can leave, the frames are those of the frame pointers."""
        need("node", "gdb")
        if os.uname().machine != "x86_64":
            self.skip("arch: gdb's names of registers")
        script = os.path.join(self.scratch(), "chain.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(CHAIN)
        victim = self.program(["node", "-e", BUSY_NODE], settled=False)
        compared = 0
        for _ in range(15):
            os.kill(victim.pid, signal.SIGSTOP)
            wait_until(lambda: proc_state(victim.pid) == "T", "it to stop")
            stack = self.main_stack(victim)
            names = functions(stack, inlined=False)
            self.assertIn("node::Start(int, char**)", names, names)
            self.assertIn(stack["unwind"], ("complete", "guessed", "scanned"), names)
            builtin = next((i for i, name in enumerate(names) if name and name.startswith("Builtins_")), None)
            if builtin and None not in names[:builtin] and compared < 3:
                said = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
                                       "-p", str(victim.pid), "-x", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, check=False).stdout
                chain = [int(line.split()[1], 16) for line in said.splitlines() if line.startswith("CHAIN")]
                # From some places in C++ gdb itself does not find the way out.
                if "NOT REACHED" not in said:
                    compared += 1
                    self.assertGreater(len(chain), 5, said)
                    self.assertEqual(addresses(stack)[builtin + 1:][:8], chain[:8], names)
            os.kill(victim.pid, signal.SIGCONT)
        self.assertGreater(compared, 0)


class Java(Witness):
    level = "all"

    def test_java(self):
        need("javac", "java")
        folder = self.scratch()
        with open(os.path.join(folder, "Sleepers.java"), "w") as f:
            f.write(JAVA)
        subprocess.run(["javac", "-d", folder, os.path.join(folder, "Sleepers.java")], check=True)
        victim = self.program(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", folder, "Sleepers"],
                              settled=False)
        # The interpreter's frames have no CFI: gdb guesses there. On aarch64 eu-stack takes the first of them twice, and
        # the reference engines end, where we go by frame records up to the function that the thread began with.
        early = ("gdb",) if os.uname().machine == "x86_64" else ("gdb", "eu-stack", "ptrace", "libunwind")
        ours = self.compare(victim.pid, 20, early)
        for tid, (_, stack) in ours.items():
            self.assertIn(stack["unwind"], ("complete", "guessed"), (tid, functions(stack)))


class Postgres(Witness):
    level = "all"

    def psql(self, folder, command, user):
        return subprocess.Popen(["psql", "-X", "-h", folder, "-d", "postgres", "-U", "tester", "-c", command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                **user)

    def test_postgres(self):
        need("psql")
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not programs:
            missing("postgres", "postgresql")
        folder = self.scratch()
        user = {}
        if ROOT:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            user = dict(user=owner.pw_uid, group=owner.pw_gid, extra_groups=[], cwd=folder)
        data = os.path.join(folder, "data")
        subprocess.run([os.path.join(programs[-1], "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-N",
                        "--locale=C"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **user)
        server = subprocess.Popen([os.path.join(programs[-1], "postgres"), "-D", data, "-k", folder, "-c",
                                   "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off",
                                   "-c", "shared_buffers=16MB"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  **user)
        clients = []
        def stop():
            for client in clients:
                client.kill()
                client.communicate()
            # A fast shutdown: the default one waits for every backend's sleep.
            server.send_signal(signal.SIGINT)
            server.wait()
        self.addCleanup(stop)
        def up():
            return subprocess.run(["psql", "-X", "-h", folder, "-d", "postgres", "-U", "tester", "-c", "select 1"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user).returncode == 0
        wait_until(up, "PostgreSQL to answer", 120)
        def children():
            return [int(c) for c in (read_file(f"/proc/{server.pid}/task/{server.pid}/children") or "").split()]
        def titles():
            return [read_file(f"/proc/{c}/cmdline") or "" for c in children()]
        def busy():
            return sum("SELECT" in t for t in titles()) >= 3 and any("waiting" in t for t in titles())
        def settled():
            """The backends that answered whether it is up have ended, too."""
            return all(titles()) and sum("[local]" in t for t in titles()) == 3
        # Who counts must meet the lock, so that one is taken first.
        clients.append(self.psql(folder, "begin; lock table pg_description in access exclusive mode; "
                                 "select pg_sleep(600)", user))
        wait_until(lambda: any("SELECT" in t for t in titles()), "the lock to be taken", 60)
        for command in ("select count(*) from pg_description", "select pg_sleep(601)"):
            clients.append(self.psql(folder, command, user))
        wait_until(busy, "three busy backends", 60)
        wait_until(settled, "the other backends to end", 60)
        everybody = [server.pid, *children()]
        doc = self.json("-p", server.pid, status=(0, 1), timeout=120)
        found = processes(doc)
        self.assertEqual(set(found), set(everybody))
        backends = [n for n in found.values() if "SELECT" in n.get("description", "")]
        self.assertEqual(len(backends), 3, [n.get("description") for n in found.values()])
        for pid in everybody:
            self.compare(pid, 1)


class Servers(Witness):
    level = "all"

    def test_redis(self):
        need("redis-server")
        folder = self.scratch()
        path = os.path.join(folder, "sock")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "",
                                   "--hz", "1"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def stop():
            server.terminate()
            server.wait()
        self.addCleanup(stop)
        wait_until(lambda: os.path.exists(path), "redis to listen")
        self.compare(server.pid, 4)

    def test_mariadb(self):
        if not shutil.which("mariadbd") and not os.path.exists("/usr/sbin/mariadbd"):
            missing("mariadbd", "mariadb-server")
        folder = self.scratch()
        data, path = os.path.join(folder, "data"), os.path.join(folder, "sock")
        user = ["--user=root"] if ROOT else []
        made = subprocess.run(["mariadb-install-db", "--no-defaults", *user, "--datadir=" + data,
                               "--auth-root-authentication-method=normal", "--skip-test-db"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.assertEqual(made.returncode, 0, made.stdout)
        server = subprocess.Popen(["/usr/sbin/mariadbd", "--no-defaults", *user, "--datadir=" + data,
                                   "--skip-networking", "--socket=" + path],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def stop():
            server.kill()
            server.wait()
        self.addCleanup(stop)
        wait_until(lambda: os.path.exists(path), "mariadbd to listen", 120)
        self.compare(server.pid, 5)
