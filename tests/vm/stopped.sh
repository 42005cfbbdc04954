#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# stopped.sh [ROUNDS]: how long a process stands still because of recordings on this kernel: of all processes, of pid 1 with
# all that it started, and of one program, which has 1,001 sleeping threads and one that runs. Ends with 1 where one stood for more
# than the 3 % that are the default of --max-stopped, or where the recording did not come to its end.
set -eu
rounds=${1:-4} bad=0
tool=build/cli/stacksnap stats=$(mktemp)

coproc VICTIM { exec build/tests/targets/threads futex:500:waiter sleep:501:sleeper spin:1:spinner; }
read -r _ pid _ <&"${VICTIM[0]}"
trap 'kill "$VICTIM_PID" 2>/dev/null; rm -f "$stats"' EXIT

uname -rv
for ((round = 1; round <= rounds; round++)); do
	for whom in -a "-p 1" "-p $pid"; do
		status=0
		# shellcheck disable=SC2086
		"$tool" record $whom -d 10 --stats "$stats" -o /dev/null -f folded 2>/dev/null || status=$?
		share=$(jq -r '.stopped_percent' "$stats")
		printf '%s: status %d, stopped %s %%, %s\n' "record $whom" "$status" "$share" \
			"$(jq -c '{hz_reached, ticks, ticks_missed, threads, alone, left_out}' "$stats")"
		((status < 2)) && jq -e --arg share "$share" -n '($share | tonumber) <= 3' >/dev/null || bad=1
	done
done
exit "$bad"
