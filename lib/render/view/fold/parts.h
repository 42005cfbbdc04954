/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of folding, see fold.h: which processes are alike (key.c), and one of several that are
 * (merge.c). Both know processes by themselves; children and the tree are fold.c's.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"

/* Equal for processes that are alike but for their children. */
uint64_t snap_fold_key(const struct snap_node *node, const struct snap_options *options);
/* Whether two whose keys are equal can be merged: a program may make keys equal. */
bool snap_fold_has_same_shape(const struct snap_node *a, const struct snap_node *b);

/* One node of several, sorted by pid, without their children. False without memory. */
bool snap_fold_merge(struct snap_arena *arena, const struct snap_node *const *members, size_t count,
		     struct snap_node *ret) _must_check_;
