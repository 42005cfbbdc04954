# SPDX-License-Identifier: LGPL-2.1-or-later
"""Completions, in the shells they are for: each is loaded and asked."""
import os
import subprocess
import unittest

from harness import BUILD, Case, need

MADE = os.path.join(BUILD, "completions")

# (what is typed, what it must become or offer)
ASKED = [("--no-chi", "--no-children"), ("--engine lib", "libunwind"), ("--state running,di", "running,disk"),
         ("--format te", "text"), ("--color al", "always"), ("--group-by stack,sysc", "stack,syscall"),
         ("record --mode cp", "cpu"), ("record --state-fr", "--state-frames"), ("record --dura", "--duration"),
         ("--watch --onc", "--once"), ("list -p 1 --fl", "--flat"), ("rec", "record"),
         ("help forma", "formats"), ("help sna", "snapshot"), ("record -d 5 --interv", "--interval")]

# What is no option of the command that is typed, or is one that the help does not show.
NOT_OFFERED = ["--dura", "diff --al", "merge --summ", "top --outp", "record --onc", "--inlin", "--no-symb", "render --exe"]

BASH = r"""
source "$1"
COMP_WORDS=(stacksnap $2)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_stacksnap
printf '%s\n' "${COMPREPLY[@]}"
"""

# A terminal with zsh in it: Tab completes the line, which then is printed instead of run.
ZSH = r"""
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
out=
await() { local part; while [[ $out != *$1* ]]; do zpty -r shell part || exit 1; out+=$part; done }
zpty -w shell "unset zle_bracketed_paste; PROMPT=; RPROMPT=; fpath=(${1:h} \$fpath); autoload -Uz compinit"
zpty -w shell "compinit -u -D; bindkey '^I' complete-word; show() { print -r -- S''HOWN:\$* }"
zpty -w shell "compdef _stacksnap show; print R''EADY"
await READY
out=
zpty -w -n shell "show $2"$'\t\n'
await SHOWN:
await $'\n'
print -r -- "${out#*SHOWN:}"
"""

FISH = r"""
source $argv[1]
complete -C "stacksnap $argv[2]"
"""


class Completions(Case):
    def ask(self, argv):
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env=dict(os.environ, LC_ALL="C.UTF-8", HOME=self.scratch())).stdout

    def test_bash(self):
        path = os.path.join(MADE, "stacksnap")
        self.assertEqual(self.ask(["bash", "-n", path]), "")
        for typed, wanted in ASKED:
            with self.subTest(typed=typed):
                self.assertEqual(self.ask(["bash", "-c", BASH, "bash", path, typed]).split(), [wanted])
        for typed in NOT_OFFERED:
            with self.subTest(typed=typed):
                self.assertEqual(self.ask(["bash", "-c", BASH, "bash", path, typed]).split(), [])
        self.assertIn(str(os.getpid()), self.ask(["bash", "-c", BASH, "bash", path, "-p " + str(os.getpid())]).split())

    def test_zsh(self):
        need("zsh")
        path = os.path.join(MADE, "_stacksnap")
        self.assertEqual(self.ask(["zsh", "-n", path]), "")
        for typed, wanted in ASKED:
            with self.subTest(typed=typed):
                self.assertEqual(self.ask(["zsh", "-f", "-c", ZSH, "zsh", path, typed]).split()[-1], wanted)
        for typed in NOT_OFFERED:
            with self.subTest(typed=typed):
                self.assertEqual(self.ask(["zsh", "-f", "-c", ZSH, "zsh", path, typed]).split()[-1], typed.split()[-1])

    def test_fish(self):
        need("fish")
        path = os.path.join(MADE, "stacksnap.fish")
        self.assertEqual(self.ask(["fish", "-n", path]), "")
        for typed, wanted in ASKED:
            with self.subTest(typed=typed):
                offered = [line.split("\t")[0] for line in self.ask(["fish", "-c", FISH, path, typed]).splitlines()]
                self.assertEqual(offered, [wanted])
        for typed in NOT_OFFERED:
            with self.subTest(typed=typed):
                self.assertEqual(self.ask(["fish", "-c", FISH, path, typed]), "")


if __name__ == "__main__":
    unittest.main()
