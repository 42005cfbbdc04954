# SPDX-License-Identifier: LGPL-2.1-or-later
"""What runtimes call their threads, against what the programs say: in full, where comm has 15 bytes or the program's."""
import glob
import json
import os
import re
import subprocess

from harness import Case, at_level, need, processes, threads
from test_waits_languages import pythons

PYTHON = """
import json, os, sys, threading
class Many(threading.Thread):
    def __init__(self, **options):
        super().__init__(daemon=True, **options)
        for i in range(60):
            setattr(self, f"attribute_{i}", i)
class Slots(threading.Thread):
    __slots__ = ("one", "two")
ready, names = threading.Barrier(COUNT + 6), {}
def waits():
    ready.wait()
    threading.Event().wait()
for i in range(COUNT):
    threading.Thread(target=waits, daemon=True, name=f"import of all orders, worker {i}").start()
Many(target=waits, name="one with many attributes").start()
Slots(target=waits, daemon=True, name="one with slots").start()
threading.Thread(target=waits, daemon=True, name="k\\xe4se \\u6f22\\u5b57 \\U0001d499, a long one").start()
threading.Thread(target=waits, daemon=True, name="\\x1b[31m\\u202e\\udcff\\n\\0" + "\\xe4" * 300).start()
named_later = threading.Thread(target=waits, daemon=True, name="x")
named_later.start()
named_later.name = "renamed, and longer than comm"
ready.wait()
names = {t.native_id: t.name for t in threading.enumerate() if t is not threading.main_thread()}
with open(sys.argv[1], "w") as file:
    json.dump(names, file)
print("ready", os.getpid(), flush=True)
threading.Event().wait()
"""
JAVA = """
import java.nio.file.*;
import java.util.concurrent.CountDownLatch;
public class Names {
    static class Own extends Thread {
        String other = "not this one";
        Own(Runnable work, String name) { super(work, name); }
    }
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        CountDownLatch ready = new CountDownLatch(count + 2);
        Runnable waits = () -> {
            ready.countDown();
            try { Thread.sleep(3600000); } catch (InterruptedException e) { }
        };
        for (int i = 0; i < count; i++)
            start(new Thread(waits, "import of all orders, worker " + i));
        start(new Own(waits, "k\\u00e4se, a long one in Latin letters"));
        start(new Own(waits, "\\u6f22\\u5b57 \\ud835\\udc99, a long one"));
        ready.await();
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
        System.in.read();
    }
    static void start(Thread thread) {
        thread.setDaemon(true);
        thread.start();
    }
}
"""
MOST = 127  # bytes


def javas():
    """Each of the machine's that has the table of fields which names need."""
    need("java", "javac")
    found = {}
    for java in [*sorted(glob.glob("/usr/lib/jvm/*/bin/java")), "/usr/bin/java"]:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', text)
        if version and int(version.group(1)) >= 17 and "OpenJDK" in text:
            found.setdefault(int(version.group(1)), java)
    return found


def shown(name):
    """As a report has it: cut, and with what is no text as bytes."""
    text = name.replace("\0", "\ufffd").encode(errors="surrogateescape")
    while len(text) > MOST:
        name = name[:-1]
        text = name.replace("\0", "\ufffd").encode(errors="surrogateescape")
    return text


class Names(Case):
    def check_names(self, victim, truth, *arguments):
        node = processes(self.json("-p", victim.pid, "--no-children", *arguments))[victim.pid]
        found = {tid: thread["name"] for tid, (thread, _) in threads(node).items()}
        for tid, name in truth.items():
            if shown(name).isascii() and name.isprintable():
                self.assertEqual(found[int(tid)], name)
            elif name.isprintable():
                self.assertEqual(found[int(tid)].encode(), shown(name))
            else:
                self.assertIn("31m", found[int(tid)])
        self.assertEqual(node["name"], found[victim.pid])

    def start_python(self, python, count):
        out = os.path.join(self.scratch(), "names")
        victim = self.program([python, "-c", f"COUNT = {count}" + PYTHON, out])
        with open(out, encoding="utf-8") as file:
            return victim, json.load(file)

    def test_python(self):
        for python in pythons():
            with self.subTest(python):
                victim, truth = self.start_python(python, 3)
                for arguments in ([], ["--no-stop"], ["--no-explain"]):
                    self.check_names(victim, truth, *arguments)

    def test_two_hundred_of_python(self):
        victim, truth = self.start_python(pythons()[0], 200)
        self.check_names(victim, truth)
        text = self.run_tool("-p", victim.pid, "--thread", "orders, worker 1[0-9]$").text
        self.assertIn("10 × import of all orders, worker *", text)

    def test_no_runtime_is_asked(self):
        victim, _ = self.start_python(pythons()[0], 3)
        node = processes(self.json("-p", victim.pid, "--runtimes", "none"))[victim.pid]
        self.assertEqual({thread["name"] for thread, _ in threads(node).values()}, {node["name"]})

    def start_java(self, java, count, *options):
        folder = self.folder = getattr(self, "folder", None) or self.scratch()
        source = os.path.join(folder, "Names.java")
        if not os.path.exists(source):
            with open(source, "w", encoding="utf-8") as file:
                file.write(JAVA)
            subprocess.run(["javac", "--release", "17", "-d", folder, source], check=True)
        return self.program([java, "-Xmx128m", "-Xlog:disable", *options, "-cp", folder, "Names", str(count)], settled=False)

    def names_of_java(self, victim, *arguments):
        node = processes(self.json("-p", victim.pid, "--no-children", *arguments, free=False, status=(0, 1)))[victim.pid]
        return {thread["name"] for thread, _ in threads(node).values()}

    @at_level("test")
    def test_java(self):
        wanted = {"import of all orders, worker 0", "k\u00e4se, a long one in Latin letters",
                  "\u6f22\u5b57 \U0001d499, a long one", "main", "C1 CompilerThread0", "Reference Handler"}
        for version, java in javas().items():
            for options in ([], ["-XX:+UseSerialGC"], ["-XX:+UseParallelGC"], ["-XX:-UseCompressedOops"]):
                with self.subTest(f"{version} {options}"):
                    victim = self.start_java(java, 1, *options)
                    for arguments in ([],) if options else ([], ["--no-stop"], ["--no-explain"]):
                        self.assertLessEqual(wanted, self.names_of_java(victim, *arguments))

    def test_two_hundred_of_java(self):
        victim = self.start_java("java", 200)
        names = self.names_of_java(victim)
        self.assertEqual({f"import of all orders, worker {i}" for i in range(200)} - names, set())

    @at_level("test")
    def test_objects_that_are_not_understood(self):
        """Coloured pointers: names are those of comm, or whole."""
        for version, java in javas().items():
            for options in (["-XX:+UseZGC"], ["-XX:+IgnoreUnrecognizedVMOptions", "-XX:-UseCompressedClassPointers"],
                            ["-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseCompactObjectHeaders"]):
                with self.subTest(f"{version} {options}"):
                    victim = self.start_java(java, 1, *options)
                    self.assertTrue({"import of all o", "import of all orders, worker 0"} & self.names_of_java(victim))
