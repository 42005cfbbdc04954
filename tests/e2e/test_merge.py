# SPDX-License-Identifier: LGPL-2.1-or-later
"""stacksnap merge: documents of many hosts as one, by the tools that run commands on them."""
import json
import os
import pwd
import socket
import subprocess
import sys
import unittest

from harness import SOURCE, TARGETS, TOOL, Case, missing, need, need_root, wait_until

HOSTS = 64
ODD = "web-17"

# A host: a program of its own, of which one line is printed under the host's name. The odd one does something
# else, and one does not answer.
WORKER = """
import os, socket, subprocess, sys, time
name = sys.argv[1]
socket.sethostname(name)
if name == "web-40":
    sys.exit(255)
victim = subprocess.Popen([sys.argv[2], ("sem" if name == "web-17" else "futex") + ":3:worker"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
victim.stdout.readline()
# It says that it is in position a moment before its threads sleep there.
folder = "/proc/%d/task" % victim.pid
until = time.monotonic() + 60
while time.monotonic() < until and any(open(os.path.join(folder, tid, "stat")).read().rsplit(")", 1)[1].split()[0] != "S"
                                       for tid in os.listdir(folder)):
    time.sleep(0.01)
# As many snapshots at once as there are hosts is too much for one machine: all take their time, and who was let go to
# be stopped once more is seen running.
done = subprocess.run([sys.argv[3], "-f", "jsonl", "--timeout", "60000", "--stop-timeout", "50000", "--group-by", "process,stack",
                       "-p", str(victim.pid)])
victim.stdin.close()
victim.wait()
sys.exit(done.returncode)
"""


def merged_schema():
    with open(os.path.join(SOURCE, "lib", "render", "merged", "stacksnap-merged.schema.json"), encoding="utf-8") as f:
        return json.load(f)


def check_merged(document):
    try:
        import jsonschema
    except ImportError:
        missing("python3-jsonschema")
    jsonschema.validate(document, merged_schema())


