#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# vm.sh SUITE [SCRIPT [ARG…]]: boots the kernel of that suite of Debian in an emulated machine of two processors, runs
# SCRIPT there as root in the folder of the project, prints what it prints, and ends with its status. Without SCRIPT it is
# kernel.sh beside this one. `./dev vm` builds the project before.
#
# All else in the machine, libraries and systemd, is of the suite that this machine itself runs, so what was built here
# runs there, whatever the kernel. Nothing that a script writes stays: a run starts from the same disk as the one before.
# It has a copy of the sources and of build/, at the same paths, and this machine sees nothing of it.
#
# Kernels and the disk lie in ~/.cache/stacksnap-vm (DIR): 700 MB, and 15 MB a kernel; making the disk needs root. Who
# wants newer ones removes them.
# In the environment: VM_PACKAGES are installed in a disk that is made; VM_SECONDS end a machine that does not end
# (7200); VM_ACCEL=kvm uses the processor as it is, where the machine permits, in place of an emulated one.
#
# What newer_apt.sh sets is for the subshells that read it:
# shellcheck disable=SC2030,SC2031
set -eu
here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
dir=${DIR:-$HOME/.cache/stacksnap-vm}
# What the kernel does not have built in and is needed to find the disk, and what tests use.
MODULES=(virtio_pci virtio_blk virtio_rng crc32c_generic ext4 9pnet_virtio 9p fuse overlay)

say() {
	printf '%s\n' "vm: $*" >&2
}

# fetch_kernel SUITE: its kernel, and a first file system with the modules that find the disk, in $dir/SUITE.
fetch_kernel() (
	suite=$1
	# shellcheck source=tests/runtime/newer_apt.sh
	. "$project/tests/runtime/newer_apt.sh"
	use_suites "$dir" "$suite" "$suite"
	mapfile -t packages < <(apt-cache depends --recurse --no-suggests --no-recommends linux-image-amd64 |
		grep -xE 'linux-(image|modules|binary|base)-[0-9][^ ]*-amd64')
	((${#packages[@]})) || not_to_be_had "$suite has no kernel for this processor"
	say "fetching ${packages[*]} of $suite"
	(cd "$new" && apt-get -qq download "${packages[@]}" busybox-static >log 2>&1) ||
		not_to_be_had "$(apt_says "$new/log")"
	mkdir -p "$new/tree/usr/lib" "$new/first/modules"
	ln -s usr/lib "$new/tree/lib"
	for package in "$new"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$new/tree"
	done
	make_first "$new/tree" "$new/first"
	mkdir "$new/made"
	cp "$(find "$new/tree" -name 'vmlinuz*' -type f)" "$new/made/vmlinuz"
	(cd "$new/first" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -1) >"$new/made/initrd"
	mv -T "$new/made" "$dir/$suite"
)

# make_first TREE FIRST: what the kernel runs first, from a tree of unpacked packages: loads modules, and goes to the disk.
make_first() {
	local tree=$1 first=$2 version module file number=100

	version=$(basename "$tree"/lib/modules/*)
	/sbin/depmod -b "$tree" "$version"
	for module in "${MODULES[@]}"; do
		/sbin/modprobe -d "$tree" -S "$version" --show-depends "$module" 2>/dev/null || true
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$first/../order"
	while read -r file; do
		number=$((number + 1))
		case $file in
		*.xz) xz -dc "$file" ;;
		*) cat "$file" ;;
		esac >"$first/modules/$number.ko"
	done <"$first/../order"
	cp "$(find "$tree" -name busybox -type f -path '*/bin/*')" "$first/busybox"
	cp "$here/first.sh" "$first/init"
	mkdir "$first/dev" "$first/disk"
}

# make_disk: a file system with systemd and the packages that tests use, of this machine's suite.
make_disk() (
	. /etc/os-release
	# shellcheck source=tests/runtime/newer_apt.sh
	. "$project/tests/runtime/newer_apt.sh"
	use_suites "$dir" "$VERSION_CODENAME" "$VERSION_CODENAME"
	say "making a disk of $VERSION_CODENAME, which takes some minutes, once"
	as_root=()
	((EUID == 0)) || as_root=(sudo)
	make_root >"$new/log" 2>&1 || { tail -n 20 "$new/log" >&2; exit 3; }
	truncate -s 6G "$new/disk"
	"${as_root[@]}" /sbin/mkfs.ext4 -q -d "$new/root" "$new/disk"
	"${as_root[@]}" rm -rf --one-file-system "$new/root"
	mv "$new/disk" "$dir/disk"
)

# Into $new/root. What debootstrap installs it orders by itself, and cannot order everything.
make_root() {
	# shellcheck disable=SC2086
	"${as_root[@]}" env -u APT_CONFIG debootstrap --variant=minbase "$VERSION_CODENAME" "$new/root" "$mirror" &&
		"${as_root[@]}" env -u APT_CONFIG DEBIAN_FRONTEND=noninteractive chroot "$new/root" apt-get -qq -y \
			--no-install-recommends install systemd-sysv udev dbus iproute2 procps kmod ${VM_PACKAGES:-} &&
		"${as_root[@]}" chroot "$new/root" apt-get clean
}

# What the machine gets: the sources and what was built of them, but not what it was built from.
pack() {
	tar -C / -cf "$share/project.tar" --exclude='*.o' --exclude='*.a.p' --exclude='build-*' --exclude=.git \
		--exclude="${share#/}" "${project#/}"
	cp "$here/inside.sh" "$share/inside.sh"
	cp "$script" "$share/script"
	printf '%s\n' "$project" >"$share/folder"
	(($# == 0)) || printf '%s\0' "$@" >"$share/arguments"
}

boot() {
	# On some processors qemu 7.2 emulates cmpxchg16b wrongly, and kernels from 6.12 on end in the first cache that they make.
	local accel=(-accel "tcg,thread=multi" -cpu "max,cx16=off")

	[[ ${VM_ACCEL:-tcg} == tcg ]] || accel=(-accel "$VM_ACCEL" -cpu host)
	timeout --foreground "${VM_SECONDS:-7200}" qemu-system-x86_64 "${accel[@]}" -m 3G -smp 2 -display none -no-reboot \
		-nodefaults -kernel "$dir/$suite/vmlinuz" -initrd "$dir/$suite/initrd" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off systemd.run=/share/inside.sh" \
		-drive "file=$dir/disk,if=virtio,format=raw,snapshot=on" -device virtio-rng-pci \
		-virtfs "local,path=$share,mount_tag=share,security_model=none" \
		-serial "file:$share/console" -serial stdio </dev/null
}

main() {
	[[ $(uname -m) == x86_64 ]] || { say "machines of this kind of processor only: x86-64"; exit 77; }
	suite=${1:?which suite} script=${2:-$here/kernel.sh}
	shift $(($# < 2 ? 1 : 2))
	mkdir -p "$dir"
	# Two at a time would make the same.
	exec 9>"$dir/lock"
	flock 9
	[[ -d $dir/$suite ]] || fetch_kernel "$suite"
	[[ -f $dir/disk ]] || make_disk
	exec 9>&-
	share=$(mktemp -d -p "$project/build" vm.XXXXXX)
	trap 'rm -rf "$share"' EXIT
	pack "$@"
	boot || say "the emulator ended with status $?"
	[[ -f $share/status ]] && exit "$(<"$share/status")"
	say "the machine did not come to an end; its last words:"
	tail -n 30 "$share/console" >&2
	exit 1
}

# It may be edited while it runs.
main "$@"
