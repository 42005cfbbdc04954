/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who can never go on: against brute force on small random graphs, and on large ones of a shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/wait/graph/stuck.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SMALL = 8, GRAPHS = 5000 };

struct small {
	size_t count;
	bool edge[MOST_SMALL][MOST_SMALL];
	bool known[MOST_SMALL], certain[MOST_SMALL];
	/* what must come out */
	bool stuck[MOST_SMALL], reaches[MOST_SMALL][MOST_SMALL];
};

/* A fixed sequence, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static void make_small(struct small *small, uint64_t seed)
{
	uint64_t state = seed * 2654435761u + 1, edges, knowns;

	*small = (struct small){ .count = 1 + next_random(&state) % MOST_SMALL };
	edges = 1 + next_random(&state) % 9;
	knowns = next_random(&state) % 4;
	for (size_t i = 0; i < small->count; i++) {
		small->known[i] = next_random(&state) % 4 >= knowns;
		small->certain[i] = next_random(&state) % 3 > 0;
		for (size_t k = 0; k < small->count; k++)
			small->edge[i][k] = next_random(&state) % 10 < edges;
		/* Most locks have one owner. */
		if (next_random(&state) % 2) {
			memset(small->edge[i], 0, sizeof(small->edge[i]));
			small->edge[i][next_random(&state) % small->count] = true;
		}
	}
}

/* The union of all sets whose members depend on members alone is the largest such set. */
static void solve(struct small *small)
{
	for (unsigned set = 0; set < 1u << small->count; set++) {
		bool holds = true;

		for (size_t i = 0; i < small->count; i++)
			for (size_t k = 0; k < small->count && set >> i & 1; k++)
				holds = holds && small->known[i] &&
					(!small->edge[i][k] || set >> k & 1);
		for (size_t i = 0; i < small->count && holds; i++)
			small->stuck[i] = small->stuck[i] || set >> i & 1;
	}
	for (size_t i = 0; i < small->count; i++)
		for (size_t k = 0; k < small->count; k++)
			small->reaches[i][k] = small->edge[i][k] && small->stuck[i];
	for (size_t by = 0; by < small->count; by++)
		for (size_t i = 0; i < small->count; i++)
			for (size_t k = 0; k < small->count; k++)
				if (small->reaches[i][by] && small->reaches[by][k])
					small->reaches[i][k] = true;
}

static void check_component(const struct small *small, const struct snap_stuck *found, size_t node)
{
	const struct snap_stuck_component *component = &found->components[found->component[node]];
	bool certain = small->certain[node], leads = false;

	for (size_t k = 0; k < small->count; k++) {
		bool reaches = small->reaches[node][k];

		if (found->component[k] == SNAP_NOT_STUCK)
			continue;
		assert_int_equal(found->component[k] == found->component[node],
				 k == node || (reaches && small->reaches[k][node]));
		if (reaches)
			assert_true(found->component[k] <= found->component[node]);
		certain = certain && (!reaches || small->certain[k]);
		leads = leads || (reaches && small->reaches[k][k]);
	}
	assert_int_equal(component->is_cycle, small->reaches[node][node]);
	assert_int_equal(component->is_certain, certain);
	assert_int_equal(component->cycle != SNAP_NO_CYCLE, leads);
	if (component->is_cycle)
		assert_int_equal(component->cycle, found->component[node]);
	if (leads) {
		assert_true(found->components[component->cycle].is_cycle);
		leads = false;
		for (size_t k = 0; k < small->count; k++)
			leads = leads || (found->component[k] == component->cycle &&
					  small->reaches[node][k]);
		assert_true(leads);
	}
}

