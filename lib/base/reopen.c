/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a checked descriptor again: see reopen.h. */
#include "base/reopen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/sysmacros.h>

struct stacksnap_error *snap_reopen(int path_fd, int flags, int *ret)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	fd = open(name, flags);
	if (fd < 0)
		return snap_error_os(errno, "cannot open for reading");
	*ret = fd;
	return NULL;
}

struct stacksnap_error *snap_reopen_regular(int path_fd, int *ret)
{
	struct stat info;

	/* What a file is never changes, so its file system need not be asked. */
	if (!snap_look(path_fd, "", &info))
		return snap_error_os(errno, "cannot stat the file");
	if (!S_ISREG(info.st_mode))
		return snap_error_format(SNAP_ERROR_FORMAT, "not a regular file");
	return snap_reopen(path_fd, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, ret);
}

enum { NOBODY_IS_ASKED = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC };

bool snap_look(int directory_fd, const char *name, struct stat *ret)
{
	struct statx info;

	if (statx(directory_fd, name, NOBODY_IS_ASKED, STATX_BASIC_STATS, &info) != 0)
		return false;
	*ret = (struct stat){
		.st_dev = makedev(info.stx_dev_major, info.stx_dev_minor),
		.st_ino = info.stx_ino,
		.st_mode = info.stx_mode,
		.st_nlink = info.stx_nlink,
		.st_uid = info.stx_uid,
		.st_gid = info.stx_gid,
		.st_size = (off_t)info.stx_size,
	};
	return true;
}

bool snap_is_same_place(int fd, int other)
{
	struct statx a, b;

	return statx(fd, "", NOBODY_IS_ASKED, STATX_INO | STATX_MNT_ID, &a) == 0 &&
	       statx(other, "", NOBODY_IS_ASKED, STATX_INO | STATX_MNT_ID, &b) == 0 &&
	       a.stx_mask & b.stx_mask & STATX_MNT_ID && a.stx_mnt_id == b.stx_mnt_id &&
	       a.stx_ino == b.stx_ino && a.stx_dev_major == b.stx_dev_major &&
	       a.stx_dev_minor == b.stx_dev_minor;
}
