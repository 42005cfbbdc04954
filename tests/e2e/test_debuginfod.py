# SPDX-License-Identifier: LGPL-2.1-or-later
"""Downloads from a real debuginfod on the loopback interface, started here."""
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import zlib

from harness import Case, addresses, clean_environment, functions, need, processes, wait_until
from test_symbols import CHAIN, build_id_of, run
import test_symbols


class Debuginfod(Case):
    level = "test"

    build = test_symbols.Debug.build
    split = test_symbols.Debug.split

    def serve(self, folder):
        need("debuginfod")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = open(os.path.join(self.scratch(), "log"), "wb")
        self.addCleanup(log.close)
        server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:", "-F", folder],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        def stop():
            server.terminate()
            server.wait()
        self.addCleanup(stop)
        return server, f"http://127.0.0.1:{port}"

    def prepared(self):
        path = self.build("-g")
        debug = self.split(path, link=False)
        store = self.scratch()
        shutil.move(debug, store)
        _, url = self.serve(store)
        ident = build_id_of(path)
        def answers():
            try:
                with urllib.request.urlopen(f"{url}/buildid/{ident}/debuginfo", timeout=5) as reply:
                    return reply.status == 200
            except (urllib.error.URLError, OSError):
                return False
        wait_until(answers, "debuginfod to have indexed the file", 120)
        return path, {"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": self.scratch(),
                      "HOME": self.scratch()}

    def test_off_by_default_on_by_option(self):
        path, environment = self.prepared()
        victim = self.program([path])
        without = self.node(victim.pid, env=environment, status=(0, 1))["stacks"][0]
        self.assertNotIn("f2", functions(without))
        self.assertEqual(os.listdir(environment["DEBUGINFOD_CACHE_PATH"]), [])
        stack = self.node(victim.pid, "--debuginfod", env=environment, status=(0, 1), timeout=120)["stacks"][0]
        at = self.assert_calls(stack, *CHAIN)
        self.assertTrue(all(e.get("line") for e in stack["entries"][at:at + 6]))

    def test_server_that_does_not_answer_is_interrupted(self):
        import signal
        from harness import TOOL, note_options
        path = self.build("-g")
        self.split(path, link=False)
        victim = self.program([path])
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(8)
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            environment = clean_environment({"DEBUGINFOD_URLS": url, "HOME": self.scratch(),
                                             "DEBUGINFOD_CACHE_PATH": self.scratch()})
            tool = subprocess.Popen([TOOL, "--debuginfod", "-p", str(victim.pid)], env=environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            silent.settimeout(60)
            connection, _ = silent.accept()
            self.addCleanup(connection.close)
            self.assert_free(victim.pid)
            tool.send_signal(signal.SIGINT)
            self.assertIn(tool.wait(20), (-signal.SIGINT,))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"


def drip(connection, _):
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(1)


def flood(connection, _):
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(bytes(1 << 20))


def announce(connection, _):
    connection.sendall(HEAD + b"Content-Length: 20000000000\r\n\r\n")
    while True:
        connection.sendall(bytes(1 << 20))


def bomb(connection, _):
    """A thousand bytes of the file for each byte of the answer."""
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    while True:
        connection.sendall(packer.compress(bytes(1 << 22)))


def redirect(connection, port):
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/again\r\nContent-Length: 0\r\n"
                       b"Connection: close\r\n\r\n" % port)


def heads(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-Line: %s\r\n" % (b"y" * 1000))


def silence(connection, _):
    connection.recv(1)


def other_file(connection, _):
    with open("/bin/true", "rb") as f:
        data = f.read()
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(data) + data)


class Servers(Case):
    """Servers that do what they like with an answer: the report comes without the file, and says so."""
    level = "test"

    build = test_symbols.Debug.build
    split = test_symbols.Debug.split

    some = None  # what wants the request, and not the port

    def start(self, behave):
        """Calls `behave` with each connection, when it has sent its request. None: accepts none."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        port = listening.getsockname()[1]
        connections = []
        def answer(connection):
            request = b""
            try:
                while b"\r\n\r\n" not in request:
                    request += connection.recv(1 << 16)
                behave(connection, request if behave is self.some else port)
            except OSError:
                pass
            connection.close()
        def accept():
            try:
                while True:
                    connection, _ = listening.accept()
                    connections.append(connection)
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()
            except OSError:
                pass
        def stop():
            listening.close()
            for connection in connections:
                connection.close()
        if behave:
            threading.Thread(target=accept, daemon=True).start()
        self.addCleanup(stop)
        return f"http://127.0.0.1:{port}"

    def setUp(self):
        super().setUp()
        path = self.build("-g")
        self.split(path, link=False)
        self.path, self.victim_ = path, self.program([path])

    def look(self, behave, *arguments):
        cache = self.scratch()
        got = self.json("--debuginfod", "-p", self.victim_.pid, *arguments, status=(0, 1), timeout=60,
                        env={"DEBUGINFOD_URLS": self.start(behave), "DEBUGINFOD_CACHE_PATH": cache,
                             "HOME": self.scratch()})
        left = [(name, os.path.getsize(os.path.join(folder, name)))
                for folder, _, names in os.walk(cache) for name in names]
        return got, {name: size for name, size in left if not name.endswith("_s")}

    def assert_whole(self, got):
        plain = self.json("-p", self.victim_.pid, status=(0, 1))
        self.assertEqual([addresses(stack) for stack in got["processes"][0]["stacks"]],
                         [addresses(stack) for stack in plain["processes"][0]["stacks"]])
        self.assertNotIn("parser_failed", [warning["code"] for warning in got["warnings"]])

    def assert_cut(self, got, left, seconds="1.4"):
        self.assert_whole(got)
        self.assertIn(f"cannot read the symbols of {self.path}: the debug file by build id not used: its download "
                      "exceeds " + seconds + " s (see --timeout), or what all of a run have: 200 MB",
                      [warning["message"] for warning in got["warnings"]])
        self.assertEqual(left, {})

    def test_without_an_end(self):
        for behave in None, silence, drip, flood, announce, bomb:
            with self.subTest(behave and behave.__name__):
                self.assert_cut(*self.look(behave))

    def test_beside_others(self):
        """A server that does not send one file may send another."""
        path = self.build("-g")
        debug = self.split(path, link=False)
        good, other = build_id_of(path), self.program([path])
        with open(debug, "rb") as file:
            data = file.read()
        def some(connection, request):
            if good.encode() not in request:
                silence(connection, request)
            else:
                connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.some = some
        got = self.json("--debuginfod", "-p", self.victim_.pid, "-p", other.pid, status=(0, 1), timeout=60,
                        env={"DEBUGINFOD_URLS": self.start(some), "DEBUGINFOD_CACHE_PATH": self.scratch(),
                             "HOME": self.scratch()})
        stack, = processes(got)[other.pid]["stacks"]
        self.assert_calls(stack, *CHAIN)

    def test_packed_answers_end_by_their_size(self):
        for _ in range(4):
            self.assert_cut(*self.look(bomb, "--timeout", 60000), seconds="7.5")

    def test_that_lead_in_a_circle(self):
        self.assert_whole(self.look(redirect)[0])

    def test_of_something_else(self):
        for behave, why in ((heads, "cannot download the debug file of build id "), (other_file, "its build id differs")):
            with self.subTest(behave.__name__):
                got, _ = self.look(behave)
                self.assertRegex("\n".join(warning["message"] for warning in got["warnings"]),
                                 f"cannot read the symbols of {self.path}: the debug file by build id not used: {why}")
