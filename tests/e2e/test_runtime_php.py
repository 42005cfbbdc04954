# SPDX-License-Identifier: LGPL-2.1-or-later
"""PHP's functions as the reader of PHP finds them in memory, against debug_backtrace() and what a server was
asked for. `./dev runtimes` does the same with another PHP."""
import glob
import contextlib
import os
import subprocess
import sys
import threading
import urllib.request

from harness import BUILD, DEADLINE, Case, SOURCE, need, need_root, missing, settle, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "runtime"))
import php_server  # noqa: E402
import truth_php  # noqa: E402
import truth_python  # noqa: E402

READER = os.path.join(BUILD, "tests", "runtime", "live_reader")

# Each request runs another script, and has the cache thrown away: the next one is compiled to where this one lay.
MOVES = """<?php
require __DIR__ . "/page_{$_GET['page']}.php";
opcache_reset();
echo opcache_get_status(false)['opcache_statistics']['manual_restarts'];
"""
PAGE = """
function named_{page}($depth) {{
    if ($depth) return named_{page}($depth - 1);
    for ($i = 0; $i < 3000; $i++) burns_{page}($i);
}}
function burns_{page}($i) {{
    return md5(str_repeat("{page}", $i % 100));
}}
named_{page}(5);
"""


def port_of(pid):
    """Where a process listens; None: nowhere yet."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
        for words in map(str.split, file):
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                return int(words[1].split(":")[1], 16)
    return None


class Php(Case):
    def read(self, pid, *options):
        _, result = truth_python.read(READER, "php", pid, options)
        self.assertIsNotNone(result, "no PHP was found")
        self.assertIsNone(result["refused"])
        self.assertFalse(result["torn"])
        return result

    def test_functions_are_those_of_debug_backtrace(self):
        need("php")
        states = subprocess.run(["php", truth_php.STATES, "list"], capture_output=True, text=True, check=True).stdout
        self.assertGreater(len(states.split()), 20)
        for state in states.split():
            with self.subTest(state):
                victim = subprocess.Popen(["php", truth_php.STATES, state], stdout=subprocess.PIPE, text=True)
                try:
                    line = victim.stdout.readline()
                    settle(victim.pid)
                    for options in ((), ("--image",)):
                        frames = truth_php.compare(self.read(victim.pid, *options), line, truth_php.STATES)
                        self.assertGreater(frames, 3)
                finally:
                    victim.kill()
                    victim.communicate()

    def test_a_server_says_what_it_was_asked_for(self):
        need_root()
        programs = sorted(glob.glob("/usr/sbin/php-fpm*"))
        if not programs:
            missing("php-fpm", "php-fpm")
        folder = self.scratch(0o777)
        with php_server.Server(programs[-1], folder) as server:
            php_server.compare([self.read(pid, "--image") for pid in server.workers()], folder)

    PAGES = 24

    def check_page(self, node):
        """All functions are of one script, where they stand in it, and of the request that is told. How many they are."""
        entries = [e for s in node["stacks"] for e in s["entries"] if e.get("language") == "php"]
        pages = set()
        for entry in entries:
            name, _, page = entry["function"].rpartition("_")
            if name in ("named", "burns"):
                self.assertEqual(os.path.basename(entry["file"]), f"page_{page}.php", entry)
                first = int(page) + 3  # behind as many empty lines
                self.assertIn(entry["line"], range(first, first + 4) if name == "named" else range(first + 4, first + 7), entry)
                pages.add(page)
            else:
                self.assertIn(entry["function"], ("{main}", "md5", "str_repeat", "require", "opcache_reset", "opcache_get_status"))
        asked = node.get("labels", {}).get("query_string")
        self.assertLessEqual(pages, {asked.removeprefix("page=")} if asked else pages)
        self.assertLessEqual(len(pages), 1, entries)
        return len(entries)

    def test_a_cache_that_moves(self):
        need("php")
        if subprocess.run(["php", "-r", "exit(extension_loaded('Zend OPcache') ? 0 : 1);"], check=False).returncode:
            missing("php-opcache")
        folder, restarts, ended = self.scratch(), [], threading.Event()
        for page in range(self.PAGES):
            with open(os.path.join(folder, f"page_{page}.php"), "w", encoding="ascii") as file:
                file.write("<?php\n" + "\n" * page + PAGE.format(page=page))
        with open(os.path.join(folder, "index.php"), "w", encoding="ascii") as file:
            file.write(MOVES)
        victim = subprocess.Popen(["nice", "-n", "15", "php", "-d", "opcache.enable_cli=1", "-S", "127.0.0.1:0", "-t", folder],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def asks():
            number = 0
            while not ended.is_set():
                number += 1
                url = f"http://127.0.0.1:{port}/index.php?page={number % self.PAGES}"
                with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
                    restarts.append(int(answer.read()))

        client = threading.Thread(target=asks)
        try:
            port = wait_until(lambda: port_of(victim.pid), "it to listen")
            client.start()
            seen = 0
            for options in ((), ("--no-stop",)) * 20:
                document = self.json("-p", victim.pid, *options, status=(0, 1))
                seen += sum(map(self.check_page, document["processes"]))
            self.assertGreater(seen, 0)
            wait_until(lambda: restarts and restarts[-1] > 1, "the cache to be thrown away")
        finally:
            ended.set()
            if client.ident:
                client.join()
            victim.kill()
            victim.wait()

    def test_calls_that_begin_and_end(self):
        """Just then, the innermost frame has words of another function; a line is one of its own all the same."""
        need("php")
        script = os.path.join(self.scratch(), "calls.php")
        with open(script, "w", encoding="ascii") as file:
            file.write("<?php\nfunction f() { return 1; }\n\nfunction g($a) { return $a; }\n\n"
                       "echo 'ready ', getmypid(), \"\\n\";\nwhile (true) {\n    f();\n    g(1);\n}\n")
        victim = self.program(["php", script], settled=False)
        lines = {"f": (2,), "g": (4,), "{main}": (7, 8, 9)}
        for options in ((), ("--no-stop",)) * 25:
            for stack in self.node(victim.pid, *options, status=(0, 1))["stacks"]:
                for entry in stack["entries"]:
                    if entry.get("language") == "php":
                        self.assertIn(entry.get("line"), lines[entry["function"]], entry)

    def test_without_a_stop(self):
        need("php")
        victim = self.program(["php", "-r", "function waits() { echo 'ready ', getmypid(), \"\\n\"; sleep(3600); } "
                               "class Job { function runs() { waits(); } } (new Job)->runs();"])

        def whole():
            """Who copies has some milliseconds, and may lose the processor to others for longer."""
            node = self.node(victim.pid, "--no-stop", status=(0, 1))
            return None if any("cut" in runtime for runtime in node.get("runtimes", [])) else node

        node = wait_until(whole, "its memory to be copied in time")
        self.assertEqual([r["name"] for r in node["runtimes"]], ["php"])
        own = [e["function"] for e in node["stacks"][0]["entries"] if e.get("language") == "php"]
        self.assertEqual(own[:3], ["sleep", "waits", "Job->runs"])
        self.assertEqual(node["stacks"][0]["threads"][0]["taken"], "late")

    def test_a_program_that_is_none_of_phps(self):
        victim = self.victim("chain")
        self.assertIsNone(truth_python.read(READER, "php", victim.pid)[1])
