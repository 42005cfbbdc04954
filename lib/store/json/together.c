/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups of threads of all processes together, as --group-by without the process writes them, see
 * reader.h. Each process gets its part of them, so the result is an ordinary snapshot.
 */
#include "store/json/reader.h"

#include "base/bsearch.h"

#include <string.h>

/* A thread or task of a group: whose it is. */
struct part {
	struct snap_node *node;
	const struct snap_stack *stack;
	size_t stack_number, number;
};

SNAP_ORDER(compare_nodes, const struct snap_node *, a, b, snap_compare((*a)->pid, (*b)->pid));

SNAP_ORDER(compare_parts, struct part, a, b, snap_compare(a->node->pid, b->node->pid),
	   snap_compare(a->stack_number, b->stack_number), snap_compare(a->number, b->number));

SNAP_ORDER(compare_threads, struct snap_member, a, b, snap_compare(a->tid, b->tid));

/* All nodes, sorted by pid. */
static struct snap_node **list_nodes(struct snap_json_reader *reader)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_node **nodes =
		snap_json_pick_memory(&reader->pick, snapshot->process_count + 1, sizeof(*nodes));
	size_t count = 0;

	if (!nodes)
		return NULL;
	for (size_t i = 0; i < snapshot->root_count; i++)
		nodes[count++] = snapshot->processes[i];
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < nodes[i]->child_count; k++)
			nodes[count++] = nodes[i]->children[k];
	if (count)
		qsort(nodes, count, sizeof(*nodes), compare_nodes);
	return nodes;
}

static struct snap_node *find_node(struct snap_node *const *nodes, size_t count, pid_t pid)
{
	const struct snap_node wanted = { .pid = pid }, *key = &wanted;
	struct snap_node *const *found =
		count ? bsearch(&key, nodes, count, sizeof(*nodes), compare_nodes) : NULL;

	return found ? *found : NULL;
}

static size_t count_joined_members(const struct snap_stack *stack)
{
	return stack->runtime ? stack->task_count : stack->thread_count;
}

static struct part *list_parts(struct snap_json_reader *reader, const struct snap_stack *stacks,
			       size_t stack_count, size_t *count_ret)
{
	struct snap_json_pick *pick = &reader->pick;
	size_t node_count = reader->snapshot->process_count, count = 0;
	struct snap_node **nodes = list_nodes(reader);
	struct part *parts = NULL;

	for (size_t i = 0; i < stack_count; i++)
		count += count_joined_members(&stacks[i]);
	parts = snap_json_pick_memory(pick, count + 1, sizeof(*parts));
	*count_ret = 0;
	for (size_t i = 0; nodes && parts && i < stack_count; i++)
		for (size_t k = 0; k < count_joined_members(&stacks[i]); k++) {
			struct snap_node *node = find_node(nodes, node_count, stacks[i].pids[k]);

			if (!node) {
				snap_json_pick_refuse(pick, "pid", "that of a process");
				return NULL;
			}
			parts[(*count_ret)++] = (struct part){ node, &stacks[i], i, k };
		}
	if (parts && *count_ret)
		qsort(parts, *count_ret, sizeof(*parts), compare_parts);
	return parts;
}

/* The part of a group that is of one process. */
static void make_joined_stack(struct snap_json_pick *pick, const struct part *parts, size_t count,
			      struct snap_stack *stack)
{
	*stack = *parts[0].stack;
	stack->pids = NULL;
	stack->count = count;
	stack->thread_count = stack->task_count = 0;
	if (stack->runtime)
		stack->tasks = snap_json_pick_memory(pick, count, sizeof(*stack->tasks));
	else
		stack->threads = snap_json_pick_memory(pick, count, sizeof(*stack->threads));
	if (snap_json_pick_failed(pick))
		return;
	for (size_t i = 0; i < count; i++)
		if (stack->runtime)
			stack->tasks[stack->task_count++] = parts[i].stack->tasks[parts[i].number];
		else
			stack->threads[stack->thread_count++] =
				parts[i].stack->threads[parts[i].number];
	if (stack->thread_count)
		qsort(stack->threads, stack->thread_count, sizeof(*stack->threads),
		      compare_threads);
}

/* Groups of a process: neighbours of the list with one stack. */
static void fill_node(struct snap_json_reader *reader, const struct part *parts, size_t count)
{
	struct snap_node *node = parts[0].node;
	size_t groups = snap_sum(count, i, i == 0 || parts[i].stack != parts[i - 1].stack);

	if (node->stack_count) {
		snap_json_pick_refuse(&reader->pick, "stacks", "either here or in processes");
		return;
	}
	node->stacks = snap_json_pick_memory(&reader->pick, groups, sizeof(*node->stacks));
	for (size_t i = 0, end; i < count && !snap_json_pick_failed(&reader->pick); i = end) {
		for (end = i + 1; end < count && parts[end].stack == parts[i].stack;)
			end++;
		make_joined_stack(&reader->pick, parts + i, end - i,
				  &node->stacks[node->stack_count++]);
	}
	if (node->stack_count)
		qsort(node->stacks, node->stack_count, sizeof(*node->stacks), snap_stack_compare);
}

void snap_json_read_together(struct snap_json_reader *reader, const struct snap_json *root)
{
	struct snap_stack *stacks = NULL;
	size_t stack_count = 0, count = 0;
	struct part *parts;

	if (snap_json_pick_failed(&reader->pick) || !snap_json_pick_has(root, "stacks"))
		return;
	reader->together = true;
	snap_json_read_stacks(reader, root, &stacks, &stack_count);
	if (snap_json_pick_failed(&reader->pick))
		return;
	parts = list_parts(reader, stacks, stack_count, &count);
	for (size_t i = 0, end; i < count && !snap_json_pick_failed(&reader->pick); i = end) {
		for (end = i + 1; end < count && parts[end].node == parts[i].node;)
			end++;
		fill_node(reader, parts + i, end - i);
	}
}
