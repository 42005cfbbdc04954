#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# figures.sh [ROUNDS]: two figures on this kernel. How long a process of 64 threads, and of 1,000, stands still for a
# snapshot, over the least that the kernel charges (tests/bench/floor.c), both in turn, the medians: <= 1.3. What a
# recording of 200 threads, two of which run, reaches at 99 Hz: >= 98 ticks a second, or the recording says why not; and
# the share of the time in which something stood still: <= 3 %. Ends with 1 where one is missed.
set -eu
rounds=${1:-15} bad=0
tool=build/cli/stacksnap folder=$(mktemp -d)
trap 'kill "${VICTIM_PID:-}" 2>/dev/null; rm -rf "$folder"' EXIT

start() {
	coproc VICTIM { exec build/tests/targets/threads "$@"; }
	read -r _ pid _ <&"${VICTIM[0]}"
}

finish() {
	kill "$VICTIM_PID"
	wait "$VICTIM_PID" 2>/dev/null || true
}

median() {
	sort -n "$1" | sed -n "$(((rounds + 1) / 2))p"
}

pause() {
	start "futex:$(($1 - 2)):waiter:12" spin:1:spinner
	rm -f "$folder/floor" "$folder/ours"
	for ((round = 0; round < rounds; round++)); do
		build/tests/bench/floor "$pid" | grep -oP ' stop=\K[0-9]+' >>"$folder/floor"
		"$tool" --json -p "$pid" 2>/dev/null | jq '(.stop_duration_ns // 0) / 1000 | floor' >>"$folder/ours"
	done
	finish
	awk -v ours="$(median "$folder/ours")" -v floor="$(median "$folder/floor")" -v threads="$1" 'BEGIN {
		printf "pause of %d threads: floor %d us, stacksnap %d us, ratio %.2f\n", threads, floor, ours, ours / floor
		exit ours / floor > 1.3 }'
}

rate() {
	local status=0

	start futex:100:waiter:12 sleep:97:sleeper:12 spin:2:spinner
	"$tool" record -p "$pid" -d 10 --stats "$folder/stats" -o /dev/null -f folded 2>"$folder/says" || status=$?
	finish
	printf 'recording of 200 threads: status %d, %s\n' "$status" \
		"$(jq -c '{hz_reached, stopped_percent, ticks, ticks_missed}' "$folder/stats")"
	cat "$folder/says"
	((status < 2)) && jq -e '.stopped_percent <= 3' "$folder/stats" >/dev/null &&
		{ jq -e '.hz_reached >= 98' "$folder/stats" >/dev/null || grep -q 'missed (' "$folder/says"; }
}

uname -rv
pause 64 || bad=1
pause 1000 || bad=1
for _ in 1 2 3; do
	rate || bad=1
done
exit "$bad"