static void test_brute_force(void **state _unused_)
{
	size_t stuck = 0, cycles = 0, behind = 0;

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		size_t first[MOST_SMALL + 1], edges[MOST_SMALL * MOST_SMALL], count = 0, nodes = 0;
		struct small small;
		struct snap_stuck found;
		struct snap_stuck_graph graph;

		make_small(&small, seed);
		solve(&small);
		for (size_t i = 0; i < small.count; i++) {
			first[i] = count;
			for (size_t k = 0; k < small.count; k++)
				if (small.edge[i][k])
					edges[count++] = k;
		}
		first[small.count] = count;
		graph = (struct snap_stuck_graph){ small.count, first, edges, small.known,
						   small.certain };
		assert_null(snap_stuck_find(&graph, &found));
		for (size_t i = 0; i < small.count; i++) {
			assert_int_equal(found.component[i] != SNAP_NOT_STUCK, small.stuck[i]);
			if (!small.stuck[i])
				continue;
			nodes++;
			check_component(&small, &found, i);
			cycles += found.components[found.component[i]].is_cycle;
			behind += !found.components[found.component[i]].is_cycle;
		}
		assert_int_equal(found.count, nodes);
		for (size_t i = 1; i < found.count; i++)
			assert_true(found.component[found.nodes[i - 1]] <=
				    found.component[found.nodes[i]]);
		stuck += nodes;
		snap_stuck_deinit(&found);
	}
	/* All of it happens. */
	assert_true(stuck > GRAPHS && cycles > GRAPHS / 2 && behind > GRAPHS / 10);
}

/* Each waits for the next; the last one for `last`, or for nobody that is known. */
static void check_chain(size_t count, size_t last, bool is_known, size_t stuck, size_t in_cycle)
{
	_cleanup_free_ size_t *first = malloc((count + 1) * sizeof(*first));
	_cleanup_free_ size_t *edges = malloc(count * sizeof(*edges));
	_cleanup_free_ bool *known = malloc(count * sizeof(*known));
	struct snap_stuck_graph graph = { count, first, edges, known, known };
	struct snap_stuck found;
	size_t cycle = 0;

	for (size_t i = 0; i < count; i++) {
		first[i] = i;
		edges[i] = i + 1 < count ? i + 1 : last;
		known[i] = i + 1 < count || is_known;
	}
	first[count] = count;
	assert_null(snap_stuck_find(&graph, &found));
	assert_int_equal(found.count, stuck);
	for (size_t i = 0; i < found.count; i++)
		cycle += found.components[found.component[found.nodes[i]]].is_cycle;
	assert_int_equal(cycle, in_cycle);
	snap_stuck_deinit(&found);
}

static void test_long(void **state _unused_)
{
	check_chain(2000, 0, true, 2000, 2000);
	check_chain(1000000, 0, true, 1000000, 1000000);
	check_chain(1000000, 999999, true, 1000000, 1);
	check_chain(1000000, 500000, true, 1000000, 500000);
	check_chain(1000000, 0, false, 0, 0);
	check_chain(1, 0, true, 1, 1);
}

/* Ten thousand wait for one, who waits for itself, runs, or is gone. */
static void test_star(void **state _unused_)
{
	enum { WAITERS = 10000 };
	static size_t first[WAITERS + 2], edges[WAITERS + 1];
	static bool known[WAITERS + 1];
	struct snap_stuck_graph graph = { WAITERS + 1, first, edges, known, known };
	struct snap_stuck found;

	for (size_t i = 0; i < WAITERS; i++) {
		first[i] = i;
		edges[i] = WAITERS;
		known[i] = true;
	}
	first[WAITERS] = first[WAITERS + 1] = WAITERS;
	assert_null(snap_stuck_find(&graph, &found));
	assert_int_equal(found.count, 0);
	snap_stuck_deinit(&found);
	known[WAITERS] = true;
	assert_null(snap_stuck_find(&graph, &found));
	assert_int_equal(found.count, WAITERS + 1);
	assert_int_equal(found.component_count, WAITERS + 1);
	for (size_t i = 0; i < found.component_count; i++)
		assert_int_equal(found.components[i].cycle, SNAP_NO_CYCLE);
	snap_stuck_deinit(&found);
	first[WAITERS + 1]++;
	edges[WAITERS] = WAITERS;
	assert_null(snap_stuck_find(&graph, &found));
	for (size_t i = 0; i < found.component_count; i++)
		assert_int_equal(found.components[i].cycle, found.component[WAITERS]);
	snap_stuck_deinit(&found);
}

static void test_empty(void **state _unused_)
{
	const size_t first[1] = { 0 };
	struct snap_stuck_graph graph = { 0, first, NULL, NULL, NULL };
	struct snap_stuck found;

	assert_null(snap_stuck_find(&graph, &found));
	assert_int_equal(found.count + found.component_count, 0);
	snap_stuck_deinit(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_brute_force),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_star),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
