/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Deadlocks: see deadlock.h. The graph has a node for each thread, for each process of which any
 * thread may act, and for each set of such processes; stuck.c finds the nodes that are stuck.
 */
#include "analyze/wait/graph/deadlock.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <stdlib.h>

void snap_wait_graph_deinit(struct snap_wait_graph *graph)
{
	free(graph->first);
	free(graph->edges);
	free(graph->known);
	free(graph->certain);
	snap_stuck_deinit(&graph->stuck);
}

/* It does nothing any more: neither can it act, nor does it wait for another thread. */
static bool is_dead(const struct snap_waiter *waiter)
{
	char state = waiter->thread->thread->state;

	return state == 'Z' || state == 'X';
}

/* ---- the graph ---- */

static bool add_edge(struct snap_wait_graph *graph, size_t to)
{
	return snap_append(graph->edges, graph->edge_count, graph->edge_capacity, to);
}

static bool add_deadlock_thread(struct snap_wait_graph *graph,
				const struct snap_wait_analysis *waits, size_t number)
{
	const struct snap_waiter *waiter = &waits->waiters[number];

	/* A thread that has run since it was looked at may have gone on. */
	bool is_known = waiter->wait && waiter->any_known && snap_waiter_is_confirmed(waiter);

	graph->known[number] = is_dead(waiter) || is_known;
	graph->certain[number] = is_dead(waiter) || waiter->any_certain;
	if (!is_known || is_dead(waiter))
		return true;
	for (size_t i = 0; i < waiter->any_count; i++)
		if (!add_edge(graph, waiter->any_of[i]))
			return false;
	return waiter->any_set == (size_t)SNAP_NO_SET ||
	       add_edge(graph, graph->sets + waiter->any_set);
}

/* Any of its threads may act; one without threads that live may be anything. */
static bool add_deadlock_process(struct snap_wait_graph *graph,
				 const struct snap_wait_analysis *waits, size_t process)
{
	size_t node = graph->processes + process;

	graph->certain[node] = true;
	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++) {
		graph->known[node] = graph->known[node] || !is_dead(&waits->waiters[i]);
		if (!add_edge(graph, i))
			return false;
	}
	return true;
}

static bool add_set(struct snap_wait_graph *graph, const struct snap_wait_analysis *waits,
		    size_t number)
{
	const struct snap_wait_set *set = &waits->sets[number];

	graph->known[graph->sets + number] = set->count > 0;
	graph->certain[graph->sets + number] = true;
	return snap_all(set->count, i, add_edge(graph, graph->processes + set->processes[i]));
}

static bool make_graph(struct snap_wait_graph *graph, const struct snap_wait_analysis *waits)
{
	graph->processes = waits->waiter_count;
	graph->sets = graph->processes + waits->analysis->capture->process_count;
	graph->count = graph->sets + waits->set_count;
	graph->first = calloc(graph->count + 1, sizeof(*graph->first));
	graph->known = calloc(graph->count + 1, sizeof(*graph->known));
	graph->certain = calloc(graph->count + 1, sizeof(*graph->certain));
	if (!graph->first || !graph->known || !graph->certain ||
	    !snap_reserve_array(graph->edges, graph->edge_capacity, 1))
		return false;
	for (size_t i = 0; i < graph->count; i++) {
		bool added = i < graph->processes ? add_deadlock_thread(graph, waits, i)
			     : i < graph->sets
				     ? add_deadlock_process(graph, waits, i - graph->processes)
				     : add_set(graph, waits, i - graph->sets);

		if (!added)
			return false;
		graph->first[i + 1] = graph->edge_count;
	}
	return true;
}

struct stacksnap_error *snap_wait_graph_init(struct snap_wait_graph *graph,
					     const struct snap_wait_analysis *waits)
{
	struct snap_stuck_graph of;

	*graph = (struct snap_wait_graph){ 0 };
	SNAP_TRY(snap_no_memory_unless(make_graph(graph, waits)));
	of = (struct snap_stuck_graph){ graph->count, graph->first, graph->edges, graph->known,
					graph->certain };
	return snap_stuck_find(&of, &graph->stuck);
}

/* ---- when a timeout ends it ---- */

