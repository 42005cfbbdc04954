/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as bytes, inside: processes and stacks are file.c, what runtimes add to them is
 * tasks.c. No other file includes it.
 */
#pragma once

#include "store/pointers.h"

enum { SNAP_LONGEST_RUNTIME = 64 };

/* A list of stacks, in their order. */
void snap_code_stacks(struct snap_pointer_codec *to, struct snap_stack **stacks, size_t *count);

/* Labels with any key, and any value that is there. */
void snap_code_task_labels(struct snap_pointer_codec *to, struct snap_label **labels,
			   size_t *count);
/* The tasks of a stack, at least one. */
void snap_code_tasks(struct snap_pointer_codec *to, struct snap_stack *stack);
void snap_code_runtimes(struct snap_pointer_codec *to, struct snap_node *node);
void snap_code_logical(struct snap_pointer_codec *to, struct snap_node *node);
