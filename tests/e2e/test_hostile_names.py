# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names that somebody else chose, in every place where a name can stand, through every format: not
one forbidden byte, each output taken by its strict reader, and the raw bytes come back.

The escape is written here a second time, with Python's own decoder of UTF-8, so that nothing is
held to itself."""
import functools
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

import html_pages
import traces
from harness import ASAN, BUILD, BUILD_ASAN, Case, TARGETS, check_schema, need, processes, walk
from readers import speedscope_complaints
from test_formats_pprof import pprof

COUNT = 5000
COLUMNS = ("name", "description", "exe", "argument", "user", "cgroup", "unit", "container",
           "ancestor", "trouble", "thread", "syscall", "wchan", "title", "detail", "function",
           "symbol", "file", "module", "build_id", "inlined", "warning")
TEXT_ONLY = ("text", "list", "folded")
FORBIDDEN = {0x7f, 0x61c, 0x200e, 0x200f, 0xfeff, *range(0x20), *range(0x80, 0xa0),
             *range(0x2028, 0x202f), *range(0x2066, 0x206a), *range(0xfdd0, 0xfdf0),
             *(plane << 16 | low for plane in range(17) for low in (0xfffe, 0xffff))}
ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")
OURS = re.compile("\x1b\\[(?:0|1|2|31|1;31|32|33|35|36)m")


@functools.lru_cache(maxsize=None)
def escape(raw, ascii_only=False, also=""):
    """What must stand for these bytes."""
    out = []
    for c in raw.decode("utf-8", errors="surrogateescape"):
        code = ord(c)
        if c == "\\":
            out.append("\\\\")
        elif 0xdc80 <= code <= 0xdcff:
            out.append(f"\\x{code - 0xdc00:02x}")
        elif code in FORBIDDEN or c in also or (ascii_only and code > 0x7e):
            out.extend(f"\\x{byte:02x}" for byte in c.encode())
        else:
            out.append(c)
    return "".join(out)


@functools.lru_cache(maxsize=None)
def unescape(text):
    """The way back: the bytes."""
    return ESCAPE.sub(lambda m: bytes([int(m.group(1), 16)]) if m.group(1) else b"\\", text.encode())


PIECES = (b"\x1b[31m", b"\x1b]52;c;Y2FsYw==\x07", b"\x1b]0;title\x1b\\", b"\x9b2J", b"\xc2\x9b2J", b"\x1bP",
          b"\r\n", b"\n", b"\t", b";", b" ", b" 1\n", b"\\", b"\\x1b", b"\\\\x41", b"\\u001b", b"\\x", b"\\x4",
          b'"', b"'", b'"}],"evil":[{"', b"</script>", b"%s%n", b"$(id)", b"`id`", b"..", b"/", b"../../etc/passwd",
          b") R 1 1 1 0 -1 4194560", b"(", b"<", b">", b",", b"::", b"operator<<", b"std::vector<", b"[abi:",
          b"7f0000000000-7f0000001000 r-xp 00000000 08:01 12 /bin/sh\n", b"(deleted)", b" (deleted)", b"_[k]",
          b"@@GLIBC_2.2.5", b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xe2\x80\xa8", b"\xd8\x9c", b"\xef\xbb\xbf",
          b"\xef\xbf\xbe", b"\xf4\x8f\xbf\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80",
          b"\xf4\x90\x80\x80", b"\xff", b"\xfe", b"\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"caf\xc3\xa9", b"\xe6\xbc\xa2",
          b"e\xcc\x81", b"\xf0\x9f\x98\x80", b"\xe2\x80\x8b", b"worker-1", b"name", b"x" * 60, b"\x7f", b"\x08" * 4)


def hostile_names(count, seed):
    """Seeded, none empty, none with a NUL: the kernel ends a name there."""
    chance = random.Random(seed)
    names = [bytes([i]) for i in range(1, 256)]
    names += [chr(c).encode() for c in sorted(FORBIDDEN - {0})]
    names += [f"a{chr(c)}b".encode() for c in sorted(FORBIDDEN - {0})]
    names += list(PIECES)
    names += [b"\\" * n for n in range(1, 12)]
    names += [bytes([0xc3]) * 4096, b"\\" * 4096, b"\x1b" * 4096, b"n" * 4096, b"\xe2\x80\xae" * 1365,
              b"a<" * 2048, b"f(" * 1000 + b")" * 1000, b"operator<" * 400, b"a::" * 1300]
    names = dict.fromkeys(names)
    ready = list(names)
    while len(names) < count:
        kind = chance.randrange(4)
        if kind == 0:
            name = bytes(chance.randrange(1, 256) for _ in range(chance.randrange(1, 24)))
        elif kind == 1:
            name = b"".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 4)))
        elif kind == 2:
            name = "".join(chr(chance.choice((chance.randrange(1, 0x300), chance.randrange(0x2000, 0x2100),
                                              chance.randrange(0xe000, 0x110000))))
                           for _ in range(chance.randrange(1, 8))).encode()
        else:
            name = bytearray(chance.choice(ready)[:64] + chance.choice(PIECES))
            name[chance.randrange(len(name))] = chance.randrange(1, 256)
        names[bytes(name)] = None
    return list(names)[:count]


def table(names):
    """A process a row; each name stands once in every column."""
    step = 211
    return [{column: names[(i + k * step) % len(names)] for k, column in enumerate(COLUMNS)}
            for i in range(len(names))]


def control(rows):
    """As many rows of names that nobody minds."""
    return [{column: f"{column}{i}".encode() for column in COLUMNS} for i in range(len(rows))]


def render(folder, rows):
    """Runs the renderer of tests/unit; the documents by (kind, charset, format)."""
    source = os.path.join(folder, "rows")
    with open(source, "w") as f:
        for row in rows:
            f.write(" ".join(row[column].hex() for column in COLUMNS) + "\n")
    program = os.path.join(BUILD_ASAN if ASAN else BUILD, "tests", "unit", "hostile_names")
    done = subprocess.run([program, source, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300)
    if done.returncode or done.stdout:
        raise AssertionError(f"hostile_names: {done.returncode} {done.stdout.decode(errors='replace')[:3000]}")
    os.unlink(source)
    documents = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            documents[tuple(name.split(".", 2))] = f.read()
    return documents


def refuse_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key twice: {keys}")
    return dict(pairs)


def refuse_constant(word):
    raise ValueError(f"{word} is no JSON")


def strict_json(data):
    return json.loads(data.decode("utf-8"), object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)


def strings_of(value):
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            todo.extend(value)
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


BAD = re.compile("[" + "".join(map(chr, sorted(FORBIDDEN))) + "\ud800-\udfff]")


@functools.lru_cache(maxsize=1 << 16)
def complaint(text):
    """What is wrong with a text that stands in an output; "" if nothing."""
    bad = BAD.search(text)
    if bad:
        return f"{bad.group()!r} in {text[:200]!r}"
    if b"\\" in ESCAPE.sub(b"", text.encode()):
        return f"a part of an escape in {text[:200]!r}"
    return ""


def varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def pprof_strings(data):
    """The string table of a profile."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            _, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            if key >> 3 == 6:
                yield data[at:at + length].decode("utf-8")
            at += length
        else:
            raise AssertionError(f"wire type {key & 7}")


