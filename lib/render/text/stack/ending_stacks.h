/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stacks that end at one node of a call tree, as one stack, whose state and members print like
 * those of any. Knows nothing of lines.
 */
#pragma once

#include "render/view/calls/tree.h"

struct snap_ending_stacks {
	/* Without frames and id; count 0: there are none. Its pids are not in the order of threads. */
	struct snap_stack stack;
	struct snap_label labels[4];
	uint64_t states[SNAP_STATE_COUNT];
};

/* Those of threads, or those of tasks. False without memory; snap_ending_stacks_deinit() in any case. */
bool snap_ending_stacks_init(struct snap_ending_stacks *ends, const struct snap_call_end *from,
			     size_t count, bool of_tasks) _must_check_;
void snap_ending_stacks_deinit(struct snap_ending_stacks *ends);
