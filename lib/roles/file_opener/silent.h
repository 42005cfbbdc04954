/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Silent: knows what has blocked openers of earlier runs, and still does: a file system, or the
 * files behind the paths of one process.
 *
 * A blocked opener sleeps until the file system's server answers or ends, and no signal ends it. So
 * an opener takes a process name that says what it is about to touch. A later opener, in this run
 * or another one, counts the processes that were left behind with that name. With two of them, it
 * does not touch the device or process until they are gone. Nothing is written anywhere, and what
 * answers again is touched again at once. For a process with one thread, as the name is that of the
 * thread. Knows nothing of files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	SNAP_SILENT_MOST = 512, /* names that are kept */
	SNAP_SILENT_ENOUGH = 2, /* processes left behind with one name */
	SNAP_SILENT_NAME = 16,  /* TASK_COMM_LEN */
};

struct snap_silent {
	char own[SNAP_SILENT_NAME]; /* the usual name of this process */
	bool is_read;               /* the list of processes, once */
	size_t count;
	char names[SNAP_SILENT_MOST][SNAP_SILENT_NAME];
};

void snap_silent_init(struct snap_silent *silent);

/*
 * Call these before a path of a process, or a file of a device, is touched. False: it has blocked
 * others, and must not be touched.
 */
bool snap_silent_begin_process(struct snap_silent *silent, pid_t pid);
bool snap_silent_begin_device(struct snap_silent *silent, dev_t device);
/* Call this afterwards: it restores the usual name. */
void snap_silent_end(const struct snap_silent *silent);
