/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks -> logical processes, by the labels that name an id and a parent. The program chooses its
 * labels: ids may be missing, may be named by children alone, or may form a circle. Knows nothing
 * of filters and of the order of the result.
 */
#include "analyze/task/task.h"

#include "base/table.h"

#include <string.h>

struct finder {
	struct snap_analysis *analysis;
	const struct snap_raw_process *raw;
	struct snap_logical_set *set;
	struct snap_hash_table ids; /* of set->logical */
	size_t without_id;          /* tasks */
};

void snap_logical_set_deinit(struct snap_logical_set *set)
{
	free(set->parents);
	free(set->of_tasks);
	free(set->keys);
}

/* The value of a label of the tree; NULL: absent, or empty. */
static const char *tree_label(const struct finder *finder, const struct snap_raw_task *task,
			      enum snap_tree_key key)
{
	const char *name = finder->analysis->options->task_tree[key];
	const char *value = name ? snap_task_label(task->labels, task->label_count, name) : NULL;

	return value && *value ? value : NULL;
}

static size_t find_id(const struct finder *finder, const char *id)
{
	return snap_hash_find(&finder->ids, snap_hash_text(id, 0), i,
			      strcmp(finder->set->logical[i].id, id) == 0);
}

/* SIZE_MAX without memory. */
static size_t add_id(struct finder *finder, const char *id)
{
	struct snap_logical_set *set = finder->set;

	set->logical[set->count] = (struct snap_logical){ .id = id };
	set->parents[set->count] = SIZE_MAX;
	if (!snap_hash_table_add(&finder->ids, snap_hash_text(id, 0), set->count))
		return SIZE_MAX;
	return set->count++;
}

/* What its labels say; of several tasks the one with the lowest id says it. */
static bool add_task(struct finder *finder, size_t number)
{
	const struct snap_raw_task *task = &finder->raw->tasks[number];
	const char *id = tree_label(finder, task, SNAP_TREE_ID), *name, *type;
	size_t found = id ? find_id(finder, id) : SIZE_MAX;
	struct snap_logical *logical;

	finder->set->of_tasks[number] = SIZE_MAX;
	if (!id) {
		finder->without_id++;
		return true;
	}
	if (found == SIZE_MAX) {
		found = add_id(finder, id);
		if (found == SIZE_MAX)
			return false;
		finder->set->logical[found].parent = tree_label(finder, task, SNAP_TREE_PARENT);
	}
	finder->set->of_tasks[number] = found;
	logical = &finder->set->logical[found];
	logical->task_count++;
	name = tree_label(finder, task, SNAP_TREE_DESCRIPTION);
	type = tree_label(finder, task, SNAP_TREE_TYPE);
	if (name && !logical->name)
		logical->name = name;
	if (type && logical->type == SNAP_LOGICAL_NORMAL)
		logical->type = snap_logical_type_of_label(type);
	return true;
}

/* Finds the parents, and makes those that only their children name. */
static bool find_logical_parents(struct finder *finder)
{
	struct snap_logical_set *set = finder->set;

	for (size_t i = 0, count = set->count; i < count; i++) {
		const char *parent = set->logical[i].parent;

		if (!set->logical[i].name)
			set->logical[i].name = set->logical[i].id;
		if (!parent)
			continue;
		set->parents[i] = find_id(finder, parent);
		if (set->parents[i] != SIZE_MAX)
			continue;
		set->parents[i] = add_id(finder, parent);
		if (set->parents[i] == SIZE_MAX)
			return false;
		set->logical[set->parents[i]].name = "(dead process)";
		set->logical[set->parents[i]].type = SNAP_LOGICAL_DEAD;
	}
	return true;
}

/* The link of the member of a circle that comes last, as they are in the order of their ids. */
static void drop_link(size_t *parents, size_t member)
{
	size_t last = member;

	for (size_t i = parents[member]; i != member; i = parents[i])
		last = i > last ? i : last;
	parents[last] = SIZE_MAX;
}

bool snap_task_drop_circles(size_t *parents, size_t count)
{
	_cleanup_free_ size_t *walks = calloc(count + 1, sizeof(*walks));

	for (size_t i = 0; walks && i < count; i++) {
		size_t at = i;

		while (at != SIZE_MAX && walks[at] == 0) {
			walks[at] = i + 1;
			at = parents[at];
		}
		if (at != SIZE_MAX && walks[at] == i + 1)
			drop_link(parents, at);
	}
	return walks;
}

