/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Logical processes that look alike: see alike_tasks.h. */
#include "render/text/alike_tasks.h"

#include "base/bsearch.h"
#include "base/table.h"

#include <string.h>

void snap_alikes_deinit(struct snap_alikes *alikes)
{
	free(alikes->items);
	free(alikes->stacks);
	free(alikes->tasks);
	free(alikes->ids);
}

static uint64_t hash_labels(const struct snap_label *labels, size_t count, uint64_t hash)
{
	hash = snap_hash_number(count, hash);
	for (size_t i = 0; i < count; i++)
		hash = snap_hash_text(labels[i].value, snap_hash_text(labels[i].key, hash));
	return hash;
}

static uint64_t hash_alike_frame(const struct snap_frame *frame, uint64_t hash)
{
	hash = snap_hash_text(frame->module, snap_hash_number(frame->entry_count, hash));
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = snap_hash_text(entry->function, snap_hash_text(entry->symbol, hash));
		hash = snap_hash_number(entry->line, snap_hash_text(entry->file, hash));
		if (!entry->function && !entry->symbol)
			hash = snap_hash_number(frame->address, hash);
	}
	return hash;
}

/* Its id would not do: that tells whose it is. */
static uint64_t hash_stack(const struct snap_stack *stack, uint64_t hash)
{
	hash = snap_hash_number(stack->count, snap_hash_text(stack->description, hash));
	hash = hash_labels(stack->labels, stack->label_count, hash);
	hash = snap_hash_text(stack->unwind_detail, snap_hash_number(stack->unwind, hash));
	hash = snap_hash_number(stack->gap_count, snap_hash_number(stack->gap_frame, hash));
	hash = snap_hash_number(stack->frame_count, snap_hash_text(stack->runtime, hash));
	for (size_t i = 0; i < stack->frame_count; i++)
		hash = hash_alike_frame(stack->frames[i], hash);
	return hash;
}

static uint64_t hash_logical(const struct snap_logical *logical, size_t parent)
{
	uint64_t hash = snap_hash_text(logical->name, snap_hash_number(parent, 0));

	hash = snap_hash_text(logical->parent, hash);
	hash = snap_hash_number(logical->type, snap_hash_number(logical->task_count, hash));
	hash = hash_labels(logical->labels, logical->label_count, hash);
	for (size_t i = 0; i < logical->stack_count; i++)
		hash = hash_stack(&logical->stacks[i], hash);
	return hash;
}

static bool has_children(const struct snap_node *node, size_t number)
{
	return number + 1 < node->logical_count &&
	       node->logical[number + 1].depth > node->logical[number].depth;
}

/* The first one that looks as this one does, which is entered if it is the first itself. */
static bool find_first(const struct snap_node *node, struct snap_hash_table *table,
		       const uint64_t *hashes, size_t number, size_t *ret)
{

	*ret = number;
	/* A program may make hashes equal: then it is shown wrong, but nothing else. */
	if (snap_hash_got(table, hashes[number], i,
			  hashes[i] == hashes[number] &&
				  node->logical[i].stack_count == node->logical[number].stack_count,
			  ret))
		return true;
	return snap_hash_table_add(table, hashes[number], number);
}

/* `firsts`: of each, the first one that looks like it. `open`: room for as many numbers, SIZE_MAX. */
static bool find_firsts(const struct snap_node *node, bool apart, size_t *firsts, size_t *open)
{
	_cleanup_(snap_hash_table_deinit) struct snap_hash_table table = { .slots = NULL };
	_cleanup_free_ uint64_t *hashes = calloc(node->logical_count + 1, sizeof(*hashes));

	for (size_t i = 0; hashes && i < node->logical_count; i++) {
		const struct snap_logical *logical = &node->logical[i];
		size_t depth = logical->depth < i ? logical->depth : i;
		size_t parent = depth ? open[depth - 1] : SIZE_MAX;

		firsts[i] = i;
		open[depth] = i; /* the last one of this depth */
		if (apart || !logical->id || logical->type == SNAP_LOGICAL_TASK ||
		    has_children(node, i))
			continue;
		hashes[i] = hash_logical(logical, parent);
		if (!find_first(node, &table, hashes, i, &firsts[i]))
			return false;
	}
	return hashes;
}

