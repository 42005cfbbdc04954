# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the matrix of runtimes found: a row a version and build, and the tables made of them."""
import dataclasses

RIGHT, REFUSED, WRONG, SKIPPED = "right", "refused", "WRONG", "skipped"
HEAD = ("version", "build", "equal to what the program says", "the same in the tool's report", "result")


@dataclasses.dataclass
class Row:
    runtime: str
    version: str
    build: str
    result: str
    said: str = ""     # of how much was compared with what the program says of itself, and equal
    tool: str = ""     # the same of the tool's report with the reading
    why: str = ""      # of REFUSED and SKIPPED
    differences: tuple = ()

    @property
    def name(self):
        return f"{self.runtime} {self.version} {self.build}"

    def verdict(self):
        return f"{self.result}: {self.why}" if self.why else self.result


def skipped(runtime, version, build, why):
    return Row(runtime, version, build, SKIPPED, why=why)


def of(equal, count, what):
    return f"{equal:,} of {count:,} {what}"


def print_row(row):
    print(f"{row.name}: {'; '.join(part for part in (row.said, row.tool and 'tool: ' + row.tool, row.verdict()) if part)}",
          flush=True)
    for difference in row.differences[:3]:
        print("    " + difference[:700], flush=True)


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(cell or "-" for cell in row) + " |")


def print_tables(rows):
    """A table a runtime, then the short one, in which a version is a line."""
    for runtime in dict.fromkeys(row.runtime for row in rows):
        print(f"\n### {runtime}\n")
        print_table(HEAD, [(row.version, row.build, row.said, row.tool, row.verdict())
                           for row in rows if row.runtime == runtime])
    print("\n### In short\n")
    print_table(("runtime", "version", "builds", "result"), short(rows))


def short(rows):
    kinds = {}
    for row in rows:
        kinds.setdefault((row.runtime, row.version), []).append(row)
    for (runtime, version), found in kinds.items():
        results = {}
        for row in found:
            results.setdefault(row.verdict(), []).append(row.build)
        verdict = "; ".join(f"{', '.join(builds)}: {text}" if len(results) > 1 else text
                            for text, builds in results.items())
        yield runtime, version, ", ".join(row.build for row in found), verdict


def count_results(rows):
    """As a test runner's last line: what is wrong has failed."""
    failed = sum(row.result == WRONG for row in rows)
    skips = sum(row.result == SKIPPED for row in rows)
    return f"{len(rows) - failed - skips} passed, {failed} failed, {skips} skipped"
