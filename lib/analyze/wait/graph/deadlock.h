/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deadlocks and the facts about their threads, for this folder only. Knows no objects. */
#pragma once

#include "analyze/wait/graph/stuck.h"
#include "analyze/wait/waiter.h"

/*
 * The graph of waits: nodes are the waiters, in their order; from `processes` on the processes of
 * the analysis; from `sets` on the sets of these. See stuck.h for the arrays.
 */
struct snap_wait_graph {
	size_t processes, sets, count;
	size_t *first, *edges;
	size_t edge_count, edge_capacity;
	bool *known, *certain;
	struct snap_stuck stuck;
};

/* NO_MEMORY; released by snap_wait_graph_deinit() in any case. */
struct stacksnap_error *snap_wait_graph_init(struct snap_wait_graph *graph,
					     const struct snap_wait_analysis *waits) _must_check_;
void snap_wait_graph_deinit(struct snap_wait_graph *graph);

/* ---- place.c ---- */

/* What a report says of a thread of a deadlock; where it stands is where its own code does. */
struct snap_wait_link snap_wait_link_of(struct snap_wait_analysis *waits,
					const struct snap_waiter *waiter);
