/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures tasks in a report, and makes them smaller: long texts are cut in their middle, then
 * labels are removed, and at last tasks; the first ones stay. Counts what the JSON writes, with
 * escapes, as often as it writes it. Knows no other process, and not the limit.
 */
#include "analyze/task/task.h"

#include "analyze/short_text.h"

#include <string.h>

enum {
	LOGICAL_BYTES = 150, /* each without its texts */
	STACK_BYTES = 350,
	TASK_BYTES = 170,
	CREATOR_BYTES = 60,
	LABEL_BYTES = 8,
	SHORT_TEXT = 256, /* as written: what texts are cut to */
	FACTS = 3,        /* labels of a stack that are not the program's */
};

struct limiter {
	struct snap_short_texts texts;
	struct snap_task_cut *cut;
};

static uint64_t task_text_bytes(struct limiter *limiter, const char *text)
{
	return snap_short_texts_bytes(&limiter->texts, text);
}

static bool shorten_task_text(struct limiter *limiter, const char **text)
{
	return snap_short_texts_cut(&limiter->texts, text);
}

/* ---- labels ---- */

static uint64_t label_bytes(struct limiter *limiter, const struct snap_label *labels, size_t count)
{
	return snap_sum(count, i,
			LABEL_BYTES + task_text_bytes(limiter, labels[i].key) +
				task_text_bytes(limiter, labels[i].value));
}

/* Those with long keys go: cut ones may be equal, and would not be in their order. */
static bool shorten_labels(struct limiter *limiter, struct snap_label *labels, size_t *count)
{
	size_t kept = 0, all = *count;
	bool cut = false;

	for (size_t i = 0; i < all; i++) {
		cut |= shorten_task_text(limiter, &labels[i].value);
		if (task_text_bytes(limiter, labels[i].key) <= SHORT_TEXT)
			labels[kept++] = labels[i];
	}
	*count = kept;
	return cut || kept < all;
}

/* Labels of a stack that say what its title says; the program's are behind them. */
static size_t fact_count(const struct snap_stack *stack)
{
	static const char *const facts[FACTS] = { "state", "wait", "task_name" };
	size_t count = 0;

	for (size_t i = 0; i < FACTS && count < stack->label_count; i++)
		count += strcmp(stack->labels[count].key, facts[i]) == 0;
	return count;
}

/* ---- what there is without the labels of the program ---- */

static uint64_t task_bytes(struct limiter *limiter, const struct snap_task *task)
{
	const struct snap_entry *creator = task->created_by;
	uint64_t bytes = TASK_BYTES + task_text_bytes(limiter, task->id) +
			 task_text_bytes(limiter, task->name) +
			 task_text_bytes(limiter, task->wait) +
			 task_text_bytes(limiter, task->parent);

	if (creator)
		bytes += CREATOR_BYTES + task_text_bytes(limiter, creator->function) +
			 task_text_bytes(limiter, creator->file);
	return bytes;
}

/* Without its tasks. */
static uint64_t task_stack_bytes(struct limiter *limiter, const struct snap_stack *stack)
{
	return STACK_BYTES + task_text_bytes(limiter, stack->description) +
	       task_text_bytes(limiter, stack->unwind_detail) +
	       label_bytes(limiter, stack->labels, fact_count(stack));
}

static uint64_t logical_bytes(struct limiter *limiter, const struct snap_logical *logical)
{
	return LOGICAL_BYTES + task_text_bytes(limiter, logical->id) +
	       task_text_bytes(limiter, logical->parent) + task_text_bytes(limiter, logical->name);
}

static uint64_t bare_bytes(struct limiter *limiter, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	uint64_t bytes =
		snap_sum(node->logical_count, i, logical_bytes(limiter, &node->logical[i]));

	while ((stack = snap_node_next_stack(node, &cursor))) {
		bytes += stack->task_count ? task_stack_bytes(limiter, stack) : 0;
		for (size_t i = 0; i < stack->task_count; i++)
			bytes += task_bytes(limiter, &stack->tasks[i]);
	}
	return bytes;
}

static uint64_t all_label_bytes(struct limiter *limiter, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	uint64_t bytes = 0;

	for (size_t i = 0; i < node->logical_count; i++)
		bytes +=
			label_bytes(limiter, node->logical[i].labels, node->logical[i].label_count);
	while ((stack = snap_node_next_stack(node, &cursor))) {
		size_t facts = stack->task_count ? fact_count(stack) : stack->label_count;

		bytes += label_bytes(limiter, stack->labels + facts, stack->label_count - facts);
		for (size_t i = 0; i < stack->task_count; i++)
			bytes += label_bytes(limiter, stack->tasks[i].labels,
					     stack->tasks[i].label_count);
	}
	return bytes;
}

/* ---- less of it ---- */

static void shorten_creator(struct limiter *limiter, struct snap_task *task)
{
	struct snap_entry short_one, *made;
	bool is_shorter;

	if (!task->created_by)
		return;
	short_one = *task->created_by;
	is_shorter = shorten_task_text(limiter, &short_one.function);
	is_shorter |= shorten_task_text(limiter, &short_one.file);
	if (!is_shorter)
		return;
	made = snap_arena_memdup(limiter->texts.strings->arena, &short_one, sizeof(short_one));
	limiter->texts.failed |= !made;
	task->created_by = made;
}