/* What is known of a component of the graph. */
struct component {
	size_t threads, behind;
	size_t begin, end; /* its nodes */
	pid_t lowest_tid;
	bool timed;       /* a timeout ends it, in it or in what it depends on */
	int64_t until_ns; /* the first of them; -1: not known when */
};

static void add_timeout(struct component *component, int64_t until_ns)
{
	if (!component->timed ||
	    (until_ns >= 0 && (component->until_ns < 0 || until_ns < component->until_ns)))
		component->until_ns = until_ns;
	component->timed = true;
}

/* What a component depends on has been surveyed. */
static void survey_node(const struct snap_wait_graph *graph, const struct snap_wait_analysis *waits,
			struct component *components, size_t node)
{
	const struct snap_stuck *stuck = &graph->stuck;
	size_t number = stuck->component[node];
	struct component *component = &components[number];

	for (size_t e = graph->first[node]; e < graph->first[node + 1]; e++) {
		const struct component *to = &components[stuck->component[graph->edges[e]]];

		if (to != component && to->timed)
			add_timeout(component, to->until_ns);
	}
	if (node < graph->processes && !is_dead(&waits->waiters[node])) {
		const struct snap_waiter *waiter = &waits->waiters[node];
		pid_t tid = waiter->thread->thread->tid;
		size_t cycle = stuck->components[number].cycle;

		if (component->threads++ == 0 || tid < component->lowest_tid)
			component->lowest_tid = tid;
		if (waiter->wait->timed)
			add_timeout(component, waiter->wait->remaining_ns);
		if (cycle != SNAP_NO_CYCLE && cycle != number)
			components[cycle].behind++;
	}
}

static struct component *survey(const struct snap_wait_graph *graph,
				const struct snap_wait_analysis *waits)
{
	const struct snap_stuck *stuck = &graph->stuck;
	struct component *components = calloc(stuck->component_count + 1, sizeof(*components));

	for (size_t i = 0; components && i < stuck->count; i++) {
		struct component *component = &components[stuck->component[stuck->nodes[i]]];

		if (i == 0 ||
		    stuck->component[stuck->nodes[i]] != stuck->component[stuck->nodes[i - 1]])
			component->begin = i;
		component->end = i + 1;
		survey_node(graph, waits, components, stuck->nodes[i]);
	}
	return components;
}

/* ---- the threads of a cycle, each of which waits for the next ---- */

struct cycle {
	const struct snap_wait_graph *graph;
	const struct snap_wait_analysis *waits;
	const struct component *component;
	size_t number;
	size_t listed[SNAP_DEADLOCK_SHOWN];
	size_t count;
};

static bool is_free(const struct cycle *cycle, size_t node)
{
	return node < cycle->graph->processes &&
	       cycle->graph->stuck.component[node] == cycle->number &&
	       snap_all(cycle->count, i, cycle->listed[i] != node);
}

/* A thread of the cycle that one of these nodes is or, as a set, has; SIZE_MAX: none is left. */
static size_t free_among(const struct cycle *cycle, const size_t *nodes, size_t count,
			 unsigned depth)
{
	const struct snap_wait_graph *graph = cycle->graph;
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < count && found == SIZE_MAX; i++) {
		if (is_free(cycle, nodes[i]))
			return nodes[i];
		/* From a set to its processes and their threads, and no further. */
		if (nodes[i] >= graph->processes && depth)
			found = free_among(cycle, &graph->edges[graph->first[nodes[i]]],
					   graph->first[nodes[i] + 1] - graph->first[nodes[i]],
					   depth - 1);
	}
	return found;
}

/* Of those that are left the one with the lowest tid. */
static size_t lowest_free(const struct cycle *cycle)
{
	const struct snap_waiter *waiters = cycle->waits->waiters;
	const size_t *nodes = cycle->graph->stuck.nodes;
	size_t lowest = SIZE_MAX;

	for (size_t i = cycle->component->begin; i < cycle->component->end; i++)
		if (is_free(cycle, nodes[i]) &&
		    (lowest == SIZE_MAX ||
		     waiters[nodes[i]].thread->thread->tid < waiters[lowest].thread->thread->tid))
			lowest = nodes[i];
	return lowest;
}

