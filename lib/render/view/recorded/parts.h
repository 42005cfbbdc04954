/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the two views of a recording as snapshots share (instants.h, groups.h): threads and tasks in
 * a run, what tells their groups apart, groups without members, processes without groups, the tree
 * of processes. For the files of this folder only. Knows neither ticks nor samples.
 */
#pragma once

#include "model/options.h"
#include "model/recording.h"

/* The ids of the recording's stacks as numbers; malloc'ed, NULL without memory. */
uint64_t *snap_recorded_ids(const struct snap_recording *recording);

/* NULL: for nothing that is known, or that is to be shown. */
const struct snap_wait *snap_recorded_wait_of(const struct snap_recording *recording,
					      const struct snap_options *options,
					      const struct snap_run *run);

struct snap_member snap_recorded_thread_of(const struct snap_recording *recording,
					   const struct snap_options *options,
					   const struct snap_track *track,
					   const struct snap_run *run);

/* A task as it stood. */
struct snap_task snap_recorded_task_of(const struct snap_track *track, const struct snap_run *run);

/* What tells the group of a thread, or of a task; `id`: of the stack. */
uint64_t snap_recorded_key_of(const struct snap_recording *recording,
			      const struct snap_track *track, const struct snap_run *run,
			      const struct snap_options *options, uint64_t id);

/* A group of `count` threads or tasks, which the caller fills in. False without memory. */
bool snap_recorded_make_stack(struct snap_arena *arena, const struct snap_recorded_stack *from,
			      uint64_t id, const struct snap_track *first, size_t count,
			      struct snap_stack *stack) _must_check_;

/* False without memory. */
bool snap_recorded_label_stack(struct snap_interner *strings, const struct snap_options *options,
			       struct snap_stack *stack) _must_check_;

/* The facts of a process, without stacks and children; NULL without memory. */
struct snap_node *snap_recorded_copy_node(struct snap_arena *arena, const struct snap_node *from);

/*
 * Puts the nodes (one a process of the recording, NULL: not there) into the snapshot's tree, in the
 * recording's order; a process without its parent there goes to the nearest one above. `flat`: all are roots.
 * False without memory.
 */
bool snap_recorded_make_tree(struct snap_arena *arena, const struct snap_recording *recording,
			     struct snap_node **nodes, bool flat,
			     struct snap_snapshot *snapshot) _must_check_;

/* What all of its threads wait for, and nothing else; NULL: they differ, or not all are listed. */
const struct snap_wait *snap_recorded_common_wait(const struct snap_stack *stack);
