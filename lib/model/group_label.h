/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels: the facts about a group of threads besides its stack.
 *
 * One function sets them, in the order in which they are printed. A label on which the threads of
 * a group differ is absent; names that differ in numbers only share their pattern ("worker-*").
 * Knows nothing of how stacks are compared.
 */
#pragma once

#include "base/arena.h"
#include "model/options.h"
#include "model/snapshot.h"

/*
 * A hash of the labels that `group_by` names (bits of enum snap_group_by), and of `seed`: the hash
 * of grouping by stack alone.
 */
uint64_t snap_label_key(const struct snap_member *member, unsigned group_by, uint64_t seed);

/*
 * Fills the labels of a stack whose threads are there, before those of a program that it has
 * already. False without memory.
 */
bool snap_label_stack(struct snap_interner *strings, struct snap_stack *stack);

/*
 * The one name or pattern of all threads, written to `out` (SNAP_MAX_THREAD_NAME bytes); false:
 * they have none in common.
 */
bool snap_label_fold(const struct snap_member *threads, size_t count, char *out);
/* The same of any names, one each `stride` bytes from the first on, in `size` bytes. */
bool snap_label_fold_names(const char *const *first, size_t stride, size_t count, char *out,
			   size_t size);
