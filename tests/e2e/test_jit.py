# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code made at run time, and the perf maps that may name it: which are believed, which are not."""
import json
import os
import re
import signal
import subprocess

from harness import Case, build_once, functions, need, need_root, source_target, wait_until, walk
from html_pages import Page
from test_formats_pprof import pprof, raw_samples

JAVA = """
public class Busy {
    static volatile long sink;
    static long leaf(long x) { for (int i = 0; i < 1000; i++) x = x * 31 + (x >>> 7); return x; }
    static long deep(int n, long x) { return n > 0 ? deep(n - 1, x) + 1 : leaf(x); }
    static void run(int n) { while (true) sink = deep(n, sink); }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 3; i++) {
            int depth = i * 5;
            Thread t = new Thread(() -> run(depth));
            t.setDaemon(true);
            t.start();
        }
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
        while (System.in.read() >= 0) { }
    }
}
"""

NODE = """
function leaf(x) { for (let i = 0; i < 1000; i++) x = (x * 31 + (x >>> 7)) | 0; return x; }
function deep(n, x) { return n > 0 ? deep(n - 1, x) + 1 : leaf(x); }
process.stdin.on('end', () => process.exit(0)); process.stdin.resume();
let x = 1;
setInterval(() => { const end = Date.now() + 50; while (Date.now() < end) x = deep(5, x); }, 0);
console.log('ready ' + process.pid);
"""

PAGE = """<script>
function leaf(x) { for (let i = 0; i < 1000; i++) x = (x * 31 + (x >>> 7)) | 0; return x; }
setInterval(() => { const end = Date.now() + 50; let x = 1; while (Date.now() < end) x = leaf(x); }, 0);
</script>"""

# Functions that threads begin with: what calls lead to from there is no guess.
STARTS = ("clone3", "clone", "__clone", "_start", "__libc_start_main")


def marks_in_speedscope(text):
    document = json.loads(text)
    marked = ["[?]" in frame["name"] for frame in document["shared"]["frames"]]
    profile = document["profiles"][0]  # of all threads
    return sum(weight * sum(marked[frame] for frame in sample) for sample, weight in
               zip(profile["samples"], profile["weights"]))


def marks_in_chrome(text):
    return sum(" [?]" in event["name"] for event in json.loads(text)["traceEvents"] if event["ph"] == "X")


def marks_in_firefox(text):
    document = json.loads(text)
    shared, found = document["shared"], 0
    for thread in document["threads"]:
        for stack in thread["samples"]["stack"]:
            while stack is not None:
                name = shared["funcTable"]["name"][shared["frameTable"]["func"][shared["stackTable"]["frame"][stack]]]
                found += "[?]" in shared["stringArray"][name]
                offset = shared["stackTable"]["prefixOffset"][stack]
                stack = stack - offset if offset else None
    return found


def marks_in_html(text):
    data, found = Page(text).data, 0
    for group in (group for process in data["processes"] for group in process.get("groups", ())):
        stack = group.get("stack", 0)
        while stack > 0:
            caller, frame = data["stacks"][2 * stack:2 * stack + 2]
            found += group["count"] * bool(data["frames"][6 * frame + 5] & 8)
            stack = caller
    return found


MARKS_IN = {"speedscope": marks_in_speedscope, "chrome": marks_in_chrome, "firefox": marks_in_firefox,
            "html": marks_in_html}