static void shorten_texts(struct limiter *limiter, struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	struct snap_stack *stack;

	for (size_t i = 0; i < node->logical_count; i++) {
		struct snap_logical *logical = &node->logical[i];

		shorten_task_text(limiter, &logical->id);
		shorten_task_text(limiter, &logical->parent);
		shorten_task_text(limiter, &logical->name);
		shorten_labels(limiter, logical->labels, &logical->label_count);
	}
	while ((stack = snap_node_next_stack(node, &cursor))) {
		if (stack->task_count == 0)
			continue;
		shorten_task_text(limiter, &stack->description);
		shorten_task_text(limiter, &stack->unwind_detail);
		shorten_labels(limiter, stack->labels, &stack->label_count);
		for (size_t i = 0; i < stack->task_count; i++) {
			struct snap_task *task = &stack->tasks[i];

			shorten_task_text(limiter, &task->name);
			shorten_task_text(limiter, &task->wait);
			shorten_creator(limiter, task);
			if (shorten_labels(limiter, task->labels, &task->label_count))
				task->labels_cut = true;
		}
	}
	limiter->cut->texts = true;
}

/* Takes what labels need from what is left; false: it is too little. */
static bool take_room(struct limiter *limiter, const struct snap_label *labels, size_t count,
		      uint64_t *room)
{
	uint64_t bytes = label_bytes(limiter, labels, count);

	if (bytes > *room)
		return false;
	*room -= bytes;
	return true;
}

static void leave_labels_out(struct limiter *limiter, struct snap_node *node, uint64_t room)
{
	struct snap_stack_cursor cursor = { 0 };
	struct snap_stack *stack;

	for (size_t i = 0; i < node->logical_count; i++)
		if (!take_room(limiter, node->logical[i].labels, node->logical[i].label_count,
			       &room))
			node->logical[i].label_count = 0;
	while ((stack = snap_node_next_stack(node, &cursor))) {
		size_t facts = fact_count(stack);

		if (stack->task_count &&
		    !take_room(limiter, stack->labels + facts, stack->label_count - facts, &room))
			stack->label_count = facts;
		for (size_t i = 0; i < stack->task_count; i++) {
			struct snap_task *task = &stack->tasks[i];

			if (take_room(limiter, task->labels, task->label_count, &room))
				continue;
			task->label_count = 0;
			task->labels_cut = true;
			limiter->cut->without_labels++;
		}
	}
}

/* False: nothing of it fits. */
static bool keep_tasks(struct limiter *limiter, struct snap_stack *stack, uint64_t *room)
{
	uint64_t bytes = task_stack_bytes(limiter, stack);
	size_t kept = 0, all = stack->task_count;

	if (all == 0)
		return true;
	while (kept < all && bytes <= *room) {
		bytes += task_bytes(limiter, &stack->tasks[kept]);
		kept += bytes <= *room;
	}
	*room = kept < all ? 0 : *room - bytes;
	stack->count = stack->task_count = kept;
	limiter->cut->tasks += all - kept;
	return kept > 0;
}

static void keep_stacks(struct limiter *limiter, struct snap_stack *stacks, size_t *count,
			uint64_t *room)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++)
		if (keep_tasks(limiter, &stacks[i], room))
			stacks[kept++] = stacks[i];
	*count = kept;
	if (kept)
		qsort(stacks, kept, sizeof(*stacks), snap_stack_compare);
}

static void leave_tasks_out(struct limiter *limiter, struct snap_node *node, uint64_t room)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	size_t kept = 0;

	keep_stacks(limiter, node->stacks, &node->stack_count, &room);
	/* The first ones: their parents are before them. */
	for (size_t i = 0; i < node->logical_count; i++) {
		struct snap_logical *logical = &node->logical[i];
		uint64_t bytes = logical_bytes(limiter, logical);

		room = bytes <= room ? room - bytes : 0;
		keep_stacks(limiter, logical->stacks, &logical->stack_count, &room);
		kept += room > 0 || logical->stack_count;
	}
	node->logical_count = kept;
	for (size_t i = 0; i < node->runtime_count; i++)
		node->runtimes[i].shown = 0;
	while ((stack = snap_node_next_stack(node, &cursor)))
		for (size_t i = 0; i < node->runtime_count && stack->runtime; i++)
			if (strcmp(node->runtimes[i].name, stack->runtime) == 0)
				node->runtimes[i].shown += stack->task_count;
}

static struct limiter *limiter_create(struct snap_interner *strings, struct snap_task_cut *cut)
{
	struct limiter *limiter = calloc(1, sizeof(*limiter));

	if (!limiter)
		return NULL;
	limiter->texts.strings = strings;
	limiter->texts.most = SHORT_TEXT;
	limiter->cut = cut;
	return limiter;
}

struct stacksnap_error *snap_task_report_bytes(const struct snap_node *node, uint64_t *ret)
{
	_cleanup_free_ struct limiter *limiter = NULL;

	*ret = 0;
	if (node->runtime_count == 0)
		return NULL;
	limiter = limiter_create(NULL, NULL);
	SNAP_TRY(snap_no_memory_unless(limiter));
	*ret = bare_bytes(limiter, node) + all_label_bytes(limiter, node);
	return NULL;
}

struct stacksnap_error *snap_task_limit_node(struct snap_interner *strings, struct snap_node *node,
					     uint64_t most, struct snap_task_cut *cut)
{
	_cleanup_free_ struct limiter *limiter = limiter_create(strings, cut);
	uint64_t bare;

	SNAP_TRY(snap_no_memory_unless(limiter));
	shorten_texts(limiter, node);
	bare = bare_bytes(limiter, node);
	if (bare + all_label_bytes(limiter, node) > most)
		leave_labels_out(limiter, node, bare < most ? most - bare : 0);
	if (bare > most)
		leave_tasks_out(limiter, node, most);
	return snap_no_memory_unless(!limiter->texts.failed);
}
