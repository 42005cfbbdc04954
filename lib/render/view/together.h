/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Together: the groups of all processes of a snapshot as one list, where --group-by does not name
 * the process: where does the whole machine stand?
 *
 * Groups of different processes with the same id are one, as an id says all that is grouped by.
 * Knows nothing of formats; changes no snapshot.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"

struct snap_together {
	/* The view, which borrows from what it is of: processes have no stacks. */
	struct snap_snapshot snapshot;
	struct snap_stack *stacks; /* sorted, each with `pids`; NULL: processes have theirs */
	size_t stack_count;
	/* Processes that had none, without what is below them; in the order of the tree. */
	struct snap_node **empty;
	size_t empty_count;
	struct snap_arena arena;
};

/* The snapshot as it is, unless the options ask for all processes together. False without memory. */
bool snap_together_init(struct snap_together *together, const struct snap_snapshot *snapshot,
			const struct snap_options *options) _must_check_;
void snap_together_deinit(struct snap_together *together);
