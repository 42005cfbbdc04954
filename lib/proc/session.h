/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sessions, among which the kernel may share processors out first (autogroup, sched(7)): there, who comes first within
 * one does not among all, and somebody with many sessions leaves little to each other one. Knows nothing of priorities
 * within a session (base/priority.h), nor of who is to come first.
 */
#ifndef SNAP_PROC_SESSION_H
#define SNAP_PROC_SESSION_H

#include <sys/types.h>

/*
 * Makes the calling process, which must be of our own making, a session of its own with that nice value (-20 to 19)
 * among sessions, as far as is permitted. procfs_fd: the kernel's own procfs.
 */
void snap_session_begin(int procfs_fd, int nice);

/* The nice value of the session of another process, as far as is permitted. */
void snap_session_set_nice(int procfs_fd, pid_t pid, int nice);

#endif
