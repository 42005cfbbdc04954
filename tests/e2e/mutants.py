# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run with damaged tables: a seeded mutator changes bytes of one section of a copy of a
victim, each copy runs with several threads, and the tool looks at it.

    tests/e2e/mutants.py COUNT [SEED]    counts for each section, one line each; 1: a promise broken"""
import collections
import os
import random
import struct
import sys
import tempfile

import harness
from harness import TARGETS, Victim, processes, run_tool, threads

# What the program itself does not need while it waits.
UNWINDING = (".eh_frame", ".eh_frame_hdr")
NAMING = (".symtab", ".strtab", ".debug_info", ".debug_abbrev", ".debug_line", ".debug_str",
          ".debug_line_str", ".debug_aranges", ".debug_rnglists")
VALUES = bytes((0, 1, 0x0c, 0x0f, 0x10, 0x1b, 0x2f, 0x3b, 0x7f, 0x80, 0xfe, 0xff))
ORDERS = ("futex:3:w:12", "epoll:1:p:4", "sem:1:s:2", "spin:1:busy:7")
THREADS = 7


def sections(data):
    """name -> (offset, size)"""
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    start = rows[names][4]
    return {data[start + r[0]:data.index(b"\0", start + r[0])].decode(): (r[4], r[5])
            for r in rows if r[1] != 8}


class Mutator:
    def __init__(self, program, seed=1):
        with open(program, "rb") as f:
            self.data = f.read()
        self.sections = sections(self.data)
        self.chance = random.Random(seed)

    def write(self, path, section):
        """A copy with one to twelve bytes of the section changed."""
        offset, size = self.sections[section]
        data = bytearray(self.data)
        for _ in range(self.chance.randrange(1, 13)):
            # Headers and first entries are what all the others are read by.
            at = self.chance.randrange(min(size, 64) if self.chance.random() < .25 else size)
            data[offset + at] = self.chance.choice(VALUES) if self.chance.random() < .5 else self.chance.randrange(256)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)


def look(path, tally):
    """Runs it, looks at it; the broken promise, or None."""
    victim = Victim([path, *ORDERS], running=1)
    try:
        got = run_tool(["-p", victim.pid, "--json", "--timeout", "5000"], timeout=20)
    finally:
        victim.close()
    if got.status not in (0, 1):
        return f"status {got.status}: {got}"
    node = processes(got.doc).get(victim.pid)
    if node is None or len(threads(node)) != THREADS:
        return f"not all threads: {got}"
    for _, stack in threads(node).values():
        first = stack["entries"][0] if stack["entries"] else {}
        if "address" not in first or "module" not in first or "offset" not in first:
            return f"a thread without its pc: {got}"
    tally["status %d" % got.status] += 1
    tally["parsers lost"] += any(w["code"] == "parser_failed" for w in got.doc.get("warnings", []))
    return None


def run(wanted, count, seed=1, program=os.path.join(TARGETS, "threads"), report=print):
    """`count` mutants in all, the sections in turn; the broken promises."""
    mutator = Mutator(program, seed)
    present = [s for s in wanted if s in mutator.sections]
    tally, broken = collections.Counter(), []
    with tempfile.TemporaryDirectory(prefix="stacksnap-mutants.") as folder:
        for i in range(count):
            path = os.path.join(folder, f"mutant-{i}")
            mutator.write(path, present[i % len(present)])
            trouble = look(path, tally)
            if trouble:
                broken.append(f"{present[i % len(present)]}, mutant {i} of seed {seed}: {trouble}")
            os.unlink(path)
    report(f"{count} mutants of {' '.join(present)}: {len(broken)} broken promises, {dict(sorted(tally.items()))}")
    return broken, tally


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = []
    for wanted in (UNWINDING, NAMING):
        failed += run(wanted, count, seed)[0]
    for text in failed[:5]:
        print(text, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
