/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions and their share of processors: see session.h. */
#include "proc/session.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void write_nice(int procfs_fd, const char *name, int nice)
{
	_cleanup_fd_ int fd = openat(procfs_fd, name, O_WRONLY | O_CLOEXEC);
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", nice);

	/* Kernels without autogroup have no such file, and a low nice value needs permission. */
	if (fd >= 0 && write(fd, text, (size_t)length) < 0)
		return;
}

void snap_session_begin(int procfs_fd, int nice)
{
	if (setsid() >= 0 && nice)
		write_nice(procfs_fd, "self/autogroup", nice);
}

void snap_session_set_nice(int procfs_fd, pid_t pid, int nice)
{
	char name[32];

	snprintf(name, sizeof(name), "%d/autogroup", pid);
	write_nice(procfs_fd, name, nice);
}
