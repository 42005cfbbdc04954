/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Group: threads of a process with the same key become one stack of the snapshot.
 *
 * The key describes what people would call the same place. For each function it has the linkage
 * name and the line where they are known, otherwise build id and offset. So it does not change with
 * ASLR, restarts, or hosts that have the same files. It also has the labels that --group-by names.
 * How a frame was found is no part of it: a group shows its least trusted stack. Knows nothing of
 * files.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/snapshot.h"

struct snap_raw_process;
struct snap_raw_stack;

/*
 * The key of a stack, without labels: the id of the group if stacks alone are grouped by. Its
 * frames are those of struct snap_frame_record, in which the keys of frames are kept.
 */
uint64_t snap_group_stack_key(const struct snap_raw_stack *stack);

/*
 * The outermost function that is not start-up code; one of the program's own, if there is any. Of
 * frames with managed ones among them, one that is not called by those. Never NULL.
 */
const char *snap_group_describe(const struct snap_frame **frames, size_t count);

/* Something on its way into a group: a thread, or a task. */
struct snap_group_item {
	uint64_t id;
	size_t number; /* which: things of a group keep their order */
};

/* The order in which items of a group are neighbours; for qsort(3). */
int snap_group_compare_items(const void *left, const void *right);

/*
 * What is shown of the stacks of a group's items, stacks[number] of `raw`: all of *ret but its
 * labels and members.
 */
void snap_group_show(const struct snap_options *options, const struct snap_raw_process *raw,
		     const size_t *stacks, const struct snap_group_item *items, size_t count,
		     struct snap_stack *ret);

/*
 * Fills node->stacks from the process's threads of which `shown` is true; `members` are their
 * facts, one a thread of `raw`. Results go to the arena of `strings`. NO_MEMORY.
 */
struct stacksnap_error *snap_group_threads(struct snap_interner *strings,
					   const struct snap_options *options,
					   struct snap_raw_process *raw,
					   const struct snap_member *members, const bool *shown,
					   struct snap_node *node) _must_check_;

/* The wait of a group; NULL: its threads do not wait for the same thing, or one for nothing. */
const struct snap_wait *snap_group_wait(const struct snap_stack *stack);

/*
 * Groups the threads of a node that was read from a document as the options say. A thread has the
 * stack of the group that it was in; groups of tasks stay. NO_MEMORY.
 */
struct stacksnap_error *snap_group_again(struct snap_interner *strings,
					 const struct snap_options *options,
					 struct snap_node *node) _must_check_;
