# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pages of help: short, complete, made from the table, and with examples that work."""
import re
import shlex
import unittest

from harness import Case

COMMANDS = ["snapshot", "watch", "record", "render", "core", "merge", "diff", "list", "help"]
# They work and are not shown.
HIDDEN = {"--inlines", "--source", "--no-symbolize"}


def options_of(text):
    return set(re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", text))


class Help(Case):
    def setUp(self):
        super().setUp()
        listed = self.run_tool("--help").text
        self.commands = COMMANDS + [word for word in ("top", "serve") if f"\n  {word} " in listed]

    def page(self, *arguments):
        got = self.run_tool(*arguments)
        self.assertEqual(got.err, "")
        for line in got.text.splitlines():
            self.assertLessEqual(len(line), 80, line)
        return got.text

    def test_first_page(self):
        text = self.page("--help")
        self.assertLessEqual(len(text.splitlines()), 45)
        self.assertEqual(len(options_of(text)), 10)
        for command in self.commands:
            self.assertRegex(text, rf"(?m)^  {command} +stacksnap ")
        for other in ("help COMMAND", "help options", "help formats", "man stacksnap"):
            self.assertIn(other, text)
        for same in (("-h",), ("help",), ("1329", "--help"), ("--help", "--no-such-option"), ("--help", "-p")):
            self.assertEqual(self.page(*same), text)

    def test_page_of_a_command(self):
        everything = set()
        for command in self.commands:
            text = self.page("help", command)
            everything |= options_of(text)
            self.assertTrue(text.startswith("usage: stacksnap "), text)
            self.assertEqual(len(re.findall(r"(?m)^  .*stacksnap ", text.split("Examples:\n")[1].split("\n\n")[0])), 3, text)
            if command not in ("snapshot", "watch", "help"):
                self.assertEqual(self.page(command, "--help"), text)
                self.assertEqual(self.page(command, "-h", "--no-such-option"), text)
        self.assertEqual(self.page("--watch", "--help"), self.page("help", "watch"))
        self.assertEqual(everything, options_of(self.page("help", "options")))

    def test_page_has_the_options_of_its_command_alone(self):
        for command, has, has_not in (("record", "--duration --hz --output", "--again --exe --from --once"),
                                      ("merge", "--output --full-names", "--pid --summary --hz"),
                                      ("watch", "--once --every --pid", "--again --duration"),
                                      ("snapshot", "--again --watch --summary", "--once --duration --listen"),
                                      ("render", "--from --to", "--pid --all --max-stack")):
            listed = options_of(self.page("help", command))
            self.assertLessEqual(set(has.split()), listed)
            self.assertFalse(set(has_not.split()) & listed)

    def test_hidden_options_work(self):
        text = self.page("help", "options")
        self.assertFalse(HIDDEN & options_of(text))
        self.assertNotRegex(text, "no effect|same as|--rate")
        self.run_tool("-i", "-s", "--inlines", "--source", "--no-symbolize", self.victim("chain").pid)
        self.run_tool("record", "--rate", "10", "1", status=64)

    def test_formats(self):
        text = self.page("help", "formats")
        self.assertIn(text, self.page("help", "options"))
        for suffix in (".txt", ".json", ".jsonl", ".pb.gz", ".html", ".snaprec"):
            self.assertIn(f" {suffix} ", text)

    def test_examples_work(self):
        """Each as it stands, with another pid; what has no end of its own is left out."""
        folder = self.scratch()
        victim = self.victim("threads", "futex:3:worker")
        examples = [line[2:43].strip() for command in self.commands
                    for line in self.page("help", command).split("Examples:\n")[1].split("\n\n")[0].splitlines()]
        self.assertEqual(len(examples), 3 * len(self.commands))
        for name in ("a", "b"):
            self.run_tool("record", "-d", "0.5", "-o", f"{name}.snaprec", victim.pid, cwd=folder)
            self.run_tool(victim.pid, "-o", f"{name}.json", cwd=folder)
        for line in examples:
            argv = shlex.split(line.replace("1329", str(victim.pid)).replace("*.json", "a.json b.json"))
            if argv[0] != "stacksnap" or line == "stacksnap --watch 1329" or \
                    {"top", "core", "serve", "--ring", "a-%N.txt", "--all"} & set(argv):
                continue
            with self.subTest(line=line):
                if argv[1] == "record":
                    argv += ["-d", "0.5"]
                self.run_tool(*argv[1:], cwd=folder, status=(0, 1))


if __name__ == "__main__":
    unittest.main()
