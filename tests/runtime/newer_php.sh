#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# newer_php.sh VERSION: prints the path of a php of this version (8.0), of a build for Amazon's Linux that npm has; a
# php-fpm is beside it (php-fpm8.0). Both begin without any php.ini, and load what the machine has not of
# libraries from the package's own. They lie in DIR (~/.cache/stacksnap-newer). Status 3: it is not to be had.
set -eu
here=$(dirname "$(readlink -f "$0")")
dir=${DIR:-$HOME/.cache/stacksnap-newer}
version=$1
home=$dir/php-$version
if [ -x "$home/bin/php$version" ]; then
	echo "$home/bin/php$version"
	exit
fi
case $version in
7.3) package=@now-php/lib-73@0.0.3 ;;
7.4) package=@libphp/amazon-linux-2-v74@0.0.21 ;;
8.0) package=@libphp/amazon-linux-2-v80@0.0.17 ;;
8.1) package=@libphp/amazon-linux-2-v81@0.0.12 ;;
8.2) package=@libphp/amazon-linux-2-v82@0.0.14 ;;
8.3) package=@libphp/amazon-linux-2-v83@0.0.14 ;;
8.4) package=@libphp/amazon-linux-2023-v84@0.0.8 ;;
*) echo "npm has no PHP $version" >&2; exit 3 ;;
esac
php=$("$here/newer_npm.sh" "npm-php-$version" "$package" native/php/php)
native=$(dirname "$(dirname "$php")")
# The packages of these two left out libraries of that Linux, which 8.3's has.
case $version in
7.3 | 8.0) more=$(dirname "$(dirname "$("$0" 8.3)")")/lib ;;
*) more= ;;
esac
new=$(mktemp -d -p "$dir")
trap 'rm -rf "$new"' EXIT
mkdir "$new/bin"
cp -al "$native/php" "$native/lib" "$new"
[ -z "$more" ] || cp -aln "$more"/* "$new/lib"
# What the machine's own libraries need themselves, and newer.
rm -f "$new/lib/libgpg-error.so.0"
# What later versions have inside.
json=
[ ! -e "$new/php/modules/json.so" ] || json=" -d extension=json"
for name in php php-fpm; do
	cat >"$new/bin/$name$version" <<-END
		#!/bin/sh
		home=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
		LD_LIBRARY_PATH=\$home/lib exec "\$home/php/$name" -n -d "extension_dir=\$home/php/modules"$json "\$@"
	END
	chmod 755 "$new/bin/$name$version"
done
chmod 755 "$new"
mv "$new" "$home"
echo "$home/bin/php$version"
