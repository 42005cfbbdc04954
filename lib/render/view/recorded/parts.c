/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See parts.h. */
#include "render/view/recorded/parts.h"

#include "base/table.h"
#include "model/group_label.h"
#include "model/task_label.h"

#include <inttypes.h>
#include <stdlib.h>

uint64_t *snap_recorded_ids(const struct snap_recording *recording)
{
	uint64_t *ids = calloc(recording->stack_count + 1, sizeof(*ids));

	for (size_t i = 0; ids && i < recording->stack_count; i++)
		ids[i] = strtoull(recording->stacks[i].id, NULL, 16);
	return ids;
}

const struct snap_wait *snap_recorded_wait_of(const struct snap_recording *recording,
					      const struct snap_options *options,
					      const struct snap_run *run)
{
	if (options->explain == SNAP_EXPLAIN_NO || !run->wait || run->wait > recording->wait_count)
		return NULL;
	return recording->waits[run->wait - 1].wait;
}

struct snap_member snap_recorded_thread_of(const struct snap_recording *recording,
					   const struct snap_options *options,
					   const struct snap_track *track,
					   const struct snap_run *run)
{
	return (struct snap_member){
		.tid = track->tid,
		.ns_tid = track->ns_tid,
		.name = track->name,
		.state = run->state,
		.kernel = track->kernel,
		.syscall = run->syscall,
		.wchan = run->wchan,
		.cpu = -1,
		.taken = run->taken,
		.wait = snap_recorded_wait_of(recording, options, run),
	};
}

struct snap_task snap_recorded_task_of(const struct snap_track *track, const struct snap_run *run)
{
	struct snap_task task = *track->task;

	task.state = run->task_state;
	task.wait = run->wchan;
	return task;
}

uint64_t snap_recorded_key_of(const struct snap_recording *recording,
			      const struct snap_track *track, const struct snap_run *run,
			      const struct snap_options *options, uint64_t id)
{
	unsigned by = options->group_by | SNAP_GROUP_STACK;
	struct snap_member thread;
	struct snap_task task;

	if (track->task) {
		task = snap_recorded_task_of(track, run);
		return snap_task_label_key(&task, track->runtime, false, by, options, id | 1);
	}
	thread = snap_recorded_thread_of(recording, options, track, run);
	return snap_label_key(&thread, by, id);
}

bool snap_recorded_make_stack(struct snap_arena *arena, const struct snap_recorded_stack *from,
			      uint64_t id, const struct snap_track *first, size_t count,
			      struct snap_stack *stack)
{
	*stack = (struct snap_stack){
		.count = count,
		.description = from->description ? from->description : "(unknown)",
		.labels = from->labels,
		.label_count = from->label_count,
		.unwind = from->unwind,
		.unwind_detail = from->unwind_detail,
		.gap_frame = from->gap_frame,
		.gap_count = from->gap_count,
		.frames = from->frames,
		.frame_count = from->frame_count,
	};
	snprintf(stack->id, sizeof(stack->id), "%016" PRIx64, id);
	if (first->task) {
		stack->runtime = first->runtime;
		stack->tasks = snap_arena_new_array(arena, count, struct snap_task);
		stack->task_count = count;
		return stack->tasks;
	}
	stack->threads = snap_arena_new_array(arena, count, struct snap_member);
	stack->thread_count = count;
	return stack->threads;
}

bool snap_recorded_label_stack(struct snap_interner *strings, const struct snap_options *options,
			       struct snap_stack *stack)
{
	return stack->runtime ? snap_task_label_stack(strings, options, stack, false)
			      : snap_label_stack(strings, stack);
}

struct snap_node *snap_recorded_copy_node(struct snap_arena *arena, const struct snap_node *from)
{
	struct snap_node *node = snap_arena_memdup(arena, from, sizeof(*from));

	if (!node)
		return NULL;
	node->children = NULL;
	node->child_count = 0;
	node->stacks = NULL;
	node->stack_count = 0;
	node->thread_count = node->task_count = 0;
	node->threads_missed = 0;
	node->stop_duration_ns = 0;
	return node;
}

bool snap_recorded_make_tree(struct snap_arena *arena, const struct snap_recording *recording,
			     struct snap_node **nodes, bool flat, struct snap_snapshot *snapshot)
{
	size_t count = recording->process_count;
	/* Of each process the nearest one above, and from it on, that was there too. */
	_cleanup_free_ size_t *parents = malloc((count + 1) * sizeof(*parents)),
			      *nearest = malloc((count + 1) * sizeof(*nearest));

	snapshot->processes = snap_arena_new_array(arena, count + 1, struct snap_node *);
	if (!parents || !nearest || !snapshot->processes)
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t parent = recording->processes[i].parent;

		parents[i] = parent < i && !flat ? nearest[parent] : SIZE_MAX;
		nearest[i] = nodes[i] ? i : parents[i];
		if (nodes[i] && parents[i] != SIZE_MAX)
			nodes[parents[i]]->child_count++;
	}
	for (size_t i = 0; i < count; i++) {
		struct snap_node *node = nodes[i], *parent;

		if (!node)
			continue;
		node->children =
			snap_arena_new_array(arena, node->child_count + 1, struct snap_node *);
		if (!node->children)
			return false;
		node->child_count = 0;
		parent = parents[i] == SIZE_MAX ? NULL : nodes[parents[i]];
		if (parent)
			parent->children[parent->child_count++] = node;
		else
			snapshot->processes[snapshot->root_count++] = node;
	}
	return true;
}

const struct snap_wait *snap_recorded_common_wait(const struct snap_stack *stack)
{
	const struct snap_wait *wait = stack->thread_count ? stack->threads[0].wait : NULL;

	for (size_t i = 1; wait && i < stack->thread_count; i++) {
		const struct snap_wait *other = stack->threads[i].wait;

		if (other != wait && (!other || !snap_wait_same(wait, other)))
			return NULL;
	}
	return stack->thread_count == stack->count ? wait : NULL;
}
