/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks that await each other -> their tree: below each task those that it awaits. Equal siblings
 * are one node: the tasks that would be one group, awaited by tasks of one node. So a thousand
 * workers below one gather() are one node, and so are all their children. A task that several tasks
 * await is below the first. Knows nothing of filters and of their order.
 */
#include "analyze/task/task.h"

#include "base/table.h"
#include "base/text.h"

#include <string.h>

struct tree {
	struct snap_analysis *analysis;
	const struct snap_raw_process *raw;
	const uint64_t *keys; /* by which tasks are grouped */
	struct snap_logical_set *set;
	size_t *awaiters; /* of each task; SIZE_MAX: none */
	size_t *chain;    /* tasks on the way up from the current one */
	size_t *first;    /* of each node: its first task */
	struct snap_hash_table nodes;
};

static void await_tree_deinit(struct tree *tree)
{
	snap_hash_table_deinit(&tree->nodes);
	free(tree->awaiters);
	free(tree->chain);
	free(tree->first);
}

static bool tree_init(struct tree *tree)
{
	struct snap_logical_set *set = tree->set;
	size_t count = tree->raw->task_count;

	tree->chain = malloc(count * sizeof(*tree->chain));
	tree->first = malloc(count * sizeof(*tree->first));
	set->parents = malloc(count * sizeof(*set->parents));
	set->of_tasks = malloc(count * sizeof(*set->of_tasks));
	set->keys = malloc(count * sizeof(*set->keys));
	set->logical = snap_arena_new_array(snap_analysis_arena(tree->analysis), count,
					    struct snap_logical);
	return tree->chain && tree->first && set->parents && set->of_tasks && set->keys &&
	       set->logical;
}

/* ---- awaiters ---- */

static size_t find_task(const struct snap_raw_process *raw, const struct snap_hash_table *ids,
			const struct snap_raw_task *of)
{
	struct snap_probe probe = snap_hash_table_probe(ids, snap_hash_text(of->task->parent, 0));

	while (snap_probe_next(&probe)) {
		const struct snap_raw_task *task = &raw->tasks[probe.number];

		if (task->runtime == of->runtime && strcmp(task->task->id, of->task->parent) == 0)
			return probe.number;
	}
	return SIZE_MAX;
}

/* False: no memory. *some_ret is set if some task awaits another. */
static bool find_awaiters(struct tree *tree, struct snap_hash_table *ids, bool *some_ret)
{
	const struct snap_raw_process *raw = tree->raw;

	for (size_t i = 0; i < raw->task_count; i++)
		if (!snap_hash_table_add(ids, snap_hash_text(raw->tasks[i].task->id, 0), i))
			return false;
	tree->awaiters = malloc(raw->task_count * sizeof(*tree->awaiters));
	for (size_t i = 0; tree->awaiters && i < raw->task_count; i++) {
		const struct snap_raw_task *task = &raw->tasks[i];

		tree->awaiters[i] = task->runtime->parents_await && task->task->parent
					    ? find_task(raw, ids, task)
					    : SIZE_MAX;
		*some_ret = *some_ret || tree->awaiters[i] != SIZE_MAX;
	}
	return tree->awaiters;
}

/* ---- nodes ---- */

static size_t find_node(const struct tree *tree, uint64_t key, size_t parent)
{
	return snap_hash_find(&tree->nodes, key, i,
			      tree->set->keys[i] == key && tree->set->parents[i] == parent);
}

/* The node of a task, whose awaiter has one. False: no memory. */
static bool join_node(struct tree *tree, size_t task)
{
	struct snap_logical_set *set = tree->set;
	size_t awaiter = tree->awaiters[task], node;
	size_t parent = awaiter == SIZE_MAX ? SIZE_MAX : set->of_tasks[awaiter];
	uint64_t key = tree->keys[task];

	if (parent != SIZE_MAX)
		key = snap_hash_number(key, set->keys[parent]);
	node = find_node(tree, key, parent);
	if (node == SIZE_MAX) {
		node = set->count;
		if (!snap_hash_table_add(&tree->nodes, key, node))
			return false;
		set->count++;
		set->logical[node] = (struct snap_logical){ .type = SNAP_LOGICAL_TASK };
		set->parents[node] = parent;
		set->keys[node] = key;
		tree->first[node] = task;
	}
	if (task < tree->first[node])
		tree->first[node] = task;
	set->of_tasks[task] = node;
	set->logical[node].task_count++;
	return true;
}

/* Those above a task that have no node yet, and the task. */
static bool place_task(struct tree *tree, size_t task)
{
	size_t depth = 0;

	for (size_t at = task; at != SIZE_MAX && tree->set->of_tasks[at] == SIZE_MAX;
	     at = tree->awaiters[at])
		tree->chain[depth++] = at;
	while (depth)
		if (!join_node(tree, tree->chain[--depth]))
			return false;
	return true;
}

/* The name that all tasks of a node have, else that of their function. */
static void name_nodes(struct tree *tree)
{
	struct snap_logical_set *set = tree->set;

	for (size_t i = 0; i < set->count; i++) {
		const struct snap_runtime_task *task = tree->raw->tasks[tree->first[i]].task;

		set->logical[i].id = task->id;
		set->logical[i].name = task->name && *task->name ? task->name : NULL;
	}
	for (size_t i = 0; i < tree->raw->task_count; i++) {
		struct snap_logical *logical = &set->logical[set->of_tasks[i]];

		if (!snap_same_text(logical->name, tree->raw->tasks[i].task->name))
			logical->name = NULL;
	}
	for (size_t i = 0; i < set->count; i++) {
		const struct snap_entry *start = tree->raw->tasks[tree->first[i]].task->start;
		struct snap_logical *logical = &set->logical[i];

		if (!logical->name)
			logical->name = start && start->function && *start->function
						? start->function
						: logical->id;
		if (set->parents[i] != SIZE_MAX)
			logical->parent = set->logical[set->parents[i]].id;
	}
}

static bool make_await_nodes(struct tree *tree)
{
	if (!tree_init(tree) || !snap_task_drop_circles(tree->awaiters, tree->raw->task_count))
		return false;
	for (size_t i = 0; i < tree->raw->task_count; i++)
		tree->set->of_tasks[i] = SIZE_MAX;
	if (!snap_all(tree->raw->task_count, i, place_task(tree, i)))
		return false;
	name_nodes(tree);
	return true;
}

struct stacksnap_error *snap_awaits_find(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw, const uint64_t *keys,
					 struct snap_logical_set *ret)
{
	_cleanup_(await_tree_deinit) struct tree tree = {
		.analysis = analysis, .raw = raw, .keys = keys, .set = ret
	};
	struct snap_hash_table ids = { .count = 0 };
	bool fine = true, some = false;

	/* Most programs have no such tasks: then nothing is made for them. */
	for (size_t i = 0; i < raw->task_count && !some; i++)
		some = raw->tasks[i].runtime->parents_await && raw->tasks[i].task->parent;
	if (!some || !analysis->options->await_tree)
		return NULL;
	some = false;
	fine = find_awaiters(&tree, &ids, &some);
	snap_hash_table_deinit(&ids);
	if (fine && some)
		fine = make_await_nodes(&tree);
	return fine ? NULL : snap_error_no_memory();
}
