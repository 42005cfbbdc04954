/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What did not answer openers of earlier runs, and does not yet: a file system, or whatever the
 * paths of one process lead to.
 *
 * An opener that is held sleeps until the file system's server answers or ends, and no signal ends
 * it. So before it touches something it takes a name that says what, and who comes later, in this
 * run or in another one, counts those that were left behind with that name. Two are enough: what
 * holds them is not touched any more until they are gone. Nothing is written anywhere, and what has
 * answered is touched again at once. For a process with one thread, whose name this is. Knows
 * nothing of files.
 */
#ifndef SNAP_ROLES_OPENER_SILENT_H
#define SNAP_ROLES_OPENER_SILENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	SNAP_SILENT_MOST = 512, /* names that are kept */
	SNAP_SILENT_ENOUGH = 2, /* that are held by the same */
	SNAP_SILENT_NAME = 16,  /* TASK_COMM_LEN */
};

struct snap_silent {
	char own[SNAP_SILENT_NAME]; /* what this process is called otherwise */
	bool is_read;               /* who is left behind, once */
	size_t count;
	char names[SNAP_SILENT_MOST][SNAP_SILENT_NAME];
};

void snap_silent_init(struct snap_silent *silent);

/*
 * Before a path of a process, or a file of a device, is touched. False: it held others, and is to
 * be left alone.
 */
bool snap_silent_begin_process(struct snap_silent *silent, pid_t pid);
bool snap_silent_begin_device(struct snap_silent *silent, dev_t device);
/* Nothing is touched any more. */
void snap_silent_end(const struct snap_silent *silent);

#endif
