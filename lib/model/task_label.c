/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels of tasks: those that a program wrote, and those that a stack shows. They are sorted by key,
 * so that the common ones of many tasks are found in one pass each.
 */
#include "model/task_label.h"

#include "base/bsearch.h"
#include "base/table.h"
#include "base/text.h"

#include <string.h>

SNAP_ORDER(compare_labels, struct snap_label, a, b, strcmp(a->key, b->key));

size_t snap_task_sort_labels(struct snap_label *labels, size_t count)
{
	size_t kept = 0;

	/* Unstable for equal keys, which no sane program has: then the one with the lower value. */
	if (count)
		qsort(labels, count, sizeof(*labels), compare_labels);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || strcmp(labels[i].key, labels[kept - 1].key) != 0)
			labels[kept++] = labels[i];
	return kept;
}

const char *snap_task_label(const struct snap_label *labels, size_t count, const char *key)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(labels[middle].key, key);

		if (order == 0)
			return labels[middle].value;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

uint64_t snap_task_label_key(const struct snap_task *task, const char *runtime, bool is_system,
			     unsigned group_by, const struct snap_options *options, uint64_t seed)
{
	uint64_t hash = snap_hash_text(runtime, snap_hash_number(group_by, seed));

	if (group_by & SNAP_GROUP_STATE) {
		hash = snap_hash_text(snap_task_state_word(task->state), hash);
		hash = snap_hash_text(task->wait, hash);
	}
	if (group_by & SNAP_GROUP_NAME)
		hash = snap_hash_text(task->name, hash);
	if (group_by & SNAP_GROUP_TYPE)
		hash = snap_hash_number(is_system, hash);
	if (group_by & SNAP_GROUP_TID)
		hash = snap_hash_text(task->id, hash);
	for (size_t i = 0; i < options->group_label_count; i++)
		hash = snap_hash_text(
			snap_task_label(task->labels, task->label_count, options->group_labels[i]),
			hash);
	return hash;
}

size_t snap_task_common_labels(struct snap_label *labels, size_t count,
			       const struct snap_label *others, size_t other_count)
{
	size_t kept = 0, k = 0;

	for (size_t i = 0; i < count; i++) {
		while (k < other_count && others[k].key != labels[i].key &&
		       strcmp(others[k].key, labels[i].key) < 0)
			k++;
		if (k < other_count && snap_same_text(others[k].key, labels[i].key) &&
		    snap_same_text(others[k].value, labels[i].value))
			labels[kept++] = labels[i];
	}
	return kept;
}

const char *snap_task_shown_key(struct snap_interner *strings, const char *key)
{
	_cleanup_free_ char *other = NULL;

	if (!snap_label_clashes(key))
		return key;
	if (asprintf(&other, "label.%s", key) < 0) {
		other = NULL;
		return NULL;
	}
	return snap_intern(strings, other, strlen(other));
}

bool snap_task_is_tree_label(const struct snap_options *options, const char *key, bool flat)
{
	for (unsigned i = 0; i < SNAP_TREE_KEYS; i++) {
		const char *ours = options->task_tree[i];

		if (ours && strcmp(ours, key) == 0)
			return !(flat && i == SNAP_TREE_PARENT);
	}
	return false;
}

/* What all tasks of the stack have in common, in memory of the interner's arena. */
static struct snap_label *common_labels(struct snap_interner *strings,
					const struct snap_stack *stack, size_t *count_ret)
{
	const struct snap_task *first = &stack->tasks[0];
	struct snap_label *labels =
		snap_arena_new_array(strings->arena, first->label_count + 4, struct snap_label);
	size_t count = first->label_count;

	if (!labels)
		return NULL;
	if (count)
		memcpy(labels, first->labels, count * sizeof(*labels));
	for (size_t i = 1; i < stack->task_count && count; i++)
		count = snap_task_common_labels(labels, count, stack->tasks[i].labels,
						stack->tasks[i].label_count);
	*count_ret = count;
	return labels;
}

/* The facts of our own that all tasks share, in front. */
static size_t put_task_facts(const struct snap_stack *stack, struct snap_label *labels)
{
	const struct snap_task *first = &stack->tasks[0];
	const char *wait = first->wait, *name = first->name;
	bool same_state = true;
	size_t count = 0;

	for (size_t i = 1; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];

		same_state = same_state && task->state == first->state;
		wait = snap_same_text(task->wait, wait) ? wait : NULL;
		name = snap_same_text(task->name, name) ? name : NULL;
	}
	if (same_state)
		labels[count++] =
			(struct snap_label){ "state", snap_task_state_word(first->state) };
	if (wait && *wait)
		labels[count++] = (struct snap_label){ "wait", wait };
	if (name && *name)
		labels[count++] = (struct snap_label){ "task_name", name };
	return count;
}

bool snap_task_label_stack(struct snap_interner *strings, const struct snap_options *options,
			   struct snap_stack *stack, bool in_tree)
{
	struct snap_label facts[3];
	size_t fact_count = put_task_facts(stack, facts), common = 0, kept = 0;
	struct snap_label *labels = common_labels(strings, stack, &common);

	if (!labels)
		return false;
	for (size_t i = 0; i < common; i++) {
		if (in_tree && snap_task_is_tree_label(options, labels[i].key, options->flat))
			continue;
		labels[kept] = labels[i];
		labels[kept].key = snap_task_shown_key(strings, labels[i].key);
		if (!labels[kept++].key)
			return false;
	}
	memmove(labels + fact_count, labels, kept * sizeof(*labels));
	memcpy(labels, facts, fact_count * sizeof(*labels));
	stack->labels = labels;
	stack->label_count = fact_count + kept;
	return true;
}
