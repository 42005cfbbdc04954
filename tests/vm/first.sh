#!/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: LGPL-2.1-or-later
# The first program of the emulated machine: loads the modules that vm.sh chose, in its order, and goes on from the disk,
# with the folder that is shared with the machine outside at /share.
/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do
	/busybox insmod "$module"
done
until /busybox mount -t ext4 /dev/vda /disk 2>/dev/null; do
	/busybox sleep 0.1
done
/busybox mkdir -p /disk/share
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /disk/share
exec /busybox switch_root /disk /sbin/init