class Merge(Case):
    asan = True

    def documents(self, *names):
        """The same snapshot as that of several hosts."""
        victim = self.victim("threads", "futex:3:worker")
        path = os.path.join(self.scratch(), "real.json")
        self.run_tool("--json", "-p", victim.pid, "-o", path)
        with open(path, encoding="utf-8") as f:
            real = json.load(f)
        paths = []
        for name in names:
            real["host"]["name"] = name
            paths.append(os.path.join(self.scratch(), f"{name}.json"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                json.dump(real, f)
        return paths

    def merged(self, *argv, **options):
        got = self.run_tool("merge", "--json", *argv, **options)
        document = json.loads(got.text)
        check_merged(document)
        return got, document

    def test_an_input_without_an_end(self):
        """A part of it is read, and what came before it counts."""
        [path] = self.documents("web-1")
        for source in ["/dev/zero"], ["sh", "-c", "printf '\\n{'; exec cat /dev/zero"]:
            with subprocess.Popen(["cat", *source] if len(source) == 1 else source, stdout=subprocess.PIPE) as endless:
                got, document = self.merged(path, "-", stdin=endless.stdout, status=1, timeout=120)
                endless.stdout.close()
            self.assertIn("standard input: document 1 is skipped: it is no JSON, or larger than 1 GiB; all that follows "
                          "is left out\n", got.err)
            self.assertEqual(len(document["hosts"]), 1)

    def test_two_hosts(self):
        a, b = self.documents("a", "b")
        got, document = self.merged(a, b)
        self.assertEqual(got.err, "")
        self.assertEqual([h["name"] for h in document["hosts"]], ["a", "b"])
        workers = [g for g in document["groups"] if "worker_main" in [e.get("function") for e in g["entries"]]]
        self.assertEqual([(g["host_count"], g["process_count"], g["thread_count"]) for g in workers], [(2, 2, 6)])
        self.assertEqual(self.run_tool("merge", "--json", b, a).text, got.text)
        text = self.run_tool("merge", a, b).text
        self.assertIn("stacksnap: 2 hosts, 2 documents", text)
        self.assertIn("worker_main", text)
        self.assertIn("in 2 processes, on 2 of 2 hosts", text)

    def test_steps_and_standard_input(self):
        paths = self.documents("a", "b", "c")
        flat = self.run_tool("merge", "--json", *paths).text
        half = os.path.join(self.scratch(), "half.jsonl")
        self.run_tool("merge", *paths[:2], "-o", half)
        with open(paths[2], encoding="utf-8") as f:
            got = self.run_tool("merge", "--json", "-", half, stdin=f)
        self.assertEqual(got.text, flat)
        lines = os.path.join(self.scratch(), "lines.jsonl")
        with open(lines, "w", encoding="utf-8") as out:
            for path in paths:
                with open(path, encoding="utf-8") as f:
                    out.write(f.read() + "\n")
        self.assertEqual(self.run_tool("merge", "--json", lines).text, flat)

    def test_packed(self):
        """What -o x.json.gz wrote; a packed file that is cut off counts up to there."""
        a, b = self.documents("a", "b")
        packed = os.path.join(self.scratch(), "a.json.gz")
        self.run_tool("render", a, "-o", packed)
        with open(packed, "rb") as f:
            begin = f.read()
        self.assertEqual(begin[:2], b"\x1f\x8b")
        self.assertEqual(self.run_tool("merge", "--json", packed, b).text,
                         self.run_tool("merge", "--json", a, b).text)
        with open(packed, "wb") as f:
            f.write(begin[:len(begin) // 2])
        got, document = self.merged(packed, b, status=1)
        self.assertEqual([h["name"] for h in document["hosts"]], ["b"])
        self.assertIn("a.json.gz: document 1 is skipped: it is broken", got.err)

    def test_twice(self):
        a, b = self.documents("a", "b")
        flat = self.run_tool("merge", "--json", a, b).text
        got = self.run_tool("merge", "--json", a, b, a)
        self.assertEqual(got.text, flat)
        self.assertIn("counts once", got.err)
        both, one = (os.path.join(self.scratch(), name) for name in ("both.json", "one.json"))
        self.run_tool("merge", a, b, "-o", both)
        self.run_tool("merge", a, "-o", one)
        # What was merged comes first, wherever it stands.
        self.assertEqual(self.run_tool("merge", "--json", a, both).text, flat)
        for order in ((one, both), (both, one)):
            got = self.run_tool("merge", "--json", *order, status=1)
            self.assertEqual(got.text, flat)
            self.assertIn("one.json: document 1 is skipped: it holds a document that is there already", got.err)

    def test_what_cannot_be_read(self):
        a, b = self.documents("a", "b")
        with open(b, "r+", encoding="utf-8") as f:
            f.truncate(300)
        got, document = self.merged(a, b, status=1)
        self.assertEqual(document["host_count"], 1)
        self.assertIn("b.json: document 1 is skipped: it is broken: the document ends in the middle", got.err)
        got, document = self.merged(a, "/nonexistent", self.scratch(), status=1)
        self.assertEqual(document["host_count"], 1)
        self.assertIn("cannot read /nonexistent: No such file or directory", got.err)
        self.assertIn("Is a directory", got.err)
        got, document = self.merged(a, os.devnull, status=1)
        self.assertEqual((document["host_count"], got.err), (1, "stacksnap: /dev/null: it is empty\n"))
        got, document = self.merged(b, status=2)
        self.assertEqual(document["groups"], [])
        self.assertIn("no document was left to merge", got.err)
        got = self.run_tool("merge", b, status=2)
        self.assertEqual(got.text, "")

    def test_out_of_time(self):
        """A fifo to which nobody writes: what is printed is a document of no host, and none of a snapshot."""
        fifo = os.path.join(self.scratch(), "fifo")
        os.mkfifo(fifo)
        held = os.open(fifo, os.O_RDWR)
        try:
            got, document = self.merged(fifo, "--timeout", "300", status=2)
        finally:
            os.close(held)
        self.assertEqual((document["host_count"], document["groups"]), (0, []))
        self.assertIn("gave up after 300 ms (--timeout)", got.err)

    def test_usage(self):
        a, = self.documents("a")
        self.assertIn("at least one file", self.run_tool("merge", status=64).err)
        self.assertIn("cannot show what was merged", self.run_tool("merge", "-f", "pprof", "-o", "/dev/null", a,
                                                                   status=64).err)
        self.assertIn("cannot be used with 'merge'", self.run_tool("merge", "--all", a, status=64).err)


class Fleet(Case):
    """The commands of stacksnap-fleet(7), with workers on this host in place of ssh."""
    level = "all"

    def setUp(self):
        super().setUp()
        need_root()
        need("unshare")
        self.worker = os.path.join(self.scratch(), "worker.py")
        with open(self.worker, "w", encoding="utf-8") as f:
            f.write(WORKER)

    def command(self, host):
        return ["unshare", "--uts", sys.executable, self.worker, host, os.path.join(TARGETS, "threads"), TOOL]

    def check_fleet(self, argv, **options):
        lines = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=600, check=False, **options)
        path = os.path.join(self.scratch(), "lines")
        with open(path, "wb") as f:
            f.write(lines.stdout)
        self.check_merged_fleet([path], lines.stderr.decode(errors="replace"))

    def check_merged_fleet(self, paths, why, hosts=HOSTS):
        got = self.run_tool("merge", "--json", *paths)
        self.assertEqual(got.err, "", why)
        document = json.loads(got.text)
        check_merged(document)
        names = {h["name"] for h in document["hosts"]}
        self.assertEqual(names, {f"web-{i:02}" for i in range(1, hosts + 1)} - {"web-40"}, why)
        odd = {(g["odd"], tuple(g["odd_hosts"])) for g in document["groups"] if "odd" in g}
        self.assertEqual(odd, {("rare", (ODD,)), ("missing", (ODD,))})
        self.assertEqual([g["odd"] for g in document["groups"][:2]], ["missing", "rare"])
        text = self.run_tool("merge", *paths).text
        self.assertIn(f"only on 1 of {hosts - 1} hosts: {ODD}", text)
        self.assertIn(f"not on 1 of {hosts - 1} hosts: {ODD}", text)

    def test_clustershell(self):
        need("clush")
        self.check_fleet(["clush", "-N", "-q", "-R", "exec", "-w", f"web-[01-{HOSTS}]", "-f", "8", "-t", "60", "-u", "300",
                          " ".join(self.command("%h"))])

    def test_pdsh(self):
        need("pdsh")
        self.check_fleet(["pdsh", "-N", "-R", "exec", "-w", f"web-[01-{HOSTS}]", "-f", "8", "-u", "300",
                          *self.command("%h")])

    def test_slurm(self):
        need("srun", "slurmctld", "slurmd", "munged")
        folder = self.scratch()
        with Slurm(os.path.join(folder, "slurm"), nodes=4, tasks=HOSTS // 4) as slurm:
            script = os.path.join(folder, "task.sh")
            with open(script, "w", encoding="utf-8") as f:
                host = '$(printf web-%02d $((SLURM_PROCID + 1)))'
                f.write(f'host={host}\nexec ' + " ".join(self.command("$host")) + f' > {folder}/$host.json\n')
            done = slurm.run("srun", "-N", 4, "-n", HOSTS, "--kill-on-bad-exit=0", "--time", 10, "sh", script)
        paths = [os.path.join(folder, f"web-{i:02}.json") for i in range(1, HOSTS + 1)]
        self.check_merged_fleet([p for p in paths if os.path.exists(p) and os.path.getsize(p)], done.stderr)


SLURM_CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A cluster on this host: a controller, and nodes that are daemons on ports of their own."""

    def __init__(self, folder, nodes, tasks):
        self.folder, self.nodes, self.daemons = folder, nodes, []
        os.makedirs(os.path.join(folder, "state"))
        with open(os.open(os.path.join(folder, "munge.key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(1024))
        host = socket.gethostname().split(".")[0]
        ports = free_ports(nodes + 1)
        conf = SLURM_CONF.format(folder=folder, host=host, port=ports[0], user=pwd.getpwuid(os.geteuid()).pw_name)
        for i in range(nodes):
            conf += f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i + 1]} CPUs={tasks}\n"
        self.conf = os.path.join(folder, "slurm.conf")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(conf)

    def start(self, *argv):
        with open(os.path.join(self.folder, f"{argv[0]}-{len(self.daemons)}.out"), "wb") as out:
            self.daemons.append(subprocess.Popen(argv, env=dict(os.environ, SLURM_CONF=self.conf),
                                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def run(self, *argv, timeout=300):
        try:
            return subprocess.run([str(a) for a in argv], env=dict(os.environ, SLURM_CONF=self.conf), timeout=timeout,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  check=False)
        except subprocess.TimeoutExpired as error:
            raise unittest.SkipTest(f"Slurm: {argv[0]} does not end on this machine") from error

    def __enter__(self):
        path = {name: os.path.join(self.folder, "munge." + name) for name in ("socket", "key", "pid", "log", "seed")}
        self.start("munged", "--foreground", "--force", "--socket", path["socket"], "--key-file", path["key"],
                   "--pid-file", path["pid"], "--log-file", path["log"], "--seed-file", path["seed"])
        try:
            wait_until(lambda: os.path.exists(path["socket"]), "munged to listen", 30)
            self.start("slurmctld", "-D", "-f", self.conf)
            for i in range(self.nodes):
                self.start("slurmd", "-D", "-N", f"n{i}", "-f", self.conf)
            idle = f"{self.nodes} idle"
            wait_until(lambda: self.run("sinfo", "-h", "-o", "%D %t").stdout.strip() == idle, "all nodes to be idle", 60)
        except AssertionError as error:
            self.__exit__()
            raise unittest.SkipTest(f"Slurm does not run on this machine: {error}") from error
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def free_ports(count):
    """Ports of the loopback address that nobody has now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
