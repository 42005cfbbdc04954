#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The whole matrix of managed runtimes: versions x builds x result, as tables.

    ./dev runtimes [--quick] [--filter REGEX] [--count N] [--python PATH] [--php PATH] [--list]

Programs in many states are run with every version that this machine has, that the other suites of its Debian
mirror have, or Ubuntu, or npm, built in all ways; what is read of them is compared with what they say of themselves
(SIGQUIT and pprof; faulthandler and asyncio; debug_backtrace), and what `stacksnap --json` prints with that.
What is fetched is unpacked into ~/.cache/stacksnap-newer (DIR in the environment), once; nothing is installed.
A version that is not to be had is a line that says why. Other suites' interpreters need root (chroot)."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import time

import matrix_go
import matrix_php
import matrix_python
import matrix_rows as rows
import zoo_go

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
GO_VERSIONS = ["1.18", "1.19", "1.20", "1.21", "1.22", "1.23", "1.24", "1.25", "1.26", "1.27"]
# Programs that others have built.
FOREIGN = {"1.18": "esbuild-linux-64@0.14.40", "1.20": "@esbuild/linux-x64@0.18.20"}
# Package, suite, program, further packages.
PYTHONS = [(f"python{version}{suffix}", suite, f"/usr/bin/python{version}{'d' if suffix else ''}", "libsqlite3-0")
           for version, suite in (("3.13", "trixie"), ("3.14", "sid"), ("3.15", "sid")) for suffix in ("", "-dbg")]
PHPS = [("php7.4-cli", "bullseye", "/usr/bin/php7.4", "php7.4-json"),
        ("php8.4-cli", "trixie", "/usr/bin/php8.4", "php8.4-opcache"),
        ("php8.5-cli", "experimental", "/usr/bin/php8.5")]  # which has its opcache inside
# Of which npm has builds, by another compiler, each with a php-fpm.
NPM_PHPS = ["7.3", "7.4", "8.0", "8.1", "8.2", "8.3", "8.4"]


class Bed:
    """What all rows share."""

    def __init__(self, options):
        self.reader = os.path.join(os.path.abspath(options.build), "tests", "runtime", "live_reader")
        self.tool = os.path.join(os.path.abspath(options.build), "cli", "stacksnap")
        self.count = options.count
        self.tries = 3
        self.quick = options.quick
        self.programs = os.path.join(os.path.abspath(options.build), "runtimes")  # made here
        self.fetched = os.environ.get("DIR", os.path.expanduser("~/.cache/stacksnap-newer"))