def last_part(path):
    head, slash, tail = path.rpartition(b"/")
    return tail if slash and tail else path


def without_version(name):
    """Text shows a symbol without its version."""
    at = name.find(b"@")
    if at > 0 and (name[at + 1:at + 2] == b"@" or name[at + 1:at + 2].isalpha() and name[at + 1:at + 2].isupper()):
        return name[:at]
    return name


class Formats(Case):
    """All names at once through all formats."""
    level = "all"
    asan = True

    @classmethod
    def setUpClass(cls):
        cls.folders = []
        cls.rows = table(hostile_names(600 if ASAN else COUNT, 4))
        cls.documents = cls.rendered(cls.rows)

    @classmethod
    def tearDownClass(cls):
        for folder in cls.folders:
            shutil.rmtree(folder, True)

    @classmethod
    def rendered(cls, rows):
        folder = tempfile.mkdtemp(prefix="stacksnap-test.")
        cls.folders.append(folder)
        return render(folder, rows)

    def fine(self, text):
        wrong = complaint(text)
        self.assertFalse(wrong, wrong)

    def test_every_format_is_there(self):
        kinds = {(kind, form) for kind, _, form in self.documents}
        listed = subprocess.run([os.path.join(BUILD, "cli", "stacksnap"), "help", "formats"], stdout=subprocess.PIPE,
                                text=True).stdout
        formats = re.findall(r"^  ([a-z-]+) +\.\S+ ", listed, re.M)
        self.assertGreaterEqual(len(formats), 10)
        for form in formats:
            self.assertIn(("snapshot", form), kinds)
            self.assertIn(("recording", form), kinds)

    def test_no_forbidden_byte_in_any_text(self):
        for (kind, charset, form), data in self.documents.items():
            if form not in TEXT_ONLY:
                continue
            with self.subTest(kind=kind, charset=charset, form=form):
                text = data.decode("ascii" if charset.startswith("ascii") and form != "folded" else "utf-8")
                self.assertEqual(text[-1], "\n")
                for line in OURS.sub("", text).split("\n"):
                    self.fine(line)

    def test_no_forbidden_character_in_any_json(self):
        for (kind, charset, form), data in self.documents.items():
            if charset != "utf8" or form not in ("json", "jsonl", "chrome", "speedscope", "firefox"):
                continue
            with self.subTest(kind=kind, charset=charset, form=form):
                # Between values there is nothing but blanks.
                self.assertIsNone(re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data))
                lines = data.splitlines() if form == "jsonl" else [data]
                for line in lines:
                    for text in strings_of(strict_json(line)):
                        self.fine(text)

    def test_charset_changes_text_alone(self):
        for (kind, charset, form), data in self.documents.items():
            if charset == "utf8" and form not in ("text", "list"):
                self.assertEqual(data, self.documents[kind, "ascii", form], (kind, form))

    def test_a_line_stays_a_line(self):
        """As many lines as with harmless names, and where nothing is elided each is known."""
        harmless = self.rendered(control(self.rows))
        for (kind, charset, form), data in self.documents.items():
            if form in TEXT_ONLY and "-" not in charset or form == "jsonl":
                # Files without symbols are listed if their paths are paths.
                counts = {text.partition(b"\n\nno symbols: ")[0].rstrip(b"\n").count(b"\n")
                          for text in (data, harmless[kind, charset, form])}
                self.assertEqual(len(counts), 1, (kind, charset, form, counts))

    def test_text(self):
        for charset in ("utf8", "ascii"):
            for kind in ("snapshot", "recording"):
                with self.subTest(charset=charset, kind=kind):
                    self.check_text(self.documents[kind, charset, "text"].decode(), charset == "ascii",
                                    kind == "snapshot")

    def check_text(self, text, ascii_only, whole):
        def shown(raw):
            return escape(raw, ascii_only)
        lines = text.split("\n")
        at = 0
        for pid, row in enumerate(self.rows, 1):
            title = f"{shown(row['name'])}[{pid}]  {shown(row['description'])}".rstrip(" ")
            at = lines.index(title, at)
            end = next(i for i in range(at + 1, len(lines)) if f"(whole" in lines[i] or "(stack ends here" in lines[i])
            block = "\n".join(lines[at:end + 1])
            for column in ("user", "unit", "container", "exe", "cgroup", "trouble", "inlined", "build_id"):
                wanted = row[column]
                if column == "inlined":
                    wanted = without_version(wanted)
                self.assertIn(shown(wanted).rstrip(" "), block, (pid, column))
            if whole:
                self.assertIn(shown(row["thread"]), block)
                self.assertIn(" in " + shown(row["syscall"]).rstrip(" "), block)
            self.assertIn(shown(without_version(row["function"])).rstrip(" "), block)
            at = end

    def test_json_round_trip(self):
        for kind in ("snapshot", "recording"):
            doc = strict_json(self.documents[kind, "utf8", "json"])
            self.check_document(doc, kind == "snapshot")
        for line in self.documents["recording", "utf8", "jsonl"].splitlines():
            self.check_document(strict_json(line), False)
        self.check_document(strict_json(self.documents["snapshot", "utf8", "jsonl"]), True)

    def raw(self, text, wanted, where):
        if unescape(text) != wanted or text != escape(wanted):
            self.fail(f"{where}: {text[:300]!r} stands for {wanted[:300]!r}")

    def check_document(self, doc, whole):
        nodes = list(walk(doc["processes"]))
        self.assertEqual(len(nodes), len(self.rows))
        for node in nodes:
            pid = node["pid"]
            row = self.rows[pid - 1]
            for key in ("name", "description", "exe", "user", "cgroup", "unit", "container"):
                self.raw(node[key], row[key], (pid, key))
            self.raw(node["args"][0], row["argument"], pid)
            self.raw(node["args"][1], row["name"], pid)
            self.raw(node["ancestors"][0]["name"], row["ancestor"], pid)
            self.raw(node["error"]["message"], row["trouble"], pid)
            (stack,) = node["stacks"]
            (thread,) = stack["threads"]
            self.raw(thread["name"], row["thread"], pid)
            if whole:
                self.raw(thread["syscall"], row["syscall"], pid)
                self.raw(thread["wchan"], row["wchan"], pid)
                self.raw(stack["labels"]["thread_name"], row["thread"], pid)
            self.raw(stack["description"], row["title"], pid)
            self.raw(stack["unwind_detail"], row["detail"], pid)
            first, _, inner, outer = stack["entries"]
            for entry, key in ((first, "function"), (first, "symbol"), (first, "file"), (first, "module"),
                               (first, "build_id"), (outer, "symbol")):
                self.raw(entry[key], row[key], (pid, key))
            self.raw(inner["function"], row["inlined"], pid)
        told = [w["message"] for w in doc.get("warnings", []) if w["code"] == "hostile"]
        if whole:
            self.assertEqual([unescape(m) for m in told], [row["warning"] for row in self.rows])

    def test_schema(self):
        """The strict reader of JSON; a build id is digits, in the schema and wherever one is made."""
        rows = [dict(row, build_id=b"0123abcd") for row in self.rows[:700:7]]
        documents = self.rendered(rows)
        check_schema(strict_json(documents["snapshot", "utf8", "json"]))
        check_schema(strict_json(documents["snapshot", "utf8", "jsonl"]))

    def folded_line(self, pid, row, kind):
        def part(raw):
            return escape(raw, also=";")
        place = part(last_part(row["module"])) + "+0x1001"
        frames = (part(row["symbol"]) + "_[j]", part(row["inlined"]) + "_[i]", place, part(row["function"]))
        count = 1 if kind == "snapshot" else 2
        return ";".join((f"{part(row['name'])}[{pid}]", part(row["thread"]), *frames)) + f" {count}"

    def test_folded(self):
        grammar = re.compile(r"(?:[^;\n]+;)+[^;\n]+ [0-9]+")
        for kind in ("snapshot", "recording"):
            lines = self.documents[kind, "utf8", "folded"].decode().split("\n")[:-1]
            for line in lines:
                self.assertTrue(grammar.fullmatch(line), line)
                self.assertEqual(line.count(";"), 5, line)
            wanted = [self.folded_line(pid, row, kind) for pid, row in enumerate(self.rows, 1)]
            self.assertEqual(sorted(lines), sorted(wanted))
            # and what stands between the separators is the raw name again
            by_pid = {int(re.search(r"\[(\d+)\]$", line.split(";")[0]).group(1)): line for line in lines}
            for pid, row in enumerate(self.rows, 1):
                parts = by_pid[pid].rsplit(" ", 1)[0].split(";")
                self.assertEqual(unescape(parts[1]), row["thread"])
                self.assertEqual(unescape(parts[-1]), row["function"])

    def test_pprof(self):
        for kind in ("snapshot", "recording"):
            data = self.documents[kind, "utf8", "pprof"]
            strings = list(pprof_strings(gzip.decompress(data)))
            for text in strings:
                self.fine(text)
            strings = set(strings)
            for row in self.rows:
                for key in ("function", "inlined", "file", "module", "build_id", "name", "thread", "unit", "syscall"):
                    self.assertIn(escape(row[key]), strings, (kind, key))
            folder = self.scratch()
            path = os.path.join(folder, "names.pb.gz")
            with open(path, "wb") as f:
                f.write(data)
            text = pprof(folder, "-top", "-nodecount=5", path)
            self.assertIn("flat%", text)
            self.fine(text.replace("\n", " "))

    def test_chrome(self):
        for kind in ("snapshot", "recording"):
            document = strict_json(self.documents[kind, "utf8", "chrome"])
            events = document["traceEvents"]
            for event in events:
                self.assertEqual(list(traces.shape(event)), [], event)
            self.assertEqual(list(traces.nesting(events)), [])
            self.assertEqual(list(traces.naming(events)), [])
            texts = set(strings_of(events))
            for pid, row in enumerate(self.rows, 1):
                self.assertIn(escape(row["function"]), texts)
                self.assertIn(f"{escape(row['thread'])}/{pid}", texts)

    def test_speedscope(self):
        for kind in ("snapshot", "recording"):
            document = strict_json(self.documents[kind, "utf8", "speedscope"])
            frames = document["shared"]["frames"]
            for profile in document["profiles"]:
                self.assertEqual(len(profile["samples"]), len(profile["weights"]))
                for sample in profile["samples"]:
                    self.assertTrue(all(0 <= number < len(frames) for number in sample))
            names = {frame["name"] for frame in frames}
            for row in self.rows:
                self.assertIn(escape(row["function"]), names)
                self.assertIn(escape(row["inlined"]), names)

    def test_html(self):
        for kind in ("snapshot", "recording"):
            page = html_pages.Page(self.documents[kind, "utf8", "html"].decode())
            self.assertEqual(page.complaints, [])
            for text in strings_of(page.data):
                self.fine(text)
            names, titles = page.names(), {process.get("name") for process in page.data["processes"]}
            for row in self.rows:
                for column in ("function", "inlined", "thread", "file", "module"):
                    self.assertIn(escape(row[column]), names, column)
                self.assertIn(escape(row["name"]), titles)
            self.assertIn(escape(self.rows[0]["function"]), page.texts["pre"])

    def test_speedscope_schema(self):
        path = os.path.join(self.scratch(), "names.speedscope.json")
        with open(path, "wb") as f:
            f.write(self.rendered(self.rows[:400])["recording", "utf8", "speedscope"])
        self.assertEqual(speedscope_complaints(path), "")

    def test_firefox(self):
        for kind in ("snapshot", "recording"):
            data = self.documents[kind, "utf8", "firefox"]
            self.assertEqual(gzip.decompress(self.documents[kind, "utf8", "firefox-gz"]), data)
            document = strict_json(data)
            strings = document["shared"]["stringArray"]
            tables = document["shared"]
            self.assertTrue(all(0 <= n < len(strings) for n in tables["funcTable"]["name"]))
            self.assertTrue(all(0 <= n < tables["funcTable"]["length"] for n in tables["frameTable"]["func"]))
            names, threads = set(strings), {t["name"] for t in document["threads"]}
            for row in self.rows:
                self.assertIn(escape(row["function"]), names)
                self.assertIn(escape(row["thread"]), threads)

    def test_recording_file(self):
        """.snaprec holds raw bytes; our own reader makes the same of them."""
        rows = [dict(row, build_id=b"0123abcd") for row in self.rows[::5]]
        documents = self.rendered(rows)
        path = os.path.join(self.scratch(), "names.snaprec")
        with open(path, "wb") as f:
            f.write(documents["recording", "utf8", "snaprec"])
        doc = strict_json(self.run_tool("render", path, "-f", "json", status=(0, 1)).raw)
        self.assertEqual(len(doc["processes"]), len(rows))
        for node in doc["processes"]:
            row = rows[node["pid"] - 1]
            # comm is 15 bytes, of kernel workers up to 63; the recording cuts there
            self.raw(node["name"], row["name"][:64] if len(row["name"]) > 64 else row["name"], node["pid"])
            entry = node["stacks"][0]["entries"][0]
            self.raw(entry["function"], row["function"], node["pid"])
            self.raw(entry["file"], row["file"], node["pid"])
        for argument in ("-b", "--summary", "-v"):
            self.run_tool("render", path, argument, status=(0, 1))

    def test_build_id_of_a_recording_is_digits(self):
        """Of a recording that somebody else wrote."""
        documents = self.rendered([dict(self.rows[0], build_id=b"\x1b[31mid")])
        path = os.path.join(self.scratch(), "names.snaprec")
        with open(path, "wb") as f:
            f.write(documents["recording", "utf8", "snaprec"])
        self.assertIn("build id", self.run_tool("render", path, status=2).err)


