# SPDX-License-Identifier: LGPL-2.1-or-later
"""The part of share.py that is about pages: how large they are, and how soon one can work with them
in Chromium. Needs what `./dev readers` fetches."""
import copy
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def many_stacks(document, threads, stacks):
    """A document with so many threads in so many stacks, made of those of a real one."""
    made = copy.deepcopy(document)
    process, = made["processes"]
    patterns, process["stacks"] = process["stacks"], []
    for number in range(stacks):
        stack = copy.deepcopy(patterns[number % len(patterns)])
        count = threads // stacks + (number < threads % stacks)
        stack["id"], stack["count"] = f"{number:016x}", count
        for depth, entry in enumerate(stack["entries"][1:-2]):
            entry["function"] = f"{entry.get('function', 'f')}_{number % (7 + depth)}"
        first = stack["threads"][0]
        stack["threads"] = [dict(first, tid=100000 + number * 1000 + i, name=f"worker-{number}-{i}"[:15])
                            for i in range(count)]
        process["stacks"].append(stack)
    process["stacks"].sort(key=lambda stack: (-stack["count"], stack["id"]))
    process["thread_count"] = made["thread_count"] = threads
    made["stack_count"] = stacks
    return made


def record(tool, victim, seconds, path):
    """Of a hundred threads, some of which compute."""
    orders = ["futex:50:worker:8", "epoll:20:loop:4", "sem:20:waiter:3", "spin:9:busy:5"]
    process = subprocess.Popen([victim, *orders], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        subprocess.run([tool, "record", "-p", str(process.pid), "--duration", str(seconds), "-o", path],
                       check=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    finally:
        process.stdin.close()
        process.wait()


def measure(tool, source, folder, what):
    """Megabytes, and the seconds until it is interactive, or None."""
    page = os.path.join(folder, "page.html")
    begin = time.monotonic()
    subprocess.run([tool, "render", source, "-o", page], check=False, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - begin
    size, median = os.path.getsize(page), None
    try:
        import readers
        ready = sorted(readers.html_page(page, axe=False)["ready"] for _ in range(3))
        median = ready[1] / 1e3
        shown = f"interactive after {ready[0]} to {ready[-1]} ms in Chromium"
    except Exception as error:  # no browser, no node: the rest is worth printing
        shown = f"not opened in a browser ({error})"
    print(f"{what}: {size / 1e6:.2f} MB, written in {wall:.2f} s, {shown}", flush=True)
    return size / 1e6, median


def bench_pages(tool, victim, document, folder, seconds, found):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
    path = os.path.join(folder, "many.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(many_stacks(document, 10000, 300), f)
    for key, value in zip(("page-size", "page-ready"),
                          measure(tool, path, folder, "page of 10,000 threads in 300 stacks")):
        found.add(key, value)
    path = os.path.join(folder, "a.snaprec")
    record(tool, victim, seconds, path)
    for key, value in zip(("page-record-size", "page-record-ready"),
                          measure(tool, path, folder, f"page of a recording of 100 threads, {seconds} s")):
        found.add(key, value)
