/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See fold.h. Keys are made from the leaves up, so that a process includes all that is below it;
 * nodes from the roots down: what folded ones have as children folds in turn, all together. Nothing
 * recurses, as the target decides how deep the tree is.
 */
#include "render/view/fold/fold.h"

#include "base/bsearch.h"
#include "base/table.h"
#include "render/view/fold/parts.h"
#include "render/view/walk.h"

/* A process of the snapshot; children stand side by side, behind their parent. */
struct item {
	const struct snap_node *node;
	uint64_t key;
	size_t first_child;
};

/* A node of the view whose children are not made yet. */
struct task {
	struct snap_node *node;
	const size_t *items; /* which it is of */
	size_t count;
};

struct folding {
	struct snap_folds *folds;
	const struct snap_options *options;
	struct item *items;
	struct task *tasks; /* one a node of the view, of which there are no more than items */
	size_t task_count;
};

static void folding_deinit(struct folding *folding)
{
	free(folding->items);
	free(folding->tasks);
}

static size_t count_nodes(const struct snap_snapshot *snapshot)
{
	size_t count = snapshot->root_count;
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step))
		count += step.leave ? 0 : step.node->child_count;
	return walk.failed ? SIZE_MAX : count;
}

static void list_folded_items(struct folding *folding, const struct snap_snapshot *snapshot,
			      size_t count)
{
	struct item *items = folding->items;
	size_t listed = 0;

	for (size_t i = 0; i < snapshot->root_count; i++)
		items[listed++].node = snapshot->processes[i];
	for (size_t i = 0; i < count; i++) {
		const struct snap_node *node = items[i].node;

		items[i].first_child = listed;
		for (size_t k = 0; k < node->child_count; k++)
			items[listed++].node = node->children[k];
	}
	for (size_t i = count; i-- > 0;) {
		uint64_t sum = 0;

		/* In any order: that of pids says nothing. */
		for (size_t k = 0; k < items[i].node->child_count; k++)
			sum += snap_hash_mix(items[items[i].first_child + k].key);
		items[i].key =
			snap_hash_number(sum, snap_fold_key(items[i].node, folding->options));
	}
}

/* Siblings, and what they become. */
struct siblings {
	const size_t *items;
	size_t count;
	size_t *classes; /* of each: the class */
	size_t *firsts;  /* of each class: its first one, by its place in `items` */
	size_t class_count;
};

static bool is_alike(const struct folding *folding, size_t left, size_t right)
{
	const struct item *a = &folding->items[left], *b = &folding->items[right];

	return a->key == b->key && snap_fold_has_same_shape(a->node, b->node);
}

static bool find_classes(const struct folding *folding, struct siblings *siblings)
{
	_cleanup_(snap_hash_table_deinit) struct snap_hash_table table = { .slots = NULL };

	for (size_t i = 0; i < siblings->count; i++) {
		uint64_t key = folding->items[siblings->items[i]].key;
		struct snap_probe probe = snap_hash_table_probe(&table, key);
		size_t class = siblings->class_count;

		while (class == siblings->class_count && snap_probe_next(&probe))
			if (is_alike(folding, siblings->items[siblings->firsts[probe.number]],
				     siblings->items[i]))
				class = probe.number;
		siblings->classes[i] = class;
		if (class < siblings->class_count)
			continue;
		if (!snap_hash_table_add(&table, key, class))
			return false;
		siblings->firsts[siblings->class_count++] = i;
	}
	return true;
}

static bool make_folded_node(struct folding *folding, const size_t *items, size_t count,
			     struct snap_node **ret)
{
	struct snap_arena *arena = &folding->folds->arena;
	_cleanup_free_ const struct snap_node **members = malloc(count * sizeof(*members));
	struct snap_node *node = snap_arena_new(arena, struct snap_node);

	if (!members || !node)
		return false;
	for (size_t i = 0; i < count; i++)
		members[i] = folding->items[items[i]].node;
	*ret = node;
	folding->tasks[folding->task_count++] = (struct task){ node, items, count };
	return snap_fold_merge(arena, members, count, node);
}

