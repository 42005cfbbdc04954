#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# record_images.sh BUILD [NAME…]: makes tests/runtime/recorded/ anew, or what is called so in it (go-1.27): see
# record_images.py. What cannot be had on this machine is left as it is, with a line. Needs root.
set -eu
here=$(dirname "$(readlink -f "$0")")
reader=$(readlink -f "$1")/tests/runtime/live_reader
shift
chosen=$*
set --
# offer NAME COMMAND…: what the command prints is where the runtime is
offer() {
	name=$1
	shift
	case " $chosen " in
	"  " | *" $name "*) ;;
	*) return 0 ;;
	esac
	if place=$("$@"); then
		printf '%s=%s\n' "$name" "$place"
	else
		echo "$name: skipped: it is not to be had" >&2
	fi
}
# first PATH…: the first one that is there
first() {
	for path; do
		[ -x "$path" ] && echo "$path" && return 0
	done
	return 1
}
old_go() {
	go version | grep -q 'go1\.19\.' && command -v go
}
places=$(
	offer go-1.19 old_go
	for version in 1.18 1.20 1.21 1.22 1.23 1.24 1.25 1.26 1.27; do
		offer "go-$version" "$here/newer_go.sh" "$version"
	done
	offer go-1.24-synctest "$here/newer_go.sh" 1.24
	for variant in cgo leaks; do
		offer "go-1.27-$variant" "$here/newer_go.sh" 1.27
	done
	for version in 3.8 3.9 3.10 3.11 3.12; do
		# shellcheck disable=SC2086 # a pattern
		offer "cpython-$version" first /usr/bin/python$version "$HOME"/.pyenv/versions/$version.*/bin/python$version
	done
	offer cpython-3.13 "$here/newer_debian.sh" python3.13 trixie /usr/bin/python3.13 libsqlite3-0
	for version in 3.14 3.15; do
		offer "cpython-$version" "$here/newer_debian.sh" "python$version" sid "/usr/bin/python$version" libsqlite3-0
	done
	# Debian has no such build: configure --disable-gil, into pyenv's folder.
	for version in 3.13 3.14; do
		offer "cpython-${version}t" first "$HOME"/.pyenv/versions/$version.*t/bin/python$version
	done
	for version in 7.3 7.4 8.0 8.1 8.3; do
		offer "php-$version" "$here/newer_php.sh" "$version"
	done
	offer php-8.2 first /usr/bin/php8.2
	offer php-8.4 "$here/newer_debian.sh" php8.4-cli trixie /usr/bin/php8.4
	offer php-8.5 "$here/newer_debian.sh" php8.5-cli experimental /usr/bin/php8.5
)
# shellcheck disable=SC2086 # words without spaces
exec python3 "$here/record_images.py" "$reader" "$here/recorded" $places
