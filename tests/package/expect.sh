# shellcheck shell=bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# For scripts that use packages: expect WORD COMMAND…: it succeeds, and prints the word.
expect() {
	local word=$1 out
	shift
	out=$("$@" 2>&1) || { printf '%s\nfailed: %s\n' "$out" "$*" >&2; exit 1; }
	[[ $out == *"$word"* ]] || { printf '%s\nno "%s" in what it printed: %s\n' "$out" "$word" "$*" >&2; exit 1; }
	printf 'ok %s\n' "$*"
}
