/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API's groups of a recording: see stacksnap.h.
 *
 * The same groups as in the recording's JSON, as plain structs for programs that show them in their
 * own way. Knows nothing of the order in which they are shown, nor of terminals.
 */
#include "api/api.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"
#include "model/wait/kind.h"
#include "render/view/own.h"
#include "render/view/profile.h"
#include "render/view/recorded/groups.h"
#include "render/view/walk.h"
#include "render/wait/circles.h"
#include "render/wait/holders.h"
#include "render/wait/object.h"
#include "render/wait/table.h"

#include <inttypes.h>
#include <string.h>

/* Objects and their holders that are looked for: more fit no screen. */
static const struct snap_waited_most most_waited = { .owed = 64, .holders = 4 };

/* A group, and where its frames are. */
struct row {
	struct stacksnap_group shown;
	const struct snap_stack *stack;
};

struct stacksnap_groups {
	struct snap_recorded_groups inner;
	struct snap_profile profile;
	struct snap_waited waited; /* with holders, for the most important objects */
	struct row *rows;
	size_t count, capacity;
	const char **deadlocks; /* lines, in the profile's arena */
	size_t deadlock_count;
};

API void stacksnap_groups_destroy(struct stacksnap_groups *groups)
{
	if (!groups)
		return;
	snap_waited_deinit(&groups->waited);
	snap_profile_deinit(&groups->profile);
	snap_recorded_groups_deinit(&groups->inner);
	free(groups->rows);
	free(groups);
}

static void destroy_groups(struct stacksnap_groups **groups)
{
	stacksnap_groups_destroy(*groups);
}

/* True without memory alone; NULL and "" are nothing to tell. */
static bool fails_to_escape(struct stacksnap_groups *groups, const char *text, const char **ret)
{
	if (!text || !*text)
		return false;
	*ret = snap_profile_escaped(&groups->profile, text);
	return !*ret;
}

/* Takes over a malloc'ed text, NULL: there was no memory. */
static bool keep_text(struct stacksnap_groups *groups, char *text, const char **ret)
{
	/* Escaping may give back what it was given. */
	const char *kept = text ? snap_arena_strdup(&groups->profile.arena, text) : NULL;

	free(text);
	return kept && !fails_to_escape(groups, kept, ret);
}

static bool name_wait(struct stacksnap_groups *groups, const struct snap_stack *stack,
		      const char **ret)
{
	if (!stack->wait)
		return !fails_to_escape(groups, snap_stack_label(stack, "wait"), ret);
	return keep_text(groups, snap_waited_text(stack->wait), ret);
}

/* What one of the threads waits for, whose holder is known; NULL: none does. */
static const struct snap_waited_row *find_held(const struct stacksnap_groups *groups,
					       const struct snap_stack *stack)
{
	const struct snap_waited_part *owed = &groups->waited.owed;

	for (size_t i = 0; i < stack->thread_count; i++)
		for (size_t k = 0; stack->threads[i].wait && k < owed->row_count; k++)
			if (owed->rows[k].wait == stack->threads[i].wait &&
			    owed->rows[k].holder_count)
				return &owed->rows[k];
	return NULL;
}

/* Whether one of its threads had, there, a lock that others waited for; not the one that it waits for. */
static bool has_lock(const struct stacksnap_groups *groups, pid_t pid,
		     const struct snap_stack *stack, const struct snap_waited_row *awaited)
{
	const char *function = snap_holder_function(stack->frames, stack->frame_count);

	for (size_t i = 0; function && i < groups->waited.owed.row_count; i++) {
		const struct snap_waited_row *row = &groups->waited.owed.rows[i];

		for (size_t k = 0; row != awaited && k < row->holder_count; k++)
			if (row->holders[k].pid == pid && row->holders[k].function &&
			    strcmp(row->holders[k].function, function) == 0 &&
			    snap_wait_kind_is(row->wait->kind, SNAP_KIND_LOCK) &&
			    snap_stack_has_thread(stack, row->holders[k].tid))
				return true;
	}
	return false;
}

static bool name_holder(struct stacksnap_groups *groups, pid_t pid, const struct snap_stack *stack,
			struct stacksnap_group *shown)
{
	const struct snap_waited_row *held = find_held(groups, stack);

	shown->has_lock = has_lock(groups, pid, stack, held);
	shown->waits_for_lock = held && snap_wait_kind_is(held->wait->kind, SNAP_KIND_LOCK);
	return !held || !stack->wait ||
	       keep_text(groups, snap_waited_holder_text(held, &held->holders[0]), &shown->holder);
}

/* Its function and, where that is another, the innermost one. */
static bool name_functions(struct stacksnap_groups *groups, const struct snap_stack *stack,
			   struct stacksnap_group *shown)
{
	size_t entry = 0;
	const struct snap_frame *own = snap_own_frame(stack->frames, stack->frame_count, &entry);
	const struct snap_frame *leaf = stack->frame_count ? stack->frames[0] : NULL;

	shown->function = leaf ? snap_profile_brief_name(&groups->profile, leaf, 0)
			       : snap_profile_why_empty(stack->unwind);
	if (!shown->function)
		return false;
	if (!own || (own == leaf && entry == 0))
		return true;
	shown->leaf = shown->function;
	shown->function = snap_profile_brief_name(&groups->profile, own, entry);
	return shown->function;
}

