/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process in the text report, and the head of the report: everything but stacks and the order in
 * which things come.
 */
#pragma once

#include "model/snapshot.h"
#include "render/text/line.h"

/* The first line: where, when, how many, how long stopped. `list`: the tree alone. */
void snap_text_head(struct snap_sheet *lines, const struct snap_options *options,
		    const struct snap_snapshot *snapshot, bool list);

/* "name[pid]", without ending the line that has been begun. */
void snap_text_node_name(struct snap_sheet *lines, const struct snap_node *node);
/* The same and what it is; ends the line. */
void snap_text_node_title(struct snap_sheet *lines, const struct snap_node *node);
/* User, since when, how many threads, what went wrong; of a child only what differs from its parent. */
void snap_text_node_facts(struct snap_sheet *lines, const struct snap_options *options,
			  const struct snap_snapshot *snapshot, const struct snap_node *node,
			  const struct snap_node *parent);
/* A kernel thread that waits for work: its number counts, and nothing else of it is shown. */
bool snap_text_is_counted_alone(const struct snap_node *node);
/* Whether lines of the tree stand below it. */
bool snap_text_has_items(const struct snap_node *node);
/* The line with its error, if there is one. */
void snap_text_node_trouble(struct snap_sheet *lines, const struct snap_node *node);

/* Whether threads were filtered: then nothing shown can mean that nothing matched. */
bool snap_text_is_filtered(const struct snap_options *options);
