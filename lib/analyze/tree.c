/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tree of shown processes: see tree.h. */
#include "analyze/tree.h"

#include "analyze/filter.h"
#include "base/bsearch.h"

#include <string.h>

/* A node and where it is in the tree. */
struct branch {
	struct snap_node *node;
	size_t parent;    /* the nearest shown ancestor, SIZE_MAX: a root */
	size_t top;       /* the root of its tree, shown or not: keeps the trees apart */
	bool kept, leads; /* leads: something below it is kept */
};

SNAP_ORDER(compare_branches, const struct branch *, a, b, snap_compare((*a)->parent, (*b)->parent),
	   snap_compare((*a)->top, (*b)->top), snap_compare((*a)->node->pid, (*b)->node->pid));

/* A node without threads left stays if something below it does, so that the tree holds together. */
static void choose_branches(const struct snap_options *options, struct branch *branches,
			    const size_t *parents, size_t count)
{
	for (size_t i = count; i-- > 0;) {
		struct branch *branch = &branches[i];

		branch->kept = !snap_filter_hides_type(options, branch->node) &&
			       (branch->leads || !snap_filter_is_empty(options, branch->node));
		if ((branch->kept || branch->leads) && !options->flat && parents[i] < i)
			branches[parents[i]].leads = true;
	}
	for (size_t i = 0; i < count; i++) {
		size_t parent = parents[i];

		/* A parent comes before its children; anything else in a file is a root. */
		branches[i].top = parent < i ? branches[parent].top : i;
		branches[i].parent = parent >= i             ? SIZE_MAX
				     : branches[parent].kept ? parent
							     : branches[parent].parent;
	}
}

/* Hands each run of siblings in the sorted list to its parent. */
static struct stacksnap_error *link_children(struct snap_snapshot *snapshot,
					     struct branch *branches, struct branch **shown,
					     size_t count)
{
	struct snap_node **list =
		snap_arena_new_array(&snapshot->arena, count + 1, struct snap_node *);

	SNAP_TRY(snap_no_memory_unless(list));
	for (size_t i = 0; i < count; i++) {
		size_t parent = shown[i]->parent;
		struct snap_node *node = parent == SIZE_MAX ? NULL : branches[parent].node;

		list[i] = shown[i]->node;
		if (!node && snapshot->root_count++ == 0)
			snapshot->processes = &list[i];
		if (node && node->child_count++ == 0)
			node->children = &list[i];
	}
	return NULL;
}

/* --flat: the same order, parents before children, without nesting. */
static struct stacksnap_error *flatten_tree(struct snap_snapshot *snapshot, size_t count)
{
	struct snap_node **list =
		snap_arena_new_array(&snapshot->arena, count + 1, struct snap_node *);
	_cleanup_free_ struct snap_node **pending =
		malloc((count + 1) * sizeof(struct snap_node *));
	size_t depth = 0, n = 0;

	SNAP_TRY(snap_no_memory_unless(list && pending));
	for (size_t i = snapshot->root_count; i-- > 0;)
		pending[depth++] = snapshot->processes[i];
	while (depth) {
		struct snap_node *node = pending[--depth];

		list[n++] = node;
		for (size_t i = node->child_count; i-- > 0;)
			pending[depth++] = node->children[i];
		node->children = NULL;
		node->child_count = 0;
	}
	snapshot->processes = list;
	snapshot->root_count = n;
	return NULL;
}

/* Those that are kept, as a sorted list; they are counted. */
static size_t list_kept(struct snap_snapshot *snapshot, struct branch *branches, size_t count,
			struct branch **shown)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct snap_node *node = branches[i].node;
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		if (!branches[i].kept)
			continue;
		shown[kept++] = &branches[i];
		snapshot->process_count++;
		while ((stack = snap_node_next_stack(node, &cursor))) {
			snapshot->stack_count++;
			snapshot->thread_count += stack->thread_count;
			snapshot->task_count += stack->task_count;
		}
	}
	qsort(shown, kept, sizeof(struct branch *), compare_branches);
	return kept;
}

struct stacksnap_error *snap_tree_build(struct snap_snapshot *snapshot,
					const struct snap_options *options,
					struct snap_node **nodes, const size_t *parents,
					size_t count)
{
	_cleanup_free_ struct branch *branches = calloc(count + 1, sizeof(*branches));
	_cleanup_free_ struct branch **shown = calloc(count + 1, sizeof(struct branch *));
	size_t kept;

	SNAP_TRY(snap_no_memory_unless(branches && shown));
	for (size_t i = 0; i < count; i++)
		branches[i].node = nodes[i];
	choose_branches(options, branches, parents, count);
	kept = list_kept(snapshot, branches, count, shown);
	SNAP_TRY(link_children(snapshot, branches, shown, kept));
	snapshot->flat = options->flat;
	return snapshot->flat ? flatten_tree(snapshot, kept) : NULL;
}