class Real(Case):
    """The same of real processes: names of threads, programs, arguments, symbols, modules, perf maps
    and control groups, by the one way that each of them has into the tool."""
    level = "test"
    asan = True

    def names(self, count, longest, without=b""):
        """A choice of each kind, cut as the kernel or a file would cut it."""
        every = [n for n in hostile_names(1200, 5) if not any(c in n for c in without)]
        chosen = every[::max(1, len(every) // count)][:count]
        return [n[:longest] for n in chosen]

    def hostile_program(self, *arguments):
        """The victim `names` at a path, with arguments and threads of such names."""
        folder = os.fsencode(self.scratch())
        path = os.path.join(folder, b"dir;\x1b[1m\xe2\x80\xae", b"odd\x1b]52;c;eA==\x07\xff\n7f00-7f01 r-xp \\x41")
        os.mkdir(os.path.dirname(path))
        shutil.copy(os.path.join(TARGETS, "names"), path)
        threads = self.names(120, 15)
        victim = self.program([path, *(n.hex() for n in threads), "--", *arguments])
        return victim, path, threads

    def hostile_library(self, symbol):
        need("objcopy")
        path = os.path.join(os.fsencode(self.scratch()), b"lib\x9b;\xf4\x8f\xbf\xbf.so")
        with open(os.path.join(TARGETS, "libplugin.so"), "rb") as f:
            data = f.read()
        place = b"plug_inner"
        with open(path, "wb") as f:
            f.write(data.replace(place + b"\0", (symbol + b"\0" * len(place))[:len(place)] + b"\0"))
        return self.victim("plug", os.fsdecode(path)), path

    def test_every_format(self):
        arguments = self.names(60, 200)
        program, path, threads = self.hostile_program(*arguments)
        symbol = b"p\x1b;\xff \xc2\x9b\\x\n"
        library, module = self.hostile_library(symbol)
        jit = self.victim("jit")
        perf_map = f"/tmp/perf-{jit.pid}.map"
        self.addCleanup(os.unlink, perf_map)
        function = b"jit\x1b[2J;\xe2\x80\xae \xed\xa0\x80\\ _[k] 7"
        with open(perf_map, "wb") as f:
            f.write(b"%x %x %s\n" % (jit["start"], int(jit.values["size"], 16), function))
        pids = ",".join(str(v.pid) for v in (program, library, jit))
        capture = os.path.join(self.scratch(), "names.snapcap")
        self.run_tool("-p", pids, "--save-capture", capture, "-o", os.devnull)

        doc = self.json("render", capture)
        found = processes(doc)
        raw = {unescape(t["name"]) for s in found[program.pid]["stacks"] for t in s["threads"]}
        for tid in os.listdir(f"/proc/{program.pid}/task"):
            with open(f"/proc/{program.pid}/task/{tid}/comm", "rb") as f:
                self.assertIn(f.read()[:-1], raw)
        self.assertLessEqual(set(threads), raw)
        self.assertEqual([unescape(a) for a in found[program.pid]["args"]][-len(arguments):], arguments)
        self.assertEqual(unescape(found[program.pid]["exe"]), path)
        entries = [e for s in found[library.pid]["stacks"] for e in s["entries"]]
        self.assertIn(symbol, [unescape(e.get("function", "")) for e in entries])
        # The kernel writes a newline of a path as \012, and we show what it wrote.
        self.assertIn(module.replace(b"\n", b"\\012"), [unescape(e.get("module", "")) for e in entries])
        self.assertIn(function, [unescape(e.get("function", "")) for s in found[jit.pid]["stacks"]
                                 for e in s["entries"]])
        self.all_formats(capture)
        self.folded_line(capture, "folded", function, symbol)

    def all_formats(self, source):
        for form in ("text", "json", "jsonl", "folded", "chrome", "speedscope", "firefox"):
            for charset in ("C.UTF-8", "C"):
                with self.subTest(form=form, charset=charset):
                    got = self.run_tool("render", source, "-f", form, "-v", "-m", "-b", env={"LC_ALL": charset},
                                        free=False)
                    if form == "text" and charset == "C":
                        self.assertTrue(got.raw.isascii())
                    texts = got.text.split("\n") if form in TEXT_ONLY else [
                        t for line in (got.raw.splitlines() if form == "jsonl" else [got.raw])
                        for t in strings_of(strict_json(line))]
                    for text in texts:
                        wrong = complaint(text)
                        self.assertFalse(wrong, wrong)
        path = os.path.join(self.scratch(), "names.pb.gz")
        self.run_tool("render", source, "-o", path, free=False)
        with open(path, "rb") as f:
            for text in pprof_strings(gzip.decompress(f.read())):
                wrong = complaint(text)
                self.assertFalse(wrong, wrong)

    def folded_line(self, source, form, *functions_wanted):
        text = self.run_tool("render", source, "-f", form, free=False).text
        parts = [re.sub(rb"_\[[kij]\]$", b"", unescape(p)) for line in text.splitlines()
                 for p in line.rsplit(" ", 1)[0].split(";")]
        for wanted in functions_wanted:
            self.assertIn(wanted, parts)

    def test_messages_list_and_recording(self):
        """What goes to stderr, `list`, and a recording with its summary and figures."""
        program, _, threads = self.hostile_program("a\x1b[31m")
        listed = self.run_tool("list", program.pid).text
        self.assertEqual(len(listed.splitlines()), 3, listed)
        for arguments in (["-v", "-v"], ["--summary"], ["--flat"], ["--thread", "."], ["--group-by", "name"],
                          ["--width", "40", "--color=always"]):
            got = self.run_tool("-p", program.pid, *arguments, color=True)
            for line in OURS.sub("", got.text).split("\n") + got.err.split("\n"):
                wrong = complaint(line)
                self.assertFalse(wrong, wrong)
        folder = self.scratch()
        saved, stats = os.path.join(folder, "x.snaprec"), os.path.join(folder, "stats")
        self.run_tool("record", "-d", "200ms", "--hz", "20", "--stats", stats, "-o", saved, program.pid, free=False)
        with open(stats, "rb") as f:
            strict_json(f.read())
        self.all_formats(saved)
        self.assertTrue(any(escape(n) in self.run_tool("render", saved, free=False).text for n in threads))

    def test_thread_that_looks_like_a_line_of_stat(self):
        """Field 2 may hold anything, also what its reader looks for behind it."""
        tricks = (b") Z 1 1 1 0 -1", b") T 0 0", b"))) R", b"a) (b", b"(", b"1 (x) R 1")
        victim = self.victim("names", *(n.hex() for n in tricks))
        node = self.node(victim.pid)
        seen = {unescape(t["name"]): t["state"] for s in node["stacks"] for t in s["threads"]}
        for name in tricks:
            self.assertEqual(seen[name], "sleeping", seen)

    def test_control_group(self):
        root = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
        name = b"evil\x1b[2J\xff\xe2\x80\xae;\\x.service"
        path = os.path.join(os.fsencode(root), name)
        try:
            os.mkdir(path)
        except OSError as error:
            self.skipTest(f"kernel: no control group can be made: {error}")
        self.addCleanup(os.rmdir, path)
        victim = self.victim("chain")
        try:
            with open(os.path.join(path, b"cgroup.procs"), "w") as f:
                f.write(str(victim.pid))
        except OSError as error:
            self.skipTest(f"kernel: no process can be moved to a control group: {error}")
        self.addCleanup(victim.close)
        node = self.node(victim.pid)
        self.assertTrue(unescape(node["cgroup"]).endswith(name), node["cgroup"])
        self.assertEqual(unescape(node["unit"]), name)
        self.assertIn(escape(name), self.run_tool("-p", victim.pid, "-v").text)