SNAP_ORDER(compare_tasks, struct snap_task, a, b, snap_task_compare_ids(a->id, b->id));

/* Where the next stack, task and id of the result go. */
struct place {
	struct snap_stack *stack;
	struct snap_task *task;
	const char **id;
};

/* `next`: of each, the next one that looks like it. */
static void merge_stack(const struct snap_node *node, const size_t *next, size_t first,
			size_t number, struct place *place)
{
	struct snap_stack *stack = place->stack++;

	*stack = node->logical[first].stacks[number];
	stack->tasks = place->task;
	stack->task_count = 0;
	for (size_t i = first; i != SIZE_MAX; i = next[i]) {
		const struct snap_stack *from = &node->logical[i].stacks[number];

		if (from->task_count)
			memcpy(place->task, from->tasks, from->task_count * sizeof(*from->tasks));
		place->task += from->task_count;
		stack->task_count += from->task_count;
	}
	stack->count = stack->task_count;
	if (stack->task_count)
		qsort(stack->tasks, stack->task_count, sizeof(*stack->tasks), compare_tasks);
}

static void merge_alike_tasks(const struct snap_node *node, const size_t *next, size_t first,
			      struct place *place, struct snap_alike *ret)
{
	*ret = (struct snap_alike){ .logical = node->logical[first], .ids = place->id };
	ret->logical.stacks = place->stack;
	ret->logical.task_count = 0;
	for (size_t i = first; i != SIZE_MAX; i = next[i]) {
		if (node->logical[i].id) {
			*place->id++ = node->logical[i].id;
			ret->id_count++;
		}
		ret->logical.task_count += node->logical[i].task_count;
	}
	for (size_t i = 0; i < ret->logical.stack_count; i++)
		merge_stack(node, next, first, i, place);
}

/* Room for as many as there are: no more come out. */
static bool make_alike_room(struct snap_alikes *alikes, const struct snap_node *node)
{
	size_t count = node->logical_count, stacks = 0, tasks = 0;

	for (size_t i = 0; i < count; i++) {
		stacks += node->logical[i].stack_count;
		for (size_t k = 0; k < node->logical[i].stack_count; k++)
			tasks += node->logical[i].stacks[k].task_count;
	}
	alikes->items = malloc((count + 1) * sizeof(*alikes->items));
	alikes->stacks = malloc((stacks + 1) * sizeof(*alikes->stacks));
	alikes->tasks = malloc((tasks + 1) * sizeof(*alikes->tasks));
	alikes->ids = malloc((count + 1) * sizeof(*alikes->ids));
	return alikes->items && alikes->stacks && alikes->tasks && alikes->ids;
}

bool snap_alikes_init(struct snap_alikes *alikes, const struct snap_node *node,
		      const struct snap_options *options)
{
	size_t count = node->logical_count;
	_cleanup_free_ size_t *firsts = malloc((count + 1) * sizeof(*firsts));
	_cleanup_free_ size_t *next = malloc((count + 1) * sizeof(*next));
	struct place place;

	*alikes = (struct snap_alikes){ .count = 0 };
	if (!firsts || !next || !make_alike_room(alikes, node))
		return false;
	memset(next, 0xff, count * sizeof(*next));
	if (!find_firsts(node, options->verbose || options->no_fold, firsts, next))
		return false;
	place = (struct place){ alikes->stacks, alikes->tasks, alikes->ids };
	memset(next, 0xff, count * sizeof(*next));
	/* From the last on, each goes right behind the first one of its kind. */
	for (size_t i = count; i-- > 0;)
		if (firsts[i] != i) {
			next[i] = next[firsts[i]];
			next[firsts[i]] = i;
		}
	for (size_t i = 0; i < count; i++)
		if (firsts[i] == i)
			merge_alike_tasks(node, next, i, &place, &alikes->items[alikes->count++]);
	return true;
}
