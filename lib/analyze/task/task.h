/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks: from what the runtimes of a process know (runtime/) to stacks of the snapshot.
 *
 *     collect (managed frames -> records; tasks -> raw stacks)          collect.c
 *     merge   (managed frames into the native stacks of threads)        merge.c
 *     group   (equal tasks -> one stack; labels in common)              group.c
 *     nest    (tasks with ids in their labels -> logical processes)     logical.c
 *             (tasks that await each other -> their tree)               awaits.c
 *     arrange (the same in the order in which they are shown)           arrange.c
 *     limit   (less of them, where that is too much)                    limit.c
 *
 * Knows no runtime: names of functions that are left out of merged stacks are a table in glue.c.
 */
#pragma once

#include "analyze/analysis.h"
#include "analyze/filter.h"
#include "model/task_label.h"

/* The thread with this tid; NULL: there is none. */
struct snap_raw_thread *snap_task_thread(const struct snap_raw_process *raw, pid_t tid);
/* What the runtimes know of a thread that is about to be unwound. */
void snap_task_find_thread(const struct snap_raw_process *raw, struct snap_raw_thread *thread);

/*
 * Makes records of the managed frames, raw stacks and the list of the tasks, and tells which
 * threads are hidden. The threads have been unwound. NO_MEMORY.
 */
struct stacksnap_error *snap_tasks_collect(struct snap_analysis *analysis,
					   struct snap_raw_process *raw) _must_check_;

/* Puts managed and native frames together; all have their names. NO_MEMORY. */
struct stacksnap_error *snap_tasks_merge(struct snap_analysis *analysis,
					 struct snap_raw_process *raw) _must_check_;

/*
 * Adds the tasks that are shown to the node, whose threads are grouped, in stacks or in logical
 * processes, and tells of its runtimes. `facts`: one a raw stack. NO_MEMORY.
 */
struct stacksnap_error *snap_tasks_group(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw,
					 const struct snap_filter_stack *facts,
					 struct snap_node *node) _must_check_;

/* ---- logical processes ---- */

/*
 * The logical process of each task. NULL in `logical`: there are none. It and what it has is in the
 * snapshot's arena, all else malloc'ed. One without id is the last.
 */
struct snap_logical_set {
	struct snap_logical *logical;
	size_t *parents; /* of each: its index, SIZE_MAX: a root */
	size_t count;
	size_t *of_tasks; /* of each task of the process: its logical process */
	uint64_t *keys;   /* of each: the key of its stack, where it has one only; NULL: labels */
};

/* By labels, in the order of their lowest task. NO_MEMORY. */
struct stacksnap_error *snap_logical_find(struct snap_analysis *analysis,
					  const struct snap_raw_process *raw,
					  struct snap_logical_set *ret) _must_check_;
/*
 * By awaiter, if there are some and that is wanted. `keys`: of each task; those with one key are a
 * group where they have one parent. NO_MEMORY.
 */
struct stacksnap_error *snap_awaits_find(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw, const uint64_t *keys,
					 struct snap_logical_set *ret) _must_check_;
/* Of each circle of parents the link of its last member goes. False: no memory. */
bool snap_task_drop_circles(size_t *parents, size_t count) _must_check_;
void snap_logical_set_deinit(struct snap_logical_set *set);

/* --no-system hides it, whatever it has. */
bool snap_logical_is_hidden(const struct snap_options *options, const struct snap_logical *logical);
/*
 * Sorts logical processes into the order of their tree, with the depths: those that the options
 * hide are left out, and what is below them moves up. The array is the arena's. NO_MEMORY.
 */
struct stacksnap_error *
snap_logical_arrange(struct snap_arena *arena, const struct snap_options *options,
		     const struct snap_logical *logical, const size_t *parents, size_t count,
		     struct snap_logical **ret, size_t *count_ret) _must_check_;

/* ---- limits ---- */

/* What was left out. */
struct snap_task_cut {
	bool texts;            /* long ones were cut */
	size_t without_labels; /* tasks whose labels are not there */
	size_t tasks;
};

/*
 * What the tasks of a node take in the largest report, with their stacks but for frames. NO_MEMORY.
 */
struct stacksnap_error *snap_task_report_bytes(const struct snap_node *node,
					       uint64_t *ret) _must_check_;
/* Leaves out so much of them that they take `most` bytes; adds what that was. NO_MEMORY. */
struct stacksnap_error *snap_task_limit_node(struct snap_interner *strings, struct snap_node *node,
					     uint64_t most, struct snap_task_cut *cut) _must_check_;

/* ---- filters ---- */

/* As its runtime says it, which names no owner. */
bool snap_task_waits_for_lock(const struct snap_task *task);
bool snap_task_waits_at_its_root(const struct snap_frame **frames, size_t count);
/* Whether it waits for work, by its whole stack. `locked`: another one waits for a lock, any may have it. */
bool snap_task_is_idle(const struct snap_task *task, const struct snap_filter_stack *stack,
		       bool locked);
/* One that is hidden as it is idle is counted; `runtime`: of the task. */
bool snap_task_is_shown(const struct snap_options *options, const struct snap_task *task,
			const struct snap_filter_stack *stack, const char *runtime,
			struct snap_idle *idle);
/*
 * The options' filters for the stacks of tasks of a node that was read without them: tasks go,
 * stacks without any go, and logical processes are arranged anew. `unsaid`: which are
 * idle may be unknown. NO_MEMORY.
 */
struct stacksnap_error *snap_task_filter_node(struct snap_interner *strings,
					      const struct snap_options *options,
					      struct snap_node *node, bool unsaid,
					      struct snap_idle *idle) _must_check_;
