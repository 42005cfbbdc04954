# SPDX-License-Identifier: LGPL-2.1-or-later
"""`stacksnap serve`: its pages, who may ask and how much, what happens to clients that are slow, wrong or gone, and
its end. What reads profiles and metrics reads them: test_serve_clients.py."""
import gzip
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import time

from harness import Case, DEADLINE, TARGETS, Victim, check_counts, check_schema, processes, tids_of, wait_until
from serving import Server


class Serve(Case):
    def serve(self, *argv, **options):
        server = Server(*argv, **options)
        self.addCleanup(server.close)
        return server

    def assert_refused(self, got, status, word=""):
        self.assertEqual(got.status, status, got)
        self.assertIn(word, got.text, got)
        self.assertIn("text/plain", got.headers["Content-Type"], got)

    def assert_ends(self, server, number=signal.SIGTERM):
        self.assertEqual(server.end(number), 0, server.err)
        for victim in self.victims:
            self.assert_free(victim.pid)


class Pages(Serve):
    asan = True

    def test_snapshots_by_suffix_and_by_accept(self):
        pid = self.victim("threads", "sleep:3:worker").pid
        server = self.serve("-p", pid)
        for path, accept, kind in (("/snapshot", None, "text"), ("/snapshot", "*/*", "text"),
                                   ("/snapshot.txt", "application/json", "text"), ("/snapshot.json", None, "json"),
                                   ("/snapshot", "application/json", "json"),
                                   ("/snapshot", "text/plain;q=0.5, application/json", "json"),
                                   ("/snapshot", "image/png, text/*;q=0.1", "text"),
                                   ("/snapshot", "application/octet-stream", "pprof"),
                                   ("/snapshot.pb.gz", None, "pprof")):
            got = server.ask(path, {"Accept": accept} if accept else None)
            self.assertEqual(got.status, 200, (path, got))
            self.assertEqual(got.headers["Stacksnap-Outcome"], "whole", (path, got))
            self.assertEqual(got.headers["X-Content-Type-Options"], "nosniff")
            self.assertIsNone(got.headers["Access-Control-Allow-Origin"])
            if kind == "json":
                doc = json.loads(got.text)
                check_schema(doc)
                check_counts(doc)
                self.assertEqual(processes(doc)[pid]["thread_count"], 4)
            elif kind == "pprof":
                self.assertIn(b"worker", gzip.decompress(got.body))
            else:
                self.assertRegex(got.text, r"worker-?\*?")
                self.assertNotIn("\x1b", got.text)
        self.assert_ends(server)

    def test_a_recording_has_what_was_asked_for(self):
        server = self.serve("-p", self.victim("threads", "spin:1:busy", running=1).pid, "--max-stopped", "100")
        got = server.ask("/recording.json?seconds=1&hz=50")
        self.assertEqual(got.status, 200, got)
        self.assertEqual(json.loads(got.text)["recording"]["hz_asked"], 50)
        got = server.metrics()
        self.assertEqual(got["stacksnap_recordings_total"], 1)
        self.assertGreater(got["stacksnap_ticks_total"], 0)
        self.assert_ends(server)

    def test_processes_and_lists(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        server = self.serve("-p", pid)
        doc = json.loads(server.ask("/processes").text)
        self.assertEqual(list(processes(doc)), [pid])
        self.assertIn(str(pid), server.ask("/processes.txt").text)
        home = server.ask("/")
        self.assertIn("text/html", home.headers["Content-Type"])
        self.assertIn(f"/snapshot.json?target={pid}", home.text)
        self.assertIn("default-src 'none'", home.headers["Content-Security-Policy"])
        index = server.ask("/debug/pprof/?target=" + str(pid))
        self.assertIn(f"/debug/pprof/profile?target={pid}", index.text)
        got = server.ask("/debug/pprof")
        self.assertEqual((got.status, got.headers["Location"]), (301, "/debug/pprof/"))
        self.assert_ends(server)

    def test_texts_of_threads_as_go_prints_them(self):
        pid = self.victim("threads", "sleep:3:worker").pid
        server = self.serve("-p", pid)
        counts = server.ask("/debug/pprof/threads?debug=1").text
        self.assertTrue(counts.startswith("threads profile: total 4\n"), counts)
        self.assertEqual(sum(int(n) for n in re.findall(r"^(\d+) @(?: 0x[0-9a-f]+)+$", counts, re.M)), 4, counts)
        self.assertRegex(counts, r'(?m)^# labels: \{"pid":"%d", "process":"threads".*\}$' % pid)
        self.assertRegex(counts, r"(?m)^#\t0x[0-9a-f]+\twait_sleep\t\S+threads\.c:\d+$")
        dump = server.ask("/debug/pprof/threads?debug=2").text
        told = re.findall(r"^thread (\d+) \[sleeping, [^\]]* of threads %d\]:$" % pid, dump, re.M)
        self.assertEqual(sorted(map(int, told)), tids_of(pid), dump)
        self.assertRegex(dump, r"wait_sleep\(\.\.\.\)\n\t\S+threads\.c:\d+ pc=0x")
        self.assert_ends(server)

    def test_a_hostile_name_stays_text(self):
        path = os.path.join(self.scratch(), "<b>\"&'\x1b")
        shutil.copy(os.path.join(TARGETS, "threads"), path)
        server = self.serve("-p", self.program([path, "sleep:1:<i>"]).pid)
        got = server.ask("/")
        self.assertNotIn("<b>", got.text)
        self.assertNotIn("\x1b", got.text)
        self.assertIn("&lt;b&gt;&quot;&amp;&#39;\\x1b", got.text)
        self.assert_ends(server)


class Formats(Serve):
    level = "test"

    def test_every_format_of_the_help(self):
        server = self.serve("-p", self.victim("threads", "sleep:2:worker").pid)
        names = re.search(r"Formats.*?\n((?:  \S.*\n)+)", self.run_tool("help", "formats").text).group(1)
        suffixes = [words[1] for words in map(str.split, names.splitlines()) if words[1].startswith(".")]
        self.assertGreater(len(suffixes), 8)
        for suffix in suffixes:
            for page in ("/snapshot" + suffix, "/recording" + suffix + "?seconds=1&hz=20"):
                got = server.ask(page)
                self.assertEqual(got.status, 200, (page, got))
                self.assertTrue(got.body, page)
        self.assertIn(".html", suffixes)
        self.assert_refused(server.ask("/snapshot.htm"), 406)
        page = server.ask("/snapshot", {"Accept": "text/html, */*;q=0.8"})
        self.assertTrue(page.body.startswith(b"<!DOCTYPE html>"), page)
        self.assert_ends(server)


class Targets(Serve):
    def test_only_what_was_named_can_be_chosen(self):
        one = self.victim("threads", "sleep:1:one").pid
        other = self.victim("threads", "sleep:2:other").pid
        alien = self.victim("threads", "sleep:1:alien").pid
        server = self.serve("-p", f"{one},{other}")
        self.assertEqual(sorted(processes(json.loads(server.ask("/snapshot.json").text))), sorted((one, other)))
        got = server.ask(f"/snapshot.json?target={other}")
        self.assertEqual(list(processes(json.loads(got.text))), [other])
        for target in (alien, 1, os.getpid(), "orderd", "999999999", "0", "-1", "%2e%2e", "1" * 40):
            self.assert_refused(server.ask(f"/snapshot.json?target={target}"), 404, "target")
            self.assert_refused(server.ask(f"/recording.json?seconds=1&target={target}"), 404, "target")

    def test_a_descendant_can_be_chosen(self):
        family = self.victim("family")
        server = self.serve("-p", family.pid)
        tree = processes(json.loads(server.ask("/processes").text))
        child = next(pid for pid, node in tree.items() if node["name"] == "child-a")
        got = server.ask(f"/snapshot.json?target={child}")
        names = {node["name"] for node in processes(json.loads(got.text)).values()}
        self.assertEqual(names, {"child-a", "grand-a"})

    def test_names_are_looked_up_anew(self):
        path = os.path.join(self.scratch(), "unheard-of")
        shutil.copy(os.path.join(TARGETS, "threads"), path)
        server = self.serve("--name", "^unheard-of$")
        self.assertEqual(server.ask("/snapshot").status, 404)
        first = Victim([path, "sleep:1:worker"])
        self.addCleanup(first.close)
        for target in ("", "?target=%5eunheard-of%24", f"?target={first.pid}"):
            got = server.ask("/snapshot.json" + target)
            self.assertEqual(list(processes(json.loads(got.text))), [first.pid])
        first.close()
        self.assertEqual(server.ask("/snapshot").status, 404)
        second = self.program([path, "sleep:1:worker"]).pid
        self.assertEqual(list(processes(json.loads(server.ask("/snapshot.json").text))), [second])

    def test_options_hold_for_every_request(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:one", "pipe:1:two").pid, "--thread", "^one$")
        for _ in range(2):
            self.assertEqual(json.loads(server.ask("/snapshot.json").text)["thread_count"], 1)


class Refusals(Serve):
    asan = True

    def test_what_is_refused(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        for path, status in (("/nowhere", 404), ("/snapshot.json/", 406), ("/snapshotx", 404), ("/../etc/passwd", 404),
                             ("/snapshot/../metrics", 404), ("/%73napshot", 404),
                             ("//metrics", 404), ("/snapshot.doc", 406), ("/processes.folded", 406),
                             ("/snapshot?sekonds=1", 400), ("/snapshot?seconds=1", 400), ("/metrics?target=1", 400),
                             ("/recording?seconds=0", 400), ("/recording?seconds=61", 400),
                             ("/recording?seconds=1.5", 400), ("/recording?seconds=", 400),
                             ("/recording?seconds=+5", 400), ("/recording?seconds=-1", 400),
                             ("/recording?seconds=99999999999999999999", 400), ("/recording?hz=0", 400),
                             ("/recording?hz=1001", 400), ("/recording?mode=x", 400), ("/recording?seconds=1&seconds=1", 400),
                             ("/debug/pprof/threads?debug=3", 400), ("/snapshot?target=", 400),
                             ("/snapshot?target=%00", 400), ("/snapshot?target=%zz", 400), ("/snapshot?target=%", 400),
                             ("/snapshot?a&b&c&d&e&f&g&h&i&j", 400)):
            self.assert_refused(server.ask(path), status)
        self.assert_refused(server.ask("/snapshot", {"Accept": "image/png"}), 406)
        # libmicrohttpd 1.0.10 refuses that by itself, with a page of its own.
        self.assertIn(server.ask("/metrics%00").status, (400, 404))
        for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"):
            got = server.ask("/snapshot", method=method)
            self.assertEqual(got.status, 405, got)
            self.assertEqual(got.headers["Allow"], "GET")
        self.assert_refused(server.ask("/snapshot", body=b"x"), 400)
        got = server.metrics()
        self.assertEqual(got["stacksnap_snapshots_total"], 0)
        self.assertGreater(got['stacksnap_requests_refused_total{reason="malformed"}'], 15)
        self.assert_ends(server)

    def test_names_and_pages_of_other_sites(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        port = server.port
        for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", f"[::1]:{port}", "10.1.2.3"):
            self.assertEqual(server.ask("/metrics", {"Host": host}).status, 200, host)
        for host, status in (("evil.example", 421), (f"evil.example:{port}", 421), ("localhost.evil.example", 421),
                             ("127.0.0.1.evil.example", 421), (socket.gethostname() + ".evil.example", 421), ("", 400),
                             ("localhost:x", 400), ("[::1", 400), ("localhost:123456", 400), ("a" * 300, 400)):
            self.assert_refused(server.ask("/metrics", {"Host": host}), status)
        for name, value in (("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site"),
                            ("Sec-Fetch-Site", "same-site")):
            self.assert_refused(server.ask("/metrics", {name: value}), 403)
        for value in ("none", "same-origin"):
            self.assertEqual(server.ask("/metrics", {"Sec-Fetch-Site": value}).status, 200)
        self.assert_ends(server)

    def test_tokens(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        path = os.path.join(self.scratch(), "token")
        with open(path, "w") as f:
            f.write("0123456789abcdef\n")
        for mode in (0o640, 0o604, 0o620, 0o644):
            os.chmod(path, mode)
            got = self.run_tool("serve", "--token-file", path, "-p", pid, status=2)
            self.assertIn("others may read", got.err)
        os.chmod(path, 0o600)
        server = self.serve("--token-file", path, "-p", pid)
        for value in (None, "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
                      "Basic 0123456789abcdef", "0123456789abcdef", "Bearer 0123456789abcdeg", "Bearer " + "x" * 5000):
            got = server.ask("/metrics", {"Authorization": value} if value else None)
            self.assert_refused(got, 401)
            self.assertEqual(got.headers["WWW-Authenticate"], "Bearer")
        self.assertEqual(server.ask("/snapshot", {"Authorization": "Bearer 0123456789abcdef"}).status, 200)
        self.assert_ends(server)
        elsewhere = self.serve("--token-file", path, "-p", pid, place="0.0.0.0:0")
        elsewhere.host = "127.0.0.1"
        wanted = {"Authorization": "Bearer 0123456789abcdef"}
        for host, status in ((socket.gethostname(), 200), ("evil.example", 421), ("127.0.0.1", 200)):
            self.assertEqual(elsewhere.ask("/metrics", {"Host": host, **wanted}).status, status, host)
        self.assert_ends(elsewhere)

    def test_token_files_that_are_none(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        folder = self.scratch()
        for name, text in (("short", "x" * 15), ("empty", ""), ("long", "x" * 1025), ("spaces", "x y" * 10),
                           ("lines", "x" * 20 + "\n" + "y" * 20 + "\n"), ("binary", "\x01" * 20)):
            path = os.path.join(folder, name)
            with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(text)
            self.assertIn("token", self.run_tool("serve", "--token-file", path, "-p", pid, status=2).err)
        os.mkfifo(os.path.join(folder, "fifo"), 0o600)
        for name in ("fifo", "missing", "."):
            self.run_tool("serve", "--token-file", os.path.join(folder, name), "-p", pid, status=2)

    def test_usage(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        self.assertIn("no target", self.run_tool("serve", status=64).err)
        self.assertIn("--token-file", self.run_tool("serve", "--listen", "0.0.0.0:0", "-p", pid, status=64).err)
        self.assertIn("--token-file", self.run_tool("serve", "--listen", "[::]:0", "-p", pid, status=64).err)
        for place in ("6099", "localhost", "example.org:80", ":80", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                      "[::1:80", "unix:", "unix:" + "x" * 200, "/run/x.sock"):
            self.run_tool("serve", "--listen", place, "-p", pid, status=64)
        self.run_tool("serve", "--json", "-p", pid, status=64)

    def test_a_thousand_malformed_requests(self):
        """An answer of 4xx, or a closed connection, each; and the server goes on."""
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        pick = random.Random(7)
        for first in range(0, 1000, 50):
            sent = []
            for number in range(first, first + 50):
                client = server.connect()
                self.addCleanup(client.close)
                sent.append((client, malformed(pick, number)))
                try:
                    client.sendall(sent[-1][1])
                    client.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it is closed already
            for client, line in sent:
                self.check_refusal(client, line)
        self.assertEqual(server.ask("/snapshot").status, 200)
        self.assertEqual(server.metrics()["stacksnap_snapshots_total"], 1)
        self.assert_ends(server)

    def check_refusal(self, client, line):
        got = b""
        try:
            while b"\r\n\r\n" not in got and (some := client.recv(65536)):
                got += some
        except ConnectionError:
            pass
        client.close()
        self.assertTrue(not got or re.match(rb"HTTP/1\.[01] [45]\d\d ", got), (line, got[:200]))


def malformed(pick, number):
    """Bytes that are no request of ours, of ten kinds."""
    noise = bytes(pick.randrange(256) for _ in range(pick.randrange(1, 300)))
    path = "/" + "".join(chr(pick.randrange(33, 127)) for _ in range(pick.randrange(1, 40))).replace("?", "!")
    host = "Host: localhost\r\n\r\n"
    kinds = [lambda: noise + b"\r\n\r\n",  # a line that never ends is a slow client's
             lambda: b"GET " + noise + b" HTTP/1.1\r\n" + host.encode(),
             lambda: f"GET {path} HTTP/1.1\r\n{host}".encode(),
             lambda: f"GET /snapshot?{path[1:]} HTTP/1.1\r\n{host}".encode(),
             lambda: f"GET /snapshot HTTP/{pick.randrange(2, 99)}.{pick.randrange(99)}\r\n{host}".encode(),
             lambda: b"GET /snapshot HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * pick.randrange(17000, 40000) + b"\r\n\r\n",
             lambda: b"GET /snapshot HTTP/1.1\r\n\r\n",
             lambda: f"GET /snapshot HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".encode(),
             lambda: f"GET http://localhost{path} HTTP/1.1\r\n{host}".encode(),
             lambda: f"GET /snapshot HTTP/1.1\r\nContent-Length: {pick.randrange(1, 10**20)}\r\n{host}".encode()]
    return kinds[number % len(kinds)]()


class Limits(Serve):
    def test_too_many_at_once(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        clients = [self.begin_recording(server) for _ in range(4)]
        wait_until(lambda: server.metrics()["stacksnap_running"] == 4, "four recordings")
        got = server.ask("/snapshot")
        self.assert_refused(got, 429)
        self.assertIn(int(got.headers["Retry-After"]), range(1, 62))
        self.assertEqual(server.ask("/processes").status, 200)
        clients.pop().close()
        wait_until(lambda: server.ask("/snapshot").status == 200, "room for a snapshot")
        for client in clients:
            client.close()
        wait_until(lambda: server.metrics()["stacksnap_running"] == 0, "the recordings to end")
        got = server.metrics()
        self.assertEqual(got["stacksnap_cancelled_total"], 4)
        self.assertEqual(got["stacksnap_recordings_total"], 0)
        self.assert_ends(server)

    def begin_recording(self, server):
        client = server.connect()
        self.addCleanup(client.close)
        client.sendall(b"GET /recording?seconds=60&hz=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return client

    def test_it_ends_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve("-p", self.victim("threads", "spin:1:busy", running=1).pid)
            client = self.begin_recording(server)
            idle = server.connect()
            self.addCleanup(idle.close)
            wait_until(lambda: server.metrics()["stacksnap_running"] == 1, "a recording")
            server.process.send_signal(number)
            got = b""
            while some := client.recv(65536):
                got += some
            self.assertTrue(got.startswith(b"HTTP/1.1 503 "), got)
            self.assertEqual(server.wait(), 0, server.err)
            self.assertEqual(idle.recv(10), b"")

    def test_idle_it_does_not_wake_up(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        self.assertEqual(server.ask("/snapshot").status, 200)
        wait_until(lambda: len(tids_of(server.pid)) == 1, "its threads to end")
        before = wait_until(lambda: self.settled_switches(server), "the server to sleep")
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 3, "three seconds")
        self.assertEqual(self.switches(server), before)
        self.assert_ends(server)

    def switches(self, server):
        with open(f"/proc/{server.pid}/status") as f:
            return tuple(map(int, re.findall(r"ctxt_switches:\s*(\d+)", f.read())))

    def settled_switches(self, server):
        """The same for a moment: what the latest answer still had to do is done."""
        first, begin = self.switches(server), time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 0.3, "a moment")
        return first if self.switches(server) == first else None

    def test_memory_and_descriptors_stay(self):
        server = self.serve("-p", self.victim("threads", "sleep:20:worker").pid)
        # Three, its socket, those of its loop, and the connection that asks. The loop has two, or three since
        # libmicrohttpd 1.0.
        least = server.metrics()["process_open_fds"]
        self.assertIn(least, (7, 8))
        for _ in range(60):
            self.assertEqual(server.ask("/snapshot.json").status, 200)
        before = server.metrics()
        for number in range(120):
            page = ("/snapshot.json", "/snapshot.pb.gz", "/processes", "/", "/nowhere",
                    "/debug/pprof/threads?debug=2")[number % 6]
            self.assertEqual(server.ask(page).status, 404 if page == "/nowhere" else 200)
        # The connection of the request before may be closed a moment later.
        wait_until(lambda: server.metrics()["process_open_fds"] <= least, "descriptors to be closed")
        after = server.metrics()
        self.assertLess(after["process_resident_memory_bytes"], before["process_resident_memory_bytes"] + (4 << 20))
        self.assert_ends(server)


class Slow(Serve):
    level = "test"

    def test_slow_clients_are_cut(self):
        """One that says nothing, one whose request never ends, one that does not read a large answer."""
        # Of a fixed size are the buffers of unix sockets alone.
        place = "unix:" + os.path.join(self.scratch(), "socket")
        server = self.serve("-p", self.victim("threads", "sleep:400:worker").pid, "--per-thread", place=place)
        whole = len(server.ask("/snapshot.json").body)
        silent, drip, deaf = (server.connect() for _ in range(3))
        for client in (silent, drip, deaf):
            self.addCleanup(client.close)
        drip.sendall(b"GET /snapshot HTTP/1.1\r\n")
        deaf.sendall(b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = 0.0

        def are_cut():
            """The first had no request, which is what is counted; it sees the end itself. The second says so
            little that its headers are not too long before."""
            nonlocal said
            if time.monotonic() - said > 0.5:
                said = time.monotonic()
                try:
                    drip.sendall(b"X: y\r\n")
                except OSError:
                    pass
            return server.metrics()["stacksnap_connections_cut_total"] >= 2

        wait_until(are_cut, "two requests to be cut", 90)
        self.assertEqual(silent.recv(1), b"")
        got = 0
        while some := deaf.recv(65536):
            got += len(some)
        self.assertLess(got, whole)
        self.assert_ends(server)


class Places(Serve):
    def test_a_port_that_is_taken(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            place = "127.0.0.1:%d" % taken.getsockname()[1]
            got = self.run_tool("serve", "--listen", place, "-p", pid, status=2)
        self.assertIn("Address already in use", got.err)

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"kernel: no IPv6: {error}")
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid, place="[::1]:0")
        self.assertRegex(server.url, r"http://\[::1\]:\d+/")
        server.host = "::1"
        self.assertEqual(server.ask("/snapshot", {"Host": "[::1]"}).status, 200)

    def test_a_unix_socket(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        path = os.path.join(self.scratch(), "socket")
        server = self.serve("-p", pid, place="unix:" + path, umask=0)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(server.ask("/snapshot", {"Host": "whatever"}).status, 200)
        got = self.run_tool("serve", "--listen", "unix:" + path, "-p", pid, status=2)
        self.assertIn("in use", got.err)
        self.assertEqual(server.ask("/snapshot").status, 200)
        server.close()
        self.assertTrue(os.path.exists(path))
        again = self.serve("-p", pid, place="unix:" + path)
        self.assertEqual(again.ask("/snapshot").status, 200)
        self.assert_ends(again)
        self.assertFalse(os.path.exists(path))
        with open(path, "w") as f:
            f.write("precious")
        self.run_tool("serve", "--listen", "unix:" + path, "-p", pid, status=2)
        self.assertTrue(os.path.isfile(path))

    def test_a_socket_of_a_service_manager(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        with socket.socket() as passed:
            passed.bind(("127.0.0.1", 0))
            passed.listen()
            port = passed.getsockname()[1]
            shell = f"exec 3<&{passed.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\""
            server = self.serve("-p", pid, place=None, command=["sh", "-c", shell, "sh"], pass_fds=[passed.fileno()])
        self.assertEqual(server.port, port)
        self.assertEqual(server.ask("/snapshot").status, 200)
        self.assert_ends(server)


if __name__ == "__main__":
    import unittest
    unittest.main()
