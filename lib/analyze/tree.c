/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tree of shown processes: see tree.h. */
#include "analyze/tree.h"

#include "analyze/filter.h"

#include <string.h>

/* Where a shown node hangs. */
struct place {
	struct snap_node *node;
	size_t parent;    /* the nearest shown ancestor, SIZE_MAX: a root */
	size_t top;       /* the root of its tree, shown or not: keeps the trees apart */
	bool kept, leads; /* leads: something below it is kept */
};

static int compare_places(const void *left, const void *right)
{
	const struct place *a = *(struct place *const *)left, *b = *(struct place *const *)right;

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	if (a->parent == SIZE_MAX && a->top != b->top)
		return a->top < b->top ? -1 : 1;
	return a->node->pid < b->node->pid ? -1 : a->node->pid > b->node->pid;
}

/* A node without threads left stays if something below it does, so that the tree holds together. */
static void decide(const struct snap_options *options, struct place *places, const size_t *parents,
		   size_t count)
{
	for (size_t i = count; i-- > 0;) {
		struct place *place = &places[i];

		place->kept = !snap_filter_hides_type(options, place->node) &&
			      (place->leads || !snap_filter_is_empty(options, place->node));
		if ((place->kept || place->leads) && !options->flat && parents[i] < i)
			places[parents[i]].leads = true;
	}
	for (size_t i = 0; i < count; i++) {
		size_t parent = parents[i];

		/* A parent comes before its children; anything else in a file is a root. */
		places[i].top = parent < i ? places[parent].top : i;
		places[i].parent = parent >= i           ? SIZE_MAX
				   : places[parent].kept ? parent
							 : places[parent].parent;
	}
}

/* Hands each run of siblings in the sorted list to its parent. */
static struct snap_error *hang(struct snap_snapshot *snapshot, struct place *places,
			       struct place **shown, size_t count)
{
	struct snap_node **list =
		snap_arena_new_array(&snapshot->arena, count + 1, struct snap_node *);

	if (!list)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++)
		list[i] = shown[i]->node;
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i; end < count && shown[end]->parent == shown[i]->parent;)
			end++;
		if (shown[i]->parent == SIZE_MAX) {
			snapshot->processes = list + i;
			snapshot->root_count = end - i;
		} else {
			places[shown[i]->parent].node->children = list + i;
			places[shown[i]->parent].node->child_count = end - i;
		}
	}
	return NULL;
}

/* --flat: the same order, parents before children, without nesting. */
static struct snap_error *flatten(struct snap_snapshot *snapshot, size_t count)
{
	struct snap_node **list =
		snap_arena_new_array(&snapshot->arena, count + 1, struct snap_node *);
	_cleanup_free_ struct snap_node **pending =
		malloc((count + 1) * sizeof(struct snap_node *));
	size_t depth = 0, n = 0;

	if (!list || !pending)
		return snap_error_no_memory();
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
static size_t gather(struct snap_snapshot *snapshot, struct place *places, size_t count,
		     struct place **shown)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct snap_node *node = places[i].node;

		if (!places[i].kept)
			continue;
		shown[kept++] = &places[i];
		snapshot->process_count++;
		snapshot->stack_count += node->stack_count;
		for (size_t k = 0; k < node->stack_count; k++)
			snapshot->thread_count += node->stacks[k].count;
	}
	qsort(shown, kept, sizeof(struct place *), compare_places);
	return kept;
}

struct snap_error *snap_tree_build(struct snap_snapshot *snapshot,
				   const struct snap_options *options, struct snap_node **nodes,
				   const size_t *parents, size_t count)
{
	_cleanup_free_ struct place *places = calloc(count + 1, sizeof(*places));
	_cleanup_free_ struct place **shown = calloc(count + 1, sizeof(struct place *));
	struct snap_error *err;
	size_t kept;

	if (!places || !shown)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++)
		places[i].node = nodes[i];
	decide(options, places, parents, count);
	kept = gather(snapshot, places, count, shown);
	err = hang(snapshot, places, shown, kept);
	if (err)
		return err;
	snapshot->flat = options->flat;
	return snapshot->flat ? flatten(snapshot, kept) : NULL;
}