def fetched(script, *arguments):
    """What the script prints, or why there is nothing."""
    done = subprocess.run([os.path.join(HERE, script), *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.strip(), None
    return None, (done.stderr.strip().splitlines() or ["it is not to be had"])[-1]


# ---- what there is to be run: (name for --filter, function that returns a row) ----

def go_jobs(bed):
    own = matrix_go.version_of("go")
    for version in GO_VERSIONS if not bed.quick else [own] if own else []:
        for variant in zoo_go.variants_of(version):
            yield f"Go {version} {variant}", lambda version=version, variant=variant: run_go(bed, version, variant, own)
    for version in FOREIGN if not bed.quick else ():
        yield f"Go {version} foreign", lambda version=version: run_foreign(bed, version)


def run_go(bed, version, variant, own):
    go, why = ("go", None) if version == own else fetched("newer_go.sh", version)
    return matrix_go.run(bed, version, variant, shutil.which(go)) if go else rows.skipped("Go", version, variant, why)


def run_foreign(bed, version):
    program, why = fetched("newer_npm.sh", f"foreign-{version}", FOREIGN[version], "bin/esbuild")
    if not program:
        return rows.skipped("Go", version, "foreign, stripped", why)
    return matrix_go.run_foreign(bed, version, program)


def local_pythons(more):
    """Path and whose it is."""
    for name in sorted(os.listdir("/usr/bin")):
        if re.fullmatch(r"python3\.\d+d?", name):
            yield os.path.join("/usr/bin", name), "the system's"
    versions = os.path.expanduser("~/.pyenv/versions")
    found = [name for name in (os.listdir(versions) if os.path.isdir(versions) else []) if re.match(r"3\.([89]|1\d)\b", name)]
    for name in sorted(found, key=lambda name: int(re.match(r"3\.(\d+)", name)[1])):
        yield os.path.join(versions, name, "bin", "python3"), "pyenv"
    for path in more:
        yield path, "given"


def newer(package, suite, program, *more):
    if os.geteuid() != 0:
        return None, "a root folder of its own needs root"
    return fetched("newer_debian.sh", package, suite, program, *more)


def python_jobs(bed, more):
    for path, where in local_pythons(more):
        yield f"CPython {path}", lambda path=path, where=where: matrix_python.run(bed, path, where)
    for package in PYTHONS if not bed.quick else ():
        yield f"CPython {package[0]} {package[1]}", lambda package=package: run_newer(
            "CPython", package, lambda path, where: matrix_python.run(bed, path, where))
    if not any("free" in (matrix_python.version_of(path) or ("", ""))[1] for path, _ in local_pythons(more)):
        yield "CPython free-threaded", lambda: rows.skipped("CPython", "3.13 on", "free-threaded",
                                                            "Debian has no such build; --python PATH")


def php_jobs(bed, more):
    for path, where in [("/usr/bin/php", "the system's"), *((path, "given") for path in more)]:
        for mode in matrix_php.MODES if os.path.exists(path) else ():
            yield f"PHP {path} {mode}".strip(), lambda path=path, where=where, mode=mode: matrix_php.run(bed, path, where, mode)
    for path in sorted(glob.glob("/usr/sbin/php-fpm?*")) if os.geteuid() == 0 else ():
        yield f"PHP {path}", lambda path=path: matrix_php.run_server(bed, path, "the system's FPM")
    for package in PHPS if not bed.quick else ():
        for mode in matrix_php.modes(package[0][len("php"):]):
            yield f"PHP {package[0]} {package[1]} {mode}".strip(), lambda package=package, mode=mode: run_newer(
                "PHP", package, lambda path, where: matrix_php.run(bed, path, where, mode))
    for version in NPM_PHPS if not bed.quick else ():
        for mode in [*matrix_php.modes(version), "FPM"]:
            yield f"PHP npm {version} {mode}".strip(), lambda version=version, mode=mode: run_npm_php(bed, version, mode)
    if not more:
        yield "PHP ZTS", lambda: rows.skipped("PHP", "all", "ZTS", "Debian has no such build; --php PATH")


def run_npm_php(bed, version, mode):
    path, why = fetched("newer_php.sh", version)
    if not path:
        return rows.skipped("PHP", version, "npm", why)
    if mode != "FPM":
        return matrix_php.run(bed, path, "npm", mode)
    if os.geteuid() != 0:
        return rows.skipped("PHP", version, "npm, FPM", "it needs root")
    return matrix_php.run_server(bed, os.path.join(os.path.dirname(path), f"php-fpm{version}"), "npm, FPM")


def run_newer(runtime, package, run):
    path, why = newer(*package)
    where = f"Debian {package[1]}"
    return run(path, where) if path else rows.skipped(runtime, re.search(r"\d+\.\d+", package[0])[0], where, why)


def run_all(jobs, found):
    """Each row as it comes; whether it was not interrupted, as some minutes of rows are worth their tables."""
    try:
        for run in jobs:
            found.append(run())
            rows.print_row(found[-1])
    except KeyboardInterrupt:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--quick", action="store_true", help="what this machine has, nothing is fetched")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only rows whose name matches: 'Go 1.24 stripped'")
    parser.add_argument("--count", type=int, metavar="N", help="goroutines (10000; --quick: 1000)")
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="one more interpreter, ROOT:PATH in a root")
    parser.add_argument("--php", action="append", default=[], metavar="PATH")
    parser.add_argument("--list", action="store_true", help="names of the rows, and nothing else")
    options = parser.parse_args()
    options.count = options.count or (1000 if options.quick else 10000)
    bed, began, found = Bed(options), time.monotonic(), []
    jobs = [(name, run) for name, run in [*go_jobs(bed), *python_jobs(bed, options.python), *php_jobs(bed, options.php)]
            if re.search(options.filter, name, re.IGNORECASE)]
    if options.list:
        for name, _ in jobs:
            print(name)
        return 0
    whole = run_all([run for _, run in jobs], found)
    rows.print_tables(found)
    print(f"\n{time.monotonic() - began:.0f} s in all\n{rows.count_results(found)}")
    if not whole:
        print(f"interrupted: {len(jobs) - len(found)} of {len(jobs)} rows were not run")
        return 130
    return any(row.result == rows.WRONG for row in found)


if __name__ == "__main__":
    sys.exit(main())
