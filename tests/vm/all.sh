#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# all.sh [SCRIPT [ARG…]]: vm.sh with every kernel and processor that we name, VM_PLACES machines at a time (as many as
# this one has pairs of processors), and a table of what the tests counted. `./dev vm --all` builds for both processors
# before. What a machine printed lies in build/vm-SUITE-ARCH.log; lines of tests that failed, or were left out, stand
# below the table. Ends with 1 where a test failed, or a machine did not come to its end.
set -u
here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# Those that take longest come first.
systems=(bookworm:arm64 sid:arm64 sid:amd64 trixie:amd64 bookworm:amd64 bullseye:amd64)

run() {
	local suite=${1%:*} arch=${1#*:}
	local log=$project/build/vm-$suite-$arch.log status=0

	"$here/vm.sh" "$suite" "$arch" "${@:2}" >"$log" 2>&1 || status=$?
	echo "vm: status $status" >>"$log"
}

row() {
	local suite=${1%:*} arch=${1#*:}
	local log=$project/build/vm-$suite-$arch.log

	printf '%-9s %-6s %-28s %s\n' "$suite" "$arch" "$(grep -m 1 -oE '^[0-9]+\.[0-9]+[^ ]*' "$log")" \
		"$(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1)"
	tail -n 1 "$log" | grep -qx 'vm: status 0'
}

places=${VM_PLACES:-$(($(nproc) / 2))}
for system in "${systems[@]}"; do
	(($(jobs -rp | wc -l) < (places ? places : 1))) || wait -n
	run "$system" "$@" &
done
wait
bad=0
for system in "${systems[@]}"; do
	row "$system" || bad=1
done
for system in "${systems[@]}"; do
	grep -E '^(FAILED|skipped) ' "$project/build/vm-${system/:/-}.log" | sort -u | sed "s/^/$system: /"
done
exit "$bad"
