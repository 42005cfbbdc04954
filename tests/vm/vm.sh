#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# vm.sh SUITE [ARCH] [SCRIPT [ARG…]]: boots the kernel of that suite of Debian in an emulated machine of two processors,
# runs SCRIPT there as root in the folder of the project, prints what it prints, and ends with its status. Without SCRIPT
# it is kernel.sh beside this one. `./dev vm` builds the project before. ARCH is amd64, or arm64, which is aarch64.
#
# All else in the machine, libraries and systemd, is of the suite that this machine itself runs, so what was built here
# runs there, whatever the kernel. Nothing that a script writes stays: a run starts from the same disk as the one before.
# It has a copy of the sources and of build/, at the same paths, and this machine sees nothing of it. A machine of arm64
# has build-arm64/ there as build/.
#
# Kernels and disks lie in ~/.cache/stacksnap-vm (DIR): 700 MB, 2 GB for arm64, and 15 MB a kernel; making a disk needs
# root. Who wants newer ones removes them. The disk of arm64 is made of packages that were unpacked and never configured,
# which takes a minute where an emulated processor would take half an hour; `root` beside it is the same as a folder, for
# the cross compiler: `vm.sh root arm64` makes both, and prints a file for meson that says where it lies.
# In the environment: VM_PACKAGES are installed in a disk that is made; VM_SECONDS end a machine that does not end
# (7200); VM_ACCEL=kvm uses the processor as it is, where the machine permits, in place of an emulated one; VM_KERNEL is
# another flavour of the suite's kernel (arm64-16k).
#
# What newer_apt.sh sets is for the subshells that read it:
# shellcheck disable=SC2030,SC2031
set -eu
here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
dir=${DIR:-$HOME/.cache/stacksnap-vm}
# Of the machine to be made; `name` sets its kernel's files apart.
arch=amd64 architecture=
# What the kernel does not have built in and is needed to find the disk, and what tests use. The disk has no modules that
# could be loaded later, as those are that tell of sockets.
MODULES=(virtio_pci virtio_blk virtio_rng virtio_console crc32c_generic ext4 9pnet_virtio 9p fuse overlay
	tcp_diag udp_diag unix_diag netlink_diag)

say() {
	printf '%s\n' "vm: $*" >&2
}

# fetch_kernel SUITE NAME: its kernel, and a first file system with the modules that find the disk, in $dir/NAME.
fetch_kernel() (
	suite=$1 flavour=${VM_KERNEL:-$arch}
	# shellcheck source=tests/runtime/newer_apt.sh
	. "$project/tests/runtime/newer_apt.sh"
	use_suites "$dir" "$prefix$suite" "$suite"
	mapfile -t packages < <(apt-cache depends --recurse --no-suggests --no-recommends "linux-image-$flavour" |
		grep -xE "linux-(image|modules|binary|base)-[0-9][^ ]*-$flavour")
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
	mv -T "$new/made" "$dir/$2"
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
	use_suites "$dir" "$prefix$VERSION_CODENAME" "$VERSION_CODENAME"
	say "making a disk of $VERSION_CODENAME, which takes some minutes, once"
	as_root=()
	((EUID == 0)) || as_root=(sudo)
	make_root >"$new/log" 2>&1 || { tail -n 20 "$new/log" >&2; exit 3; }
	truncate -s 6G "$new/disk"
	"${as_root[@]}" /sbin/mkfs.ext4 -q -d "$new/root" "$new/disk"
	if [[ $arch == arm64 ]]; then
		"${as_root[@]}" rm -rf --one-file-system "$dir/${prefix}root"
		mv "$new/root" "$dir/${prefix}root"
	else
		"${as_root[@]}" rm -rf --one-file-system "$new/root"
	fi
	mv "$new/disk" "$dir/${prefix}disk"
)

# Into $new/root.
make_root() {
	if [[ $arch == amd64 ]]; then
		make_root_amd64
	else
		make_root_arm64
	fi
}

# What debootstrap installs it orders by itself, and cannot order everything. Cores go where each test says, whoever is
# there to take them.
make_root_amd64() {
	# shellcheck disable=SC2086
	"${as_root[@]}" env -u APT_CONFIG debootstrap --variant=minbase "$VERSION_CODENAME" "$new/root" "$mirror" &&
		"${as_root[@]}" env -u APT_CONFIG DEBIAN_FRONTEND=noninteractive chroot "$new/root" apt-get -qq -y \
			--no-install-recommends install systemd-sysv udev dbus iproute2 procps kmod ${VM_PACKAGES:-} &&
		"${as_root[@]}" ln -sfn /dev/null "$new/root/etc/sysctl.d/50-coredump.conf" &&
		"${as_root[@]}" chroot "$new/root" apt-get clean
}