/* Nodes of the view for siblings, in the order of their first ones. */
static bool make_folded_nodes(struct folding *folding, struct siblings *siblings,
			      struct snap_node ***nodes_ret, size_t *count_ret)
{
	struct snap_arena *arena = &folding->folds->arena;
	size_t *sorted = snap_arena_new_array(arena, siblings->count, size_t);
	_cleanup_free_ size_t *ends = calloc(siblings->class_count + 1, sizeof(*ends));
	struct snap_node **nodes =
		snap_arena_new_array(arena, siblings->class_count, struct snap_node *);

	if (!sorted || !ends || !nodes)
		return false;
	for (size_t i = 0; i < siblings->count; i++)
		ends[siblings->classes[i] + 1]++;
	for (size_t i = 0; i < siblings->class_count; i++)
		ends[i + 1] += ends[i];
	/* Each of these is now where its class begins, and afterwards where it ends. */
	for (size_t i = 0; i < siblings->count; i++)
		sorted[ends[siblings->classes[i]]++] = siblings->items[i];
	for (size_t i = 0; i < siblings->class_count; i++) {
		size_t begin = i ? ends[i - 1] : 0;

		if (!make_folded_node(folding, sorted + begin, ends[i] - begin, &nodes[i]))
			return false;
	}
	*nodes_ret = nodes;
	*count_ret = siblings->class_count;
	return true;
}

static bool fold_siblings(struct folding *folding, const size_t *items, size_t count,
			  struct snap_node ***nodes_ret, size_t *count_ret)
{
	_cleanup_free_ size_t *classes = malloc((count + 1) * sizeof(*classes));
	_cleanup_free_ size_t *firsts = malloc((count + 1) * sizeof(*firsts));
	struct siblings siblings = { items, count, classes, firsts, 0 };

	return classes && firsts && find_classes(folding, &siblings) &&
	       make_folded_nodes(folding, &siblings, nodes_ret, count_ret);
}

static int compare_pids(const void *left, const void *right, void *context)
{
	const size_t *a = left, *b = right;
	const struct item *items = context;

	return snap_compare(items[*a].node->pid, items[*b].node->pid);
}

/* The children of all that a node is of. */
static bool make_children(struct folding *folding, const struct task *task)
{
	_cleanup_free_ size_t *items = NULL;
	size_t count = 0;

	for (size_t i = 0; i < task->count; i++)
		count += folding->items[task->items[i]].node->child_count;
	if (count == 0)
		return true;
	items = malloc(count * sizeof(*items));
	if (!items)
		return false;
	count = 0;
	for (size_t i = 0; i < task->count; i++) {
		const struct item *item = &folding->items[task->items[i]];

		for (size_t k = 0; k < item->node->child_count; k++)
			items[count++] = item->first_child + k;
	}
	if (task->count > 1)
		qsort_r(items, count, sizeof(*items), compare_pids, folding->items);
	return fold_siblings(folding, items, count, &task->node->children,
			     &task->node->child_count);
}

static bool fold(struct folding *folding, const struct snap_snapshot *snapshot)
{
	size_t count = count_nodes(snapshot);
	_cleanup_free_ size_t *roots = malloc((snapshot->root_count + 1) * sizeof(*roots));
	struct snap_snapshot *view = &folding->folds->snapshot;

	if (count == SIZE_MAX || !roots)
		return false;
	folding->items = calloc(count + 1, sizeof(*folding->items));
	folding->tasks = calloc(count + 1, sizeof(*folding->tasks));
	if (!folding->items || !folding->tasks)
		return false;
	list_folded_items(folding, snapshot, count);
	for (size_t i = 0; i < snapshot->root_count; i++)
		roots[i] = i;
	if (!fold_siblings(folding, roots, snapshot->root_count, &view->processes,
			   &view->root_count))
		return false;
	/* Each may add more to the list. */
	for (size_t i = 0; i < folding->task_count; i++)
		if (!make_children(folding, &folding->tasks[i]))
			return false;
	return true;
}

bool snap_folds_init(struct snap_folds *folds, const struct snap_snapshot *snapshot,
		     const struct snap_options *options)
{
	_cleanup_(folding_deinit) struct folding folding = { .folds = folds, .options = options };

	folds->snapshot = *snapshot;
	snap_arena_init(&folds->arena);
	return options->no_fold || snapshot->flat || fold(&folding, snapshot);
}

void snap_folds_deinit(struct snap_folds *folds)
{
	snap_arena_deinit(&folds->arena);
}
