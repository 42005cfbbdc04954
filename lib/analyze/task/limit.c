/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What tasks take in a report, and less of it: long texts are cut in their middle, then labels go,
 * at last tasks, the first ones stay. Counts what the JSON writes, escapes and all, as often as it
 * writes it. Knows no other process, and not how much is too much.
 */
#include "analyze/task/task.h"

#include "base/escape.h"

#include <string.h>

enum {
	LOGICAL_BYTES = 150, /* each without its texts */
	STACK_BYTES = 350,
	TASK_BYTES = 170,
	CREATOR_BYTES = 60,
	LABEL_BYTES = 8,
	SHORT_TEXT = 256, /* as written: what texts are cut to */
	SHORT_HEAD = 192,
	SHORT_TAIL = 60,
	FACTS = 3, /* labels of a stack that are not the program's */
	KNOWN_TEXTS = 1024,
};

struct limiter {
	struct snap_interner *strings;
	struct snap_task_cut *cut;
	bool failed; /* no memory */
	/* Thousands of tasks have the same texts, which are interned. */
	struct known_text {
		const char *text, *shortened;
		uint64_t bytes;
	} known[KNOWN_TEXTS];
};

/* ---- texts ---- */

static unsigned byte_weight(char byte, bool clean)
{
	if (byte == '"')
		return 2;
	if (byte == '\\')
		return 4;
	return clean || (byte >= ' ' && byte <= '~') ? 1 : 5;
}

uint64_t snap_task_text_bytes(const char *text)
{
	uint64_t bytes = 0;
	bool clean;

	if (!text)
		return 0;
	clean = snap_escape_is_clean(text, strlen(text), 0);
	for (; *text; text++)
		bytes += byte_weight(*text, clean);
	return bytes;
}

