/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See together.h. Nothing recurses, as the target decides how deep the tree is. */
#include "render/view/together.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"
#include "model/group_label.h"
#include "model/task_label.h"
#include "render/view/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A group of one process. */
struct part {
	uint64_t key;
	const struct snap_node *node;
	const struct snap_stack *stack;
	size_t number;
};

/* A thread or task on its way into a group of all. */
struct place {
	pid_t pid;
	struct snap_member thread;
	struct snap_task task;
	uint64_t samples;
};

struct joining {
	struct snap_together *together;
	const struct snap_options *options;
	struct snap_interner strings;
	struct part *parts;
	size_t part_count, part_capacity, empty_capacity;
};

static void joining_deinit(struct joining *joining)
{
	snap_interner_deinit(&joining->strings);
	free(joining->parts);
}

static bool has_joined_name(const struct snap_frame *frame)
{
	return snap_any(frame->entry_count, i,
			frame->entries[i].symbol || frame->entries[i].function);
}

/* Code that is in no file and has no name is where it is in one process only. */
static bool is_private(const struct snap_stack *stack)
{
	return snap_any(stack->frame_count, i,
			!stack->frames[i]->module && !has_joined_name(stack->frames[i]));
}

/* What --group-by label:KEY asks for, where it is a label of the process and not of its groups. */
static const char *process_label(const struct snap_node *node, const struct snap_stack *stack,
				 const char *key)
{
	if (stack->runtime || snap_stack_label(stack, key))
		return NULL;
	for (size_t i = 0; i < node->label_count; i++)
		if (strcmp(node->labels[i].key, key) == 0)
			return node->labels[i].value;
	return NULL;
}

/* An id says nothing of such labels. */
static uint64_t add_process_labels(const struct snap_options *options, const struct snap_node *node,
				   const struct snap_stack *stack, uint64_t key)
{
	for (size_t i = 0; i < options->group_label_count; i++) {
		const char *value = process_label(node, stack, options->group_labels[i]);

		if (value)
			key = snap_hash_text(value, snap_hash_number(i, key));
	}
	return key;
}

static bool add_parts(struct joining *joining, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor))) {
		size_t number = joining->part_count;
		uint64_t key = strtoull(stack->id, NULL, 16);

		if (!snap_reserve_array(joining->parts, joining->part_capacity, number + 1))
			return false;
		if (is_private(stack))
			key = snap_hash_number((uint64_t)node->pid, key);
		key = add_process_labels(joining->options, node, stack, key);
		joining->parts[joining->part_count++] = (struct part){ key, node, stack, number };
	}
	return true;
}

SNAP_ORDER(compare_parts, struct part, a, b, snap_compare(a->key, b->key),
	   snap_compare(a->number, b->number));

/* Tasks by their process, threads by their tid. */
SNAP_ORDER(compare_places, struct place, a, b,
	   a->task.id ? 0 : snap_compare(a->thread.tid, b->thread.tid),
	   snap_compare(a->pid, b->pid),
	   a->task.id ? snap_task_compare_ids(a->task.id, b->task.id) : 0);

static bool same_frame(const struct snap_frame *a, const struct snap_frame *b)
{
	if (!has_joined_name(a) || !has_joined_name(b))
		return !has_joined_name(a) && !has_joined_name(b) &&
		       snap_same_text(a->module, b->module) && a->offset == b->offset &&
		       (a->has_offset || a->address == b->address);
	if (a->entry_count != b->entry_count)
		return false;
	for (size_t i = 0; i < a->entry_count; i++) {
		const struct snap_entry *x = &a->entries[i], *y = &b->entries[i];

		if (x->line != y->line || !snap_same_text(x->symbol ? x->symbol : x->function,
							  y->symbol ? y->symbol : y->function))
			return false;
	}
	return true;
}

/* Without the stack in --group-by: the outermost part that all have in common. */
static void keep_common_part(struct snap_stack *stack, const struct snap_stack *other)
{
	size_t common = 0;

	while (common < stack->frame_count && common < other->frame_count &&
	       same_frame(stack->frames[stack->frame_count - 1 - common],
			  other->frames[other->frame_count - 1 - common]))
		common++;
	if (common == stack->frame_count && common == other->frame_count)
		return;
	if (stack->unwind != other->unwind)
		stack->unwind = SNAP_UNWIND_FAILED;
	stack->unwind_detail = "the innermost frames differ and are left out";
	stack->gap_count = 0;
	stack->gap_frame = 0;
	stack->frames += stack->frame_count - common;
	stack->frame_count = common;
	if (!snap_same_text(stack->description, other->description))
		stack->description = "(unknown)";
}

/* Equal stacks are shown as the least trusted one. */
static const struct snap_stack *choose_stack(const struct part *parts, size_t count)
{
	const struct snap_stack *chosen = parts[0].stack;

	for (size_t i = 1; i < count; i++)
		if (snap_frames_doubt(parts[i].stack->frames, parts[i].stack->frame_count) >
		    snap_frames_doubt(chosen->frames, chosen->frame_count))
			chosen = parts[i].stack;
	return chosen;
}

