# SPDX-License-Identifier: LGPL-2.1-or-later
"""`stacksnap serve` as tests use it: started, asked, and ended with whatever happens."""
import http.client
import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time

from harness import DEADLINE, PATIENCE, SANITIZER, TOOL, Timeout, clean_environment, note_options


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode("utf-8", errors="replace")

    def __repr__(self):
        return f"{self.status} {dict(self.headers)}\n{self.text[:3000]}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """Ready when it is made. `place` is said with --listen; None: it is said in another way."""

    def __init__(self, *argv, place="127.0.0.1:0", command=(), tool=TOOL, **popen):
        note_options(["serve", "--listen", *argv])
        listen = ["--listen", place] if place else []
        popen.setdefault("env", clean_environment())
        self.process = subprocess.Popen([*command, tool, "serve", *listen, *map(str, argv)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, start_new_session=True, **popen)
        self.err = ""
        try:
            self.url = re.search(r"serving on (\S+)", self.wait_for_line("serving on")).group(1)
        except BaseException:
            self.close()
            raise
        self.pid = self.process.pid
        found = re.match(r"http://(\S+):(\d+)/", self.url)
        self.host, self.port = (found.group(1), int(found.group(2))) if found else (None, None)

    def wait_for_line(self, wanted):
        end = time.monotonic() + DEADLINE
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while wanted not in self.err:
                if not selector.select(max(0, end - time.monotonic())):
                    raise Timeout(f"no {wanted!r} from serve: {self.err!r}")
                some = os.read(self.process.stderr.fileno(), 65536)
                if not some:
                    raise AssertionError(f"serve ended: {self.err!r}")
                self.err += some.decode(errors="replace")
        return self.err

    def connect(self, timeout=None):
        """A socket."""
        timeout = timeout or DEADLINE
        if self.port:
            return socket.create_connection((self.host, self.port), timeout=timeout)
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(timeout)
        client.connect(self.url.removeprefix("unix:"))
        return client

    def ask(self, *args, **options):
        """As a client does that comes again where targets may not be stopped just now."""
        got = self.ask_once(*args, **options)
        end = time.monotonic() + DEADLINE
        while got.status == 503 and "--max-stopped" in got.text and time.monotonic() < end:
            time.sleep(int(got.headers["Retry-After"]))
            got = self.ask_once(*args, **options)
        return got

    def ask_once(self, path, headers=None, method="GET", body=None):
        if self.port:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE + 30 * PATIENCE)
        else:
            connection = UnixConnection(self.url.removeprefix("unix:"), DEADLINE)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            got = connection.getresponse()
            return Answer(got.status, got.headers, got.read())
        finally:
            connection.close()

    def metrics(self, headers=None):
        """name or name{labels} -> value"""
        got = self.ask("/metrics", headers)
        assert got.status == 200, got
        return {name: float(value) for name, value in
                re.findall(r"^([^#\s]\S*) (\S+)$", got.text, re.M)}

    def end(self, number=signal.SIGTERM):
        """Tells it to end; its exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        _, rest = self.process.communicate(timeout=DEADLINE)
        self.err += rest.decode(errors="replace")
        if SANITIZER.search(self.err):
            raise AssertionError(self.err)
        return self.process.returncode

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
        self.process.stderr.close()


class HalfOpen:
    """Clients with half a request each. One that is disconnected comes again at once."""

    def __init__(self, server, count):
        self.server, self.count, self.ended, self.is_over = server, count, 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()

    def connect(self, selector):
        client = self.server.connect()
        selector.register(client, selectors.EVENT_READ)
        try:
            client.sendall(b"GET / HT")
        except OSError:
            pass  # it has ended already, as the selector will say

    def run(self):
        with selectors.DefaultSelector() as selector:
            for _ in range(self.count):
                self.connect(selector)
            while not self.is_over:
                for key, _ in selector.select(0.1):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self.ended += 1
                    self.connect(selector)
            for key in list(selector.get_map().values()):
                key.fileobj.close()
