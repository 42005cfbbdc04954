/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes that earlier runs have given up: see left_behind.h. */
#include "proc/left_behind.h"

#include "base/text.h"
#include "proc/procfs.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

bool snap_has_own_name(const char *comm)
{
	return snap_begins_with(comm, SNAP_OWN_NAME);
}

bool snap_is_left_behind(int procfs_fd, pid_t pid)
{
	struct snap_status status;

	return snap_procfs_task_status(procfs_fd, pid, &status) == 0 && status.state == 'D' &&
	       status.uid == getuid() && status.suid == getuid() &&
	       (status.pending >> (SIGKILL - 1) & 1);
}
