/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See ending_stacks.h. */
#include "render/text/stack/ending_stacks.h"

#include "base/bsearch.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

SNAP_ORDER(compare_threads, struct snap_member, a, b, snap_compare(a->tid, b->tid));

SNAP_ORDER(compare_tasks, struct snap_task, a, b, snap_task_compare_ids(a->id, b->id));

/* Room for the members of all. */
static bool make_end_room(struct snap_stack *stack, const struct snap_call_end *from, size_t count,
			  bool of_tasks)
{
	size_t members = 0;
	bool has_pids = false;

	for (size_t i = 0; i < count; i++) {
		members += of_tasks ? from[i].stack->task_count : from[i].stack->thread_count;
		has_pids = has_pids || from[i].stack->pids;
	}
	if (of_tasks)
		stack->tasks = malloc((members + 1) * sizeof(*stack->tasks));
	else
		stack->threads = malloc((members + 1) * sizeof(*stack->threads));
	if (has_pids)
		stack->pids = calloc(members + 1, sizeof(*stack->pids));
	return (stack->tasks || stack->threads) && (stack->pids || !has_pids);
}

static void add_members(struct snap_stack *stack, const struct snap_stack *from)
{
	size_t before = stack->runtime ? stack->task_count : stack->thread_count;
	size_t count = from->runtime ? from->task_count : from->thread_count;

	if (!count)
		return;
	if (from->runtime)
		memcpy(stack->tasks + before, from->tasks, count * sizeof(*from->tasks));
	else
		memcpy(stack->threads + before, from->threads, count * sizeof(*from->threads));
	if (stack->pids && from->pids)
		memcpy(stack->pids + before, from->pids, count * sizeof(*from->pids));
	if (from->runtime)
		stack->task_count += count;
	else
		stack->thread_count += count;
}

/* The first one, or the next one. */
static void add_end_stack(struct snap_ending_stacks *ends, const struct snap_stack *from)
{
	struct snap_stack *stack = &ends->stack;

	if (!stack->count) {
		stack->runtime = from->runtime;
		stack->description = from->description;
		stack->wait = from->wait;
	}
	if (!from->wait || !stack->wait || !snap_wait_same(from->wait, stack->wait))
		stack->wait = NULL;
	stack->count += from->count;
	stack->samples += from->samples;
	for (unsigned i = 0; from->state_samples && i < SNAP_STATE_COUNT; i++)
		ends->states[i] += from->state_samples[i];
	if (from->state_samples)
		stack->state_samples = ends->states;
	add_members(stack, from);
}

/* What all have in common of the labels that name a state. */
static void add_end_labels(struct snap_ending_stacks *ends, const struct snap_call_end *from,
			   size_t count)
{
	static const char *const keys[SNAP_ARRAY_SIZE(ends->labels)] = { "state", "wait", "syscall",
									 "wchan" };
	struct snap_stack *stack = &ends->stack;

	stack->labels = ends->labels;
	for (size_t k = 0; k < SNAP_ARRAY_SIZE(keys); k++) {
		const char *common = NULL;
		bool begun = false;

		for (size_t i = 0; i < count; i++) {
			const char *value = snap_stack_label(from[i].stack, keys[k]);

			if (!from[i].stack->runtime != !stack->runtime)
				continue;
			common = !begun || snap_same_text(value, common) ? value : NULL;
			begun = true;
		}
		if (common)
			stack->labels[stack->label_count++] =
				(struct snap_label){ .key = keys[k], .value = common };
	}
}

/* Of a recording a thread may be in several stacks, in the order of which it comes more than once. */
static void drop_doubles(struct snap_stack *stack)
{
	size_t kept = 0;

	for (size_t i = 0; i < stack->thread_count; i++)
		if (kept == 0 || stack->threads[kept - 1].tid != stack->threads[i].tid)
			stack->threads[kept++] = stack->threads[i];
	stack->thread_count = kept;
	kept = 0;
	for (size_t i = 0; i < stack->task_count; i++)
		if (kept == 0 || strcmp(stack->tasks[kept - 1].id, stack->tasks[i].id) != 0)
			stack->tasks[kept++] = stack->tasks[i];
	stack->task_count = kept;
}

bool snap_ending_stacks_init(struct snap_ending_stacks *ends, const struct snap_call_end *from,
			     size_t count, bool of_tasks)
{
	struct snap_stack *stack = &ends->stack;

	*ends = (struct snap_ending_stacks){ .stack = { .unwind = SNAP_UNWIND_COMPLETE } };
	if (!make_end_room(stack, from, count, of_tasks))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!from[i].stack->runtime == !of_tasks)
			add_end_stack(ends, from[i].stack);
	if (stack->thread_count)
		qsort(stack->threads, stack->thread_count, sizeof(*stack->threads),
		      compare_threads);
	if (stack->task_count)
		qsort(stack->tasks, stack->task_count, sizeof(*stack->tasks), compare_tasks);
	if (!stack->pids)
		drop_doubles(stack);
	add_end_labels(ends, from, count);
	return true;
}

void snap_ending_stacks_deinit(struct snap_ending_stacks *ends)
{
	free(ends->stack.threads);
	free(ends->stack.tasks);
	free(ends->stack.pids);
}
