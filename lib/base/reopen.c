/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a checked descriptor again: see reopen.h. */
#include "base/reopen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

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

	if (fstat(path_fd, &info) < 0)
		return snap_error_os(errno, "cannot stat the file");
	if (!S_ISREG(info.st_mode))
		return snap_error_format(SNAP_ERROR_FORMAT, "not a regular file");
	return snap_reopen(path_fd, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, ret);
}
