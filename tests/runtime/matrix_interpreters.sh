#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# matrix_interpreters.sh BUILD [PYTHON…]: the readers of CPython and PHP against all interpreters that are here
# (the system's, pyenv's, those given) and that Debian's mirror has: see matrix_python.py, matrix_php.py.
# One that cannot be had is left out with a line.
set -eu
here=$(dirname "$(readlink -f "$0")")
reader=$(readlink -f "$1")/tests/runtime/live_reader
shift
newer() {
	"$here/newer_debian.sh" "$@" || echo "$1: skipped: it is not to be had" >&2
}
for python in /usr/bin/python3 /usr/bin/python3.11d "$HOME"/.pyenv/versions/3.[89]*/bin/python3 \
	"$HOME"/.pyenv/versions/3.1[0-9]*/bin/python3; do
	[ -x "$python" ] && set -- "$@" "$python"
done
# shellcheck disable=SC2046 # no path has spaces
set -- "$@" $(newer python3.13 trixie /usr/bin/python3.13 libsqlite3-0) \
	$(newer python3.14 sid /usr/bin/python3.14 libsqlite3-0) \
	$(newer python3.15 sid /usr/bin/python3.15 libsqlite3-0)
status=0
python3 "$here/matrix_python.py" "$reader" "$@" || status=1
set --
[ -x /usr/bin/php ] && set -- /usr/bin/php
# shellcheck disable=SC2046
set -- "$@" $(newer php8.4-cli trixie /usr/bin/php8.4)
python3 "$here/matrix_php.py" "$reader" "$@" || status=1
exit $status