class PerfMap(Case):
    asan = True

    def jit(self, mode="anon"):
        victim = self.victim("jit", mode)
        path = f"/tmp/perf-{victim.pid}.map"
        def remove():
            try:
                os.unlink(path)
            except OSError:
                pass
        self.addCleanup(remove)
        return victim, path

    def write(self, victim, path, name="jitted_function", before="", after=""):
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(f"{before}{victim['start']:x} {int(victim.values['size'], 16):x} {name}\n{after}")

    def frame(self, victim, *arguments, status=(0, 1)):
        stack = self.node(victim.pid, *arguments, status=status)["stacks"][0]
        got = functions(stack)
        at = got.index("from_jit")
        self.assertEqual(got[at + 2], "main", got)
        # Code in no file is believed to keep a frame pointer; who called it was found so.
        self.assertEqual([e.get("trust") for e in stack["entries"][at:at + 4]],
                         [None, None, "frame_pointer", None], got)
        self.assertEqual(stack["unwind"], "guessed")
        return stack["entries"][at + 1]

    def test_named_by_the_map(self):
        for mode in ("anon", "memfd", os.path.join(self.scratch(), "code.dll")):
            victim, path = self.jit(mode)
            self.write(victim, path)
            self.assertEqual(self.frame(victim, status=0)["function"], "jitted_function")

    def test_without_a_map(self):
        victim, _ = self.jit()
        self.assertNotIn("function", self.frame(victim))

    def test_neighbours_and_gaps(self):
        victim, path = self.jit()
        start = victim["start"]
        self.write(victim, path, before=f"{start - 16:x} 10 before\n", after=f"{start + 12:x} 10 after\n")
        self.assertEqual(self.frame(victim)["function"], "jitted_function")
        with open(path, "w") as f:
            f.write(f"{start - 16:x} 10 before\n{start + 12:x} 10 after\n")
        self.assertNotIn("function", self.frame(victim))

    def test_never_and_always(self):
        victim, path = self.jit()
        self.write(victim, path)
        self.assertNotIn("function", self.frame(victim, "--perf-map=never"))
        self.assertEqual(self.frame(victim, "--perf-map=always")["function"], "jitted_function")

    def test_escapes_in_names(self):
        victim, path = self.jit()
        self.write(victim, path, name="evil\x1b]52;c;x\x07\u202ename\udcff")
        entry = self.frame(victim)
        self.assertIn("\\x1b", entry["function"])
        self.assertIn("\\xff", entry["function"])
        self.assertNotIn("\x1b", self.run_tool("-p", victim.pid, status=(0, 1)).text)

    def test_symlink_is_refused(self):
        victim, path = self.jit()
        real = os.path.join(self.scratch(), "map")
        self.write(victim, real)
        os.symlink(real, path)
        self.assertNotIn("function", self.frame(victim))

    def test_hard_link_is_refused(self):
        victim, path = self.jit()
        self.write(victim, path)
        os.link(path, path + ".second")
        self.addCleanup(os.unlink, path + ".second")
        self.assertNotIn("function", self.frame(victim))

    def test_fifo_is_refused(self):
        victim, path = self.jit()
        os.mkfifo(path)
        self.assertNotIn("function", self.frame(victim))

    def test_foreign_owner_is_refused(self):
        need_root()
        victim, path = self.jit()
        self.write(victim, path)
        os.chown(path, 65534, 65534)
        self.assertNotIn("function", self.frame(victim))
        self.assertNotIn("function", self.frame(victim, "--perf-map=always"))

    def test_root_against_another_user(self):
        """auto: not when root looks at another user's process; always: then too."""
        need_root()
        program = os.path.join(self.scratch(), "jit")
        import shutil
        from harness import TARGETS
        shutil.copy(os.path.join(TARGETS, "jit"), program)
        victim = self.program([program], user=65534, group=65534, extra_groups=[])
        path = f"/tmp/perf-{victim.pid}.map"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        self.write(victim, path)
        os.chown(path, 65534, 65534)
        self.assertNotIn("function", self.frame(victim))
        self.assertEqual(self.frame(victim, "--perf-map", "always")["function"], "jitted_function")

    def test_a_huge_map_is_bounded(self):
        victim, path = self.jit()
        with open(path, "w") as f:
            for i in range(300000):
                f.write(f"{0x10000000 + i * 16:x} 10 filler_{i}\n")
            f.write(f"{victim['start']:x} c jitted_function\n")
        self.assertIn(self.frame(victim).get("function"), ("jitted_function", None))

    def test_nonsense_lines(self):
        victim, path = self.jit()
        self.write(victim, path, before="zz\n\n1 2\nffffffffffffffffffff 1 x\n-1 -1 y\n" + "a" * 70000 + "\n")
        self.frame(victim)


