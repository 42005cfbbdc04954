#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# kernel.sh [REGEX]: the tests that depend on the kernel, as `./dev vm SUITE` runs them in its machine, or those that REGEX
# chooses (tests/run.py, --filter). On another processor than the one that we are built on all unit tests depend on it, and
# so do hostile programs, cores, and whether stacks are those that eu-stack and gdb see. An emulated machine is five to fifteen times as slow as this
# one, so they run one by one, and those that count or measure what a machine can do are left out; and what is waited for
# may take ten times as long.
set -u
export STACKSNAP_PATIENCE=${STACKSNAP_PATIENCE:-10}
unit='address_space|capture_join|containers|copy_blocked|discover_live|explain_live|opener|procfs|recorder|remote_unwinder'
unit+='|roles|sampler\w*|sandbox\w*|runtime_probe|single|spawn|thread_asker|tracee|tracer|workers'
classes='chain|children|mappings|nostop|places|rights|sandbox|threads|tree'
if [[ $(uname -m) == aarch64 ]]; then
	unit='\w+'
	classes+='|core|deadlines|jit|record_held|silent_files|unwind|waits_calls|witness'
fi
uname -rv
exec python3 tests/run.py --build build --jobs 1 --filter "${1:-^(unit\.($unit)\.release|test_($classes)\..*release)\$}"
