/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See stuck.h. First the nodes that can go on are removed, each once, along the edges backwards.
 * Then Tarjan's algorithm finds the components of the rest, with a stack of its own in place of
 * recursion: a target decides how long a chain of threads is.
 */
#include "analyze/wait/graph/stuck.h"

#include "base/cleanup.h"

#include <stdlib.h>

void snap_stuck_deinit(struct snap_stuck *stuck)
{
	free(stuck->component);
	free(stuck->nodes);
	free(stuck->components);
	*stuck = (struct snap_stuck){ 0 };
}

/* ---- nodes that can go on ---- */

/* The nodes that point to each node, as first[] and edges[] have those it points to. */
struct backward {
	size_t *first, *from;
};

SNAP_FREES(backward_deinit, struct backward, first, from);

static bool turn_edges(const struct snap_stuck_graph *graph, struct backward *backward)
{
	size_t count = graph->node_count, edge_count = graph->first[count];
	size_t *first = calloc(count + 2, sizeof(*first));

	backward->first = first;
	backward->from = malloc((edge_count + 1) * sizeof(*backward->from));
	if (!first || !backward->from)
		return false;
	/* first[i + 2] counts those of i, then first[i + 1] is where the next one of i goes. */
	for (size_t e = 0; e < edge_count; e++)
		first[graph->edges[e] + 2]++;
	for (size_t i = 2; i < count + 2; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < count; i++)
		for (size_t e = graph->first[i]; e < graph->first[i + 1]; e++)
			backward->from[first[graph->edges[e] + 1]++] = i;
	return true;
}

/* What is left has component 0. */
static bool take_out(const struct snap_stuck_graph *graph, size_t *component)
{
	_cleanup_(backward_deinit) struct backward backward = { NULL, NULL };
	_cleanup_free_ size_t *todo = malloc((graph->node_count + 1) * sizeof(*todo));
	size_t todo_count = 0;

	if (!todo || !turn_edges(graph, &backward))
		return false;
	for (size_t i = 0; i < graph->node_count; i++) {
		component[i] = graph->known[i] ? 0 : SNAP_NOT_STUCK;
		if (!graph->known[i])
			todo[todo_count++] = i;
	}
	while (todo_count) {
		size_t node = todo[--todo_count];

		for (size_t e = backward.first[node]; e < backward.first[node + 1]; e++) {
			size_t from = backward.from[e];

			if (component[from] == SNAP_NOT_STUCK)
				continue;
			component[from] = SNAP_NOT_STUCK;
			todo[todo_count++] = from;
		}
	}
	return true;
}

/* ---- components ---- */

enum { UNSEEN = 0 };

/* Tarjan: nodes are numbered as they are seen; `low` is the lowest number that each reaches. */
struct walk {
	const struct snap_stuck_graph *graph;
	struct snap_stuck *stuck;
	size_t *number, *low, *next_edge;
	size_t *path, path_count; /* from the root to the current node */
	size_t *open, open_count; /* seen, their component is not known yet */
	size_t seen;
};

SNAP_FREES(stuck_walk_deinit, struct walk, number, low, next_edge, path, open);

static bool walk_init(struct walk *walk)
{
	size_t count = walk->graph->node_count + 1;

	walk->number = calloc(count, sizeof(*walk->number));
	walk->low = calloc(count, sizeof(*walk->low));
	walk->next_edge = calloc(count, sizeof(*walk->next_edge));
	walk->path = calloc(count, sizeof(*walk->path));
	walk->open = calloc(count, sizeof(*walk->open));
	return walk->number && walk->low && walk->next_edge && walk->path && walk->open;
}

static void enter_graph_node(struct walk *walk, size_t node)
{
	walk->number[node] = walk->low[node] = ++walk->seen;
	walk->next_edge[node] = walk->graph->first[node];
	walk->path[walk->path_count++] = node;
	walk->open[walk->open_count++] = node;
	walk->stuck->component[node] = SNAP_NOT_STUCK; /* until it is closed */
}

static bool points_to(const struct snap_stuck_graph *graph, size_t from, size_t to)
{
	for (size_t e = graph->first[from]; e < graph->first[from + 1]; e++)
		if (graph->edges[e] == to)
			return true;
	return false;
}

/* The open nodes from `node` on are a component; all that they point to have theirs. */
static void close_component(struct walk *walk, size_t node)
{
	const struct snap_stuck_graph *graph = walk->graph;
	struct snap_stuck *stuck = walk->stuck;
	size_t number = stuck->component_count++, begin = stuck->count, other;
	struct snap_stuck_component made = { .is_certain = true, .cycle = SNAP_NO_CYCLE };

	do {
		other = walk->open[--walk->open_count];
		stuck->component[other] = number;
		stuck->nodes[stuck->count++] = other;
	} while (other != node);
	made.is_cycle = stuck->count - begin > 1 || points_to(graph, node, node);
	for (size_t i = begin; i < stuck->count; i++) {
		other = stuck->nodes[i];
		made.is_certain = made.is_certain && graph->certain[other];
		for (size_t e = graph->first[other]; e < graph->first[other + 1]; e++) {
			const struct snap_stuck_component *to =
				&stuck->components[stuck->component[graph->edges[e]]];

			if (stuck->component[graph->edges[e]] == number)
				continue;
			made.is_certain = made.is_certain && to->is_certain;
			if (to->cycle < made.cycle)
				made.cycle = to->cycle;
		}
	}
	if (made.is_cycle)
		made.cycle = number;
	stuck->components[number] = made;
}

/* The node at the end of the path looks at its next edge, or goes back. */
static void step(struct walk *walk)
{
	size_t node = walk->path[walk->path_count - 1], to, before;

	if (walk->next_edge[node] < walk->graph->first[node + 1]) {
		to = walk->graph->edges[walk->next_edge[node]++];
		if (walk->number[to] == UNSEEN)
			enter_graph_node(walk, to);
		else if (walk->stuck->component[to] == SNAP_NOT_STUCK &&
			 walk->number[to] < walk->low[node])
			walk->low[node] = walk->number[to];
		return;
	}
	walk->path_count--;
	if (walk->low[node] == walk->number[node])
		close_component(walk, node);
	if (walk->path_count == 0)
		return;
	before = walk->path[walk->path_count - 1];
	if (walk->low[node] < walk->low[before])
		walk->low[before] = walk->low[node];
}

static bool find_components(const struct snap_stuck_graph *graph, struct snap_stuck *stuck)
{
	_cleanup_(stuck_walk_deinit) struct walk walk = { .graph = graph, .stuck = stuck };

	if (!walk_init(&walk))
		return false;
	for (size_t i = 0; i < graph->node_count; i++) {
		if (stuck->component[i] == SNAP_NOT_STUCK || walk.number[i] != UNSEEN)
			continue;
		enter_graph_node(&walk, i);
		while (walk.path_count)
			step(&walk);
	}
	return true;
}

struct stacksnap_error *snap_stuck_find(const struct snap_stuck_graph *graph,
					struct snap_stuck *ret)
{
	size_t room = graph->node_count + 1;

	*ret = (struct snap_stuck){
		.component = calloc(room, sizeof(*ret->component)),
		.nodes = calloc(room, sizeof(*ret->nodes)),
		.components = calloc(room, sizeof(*ret->components)),
	};
	SNAP_TRY(snap_no_memory_unless(ret->component && ret->nodes && ret->components));
	return snap_no_memory_unless(take_out(graph, ret->component) &&
				     find_components(graph, ret));
}
