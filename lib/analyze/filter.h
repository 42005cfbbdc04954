/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filter: which threads and processes are shown.
 *
 * Threads go by --state, --thread, --match, --no-idle and --no-system before they are grouped;
 * processes by --no-system (their children move up) and, when a filter of threads is set, by having
 * threads left. Knows nothing of how anything is printed.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/snapshot.h"

/* What the frames of a stack say for the filters; the same for all its threads. */
struct snap_filter_stack {
	bool matches; /* --match */
	bool idle;    /* its innermost function waits for work, or all is system code */
};
struct snap_filter_stack snap_filter_check_stack(const struct snap_options *options,
						 const struct snap_frame **frames, size_t count);

bool snap_filter_shows_thread(const struct snap_options *options, const struct snap_member *member,
			      const struct snap_filter_stack *stack);

/* --no-system: the process is hidden whatever its threads and children are. */
bool snap_filter_hides_type(const struct snap_options *options, const struct snap_node *node);
/* A filter of threads left nothing to show of the process itself. */
bool snap_filter_is_empty(const struct snap_options *options, const struct snap_node *node);

/*
 * The options' filters and --flat, applied to a snapshot that was read without them; what is
 * missing stays as it was. A flat one stays flat. NO_MEMORY.
 */
struct stacksnap_error *snap_filter_snapshot(struct snap_snapshot *snapshot,
					     const struct snap_options *options) _must_check_;