class Registered(Case):
    """Code registered with GDB's JIT interface: its names, its lines and its callers."""
    asan = True
    MADE = ["registered_inner", "registered_outer", "run", "main"]

    def registers(self, mode="honest"):
        source = source_target("registered.c")
        made = build_once("registered.o", ["gcc", "-O1", "-g", "-fomit-frame-pointer", "-fno-stack-protector",
                                           "-fasynchronous-unwind-tables", "-c", "-o", "{out}", source])
        return self.victim("registers", made, mode)

    def check_made(self, stack):
        names = functions(stack)
        at = names.index("called_back") + 1
        self.assertEqual(names[at:at + 4], self.MADE)
        entries = stack["entries"][at:at + 2]
        self.assertEqual([e["module"] for e in entries], ["[jit]"] * 2)
        self.assertEqual([e.get("trust") for e in stack["entries"]], [None] * len(names))
        self.assertEqual(stack["unwind"], "complete")
        lines = open(source_target("registered.c")).read().splitlines()
        for entry, word in zip(entries, ("inner", "outer")):
            self.assertTrue(entry["file"].endswith("registered.c"), entry)
            self.assertIn(f"/* {word} */", lines[entry["line"] - 1])
        return names

    def test_names_lines_and_callers(self):
        victim = self.registers()
        capture = os.path.join(self.scratch(), "capture")
        for arguments in ((), ("--no-stop",), ("--save-capture", capture)):
            self.check_made(self.node(victim.pid, *arguments)["stacks"][0])
        (node,) = self.run_tool("render", capture, "--json").doc["processes"]
        self.check_made(node["stacks"][0])
        self.assertRegex(self.run_tool("-p", victim.pid).text, r"registered_outer +\S+registered.c:\d+")

    def test_in_a_recording(self):
        victim = self.registers()
        recording = os.path.join(self.scratch(), "recording.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "0.5", "-o", recording)
        text = self.run_tool("render", recording, "--format", "folded").text
        self.assertRegex(text, ";" + ";".join([*reversed(self.MADE), "called_back"]) + ";")
        self.assertNotIn("[?]", text)

    def test_without_lines_and_names(self):
        victim = self.registers()
        stack = self.node(victim.pid, "--no-lines")["stacks"][0]
        self.assertEqual([e["module"] for e in stack["entries"] if e["function"].startswith("registered")], ["[jit]"] * 2)
        stack = self.node(victim.pid, "--runtimes=none", status=(0, 1))["stacks"][0]
        self.assertNotIn("registered_inner", functions(stack))

    def test_in_a_core(self):
        need("gcore")
        victim = self.registers()
        path = os.path.join(self.scratch(), "core")
        subprocess.run(["gcore", "-o", path, str(victim.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL, check=True)
        (node,) = self.json("core", f"{path}.{victim.pid}")["processes"]
        self.check_made(node["stacks"][0])

    def test_as_gdb_has_it(self):
        need("gdb")
        victim = self.registers()
        done = subprocess.run(["gdb", "-nx", "-batch", "-ex", "bt", "-p", str(victim.pid)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        theirs = re.findall(r"(?m)^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) ", done.stdout)
        names = self.check_made(self.node(victim.pid)["stacks"][0])
        at, there = names.index("called_back"), theirs.index("called_back")
        self.assertEqual(names[at:at + 5], theirs[there:], done.stdout)

    def test_hostile_lists_and_images(self):
        for mode in ("ring", "sizes", "nonsense", "over"):
            with self.subTest(mode):
                victim = self.registers(mode)
                self.check_made(self.node(victim.pid, timeout=20)["stacks"][0])


class Guessed(Case):
    """Frames in doubt have a mark in all formats of one capture: those that a guess found, and those
    outside of one, unless CFI alone leads from there to where the thread began."""
    level = "all"

    def java(self):
        need("javac", "java")
        folder = self.scratch()
        with open(os.path.join(folder, "Busy.java"), "w") as f:
            f.write(JAVA)
        subprocess.run(["javac", "-d", folder, os.path.join(folder, "Busy.java")], check=True)
        return self.program(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", folder, "Busy"],
                            settled=False)

    def node_program(self):
        need("node")
        return self.program(["node", "-e", NODE], settled=False)

    def unmarked(self, stack):
        """Frames in doubt without a mark."""
        frames = [e for e in stack["entries"] if not e.get("inlined") and not e.get("kernel")]
        last = max((i for i, e in enumerate(frames) if e.get("trust") in ("frame_pointer", "scan")), default=None)
        if last is None:
            return [e for e in frames if "trust" in e]
        if frames[-1].get("function") in STARTS:
            frames = frames[:last]
        first = next(i for i, e in enumerate(frames + [None]) if e is None or "trust" in e)
        return [e for e in frames[first:] if "trust" not in e]

    def unnamed(self, text):
        """How many frames have no name; a run of them is one line without -v."""
        lines = re.findall(r"\?\? 0x\w+(?: × (\d+))? +\[anon\]|(\d+) frames of code without names +\[anon\]", text)
        return sum(int(times or run or 1) for times, run in lines)

    def check_marks_of_pprof(self, capture, flags, weighed):
        profile = os.path.join(self.scratch(), "profile")
        self.run_tool("render", capture, "--format", "pprof", "-n", "0", *flags, "-o", profile, status=(0, 1))
        raw = pprof(self.scratch(), "-raw", profile)
        names = {}
        for line in raw[raw.index("Locations\n"):raw.index("Mappings\n")].splitlines():
            number = re.match(r" *(\d+): ", line)
            at = int(number.group(1)) if number else at if names else 0
            names[at] = names.get(at, 0) + line.count(" [?]")
        samples = raw_samples(raw)
        self.assertEqual(sum(values[0] * sum(names[at] for at in at_all) for values, at_all, _ in samples), weighed, flags)
        for _, at_all, labels in samples:
            self.assertEqual("guessed" in labels, any(names[at] for at in at_all), labels)

    def check_marks_of_words(self, stacks, text):
        """What --summary calls by name: functions that are a guess in all stacks, and those that are one in none."""
        named = {(e["function"], "trust" in e) for s in stacks for e in s["entries"] if e.get("function")}
        for name in {name for name, _ in named}:
            shown = re.findall(rf"(?m)(~ )?(?<=[~ ] ){re.escape(name)}(?= ←| …|  |$)", text)
            if (name, False) not in named:
                self.assertNotIn("", shown, (name, text))
            elif (name, True) not in named:
                self.assertNotIn("~ ", shown, (name, text))

    def check_marks(self, victim):
        capture = os.path.join(self.scratch(), "capture")
        found = 0
        for _ in range(5):  # at different places of the program
            self.run_tool("-p", victim.pid, "--runtimes=none", "--save-capture", capture, status=(0, 1))
            stacks = [s for n in walk(self.run_tool("render", capture, "--json", "-n", "0", status=(0, 1)).doc["processes"])
                      for s in n["stacks"]]
            for stack in stacks:
                self.assertEqual(self.unmarked(stack), [], stack)
                guesses = [e["trust"] for e in stack["entries"] if "trust" in e]
                self.assertFalse(guesses and stack["unwind"] == "complete", stack)
            marked = [e for s in stacks for e in s["entries"] if "trust" in e and not e.get("inlined")]
            text = self.run_tool("render", capture, "-v", "--no-fold", "-n", "0", status=(0, 1)).text
            lines = re.findall(r"(?m)^[ │├└─]*~ (?!guessed, )(?:.*? × (\d+)(?=  |$))?", text)
            self.assertEqual(sum(int(times or 1) for times in lines), len(marked), text)
            short = self.run_tool("render", capture, "--no-fold", "-n", "0", status=(0, 1)).text
            self.assertEqual(self.unnamed(short), self.unnamed(text))
            self.assertNotRegex(short, r"\?\? 0x.*\n.*\?\? 0x")
            self.check_marks_of_words(stacks, self.run_tool("render", capture, "--summary", "--full-names", "--no-fold", "-n", "0",
                                                            status=(0, 1)).text)
            weighed = sum(s["count"] * sum("trust" in e for e in s["entries"]) for s in stacks)
            folded = self.run_tool("render", capture, "--format", "folded", "-n", "0", status=(0, 1)).text
            self.assertEqual(sum(line.count(" [?]") * int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()
                                 if line.rsplit(" ", 1)[1].isdigit()), weighed, folded)
            # Without names there are locations without lines, but not of what is in doubt.
            for flags in ((), ("-q",)):
                self.check_marks_of_pprof(capture, flags, weighed)
            for kind, count in MARKS_IN.items():
                rendered = self.run_tool("render", capture, "--format", kind, "-n", "0", status=(0, 1)).raw.decode()
                self.assertEqual(count(rendered), weighed, kind)
            found += len(marked)
        self.assertGreater(found, 0)

    def test_java(self):
        self.check_marks(self.java())

    def test_node(self):
        self.check_marks(self.node_program())

    def test_code_without_names_is_one_row(self):
        """Of the functions of a recording, at whichever address it ran."""
        text = self.run_tool("record", "-p", self.node_program().pid, "-d", 2, status=(0, 1), free=False).text
        rows = re.findall(r"(?m)^ *[\d.]+ % +running +(\S.*)$", text)
        self.assertIn("[anon]", rows)
        self.assertFalse([row for row in rows if row.startswith("0x")], text)

    def test_chromium(self):
        """Its own code has no frame pointers, and that of its pages no unwind information."""
        need("chromium")
        folder = self.scratch()
        with open(os.path.join(folder, "busy.html"), "w", encoding="ascii") as file:
            file.write(PAGE)
        browser = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             f"--user-data-dir={folder}/profile", f"file://{folder}/busy.html"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(browser.communicate)
        self.addCleanup(os.killpg, browser.pid, signal.SIGKILL)
        wait_until(lambda: b"trust" in self.run_tool("-p", browser.pid, "--state", "running", "--json", status=(0, 1, 2),
                                                     free=False).raw, "a page that computes")
        self.check_marks(browser)
