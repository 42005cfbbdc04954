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

from harness import Case, DEADLINE, PATIENCE, TARGETS, Victim, check_counts, check_schema, need_root, processes, \
    tids_of, wait_until
from serving import HalfOpen, Server


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

    def test_head_has_the_headers_alone(self):
        """Of a page that is the same twice, the length too."""
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid, "--max-stopped", "100")
        for path in ("/", "/metrics", "/debug/pprof", "/debug/pprof/", "/debug/pprof/profile?seconds=1",
                     "/debug/pprof/threads", "/processes", "/snapshot.json", "/recording?seconds=1", "/nowhere"):
            whole, head = server.ask(path), server.ask(path, method="HEAD")
            self.assertEqual((head.status, head.body), (whole.status, b""), path)
            self.assertEqual(list(head.headers), list(whole.headers), path)
            self.assertEqual(head.headers["Content-Type"], whole.headers["Content-Type"], path)
            self.assertGreater(int(head.headers["Content-Length"]), 0, path)
            if path in ("/", "/debug/pprof", "/debug/pprof/", "/nowhere"):
                self.assertEqual(int(head.headers["Content-Length"]), len(whole.body), path)
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
        # An answer may be a second old.
        wait_until(lambda: list(processes(json.loads(server.ask("/snapshot.json").text))) == [second], "the second")

    def test_a_number_that_is_used_again(self):
        """Another process that has it later is not served, and neither are its descendants."""
        victim = self.victim("reuse")
        server = self.serve("-p", victim.pid)
        self.assertEqual(server.ask("/snapshot.json").status, 200)
        victim.tell()
        self.assertEqual(victim.read_line(), "again\n")
        for page in ("/snapshot", "/recording.json?seconds=1", f"/snapshot?target={victim.pid}", "/debug/pprof/threads"):
            got = server.ask(page)
            self.assertEqual(got.status, 404, got)
        self.assertIn("has ended; another one has its number now", server.ask("/snapshot").text)
        self.assertEqual(server.metrics()["stacksnap_snapshots_total"], 1)
        self.assert_ends(server)

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
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"):
            got = server.ask("/snapshot", method=method)
            self.assertEqual(got.status, 405, got)
            self.assertEqual(got.headers["Allow"], "GET, HEAD")
        self.assert_refused(server.ask("/snapshot", body=b"x"), 400)
        got = server.metrics()
        self.assertEqual(got["stacksnap_snapshots_total"], 0)
        self.assertGreater(got['stacksnap_requests_refused_total{reason="malformed"}'], 15)
        self.assert_ends(server)

    def test_names_and_pages_of_other_sites(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        port = server.port
        for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", f"[::1]:{port}"):
            self.assertEqual(server.ask("/metrics", {"Host": host}).status, 200, host)
        for host, status in (("evil.example", 421), (f"evil.example:{port}", 421), ("localhost.evil.example", 421),
                             ("127.0.0.1.evil.example", 421), (socket.gethostname(), 421), ("10.1.2.3", 421), ("", 400),
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

    def test_names_that_are_given(self):
        path = os.path.join(self.scratch(), "token")
        with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("0123456789abcdef\n")
        pid = self.victim("threads", "sleep:1:worker").pid
        server = self.serve("--token-file", path, "-p", pid, "--host", "web-1:80", "--host", "[fd00::1]", place="0.0.0.0:0")
        wanted = {"Authorization": "Bearer 0123456789abcdef"}
        for here, host, status in (("127.0.0.1", "WEB-1", 200), ("127.0.0.1", "[fd00::1]:6099", 200),
                                   ("127.0.0.1", "localhost", 200), ("127.0.0.1", "evil.example", 421),
                                   ("127.0.0.1", "web-1.evil.example", 421), ("127.0.0.1", "127.0.0.2", 421),
                                   ("127.0.0.2", "127.0.0.2", 200), ("127.0.0.1", "0.0.0.0", 421)):
            server.host = here
            self.assertEqual(server.ask("/metrics", {"Host": host, **wanted}).status, status, (here, host))
        self.assert_ends(server)
        for host in ("", "a:b", "http://web-1/", "::1"):
            self.assertIn("--host", self.run_tool("serve", "--host", host, "-p", pid, status=64).err)

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

    def test_a_token_behind_a_link_of_another_user(self):
        """The link would choose which of the caller's files is the token."""
        need_root()
        pid = self.victim("threads", "sleep:1:worker").pid
        folder = self.scratch()
        path, link = os.path.join(folder, "token"), os.path.join(folder, "link")
        with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("0123456789abcdef\n")
        os.symlink(path, link)
        self.serve("--token-file", link, "-p", pid)
        os.lchown(link, 65534, 65534)
        got = self.run_tool("serve", "--token-file", link, "-p", pid, status=2)
        self.assertIn("cannot read", got.err)
        self.assertIn("(link) belongs to another user", got.err)
        os.unlink(link)
        os.symlink(folder, link)
        os.lchown(link, 65534, 65534)
        got = self.run_tool("serve", "--token-file", os.path.join(link, "token"), "-p", pid, status=2)
        self.assertIn("(link) belongs to another user", got.err)
        os.chown(path, 65534, 65534)
        got = self.run_tool("serve", "--token-file", path, "-p", pid, status=2)
        self.assertIn("belongs to another user", got.err)

    def test_usage(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        self.assertIn("no target", self.run_tool("serve", status=64).err)
        self.assertIn("--token-file", self.run_tool("serve", "--listen", "0.0.0.0:0", "-p", pid, status=64).err)
        self.assertIn("--token-file", self.run_tool("serve", "--listen", "[::]:0", "-p", pid, status=64).err)
        for place in ("6099", "localhost", "example.org:80", ":80", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                      "[::1:80", "unix:", "unix:" + "x" * 200, "/run/x.sock"):
            self.run_tool("serve", "--listen", place, "-p", pid, status=64)
        self.run_tool("serve", "--json", "-p", pid, status=64)

    def test_malformed_requests(self):
        """An answer of 4xx or 5xx, or a closed connection, to each within two seconds; and the server goes on."""
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        pick = random.Random(7)
        for first in range(0, 320, 40):
            sent = []
            for number in range(first, first + 40):
                client = server.connect(2 * PATIENCE)
                self.addCleanup(client.close)
                request, is_half = malformed(pick, number)
                sent.append((client, request))
                try:
                    client.sendall(request)
                    if is_half:
                        client.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it is closed already
            for client, request in sent:
                self.check_refusal(client, request)
        self.assertEqual(server.ask("/snapshot").status, 200)
        self.assertEqual(server.metrics()["stacksnap_snapshots_total"], 1)
        self.assert_ends(server)

    def test_a_nul_anywhere_in_a_request(self):
        """libmicrohttpd 0.9 ends each text there: the name, the token or the page before it would count alone."""
        path = os.path.join(self.scratch(), "token")
        with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("0123456789abcdef\n")
        server = self.serve("--token-file", path, "-p", self.victim("threads", "sleep:1:worker").pid)
        whole = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\nX: y\r\n\r\n"
        self.assertIn(b" 200 ", self.first_line(server, whole))
        places = [b"GET", b"GET /", b"HTTP/1.1", b"Host", b"localhost", b"Bearer", b"abcdef", b"X", b"y", b"y\r\n"]
        for place in places:
            for more in (b"\0", b"\0.evil.example"):
                request = whole.replace(place, place + more, 1)
                self.assertIn(b" 400 ", self.first_line(server, request), request)
        self.assertEqual(server.metrics({"Authorization": "Bearer 0123456789abcdef"})[
            'stacksnap_requests_refused_total{reason="malformed"}'], 2 * len(places))
        self.assert_ends(server)

    def first_line(self, server, request):
        with server.connect() as client:
            client.sendall(request)
            return client.recv(65536).split(b"\r\n")[0]

    def test_what_never_becomes_a_request(self):
        """Its client waits: an answer or the end comes within two seconds."""
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        for request in (bytes.fromhex("16030100a5010000a10303") + b"\x42" * 155, b"GET / HTTP/1.1\rHost: localhost\r\r",
                        bytes(100), b"\xff\x00\x01" * 666, b"\xff\x02\x01" * 666, b"GET / HT", b"\r\n" * 20000,
                        b"GET / HTTP/1.1\r\nHost: localhost\r\n"):
            with server.connect(2 * PATIENCE) as client:
                client.sendall(request)
                self.check_refusal(client, request)
        self.assertEqual(server.ask("/snapshot").status, 200)
        self.assert_ends(server)

    def check_refusal(self, client, request):
        got = b""
        try:
            while some := client.recv(65536):
                got += some
        except ConnectionError:
            pass
        except TimeoutError:
            self.fail(f"no answer in time: {request[:300]} … {len(request)} bytes")
        client.close()
        self.assertTrue(not got or re.match(rb"HTTP/1\.[01] [45]\d\d ", got), (request, got[:200]))


def malformed(pick, number):
    """Bytes that are no request of ours, of many kinds, and whether no more of them will come: then the client says
    that it is done, while otherwise its side stays open. What could still become a request is a slow client's."""
    noise = bytes(pick.randrange(256) for _ in range(pick.randrange(1, 300)))
    path = "/" + "".join(chr(pick.randrange(33, 127)) for _ in range(pick.randrange(1, 40))).replace("?", "!")
    parameters = "&".join([pick.choice(("a=1", "a", "=", "a=%61"))] * pick.randrange(10, 6000))
    host = "Host: localhost\r\n\r\n"
    line = "GET /snapshot HTTP/1.1\r\n"
    chunked = f"Transfer-Encoding: chunked\r\n{host}"
    whole = [noise + b"\n\r\n\r\n",
             b"GET " + noise + b" HTTP/1.1\r\n" + host.encode(),
             f"GET {path} HTTP/1.1\r\n{host}",
             f"GET /snapshot?{path[1:]} HTTP/1.1\r\n{host}",
             f"GET /snapshot?{parameters} HTTP/1.1\r\n{host}",
             f"GET /snapshot?target=%{pick.choice(('', '4', 'zz', '00', 'g1'))} HTTP/1.1\r\n{host}",
             f"GET /snapshot HTTP/{pick.randrange(2, 99)}.{pick.randrange(99)}\r\n{host}",
             f"{line}X: {'y' * pick.randrange(17000, 40000)}\r\n{host}",
             line + "X: y\r\n" * pick.randrange(1000, 9000) + host,
             f"{line}no colon here\r\n{host}",
             f"{line} folded at once\r\n{host}",
             f"{line}Cookie: {'a=1;' * pick.randrange(2000, 9000)}\r\n{host}",
             line + "\r\n",
             f"{line}Host: localhost\r\nHost: evil.example\r\n\r\n",
             f"{line}Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n{host}",
             f"{line}Host: {path}\r\n\r\n",
             f"GET http://localhost{path} HTTP/1.1\r\n{host}",
             f"{line}Content-Length: {pick.choice((-1, 'x', pick.randrange(1, 10**20)))}\r\n{host}",
             f"{line}{chunked}{pick.choice(('zz', '', '-1', 'f' * 30))}\r\nx\r\n",
             f"POST /snapshot HTTP/1.1\r\n{chunked}5\r\nx",
             f"{pick.choice(('PUT', 'FOO', 'get', 'CONNECT', 'OPTIONS'))} * HTTP/1.1\r\n{host}",
             f"GET /snapshot\r\n{host}",
             f"GET\t/snapshot\tHTTP/1.1\r\n{host}",
             f"GET\r\n{host}"]
    half = [noise.replace(b"\n", b"_"),
            f"{line}{host}"[:pick.randrange(len(line + host) - 1)],
            f"GET /snapshot?{parameters}",
            "\r\n" * pick.randrange(50),
            bytes.fromhex("16030100a5010000a10303") + bytes(160)]
    kinds = whole + half
    kind = number % len(kinds)
    request = kinds[kind]
    return request if isinstance(request, bytes) else request.encode(), kind >= len(whole)


class Heads(Serve):
    asan = True

    def test_polite_clients_beside_half_open_ones(self):
        """200, or more than there is room for, which come again at once: no other client waits for them."""
        pid = self.victim("threads", "sleep:1:worker").pid
        path = os.path.join(self.scratch(), "socket")
        for place, count in (("127.0.0.1:0", 200), ("127.0.0.1:0", 400), ("unix:" + path, 400)):
            server = self.serve("-p", pid, place=place)
            with HalfOpen(server, count) as others:
                wait_until(lambda: others.ended > count, "half a request to be cut")
                for number in range(8):
                    begin = time.monotonic()
                    got = server.ask_once(("/metrics", "/processes")[number % 2])
                    self.assertEqual(got.status, 200, got)
                    self.assertLess(time.monotonic() - begin, 2 * PATIENCE)
                got = server.metrics()
            self.assertGreater(got["stacksnap_connections_cut_total"], 200)
            self.assertEqual(got['stacksnap_requests_refused_total{reason="malformed"}'], 0)
            self.assert_ends(server)

    def test_a_request_in_pieces(self):
        pid = self.victim("threads", "sleep:1:worker").pid
        for place in ("127.0.0.1:0", "unix:" + os.path.join(self.scratch(), "socket")):
            server = self.serve("-p", pid, place=place)
            for request in (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
                            b"\r\n\r\nGET /metrics HTTP/1.1\r\nX: " + b"y" * 8000 + b"\r\nHost: localhost\r\n\r\n"):
                with server.connect() as client:
                    size = -(-len(request) // 20)
                    for i in range(0, len(request), size):
                        client.sendall(request[i:i + size])
                        time.sleep(0.005)
                    self.assertIn(b" 200 ", client.recv(65536))
            self.assert_ends(server)


class Limits(Serve):
    def test_too_many_at_once(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        clients = [self.begin_recording(server, hz) for hz in range(1, 5)]
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

    def begin_recording(self, server, hz=1):
        client = server.connect()
        self.addCleanup(client.close)
        client.sendall(b"GET /recording?seconds=60&hz=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % hz)
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
        wait_until(lambda: time.monotonic() - begin > 1.5, "the answer to be of no use")
        return first if self.switches(server) == first else None

    def test_memory_and_descriptors_stay(self):
        server = self.serve("-p", self.victim("threads", "sleep:20:worker").pid)
        # Three, its socket, those of its loop, and the connection that asks. The loop has three, or four since
        # libmicrohttpd 1.0.
        least = server.metrics()["process_open_fds"]
        self.assertIn(least, (8, 9))
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


class Shares(Serve):
    """What all requests share, whichever users they are of."""

    def send(self, server, path):
        client = server.connect()
        self.addCleanup(client.close)
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return client

    def read(self, client):
        got = b""
        while some := client.recv(65536):
            got += some
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def test_a_look_is_for_all_who_ask_for_the_same(self):
        server = self.serve("-p", self.victim("threads", "sleep:50:worker").pid)
        begin = time.monotonic()
        clients = [self.send(server, "/snapshot.json") for _ in range(32)]
        answers = [self.read(client) for client in clients]
        seconds = time.monotonic() - begin
        self.assertEqual({status for status, _ in answers}, {200})
        taken = server.metrics()["stacksnap_snapshots_total"]
        self.assertLessEqual(taken, 1 + int(seconds))
        self.assertEqual(len({body for _, body in answers}), taken)
        # A client that goes away takes the answer from no other.
        recordings = [self.send(server, "/recording.json?seconds=2&hz=20") for _ in range(3)]
        wait_until(lambda: server.metrics()["stacksnap_running"] == 1, "one recording")
        recordings.pop().close()
        self.assertEqual([self.read(client)[0] for client in recordings], [200, 200])
        got = server.metrics()
        self.assertEqual((got["stacksnap_recordings_total"], got["stacksnap_cancelled_total"]), (1, 0))
        self.assert_ends(server)

    def test_what_was_seen_is_not_shown_later(self):
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid)
        first = server.ask("/snapshot.json").text
        self.assertEqual(server.metrics()["stacksnap_snapshots_total"], 1)
        wait_until(lambda: server.ask("/snapshot.json").text != first, "a new snapshot")
        self.assertEqual(server.metrics()["stacksnap_snapshots_total"], 2)
        self.assert_ends(server)

    def test_clients_in_loops(self):
        """Four that ask for one target in four ways stop it for 3 % of the time, by what the server counts."""
        pid = self.victim("threads", "sleep:400:worker:20").pid
        server = self.serve("-p", pid, tool=self.without_bpf())
        paths = ["/snapshot.json", "/snapshot.txt", "/snapshot.pb.gz", f"/snapshot.json?target={pid}"]
        begin = time.monotonic()
        seen, stops = set(), 0
        while stops < 6:
            for client in [self.send(server, path) for path in paths]:
                seen.add(self.read(client)[0])
            stops = server.metrics()["stacksnap_stop_seconds_count"]
        got = server.metrics()
        seconds = time.monotonic() - begin
        self.assertLessEqual(seen, {200, 503})
        # The last of them are not yet waited off: each target has one at a time, and there are two.
        longest = max([got["stacksnap_stop_seconds_sum"] / stops] + [
            float(edge) for edge, low, high in buckets(got) if high > low])
        self.assertLessEqual(got["stacksnap_stop_seconds_sum"] - 2 * longest, 0.03 * seconds)
        self.assert_ends(server)

    def test_snapshots_beyond_the_share_come_later(self):
        """A stop that takes long, and a small share: the next one is refused, and says when it would not be."""
        pid = self.victim("threads", "sleep:1000:worker:20").pid
        server = self.serve("-p", pid, "--max-stopped", "0.1", tool=self.without_bpf())
        self.assertEqual(server.ask("/snapshot.json").status, 200)
        client = self.send(server, "/snapshot.txt")
        head = client.recv(1 << 16).decode()
        stopped = server.metrics()["stacksnap_stop_seconds_sum"]
        self.assertGreater(stopped, 0.005)
        self.assertTrue(head.startswith("HTTP/1.1 503 "), head)
        wait = int(re.search(r"Retry-After: (\d+)", head).group(1))
        self.assertLessEqual(wait, stopped * 1000 + 1)
        self.assertGreaterEqual(wait, 5)
        self.assertEqual(server.ask("/processes").status, 200)
        self.assert_ends(server)

    def test_recordings_together_keep_to_the_share(self):
        server = self.serve("-p", self.victim("threads", "spin:4:busy", running=4).pid)
        clients = [self.send(server, f"/recording.json?seconds=3&hz={hz}") for hz in range(997, 1001)]
        stopped, begin = 0, time.monotonic()
        for client in clients:
            status, body = self.read(client)
            self.assertEqual(status, 200, body)
            stopped += json.loads(body)["recording"]["stopped_percent"]
        self.assertLessEqual(stopped, 3.0)
        self.assertLess(time.monotonic() - begin, 60)
        self.assert_ends(server)

    def test_slow_readers_take_no_more_memory(self):
        """48 that read nothing, with answers of megabytes. What is held for them has a limit, and they give way."""
        server = self.serve("-p", self.victim("threads", "sleep:1500:worker:30").pid, "--per-thread", "--max-stopped",
                            "100", "--timeout", "20s")
        size = len(server.ask("/snapshot.json").body)
        self.assertGreater(48 * size, 400 << 20)
        readers, most = [], 0
        formats = ["json", "html", "jsonl"]
        for number in range(48):
            readers.append(self.send(server, f"/snapshot.{formats[number % 3]}"))
            wait_until(lambda: server.metrics()["stacksnap_running"] == 0, "an answer to be made")
            most = max(most, held(server.pid))
        self.assertLessEqual(most, 96 << 20)
        with open(f"/proc/{server.pid}/status") as f:
            self.assertLess(int(re.search(r"VmHWM:\s*(\d+)", f.read()).group(1)) << 10, 64 << 20)
        # They give way to the next one, as they have read for some seconds.
        wait_until(lambda: server.ask("/snapshot.txt").status == 200, "room for another")
        for reader in readers:
            reader.close()
        wait_until(lambda: held(server.pid) == 0, "the answers to be forgotten")
        self.assert_ends(server)


def buckets(metrics):
    """(upper end, count below, count up to it) of the finite buckets of stops."""
    rows = sorted((float(edge), count) for name, count in metrics.items()
                  for edge in re.findall(r'stop_seconds_bucket\{le="([\d.]+)"\}', name))
    low = 0
    for edge, count in rows:
        yield edge, low, count
        low = count


def held(pid):
    """Bytes of answers that the process holds, each counted once."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            path = f"/proc/{pid}/fd/{name}"
            if "memfd:" in os.readlink(path):
                status = os.stat(path)
                found[status.st_ino] = status.st_size
        except OSError:
            pass
    return sum(found.values())


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

    def test_a_path_with_a_link_of_another_user(self):
        """The link would choose where the socket is made, and what of a dead server is replaced."""
        need_root()
        pid = self.victim("threads", "sleep:1:worker").pid
        folder = os.path.join(self.scratch(), "folder")
        os.mkdir(folder)
        for name, target in (("link", folder), ("name", os.path.join(folder, "other"))):
            link = folder + "-" + name
            os.symlink(target, link)
            place = os.path.join(link, "socket") if name == "link" else link
            server = self.serve("-p", pid, place="unix:" + place)
            self.assertEqual(server.url, "unix:" + place)
            self.assertEqual(server.ask("/metrics").status, 200)
            self.assert_ends(server)
            self.assertEqual(os.listdir(folder), [])
            os.lchown(link, 65534, 65534)
            got = self.run_tool("serve", "--listen", "unix:" + place, "-p", pid, status=2)
            self.assertIn("cannot listen on", got.err)
            self.assertIn("belongs to another user", got.err)
            self.assertEqual(os.listdir(folder), [])

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