static struct known_text *known_text(struct limiter *limiter, const char *text)
{
	uint64_t hash = (uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15u;
	struct known_text *known = &limiter->known[hash >> 54];

	if (known->text != text)
		*known = (struct known_text){ .text = text, .bytes = snap_task_text_bytes(text) };
	return known;
}

static uint64_t text_bytes(struct limiter *limiter, const char *text)
{
	return text && *text ? known_text(limiter, text)->bytes : 0;
}

/* Its beginning and its end, which tells numbered ones apart. */
static const char *cut_text(struct limiter *limiter, const char *text)
{
	size_t length = strlen(text), head = 0, tail = length;
	bool clean = snap_escape_is_clean(text, length, 0);
	char made[SHORT_TEXT + 8];
	unsigned weight = 0;
	const char *shortened;

	while ((weight += byte_weight(text[head], clean)) <= SHORT_HEAD)
		head++;
	head = snap_text_cut(text, length, head);
	weight = 0;
	while ((weight += byte_weight(text[tail - 1], clean)) <= SHORT_TAIL)
		tail--;
	while (tail < length && ((unsigned char)text[tail] & 0xc0) == 0x80)
		tail++;
	memcpy(made, text, head);
	memcpy(made + head, "...", 3);
	memcpy(made + head + 3, text + tail, length - tail);
	shortened = snap_intern(limiter->strings, made, head + 3 + length - tail);
	limiter->failed |= !shortened;
	return shortened ? shortened : "";
}

/* True: it was longer. */
static bool shorten(struct limiter *limiter, const char **text)
{
	struct known_text *known;

	if (!*text || text_bytes(limiter, *text) <= SHORT_TEXT)
		return false;
	known = known_text(limiter, *text);
	if (!known->shortened)
		known->shortened = cut_text(limiter, *text);
	*text = known->shortened;
	return true;
}

/* ---- labels ---- */

static uint64_t label_bytes(struct limiter *limiter, const struct snap_label *labels, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += LABEL_BYTES + text_bytes(limiter, labels[i].key) +
			 text_bytes(limiter, labels[i].value);
	return bytes;
}

/* Those with long keys go: cut ones may be equal, and would not be in their order. */
static bool shorten_labels(struct limiter *limiter, struct snap_label *labels, size_t *count)
{
	size_t kept = 0, all = *count;
	bool cut = false;

	for (size_t i = 0; i < all; i++) {
		cut |= shorten(limiter, &labels[i].value);
		if (text_bytes(limiter, labels[i].key) <= SHORT_TEXT)
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
	uint64_t bytes = TASK_BYTES + text_bytes(limiter, task->id) +
			 text_bytes(limiter, task->name) + text_bytes(limiter, task->wait) +
			 text_bytes(limiter, task->parent);

	if (creator)
		bytes += CREATOR_BYTES + text_bytes(limiter, creator->function) +
			 text_bytes(limiter, creator->file);
	return bytes;
}

/* Without its tasks. */
static uint64_t stack_bytes(struct limiter *limiter, const struct snap_stack *stack)
{
	return STACK_BYTES + text_bytes(limiter, stack->description) +
	       text_bytes(limiter, stack->unwind_detail) +
	       label_bytes(limiter, stack->labels, fact_count(stack));
}

static uint64_t logical_bytes(struct limiter *limiter, const struct snap_logical *logical)
{
	return LOGICAL_BYTES + text_bytes(limiter, logical->id) +
	       text_bytes(limiter, logical->parent) + text_bytes(limiter, logical->name);
}

static uint64_t bare_bytes(struct limiter *limiter, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	uint64_t bytes = 0;

	for (size_t i = 0; i < node->logical_count; i++)
		bytes += logical_bytes(limiter, &node->logical[i]);
	while ((stack = snap_node_next_stack(node, &cursor))) {
		bytes += stack->task_count ? stack_bytes(limiter, stack) : 0;
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
	is_shorter = shorten(limiter, &short_one.function);
	is_shorter |= shorten(limiter, &short_one.file);
	if (!is_shorter)
		return;
	made = snap_arena_memdup(limiter->strings->arena, &short_one, sizeof(short_one));
	limiter->failed |= !made;
	task->created_by = made;
}

static void shorten_texts(struct limiter *limiter, struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	struct snap_stack *stack;

	for (size_t i = 0; i < node->logical_count; i++) {
		struct snap_logical *logical = &node->logical[i];

		shorten(limiter, &logical->id);
		shorten(limiter, &logical->parent);
		shorten(limiter, &logical->name);
		shorten_labels(limiter, logical->labels, &logical->label_count);
	}
	while ((stack = snap_node_next_stack(node, &cursor))) {
		if (stack->task_count == 0)
			continue;
		shorten(limiter, &stack->description);
		shorten(limiter, &stack->unwind_detail);
		shorten_labels(limiter, stack->labels, &stack->label_count);
		for (size_t i = 0; i < stack->task_count; i++) {
			struct snap_task *task = &stack->tasks[i];

			shorten(limiter, &task->name);
			shorten(limiter, &task->wait);
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
	uint64_t bytes = stack_bytes(limiter, stack);
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

	if (limiter)
		limiter->strings = strings;
	if (limiter)
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
	if (!limiter)
		return snap_error_no_memory();
	*ret = bare_bytes(limiter, node) + all_label_bytes(limiter, node);
	return NULL;
}

struct stacksnap_error *snap_task_limit_node(struct snap_interner *strings, struct snap_node *node,
					     uint64_t most, struct snap_task_cut *cut)
{
	_cleanup_free_ struct limiter *limiter = limiter_create(strings, cut);
	uint64_t bare;

	if (!limiter)
		return snap_error_no_memory();
	shorten_texts(limiter, node);
	bare = bare_bytes(limiter, node);
	if (bare + all_label_bytes(limiter, node) > most)
		leave_labels_out(limiter, node, bare < most ? most - bare : 0);
	if (bare > most)
		leave_tasks_out(limiter, node, most);
	return limiter->failed ? snap_error_no_memory() : NULL;
}
