/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logical processes in the order of their tree: those with most tasks first, then by id. A process
 * that the options hide is left out, and its children move up. The program decides how deep the
 * tree is, so nothing here recurses, and beyond some depth children are not nested any further.
 */
#include "analyze/task/task.h"

#include "base/bsearch.h"

#include <string.h>

enum { DEEPEST = 100 }; /* readers of JSON have limits of some hundreds */

struct arranging {
	const struct snap_options *options;
	const struct snap_logical *logical;
	const size_t *parents;
	size_t count;
	size_t *order;   /* children before their parents, then those that are kept, as shown */
	size_t *shown;   /* of each: the nearest ancestor that is kept, SIZE_MAX: none */
	size_t *waiting; /* children that have no place in the order yet */
	size_t *depths;  /* of those that are kept */
	size_t *first;   /* of each one's children in the order; [count]: of roots */
	bool *kept, *leads;
};

static void arranging_deinit(struct arranging *arranging)
{
	free(arranging->order);
	free(arranging->shown);
	free(arranging->waiting);
	free(arranging->depths);
	free(arranging->first);
	free(arranging->kept);
	free(arranging->leads);
}

static bool arranging_init(struct arranging *arranging)
{
	size_t count = arranging->count + 1;

	arranging->order = calloc(count, sizeof(*arranging->order));
	arranging->shown = calloc(count, sizeof(*arranging->shown));
	arranging->waiting = calloc(count, sizeof(*arranging->waiting));
	arranging->depths = calloc(count, sizeof(*arranging->depths));
	arranging->first = calloc(count, sizeof(*arranging->first));
	arranging->kept = calloc(count, sizeof(*arranging->kept));
	arranging->leads = calloc(count, sizeof(*arranging->leads));
	return arranging->order && arranging->shown && arranging->waiting && arranging->depths &&
	       arranging->first && arranging->kept && arranging->leads;
}

bool snap_logical_is_hidden(const struct snap_options *options, const struct snap_logical *logical)
{
	return options->no_system &&
	       (logical->type == SNAP_LOGICAL_SYSTEM || logical->type == SNAP_LOGICAL_NONE);
}

/* Children first: leaves, then those whose children all are in the order. */
static void order_upwards(struct arranging *arranging)
{
	size_t n = 0;

	for (size_t i = 0; i < arranging->count; i++)
		if (arranging->parents[i] != SIZE_MAX)
			arranging->waiting[arranging->parents[i]]++;
	for (size_t i = 0; i < arranging->count; i++)
		if (arranging->waiting[i] == 0)
			arranging->order[n++] = i;
	for (size_t i = 0; i < n; i++) {
		size_t parent = arranging->parents[arranging->order[i]];

		if (parent != SIZE_MAX && --arranging->waiting[parent] == 0)
			arranging->order[n++] = parent;
	}
}

/* Without stacks of its own one stays if something below it does. */
static void choose_arrangement(struct arranging *arranging)
{
	for (size_t k = 0; k < arranging->count; k++) {
		size_t i = arranging->order[k], parent = arranging->parents[i];
		const struct snap_logical *logical = &arranging->logical[i];

		arranging->kept[i] = !snap_logical_is_hidden(arranging->options, logical) &&
				     (arranging->leads[i] || logical->stack_count);
		if ((arranging->kept[i] || arranging->leads[i]) && parent != SIZE_MAX)
			arranging->leads[parent] = true;
	}
	for (size_t k = arranging->count; k-- > 0;) {
		size_t i = arranging->order[k], parent = arranging->parents[i];

		arranging->shown[i] = parent == SIZE_MAX        ? SIZE_MAX
				      : arranging->kept[parent] ? parent
								: arranging->shown[parent];
	}
}

static int compare_shown(const void *left, const void *right, void *context)
{
	const struct arranging *arranging = context;
	size_t x = *(const size_t *)left, y = *(const size_t *)right;
	const struct snap_logical *a = &arranging->logical[x], *b = &arranging->logical[y];

	return snap_compare(arranging->shown[x], arranging->shown[y]) ?:
	       snap_compare(!a->id, !b->id) ?:
	       snap_compare(b->task_count, a->task_count) ?:
	       (a->id && b->id ? snap_task_compare_ids(a->id, b->id) : 0) ?:
	       snap_compare(x, y);
}

/* Those that are kept, siblings as neighbours; how many they are. */
static size_t sort_siblings(struct arranging *arranging)
{
	size_t count = 0;

	for (size_t i = 0; i < arranging->count; i++)
		if (arranging->kept[i])
			arranging->order[count++] = i;
	qsort_r(arranging->order, count, sizeof(*arranging->order), compare_shown, arranging);
	for (size_t i = 0; i <= arranging->count; i++)
		arranging->first[i] = SIZE_MAX;
	for (size_t k = count; k-- > 0;) {
		size_t parent = arranging->shown[arranging->order[k]];

		arranging->first[parent == SIZE_MAX ? arranging->count : parent] = k;
	}
	return count;
}

/* Depth first; waiting[] holds where to go on, level by level. */
static void list_tree(struct arranging *arranging, size_t count, struct snap_logical *list)
{
	size_t *levels = arranging->waiting, depth = 0, n = 0;

	if (arranging->first[arranging->count] == SIZE_MAX)
		return;
	levels[depth++] = arranging->first[arranging->count];
	while (depth) {
		size_t k = levels[depth - 1], i, parent;

		i = arranging->order[k];
		parent = arranging->shown[i];
		arranging->depths[i] = parent == SIZE_MAX ? 0 : arranging->depths[parent] + 1;
		if (arranging->options->flat)
			arranging->depths[i] = 0;
		list[n] = arranging->logical[i];
		list[n].depth =
			(uint32_t)(arranging->depths[i] < DEEPEST ? arranging->depths[i] : DEEPEST);
		n++;
		/* The next sibling comes after all that is below this one. */
		if (k + 1 < count &&
		    arranging->shown[arranging->order[k + 1]] == arranging->shown[i])
			levels[depth - 1] = k + 1;
		else
			depth--;
		if (arranging->first[i] != SIZE_MAX)
			levels[depth++] = arranging->first[i];
	}
}

struct stacksnap_error *snap_logical_arrange(struct snap_arena *arena,
					     const struct snap_options *options,
					     const struct snap_logical *logical,
					     const size_t *parents, size_t count,
					     struct snap_logical **ret, size_t *count_ret)
{
	_cleanup_(arranging_deinit) struct arranging arranging = {
		.options = options, .logical = logical, .parents = parents, .count = count
	};
	struct snap_logical *list = snap_arena_new_array(arena, count + 1, struct snap_logical);
	size_t kept;

	SNAP_TRY(snap_no_memory_unless(list && arranging_init(&arranging)));
	order_upwards(&arranging);
	choose_arrangement(&arranging);
	kept = sort_siblings(&arranging);
	list_tree(&arranging, kept, list);
	*ret = kept ? list : NULL;
	*count_ret = kept;
	return NULL;
}