static size_t list_places(const struct part *parts, size_t count, struct place *places)
{
	size_t listed = 0;

	for (size_t i = 0; i < count; i++) {
		const struct snap_stack *stack = parts[i].stack;
		size_t members = stack->runtime ? stack->task_count : stack->thread_count;

		for (size_t k = 0; k < members; k++) {
			struct place *place = &places[listed++];

			*place = (struct place){ .pid = parts[i].node->pid };
			if (stack->runtime)
				place->task = stack->tasks[k];
			else
				place->thread = stack->threads[k];
			if (stack->thread_samples)
				place->samples = stack->thread_samples[k];
		}
	}
	qsort(places, listed, sizeof(*places), compare_places);
	return listed;
}

static bool put_places(struct snap_arena *arena, const struct place *places, size_t count,
		       bool sampled, struct snap_stack *stack)
{
	uint64_t *samples = snap_arena_new_array(arena, count + 1, uint64_t);

	stack->pids = snap_arena_new_array(arena, count + 1, pid_t);
	stack->threads = NULL;
	stack->tasks = NULL;
	stack->thread_count = stack->task_count = 0;
	if (stack->runtime)
		stack->tasks = snap_arena_new_array(arena, count + 1, struct snap_task);
	else
		stack->threads = snap_arena_new_array(arena, count + 1, struct snap_member);
	if (!samples || !stack->pids || (!stack->tasks && !stack->threads))
		return false;
	for (size_t i = 0; i < count; i++) {
		stack->pids[i] = places[i].pid;
		samples[i] = places[i].samples;
		if (stack->runtime)
			stack->tasks[stack->task_count++] = places[i].task;
		else
			stack->threads[stack->thread_count++] = places[i].thread;
	}
	stack->thread_samples = sampled ? samples : NULL;
	return true;
}

static bool add_samples(struct snap_arena *arena, const struct part *parts, size_t count,
			struct snap_stack *stack)
{
	uint64_t *states;

	stack->count = stack->samples = 0;
	for (size_t i = 0; i < count; i++) {
		stack->count += parts[i].stack->count;
		stack->samples += parts[i].stack->samples;
	}
	if (!stack->state_samples)
		return true;
	states = snap_arena_new_array(arena, SNAP_STATE_COUNT, uint64_t);
	for (size_t i = 0; states && i < count; i++)
		for (unsigned k = 0; parts[i].stack->state_samples && k < SNAP_STATE_COUNT; k++)
			states[k] += parts[i].stack->state_samples[k];
	stack->state_samples = states;
	return states;
}

/* Of recordings stacks have labels of their own, which are a part of what is grouped by. */
static bool keep_own_labels(struct snap_arena *arena, struct snap_stack *stack)
{
	static const char *const ours[] = { "state", "thread_name", "syscall",
					    "wchan", "cpu",         "type" };
	struct snap_label *labels =
		snap_arena_new_array(arena, stack->label_count + 1, struct snap_label);
	size_t kept = 0;

	for (size_t i = 0; labels && i < stack->label_count; i++) {
		bool own = true;

		for (size_t k = 0; k < SNAP_ARRAY_SIZE(ours); k++)
			own = own && strcmp(stack->labels[i].key, ours[k]) != 0;
		if (own)
			labels[kept++] = stack->labels[i];
	}
	stack->labels = labels;
	stack->label_count = kept;
	return labels;
}

static bool label(struct joining *joining, struct snap_stack *stack)
{
	size_t states = 0, kept = 0;

	if (stack->runtime)
		return snap_task_label_stack(&joining->strings, joining->options, stack, false);
	if (!keep_own_labels(&joining->together->arena, stack) ||
	    !snap_label_stack(&joining->strings, stack))
		return false;
	/* A thread of a recording has been in several states. */
	for (unsigned i = 0; stack->state_samples && i < SNAP_STATE_COUNT; i++)
		states += stack->state_samples[i] > 0;
	for (size_t i = 0; i < stack->label_count; i++)
		if (states <= 1 || strcmp(stack->labels[i].key, "state") != 0)
			stack->labels[kept++] = stack->labels[i];
	stack->label_count = kept;
	return true;
}

/* All of a group have the same, as they are a part of its key. */
static bool show_process_labels(struct joining *joining, const struct part *part,
				struct snap_stack *stack)
{
	const struct snap_options *options = joining->options;
	struct snap_label *labels;

	if (stack->runtime || options->group_label_count == 0)
		return true;
	labels = snap_arena_new_array(&joining->together->arena,
				      stack->label_count + options->group_label_count,
				      struct snap_label);
	if (!labels)
		return false;
	if (stack->label_count)
		memcpy(labels, stack->labels, stack->label_count * sizeof(*labels));
	stack->labels = labels;
	for (size_t i = 0; i < options->group_label_count; i++) {
		const char *key = options->group_labels[i],
			   *value = process_label(part->node, part->stack, key);

		if (value && !snap_stack_label(stack, key))
			labels[stack->label_count++] = (struct snap_label){ key, value };
	}
	return true;
}

