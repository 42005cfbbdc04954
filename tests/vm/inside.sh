#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# What systemd runs in the emulated machine, and all it does there: unpacks the project where it stands outside, runs the
# script in its folder, and switches the machine off.
out=/dev/ttyS1
[[ ! -c /dev/hvc0 ]] || out=/dev/hvc0
exec </dev/null >"$out" 2>&1
stty -F "$out" raw
export HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# A service may have a few thousand tasks, and some tests make more.
echo max >"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/pids.max"
tar -C / -xf /share/project.tar
arguments=()
[[ ! -f /share/arguments ]] || mapfile -d '' -t arguments </share/arguments
cd "$(</share/folder)" || exit
# What meson has written down of tests names them where they were built.
[[ $(uname -m) != aarch64 ]] || ln -s build build-arm64
# Programs print to a pipe as they do in tests, not to a terminal.
bash /share/script "${arguments[@]}" | cat
echo "${PIPESTATUS[0]}" >/share/status
sync
echo o >/proc/sysrq-trigger
