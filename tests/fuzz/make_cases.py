#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the cases of the mutator (mutants.c): victims built with their unwind and debug information in
many forms, each captured where it stands, with its file and the one beside it.

    tests/fuzz/make_cases.py --build build OUTPUT"""
import argparse
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_corpus import Victim, run, say  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = os.path.join(SOURCE, "tests", "targets")

# Source, flags, arguments of the victim.
FORMS = {
    "dwarf4": ("inlined.cc", ["-O2", "-gdwarf-4"], []),
    "dwarf5": ("inlined.cc", ["-O1", "-gdwarf-5"], []),
    "dwarf64": ("inlined.cc", ["-O2", "-gdwarf-5", "-gdwarf64"], []),
    "zlib": ("inlined.cc", ["-O2", "-gdwarf-5", "-gz=zlib"], []),
    "gnu": ("inlined.cc", ["-O2", "-gdwarf-4", "-gz=zlib-gnu", "-Wl,--compress-debug-sections=zlib-gnu"], []),
    "plain": ("inlined.cc", ["-O2", "-rdynamic", "-s"], []),
    "signals": ("signals.c", ["-O1", "-g"], ["nested"]),
    "debug_frame": ("signals.c", ["-O1", "-gdwarf-4", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"], ["plain"]),
    "threads": ("threads.c", ["-O2", "-gdwarf-5", "-gstrict-dwarf"], ["futex:3:worker:1"]),
    "cfi": ("cfi.c", ["-O1", "-g", os.path.join(TARGETS, f"asm_{os.uname().machine}.S")], []),
}


class Cases:
    def __init__(self, build, output):
        self.tool = os.path.join(os.path.abspath(build), "cli", "stacksnap")
        self.output = os.path.abspath(output)
        self.folders = []

    def take(self, name, program, arguments=(), module=None, companion=None, whole=None):
        """A case of a program that runs; `module`: another file than the program; `whole`: before it was stripped."""
        folder = os.path.join(self.output, name)
        os.makedirs(folder, exist_ok=True)
        with Victim([program, *arguments]) as pid:
            if pid is None or not run(self.tool, "-p", str(pid), "--no-children", "--max-stack", "16384",
                                      "--save-capture", os.path.join(folder, "capture"),
                                      "-o", os.path.join(folder, "text")):
                say(f"left out: {name} was not captured")
                return
            if module:
                with open(f"/proc/{pid}/maps") as f:
                    module = next(line.split()[5] for line in f if line.rstrip().endswith(module))
        with open(os.path.join(folder, "path"), "w") as f:
            f.write(module or program)
        shutil.copy(module or program, os.path.join(folder, "module"))
        if whole:
            shutil.copy(whole, os.path.join(folder, "whole"))
        if companion:
            shutil.copy(companion, os.path.join(folder, "companion"))
        self.folders.append(folder)

    def build(self, name, source, flags):
        out = os.path.join(self.output, name + ".bin")
        compiler = "g++" if source.endswith(".cc") else "gcc"
        if run(compiler, "-w", "-pie", "-fPIE", "-Wl,--build-id=sha1", "-pthread", *flags, "-o", out,
               os.path.join(TARGETS, source), cwd=self.output):
            return out
        return None

    def forms(self):
        for name, (source, flags, arguments) in FORMS.items():
            program = self.build(name, source, flags)
            if program:
                self.take(name, program, arguments)

    def split(self):
        """gcc puts the .dwo beside the object file, so in two steps."""
        out = os.path.join(self.output, "split")
        if run("g++", "-O2", "-gdwarf-5", "-gsplit-dwarf", "-fPIE", "-c", "-o", out + ".o",
               os.path.join(TARGETS, "inlined.cc"), cwd=self.output) and \
                run("g++", "-pie", "-Wl,--build-id=sha1", "-o", out + ".bin", out + ".o"):
            self.take("split", out + ".bin", companion=out + ".dwo")

    def stripped(self):
        """The debug information in a file of its own; in MiniDebugInfo."""
        whole = os.path.join(self.output, "dwarf5.bin")
        debug, program = os.path.join(self.output, "debug.debug"), os.path.join(self.output, "debug.bin")
        if not os.path.exists(whole):
            return
        if run("objcopy", "--only-keep-debug", whole, debug) and \
                run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", whole, program):
            self.take("debug", program, companion=debug, whole=whole)
        mini = os.path.join(self.output, "mini.bin")
        small = os.path.join(self.output, "mini.debug")
        if shutil.which("xz") and run("objcopy", "-S", "--keep-file-symbols", "--remove-section", ".comment",
                                      "--keep-symbol=main", "-w", "--keep-symbol=*", whole, small) and \
                run("xz", "-f", small) and \
                run("objcopy", "--strip-all", "--add-section", f".gnu_debugdata={small}.xz", whole, mini):
            self.take("mini", mini, whole=whole)

    def shared(self):
        """What dwz moves to a file that two share."""
        first, second = (os.path.join(self.output, f"dwz{n}.bin") for n in (1, 2))
        if not shutil.which("dwz") or not os.path.exists(os.path.join(self.output, "dwarf4.bin")):
            return
        for path in (first, second):
            shutil.copy(os.path.join(self.output, "dwarf4.bin"), path)
        common = os.path.join(self.output, "dwz.common")
        if run("dwz", "-m", common, first, second):
            self.take("dwz", first, companion=common)


def make(build, output):
    """The folders of all cases that this machine can make."""
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(output)
    cases = Cases(build, output)
    cases.forms()
    cases.split()
    cases.stripped()
    cases.shared()
    cases.take("libc", os.path.join(os.path.abspath(build), "tests", "targets", "chain"), module="libc.so.6")
    return cases.folders


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("output")
    options = parser.parse_args()
    print("\n".join(make(options.build, options.output)))


if __name__ == "__main__":
    main()
