#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# newer_debian.sh PACKAGE SUITE PROGRAM [PACKAGE…]: prints ROOT:PROGRAM, where ROOT is a root folder with that package
# of another suite of the Debian mirror that this machine uses, all that it depends on, and the further
# packages; for programs that need a newer C library: chroot ROOT PROGRAM. They are unpacked into DIR
# (~/.cache/stacksnap-newer); nothing is installed. Needs root. Status 3: it is not to be had.
#	newer_debian.sh python3.14 sid /usr/bin/python3.14 libsqlite3-0
#	newer_debian.sh php8.4-cli trixie /usr/bin/php8.4
#	newer_debian.sh php8.5-cli experimental /usr/bin/php8.5
set -eu
dir=${DIR:-$HOME/.cache/stacksnap-newer}
package=$1 suite=$2 program=$3
shift 3
root=$dir/$package
if [ -x "$root$program" ]; then
	echo "$root:$program"
	exit
fi
. "$(dirname "$(readlink -f "$0")")/newer_apt.sh"
# Experimental has what is new alone, and takes the rest from sid.
case $suite in
experimental) use_suites "$dir" "$suite" sid "$suite" ;;
*) use_suites "$dir" "$suite" "$suite" ;;
esac
apt-get -qq -y --download-only -o Dir::Cache::archives="$new" install "$package" "$@" >"$new/log" 2>&1 ||
	not_to_be_had "$(apt_says "$new/log")"
for file in "$new"/*.deb; do
	dpkg-deb -x "$file" "$new/root"
done
for name in bin lib lib64 sbin; do
	[ -e "$new/root/$name" ] || ln -s "usr/$name" "$new/root/$name"
done
mkdir -p "$new/root/tmp" "$new/root/dev"
[ -e "$new/root/dev/null" ] || mknod -m 666 "$new/root/dev/null" c 1 3
mv "$new/root" "$root"
echo "$root:$program"
