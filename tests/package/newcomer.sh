#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# newcomer.sh --make FOLDER [OPTION…]: makes a bare Debian 12 there. Ends with 1, and says why, where none can be had.
# Does in it what README says first, as root, with the compilers of Debian alone: `./dev demo`, then `./dev test OPTION…`
# up to the tests, which it lists. If one of the two fails, that is kept for the next call.
# newcomer.sh FOLDER [OPTION…]: says what failed, or does the two to their end; prints what the tests print, and removes
# FOLDER.
#
# Nothing of this machine is seen in there but the caches of its compilers, which know objects of the same compiler, and
# packages that it has fetched already.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
source=$(dirname "$(dirname "$here")")

say() {
	printf '%s\n' "newcomer: $*" >&2
}

# shellcheck source=tests/runtime/newer_apt.sh
. "$source/tests/runtime/newer_apt.sh"

can() {
	((EUID == 0)) || { say "only root can make a bare system"; return 1; }
	command -v debootstrap >/dev/null || { say "debootstrap is not installed"; return 1; }
	unshare --mount --pid --fork mount --bind / / 2>/dev/null || { say "no namespaces can be made here"; return 1; }
	(find_mirror) || return 1
}

# Packages need not reach the disk, as the system is removed. Those that this machine has fetched are there, too, where
# they can be linked.
make() {
	local root=$1/root

	can || return 1
	find_mirror
	rm -rf --one-file-system "$1"
	mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
	debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >"$1/log" 2>&1 ||
		{ say "a bare system cannot be made: $(tail -n 1 "$1/log")"; return 1; }
	find /var/cache/apt/archives -maxdepth 1 -name '*.deb' -exec cp -fl -t "$root/var/cache/apt/archives" {} + 2>/dev/null ||
		true
}

# In namespaces of its own, so that what is mounted and started goes with the last process.
apart() {
	STACKSNAP_NEWCOMER=$1 unshare --mount --propagation private --pid --fork --kill-child "$0" "${@:2}"
}

# show_cache FOLDER PLACE: nothing where the compiler, or its cache, is not there.
show_cache() {
	[[ -d $1 ]] || return 0
	mkdir -p "$2"
	mount --bind "$1" "$2"
}

# Its own file system is /, not a folder of another: in a changed root the kernel lets no program make user namespaces.
enter() {
	mkdir -p "$root/proc" "$root/old"
	mount --bind "$root" "$root"
	show_cache "$(ccache -k cache_dir 2>/dev/null)" "$root/var/cache/ccache"
	show_cache "$(go env GOCACHE 2>/dev/null)" "$root/var/cache/go"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
	cd "$root"
	/sbin/pivot_root . old
	mount -t proc proc /proc
	umount -l /old
}

# Where users without rights can read, too: what comes through a pipe of root is opened as one of these.
copy_sources() {
	mkdir -p "$root/srv/stacksnap"
	(cd "$source" && { git ls-files -z 2>/dev/null || find . -type f -not -path './build*' -print0; } |
		tar -c --null --ignore-failed-read -T - 2>/dev/null) | tar -x -C "$root/srv/stacksnap"
}

run() {
	local log

	log=$("$@" 2>&1) || {
		printf '%s\n' "$log"
		say "failed in a bare system: $*"
		return 1
	}
}

# both [OPTION…]: README's two commands. Where they were done beforehand, nothing is left to build.
both() {
	enter
	export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	export CCACHE_DIR=/var/cache/ccache GOCACHE=/var/cache/go
	cd /srv/stacksnap
	if [[ $STACKSNAP_NEWCOMER == prepare ]]; then
		# What writes to a disk that is busy cannot be stopped in time: the demo must end well when nothing else runs.
		run ./dev demo || [[ -x build/demo/orderd && -x build/cli/stacksnap ]] || return 1
		run ./dev test "$@" --list
		return
	fi
	run ./dev demo || return 1
	unset STACKSNAP_NEWCOMER
	exec ./dev test "$@"
}

case ${STACKSNAP_NEWCOMER:-} in
prepare | test)
	root=$(readlink -f "$1")/root
	[[ $STACKSNAP_NEWCOMER == test ]] || copy_sources
	both "${@:2}"
	exit
	;;
esac
if [[ $1 == --make ]]; then
	make "$2"
	apart prepare "${@:2}" >"$2/failed" 2>&1 && rm "$2/failed"
	exit 0
fi
folder=$1
trap 'rm -rf --one-file-system "$folder"' EXIT
if [[ -f $folder/failed ]]; then
	cat "$folder/failed"
	exit 1
fi
apart test "$@"
