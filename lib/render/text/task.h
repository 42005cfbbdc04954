/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks and logical processes as text: the parts of a line that differ from those of threads.
 * Knows nothing of trees; stack.c and tree.c begin and end lines.
 */
#pragma once

#include "model/snapshot.h"
#include "render/text/alike_tasks.h"
#include "render/text/line.h"

/* "goroutine", "task": of a runtime, or of the only one of a process. */
const char *snap_text_task_noun(const char *runtime, const struct snap_node *node);
/* "main.worker": the name of all tasks, the first few names, or where they stand. */
void snap_text_task_names(struct snap_sheet *lines, const struct snap_stack *stack);
/*
 * "waiting: chan receive, up to 14 min"; monotonic_ns as of struct snap_snapshot. Runtimes store
 * roughly when a wait began, so times below a minute say nothing and are left out, as in Go.
 */
void snap_text_task_state(struct snap_sheet *lines, const struct snap_stack *stack,
			  int64_t monotonic_ns);
/* "tasks 7-126, 130, +4", escaped; `max` runs of numbers at most. */
void snap_text_task_ids(struct snap_sheet *lines, const struct snap_stack *stack, size_t max,
			char *out, size_t size);
/*
 * "kind=recv  path=/repos", behind `indent` blanks, as a line of its own; those that title and
 * state tell are left out. Nothing without labels.
 */
void snap_text_labels(struct snap_sheet *lines, const struct snap_label *labels, size_t count,
		      size_t indent);

/*
 * "  tenant=acme" of --group-by label:tenant, as a summary has no other line for it. One that has a
 * name of ours stands under another one, and not here.
 */
void snap_text_group_labels(struct snap_sheet *lines, const struct snap_options *options,
			    const struct snap_stack *stack);

/*
 * "GET: /issues [4] " in front of a stack that stands by itself. Nothing for those without an id,
 * and for tasks that others await, as their own names stand there.
 */
void snap_text_logical_name(struct snap_sheet *lines, const struct snap_logical *logical);
/* "GET /repos [7]  request   3 tasks", "4 × GET / [8-11]  request   4 tasks"; ends the line. */
void snap_text_logical_title(struct snap_sheet *lines, const struct snap_alike *alike);
/* What is not listed of a process's runtimes, in one line; false: all is, and nothing was begun. */
bool snap_text_has_rest(const struct snap_node *node);
void snap_text_rest(struct snap_sheet *lines, const struct snap_node *node);