static bool join(struct joining *joining, const struct part *parts, size_t count,
		 struct snap_stack *stack)
{
	struct snap_arena *arena = &joining->together->arena;
	_cleanup_free_ struct place *places = NULL;
	size_t members =
		snap_sum(count, i, parts[i].stack->thread_count + parts[i].stack->task_count);

	places = malloc((members + 1) * sizeof(*places));
	if (!places)
		return false;
	*stack = *choose_stack(parts, count);
	snprintf(stack->id, sizeof(stack->id), "%016" PRIx64, parts[0].key);
	stack->wait = parts[0].stack->wait;
	for (size_t i = 0; i < count; i++) {
		const struct snap_wait *wait = parts[i].stack->wait;

		if (!wait || !stack->wait || !snap_wait_same(wait, stack->wait))
			stack->wait = NULL;
		if (parts[i].stack->urgency < stack->urgency)
			stack->urgency = parts[i].stack->urgency;
		keep_common_part(stack, parts[i].stack);
	}
	members = list_places(parts, count, places);
	return add_samples(arena, parts, count, stack) &&
	       put_places(arena, places, members, stack->thread_samples, stack) &&
	       label(joining, stack) && show_process_labels(joining, &parts[0], stack);
}

static bool join_parts(struct joining *joining)
{
	struct snap_together *together = joining->together;
	size_t count = joining->part_count;

	together->stacks = snap_arena_new_array(&together->arena, count + 1, struct snap_stack);
	if (!together->stacks)
		return false;
	if (count)
		qsort(joining->parts, count, sizeof(*joining->parts), compare_parts);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && joining->parts[end].key == joining->parts[i].key;)
			end++;
		if (!join(joining, joining->parts + i, end - i,
			  &together->stacks[together->stack_count++]))
			return false;
	}
	if (together->stack_count)
		qsort(together->stacks, together->stack_count, sizeof(*together->stacks),
		      snap_stack_compare);
	return true;
}

/* ---- processes ---- */

static struct snap_node *copy_bare(struct snap_arena *arena, const struct snap_node *from)
{
	struct snap_node *node = snap_arena_memdup(arena, from, sizeof(*from));

	if (!node)
		return NULL;
	node->stacks = NULL;
	node->stack_count = 0;
	node->logical = NULL;
	node->logical_count = 0;
	return node;
}

static bool note_empty(struct joining *joining, const struct snap_node *from)
{
	struct snap_together *together = joining->together;
	struct snap_node *node;

	if (snap_node_stack_count(from))
		return true;
	node = copy_bare(&together->arena, from);
	if (!node || !snap_reserve_array(together->empty, joining->empty_capacity,
					 together->empty_count + 1))
		return false;
	node->children = NULL;
	node->child_count = 0;
	together->empty[together->empty_count++] = node;
	return true;
}

/* Copies of nodes; each is then given copies of its children. False without memory. */
static bool copy_list(struct snap_arena *arena, struct snap_node ***nodes, size_t count)
{
	struct snap_node **copies = snap_arena_new_array(arena, count + 1, struct snap_node *);

	for (size_t i = 0; copies && i < count; i++) {
		copies[i] = copy_bare(arena, (*nodes)[i]);
		if (!copies[i])
			return false;
	}
	*nodes = copies;
	return copies;
}

static bool copy_tree(struct snap_together *together)
{
	struct snap_snapshot *view = &together->snapshot;
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	if (!copy_list(&together->arena, &view->processes, view->root_count))
		return false;
	snap_walk_init(&walk, view);
	for (size_t i = 0; i < view->root_count; i++)
		if (!copy_list(&together->arena, &view->processes[i]->children,
			       view->processes[i]->child_count))
			return false;
	while (snap_walk_next(&walk, &step))
		for (size_t i = 0; !step.leave && i < step.node->child_count; i++) {
			struct snap_node *child = step.node->children[i];

			if (!copy_list(&together->arena, &child->children, child->child_count))
				return false;
		}
	return !walk.failed;
}

static bool gather(struct joining *joining, const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step))
		if (!step.leave &&
		    (!add_parts(joining, step.node) || !note_empty(joining, step.node)))
			return false;
	return !walk.failed;
}

bool snap_together_init(struct snap_together *together, const struct snap_snapshot *snapshot,
			const struct snap_options *options)
{
	_cleanup_(joining_deinit) struct joining joining = { .together = together,
							     .options = options };

	*together = (struct snap_together){ .snapshot = *snapshot };
	snap_arena_init(&together->arena);
	snap_interner_init(&joining.strings, &together->arena);
	if (!options->together)
		return true;
	if (!gather(&joining, snapshot) || !join_parts(&joining) || !copy_tree(together))
		return false;
	together->snapshot.stack_count = together->stack_count;
	return true;
}

void snap_together_deinit(struct snap_together *together)
{
	free(together->empty);
	snap_arena_deinit(&together->arena);
}
