#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# newer_go.sh VERSION: prints the path of a go command of this version (1.27), which it gets from the
# other suites of the Debian mirror that this machine uses, and unpacks into DIR
# (~/.cache/stacksnap-newer). Nothing is installed. Status 3: it is not to be had.
set -eu
dir=${DIR:-$HOME/.cache/stacksnap-newer}
version=$1
go=$dir/go$version/usr/lib/go-$version/bin/go
if [ -x "$go" ]; then
	echo "$go"
	exit
fi
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
	sed -n -e 's/^URIs: *\([^ ]*\/debian\/\{0,1\}\)$/\1/p' \
		-e 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\/debian\/\{0,1\}\) .*/\2/p' | head -1)
[ -n "$mirror" ] || exit 3
state=$dir/apt-go
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
for suite in bookworm-backports trixie trixie-backports sid; do
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
done >"$state/sources.list"
cat >"$state/conf" <<EOF
Dir::Etc::sourcelist "$state/sources.list"; Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null"; Dir::State::lists "$state/lists";
Dir::State::status "/dev/null"; Dir::Cache "$state/cache"; APT::Sandbox::User "root";
Acquire::Languages "none"; APT::Install-Recommends "false";
EOF
export APT_CONFIG="$state/conf"
if [ -z "$(find "$state/stamp" -mmin -1440 2>/dev/null)" ]; then
	apt-get -qq update || exit 3
	touch "$state/stamp"
fi
new=$(mktemp -d "$dir/tmp.XXXX")
trap 'rm -rf "$new"' EXIT
(cd "$new" && apt-get -qq download "golang-$version-go" "golang-$version-src") || exit 3
for package in "$new"/*.deb; do
	dpkg-deb -x "$package" "$new/tree"
done
mv "$new/tree" "$dir/go$version"
echo "$go"
