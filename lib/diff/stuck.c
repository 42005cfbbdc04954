/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that did not go on between two snapshots: blocked in the same stack in both, and not run
 * in between, except for the runs that our own stop causes: see parts.h.
 */
#include "diff/parts.h"

#include "base/buffer.h"

#include <string.h>

enum { RUNS_OF_A_STOP = 2 /* into it, and out of it */ };

/* A thread of the first snapshot. */
struct known {
	const struct snap_node *node;
	const struct snap_stack *stack;
	const struct snap_member *thread;
};

struct all_known {
	struct known *threads;
	size_t count, capacity;
	struct snap_hash_table table; /* of process and tid */
};

static void all_known_deinit(struct all_known *all)
{
	free(all->threads);
	snap_hash_table_deinit(&all->table);
}

static uint64_t hash_of_thread(const struct snap_node *node, pid_t tid)
{
	return snap_hash_add(snap_hash_add((uint64_t)node->pid, node->start_ticks), (uint64_t)tid);
}

static bool is_blocked(const struct snap_member *thread)
{
	return thread->state == SNAP_STATE_SLEEPING || thread->state == SNAP_STATE_DISK;
}

static bool add_stuck_stack(struct all_known *all, const struct snap_node *node,
			    const struct snap_stack *stack)
{
	for (size_t i = 0; i < stack->thread_count; i++) {
		const struct snap_member *thread = &stack->threads[i];

		if (!is_blocked(thread))
			continue;
		if (!snap_reserve_array(all->threads, all->capacity, all->count + 1) ||
		    !snap_hash_table_add(&all->table, hash_of_thread(node, thread->tid),
					 all->count))
			return false;
		all->threads[all->count++] = (struct known){ node, stack, thread };
	}
	return true;
}

static bool add_all(struct all_known *all, const struct snap_diff_nodes *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while ((stack = snap_node_next_stack(list->nodes[i], &cursor)))
			if (!add_stuck_stack(all, list->nodes[i], stack))
				return false;
	}
	return true;
}

static const struct known *find_known_thread(const struct all_known *all,
					     const struct snap_node *node, pid_t tid)
{
	return snap_hash_find_in(&all->table, hash_of_thread(node, tid), all->threads, known,
				 known->thread->tid == tid && known->node->pid == node->pid &&
					 known->node->start_ticks == node->start_ticks);
}

enum verdict { MOVED, STUCK, BLIND };

static enum verdict judge_thread(const struct known *known, const struct snap_stack *stack,
				 const struct snap_member *thread)
{
	uint64_t ours = known && snap_taken_stops(known->thread->taken) ? RUNS_OF_A_STOP : 0;

	if (!known || !is_blocked(thread) || strcmp(known->stack->id, stack->id) != 0)
		return MOVED;
	if (!known->thread->runs || !thread->runs)
		return BLIND;
	/* Fewer than before: the number was given to another thread. */
	return thread->runs >= known->thread->runs && thread->runs - known->thread->runs <= ours
		       ? STUCK
		       : MOVED;
}

bool snap_diff_find_stuck(const struct snap_diff_nodes *before, const struct snap_diff_nodes *after,
			  struct snap_diff_stuck **ret, size_t *count_ret, size_t *blind_ret)
{
	_cleanup_(all_known_deinit) struct all_known all = { 0 };
	size_t capacity = 0;

	*ret = NULL;
	*count_ret = *blind_ret = 0;
	if (!add_all(&all, before))
		return false;
	for (size_t i = 0; i < after->count; i++) {
		const struct snap_node *node = after->nodes[i];
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while ((stack = snap_node_next_stack(node, &cursor)))
			for (size_t k = 0; k < stack->thread_count; k++) {
				const struct snap_member *thread = &stack->threads[k];
				enum verdict verdict = judge_thread(
					find_known_thread(&all, node, thread->tid), stack, thread);

				*blind_ret += verdict == BLIND;
				if (verdict != STUCK)
					continue;
				if (!snap_reserve_array(*ret, capacity, *count_ret + 1))
					return false;
				(*ret)[(*count_ret)++] =
					(struct snap_diff_stuck){ node, stack, thread };
			}
	}
	return true;
}
