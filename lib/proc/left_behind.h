/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of this tool that earlier runs have given up. They were killed, and sleep in a call until a
 * file system answers, which may never happen (base/workers.h, roles/file_opener/file_opener.h). Their
 * names begin alike; the rest names their role, or what they wait for. A process with our uid may use
 * such a name, too. Knows nothing of why they wait.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define SNAP_OWN_NAME "snap-"

/* Whether a process's name is one of this tool's. */
bool snap_has_own_name(const char *comm);

/* Whether a process whose name is like that is left behind; procfs_fd is the root of procfs. */
bool snap_is_left_behind(int procfs_fd, pid_t pid);
