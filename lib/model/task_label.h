/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels of tasks: those that a program wrote, and those that a stack shows, with states.
 *
 * The labels of a task are sorted by key, so that what many have in common is found in one pass
 * each. Knows nothing of how tasks are found.
 */
#pragma once

#include "base/arena.h"
#include "model/options.h"
#include "model/snapshot.h"

/* Sorts labels by key; of several with one key the first stays. How many are left. */
size_t snap_task_sort_labels(struct snap_label *labels, size_t count);
/* The value of a key in sorted labels; NULL: there is none. */
const char *snap_task_label(const struct snap_label *labels, size_t count, const char *key);
/*
 * Leaves in labels those that are in the others, too; both sorted. How many are left.
 */
size_t snap_task_common_labels(struct snap_label *labels, size_t count,
			       const struct snap_label *others, size_t other_count);
/* The key by which a label of a program is shown among ours; NULL without memory. */
const char *snap_task_shown_key(struct snap_interner *strings, const char *key);
/* Whether a label says which logical process a task is of; it is not repeated below that process. */
bool snap_task_is_tree_label(const struct snap_options *options, const char *key, bool flat);

/*
 * What tells the group of a task, as snap_label_key() does for threads: `group_by` in place of what
 * the options say, with their labels; `seed`: of the stack.
 */
uint64_t snap_task_label_key(const struct snap_task *task, const char *runtime, bool is_system,
			     unsigned group_by, const struct snap_options *options, uint64_t seed);

/*
 * The labels of a stack whose tasks are there: state, wait and name, then the program's own, each
 * that all tasks share. `in_tree`: those that tell which logical process they are of are not
 * repeated. False without memory.
 */
bool snap_task_label_stack(struct snap_interner *strings, const struct snap_options *options,
			   struct snap_stack *stack, bool in_tree) _must_check_;
