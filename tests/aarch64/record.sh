#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# record.sh: makes the files of this folder anew: the program of frames.c by the cross compiler, and its capture in a machine
# of `./dev vm`. What gdb says of each process there is printed beside, to be compared by whoever commits the files.
set -eu
here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")

# In the machine, in the folder of the project.
take() {
	mkdir -p /srv
	xz -dc tests/aarch64/frames.xz >/srv/frames
	chmod +x /srv/frames
	cd /srv
	coproc FRAMES { exec ./frames; }
	read -r _ <&"${FRAMES[0]}"
	until [[ $(pgrep -c -P "$FRAMES_PID") -eq 7 ]]; do sleep 0.1; done
	sleep 1
	"$OLDPWD"/build/cli/stacksnap -p "$FRAMES_PID" --timeout 60000 --save-capture frames.capture -o frames.txt
	echo "== $(wc -l <frames.txt) lines"
	xz -9e <frames.capture | base64
	echo "=="
	cat frames.txt
	for pid in $(pgrep -P "$FRAMES_PID"); do
		echo "$(<"/proc/$pid/comm"):"
		gdb -p "$pid" -batch -ex bt 2>/dev/null | grep '^#'
	done
	kill "$FRAMES_PID"
}

if [[ ${1:-} == take ]]; then
	take
	exit
fi
aarch64-linux-gnu-gcc -O1 -g0 -nostdlib -static -fno-stack-protector -fasynchronous-unwind-tables \
	-mbranch-protection=standard -Wl,--build-id -Wall -o "$project/build-arm64/frames" "$here/frames.c"
xz -9e <"$project/build-arm64/frames" >"$here/frames.xz"
"$project/dev" vm bookworm arm64 "$here/record.sh" take | tee "$project/build-arm64/frames.log"
sed -n '/^== /,/^==$/p' "$project/build-arm64/frames.log" | grep -v '^==' | base64 -d >"$here/frames.capture.xz"
