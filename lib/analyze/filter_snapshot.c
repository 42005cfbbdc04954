/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filters of a whole snapshot, made elsewhere and without them: see tree.h. Threads go from their
 * groups, groups that are empty go, labels are made anew for those that lost a thread.
 */
#include "analyze/tree.h"

#include "analyze/filter.h"
#include "analyze/internal.h"
#include "analyze/label.h"

#include <string.h>

struct filtering {
	const struct snap_options *options;
	struct snap_interner strings;
	struct snap_node **nodes; /* parents before their children */
	size_t *parents;
	size_t count, node_capacity, parent_capacity;
};

static void filtering_deinit(struct filtering *filtering)
{
	snap_interner_deinit(&filtering->strings);
	free(filtering->nodes);
	free(filtering->parents);
}

static bool list_siblings(struct filtering *filtering, struct snap_node **nodes, size_t count,
			  size_t parent)
{
	for (size_t i = 0; i < count; i++) {
		if (!snap_grow_array(filtering->nodes, filtering->node_capacity,
				     filtering->count) ||
		    !snap_grow_array(filtering->parents, filtering->parent_capacity,
				     filtering->count))
			return false;
		filtering->nodes[filtering->count] = nodes[i];
		filtering->parents[filtering->count++] = parent;
	}
	return true;
}

/* All processes, and takes the tree apart. */
static bool list_nodes(struct filtering *filtering, const struct snap_snapshot *snapshot)
{
	if (!list_siblings(filtering, snapshot->processes, snapshot->root_count, SIZE_MAX))
		return false;
	for (size_t i = 0; i < filtering->count; i++) {
		struct snap_node *node = filtering->nodes[i];

		if (!list_siblings(filtering, node->children, node->child_count, i))
			return false;
		node->children = NULL;
		node->child_count = 0;
	}
	return true;
}

/* False without memory. */
static bool filter_stack(struct filtering *filtering, struct snap_stack *stack)
{
	const struct snap_raw_stack raw = { .frames = stack->frames,
					    .frame_count = stack->frame_count };
	struct snap_filter_stack look = snap_filter_look(filtering->options, &raw);
	size_t kept = 0;

	for (size_t i = 0; i < stack->thread_count; i++)
		if (snap_filter_shows_thread(filtering->options, &stack->threads[i], &look))
			stack->threads[kept++] = stack->threads[i];
	if (kept == stack->thread_count)
		return true;
	stack->count = stack->thread_count = kept;
	return kept == 0 || snap_label_stack(&filtering->strings, stack);
}

static int compare_stacks(const void *left, const void *right)
{
	const struct snap_stack *a = left, *b = right;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->id, b->id);
}

static bool filter_node(struct filtering *filtering, struct snap_node *node)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->stack_count; i++) {
		if (!filter_stack(filtering, &node->stacks[i]))
			return false;
		if (node->stacks[i].count)
			node->stacks[kept++] = node->stacks[i];
	}
	node->stack_count = kept;
	if (kept)
		qsort(node->stacks, kept, sizeof(*node->stacks), compare_stacks);
	return true;
}

struct snap_error *snap_filter_snapshot(struct snap_snapshot *snapshot,
					const struct snap_options *options)
{
	_cleanup_(filtering_deinit) struct filtering filtering = { .options = options };
	bool flat = snapshot->flat;
	struct snap_error *err;

	snap_interner_init(&filtering.strings, &snapshot->arena);
	if (!list_nodes(&filtering, snapshot))
		return snap_error_no_memory();
	for (size_t i = 0; i < filtering.count; i++)
		if (!filter_node(&filtering, filtering.nodes[i]))
			return snap_error_no_memory();
	snapshot->processes = NULL;
	snapshot->root_count = 0;
	snapshot->process_count = snapshot->thread_count = snapshot->stack_count = 0;
	err = snap_tree_build(snapshot, options, filtering.nodes, filtering.parents,
			      filtering.count);
	if (err)
		return err;
	snapshot->flat = flat || options->flat;
	return NULL;
}
