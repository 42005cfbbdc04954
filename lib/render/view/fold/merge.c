/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that are alike -> one: see fold.h. Threads and tasks are those of all, what differs
 * among them is left out, or replaced by a star.
 */
#include "render/view/fold/parts.h"

#include "base/bsearch.h"
#include "base/text.h"
#include "model/group_label.h"

#include <string.h>

struct merge {
	struct snap_arena *arena;
	const struct snap_node *const *members;
	size_t count;
};

SNAP_ORDER(compare_threads, struct snap_member, a, b, snap_compare(a->tid, b->tid));

SNAP_ORDER(compare_tasks, struct snap_task, a, b, snap_task_compare_ids(a->id, b->id));

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

/* ---- texts ---- */

/* Where all texts have been the same so far, at the end of a word; 0: nowhere. */
static size_t common_words(const char *const *texts, size_t count)
{
	size_t common = strlen(texts[0]);

	for (size_t i = 1; i < count; i++) {
		size_t k = 0;

		while (k < common && texts[i][k] == texts[0][k])
			k++;
		common = k;
	}
	while (common && texts[0][common - 1] != ' ')
		common--;
	return common;
}

/*
 * One text for many: with stars in place of numbers that differ, else what all begin with, if
 * `begin`, else NULL. *fine becomes false without memory.
 */
static const char *merge_texts(struct merge *merge, const char *const *texts, bool begin,
			       bool *fine)
{
	char text[SNAP_MAX_NAME + 8];
	const char *merged;
	size_t words;

	for (size_t i = 0; i < merge->count; i++)
		if (!texts[i])
			return NULL;
	if (!snap_label_fold_names(texts, sizeof(*texts), merge->count, text, sizeof(text))) {
		words = begin ? common_words(texts, merge->count) : 0;
		if (words == 0 || words > SNAP_MAX_NAME)
			return NULL;
		memcpy(text, texts[0], words);
		strcpy(text + words, "...");
	}
	merged = snap_arena_strdup(merge->arena, text);
	*fine = *fine && merged;
	return merged;
}

static bool merge_names(struct merge *merge, struct snap_node *node)
{
	_cleanup_free_ const char **texts = malloc(merge->count * sizeof(*texts));
	bool fine = true;

	if (!texts)
		return false;
	for (size_t i = 0; i < merge->count; i++)
		texts[i] = merge->members[i]->name;
	node->name = merge_texts(merge, texts, false, &fine);
	for (size_t i = 0; i < merge->count; i++)
		texts[i] = merge->members[i]->description;
	node->description = merge_texts(merge, texts, true, &fine);
	for (size_t i = 0; i < merge->count; i++)
		texts[i] = merge->members[i]->trouble_message;
	node->trouble_message = merge_texts(merge, texts, false, &fine);
	return fine;
}

/* ---- stacks ---- */

/* Of one of the processes: the stack that stands where `number` says. */
struct place {
	bool is_logical;
	size_t logical, number;
};

static const struct snap_stack *stack_at(const struct snap_node *node, struct place place)
{
	return place.is_logical ? &node->logical[place.logical].stacks[place.number]
				: &node->stacks[place.number];
}

/* Thread names that differ in numbers have those of all; other labels that differ go. */
static bool merge_labels(struct merge *merge, struct place place, struct snap_stack *stack)
{
	const struct snap_stack *first = stack_at(merge->members[0], place);
	struct snap_label *labels =
		snap_arena_new_array(merge->arena, first->label_count + 1, struct snap_label);
	char name[SNAP_MAX_THREAD_NAME];

	if (!labels)
		return false;
	stack->labels = labels;
	stack->label_count = 0;
	for (size_t i = 0; i < first->label_count; i++) {
		struct snap_label label = first->labels[i];
		bool same = true;

		for (size_t k = 1; k < merge->count && same; k++)
			same = snap_same_text(
				snap_stack_label(stack_at(merge->members[k], place), label.key),
				label.value);
		if (!same && strcmp(label.key, "thread_name") == 0 && stack->thread_count &&
		    snap_label_fold(stack->threads, stack->thread_count, name)) {
			label.value = snap_arena_strdup(merge->arena, name);
			if (!label.value)
				return false;
			same = true;
		}
		if (same)
			labels[stack->label_count++] = label;
	}
	return true;
}

static bool merge_stack(struct merge *merge, struct place place, struct snap_stack *stack)
{
	const struct snap_stack *first = stack_at(merge->members[0], place);
	size_t threads = first->thread_count * merge->count,
	       tasks = first->task_count * merge->count;

	*stack = *first;
	stack->count = stack->thread_count = stack->task_count = 0;
	stack->threads = snap_arena_new_array(merge->arena, threads + 1, struct snap_member);
	stack->tasks = snap_arena_new_array(merge->arena, tasks + 1, struct snap_task);
	if (!stack->threads || !stack->tasks)
		return false;
	for (size_t i = 0; i < merge->count; i++) {
		const struct snap_stack *from = stack_at(merge->members[i], place);

		stack->count += from->count;
		for (size_t k = 0; k < from->thread_count; k++)
			stack->threads[stack->thread_count++] = from->threads[k];
		for (size_t k = 0; k < from->task_count; k++)
			stack->tasks[stack->task_count++] = from->tasks[k];
		if (!from->wait || (stack->wait && !snap_wait_same(from->wait, stack->wait)))
			stack->wait = NULL;
	}
	qsort(stack->threads, stack->thread_count, sizeof(*stack->threads), compare_threads);
	qsort(stack->tasks, stack->task_count, sizeof(*stack->tasks), compare_tasks);
	return merge_labels(merge, place, stack);
}

