# SPDX-License-Identifier: LGPL-2.1-or-later
"""Profiles for pprof and folded stacks, read by their real readers: `go tool pprof` without the
program's file, flamegraph.pl, gzip, protoc. And that these checks can fail."""
import contextlib
import glob
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
import xml.etree.ElementTree as ElementTree

from harness import Case, DEADLINE, DENIED, missing, need, read_file, threads, wait_until, walk

# What pprof says on stderr when all is well.
CHATTER = re.compile(r"Generating report in /dev/null\s*")
INLINED = ("victim_hold", "demo::Ring<int>::hold(int const&)", "demo::Ring<int>::step(",
           "demo::run(std::function<int (int)> const&)", "main")
FOLDED_LINE = re.compile(r"[^;\x00-\x1f\x7f]+(;[^;\x00-\x1f\x7f]+)* [0-9]+")


class Complaint(AssertionError):
    """A reader, or a check of ours, does not take a file."""


def pprof(folder, *args, local=False):
    """`go tool pprof` with an own home; what it prints."""
    if not shutil.which("go"):
        missing("go", "golang-go")
    environment = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, LC_ALL="C.UTF-8")
    if not local:
        environment["PPROF_BINARY_PATH"] = "/nonexistent"
    got = subprocess.run(["go", "tool", "pprof", f"-symbolize={'local' if local else 'none'}",
                          *map(str, args)], env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)
    out, err = got.stdout.decode("utf-8"), got.stderr.decode("utf-8", errors="replace")
    if got.returncode or CHATTER.sub("", err):
        raise Complaint(f"pprof {args}: status {got.returncode}: {err or out}")
    return out


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(folder, path):
    """pprof's own web server on the file: the address of its pages."""
    port = free_port()
    environment = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, LC_ALL="C.UTF-8",
                       PPROF_BINARY_PATH="/nonexistent")
    server = subprocess.Popen(["go", "tool", "pprof", "-symbolize=none", "-no_browser",
                               f"-http=127.0.0.1:{port}", path], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True)

    def answers():
        if server.poll() is not None:
            raise Complaint(f"pprof's server ended with {server.returncode}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, "pprof's server")
        yield f"http://127.0.0.1:{port}/ui/"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def flamegraph():
    found = shutil.which("flamegraph.pl")
    for path in glob.glob("/usr/share/perl5/Devel/NYTProf/flamegraph.pl"):
        found = found or path
    return found or missing("flamegraph.pl", "libdevel-nytprof-perl")


def check_folded(text):
    """Lines of the format, none twice, sorted; the sum of their counts."""
    total, last = 0, None
    for line in text.splitlines():
        if not FOLDED_LINE.fullmatch(line) or DENIED.search(line):
            raise Complaint(f"not a line of folded stacks: {line!r}")
        stack, count = line.rsplit(" ", 1)
        if last is not None and stack.encode() <= last:
            raise Complaint(f"twice, or out of order: {line!r}")
        last = stack.encode()
        total += int(count)
    return total


def check_drawn(folder, path, countname):
    """flamegraph.pl draws it, warns of nothing, and what it draws is XML with titles."""
    got = subprocess.run(["perl", flamegraph(), "--countname", countname, path],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=DEADLINE)
    if got.returncode or got.stderr:
        raise Complaint(f"flamegraph.pl: {got.stderr.decode(errors='replace')}")
    picture = ElementTree.fromstring(got.stdout)
    return [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]


def raw_samples(text):
    """Of -raw: [(values, locations, labels)]."""
    samples = []
    body = text[text.index("Samples:\n"):text.index("Locations\n")].splitlines()[2:]
    for line in body:
        found = re.fullmatch(r"\s*([\d ]+): ([\d ]+?) *", line)
        if found:
            samples.append(([int(v) for v in found.group(1).split()],
                            [int(v) for v in found.group(2).split()], {}))
        else:
            samples[-1][2].update(re.findall(r"(\w+):\[([^]]*)\]", line))
    return samples


def raw_mappings(text):
    """Of -raw: {file: (start, limit, offset, build id, flags)} of those with addresses."""
    found = re.findall(r"^\d+: (0x\w+)/(0x\w+)/(0x\w+) (\S+) (\S*) ?((?:\[\w+\])*)\s*$",
                       text[text.index("Mappings\n"):], re.M)
    return {name: (int(start, 16), int(limit, 16), int(offset, 16), build_id, flags)
            for start, limit, offset, name, build_id, flags in found if int(limit, 16)}


def maps_lines(pid):
    lines = []
    for line in read_file(f"/proc/{pid}/maps").splitlines():
        words = line.split(None, 5)
        if len(words) == 6:
            start, end = (int(w, 16) for w in words[0].split("-"))
            lines.append((start, end, int(words[2], 16), words[5]))
    return lines


class Checks:
    """What must hold of both files; `make` writes them, `names` are functions of the victim."""
    types = ()
    names = INLINED

    def make(self):
        raise NotImplementedError

    def test_pprof_shows_names_lines_and_tags_without_the_file(self):
        path, _ = self.make()
        folder = self.scratch()
        raw = pprof(folder, "-raw", path)
        for part in ("Samples:\n", "Locations\n", "Mappings\n"):
            self.assertIn(part, raw)
        top = pprof(folder, "-top", "-nodecount=100000", path)
        for part in ("Build ID: ", f"Type: {self.types[-1]}", "stacksnap "):
            self.assertIn(part, top)
        for report in ("-top", "-traces", "-tree", "-peek=.", "-dot"):
            shown = pprof(folder, report, "-nodecount=100000", path)
            self.assertIsNone(DENIED.search(shown.replace("\t", " ")))
            if report == "-dot":
                self.assertIn("digraph", shown)
                continue
            for name in self.names:
                self.assertIn(name, shown, report)
        self.assertRegex(pprof(folder, "-top", "-lines", "-nodecount=100000", path),
                         r"demo::Ring<int>::hold\(int const&\) .*inlined\.cc:\d+")
        self.assertRegex(top, r"victim_hold \(inline\)")
        tags = pprof(folder, "-tags", path)
        for key in ("pid", "process", "state", "thread_name"):
            self.assertRegex(tags, rf"(?m)^ *{key}: Total ")
        self.assertIn(pprof(folder, "-comments", path).strip(), top)
        self.assertIn("stacksnap ", pprof(folder, "-comments", path))
        pprof(folder, "-proto", "-output=/dev/null", path)
        for kind in self.types:
            self.assertIn(f"Type: {kind}", pprof(folder, "-top", f"-sample_index={kind}", path))

    def test_pprof_serves_its_pages(self):
        for program, package in (("go", "golang-go"), ("dot", "graphviz")):
            if not shutil.which(program):
                missing(program, package)
        path, _ = self.make()
        with serving(self.scratch(), path) as root:
            for page in ("", "top", "peek?f=.", "flamegraph", "source?f=main"):
                with urllib.request.urlopen(root + page, timeout=DEADLINE) as answer:
                    text = answer.read().decode("utf-8")
                self.assertEqual(answer.status, 200, page)
                if not page.startswith("source"):
                    self.assertIn("victim_hold", text, page)

    def test_pprof_takes_the_difference(self):
        path, _ = self.make()
        self.assertRegex(pprof(self.scratch(), "-top", f"-diff_base={path}", path),
                         r"Showing nodes accounting for 0s?, 0% of ")

    def test_pprof_parts_by_tags(self):
        path, _ = self.make()
        folder = self.scratch()
        self.assertIn("main", pprof(folder, "-top", "-nodecount=100000",
                                    "-tagfocus=state=sleeping", path))
        self.assertRegex(pprof(folder, "-traces", "-tagroot=thread_name", path), r"(?m)inlined$")

    def test_mappings_are_parts_of_the_real_ones(self):
        path, _ = self.make()
        mappings = raw_mappings(pprof(self.scratch(), "-raw", path))
        lines = maps_lines(self.victims[-1].pid)
        self.assertTrue(any(name.endswith("/inlined") for name in mappings), mappings)
        for name, (start, limit, offset, build_id, flags) in mappings.items():
            inside = [m for m in lines if m[0] <= start and limit <= m[1] and m[3] == name]
            self.assertEqual(len(inside), 1, (name, mappings, lines))
            self.assertEqual(start - offset, inside[0][0] - inside[0][2], name)
            self.assertRegex(build_id, "^[0-9a-f]{8,}$")
            self.assertIn("[FN]", flags)

    def test_gzip_and_protoc_read_it(self):
        need("gzip")
        path, _ = self.make()
        subprocess.run(["gzip", "-t", path], check=True, stdin=subprocess.DEVNULL)
        if not shutil.which("protoc"):
            missing("protoc", "protobuf-compiler")
        with gzip.open(path) as f:
            got = subprocess.run(["protoc", "--decode_raw"], input=f.read(), check=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(got.stderr, b"")
        self.assertIn(b'6: "threads"' if self.types == ("threads",) else b'6: "wall"', got.stdout)

    def test_flamegraph_draws_the_folded_file(self):
        path, folded = self.make()
        text = read_file(folded)
        total = check_folded(text)
        self.assertIn("victim_hold_[i]", text)
        shown = check_drawn(self.scratch(), folded, self.types[0])
        self.assertTrue(any(t and t.startswith("main (") for t in shown), shown)
        samples = raw_samples(pprof(self.scratch(), "-raw", path))
        self.assertEqual(sum(s[0][0] for s in samples), total, "both formats have the same sum")


class Snapshot(Checks, Case):
    asan = True
    types = ("threads",)

    def make(self):
        victim = self.victim("inlined")
        folder = self.scratch()
        paths = os.path.join(folder, "a.pb.gz"), os.path.join(folder, "a.folded")
        capture = os.path.join(folder, "capture")
        self.run_tool("-p", victim.pid, "--save-capture", capture, "-f", "pprof", "-o", paths[0])
        self.run_tool("render", capture, "-f", "folded", "-o", paths[1])
        self.run_tool("render", capture, "-o", os.path.join(folder, "again.pb.gz"))
        self.assertEqual(read_file(paths[0], "rb"),
                         read_file(os.path.join(folder, "again.pb.gz"), "rb"),
                         "the same input gives the same bytes")
        return paths

    def test_the_document_gives_the_same_profile(self):
        victim = self.victim("inlined")
        folder = self.scratch()
        files = {name: os.path.join(folder, name)
                 for name in ("capture", "a.json", "a.pb.gz", "b.pb.gz", "a.folded", "b.folded")}
        self.run_tool("-p", victim.pid, "--save-capture", files["capture"], "-o", files["a.json"])
        for source, letter in (("capture", "a"), ("a.json", "b")):
            for suffix in (".pb.gz", ".folded"):
                self.run_tool("render", files[source], "-o", files[letter + suffix])
        self.assertEqual(read_file(files["a.folded"]), read_file(files["b.folded"]))
        self.assertEqual(pprof(folder, "-traces", "-lines", files["a.pb.gz"]),
                         pprof(folder, "-traces", "-lines", files["b.pb.gz"]))

    def test_pprof_names_what_we_did_not(self):
        victim = self.victim("inlined")
        path = os.path.join(self.scratch(), "a.pb.gz")
        self.run_tool("-q", "-p", victim.pid, "-o", path)
        self.assertNotIn("main", pprof(self.scratch(), "-top", path))
        self.assertRegex(pprof(self.scratch(), "-top", path, local=True), r"(?m) main$")

    def test_counts_are_those_of_the_document(self):
        victim = self.victim("threads", "futex:5:worker:3", "sleep:2:same")
        folder = self.scratch()
        capture = os.path.join(folder, "capture")
        doc = self.run_tool("-j", "-p", victim.pid, "--save-capture", capture).doc
        tids = {str(t) for node in walk(doc["processes"]) for t in threads(node)}
        for flags in ([], ["--per-thread"]):
            path, folded = os.path.join(folder, "a.pb.gz"), os.path.join(folder, "a.folded")
            self.run_tool("render", capture, *flags, "-o", path)
            self.run_tool("render", capture, *flags, "-o", folded)
            samples = raw_samples(pprof(folder, "-raw", path))
            self.assertEqual(sum(values[0] for values, _, _ in samples), doc["thread_count"])
            self.assertEqual(check_folded(read_file(folded)), doc["thread_count"])
            shown = {labels.get("tid") for _, _, labels in samples}
            self.assertEqual(shown, tids if flags else {None})


class Recording(Checks, Case):
    asan = True
    types = ("samples", "wall")

    def make(self):
        victim = self.victim("inlined")
        folder = self.scratch()
        recording, stats = os.path.join(folder, "a.snaprec"), os.path.join(folder, "stats.json")
        paths = os.path.join(folder, "a.pb.gz"), os.path.join(folder, "a.folded")
        self.run_tool("record", "-p", victim.pid, "--hz", "50", "-d", "1", "--stats", stats,
                      "-o", recording)
        for path in paths:
            self.run_tool("render", recording, "-o", path)
        self.run_tool("render", recording, "-o", os.path.join(folder, "again.pb.gz"))
        self.assertEqual(read_file(paths[0], "rb"),
                         read_file(os.path.join(folder, "again.pb.gz"), "rb"),
                         "the same input gives the same bytes")
        self.stats = json.loads(read_file(stats))
        return paths

    def test_samples_are_those_of_the_run(self):
        path, folded = self.make()
        raw = pprof(self.scratch(), "-raw", path)
        period = int(re.search(r"(?m)^Period: (\d+)$", raw).group(1))
        self.assertEqual(period, 10**9 // 50)
        samples = raw_samples(raw)
        self.assertEqual(sum(s[0][0] for s in samples), self.stats["thread_samples"])
        self.assertEqual(check_folded(read_file(folded)), self.stats["thread_samples"])
        for values, _, _ in samples:
            self.assertEqual(values[1], values[0] * period)
        self.assertIn(" at 50 Hz, stopped ", pprof(self.scratch(), "-comments", path))


class Readers(Case):
    """The checks refuse what is wrong."""

    def good(self):
        victim = self.victim("inlined")
        path = os.path.join(self.scratch(), "good.pb.gz")
        self.run_tool("-p", victim.pid, "-o", path)
        with gzip.open(path) as f:
            return f.read()

    def refused(self, content):
        path = os.path.join(self.scratch(), "bad.pb.gz")
        with gzip.open(path, "wb") as f:
            f.write(content)
        with self.assertRaises(Complaint):
            pprof(self.scratch(), "-raw", path)

    def test_pprof_refuses_broken_profiles(self):
        good = self.good()
        one_location, one_value, two_values = b"\x0a\x01\x01", b"\x12\x01\x01", b"\x12\x02\x01\x01"
        nowhere = b"\x0a\x02\xff\x7f"
        for sample in (one_location + two_values, one_location, nowhere + one_value):
            self.refused(good + b"\x12" + bytes([len(sample)]) + sample)
        self.refused(good[:-3])

    def test_folded_check_refuses_broken_lines(self):
        self.assertEqual(check_folded("a;b 1\na;c d 20\n"), 21)
        for wrong in ("a;b\n", "a;b 1\na;b 2\n", "a;;b 1\n", ";a 1\n", "a;b\x1b 1\n", "a;b 1.5\n",
                      "a;\u202eb 1\n", "b 1\na 1\n", "\n"):
            with self.assertRaises(Complaint, msg=wrong):
                check_folded(wrong)
        path = os.path.join(self.scratch(), "bad.folded")
        with open(path, "w", encoding="utf-8") as f:
            f.write("a;b\n")
        with self.assertRaises(Complaint):
            check_drawn(self.scratch(), path, "threads")
