/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filters: see filter.h. The words system and idle are those of classify.c. A snapshot that was
 * made without filters is filtered later: threads are removed from their groups, empty groups are
 * removed, and groups that lost a thread get new labels.
 */
#include "analyze/filter.h"

#include "analyze/classify.h"
#include "analyze/function_name.h"
#include "analyze/task/task.h"
#include "analyze/tree.h"
#include "base/buffer.h"
#include "model/group_label.h"

/* As it is shown, or as it stands in the source: "^parse$" means "parse.constprop.0", too. */
static bool name_matches(const regex_t *regex, const char *name)
{
	char own[SNAP_MAX_NAME];
	size_t length = snap_function_name_length(name);

	if (regexec(regex, name, 0, NULL, 0) == 0)
		return true;
	if (!name[length] || length >= sizeof(own))
		return false;
	memcpy(own, name, length);
	own[length] = '\0';
	return regexec(regex, own, 0, NULL, 0) == 0;
}

static bool frame_matches(const regex_t *regex, const struct snap_frame *frame)
{
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		if (entry->function && name_matches(regex, entry->function))
			return true;
		if (entry->symbol && entry->symbol != entry->function &&
		    name_matches(regex, entry->symbol))
			return true;
	}
	return false;
}

static bool stack_matches(const regex_t *regex, const struct snap_frame **frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((i == 0 || frames[i] != frames[i - 1]) && frame_matches(regex, frames[i]))
			return true;
	return false;
}

/*
 * The innermost function that is not system code, or the system function that it called: one of
 * them is a wait for work. A stack of system code alone is idle, one without frames is not.
 */
static bool is_stack_idle(const struct snap_frame **frames, size_t count)
{
	const struct snap_entry *called = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct snap_frame *frame = frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			const struct snap_entry *entry = &frame->entries[k];

			if (entry->kernel)
				continue;
			if (!entry->system)
				return snap_classify_waits_for_work(entry->function) ||
				       (called && snap_classify_waits_for_work(called->function));
			/* A library of the language stands between, and calls it on behalf. */
			if (!entry->language || !called || called->language)
				called = entry;
		}
	}
	return called != NULL;
}

struct snap_filter_stack snap_filter_check_stack(const struct snap_options *options,
						 const struct snap_frame **frames, size_t count)
{
	return (struct snap_filter_stack){
		.matches =
			!options->match_regex || stack_matches(options->match_regex, frames, count),
		.idle = options->no_idle && is_stack_idle(frames, count),
	};
}

bool snap_filter_shows_thread(const struct snap_options *options, const struct snap_member *member,
			      const struct snap_filter_stack *stack)
{
	if (options->states && !(options->states & 1u << member->state))
		return false;
	if (options->thread_regex &&
	    regexec(options->thread_regex, member->name ? member->name : "", 0, NULL, 0) != 0)
		return false;
	if (options->no_system && member->kernel)
		return false;
	/* "idle" is also the kernel's word for its own threads that wait without load. */
	if (options->no_idle && (member->state == SNAP_STATE_IDLE ||
				 (member->state == SNAP_STATE_SLEEPING && stack->idle)))
		return false;
	return stack->matches;
}

bool snap_filter_hides_type(const struct snap_options *options, const struct snap_node *node)
{
	return options->no_system &&
	       (node->type == SNAP_TYPE_SYSTEM || node->type == SNAP_TYPE_KERNEL ||
		node->type == SNAP_TYPE_NONE);
}

bool snap_filter_is_empty(const struct snap_options *options, const struct snap_node *node)
{
	bool filtered = options->states || options->thread_regex || options->match_regex ||
			options->no_idle;

	if (!filtered || snap_node_stack_count(node))
		return false;
	/* What could not be read might have matched: it stays, unless it has no threads at all. */
	return !node->trouble || node->type == SNAP_TYPE_DEAD || node->type == SNAP_TYPE_KERNEL;
}

/* ---- a whole snapshot ---- */

struct filtering {
	const struct snap_options *options;
	struct snap_interner strings;
	struct snap_node **nodes; /* parents before their children */
	size_t *parents;
	size_t count, node_capacity, parent_capacity;
};

static void filtering_deinit(struct filtering *filtering)
{
	snap_interner_deinit(&filtering->strings);
	free(filtering->nodes);
	free(filtering->parents);
}

static bool list_siblings(struct filtering *filtering, struct snap_node **nodes, size_t count,
			  size_t parent)
{
	for (size_t i = 0; i < count; i++) {
		if (!snap_reserve_array(filtering->nodes, filtering->node_capacity,
					filtering->count + 1) ||
		    !snap_reserve_array(filtering->parents, filtering->parent_capacity,
					filtering->count + 1))
			return false;
		filtering->nodes[filtering->count] = nodes[i];
		filtering->parents[filtering->count++] = parent;
	}
	return true;
}

/* All processes, and takes the tree apart. */
static bool list_nodes(struct filtering *filtering, const struct snap_snapshot *snapshot)
{
	if (!list_siblings(filtering, snapshot->processes, snapshot->root_count, SIZE_MAX))
		return false;
	for (size_t i = 0; i < filtering->count; i++) {
		struct snap_node *node = filtering->nodes[i];

		if (!list_siblings(filtering, node->children, node->child_count, i))
			return false;
		node->children = NULL;
		node->child_count = 0;
	}
	return true;
}

/* False without memory. */
static bool filter_stack(struct filtering *filtering, struct snap_stack *stack)
{
	struct snap_filter_stack facts =
		snap_filter_check_stack(filtering->options, stack->frames, stack->frame_count);
	size_t kept = 0;

	for (size_t i = 0; i < stack->thread_count; i++)
		if (snap_filter_shows_thread(filtering->options, &stack->threads[i], &facts))
			stack->threads[kept++] = stack->threads[i];
	if (kept == stack->thread_count)
		return true;
	stack->count = stack->thread_count = kept;
	return kept == 0 || snap_label_stack(&filtering->strings, stack);
}

static bool filter_node(struct filtering *filtering, struct snap_node *node)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->stack_count; i++) {
		if (!node->stacks[i].runtime && !filter_stack(filtering, &node->stacks[i]))
			return false;
		if (node->stacks[i].count)
			node->stacks[kept++] = node->stacks[i];
	}
	node->stack_count = kept;
	if (kept)
		qsort(node->stacks, kept, sizeof(*node->stacks), snap_stack_compare);
	return true;
}

struct stacksnap_error *snap_filter_snapshot(struct snap_snapshot *snapshot,
					     const struct snap_options *options)
{
	_cleanup_(filtering_deinit) struct filtering filtering = { .options = options };
	bool flat = snapshot->flat;
	struct stacksnap_error *err;

	snap_interner_init(&filtering.strings, &snapshot->arena);
	if (!list_nodes(&filtering, snapshot))
		return snap_error_no_memory();
	for (size_t i = 0; i < filtering.count; i++) {
		if (!filter_node(&filtering, filtering.nodes[i]))
			return snap_error_no_memory();
		err = snap_task_filter_node(&filtering.strings, options, filtering.nodes[i]);
		if (err)
			return err;
	}
	snapshot->processes = NULL;
	snapshot->root_count = 0;
	snapshot->process_count = snapshot->thread_count = snapshot->stack_count = 0;
	snapshot->task_count = 0;
	err = snap_tree_build(snapshot, options, filtering.nodes, filtering.parents,
			      filtering.count);
	if (err)
		return err;
	snapshot->flat = flat || options->flat;
	return NULL;
}
