#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# newer_npm.sh NAME PACKAGE FILE: prints the path of FILE of that package of npm, which is unpacked into DIR/NAME
# (DIR: ~/.cache/stacksnap-newer), once. Nothing is installed, and nothing of the package is run. Status 3: it is
# not to be had.
#	newer_npm.sh foreign-1.20 @esbuild/linux-x64@0.18.20 bin/esbuild
set -eu
dir=${DIR:-$HOME/.cache/stacksnap-newer}
name=$1 package=$2 file=$dir/$1/package/$3
if [ -e "$file" ]; then
	echo "$file"
	exit
fi
command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 3; }
mkdir -p "$dir"
new=$(mktemp -d -p "$dir")
trap 'rm -rf "$new"' EXIT
timeout 300 npm pack --silent --pack-destination "$new" "$package" >/dev/null 2>&1 ||
	{ echo "npm has no $package here" >&2; exit 3; }
mkdir "$new/tree"
tar -xzf "$new"/*.tgz -C "$new/tree" --no-same-owner
rm -rf "${dir:?}/$name"
mv "$new/tree" "$dir/$name"
echo "$file"