static bool merge_stacks(struct merge *merge, struct snap_node *node)
{
	const struct snap_node *first = merge->members[0];

	node->stacks =
		snap_arena_new_array(merge->arena, first->stack_count + 1, struct snap_stack);
	for (size_t i = 0; node->stacks && i < first->stack_count; i++)
		if (!merge_stack(merge, (struct place){ false, 0, i }, &node->stacks[i]))
			return false;
	return node->stacks;
}

static bool merge_logical(struct merge *merge, struct snap_node *node)
{
	const struct snap_node *first = merge->members[0];

	node->logical =
		snap_arena_new_array(merge->arena, first->logical_count + 1, struct snap_logical);
	for (size_t i = 0; node->logical && i < first->logical_count; i++) {
		struct snap_logical *logical = &node->logical[i];

		*logical = first->logical[i];
		logical->task_count = 0;
		for (size_t k = 0; k < merge->count; k++)
			logical->task_count += merge->members[k]->logical[i].task_count;
		logical->stacks = snap_arena_new_array(merge->arena, logical->stack_count + 1,
						       struct snap_stack);
		for (size_t k = 0; logical->stacks && k < logical->stack_count; k++)
			if (!merge_stack(merge, (struct place){ true, i, k }, &logical->stacks[k]))
				return false;
		if (!logical->stacks)
			return false;
	}
	return node->logical;
}

/* ---- the process ---- */

static bool merge_runtime(struct merge *merge, size_t number, struct snap_node_runtime *runtime)
{
	size_t holders = 0;

	*runtime = merge->members[0]->runtimes[number];
	runtime->tasks = runtime->shown = runtime->idle_threads = 0;
	runtime->memory_bytes = 0;
	runtime->plan_ns = 0;
	for (size_t i = 0; i < merge->count; i++)
		holders += merge->members[i]->runtimes[number].gil_count;
	runtime->gil = snap_arena_new_array(merge->arena, holders + 1, struct snap_gil);
	if (!runtime->gil)
		return false;
	runtime->gil_count = 0;
	for (size_t i = 0; i < merge->count; i++) {
		const struct snap_node_runtime *from = &merge->members[i]->runtimes[number];

		runtime->tasks += from->tasks;
		runtime->shown += from->shown;
		runtime->idle_threads += from->idle_threads;
		for (size_t k = 0; k < from->gil_count; k++)
			runtime->gil[runtime->gil_count++] = from->gil[k];
	}
	return true;
}

static bool merge_runtimes(struct merge *merge, struct snap_node *node)
{
	node->runtimes = snap_arena_new_array(merge->arena, node->runtime_count + 1,
					      struct snap_node_runtime);
	for (size_t i = 0; node->runtimes && i < node->runtime_count; i++)
		if (!merge_runtime(merge, i, &node->runtimes[i]))
			return false;
	return node->runtimes;
}

static const char *label_of(const struct snap_node *node, const char *key)
{
	for (size_t i = 0; i < node->label_count; i++)
		if (strcmp(node->labels[i].key, key) == 0)
			return node->labels[i].value;
	return NULL;
}

static bool keep_common_labels(struct merge *merge, struct snap_node *node)
{
	const struct snap_node *first = merge->members[0];

	node->labels =
		snap_arena_new_array(merge->arena, first->label_count + 1, struct snap_label);
	node->label_count = 0;
	for (size_t i = 0; node->labels && i < first->label_count; i++) {
		struct snap_label label = first->labels[i];
		bool same = true;

		for (size_t k = 1; k < merge->count && same; k++)
			same = snap_same_text(label_of(merge->members[k], label.key), label.value);
		if (same)
			node->labels[node->label_count++] = label;
	}
	return node->labels;
}

static bool list_folded_pids(struct merge *merge, struct snap_node *node)
{
	node->folded = snap_arena_new_array(merge->arena, merge->count, pid_t);
	node->folded_count = merge->count;
	for (size_t i = 0; node->folded && i < merge->count; i++)
		node->folded[i] = merge->members[i]->pid;
	if (node->folded)
		qsort(node->folded, merge->count, sizeof(*node->folded), compare_pids);
	return node->folded;
}

bool snap_fold_merge(struct snap_arena *arena, const struct snap_node *const *members, size_t count,
		     struct snap_node *ret)
{
	struct merge merge = { arena, members, count };

	*ret = *members[0];
	ret->children = NULL;
	ret->child_count = 0;
	if (count == 1)
		return true;
	/* What is each one's own. */
	ret->ns_pid = 0;
	ret->start_time_ns = 0;
	ret->start_ticks = 0;
	ret->usage = ret->usage_before = (struct snap_usage){ 0 };
	ret->thread_count = ret->threads_missed = ret->task_count = 0;
	for (size_t i = 0; i < count; i++) {
		ret->thread_count += members[i]->thread_count;
		ret->threads_missed += members[i]->threads_missed;
		ret->task_count += members[i]->task_count;
	}
	return list_folded_pids(&merge, ret) && merge_names(&merge, ret) &&
	       keep_common_labels(&merge, ret) && merge_runtimes(&merge, ret) &&
	       merge_stacks(&merge, ret) && merge_logical(&merge, ret);
}
