# SPDX-License-Identifier: LGPL-2.1-or-later
"""doc/ARCHITECTURE.md and doc/decisions/: the files, functions and pages that they name exist."""
import glob
import os
import re

from harness import Case, SOURCE

DECISIONS = os.path.join(SOURCE, "doc", "decisions")
ARCHITECTURE = os.path.join(SOURCE, "doc", "ARCHITECTURE.md")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(\.\w+|/)")
FUNCTION = re.compile(r"(\w+)\(\)")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def documents():
    return [ARCHITECTURE] + sorted(glob.glob(os.path.join(DECISIONS, "*.md")))


def code_in(text):
    """What stands in backticks; blocks of code are indented."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^    .*$", "", text, flags=re.M))


def defined_in(text):
    """Functions that a C source or header defines: their first line begins in the first column."""
    return set(re.findall(r"^[A-Za-z_][^;={}()]*?\b(\w+)\([^;{}]*\)\s*\{", text, re.M))


class Documents(Case):
    def test_files_exist(self):
        bad = []
        for document in documents():
            folder = ""
            for word in code_in(read(document)):
                if not PATH.fullmatch(word):
                    continue
                places = [os.path.join(SOURCE, word), os.path.join(SOURCE, "lib", word),
                          os.path.join(os.path.dirname(document), word), os.path.join(folder, word)]
                found = next((place for place in places if os.path.exists(place)), None)
                if not found:
                    bad.append(f"{os.path.relpath(document, SOURCE)}: {word}")
                elif "/" in word:
                    folder = os.path.dirname(found)
        self.assertEqual(bad, [])

    def test_functions_exist(self):
        functions = set()
        for top in ("lib", "cli"):
            for path in glob.glob(os.path.join(SOURCE, top, "**", "*.[ch]"), recursive=True):
                functions |= defined_in(read(path))
        bad = [f"{os.path.relpath(document, SOURCE)}: {word}" for document in documents()
               for word in code_in(read(document))
               if FUNCTION.fullmatch(word) and FUNCTION.fullmatch(word).group(1) not in functions]
        self.assertEqual(bad, [])

    def test_functions_are_in_the_files_named_with_them(self):
        bad, count = [], 0
        named = r"(`\w+\(\)`(?:\s+and\s+`\w+\(\)`)?)\s+in\s+`([\w./]+\.[ch])`"
        for names, path in re.findall(named, read(ARCHITECTURE)):
            places = [os.path.join(SOURCE, path), os.path.join(SOURCE, "lib", path)]
            functions = defined_in(read(next(place for place in places if os.path.exists(place))))
            for name in FUNCTION.findall(names):
                count += 1
                if name not in functions:
                    bad.append(f"{name} is not in {path}")
        self.assertEqual(bad, [])
        self.assertGreater(count, 30)

    def test_links_lead_somewhere(self):
        bad = []
        for document in documents():
            for link in re.findall(r"\]\(([^)#:\s]+)[^):]*\)", read(document)):
                if not os.path.exists(os.path.join(os.path.dirname(document), link)):
                    bad.append(f"{os.path.relpath(document, SOURCE)}: {link}")
        self.assertEqual(bad, [])

    def test_decisions_have_three_parts(self):
        for path in glob.glob(os.path.join(DECISIONS, "[0-9]*.md")):
            with self.subTest(path=os.path.basename(path)):
                text = read(path)
                self.assertIn(len(text.splitlines()), range(6, 16))
                for part in ("**Context.** ", "**Decision.** ", "**What follows.** "):
                    self.assertEqual(text.count(part), 1, part)

    def test_index_lists_each_decision_once(self):
        files = sorted(os.path.basename(path) for path in glob.glob(os.path.join(DECISIONS, "[0-9]*.md")))
        listed = re.findall(r"\]\((\d\d-[\w-]+\.md)\)", read(os.path.join(DECISIONS, "README.md")))
        self.assertEqual(sorted(listed), files)
