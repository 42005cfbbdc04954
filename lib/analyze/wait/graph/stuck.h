/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds nodes of a graph that can never go on, and those of them that hold each other up.
 *
 * A node goes on as soon as one of the nodes that it points to does, or an unknown thread acts. So
 * a node that depends only on known nodes is stuck if all of these are stuck. A node that points to
 * none is stuck. Stuck nodes fall into components. A component is a cycle if each of its nodes
 * reaches each, itself included. Every other stuck node leads to a cycle, or to a node that points
 * to none.
 *
 * A pure function of plain arrays: linear in time and memory, no recursion. Knows nothing of
 * threads.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Node i points to edges[first[i]] ... edges[first[i + 1] - 1], numbers below node_count. */
struct snap_stuck_graph {
	size_t node_count;
	const size_t *first; /* node_count + 1 of them */
	const size_t *edges;
	const bool *known;   /* of each node: nothing else can make it go on */
	const bool *certain; /* of each node: that is so beyond doubt */
};

#define SNAP_NOT_STUCK SIZE_MAX
#define SNAP_NO_CYCLE SIZE_MAX

struct snap_stuck_component {
	bool is_cycle;
	bool is_certain; /* its nodes, and all that they lead to */
	/* itself if it is a cycle, else one of the cycles that it leads to, or SNAP_NO_CYCLE */
	size_t cycle;
};

/* Malloc'ed; released by snap_stuck_deinit(). */
struct snap_stuck {
	size_t *component; /* of each node, or SNAP_NOT_STUCK */
	/* The stuck ones by component; whatever a component points to has a lower number. */
	size_t *nodes;
	size_t count;
	struct snap_stuck_component *components;
	size_t component_count;
};

/* NO_MEMORY; *ret is to be released in any case. */
struct stacksnap_error *snap_stuck_find(const struct snap_stuck_graph *graph,
					struct snap_stuck *ret) _must_check_;
void snap_stuck_deinit(struct snap_stuck *stuck);
