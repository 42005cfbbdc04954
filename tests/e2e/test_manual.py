# SPDX-License-Identifier: LGPL-2.1-or-later
"""The manual pages: their form, and the recipes of stacksnap-json(5), which are run as they are printed."""
import os
import re
import subprocess

from harness import BUILD, SOURCE, TOOL, Case, need

PAGES = sorted(name for name in os.listdir(os.path.join(SOURCE, "man")) if name.endswith(".scd"))


def page(name):
    with open(os.path.join(SOURCE, "man", name), encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """The examples, as scdoc prints them."""
    return [block.replace("\\\\", "\\") for block in re.findall(r"(?ms)^```\n(.*?)\n```$", text)]


class Form(Case):
    def test_each_begins_with_three_examples(self):
        for name in PAGES:
            with self.subTest(page=name):
                sections = re.findall(r"(?m)^# (.*)$", page(name))
                self.assertEqual([title for title in sections[:3] if title != "SYNOPSIS"][1], "EXAMPLES", sections[:3])
                examples = re.search(r"(?ms)^# EXAMPLES$(.*?)^# ", page(name)).group(1)
                self.assertEqual(len(blocks(examples)), 3)

    def test_they_refer_to_pages_that_exist(self):
        for name in PAGES:
            for word, section in re.findall(r"\*?((?:lib)?stacksnap[a-z-]*)\*?\((\d)\)", page(name)):
                self.assertIn(f"{word}.{section}.scd", PAGES, name)

    def test_each_option_has_its_entry(self):
        lines = "\n".join(line for name in PAGES if ".1." in name
                          for line in re.findall(r"(?m)^\*-.*$(?=\n\*-|\n\t)", page(name)))
        entries = re.findall(r"\*(--?[a-zA-Z-]+)\*", lines)
        listed = re.findall(r"(?m)^ +(?:(-\w), )?(--[a-z-]+)", self.run_tool("help", "options").text)
        self.assertGreater(len(listed), 60)
        self.assertEqual([name for pair in listed for name in pair if name and name not in entries], [])

    def test_mandoc_has_no_error(self):
        need("mandoc", "scdoc")
        for name in PAGES:
            made = os.path.join(BUILD, "man", name[:-len(".scd")])
            got = subprocess.run(["mandoc", "-Tlint", "-W", "error", made], capture_output=True, text=True, timeout=60)
            self.assertEqual(got.stdout + got.stderr, "", name)


class Recipes(Case):
    def setUp(self):
        super().setUp()
        need("jq")
        recipes = page("stacksnap-json.5.scd").split("# RECIPES FOR JQ")[1]
        definitions, *self.recipes = [block for block in blocks(recipes) if re.search("^def |jq -r", block, re.M)]
        self.home = self.scratch()
        with open(os.path.join(self.home, ".jq"), "w", encoding="utf-8") as file:
            file.write(definitions)

    def run_recipe(self, recipe, pid):
        """Rows of the recipe's columns, of one process."""
        line = recipe.replace("sudo ", "").replace("--all", "1234").replace("1234", str(pid))
        got = subprocess.run(["bash", "-c", 'stacksnap() { "$TOOL" "$@" 2> /dev/null; }\n' + line], capture_output=True,
                             text=True, timeout=60, env=dict(os.environ, HOME=self.home, TOOL=TOOL))
        self.assertEqual(got.stderr, "", line)
        return [row.split("\t") for row in got.stdout.splitlines()]

    def test_of_a_deadlock(self):
        victim = self.program([os.path.join(BUILD, "tests", "waits", "waits_dead"), "two"])
        innermost, stacks, waits, disk, processes = self.recipes
        self.assertIn(["2", "take_next"], self.run_recipe(innermost, victim.pid))
        self.assertIn(["2", "take_next < ring_main"], self.run_recipe(stacks, victim.pid))
        rows = [row for row in self.run_recipe(waits, victim.pid) if row[1] == "take_next"]
        self.assertEqual([row[2] for row in rows], ["mutex ring"] * 2)
        for row in rows:
            self.assertRegex(row[3], r"^\d+ waits_dead in take_next$")
        self.assertEqual(self.run_recipe(disk, victim.pid), [])
        self.assertEqual([row[:4] for row in self.run_recipe(processes, victim.pid)],
                         [[str(victim.pid), "5", "0", "waits_dead"]])
