/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filters: see filter.h. The words system and idle are those of classify.c.
 */
#include "analyze/filter.h"

#include "analyze/classify.h"
#include "analyze/internal.h"

static bool frame_matches(const regex_t *regex, const struct snap_frame *frame)
{
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		if (entry->function && regexec(regex, entry->function, 0, NULL, 0) == 0)
			return true;
		if (entry->symbol && entry->symbol != entry->function &&
		    regexec(regex, entry->symbol, 0, NULL, 0) == 0)
			return true;
	}
	return false;
}

static bool stack_matches(const regex_t *regex, const struct snap_raw_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++)
		if ((i == 0 || stack->frames[i] != stack->frames[i - 1]) &&
		    frame_matches(regex, stack->frames[i]))
			return true;
	return false;
}

/*
 * The innermost function that is not system code, or the system function that it called: one of
 * them is a wait for work. A stack of system code alone is idle, one without frames is not.
 */
static bool is_idle(const struct snap_raw_stack *stack)
{
	const struct snap_entry *called = NULL;

	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			const struct snap_entry *entry = &frame->entries[k];

			if (entry->kernel)
				continue;
			if (!entry->system)
				return snap_classify_waits_for_work(entry->function) ||
				       (called && snap_classify_waits_for_work(called->function));
			called = entry;
		}
	}
	return called != NULL;
}

struct snap_filter_stack snap_filter_look(const struct snap_options *options,
					  const struct snap_raw_stack *stack)
{
	return (struct snap_filter_stack){
		.matches = !options->match_regex || stack_matches(options->match_regex, stack),
		.idle = options->no_idle && is_idle(stack),
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

	if (!filtered || node->stack_count)
		return false;
	/* What could not be read might have matched: it stays, unless it has no threads at all. */
	return !node->trouble || node->type == SNAP_TYPE_DEAD || node->type == SNAP_TYPE_KERNEL;
}
