#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# newer_go.sh VERSION: prints the path of a go command of this version (1.27), which it gets from the
# other suites of the Debian mirror that this machine uses, or from Ubuntu where Debian has none, and
# unpacks into DIR (~/.cache/stacksnap-newer). Nothing is installed. Status 3: it is not to be had.
set -eu
dir=${DIR:-$HOME/.cache/stacksnap-newer}
version=$1
go=$dir/go$version/usr/lib/go-$version/bin/go
if [ -x "$go" ]; then
	echo "$go"
	exit
fi
. "$(dirname "$(readlink -f "$0")")/newer_apt.sh"
case $version in
1.18 | 1.20) use_ubuntu "$dir" go-ubuntu jammy jammy-updates ;;
*) use_suites "$dir" go bookworm-backports trixie trixie-backports sid ;;
esac
(cd "$new" && apt-get -qq download "golang-$version-go" "golang-$version-src" >log 2>&1) ||
	not_to_be_had "$(apt_says "$new/log")"
for package in "$new"/*.deb; do
	dpkg-deb -x "$package" "$new/tree"
done
mv "$new/tree" "$dir/go$version"
echo "$go"
