#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# matrix_go.sh BUILD [VERSION…]: the reader of Go against programs of all versions of Go that Debian's
# mirror has, each built in all ways (tests/runtime/zoo_go.py); one line each. A version that cannot be
# had is left out with a line. They are unpacked into DIR (~/.cache/stacksnap-newer), not installed.
# COUNT: goroutines (10000); VARIANTS: some of the ways; READER_OPTIONS: --image.
set -eu
here=$(dirname "$(readlink -f "$0")")
build=$(readlink -f "$1")
shift
[ $# -gt 0 ] || set -- 1.19 1.21 1.22 1.23 1.24 1.25 1.26 1.27
commands=
for version; do
	if [ "$version" = 1.19 ] && command -v go >/dev/null && go version | grep -q 'go1\.19\.'; then
		commands="$commands 1.19=$(command -v go)"
	elif go=$("$here/newer_go.sh" "$version"); then
		commands="$commands $version=$go"
	else
		echo "$version: skipped: it is not to be had"
	fi
done
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
# shellcheck disable=SC2086 # a list of words
python3 "$here/matrix_go.py" "$build/tests/runtime/live_reader" "${COUNT:-10000}" "$programs" $commands
