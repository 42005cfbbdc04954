/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sessions. The kernel may share processors among sessions first (autogroup, sched(7)). Then a priority
 * within one session does not count among all, and a user with many sessions leaves little to each other
 * session. Knows nothing of priorities within a session (base/priority.h).
 */
#pragma once

#include <sys/types.h>

/*
 * Makes the calling process, which must be a child of the library, a session of its own. The session has
 * this nice value (-20 to 19) among sessions, as far as is permitted. procfs_fd: the kernel's procfs.
 */
void snap_session_begin(int procfs_fd, int nice);

/* The nice value of the session of another process, as far as is permitted. */
void snap_session_set_nice(int procfs_fd, pid_t pid, int nice);
