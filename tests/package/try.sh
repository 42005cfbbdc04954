#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# try.sh SUITE|none FOLDER: uses each package of FOLDER once, as a user does with its file alone. In a bare system of
# this suite of Debian it runs the tool, follows the links of its documents, builds a program against the library,
# and runs this program with the library alone. stacksnap-static runs in a folder with this file and /proc alone.
# `./dev package` makes the packages. `none`: stacksnap-static alone.
#
# It needs root, debootstrap and a mirror of Debian (MIRROR, if not the usual one). Its mounts are in a namespace of its
# own, and end with it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
(($# == 2)) || { echo "usage: try.sh SUITE|none FOLDER" >&2; exit 64; }
if [[ ${STACKSNAP_TRIES:-} != "$$" ]]; then
	STACKSNAP_TRIES=$$ exec unshare --mount --propagation private "$0" "$@"
fi
suite=$1 folder=$(readlink -f "$2")
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
root='' target=''

say() {
	printf '%s\n' "try: $*" >&2
}

clean_up() {
	[[ -z $target ]] || kill "$target" 2>/dev/null || true
	[[ -n $root ]] || return 0
	for place in proc sys dev; do
		! mountpoint -q "$root/$place" || umount -R "$root/$place"
	done
	# Nothing of this machine is below it now, or else that is not removed either.
	rm -rf --one-file-system "$root"
}
trap clean_up EXIT

# shellcheck source=tests/package/expect.sh
. "$here/expect.sh"
# shellcheck source=tests/package/links.sh
. "$here/links.sh"

inside() {
	chroot "$root" "$@"
}

# install PACKAGES, and files by a pattern that holds in there.
install() {
	inside sh -c "apt-get -qq -y --no-install-recommends install $*" >"$root/log" 2>&1 ||
		{ cat "$root/log" >&2; say "cannot install $*"; exit 1; }
}

root=$(mktemp -d -p "${TMPDIR:-/var/tmp}" stacksnap-try.XXXXXX)
# What is looked at.
sleep 100000 &
target=$!

say "stacksnap-static, with /proc and nothing else"
mkdir "$root/proc"
mount -t proc proc "$root/proc"
cp "$folder/stacksnap-static" "$root/"
expect "sleeping in" inside /stacksnap-static -p "$target"
expect '"stack_count": 1' inside /stacksnap-static -p "$target" --json
expect "sleep" inside /stacksnap-static list -p "$target"
expect "share  state" inside /stacksnap-static record -d 1 -p "$target"
umount "$root/proc"
rm "$root/stacksnap-static"
rmdir "$root/proc"

[[ $suite != none ]] || exit 0
say "a bare system of $suite"
debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$root.log" 2>&1 || { tail "$root.log" >&2; exit 1; }
rm "$root.log"
for place in proc sys dev; do
	mount --rbind "/$place" "$root/$place"
done
cp "$folder"/*.deb "$root/"
cp "$here/../../examples/snapshot.c" "$root/"

say "stacksnap"
install "/stacksnap_*.deb"
expect "sleeping in" inside stacksnap -p "$target"
expect "is not installed" inside sh -c 'stacksnap serve --all 2>&1; test $? = 2'
expect "serve" inside sh -c 'ls -1 /usr/lib/systemd/system/stacksnap-serve.service /usr/lib/systemd/system/stacksnap-serve.socket
	ls /usr/share/man/man1/stacksnap.1.gz /usr/share/bash-completion/completions/stacksnap /usr/share/stacksnap/*.json'
expect_links "$root/usr/share/doc/stacksnap"
inside dpkg --purge stacksnap >/dev/null

say "libstacksnap-dev, and gcc"
install "/libstacksnap0_*.deb" "/libstacksnap-dev_*.deb" gcc libc6-dev pkg-config
# shellcheck disable=SC2016 # for the shell in there
inside sh -c 'gcc -o /snapshot /snapshot.c $(pkg-config --cflags --libs stacksnap)'
expect "sleep" inside /snapshot "$target"

say "libstacksnap0 alone"
inside apt-get -qq -y purge libstacksnap-dev gcc pkg-config >/dev/null 2>&1
inside apt-get -qq -y autoremove >/dev/null 2>&1
expect "sleep" inside /snapshot "$target"
say "all packages were installed and used"
