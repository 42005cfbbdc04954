/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines about locks on files: of /proc/locks (proc_locks(5)), and "lock:" in fdinfo.
 *
 * Pure functions, as those of proc/parse.h. Knows nothing of the processes that have a file open.
 */
#pragma once

#include "model/wait/facts.h"

/*
 * A line of /proc/locks, without its newline: ret->is_holder is false. False: not the kernel's, or
 * of a lock that names no file.
 */
bool snap_parse_file_lock(const char *line, size_t length, struct snap_file_lock *ret);

/*
 * A line "lock:" of fdinfo, of a process that has the lock: ret->pid is the process that took it, as in
 * the line. False: another line.
 */
bool snap_parse_held_lock(const char *line, size_t length, struct snap_file_lock *ret);
