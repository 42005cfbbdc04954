# SPDX-License-Identifier: LGPL-2.1-or-later
"""`stacksnap serve` and those it is for: go tool pprof, Prometheus, curl, a browser, systemd."""
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request

from harness import BUILD, Case, DEADLINE, SOURCE, TARGETS, TOOL, at_level, missing, need, need_root, wait_until
from readers import CHROMIUM, FOLDER, one_browser
from serving import Server

SERVICE = os.path.join(BUILD, "systemd", "stacksnap-serve.service")


class Clients(Case):
    level = "all"

    def serve(self, *argv, **options):
        server = Server(*argv, **options)
        self.addCleanup(server.close)
        return server

    def pprof(self, *args):
        need("go")
        folder = self.scratch()
        environment = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, LC_ALL="C.UTF-8",
                           PPROF_BINARY_PATH="/nonexistent")
        got = subprocess.run(["go", "tool", "pprof", "-symbolize=none", *args], env=environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             timeout=2 * DEADLINE, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertNotRegex(got.stderr, r"(?i)error|fail|warn|unexpected", got.stderr)
        return got.stdout

    def test_go_tool_pprof(self):
        pid = self.victim("threads", "spin:1:busy", "sleep:3:worker", running=1).pid
        server = self.serve("-p", pid, "--max-stopped", "100")
        text = self.pprof("-top", server.url + "debug/pprof/profile?seconds=1")
        self.assertRegex(text, r"(?m) spin$")
        self.assertNotIn("wait_sleep", text)
        text = self.pprof("-raw", server.url + f"debug/pprof/profile?seconds=1&hz=50&mode=wall&target={pid}")
        self.assertIn("wait_sleep", text)
        self.assertIn("Period: 20000000", text)
        text = self.pprof("-raw", server.url + "debug/pprof/threads")
        self.assertIn("threads/count", text)
        samples = text[:text.index("Locations\n")]
        self.assertEqual(sum(map(int, re.findall(r"(?m)^ +(\d+): \d", samples))), 5, text)
        # The same as text is a format that it reads, too: of addresses.
        text = self.pprof("-raw", server.url + "debug/pprof/threads?debug=1")
        self.assertRegex(text, r"(?m)^ +3: ")

    def test_goroutines_are_called_so(self):
        program = self.made_here()
        pid = self.program([program], settled=False).pid
        server = self.serve("-p", pid)
        dump = server.ask("/debug/pprof/threads?debug=2").text
        self.assertRegex(dump, r"(?m)^goroutine 1 \[[^\]]+, process \S+ %d\]:$" % pid)
        self.assertIn("main.main(...)\n\t", dump)

    def made_here(self):
        need("go")
        source = os.path.join(self.scratch(), "sleeper.go")
        with open(source, "w") as f:
            f.write('package main\nimport ("fmt"; "os"; "bufio")\nfunc main() {\n'
                    'fmt.Println("ready", os.Getpid())\nbufio.NewReader(os.Stdin).ReadString(10)\n}\n')
        program = source.removesuffix(".go")
        subprocess.run(["go", "build", "-o", program, source], check=True, stdin=subprocess.DEVNULL,
                       env=dict(os.environ, CGO_ENABLED="0", GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS=""))
        return program

    def test_curl(self):
        need("curl")
        path = os.path.join(self.scratch(), "socket")
        server = self.serve("-p", self.victim("threads", "sleep:1:worker").pid, place="unix:" + path)
        got = subprocess.run(["curl", "-sSf", "--unix-socket", path, "http://localhost/snapshot.json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual((got.returncode, got.stderr), (0, b""))
        self.assertEqual(json.loads(got.stdout)["thread_count"], 2)
        got = subprocess.run(["curl", "-sS", "-o", os.devnull, "-w", "%{http_code}", "-X", "POST", "--unix-socket", path,
                              "http://localhost/snapshot"], stdout=subprocess.PIPE, timeout=DEADLINE, text=True)
        self.assertEqual(got.stdout, "405")
        self.assertEqual(server.end(), 0)

    def test_prometheus(self):
        need("prometheus", "promtool")
        token = os.path.join(self.scratch(), "token")
        with open(token, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("0123456789abcdef0123\n")
        server = self.serve("--token-file", token, "-p", self.victim("threads", "sleep:1:worker").pid)
        wanted = {"Authorization": "Bearer 0123456789abcdef0123"}
        self.assertEqual(server.ask("/snapshot", wanted).status, 200)
        with Prometheus(self.scratch(), server.port, token) as prometheus:
            wait_until(lambda: prometheus.value("up") == 1, "a scrape")
            self.assertEqual(prometheus.value("stacksnap_snapshots_total"), 1)
            self.assertEqual(prometheus.value('stacksnap_stop_seconds_bucket{le="+Inf"}'), 1)
            self.assertGreater(prometheus.value("process_resident_memory_bytes"), 1 << 20)
        self.assertEqual(server.end(), 0)

    def test_a_browser(self):
        if not os.path.exists(CHROMIUM):
            missing("chromium", "chromium")
        path = os.path.join(self.scratch(), "<b>&\"")
        shutil.copy(os.path.join(TARGETS, "threads"), path)
        server = self.serve("-p", self.program([path, "sleep:1:worker"]).pid)
        profile = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, profile, True)
        os.makedirs(FOLDER, exist_ok=True)
        with one_browser():
            got = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                  "--dump-dom", server.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, timeout=2 * DEADLINE, text=True)
        self.assertIn("&lt;b&gt;&amp;\"", got.stdout)
        self.assertIn("/snapshot.json?target=", got.stdout)
        self.assertEqual(server.end(), 0)


class Metrics(Case):
    @at_level("all")
    def test_promtool_finds_no_fault(self):
        need("promtool")
        server = Server("-p", self.victim("threads", "sleep:1:worker").pid)
        self.addCleanup(server.close)
        self.assertEqual(server.ask("/snapshot").status, 200)
        page = server.ask("/metrics")
        self.assertEqual(page.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        got = subprocess.run(["promtool", "check", "metrics"], input=page.body, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=DEADLINE)
        self.assertEqual((got.returncode, got.stdout), (0, b""), page)
        newer = server.ask("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"})
        self.assertIn("application/openmetrics-text", newer.headers["Content-Type"])
        self.assertTrue(newer.text.endswith("# EOF\n"), newer)
        self.assertEqual(server.end(), 0)


class Prometheus:
    """The server, with one target, on a port of its own."""

    def __init__(self, folder, port, token):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w") as f:
            f.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: stacksnap\n"
                    f"  authorization: {{credentials_file: {token}}}\n"
                    f"  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def value(self, query):
        """Of the one series; None: it has none, or is not there yet."""
        if self.process.poll() is not None:
            raise AssertionError(f"prometheus ended with {self.process.returncode}")
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as got:
                found = json.load(got)["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if len(found) == 1 else None


class Units(Case):
    level = "all"

    def test_systemd_takes_them(self):
        need("systemd-analyze")
        folder = self.scratch()
        shutil.copy(os.path.join(SOURCE, "systemd", "stacksnap-serve.socket"), folder)
        with open(SERVICE) as f, open(os.path.join(folder, "stacksnap-serve.service"), "w") as out:
            out.write(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={TOOL}", f.read()))
        got = subprocess.run(["systemd-analyze", "verify", "--man=no", *sorted(
            os.path.join(folder, name) for name in os.listdir(folder))], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)
        self.assertNotIn("stacksnap-serve", got.stdout)
        self.assertEqual(got.returncode, 0, got.stdout)

    def test_its_rights_are_enough(self):
        """As a user with what the unit gives, for a process of another user, whose program is his alone."""
        need_root()
        need("setpriv")
        with open(SERVICE) as f:
            unit = f.read()
        kept = re.search(r"(?m)^CapabilityBoundingSet=(.*)$", unit).group(1).split()
        self.assertIn("\nAmbientCapabilities=" + " ".join(kept) + "\n", unit)
        kept = ",".join("+" + name.removeprefix("CAP_").lower() for name in kept)
        nobody = pwd.getpwnam("nobody")
        pid = self.victim("threads", "sleep:3:worker", user=nobody.pw_uid).pid
        user = str(nobody.pw_uid - 1)
        server = Server("-p", pid, tool=shutil.copy(TOOL, self.scratch()), command=[
            "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps", "-all," + kept,
            "--ambient-caps", kept, "--bounding-set", "-all," + kept, "--no-new-privs"])
        self.addCleanup(server.close)
        for page in ("/snapshot.json", "/recording.json?seconds=1&hz=20"):
            got = server.ask(page)
            self.assertEqual((got.status, got.headers["Stacksnap-Outcome"]), (200, "whole"), got)
            self.assertIn("wait_sleep", got.text)
        self.assertEqual(server.end(), 0)

    def test_a_socket_of_systemd(self):
        need("systemd-socket-activate")
        pid = self.victim("threads", "sleep:1:worker").pid
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        manager = subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", TOOL, "serve", "-p", str(pid)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        self.addCleanup(manager.wait)
        self.addCleanup(manager.kill)

        def answer():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/snapshot.json", timeout=DEADLINE) as got:
                    return json.load(got)
            except OSError:
                return None

        self.assertEqual(wait_until(answer, "an answer")["thread_count"], 2)
        # It has become the server.
        manager.send_signal(signal.SIGTERM)
        self.assertEqual(manager.wait(DEADLINE), 0)


if __name__ == "__main__":
    import unittest
    unittest.main()
