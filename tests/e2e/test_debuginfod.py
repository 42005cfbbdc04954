# SPDX-License-Identifier: LGPL-2.1-or-later
"""Downloads from a real debuginfod on the loopback interface, started here."""
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

from harness import Case, clean_environment, functions, need, wait_until
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