# The same of a processor that this machine cannot run: what packages do when they are configured is done here, as far as
# it is needed.
make_root_arm64() {
	local root=$new/root package

	mkdir "$new/archives" "$new/archives/partial"
	# shellcheck disable=SC2086
	apt-get -qq -y -o Dir::Cache::archives="$new/archives" --download-only install '?essential' systemd-sysv udev dbus \
		iproute2 procps kmod busybox-static libstdc++-12-dev libc6-dbg ${VM_PACKAGES:-} || return
	mkdir -p "$root"/usr/{bin,lib,sbin} "$root"/{mnt,share}
	ln -s usr/bin usr/lib usr/sbin "$root"
	for package in "$new"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | "${as_root[@]}" tar -x --keep-directory-symlink -C "$root" || return
	done
	rm -r "$new/archives"
	"${as_root[@]}" sh -e -s "$root" <<'END'
		cd "$1"
		cp usr/share/base-passwd/passwd.master etc/passwd
		cp usr/share/base-passwd/group.master etc/group
		echo 'messagebus:x:100:101::/nonexistent:/usr/sbin/nologin' >>etc/passwd
		echo 'messagebus:x:101:' >>etc/group
		echo 'postgres:x:102:102::/var/lib/postgresql:/bin/bash' >>etc/passwd
		echo 'postgres:x:102:' >>etc/group
		: >etc/machine-id
		ln -sf mawk usr/bin/awk
		for program in usr/lib/jvm/java-*/bin/java usr/lib/jvm/java-*/bin/javac; do
			[ ! -x "$program" ] || ln -sf "/$program" usr/bin/
		done
END
}

# For meson, beside cross/aarch64-linux-gnu.ini.
cross_file() {
	cat <<-END
		[constants]
		root = '$dir/${prefix}root'
		[properties]
		sys_root = root
		pkg_config_libdir = [root / 'usr/lib/aarch64-linux-gnu/pkgconfig', root / 'usr/share/pkgconfig']
		[built-in options]
		c_args = ['--sysroot=' + root]
		c_link_args = ['--sysroot=' + root]
		cpp_args = ['--sysroot=' + root]
		cpp_link_args = ['--sysroot=' + root]
	END
}

# What the machine gets: the sources and what was built of them, but not what it was built from.
pack() {
	local built=("$project/build")

	[[ $arch == amd64 ]] || built=("$project/build-$arch" --transform "s|^${project#/}/build-$arch|${project#/}/build|")
	tar -C / -cf "$share/project.tar" --exclude='*.o' --exclude='*.a' --exclude='*.a.p' --exclude="${project#/}/build/vm.*" \
		"${built[@]#/}" --exclude="${project#/}/build*" --exclude=.git "${project#/}"
	cp "$here/inside.sh" "$share/inside.sh"
	cp "$script" "$share/script"
	printf '%s\n' "$project" >"$share/folder"
	(($# == 0)) || printf '%s\0' "$@" >"$share/arguments"
}

boot() {
	local machine=(qemu-system-x86_64) cpu console=ttyS0 out=(-serial stdio)

	# On some processors qemu 7.2 emulates cmpxchg16b wrongly, and kernels from 6.12 on end in the first cache that they make.
	cpu=max,cx16=off
	if [[ $arch == arm64 ]]; then
		# Addresses are signed by a cheap function in place of the real one, which takes most of the time.
		machine=(qemu-system-aarch64 -M virt) cpu=max,pauth-impdef=on console=ttyAMA0
		# It has one serial line only.
		out=(-chardev "stdio,id=out" -device virtio-serial-pci -device "virtconsole,chardev=out")
	fi
	machine+=(-accel "tcg,thread=multi" -cpu "$cpu")
	[[ ${VM_ACCEL:-tcg} == tcg ]] || machine=("${machine[0]}" -accel "$VM_ACCEL" -cpu host)
	timeout --foreground "${VM_SECONDS:-7200}" "${machine[@]}" -m 3G -smp 2 -display none -no-reboot \
		-nodefaults -kernel "$dir/$name/vmlinuz" -initrd "$dir/$name/initrd" \
		-append "console=$console quiet panic=-1 mitigations=off systemd.run=/share/inside.sh" \
		-drive "file=$dir/${prefix}disk,if=virtio,format=raw,snapshot=on" -device virtio-rng-pci \
		-virtfs "local,path=$share,mount_tag=share,security_model=none" \
		-serial "file:$share/console" "${out[@]}" </dev/null
}

main() {
	[[ $(uname -m) == x86_64 ]] || { say "on x86-64 only"; exit 77; }
	suite=${1:?which suite}
	shift
	case ${1:-} in
	amd64) shift ;;
	arm64) arch=arm64 architecture=arm64; shift ;;
	esac
	prefix=''
	[[ $arch == amd64 ]] || prefix=$arch-
	name=$prefix$suite${VM_KERNEL:+-$VM_KERNEL}
	script=${1:-$here/kernel.sh}
	shift $(($# > 0))
	mkdir -p "$dir"
	# Two at a time would make the same.
	exec 9>"$dir/lock"
	flock 9
	[[ $suite == root || -d $dir/$name ]] || fetch_kernel "$suite" "$name"
	[[ -f $dir/${prefix}disk ]] || make_disk
	exec 9>&-
	if [[ $suite == root ]]; then
		cross_file
		exit
	fi
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
