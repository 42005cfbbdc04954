#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Notes is a service as those made with a small web framework, on a bad day: a request holds the lock of the
database while the mail server does not answer, and all who write wait behind it; a worker computes, the others
have nothing to do; readers of the feed wait for news, in one event loop.

Made for being looked at from outside: it says when all are in place, and ends when its input does, or by SIGINT
or SIGTERM."""
import asyncio
import concurrent.futures
import contextlib
import os
import signal
import socket
import socketserver
import sqlite3
import sys
import tempfile
import threading
import time
import wsgiref.simple_server

WRITERS = 4     # requests, one of which holds the database
FOLLOWERS = 20  # of the feed
WORKERS = 3

ending = threading.Event()


class Gauge:
    """How many came by a place."""

    def __init__(self):
        self.count = 0
        self.changed = threading.Condition()

    def enter(self):
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            self.changed.wait_for(lambda: self.count >= count)


writing, mailing, following, computing = Gauge(), Gauge(), Gauge(), Gauge()


class Application:
    """What a request is answered by, by its path."""

    def __init__(self):
        self.views = {}

    def route(self, path):
        def add(view):
            self.views[path] = view
            return view
        return add

    def __call__(self, environ, start_response):
        view = self.views.get(environ["PATH_INFO"])
        try:
            status, text = ("200 OK", view(environ)) if view else ("404 Not Found", "no such page\n")
        except (OSError, sqlite3.Error) as error:
            status, text = "503 Service Unavailable", f"{error}\n"
        start_response(status, [("Content-Type", "text/plain")])
        return [text.encode()]


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A thread a request."""
    request_queue_size = 64


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Database:
    def __init__(self, path):
        self.path = path
        with contextlib.closing(self.connect()) as connection:
            connection.execute("CREATE TABLE note (title TEXT)")

    def connect(self):
        return sqlite3.connect(self.path, timeout=3600, isolation_level=None)

    @contextlib.contextmanager
    def transaction(self):
        with contextlib.closing(self.connect()) as connection:
            writing.enter()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


class Mail:
    """A server that takes mail and does not answer, until it is closed."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.taken = []

    def announce(self, title):
        if ending.is_set():
            raise OSError("the mail server is gone")
        with socket.create_connection(self.listener.getsockname()) as connection:
            self.taken.append(self.listener.accept()[0])
            connection.sendall(f"MAIL {title}\r\n".encode())
            mailing.enter()
            return connection.recv(100)

    def close(self):
        for connection in self.taken:
            connection.close()
        self.listener.close()


app = Application()
folder = tempfile.TemporaryDirectory(prefix="notes.")
database = Database(os.path.join(folder.name, "notes.db"))
mail = Mail()


@app.route("/notes/add")
def add_note(environ):
    with database.transaction() as connection:
        connection.execute("INSERT INTO note VALUES (?)", (environ["QUERY_STRING"],))
        mail.announce(environ["QUERY_STRING"])
    return "added\n"


def blur(row):
    return [(left + right) // 2 for left, right in zip(row, row[1:] + row[:1])]


def make_thumbnail(width):
    """Computes as long as the service runs."""
    row = list(range(width))
    computing.enter()
    while not ending.is_set():
        row = blur(row)


class Feed:
    """Who follows it waits for news, in an event loop of its own thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.serve(),), name="feed")
        self.thread.start()

    async def follow(self, news):
        following.enter()
        return await news.get()

    async def publish(self):
        queues = [asyncio.Queue() for _ in range(FOLLOWERS)]
        followers = [asyncio.create_task(self.follow(news), name=f"follower-{number}")
                     for number, news in enumerate(queues)]
        await asyncio.gather(*followers)

    async def serve(self):
        self.publishing = asyncio.create_task(self.publish(), name="publisher")
        with contextlib.suppress(asyncio.CancelledError):
            await self.publishing

    def close(self):
        self.loop.call_soon_threadsafe(self.publishing.cancel)
        self.thread.join()
        self.loop.close()


def visit(address, path):
    """Sends a request; the answer is not used."""
    visitor = socket.create_connection(address)
    visitor.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    return visitor


def serve():
    server = Server(("127.0.0.1", 0), Handler)
    server.set_app(app)
    feed = Feed()
    with concurrent.futures.ThreadPoolExecutor(WORKERS, "worker") as pool:
        for _ in range(WORKERS - 1):
            pool.submit(time.sleep, 0.01)
        pool.submit(make_thumbnail, 1000)
        acceptor = threading.Thread(target=server.serve_forever, name="acceptor")
        acceptor.start()
        visitors = [visit(server.server_address, f"/notes/add?note-{number}") for number in range(WRITERS)]
        for gauge, count in (writing, WRITERS), (mailing, 1), (following, FOLLOWERS), (computing, 1):
            gauge.wait_for(count)
        print(f"ready {os.getpid()} port={server.server_port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while sys.stdin.read(1):
                pass
        ending.set()
        mail.close()
        feed.close()
        server.shutdown()
        server.server_close()
        acceptor.join()
        for visitor in visitors:
            visitor.close()


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with folder:
        serve()


if __name__ == "__main__":
    main()
