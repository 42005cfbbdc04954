# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every row of bad input: a clear line on stderr, the promised status, JSON that is still valid, the
rest of the report unharmed."""
import errno
import os
import pwd
import re
import shutil
import subprocess
import unittest

from harness import (Case, ROOT, TARGETS, TOOL, functions, need_namespaces, need_root, proc_state, processes, read_file,
                     run_tool, status_field, tids_of, wait_until)

NOBODY = 65534


def free_pid():
    """A pid that no process has."""
    limit = int(read_file("/proc/sys/kernel/pid_max"))
    return next(p for p in range(limit - 1, 1, -1) if not os.path.exists(f"/proc/{p}"))


class Nothing(Case):
    """What cannot be shown at all: status 2, one line that says why."""
    asan = True

    def refused(self, *arguments, word, code=None, status=2, **options):
        got = self.run_tool(*arguments, status=status, **options)
        self.assertEqual(len(got.err.splitlines()), 1, got)
        self.assertRegex(got.err, word)
        doc = self.json(*arguments, status=status, **options)
        if code:
            errors = [n["error"]["code"] for n in processes(doc).values() if "error" in n]
            self.assertIn(code, errors, doc["_result"])
        return got

    def test_no_such_pid(self):
        pid = free_pid()
        got = self.refused("-p", pid, word=f"no (such )?process.*{pid}|{pid}.*no such process", code="no_such_process")
        self.assertNotIn("No such file", got.err)

    def test_nobody_is_called_so(self):
        for option, name in (("--unit", "stacksnap-nobody.service"), ("-u", "stacksnap-nobody"),
                             ("--cgroup", "/stacksnap-nobody"), ("--container", "fedcba9876543210"),
                             ("--name", "^stacksnap-nobody$")):
            got = self.run_tool(option, name, status=2)
            self.assertIn(name, got.err)
            self.assertEqual(got.text, "")
            doc = self.json(option, name, status=2)
            self.assertEqual(doc["processes"], [])

    def test_zombie(self):
        child = subprocess.Popen(["true"])
        wait_until(lambda: proc_state(child.pid) == "Z", "a zombie")
        try:
            self.refused("-p", child.pid, word="zombie", code="zombie")
        finally:
            child.wait()

    def test_kernel_thread(self):
        if read_file("/proc/2/comm") != "kthreadd\n":
            raise unittest.SkipTest("kernel: no kernel threads are seen here")
        self.refused("-p", "2", word="kernel thread", code="kernel_thread")

    def test_already_traced_names_the_tracer(self):
        victim = self.victim("traced")
        victim.watched = []
        self.refused("--stop-all", "-p", victim["child"], word=f"traced by .*{victim.pid}", code="already_traced")

    def test_32_bit(self):
        try:
            if os.uname().machine != "x86_64":
                self.skipTest("arch: written for x86-64")
            victim = self.victim("bits32")
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            self.skipTest("kernel: it runs no 32-bit programs")
        got = self.run_tool("-p", victim.pid, status=(1, 2))
        self.assertRegex(got.err + got.text, "32-bit|unsupported|i386|architecture")
        doc = self.json("-p", victim.pid, status=(1, 2))
        self.assertEqual(processes(doc)[victim.pid]["error"]["code"], "unsupported_arch")


class Permission(Case):
    """Which rule forbids it."""

    def unprivileged(self):
        """The tool where user nobody can run it."""
        need_root()
        folder = self.scratch()
        tool = os.path.join(folder, "stacksnap")
        shutil.copy(TOOL, tool)
        os.chmod(tool, 0o755)
        return dict(tool=tool, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")

    def test_other_user(self):
        victim = self.victim("chain")
        as_nobody = self.unprivileged()
        got = self.run_tool("-p", victim.pid, status=2, **as_nobody)
        self.assertRegex(got.err, rf"cannot trace {victim.pid}.*(root|user)")
        doc = self.json("-p", victim.pid, status=2, **as_nobody)
        node = processes(doc)[victim.pid]
        self.assertEqual(node["error"]["code"], "permission_denied")
        self.assertEqual(node["name"], "chain")

    def as_nobody(self, name, **options):
        program = os.path.join(self.scratch(), name)
        shutil.copy(os.path.join(TARGETS, name), program)
        return self.program([program], user=NOBODY, group=NOBODY, extra_groups=[], **options)

    def test_own_process_without_root(self):
        as_nobody = self.unprivileged()
        victim = self.as_nobody("chain")
        node = self.node(victim.pid, **as_nobody)
        self.assert_calls(node["stacks"][0], "chain_hold", "f3", "f2", "f1", "f0", "main")

    def test_not_dumpable(self):
        as_nobody = self.unprivileged()
        victim = self.as_nobody("chain", env=dict(os.environ, VICTIM_NODUMP="1"))
        got = self.run_tool("-p", victim.pid, status=2, **as_nobody)
        self.assertIn("dumpable", got.err)
        self.node(victim.pid)  # root may

    def test_rest_of_the_tree_is_shown(self):
        """The parent belongs to somebody else, its child does not: the child is whole."""
        as_nobody = self.unprivileged()
        program = os.path.join(self.scratch(), "chain")
        shutil.copy(os.path.join(TARGETS, "chain"), program)
        script = "import os,sys,subprocess\n" \
                 "p=subprocess.Popen([sys.argv[1]],stdin=0,stdout=subprocess.PIPE,user=65534,group=65534," \
                 "extra_groups=[])\n" \
                 "p.stdout.readline()\n" \
                 "print('ready',os.getpid(),'child=%d'%p.pid,flush=True)\n" \
                 "p.wait()\n"
        victim = self.program(["/usr/bin/python3", "-c", script, program])
        doc = self.json("-p", victim.pid, status=1, **as_nobody)
        found = processes(doc)
        self.assertEqual(found[victim.pid]["error"]["code"], "permission_denied")
        self.assert_calls(found[victim["child"]]["stacks"][0], "chain_hold", "f3", "f2", "f1", "f0", "main")
        self.assertIn(f"cannot trace {victim.pid}", doc["_result"].err)

    def test_user_namespace(self):
        as_nobody = self.unprivileged()
        need_namespaces("-Ur")
        victim = self.program(["unshare", "-Ur", os.path.join(TARGETS, "chain")])
        got = self.run_tool("-p", victim.pid, status=2, **as_nobody)
        self.assertRegex(got.err, "cannot trace")


class Usage(Case):
    """Status 64, nothing on stdout, and a hint."""
    asan = True

    def test_rows(self):
        for arguments in ([], ["-p"], ["-p", "0"], ["-p", "-5"], ["-p", "abc"], ["-p", "1x"], ["12 34"],
                          ["-p", "99999999999999999999"], ["-p", ""], ["-p", "1,,2"], ["--no-such-option"],
                          ["--pid=1", "--json=yes"], ["-n", "x", "1"], ["-n", "-1", "1"], ["--max-stack", "-4", "1"],
                          ["--max-stack", "lots", "1"], ["--stop-timeout", "soon", "1"], ["--format", "nonsense", "1"],
                          ["--color", "sometimes", "1"], ["--width", "wide", "1"], ["--engine", "magic", "1"],
                          ["--perf-map", "maybe", "1"], ["--group-by", "colour", "1"], ["render"],
                          ["frobnicate"], ["--state", "tired", "1"], ["-Z"], ["--no-stop", "--stop-all", "1"]):
            with self.subTest(arguments=arguments):
                got = self.run_tool(*arguments, status=64)
                self.assertEqual(got.raw, b"")
                self.assertTrue(got.err.startswith("stacksnap: "), got)
                self.assertLessEqual(len(got.err.splitlines()), 3, got)

    def test_an_unknown_format_lists_those_that_are_known(self):
        listed = re.findall(r"(?m)^  ([\w-]+) +\.", self.run_tool("help", "formats").text)
        self.assertIn("json", listed)
        got = self.run_tool("--format", "nonsense", "1", status=64)
        self.assertIn("'nonsense' is not one of " + ", ".join(listed), got.err)

    def test_help_and_version(self):
        for flag in ("--help", "-h"):
            got = self.run_tool(flag)
            self.assertIn("usage", got.text.lower())
            self.assertEqual(got.err, "")
        for flag in ("--version", "-V"):
            self.assertRegex(self.run_tool(flag).text, r"^stacksnap \d+\.\d+")

    def test_what_is_no_command_is_refused(self):
        for command in ("watch", "attach", "snapshot"):
            self.run_tool(command, status=64)


class Vanishing(Case):
    """Processes that go while they are read."""

    def test_killed_at_random(self):
        import random, signal, time
        chance = random.Random(3)
        for _ in range(30):
            victim = self.victim("threads", "futex:100:worker:10")
            victim.watched = []
            tool = subprocess.Popen([TOOL, "--json", "-p", str(victim.pid)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            time.sleep(chance.uniform(0, 0.015))  # some moment of the snapshot
            os.kill(victim.pid, signal.SIGKILL)
            out, err = tool.communicate(timeout=60)
            from harness import check_schema
            import json
            doc = json.loads(out)
            check_schema(doc)
            self.assertIn(tool.returncode, (0, 1, 2), err)
            if tool.returncode == 2:
                self.assertTrue(err.startswith(b"stacksnap: "), err)
            victim.close()

    def test_some_targets_are_missing(self):
        victim = self.victim("chain")
        pid = free_pid()
        got = self.run_tool("-p", victim.pid, "-p", pid, status=(1,))
        self.assertIn("chain_hold", got.text)
        self.assertIn(str(pid), got.err)
        doc = self.json("-p", f"{pid},{victim.pid}", status=(1,))
        self.assertIn("chain_hold", functions(processes(doc)[victim.pid]["stacks"][0]))


class Hostile(Case):
    """Control characters, bidi marks and bytes that are no UTF-8, in every name that a target has."""
    asan = True

    NAMES = (b"esc\x1b[31mred", b"new\nline", b"bad\xff\xfe", b"\xe2\x80\xae" b"rtl", b"c1\xc2\x9b31m",
             b"back\\slash", b"quote\"'", b"tab\t", b"\xef\xbb\xbfbom", b"\xed\xa0\x80sur", b"caf\xc3\xa9",
             b") R 1 2 3", b"del\x7f", b"\xe2\x81\xa6iso")

    def test_thread_names(self):
        victim = self.victim("names", *[n.hex() for n in self.NAMES])
        doc = self.json("-p", victim.pid, "--per-thread")
        names = {t["name"] for s in processes(doc)[victim.pid]["stacks"] for t in s["threads"]}
        for wanted in ("esc\\x1b[31mred", "new\\x0aline", "bad\\xff\\xfe", "\\xe2\\x80\\xaertl", "c1\\xc2\\x9b31m",
                       "back\\\\slash", "quote\"'", "tab\\x09", "\\xef\\xbb\\xbfbom", "\\xed\\xa0\\x80sur", "café",
                       ") R 1 2 3", "del\\x7f", "\\xe2\\x81\\xa6iso"):
            self.assertIn(wanted, names)
        text = self.run_tool("-p", victim.pid).text
        self.assertIn("esc\\x1b[31mred", text)
        ascii_text = self.run_tool("-p", victim.pid, "--per-thread", env={"LC_ALL": "C"})
        self.assertTrue(ascii_text.raw.isascii(), ascii_text)
        self.assertIn("caf\\xc3\\xa9", ascii_text.text)

    def test_arguments_and_paths(self):
        folder = self.scratch()
        name = os.fsencode(folder) + b"/odd\x1b]0;t\x07\xff \xe2\x80\xae\nname"
        shutil.copy(os.path.join(TARGETS, "names"), name)
        victim = self.program([name, b"41", b"--", b"arg\x1b[2J", b"", b"\xff", b"two words"])
        for arguments in (("--json",), (), ("--summary",), ("-m",), ("list",)):
            command = arguments if arguments[:1] != ("list",) else ("list",)
            self.run_tool(*command, "-p", victim.pid, status=(0, 1))
        node = self.node(victim.pid)
        self.assertEqual(node["args"][2:], ["--", "arg\\x1b[2J", "", "\\xff", "two words"])
        self.assertIn("\\x1b", node["exe"])
        self.assertTrue(any("\\xff" in e.get("module", "") for s in node["stacks"] for e in s["entries"]))
        self.assertTrue(any("named_main" in functions(s) for s in node["stacks"]))

    def test_symbols(self):
        """A library whose symbol names are hostile: the string table is rewritten in place."""
        library = os.path.join(self.scratch(), "libplugin.so")
        data = open(os.path.join(TARGETS, "libplugin.so"), "rb").read()
        self.assertIn(b"plug_inner", data)
        data = data.replace(b"plug_inner", b"p\x1b[31m\xff\n\xc2\x9b")
        with open(library, "wb") as f:
            f.write(data)
        victim = self.victim("plug", library)
        node = self.node(victim.pid)
        self.assertTrue(any("\\x1b[31m" in (f or "") for f in functions(node["stacks"][0])), functions(node["stacks"][0]))
        self.run_tool("-p", victim.pid)
        self.run_tool("-p", victim.pid, "-r")

    def test_deleted_suffix_in_a_real_name(self):
        path = os.path.join(self.scratch(), "chain (deleted)")
        shutil.copy(os.path.join(TARGETS, "chain"), path)
        victim = self.program([path])
        self.assert_calls(self.node(victim.pid)["stacks"][0], "f3", "f2", "f1", "f0", "main")

    def test_many_arguments(self):
        victim = self.program([os.path.join(TARGETS, "names"), "41", "--", *["x" * 1000] * 120])
        node = self.node(victim.pid)
        self.assertLess(sum(map(len, node["args"])), 1 << 17)
        self.run_tool("-p", victim.pid)
