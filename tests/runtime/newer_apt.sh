# SPDX-License-Identifier: LGPL-2.1-or-later
# For newer_go.sh and newer_debian.sh, which read it: apt with a state of its own for other suites of the Debian mirror
# that this machine uses.

# Leaves, and says why.
not_to_be_had() {
	echo "$*" >&2
	exit 3
}

# What apt says of its trouble, on one line.
apt_says() {
	sed -n 's/^[EW]: *//p' "$1" | head -1
}

# Sets `mirror` to the one of Debian that this machine uses, or leaves with status 3.
find_mirror() {
	command -v apt-get >/dev/null || not_to_be_had "this machine has no apt"
	mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
		sed -n -e 's/^URIs: *\([^ ]*\/debian\/\{0,1\}\)$/\1/p' \
			-e 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\/debian\/\{0,1\}\) .*/\2/p' | head -1)
	[ -n "$mirror" ] || not_to_be_had "this machine uses no mirror of Debian"
}

# use_suites DIR NAME SUITE…: apt-get works on these suites from here on, its lists at most a day old; nothing
# of the machine's own state changes. Sets `new`, an empty folder in DIR, which goes at the end. Leaves with
# status 3, and a line that says why, where they are not to be had. Where `architecture` is set they are of that
# processor; then DIR or NAME has to be another.
use_suites() {
	name=$2
	find_mirror
	dir=$1
	shift 2
	use_archive "$name" "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg main "$@"
}

# use_ubuntu DIR NAME SUITE…: the same with suites of Ubuntu, which keeps what Debian no longer has. Where its archive is and
# its keys are in packages of Debian.
use_ubuntu() {
	use_suites "$1" "$2-of-debian" sid
	debian=$new name=$2
	shift 2
	(cd "$debian" && apt-get -qq download debootstrap ubuntu-keyring >log 2>&1) ||
		not_to_be_had "$(apt_says "$debian/log")"
	for package in "$debian"/*.deb; do
		dpkg-deb -x "$package" "$debian/tree"
	done
	mirror=$(sed -n 's/^[[:space:]]*default_mirror \(.*\/ubuntu\)$/\1/p' \
		"$debian/tree/usr/share/debootstrap/scripts/$1" | head -1)
	[ -n "$mirror" ] || not_to_be_had "Debian does not tell where Ubuntu's archive is"
	mkdir -p "$dir/apt-$name"
	cp "$debian/tree/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$dir/apt-$name/keys.gpg"
	rm -rf "$debian"
	use_archive "$name" "$mirror" "$dir/apt-$name/keys.gpg" "main universe" "$@"
}

# use_archive NAME MIRROR KEYS COMPONENTS SUITE…: what both have in common.
use_archive() {
	state=$dir/apt-$1 mirror=$2 keys=$3 components=$4
	shift 4
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	for suite; do
		echo "deb [signed-by=$keys] $mirror $suite $components"
	done >"$state/sources.list"
	cat >"$state/conf" <<-END
		Dir::Etc::sourcelist "$state/sources.list"; Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null"; Dir::State::lists "$state/lists";
		Dir::State::status "/dev/null"; Dir::Cache "$state/cache"; APT::Sandbox::User "root";
		Acquire::Languages "none"; APT::Install-Recommends "false";
	END
	if [ -n "${architecture:-}" ]; then
		echo "APT::Architecture \"$architecture\"; APT::Architectures { \"$architecture\"; };" >>"$state/conf"
	fi
	export APT_CONFIG="$state/conf"
	if [ -z "$(find "$state/stamp" -mmin -1440 2>/dev/null)" ]; then
		apt-get -qq update >"$state/log" 2>&1 ||
			not_to_be_had "the lists of the other suites cannot be had: $(apt_says "$state/log")"
		touch "$state/stamp"
	fi
	new=$(mktemp -d -p "$dir")
	trap 'rm -rf "$new"' EXIT
}
