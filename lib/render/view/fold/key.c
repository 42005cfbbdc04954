/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What processes that fold have in common: see fold.h. A hash of all that is said of one, without
 * what is its own alone. Numbers in names, messages and titles do not count.
 */
#include "render/view/fold/parts.h"

#include "base/table.h"
#include "base/text.h"

#include <string.h>

/* Labels of threads that no report in text shows. */
static bool is_silent(const char *key)
{
	return strcmp(key, "cpu") == 0 || strcmp(key, "type") == 0;
}

static uint64_t hash_label(const struct snap_label *label, uint64_t hash)
{
	bool is_name =
		strcmp(label->key, "thread_name") == 0 || strcmp(label->key, "task_name") == 0;

	hash = snap_hash_text(label->key, hash);
	return is_name ? snap_hash_pattern(label->value, hash) : snap_hash_text(label->value, hash);
}

static uint64_t hash_fold_frame(const struct snap_frame *frame, uint64_t hash)
{
	hash = snap_hash_number(frame->trust, snap_hash_number(frame->entry_count, hash));
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];
		const char *name = entry->symbol ? entry->symbol : entry->function;

		hash = snap_hash_number(entry->line, snap_hash_text(name, hash));
		if (name)
			continue;
		hash = snap_hash_text(frame->module, hash);
		hash = snap_hash_number(frame->has_offset ? frame->offset : frame->address, hash);
	}
	return hash;
}

/* Threads and tasks in any order: which has the lower number says nothing. */
static uint64_t hash_members(const struct snap_stack *stack, const struct snap_options *options)
{
	bool all = options->explain == SNAP_EXPLAIN_ALL;
	uint64_t sum = 0;

	for (size_t i = 0; i < stack->thread_count; i++) {
		const struct snap_member *thread = &stack->threads[i];
		uint64_t hash = snap_hash_pattern(thread->name, 0);

		if (options->verbose)
			hash = snap_hash_number(thread->taken, hash);
		if (options->explain != SNAP_EXPLAIN_NO && snap_wait_is_shown(thread->wait, all))
			hash = snap_wait_hash_alike(thread->wait, hash);
		sum += snap_hash_mix(hash);
	}
	for (size_t i = 0; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];
		uint64_t hash = snap_hash_pattern(task->name, task->locked);

		sum += snap_hash_mix(snap_hash_number(task->labels_cut, hash));
	}
	return sum;
}

static uint64_t hash_stack(const struct snap_stack *stack, const struct snap_options *options,
			   uint64_t hash)
{
	hash = snap_hash_number(stack->count, snap_hash_text(stack->id, hash));
	hash = snap_hash_number(stack->unwind, snap_hash_text(stack->runtime, hash));
	hash = snap_hash_number(stack->gap_count, snap_hash_number(stack->gap_frame, hash));
	for (size_t i = 0; i < stack->label_count; i++)
		if (!is_silent(stack->labels[i].key))
			hash = hash_label(&stack->labels[i], hash);
	for (size_t i = 0; i < stack->frame_count; i++)
		hash = hash_fold_frame(stack->frames[i], hash);
	return snap_hash_number(hash_members(stack, options), hash);
}

/* An id that a program writes identifies a task; one of ours is an address, like a tid. */
static uint64_t hash_logical(const struct snap_logical *logical, const struct snap_options *options,
			     uint64_t hash)
{
	if (logical->type != SNAP_LOGICAL_TASK)
		hash = snap_hash_text(logical->name, snap_hash_text(logical->id, hash));
	hash = snap_hash_number(logical->type, snap_hash_number(logical->depth, hash));
	hash = snap_hash_number(logical->task_count, hash);
	for (size_t i = 0; i < logical->label_count; i++)
		hash = hash_label(&logical->labels[i], hash);
	for (size_t i = 0; i < logical->stack_count; i++)
		hash = hash_stack(&logical->stacks[i], options, hash);
	return hash;
}

/*
 * What a process has written over its arguments: "postgres: app shop [local] idle". That tells what
 * it does; arguments tell what it was asked for.
 */
