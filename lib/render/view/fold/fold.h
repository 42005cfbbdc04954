/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fold: siblings of a snapshot that are alike become one process of a view of it, as the workers of
 * a server that all wait for the next request do; a process that differs stays apart and is seen.
 *
 * Alike are processes of the same program whose stacks, states, waits, labels and children are the
 * same: all that a report says but pids, tids, ages, addresses, and what each was called with. What
 * is compared is key.c, what becomes of it merge.c. Knows nothing of lines; changes no snapshot.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"

struct snap_folds {
	struct snap_snapshot snapshot; /* the view, which borrows from the snapshot that it is of */
	struct snap_arena arena;
};

/*
 * The view: the snapshot itself with --no-fold and with --flat, which asks for each process. A node
 * of several has `folded`. In time linear in what there is. False without memory.
 */
bool snap_folds_init(struct snap_folds *folds, const struct snap_snapshot *snapshot,
		     const struct snap_options *options) _must_check_;
void snap_folds_deinit(struct snap_folds *folds);