static void list_deadlock_threads(struct cycle *cycle)
{
	const struct snap_wait_graph *graph = cycle->graph;
	size_t node = lowest_free(cycle);

	while (node != SIZE_MAX && cycle->count < SNAP_DEADLOCK_SHOWN) {
		size_t first = graph->first[node], count = graph->first[node + 1] - first;

		cycle->listed[cycle->count++] = node;
		node = free_among(cycle, &graph->edges[first], count, 2);
		if (node == SIZE_MAX)
			node = lowest_free(cycle);
	}
}

static bool make_deadlock(const struct snap_wait_graph *graph, struct snap_wait_analysis *waits,
			  const struct component *components, size_t number,
			  struct snap_deadlock *ret)
{
	const struct component *component = &components[number];
	struct cycle cycle = { graph, waits, component, number, { 0 }, 0 };

	list_deadlock_threads(&cycle);
	*ret = (struct snap_deadlock){
		.certain = graph->stuck.components[number].is_certain,
		.timed = component->timed,
		.until_ns = component->timed ? component->until_ns : -1,
		.behind = component->behind,
		.size = component->threads,
		.thread_count = cycle.count,
		.threads = snap_arena_new_array(snap_wait_arena(waits), cycle.count + 1,
						struct snap_wait_link),
	};
	for (size_t i = 0; ret->threads && i < cycle.count; i++)
		ret->threads[i] = snap_wait_link_of(waits, &waits->waiters[cycle.listed[i]]);
	return ret->threads != NULL;
}

/* ---- all of them ---- */

static int compare_cycles(const void *left, const void *right, void *context)
{
	const struct component *components = context, *a = &components[*(const size_t *)left],
			       *b = &components[*(const size_t *)right];

	return snap_compare(b->threads, a->threads) ?: snap_compare(a->lowest_tid, b->lowest_tid);
}

/* A thread whose time limit has passed goes on as soon as it has a processor: there is no circle. */
static bool has_passed(const struct component *component)
{
	return component->timed && component->until_ns == 0;
}

static struct stacksnap_error *list_deadlocks(const struct snap_wait_graph *graph,
					      struct snap_wait_analysis *waits,
					      struct component *components)
{
	struct snap_waits *ret = &waits->analysis->snapshot->waits;
	_cleanup_free_ size_t *cycles = calloc(graph->stuck.component_count + 1, sizeof(*cycles));
	size_t count = 0;

	SNAP_TRY(snap_no_memory_unless(cycles));
	for (size_t i = 0; i < graph->stuck.component_count; i++)
		if (graph->stuck.components[i].is_cycle && !has_passed(&components[i]))
			cycles[count++] = i;
	qsort_r(cycles, count, sizeof(*cycles), compare_cycles, components);
	ret->deadlock_total = count;
	if (count > SNAP_WAIT_LIST)
		count = SNAP_WAIT_LIST;
	ret->deadlocks =
		snap_arena_new_array(snap_wait_arena(waits), count + 1, struct snap_deadlock);
	SNAP_TRY(snap_no_memory_unless(ret->deadlocks));
	return snap_no_memory_unless(
		snap_all(count, i,
			 make_deadlock(graph, waits, components, cycles[i],
				       &ret->deadlocks[ret->deadlock_count++])));
}

struct stacksnap_error *snap_wait_find_deadlocks(struct snap_wait_analysis *waits)
{
	_cleanup_(snap_wait_graph_deinit) struct snap_wait_graph graph;
	_cleanup_free_ struct component *components = NULL;

	SNAP_TRY(snap_wait_graph_init(&graph, waits));
	components = survey(&graph, waits);
	SNAP_TRY(snap_no_memory_unless(components));
	for (size_t i = 0; i < waits->waiter_count; i++) {
		size_t component = graph.stuck.component[i], cycle;

		if (component == SNAP_NOT_STUCK)
			continue;
		cycle = graph.stuck.components[component].cycle;
		waits->waiters[i].is_deadlocked =
			cycle != SNAP_NO_CYCLE && !has_passed(&components[cycle]);
	}
	return list_deadlocks(&graph, waits, components);
}
