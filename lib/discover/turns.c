/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Turns: the order in which new processes are asked and read: one of each user in turn, as there
 * may be time for only a part of them, and a user may have any number. Few processes keep their
 * order. Knows only the owner of a process's directory in procfs, which no process can block.
 */
#include "base/bsearch.h"
#include "discover/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FEW = 256 /* for so many there is always time */ };

struct turn {
	size_t index;
	uid_t owner;
	size_t before; /* of the same owner */
};

SNAP_ORDER(compare_owners, struct turn, a, b, snap_compare(a->owner, b->owner),
	   snap_compare(a->index, b->index));

SNAP_ORDER(compare_turns, struct turn, a, b, snap_compare(a->before, b->before),
	   snap_compare(a->index, b->index));

/* By the effective uid; root's if it cannot be dumped (fs/proc/base.c, task_dump_owner()). */
static uid_t owner_of_pid(const struct snap_discovery *run, pid_t pid)
{
	struct stat status;
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)pid);
	return fstatat(run->procfs->root_fd, name, &status, AT_SYMLINK_NOFOLLOW) ? 0
										 : status.st_uid;
}

static void order_turns(const struct snap_discovery *run, struct turn *turns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		turns[i].owner = owner_of_pid(run, run->capture->processes[turns[i].index].pid);
	qsort(turns, count, sizeof(*turns), compare_owners);
	for (size_t i = 1; i < count; i++)
		if (turns[i].owner == turns[i - 1].owner)
			turns[i].before = turns[i - 1].before + 1;
	qsort(turns, count, sizeof(*turns), compare_turns);
}

struct stacksnap_error *snap_discovery_turns(const struct snap_discovery *run, size_t **ret)
{
	size_t count = run->capture->process_count - run->facts_count;
	_cleanup_free_ struct turn *turns = calloc(count + 1, sizeof(*turns));
	size_t *order = calloc(count + 1, sizeof(*order));

	if (!turns || !order) {
		free(order);
		return snap_error_no_memory();
	}
	for (size_t i = 0; i < count; i++)
		turns[i].index = run->facts_count + i;
	if (count > FEW)
		order_turns(run, turns, count);
	for (size_t i = 0; i < count; i++)
		order[i] = turns[i].index;
	*ret = order;
	return NULL;
}