/* Whose link was dropped names no parent. */
static bool drop_circles(struct snap_logical_set *set)
{
	if (!snap_task_drop_circles(set->parents, set->count))
		return false;
	for (size_t i = 0; i < set->count; i++)
		if (set->parents[i] == SIZE_MAX)
			set->logical[i].parent = NULL;
	return true;
}

static void add_unassociated(struct finder *finder)
{
	struct snap_logical_set *set = finder->set;

	if (finder->without_id == 0)
		return;
	for (size_t i = 0; i < finder->raw->task_count; i++)
		if (set->of_tasks[i] == SIZE_MAX)
			set->of_tasks[i] = set->count;
	set->parents[set->count] = SIZE_MAX;
	set->logical[set->count++] = (struct snap_logical){ .name = "(unassociated)",
							    .type = SNAP_LOGICAL_NONE,
							    .task_count = finder->without_id };
}

/* What all tasks of a logical process have in common, but for what makes it one. */
static bool find_labels(struct finder *finder)
{
	struct snap_logical_set *set = finder->set;
	const struct snap_options *options = finder->analysis->options;
	_cleanup_free_ bool *begun = calloc(set->count + 1, sizeof(*begun));

	for (size_t i = 0; begun && i < finder->raw->task_count; i++) {
		const struct snap_raw_task *task = &finder->raw->tasks[i];
		struct snap_logical *logical = &set->logical[set->of_tasks[i]];

		if (begun[set->of_tasks[i]]) {
			logical->label_count =
				snap_task_common_labels(logical->labels, logical->label_count,
							task->labels, task->label_count);
			continue;
		}
		begun[set->of_tasks[i]] = true;
		logical->labels =
			snap_arena_memdup(snap_analysis_arena(finder->analysis), task->labels,
					  task->label_count * sizeof(*task->labels));
		if (!logical->labels)
			return false;
		logical->label_count = task->label_count;
	}
	for (size_t i = 0; begun && i < set->count; i++) {
		struct snap_logical *logical = &set->logical[i];
		size_t kept = 0;

		for (size_t k = 0; k < logical->label_count; k++) {
			struct snap_label label = logical->labels[k];

			if (snap_task_is_tree_label(options, label.key, false))
				continue;
			label.key = snap_task_shown_key(&finder->analysis->strings, label.key);
			if (!label.key)
				return false;
			logical->labels[kept++] = label;
		}
		logical->label_count = kept;
	}
	return begun;
}

static bool find_logical(struct finder *finder)
{
	struct snap_logical_set *set = finder->set;
	size_t tasks = finder->raw->task_count, most = 2 * tasks + 1;

	set->logical = snap_arena_new_array(snap_analysis_arena(finder->analysis), most,
					    struct snap_logical);
	set->parents = malloc(most * sizeof(*set->parents));
	set->of_tasks = malloc((tasks + 1) * sizeof(*set->of_tasks));
	if (!set->logical || !set->parents || !set->of_tasks)
		return false;
	if (!snap_all(tasks, i, add_task(finder, i)))
		return false;
	if (set->count == 0) {
		set->logical = NULL;
		return true;
	}
	if (!find_logical_parents(finder) || !drop_circles(set))
		return false;
	add_unassociated(finder);
	return find_labels(finder);
}

struct stacksnap_error *snap_logical_find(struct snap_analysis *analysis,
					  const struct snap_raw_process *raw,
					  struct snap_logical_set *ret)
{
	struct finder finder = { .analysis = analysis, .raw = raw, .set = ret };
	const char *id = analysis->options->task_tree[SNAP_TREE_ID];
	bool has_ids = false, fine;

	/* Most programs have no such labels: then nothing is made for them. */
	for (size_t i = 0; id && i < raw->task_count && !has_ids; i++)
		has_ids = tree_label(&finder, &raw->tasks[i], SNAP_TREE_ID);
	if (!has_ids)
		return NULL;
	fine = find_logical(&finder);
	snap_hash_table_deinit(&finder.ids);
	return fine ? NULL : snap_error_no_memory();
}
