/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of this tool that earlier runs have given up: they were killed, and sleep in a call
 * until a file system answers that does not (base/workers.h, roles/file_opener/file_opener.h). Their names
 * begin alike; what follows says who they are, or what they wait for. Whoever has our uid may make
 * a process that looks like one. Knows nothing of why they wait.
 */
#ifndef SNAP_PROC_LEFT_BEHIND_H
#define SNAP_PROC_LEFT_BEHIND_H

#include <stdbool.h>
#include <sys/types.h>

#define SNAP_OWN_NAME "snap-"

/* Whether a process's name is one of this tool's. */
bool snap_has_own_name(const char *comm);

/* Whether a process whose name is like that is left behind; procfs_fd is the root of procfs. */
bool snap_is_left_behind(int procfs_fd, pid_t pid);

#endif
