#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# packages.sh: installs the packages of Debian in build/packages/ by their files and uses each once: the tool, and a program
# that was built with libstacksnap-dev and lies beside them as `snapshot`. For processors that this machine is not; where it
# is one, `./dev package try` does it in a bare system. What the packages depend on is here, but nobody told dpkg.
set -eu
folder=build/packages
sleep 100000 &
target=$!
trap 'kill "$target"' EXIT

# shellcheck source=tests/package/expect.sh
. tests/package/expect.sh

uname -rvm
dpkg --force-depends -i "$folder"/*.deb >/dev/null 2>&1
ldconfig
expect "ii  stacksnap " dpkg -l stacksnap
expect "/usr/bin/stacksnap" sh -c 'command -v stacksnap'
expect "sleeping in" stacksnap -p "$target"
expect '"arch": "aarch64"' stacksnap -p "$target" --json
expect "share  state" stacksnap record -d 1 -p "$target"
expect "sleep" "$folder/snapshot" "$target"
expect "-lstacksnap" cat /usr/lib/*/pkgconfig/stacksnap.pc
dpkg --force-depends --purge libstacksnap-dev >/dev/null 2>&1
expect "sleep" "$folder/snapshot" "$target"
dpkg --force-depends --purge stacksnap libstacksnap0 >/dev/null 2>&1
echo "all packages were installed and used"