static const char *title_of(const struct snap_node *node)
{
	return node->arg_count == 1 && strstr(node->args[0], ": ") ? node->args[0] : NULL;
}

/* Without a program there must be another reason to take processes for the same. */
static bool is_comparable(const struct snap_node *node)
{
	switch (node->type) {
	case SNAP_TYPE_KERNEL:
	case SNAP_TYPE_DEAD:
		return true;
	case SNAP_TYPE_NORMAL:
	case SNAP_TYPE_SYSTEM:
		return node->exe;
	case SNAP_TYPE_NONE:
		break;
	}
	return false;
}

static uint64_t hash_facts(const struct snap_node *node, const struct snap_options *options)
{
	uint64_t hash = snap_hash_number(node->type, 0);

	if (!is_comparable(node))
		hash = snap_hash_number((uint64_t)node->pid, hash);
	/* The kernel's threads have no program but the kernel, and names without number. */
	if (node->type != SNAP_TYPE_KERNEL)
		hash = snap_hash_pattern(node->name, hash);
	hash = snap_hash_text(node->exe, hash);
	hash = snap_hash_pattern(title_of(node), hash);
	hash = snap_hash_text(node->user, snap_hash_number(node->uid, hash));
	hash = snap_hash_text(node->container, snap_hash_text(node->unit, hash));
	if (options->verbose)
		hash = snap_hash_text(node->cgroup, hash);
	hash = snap_hash_number(node->trouble, snap_hash_pattern(node->trouble_message, hash));
	/* Threads tell theirs with their stacks; those of the kernel that sleep are idle. */
	if (node->type == SNAP_TYPE_KERNEL)
		hash = snap_hash_number(node->state == SNAP_STATE_DISK, hash);
	else if (node->stack_count == 0)
		hash = snap_hash_number(node->state, hash);
	return hash;
}

/* The query of a request is shown where all have the same: it is mostly some user's number. */
static bool is_own_label(const char *key)
{
	return strcmp(key, "query_string") == 0;
}

static uint64_t hash_rest(const struct snap_node *node, uint64_t hash)
{
	for (size_t i = 0; i < node->label_count; i++)
		if (!is_own_label(node->labels[i].key))
			hash = hash_label(&node->labels[i], hash);
	for (size_t i = 0; i < node->runtime_count; i++) {
		const struct snap_node_runtime *runtime = &node->runtimes[i];

		hash = snap_hash_text(runtime->version, snap_hash_text(runtime->name, hash));
		hash = snap_hash_number(runtime->gil_count, snap_hash_number(runtime->cut, hash));
		hash = snap_hash_number(runtime->idle_threads != 0, hash);
	}
	hash = snap_hash_number(node->threads_missed, hash);
	return snap_hash_number(node->task_count, hash);
}

uint64_t snap_fold_key(const struct snap_node *node, const struct snap_options *options)
{
	uint64_t hash = hash_rest(node, hash_facts(node, options));

	for (size_t i = 0; i < node->stack_count; i++)
		hash = hash_stack(&node->stacks[i], options, hash);
	for (size_t i = 0; i < node->logical_count; i++)
		hash = hash_logical(&node->logical[i], options, hash);
	return hash;
}

static bool have_same_stacks(const struct snap_stack *a, size_t a_count, const struct snap_stack *b,
			     size_t b_count)
{
	return a_count == b_count &&
	       snap_all(a_count, i,
			strcmp(a[i].id, b[i].id) == 0 && a[i].thread_count == b[i].thread_count &&
				a[i].task_count == b[i].task_count);
}

bool snap_fold_has_same_shape(const struct snap_node *a, const struct snap_node *b)
{
	if (a->type != b->type || !snap_same_text(a->exe, b->exe) ||
	    a->runtime_count != b->runtime_count || a->logical_count != b->logical_count ||
	    a->child_count != b->child_count ||
	    !have_same_stacks(a->stacks, a->stack_count, b->stacks, b->stack_count))
		return false;
	return snap_all(a->logical_count, i,
			have_same_stacks(a->logical[i].stacks, a->logical[i].stack_count,
					 b->logical[i].stacks, b->logical[i].stack_count));
}
