# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real servers at rest and under load: nobody is said to be in a deadlock, no lock has an owner that
cannot be, and at rest nobody holds up others."""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys

from harness import ROOT, need, missing, wait_until, walk
from waits import WaitCase, waits_of

NODE = """
const http = require('http'), fs = require('fs');
http.createServer((q, r) => fs.readFile('/etc/passwd', (e, text) => r.end(String(text).length + 'x'.repeat(9000))))
  .listen(process.argv[1], () => console.log('ready ' + process.pid));
process.stdin.on('end', () => process.exit(0)); process.stdin.resume();
"""

JAVA = """
import java.util.concurrent.*;
import java.util.concurrent.locks.*;
public class Pool {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock();
    static final BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(16);
    static long sum;
    static void work(boolean load) throws Exception {
        while (true) {
            int job = queue.take();
            synchronized (monitor) { sum += job; }
            lock.lock();
            try { sum ^= job; } finally { lock.unlock(); }
            byte[] rubbish = new byte[1 << 14];
            sum += rubbish.length;
        }
    }
    public static void main(String[] arguments) throws Exception {
        boolean load = arguments[0].equals("load");
        for (int i = 0; i < 12; i++) {
            Thread thread = new Thread(() -> { try { work(load); } catch (Exception e) { } }, "worker-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        Thread feeder = new Thread(() -> { try { while (load) queue.put(1); } catch (Exception e) { } }, "feeder");
        feeder.setDaemon(true);
        feeder.start();
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
        while (System.in.read() >= 0) { }
    }
}
"""

# Connections to a unix socket or a port that ask for "/" without end.
ASK = """
import socket, sys, threading
def ask():
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(sys.argv[1])
                s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                while s.recv(65536): pass
        except OSError:
            pass
for _ in range(7): threading.Thread(target=ask, daemon=True).start()
ask()
"""


class Servers:
    """`looks` at each under load, a quarter at rest, where one look is as the other."""
    looks = 8
    parks = "io_threads_mutex"  # with which Redis's main thread holds the others when there is little to do

    # what must hold

    def assert_sound(self, doc, rest):
        self.assertEqual(doc.get("deadlocks", []), [], "a deadlock")
        waits = waits_of(doc)
        for tid, wait in waits.items():
            if not wait or "owner" not in wait or "owner_unknown" in wait:
                continue
            owner = wait["owner"]
            self.assertNotEqual(owner.get("tid"), tid, f"{tid} waits for itself: {wait}")
            if not owner.get("outside") and owner.get("tid"):
                self.assertIn(owner["tid"], waits, f"{tid} waits for somebody who is not there: {wait}")
        if rest:
            held = [wait for wait in waits.values() if wait and wait["kind"] in ("mutex", "rwlock") and
                    "owner" in wait and wait.get("symbol") != self.parks]
            self.assertEqual(held, [], "at rest nobody waits for a lock that is held")

    def watch(self, pid, load=None):
        """Looks at rest, or while commands run."""
        if not load:
            for _ in range(self.looks // 4):
                self.assert_sound(self.json("-p", pid, status=(0, 1), free=False, timeout=120), True)
            return
        with open(os.devnull, "w", encoding="ascii") as null:
            runs = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=null, stderr=null, **popen)
                    for argv, popen in load]
            try:
                for _ in range(self.looks):
                    self.assert_sound(self.json("-p", pid, status=(0, 1), free=False, timeout=120), False)
            finally:
                for run in runs:
                    run.kill()
                    run.wait()

    def assert_waiter_is_shown(self, pid, function):
        """A thread that waits for a lock of the program's own is not idle."""
        def functions():
            doc = self.json("-p", pid, "--no-idle", status=(0, 1), free=False, timeout=120)
            return {entry.get("function", "").partition("(")[0] for node in walk(doc["processes"])
                    for stack in node.get("stacks", []) for entry in stack["entries"]}
        wait_until(lambda: function in functions(), f"a thread in {function}")

    def server(self, argv, end=signal.SIGTERM, **popen):
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, **popen)

