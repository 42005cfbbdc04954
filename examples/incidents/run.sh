#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# run.sh NAME [OPTION…]: builds the program NAME.c, lets the incident happen, and prints what stacksnap says
# of it, with options of its own (--deadlocks, --json, --explain). STACKSNAP: the tool.
set -euo pipefail
name=${1:?usage: run.sh NAME [OPTION of stacksnap…]; NAME.c is an incident}
shift
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
[[ -f $here/$name.c ]] || { echo "run.sh: there is no incident '$name' in $here" >&2; exit 64; }
tool=${STACKSNAP:-$here/../../build/cli/stacksnap}
[[ -x $tool ]] || tool=stacksnap
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${CC:-cc}" -O1 -g -D_GNU_SOURCE -pthread -o "$folder/$name" "$here/$name.c"
coproc PROGRAM { exec "$folder/$name"; }
input=${PROGRAM[1]}
program=$PROGRAM_PID
read -r _ pid <&"${PROGRAM[0]}"
status=0
"$tool" -p "$pid" "$@" || status=$?
exec {input}>&-
wait "$program" 2>/dev/null || true
exit "$status"