static bool fill_row(struct stacksnap_groups *groups, const struct snap_node *node,
		     const struct snap_stack *stack, struct row *row)
{
	struct stacksnap_group *shown = &row->shown;

	*row = (struct row){ .stack = stack };
	shown->id = stack->id;
	shown->pid = node->pid;
	shown->process = "?";
	shown->unwind = snap_unwind_word(stack->unwind);
	shown->is_task = stack->runtime != NULL;
	shown->samples = stack->samples;
	shown->count = stack->count;
	for (size_t i = 0; i < stack->frame_count; i++)
		shown->frame_count += stack->frames[i]->entry_count;
	return !fails_to_escape(groups, node->name, &shown->process) &&
	       !fails_to_escape(groups, snap_stack_label(stack, "thread_name"), &shown->threads) &&
	       !fails_to_escape(groups, snap_stack_label(stack, "state"), &shown->state) &&
	       !fails_to_escape(groups, snap_stack_label(stack, "syscall"), &shown->syscall) &&
	       name_wait(groups, stack, &shown->wait) &&
	       name_holder(groups, node->pid, stack, shown) && name_functions(groups, stack, shown);
}

static bool add_node(struct stacksnap_groups *groups, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor))) {
		if (!snap_reserve_array(groups->rows, groups->capacity, groups->count + 1) ||
		    !fill_row(groups, node, stack, &groups->rows[groups->count]))
			return false;
		groups->count++;
	}
	return true;
}

static bool add_nodes(struct stacksnap_groups *groups)
{
	struct snap_walk walk;
	struct snap_walk_step step;
	bool fine = true;

	snap_walk_init(&walk, &groups->inner.snapshot);
	while (fine && snap_walk_next(&walk, &step))
		if (!step.leave)
			fine = add_node(groups, step.node);
	fine = fine && !walk.failed;
	snap_walk_deinit(&walk);
	return fine;
}

static struct stacksnap_error *name_deadlocks(struct stacksnap_groups *groups,
					      const struct snap_options *options)
{
	_cleanup_(snap_circles_deinit) struct snap_circles circles;
	struct stacksnap_error *err =
		snap_circles_init(&circles, groups->profile.recording, options);
	const struct snap_waits *waits = &circles.waits;

	if (err || !waits->deadlock_count)
		return err;
	groups->deadlocks =
		snap_arena_new_array(&groups->profile.arena, waits->deadlock_count, const char *);
	for (size_t i = 0; groups->deadlocks && i < waits->deadlock_count; i++)
		if (!keep_text(groups, snap_circle_line(&waits->deadlocks[i]),
			       &groups->deadlocks[groups->deadlock_count++]))
			return snap_error_no_memory();
	return groups->deadlocks ? NULL : snap_error_no_memory();
}

SNAP_ORDER(by_samples, struct row, a, b, snap_stack_compare_weight(a->stack, b->stack),
	   strcmp(a->shown.id, b->shown.id), snap_compare(a->shown.pid, b->shown.pid));

API struct stacksnap_error *stacksnap_groups_create(const struct stacksnap_recording *recording,
						    const struct stacksnap_options *options,
						    struct stacksnap_groups **ret)
{
	_cleanup_(destroy_groups) struct stacksnap_groups *groups = calloc(1, sizeof(*groups));
	const struct snap_recording *inner = snap_api_recording(recording);
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(groups));
	err = snap_profile_init(&groups->profile, inner);
	snap_profile_shorten_names(&groups->profile, &options->values);
	err = err ?: snap_recorded_groups_init(&groups->inner, inner, &options->values);
	err = err ?: snap_waited_init(&groups->waited, inner, &options->values, most_waited);
	err = err ?: name_deadlocks(groups, &options->values);
	if (!err && !add_nodes(groups))
		err = snap_error_no_memory();
	if (err)
		return err;
	if (groups->count)
		qsort(groups->rows, groups->count, sizeof(*groups->rows), by_samples);
	*ret = snap_take_ptr(groups);
	return NULL;
}

API unsigned long long stacksnap_groups_samples(const struct stacksnap_groups *groups)
{
	return groups->inner.samples;
}

API size_t stacksnap_groups_ticks(const struct stacksnap_groups *groups)
{
	return groups->profile.recording->tick_count;
}

API const struct stacksnap_group *stacksnap_groups_get(const struct stacksnap_groups *groups,
						       size_t index)
{
	return index < groups->count ? &groups->rows[index].shown : NULL;
}

/* Where a function stands: "src/queue.c:57", "libc.so.6"; NULL: not known, or no memory. */
static const char *name_place(struct stacksnap_groups *groups, const struct snap_frame *frame,
			      const struct snap_entry *entry)
{
	struct snap_profile *profile = &groups->profile;
	const char *file;

	if (!entry->file)
		return frame->module ? snap_profile_escaped(profile, snap_base_name(frame->module))
				     : NULL;
	file = snap_profile_escaped(profile, entry->file);
	if (!file || !entry->line)
		return file;
	return snap_arena_printf(&profile->arena, "%s:%" PRIu32, file, entry->line);
}

API const char *stacksnap_groups_frame(struct stacksnap_groups *groups, size_t index, size_t frame,
				       const char **place_ret)
{
	const struct snap_stack *stack;

	if (index >= groups->count)
		return NULL;
	stack = groups->rows[index].stack;
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct snap_frame *of = stack->frames[i];

		if (frame >= of->entry_count) {
			frame -= of->entry_count;
			continue;
		}
		if (place_ret)
			*place_ret = name_place(groups, of, &of->entries[frame]);
		return snap_profile_name(&groups->profile, of, frame);
	}
	return NULL;
}

API const char *stacksnap_groups_deadlock(const struct stacksnap_groups *groups, size_t index)
{
	return index < groups->deadlock_count ? groups->deadlocks[index] : NULL;
}