        def stop():
            process.send_signal(end)
            process.wait()
        self.addCleanup(stop)
        return process

    # servers

    def test_postgres(self):
        need("psql", "pgbench")
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
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user)
        subprocess.run([os.path.join(programs[-1], "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-N"],
                       check=True, **quiet)
        server = self.server([os.path.join(programs[-1], "postgres"), "-D", data, "-k", folder, "-c", "fsync=off",
                              "-c", "listen_addresses="], signal.SIGINT, **user)
        there = ["-h", folder, "-U", "tester"]
        wait_until(lambda: subprocess.run(["psql", "-X", *there, "-c", "select 1", "postgres"], check=False,
                                          **quiet).returncode == 0, "PostgreSQL to answer", 120)
        subprocess.run(["pgbench", "-i", "-q", *there, "postgres"], check=True, **quiet)
        self.watch(server.pid)
        self.watch(server.pid, [(["nice", "pgbench", *there, "-c", "8", "-T", "3600", "postgres"], user)])
        psql = ["psql", "-X", *there, "-c"]
        self.server([*psql, "begin", "-c", "lock table pgbench_accounts", "-c", "select pg_sleep(3600)", "postgres"],
                    signal.SIGKILL, **user)
        sleeping = "select 'sle' || 'eping' from pg_stat_activity where query = 'select pg_sleep(3600)'"
        wait_until(lambda: b"sleeping" in subprocess.run([*psql, sleeping, "postgres"], **{
            **quiet, "stdout": subprocess.PIPE}, check=False).stdout, "the holder of PostgreSQL's lock")
        self.server([*psql, "update pgbench_accounts set abalance = 1", "postgres"], signal.SIGKILL, **user)
        self.assert_waiter_is_shown(server.pid, "ProcSleep")
        self.assert_waiter_is_shown(server.pid, "pg_sleep")  # who has the lock, in a command
        # Who has a lock of PostgreSQL's own is not known.
        self.run_tool("--deadlocks", "-p", server.pid, status=3, free=False)
        summary = self.run_tool("--summary", "--width", "140", "-p", server.pid, status=(0, 1), free=False).text
        self.assertRegex(summary, r"epoll_wait +(WaitLatch ← )?ProcSleep ←( WaitOnLock ←)? LockAcquireExtended ← Lock")
        self.assertNotRegex(summary, r"epoll_wait +WaitEventSetWait|← main\b|← PostmasterMain")
        tree = self.run_tool("--call-tree", "-p", server.pid, status=(0, 1), free=False).text
        self.assertRegex(tree, r" → (postgres\+0x[0-9a-f]+|ServerLoop)\b")
        self.assertNotIn("?? +0x", tree)

    def test_mariadb(self):
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        if not os.path.exists(program):
            missing("mariadbd", "mariadb-server")
        folder = self.scratch()
        data, path = os.path.join(folder, "data"), os.path.join(folder, "sock")
        user = ["--user=root"] if ROOT else []
        subprocess.run(["mariadb-install-db", "--no-defaults", *user, "--datadir=" + data, "--skip-test-db",
                        "--auth-root-authentication-method=normal"], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = self.server([program, "--no-defaults", *user, "--datadir=" + data, "--skip-networking",
                              "--socket=" + path], signal.SIGKILL)
        wait_until(lambda: os.path.exists(path), "mariadbd to listen", 120)
        self.watch(server.pid)
        self.watch(server.pid, [(["nice", "mariadb-slap", "--no-defaults", "--socket=" + path, "--user=root",
                                  "--auto-generate-sql", "--auto-generate-sql-load-type=mixed", "--concurrency=8",
                                  "--iterations=100000", "--number-of-queries=4000"], {})])
        need("mariadb")
        client = ["mariadb", "--no-defaults", "--socket=" + path, "--user=root", "-e"]
        subprocess.run([*client, "create database held; create table held.rows (id int primary key) engine=innodb; "
                        "insert into held.rows values (1)"], check=True, stdin=subprocess.DEVNULL)
        change = "update held.rows set id = id + 1"
        self.server([*client, f"begin; {change}; select sleep(3600)"], signal.SIGKILL)
        sleeping = "select 1 from information_schema.processlist where info = 'select sleep(3600)'"
        wait_until(lambda: subprocess.run([*client, sleeping], check=False, stdin=subprocess.DEVNULL,
                                          capture_output=True).stdout, "the holder of MariaDB's lock")
        self.server([*client, f"set innodb_lock_wait_timeout = 3600; {change}"], signal.SIGKILL)
        self.assert_waiter_is_shown(server.pid, "mysql_update")
        # InnoDB's own locks are not followed, which is said.
        got = self.run_tool("--deadlocks", "-p", server.pid, status=3, free=False)
        self.assertIn("owners of locks that keep none", got.text)

    def test_redis(self):
        need("redis-server", "redis-benchmark")
        folder = self.scratch()
        path = os.path.join(folder, "sock")
        server = self.server(["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--io-threads", "3",
                              "--save", "1 10"])
        wait_until(lambda: os.path.exists(path), "redis to listen")
        self.watch(server.pid)
        waits = waits_of(self.json("-p", server.pid, status=(0, 1), free=False))
        parked = [wait for wait in waits.values() if wait and wait.get("symbol") == self.parks]
        self.assertEqual({wait["owner"]["tid"] for wait in parked}, {server.pid} if parked else set())
        self.watch(server.pid, [(["nice", "redis-benchmark", "-s", path, "-c", "20", "-l", "-q", "-t", "set,get,lpush"],
                                 {})])

    def test_nginx(self):
        if not shutil.which("nginx") and not os.path.exists("/usr/sbin/nginx"):
            missing("nginx", "nginx-light")
        folder = self.scratch()
        path = os.path.join(folder, "sock")
        with open(os.path.join(folder, "conf"), "w", encoding="ascii") as file:
            file.write(f"daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/log; {'user root;' if ROOT else ''}\n"
                       f"events {{ }} http {{ access_log off; aio threads; root {folder};\n"
                       + "".join(f"{kind}_temp_path {folder};\n" for kind in
                                 ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")) +
                       f"server {{ listen unix:{path}; location / {{ index index.html; }} }} }}\n")
        with open(os.path.join(folder, "index.html"), "w", encoding="ascii") as file:
            file.write("x" * 100000)
        server = self.server([shutil.which("nginx") or "/usr/sbin/nginx", "-c", os.path.join(folder, "conf"),
                              "-e", os.path.join(folder, "log")])
        wait_until(lambda: os.path.exists(path), "nginx to listen")
        self.watch(server.pid)
        self.watch(server.pid, [(["nice", sys.executable, "-c", ASK, path], {})])

    def test_node(self):
        need("node")
        path = os.path.join(self.scratch(), "sock")
        victim = self.program(["node", "-e", NODE,
                               path], settled=False)
        self.watch(victim.pid)
        self.watch(victim.pid, [(["nice", sys.executable, "-c", ASK, path], {})])

    def java(self, how):
        need("java", "javac")
        folder = self.scratch()
        with open(os.path.join(folder, "Pool.java"), "w", encoding="ascii") as file:
            file.write(JAVA)
        subprocess.run(["javac", "-d", folder, os.path.join(folder, "Pool.java")], check=True)
        return self.program(["nice", "java", "-Xmx64m", "-cp", folder, "Pool", how], settled=False)

    def test_java_at_rest(self):
        self.watch(self.java("rest").pid)

    def test_java_under_load(self):
        victim = self.java("load")
        for _ in range(self.looks):
            self.assert_sound(self.json("-p", victim.pid, status=(0, 1), free=False, timeout=120), False)


class Real(Servers, WaitCase):
    level = "all"
