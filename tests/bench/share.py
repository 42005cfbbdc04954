#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark of what is shared among people and hosts.

    tests/bench/share.py [--build build] [--parts merge,diff,top,pages,serve] [--documents 1000] [--threads 1000]
                         [--seconds 30] [--recorded 60] [--requests 10000]

merge    documents of many hosts, made from a real one: megabytes of input a second on one core, peak
         memory; and whether three shapes of a tree of merges give the same bytes
diff     two documents of 10,000 threads, in 300 stacks and in 10,000: seconds, peak memory
top      1,003 threads on a screen of 120 x 40, at rest and with two that run: how long the process stood still, the
         tool's own processor time and peak memory, with that of what it starts
pages    of 10,000 threads and of a recording of a minute: bytes, and how soon one can work with them in Chromium
         (which wants what `./dev readers` fetches)
serve    wakeups while nobody asks; memory and descriptors over many requests, and how long these take

A run of all parts as they are writes its figures to doc/FIGURES.md (see figures.py). Nothing here is a test: no
time decides a result."""
import argparse
import copy
import fcntl
import json
import os
import pty
import random
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

import figures
from pages import bench_pages, many_stacks

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PARTS = "merge,diff,top,pages,serve"


def real_document(tool, victim, threads):
    """A snapshot of a program with many threads in a few places."""
    orders = [f"{kind}:{threads // 5}:{name}" for kind, name in
              (("futex", "worker"), ("epoll", "loop"), ("pipe", "reader"), ("poll", "poller"), ("sem", "waiter"))]
    process = subprocess.Popen([victim, *orders], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        done = subprocess.run([tool, "--json", "-p", str(process.pid)], stdout=subprocess.PIPE, check=False)
    finally:
        process.stdin.close()
        process.wait()
    return json.loads(done.stdout)


def all_stacks(document):
    for process in document["processes"]:
        yield from process["stacks"]


def of_host(document, number, rng):
    """The same of another host: other ids, other addresses, and here and there a stack that no other has."""
    made = copy.deepcopy(document)
    made["host"]["name"] = f"web-{number:04}"
    made["host"]["boot_id"] = f"{number:08x}-0000-4000-8000-000000000000"
    made["time"] = f"2026-11-20T07:{number % 60:02}:18.{rng.randrange(10 ** 9):09}Z"
    shift = rng.randrange(1 << 28) << 12
    for stack in all_stacks(made):
        for thread in stack.get("threads", []):
            thread["tid"] = thread["tid"] + number
        for entry in stack["entries"]:
            if "address" in entry:
                entry["address"] = hex(int(entry["address"], 16) + shift)
    odd = rng.choice(list(all_stacks(made)))
    if number % 10 == 0:
        odd["id"] = f"{rng.randrange(1 << 64):016x}"
        odd["entries"][0]["function"] = f"odd_{number}"
    return made


def merge(tool, paths, output=None):
    """Seconds of processor time, peak of memory in kilobytes, seconds, and where the result is."""
    target = output or os.path.join(os.path.dirname(paths[0]), "out.json")
    begin = time.monotonic()
    process = subprocess.Popen([tool, "merge", "-f", "json", "-o", target, *paths])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"merge ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, time.monotonic() - begin, target


def tree(tool, folder, paths, width, name):
    """Merges `width` files at a time, until one is left."""
    level = 0
    while len(paths) > 1 or level == 0:
        above = []
        for at in range(0, len(paths), width):
            out = os.path.join(folder, f"{name}-{level}-{at}.json")
            merge(tool, paths[at:at + width], out)
            above.append(out)
        paths, level = above, level + 1
    with open(paths[0], "rb") as f:
        return f.read()


def bench_merge(tool, victim, documents, threads, found):
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="stacksnap-share-") as folder:
        real = real_document(tool, victim, threads)
        paths, lines = [], os.path.join(folder, "all.jsonl")
        with open(lines, "w", encoding="utf-8") as all_lines:
            for number in range(documents):
                made = of_host(real, number, rng)
                paths.append(os.path.join(folder, f"{number:04}.json"))
                with open(paths[-1], "w", encoding="utf-8") as f:
                    f.write(json.dumps(made, ensure_ascii=False, separators=(", ", ": ")) + "\n")
                all_lines.write(json.dumps(made, ensure_ascii=False) + "\n")
        size = sum(os.path.getsize(path) for path in paths)
        print(f"{documents} documents of {real['thread_count']} threads, {size / 1e6:.0f} MB, "
              f"{real['stack_count']} stacks each")
        flat = None
        for what, inputs in (("files", paths), ("JSON Lines", [lines])):
            runs = [merge(tool, inputs) for _ in range(3)]
            cpu, memory, wall, out = min(runs)
            print(f"{what}: {size / 1e6 / cpu:.0f} MB/s of processor time, {size / 1e6 / wall:.0f} MB/s of wall time, "
                  f"peak {memory / 1024:.1f} MB")
            if what == "files":
                found.add("merge-speed", size / 1e6 / cpu)
                found.add("merge-memory", memory * 1024 / 1e6)
            with open(out, "rb") as f:
                flat, before = f.read(), flat
            if before not in (None, flat):
                print("OTHER BYTES")
        groups = json.loads(flat)
        print(f"{groups['group_count']} groups, {groups['odd_count']} odd, {len(flat) / 1e6:.1f} MB")
        shuffled = paths[:]
        rng.shuffle(shuffled)
        shapes = {"ten at a time": tree(tool, folder, paths, 10, "ten"),
                  "two at a time": tree(tool, folder, shuffled[:], 2, "two"),
                  "shuffled": tree(tool, folder, shuffled, documents, "all")}
        for shape, got in shapes.items():
            print(f"{shape}: {'the same bytes' if got == flat else 'OTHER BYTES'}")
        found.add("merge-shapes", "same bytes" if all(got == flat for got in shapes.values()) else "OTHER BYTES")


# ---- diff ----

def timed(argv):
    """Seconds and peak megabytes of a command that may end with 1."""
    begin = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{argv[1]} ended with {process.returncode}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024 / 1e6


def bench_diff(tool, document, found):
    """The second document has every tenth stack in another function."""
    for stacks, key in ((300, "diff"), (10000, "diff-many")):
        with tempfile.TemporaryDirectory(prefix="stacksnap-share-") as folder:
            made, paths = many_stacks(document, 10000, stacks), [os.path.join(folder, name) for name in ("a", "b")]
            for path in paths:
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(made, f)
                for number, stack in enumerate(all_stacks(made)):
                    if number % 10 == 0:
                        stack["entries"][0]["function"] = f"other_{number}"
            runs = [timed([tool, "diff", "--timeout", "60000", *paths]) for _ in range(3)]
        seconds, memory = sorted(runs)[1]
        print(f"diff of 10,000 threads in {stacks:,} stacks: {seconds:.2f} s, peak {memory:.0f} MB", flush=True)
        found.add(key + "-time", seconds)
        found.add(key + "-memory", memory)


class Screen:
    """A command on a terminal that takes all it draws."""

    def __init__(self, argv, columns=120, rows=40):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.begin = time.monotonic()
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, start_new_session=True,
                                        env=dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8"))
        os.close(slave)
        self.drawn = 0

    def draw(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                self.drawn += len(os.read(self.master, 65536))
            except OSError:  # the command has ended
                return

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """Seconds of processor time, of it and of what it waited for, peak of its memory in kilobytes, seconds."""
        took = time.monotonic() - self.begin
        self.type("q")
        self.draw(10)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.master)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, took


def bench_top(tool, victim, seconds, found):
    for what, orders in (("at rest", ["futex:400:worker", "epoll:300:loop", "pipe:302:reader"]),
                         ("two of them running", ["futex:400:worker", "epoll:300:loop", "pipe:300:reader", "spin:2:busy"])):
        process = subprocess.Popen([victim, *orders], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with tempfile.TemporaryDirectory(prefix="stacksnap-share-") as folder:
            path = os.path.join(folder, "ring.json")
            try:
                process.stdout.readline()
                screen = Screen([tool, "top", str(process.pid)])
                screen.draw(seconds)
                screen.type("w")
                screen.type("m")
                screen.type("\x15" + path + "\r")
                screen.draw(60, lambda: os.path.exists(path))
                cpu, memory, took = screen.end()
            finally:
                process.stdin.close()
                process.wait()
            with open(path, encoding="utf-8") as f:
                recording = json.load(f)["recording"]
        print(f"top, {recording['threads']} threads, {what}: {recording['hz_reached']:.1f} looks/s for {took:.0f} s, "
              f"{recording['ticks_missed']} missed; stood still {recording['stopped_percent']:.2f} % of the time; "
              f"{100 * cpu / took:.1f} % of a processor, peak {memory / 1024:.0f} MB, "
              f"{screen.drawn / 1024 / took:.1f} KB/s drawn")
        if what == "at rest":
            found.add("top-rest", recording["stopped_percent"])
        else:
            found.add("top-running", recording["stopped_percent"])
            found.add("top-processor", 100 * cpu / took)


# ---- serve ----

def switches(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)


def ask_again_and_again(server, count):
    """Each fifth request is for a snapshot, some for a recording that its client does not wait for."""
    pages = ("/snapshot.json", "/metrics", "/nowhere", "/snapshot?sekonds=1", "/debug/pprof/")
    slowest = {}
    for number in range(count):
        if number % 500 == 499:
            with server.connect() as client:
                client.sendall(b"GET /recording?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        page, begin = pages[number % len(pages)], time.monotonic()
        server.ask(page)
        slowest[page] = max(slowest.get(page, 0), time.monotonic() - begin)
    return slowest


def figures_at_rest(server):
    """Once the recordings have ended that nobody waited for."""
    while (now := server.metrics())["stacksnap_running"]:
        time.sleep(0.05)
    return now


def bench_serve(build, victim, requests, found):
    os.environ["STACKSNAP_BUILD"] = os.path.abspath(build)
    sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))
    import serving  # noqa: E402, which looks for the build when it is imported
    process = subprocess.Popen([victim, "futex:100:worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = None
    try:
        process.stdout.readline()
        server = serving.Server("-p", process.pid)
        ask_again_and_again(server, 100)
        time.sleep(1)
        before = switches(server.pid)
        time.sleep(30)
        found.add("serve-idle", switches(server.pid) - before)
        print(f"idle: {found.values['serve-idle']} wakeups in 30 s")
        first = figures_at_rest(server)
        for _ in range(5):
            begin = time.monotonic()
            slowest = ask_again_and_again(server, requests // 5)
            now = figures_at_rest(server)
            print(f"{requests // 5} requests in {time.monotonic() - begin:.0f} s: "
                  f"{now['process_resident_memory_bytes'] / 1e6:.1f} MB (at first "
                  f"{first['process_resident_memory_bytes'] / 1e6:.1f}), {now['process_open_fds']:.0f} descriptors (at first "
                  f"{first['process_open_fds']:.0f}); slowest " +
                  ", ".join(f"{page} {seconds * 1e3:.0f} ms" for page, seconds in slowest.items()))
        for key, name, unit in (("serve-memory", "process_resident_memory_bytes", 1e6),
                                ("serve-descriptors", "process_open_fds", 1)):
            found.add(key, (first[name] / unit, now[name] / unit))
    finally:
        if server:
            server.close()
        process.stdin.close()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement of top")
    parser.add_argument("--recorded", type=int, default=60, help="seconds of the recording of a page")
    parser.add_argument("--requests", type=int, default=10000)
    figures.arguments(parser)
    args = parser.parse_args()
    usual = vars(parser.parse_args([]))
    whole = all(getattr(args, name) == usual[name] for name in ("documents", "threads", "parts", "seconds", "recorded", "requests"))
    tool, victim = os.path.join(args.build, "cli", "stacksnap"), os.path.join(args.build, "tests", "targets", "threads")
    parts, found = args.parts.split(","), figures.Figures("shared")
    if "merge" in parts:
        bench_merge(tool, victim, args.documents, args.threads, found)
    if "diff" in parts:
        bench_diff(tool, real_document(tool, victim, 100), found)
    if "top" in parts:
        bench_top(tool, victim, args.seconds, found)
    if "pages" in parts:
        with tempfile.TemporaryDirectory(prefix="stacksnap-share-") as folder:
            bench_pages(tool, victim, real_document(tool, victim, 100), folder, args.recorded, found)
    if "serve" in parts:
        bench_serve(args.build, victim, args.requests, found)
    found.finish(args, whole)


if __name__ == "__main__":
    main()
