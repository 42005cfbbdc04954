/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What runtimes add to a document: the tasks of a stack, the runtimes of a process, its logical
 * processes. Knows nothing of the rest of it, document.h.
 */
#pragma once

#include "model/snapshot.h"
#include "render/json/writer.h"

/* The labels of a stack or a process; keys and values are whatever a program wrote. */
void snap_json_labels_put(struct snap_json_writer *json, const struct snap_label *labels,
			  size_t count);
void snap_json_tasks_put(struct snap_json_writer *json, const struct snap_stack *stack);
/* Nothing where there is none. */
void snap_json_runtimes_put(struct snap_json_writer *json, const struct snap_node *node);
/* Likewise; `put_stacks` writes the array of stacks of one of them. */
void snap_json_logical_put(struct snap_json_writer *json, const struct snap_node *node, bool flat,
			   void (*put_stacks)(void *context, const struct snap_stack *stacks,
					      size_t count),
			   void *context);
