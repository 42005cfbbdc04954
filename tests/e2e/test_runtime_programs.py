# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs of Debian in Go, Python and PHP that nobody has prepared, against what they, their interpreter or their
supervisor say of them: stack by stack, at rest; and that every stack is whole while they work."""
import contextlib
import glob
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import harness
from harness import (Case, DEADLINE, SOURCE, TOOL, functions, missing, need, need_root, proc_state,
                     read_file, settle, stacks_of, wait_until)

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402
import truth_go    # noqa: E402
import truth_tool  # noqa: E402

TRIES = 6
# Where many others want the processors, who has them not does not stop soon.
PATIENCE = ("--stop-timeout", "30000", "--timeout", "60000")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def text_at(pid, address):
    """A short text in a process's memory; None: it cannot be read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(16).partition(b"\0")[0]
    except OSError:
        return None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(address, path):
    """What a server answers at a path of a socket or a port; None: nothing."""
    connection = UnixConnection(address) if isinstance(address, str) else \
        http.client.HTTPConnection("127.0.0.1", address, timeout=DEADLINE)
    try:
        # Of a socket caddy's administration takes no name of a host.
        connection.request("GET", path, headers={"Host": "" if isinstance(address, str) else "localhost"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        return text if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Program:
    """One that is gone with all its children when the test ends."""

    def __init__(self, argv, folder, environment=None):
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                            start_new_session=True, env=dict(os.environ, HOME=folder, **environment or {}))
        self.pid = self.process.pid

    def said(self):
        return read_file(self.log, "rb").decode(errors="replace")

    def close(self):
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Programs(Case):
    def start(self, argv, folder, environment=None):
        program = Program(argv, folder, environment)
        self.addCleanup(program.close)
        return program

    @staticmethod
    def children(program):
        if program.process.poll() is not None:
            raise AssertionError(f"it has ended: {program.said()[-2000:]}")
        return [int(pid) for pid in (read_file(f"/proc/{program.pid}/task/{program.pid}/children") or "").split()]

    def answers(self, program, address, path):
        def answer():
            if program.process.poll() is not None:
                self.fail(f"it has ended: {program.said()[-2000:]}")
            return get(address, path)
        return wait_until(answer, "it to answer")


class GoPrograms(Programs):
    """Their answer is the profile that they serve: all goroutines, with states and creators."""
    level = "all"

    PROFILE = "/debug/pprof/goroutine?debug=2"

    def caddy(self, folder):
        config = os.path.join(folder, "Caddyfile")
        with open(config, "w", encoding="ascii") as file:
            file.write("{\n\tadmin unix/" + folder + "/admin\n\tauto_https off\n}\nhttp:// {\n\tbind unix/" + folder +
                       "/site\n\troot * " + os.path.join(SOURCE, "tests") + "\n\tfile_server browse\n}\n")
        return ["caddy", "run", "--config", config, "--adapter", "caddyfile"], folder + "/admin", folder + "/site", "/"

    def prometheus(self, folder):
        config, port = os.path.join(folder, "config"), free_port()
        with open(config, "w", encoding="ascii") as file:
            file.write("global:\n  scrape_interval: 1h\n")
        return ["prometheus", "--config.file", config, "--storage.tsdb.path", folder + "/data", "--web.listen-address",
                f"127.0.0.1:{port}"], port, port, "/metrics"

    def report_differences(self, pid, address):
        """What the tool shows of goroutines that stand before and after where the program says; how many those are."""
        try:
            before = self.report(pid)
            dump = truth_go.parse_dump(get(address, self.PROFILE) or "")
            after = self.report(pid)
        except RuntimeError as error:  # it did not stop in time
            return [str(error)], 0, 0
        differences, held = [], 0
        for number, truth in dump.items():
            if not before.where(number) or before.where(number) != after.where(number):
                continue
            held += 1
            found = truth_go.report_of(before, truth)
            if found:
                differences.append(found)
        return differences, held, len(dump)

    @staticmethod
    def report(pid):
        return truth_tool.read(TOOL, pid, "go")

    def check_at_rest(self, pid, address):
        """They come to rest: at last all is the same, but for the goroutines that answer."""
        for _ in range(TRIES):
            differences, held, count = self.report_differences(pid, address)
            if not differences and held > 5 and held >= count - 4:
                break
        self.assertEqual(differences[:3], [])
        self.assertGreater(held, 5)
        self.assertGreaterEqual(held, count - 4)

    def check_at_work(self, program, address, path):
        """Each stack is whole while many ask."""
        over = threading.Event()

        def ask():
            while not over.is_set():
                get(address, path)

        askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for asker in askers:
            asker.start()
        try:
            seen = 0
            for _ in range(10):
                for stack in stacks_of(self.node(program.pid, *PATIENCE, status=(0, 1))):
                    for _ in stack.get("tasks", ()):
                        self.assertTrue(stack["unwind"] == "complete" or stack.get("unwind_detail"), stack)
                        if stack["unwind"] == "complete":
                            self.assertEqual(functions(stack)[-1], "runtime.goexit", stack)
                            seen += 1
            self.assertGreater(seen, 50)
        finally:
            over.set()
            for asker in askers:
                asker.join(DEADLINE)

    def hold(self, prepare):
        folder = self.scratch()
        argv, address, site, path = prepare(folder)
        program = self.start(argv, folder)
        self.answers(program, address, self.PROFILE)
        self.check_at_rest(program.pid, address)
        self.check_at_work(program, site, path)

    def test_a_server_of_files(self):
        if not shutil.which("caddy"):
            missing("caddy", "caddy")
        self.hold(self.caddy)

    def test_a_database_of_metrics(self):
        """Where it is installed: it is larger than the others together."""
        if shutil.which("prometheus"):
            self.hold(self.prometheus)


class PythonPrograms(Programs):
    """Python itself writes the functions of all threads when it is made to end (faulthandler)."""
    level = "all"

    FAULTS = {"PYTHONFAULTHANDLER": "1"}

    @staticmethod
    def parse(text):
        """The stacks of a dump: (file, line, function), innermost first."""
        stacks, at = [], None
        for line in text.splitlines():
            frame = re.match(r'  File "(.*)", line (\d+) in (.*)', line)
            if re.match(r"(Current thread|Thread) 0x", line):
                at = []
                stacks.append(at)
            elif frame and at is not None:
                at.append((frame[1], int(frame[2]), frame[3]))
        return sorted(stacks)

    @staticmethod
    def shown(node):
        return sorted([(e.get("file"), e.get("line"), e["function"].rsplit(".", 1)[-1]) for e in stack["entries"]
                       if e.get("language") == "python"] for stack in node["stacks"] for _ in stack["threads"])

    def hold(self, program, pid, innermost):
        settle(pid)
        node = self.node(pid, "-n", "0", *PATIENCE)
        self.assertEqual({stack["unwind"] for stack in node["stacks"]}, {"complete"})
        self.assertEqual([runtime["name"] for runtime in node["runtimes"]], ["cpython"])
        before = len(program.said())
        os.kill(pid, signal.SIGFPE)
        wait_until(lambda: proc_state(pid) in (None, "Z"), "it to end")
        stacks = self.parse(program.said()[before:])
        self.assertEqual(self.shown(node), stacks)
        self.assertIn(innermost, [stack[0][2] for stack in stacks])

    def test_a_backup(self):
        """It opens a FIFO that nobody writes to."""
        need("borg")
        folder = self.scratch()
        environment = {"BORG_REPO": folder + "/repository", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
                       "BORG_BASE_DIR": folder, **self.FAULTS}
        subprocess.run(["borg", "init", "-e", "none"], env=dict(os.environ, HOME=folder, **environment), check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.mkfifo(folder + "/fifo")
        program = self.start(["borg", "create", "--read-special", "::one", "fifo"], folder, environment)

        def opens():
            if program.process.poll() is not None:
                self.fail(f"it has ended: {program.said()[-2000:]}")
            call = (read_file(f"/proc/{program.pid}/syscall") or "").split()
            return call[:1] == ["257"] and text_at(program.pid, int(call[2], 16)) == b"fifo"  # openat

        wait_until(opens, "it to open the FIFO")
        self.hold(program, program.pid, "os_open")

    def test_a_server(self):
        """A worker reads a request that does not go on."""
        need("gunicorn")
        folder = self.scratch()
        program = self.start(["gunicorn", "-b", "unix:" + folder + "/socket", "-w", "1", "--timeout", "0",
                              "wsgiref.simple_server:demo_app"], folder, self.FAULTS)
        with socket.socket(socket.AF_UNIX) as asked:
            def connects():
                if program.process.poll() is not None:
                    self.fail(f"it has ended: {program.said()[-2000:]}")
                with contextlib.suppress(OSError):
                    asked.connect(folder + "/socket")
                    return True
                return False

            wait_until(connects, "it to listen")
            asked.sendall(b"GET / HTTP/1.1\r\nHost: ")

            def reads():
                return next((pid for pid in self.children(program)
                             if (read_file(f"/proc/{pid}/syscall") or "").startswith("45 ")), None)  # recvfrom

            pid = wait_until(reads, "a worker to read")
            self.hold(program, pid, "chunk")


class PhpPrograms(Programs):
    """A worker of FPM in an application: FPM itself writes the functions of those that take too long (its slow log)."""
    level = "all"

    CONFIGURATION = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[wiki]
listen = {folder}/socket
user = root
group = root
pm = static
pm.max_children = 1
slowlog = {folder}/slow
request_slowlog_timeout = {seconds}s
request_slowlog_trace_depth = 100
php_admin_value[auto_prepend_file] = {folder}/prepend.php
"""
    APPLICATION = "/usr/share/dokuwiki"

    def prepare(self, folder):
        """All that it writes lies in the folder; one of its pages is a FIFO, at which it is when it is called slow."""
        seconds = 2 * harness.PATIENCE
        shutil.copytree("/etc/dokuwiki", folder + "/conf", ignore=shutil.ignore_patterns("*auth.php", "local.php"))
        for name in ("acl.auth.php", "users.auth.php"):
            with open(folder + "/conf/" + name, "w", encoding="ascii"):
                pass
        for name in ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages",
                     "tmp"):
            os.makedirs(folder + "/data/" + name)
        os.mkfifo(folder + "/data/pages/start.txt")
        for name, text in (("prepend.php", f"<?php define('DOKU_CONF', '{folder}/conf/');"),
                           ("conf/local.php", f"<?php $conf['savedir'] = '{folder}/data'; $conf['useacl'] = 0;"),
                           ("fpm.conf", self.CONFIGURATION.format(folder=folder, seconds=seconds))):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)

    @staticmethod
    def parse(text):
        """Of the slow log: (function, file, line), where a function stands with the place that it was called at."""
        return [(found[1].replace("[INCLUDE_OR_EVAL]", "include"), found[2], int(found[3]))
                for found in re.finditer(r"^\[0x[0-9a-f]+\] (.*)\(\) (.*):(\d+)$", text, re.M)]

    @staticmethod
    def called(entries):
        """The same of what is shown: each function, and where the one further out stands."""
        frames = [(re.sub(r".*(->|::|\\)", "", e["function"]), e.get("file"), e.get("line")) for e in entries]
        return [(re.sub(r"^(require|include)(_once)?$", "include", name),
                 *next(((file, line) for _, file, line in frames[i + 1:] if file), (None, None)))
                for i, (name, _, _) in enumerate(frames[:-1])]

    def test_a_wiki(self):
        need_root()
        servers = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not servers or not os.path.isdir(self.APPLICATION):
            missing("php-fpm, dokuwiki", "php-fpm, dokuwiki")
        folder = self.scratch(0o777)
        self.prepare(folder)
        program = self.start([servers[-1], "-R", "-y", folder + "/fpm.conf"], folder)
        # It listens before it makes its worker.
        wait_until(lambda: self.children(program), "it to listen")
        asked = php_server.request(folder + "/socket", {
            "SCRIPT_FILENAME": self.APPLICATION + "/doku.php", "SCRIPT_NAME": "/doku.php", "REQUEST_URI": "/doku.php",
            "QUERY_STRING": "id=start", "REQUEST_METHOD": "GET", "SERVER_NAME": "localhost", "HTTP_HOST": "localhost",
            "SERVER_PORT": "80", "REMOTE_ADDR": "127.0.0.1", "DOCUMENT_ROOT": self.APPLICATION})
        self.addCleanup(asked.close)
        # It has let go of the worker by then.
        found = wait_until(lambda: re.search(r"finished trace of (\d+)", read_file(folder + "/fpm.log")), "the slow log")
        truth = self.parse(read_file(folder + "/slow"))
        worker = self.node(int(found[1]), *PATIENCE)
        self.assertEqual(worker["labels"], {"request_method": "GET", "request_uri": "/doku.php", "query_string": "id=start"})
        stack, = worker["stacks"]
        self.assertEqual(stack["unwind"], "complete")
        own = [e for e in stack["entries"] if e.get("language") == "php"]
        self.assertEqual(own[-1]["function"], "{main}")
        self.assertEqual(self.called(own), truth)
        self.assertGreater(len(truth), 5)
