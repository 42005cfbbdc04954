/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Walk: the processes of a snapshot, parents before their children, each left after them.
 *
 * Without recursion, as the target decides how deep the tree is. Knows nothing of what is done
 * at a step.
 */
#pragma once

#include "model/snapshot.h"

struct snap_walk {
	const struct snap_snapshot *snapshot;
	struct snap_walk_level *levels;
	size_t depth, capacity;
	bool begun, failed; /* failed: no memory, the walk ended early */
};

struct snap_walk_step {
	const struct snap_node *node, *parent; /* parent NULL: a root */
	bool leave;                            /* its children are done; else it is entered */
	bool first, last;                      /* among its siblings */
};

void snap_walk_init(struct snap_walk *walk, const struct snap_snapshot *snapshot);
void snap_walk_deinit(struct snap_walk *walk);
/* False at the end. */
bool snap_walk_next(struct snap_walk *walk, struct snap_walk_step *step);
