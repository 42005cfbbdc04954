# SPDX-License-Identifier: LGPL-2.1-or-later
"""Documents, messages and comments are in plain English, and short. Run with files as arguments it prints what it
finds in these alone."""
import os
import re
import statistics
import sys

from harness import Case, SOURCE

# Words that hide who does what. `who` is for people: "users who may trace it".
BANNED = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|whomever|at hand|of that|(is|are|be|was|were|been) told"
    r"|(stand|stands|stood) for)\b", re.I)
WHO = re.compile(r"(?:([\w'-]+)[,;:]?\s+(?:\*\s+)?)?\b(whom?)\b", re.I)
PEOPLE = re.compile(r"(user|person|reader|engineer|developer|attacker|adversary|administrator|author|team)s?"
                    r"|people|adversaries|anyone|someone|root|everyone", re.I)
# A question of a user: it is a heading, a sentence, a cell, or in quotation marks, and begins with the word.
ASKS = re.compile(r"(?:^|^[#|>*-]+[ ]|[|.?!:][ ]|[(\"\u201c])$", re.M)
ASKED = re.compile(r"(?:(?!\n\n)[^.!?|])*\?")

MOST_LINES = {
    "README.md": 250, "SECURITY.md": 150, "CHANGELOG.md": 120, "doc/ARCHITECTURE.md": 250, "man/stacksnap.1.scd": 600,
}
MOST_COLUMNS = 110
MOST_WORDS, MEDIAN_WORDS = 40, 17
# Their sentences are counted; the others are held to words and columns.
COUNTED = ("README.md", "SECURITY.md", "CHANGELOG.md", "doc/ARCHITECTURE.md")


def below(folder, *endings):
    for top, _, names in os.walk(os.path.join(SOURCE, folder)):
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(top, name), SOURCE)


def documents():
    found = [name for name in sorted(os.listdir(SOURCE)) if name.endswith(".md")]
    for folder in ("doc", "examples", "man"):
        found += below(folder, ".md", ".scd")
    return found


def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def prose(text):
    """Of a page, without blocks of code and what is set in code; as many lines as before."""
    lines, fenced, fresh = [], False, True
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced, line = not fenced, ""
        elif fenced or (fresh and re.match(r" {4}|\t", line)):
            lines.append("")
            continue
        fresh = not line.strip()
        lines.append(line)
    return re.sub(r"`[^`]*`", lambda m: "code" + "\n" * m.group().count("\n"), "\n".join(lines))


def comments(text):
    """Of a C file; the rest is blank, so that lines keep their numbers."""
    kept, end = [], 0
    for found in re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/', text, re.S):
        kept.append(re.sub(r"[^\n]", " ", text[end:found.start()]))
        kept.append(found.group() if found.group()[0] == "/" else " ")
        end = found.end()
    text = re.sub(r"`[^`\n]*`", lambda m: "x" * len(m.group()), "".join(kept))
    return re.sub(r"\n[ \t]*\*", "\n  ", text)


def messages(text):
    """The literals of a C file that have a space, so words and no names; of several in a row one."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    text = re.sub(r'"(\s*)"', lambda m: "" if m.group(1) else '""', text)
    kept, end = [], 0
    for found in re.finditer(r'"(?:\\.|[^"\\])*"', text):
        kept.append(re.sub(r"[^\n]", " ", text[end:found.start()]))
        kept.append(found.group() if " " in found.group() else " ")
        end = found.end()
    return "".join(kept)


def is_of_people(found, text):
    if PEOPLE.fullmatch(found.group(1) or ""):
        return True
    start = text.rfind("\n", 0, found.start(2)) + 1
    return bool(ASKS.search(text[start:found.start(2)]) and ASKED.match(text, found.end()))


def banned(text):
    """(line, words) of what is not plain."""
    for found in BANNED.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found.group()
    for found in WHO.finditer(text):
        if not is_of_people(found, text):
            yield text.count("\n", 0, found.start(2)) + 1, f"{found.group(1) or ''} {found.group(2)}".strip()


def wide(text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line.expandtabs(8)) > MOST_COLUMNS:
            yield number, f"{len(line.expandtabs(8))} columns"


def sentences(text):
    """(line, number of words) of a page's prose; headings, tables and examples are none."""
    text = re.sub(r"^([#|\[\]<:;-].*|\s*[|:].*)$", "", prose(text), flags=re.M)
    for block in re.finditer(r"(?:^(?!\s*$).*\n?)+", text, re.M):
        for item in re.split(r"^(?=\s*(?:[-*]|\d+\.)\s)", block.group(), flags=re.M):
            at = text.count("\n", 0, block.start() + block.group().find(item)) + 1
            for sentence in re.split(r"(?<=[.!?])\)?\s+(?=[A-Z`*_\"(])", item):
                words = [word for word in sentence.split() if re.search(r"\w", word)]
                if words:
                    yield at, len(words)
                at += sentence.count("\n")


def of_file(path):
    """All that is wrong with one file."""
    text = text_of(path)
    if path.endswith((".md", ".scd")):
        rows = list(banned(prose(text))) + list(wide(prose(text)))
        if path in COUNTED or path.endswith(".scd"):
            lengths = list(sentences(text))
            rows += [(line, f"a sentence of {count} words") for line, count in lengths if count > MOST_WORDS]
            median = statistics.median([count for _, count in lengths] or [0])
            if median > MEDIAN_WORDS:
                rows.append((0, f"the median sentence has {median} words"))
    else:
        rows = list(banned(comments(text))) + list(wide(comments(text)))
        if path.endswith(".c"):
            rows += banned(messages(text))
    return [f"{path}:{line}: {what}" for line, what in sorted(rows)]


class Words(Case):
    def check(self, paths):
        paths = list(paths)
        self.assertGreater(len(paths), 3)
        rows = [row for path in paths for row in of_file(path)]
        self.assertEqual(rows, [], f"{len(rows)} places; first: " + "; ".join(rows[:20]))

    def test_documents_are_plain(self):
        self.check(documents())

    def test_comments_and_messages_of_the_library_are_plain(self):
        self.check(below("lib", ".h", ".c"))

    def test_comments_and_messages_of_the_tool_are_plain(self):
        self.check(below("cli", ".h", ".c"))

    def test_comments_and_messages_of_examples_are_plain(self):
        self.check(path for folder in ("demo", "examples") for path in below(folder, ".h", ".c"))

    def test_pages_are_short(self):
        long = {path: count for path, most in MOST_LINES.items()
                if (count := text_of(path).count("\n")) > most}
        self.assertEqual(long, {})

    def test_what_is_banned_is_found(self):
        for text in ("Nobody waits.", "a lock that is told", "a process who reads", "Who reads it waits.",
                     "the state of that thread", "it stands for a frame", "Is it the thread who reads?",
                     "Who reads it waits. Or does it?", "Who reads it waits\n\nWhy?", "those who wait for it"):
            self.assertTrue(list(banned(text)), text)
        for text in ("Users who may trace it.", "## Who holds the lock?", "Look. Who holds\nthe lock?",
                     "It answers: who holds the lock?", 'What one asks ("who holds the lock?")',
                     "| who holds the lock? | top |"):
            self.assertEqual(list(banned(text)), [], text)
        self.assertEqual(list(banned(comments('int nobody; /* a uid */ char *s = "nobody";'))), [])
        self.assertEqual([row for row in banned(messages('say("a thread that " \n "nobody knows");'))][0][1], "nobody")


if __name__ == "__main__":
    for named in sys.argv[1:]:
        print("\n".join(of_file(os.path.relpath(os.path.abspath(named), SOURCE))))
