/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See instants.h. Nothing here recurses. */
#include "render/view/recorded/instants.h"

#include "base/bsearch.h"
#include "render/view/limit/limit.h"
#include "render/view/recorded/parts.h"
#include "render/wait/object.h"

#include <stdlib.h>

/* Of what threads wait for: of all ticks, and more for each. */
enum { MOST_WAIT_BYTES = 256 << 20, TICK_WAIT_BYTES = 256 << 10 };

/* A thread at a tick, which is to be grouped. */
struct item {
	uint64_t id;
	size_t track; /* tracks are sorted by tid */
	uint32_t stack;
};

struct stacksnap_error *snap_instants_init(struct snap_instants *instants,
					   const struct snap_recording *recording,
					   const struct snap_options *options)
{
	*instants = (struct snap_instants){ .recording = recording,
					    .options = options,
					    .wait_bytes = MOST_WAIT_BYTES };
	snap_arena_init(&instants->arena);
	instants->ids = snap_recorded_ids(recording);
	instants->cursors = calloc(recording->track_count + 1, sizeof(*instants->cursors));
	SNAP_TRY(snap_no_memory_unless(instants->ids && instants->cursors));
	return snap_holders_init(&instants->holders, recording);
}

void snap_instants_deinit(struct snap_instants *instants)
{
	snap_holders_deinit(&instants->holders);
	free(instants->ids);
	free(instants->cursors);
	snap_arena_deinit(&instants->arena);
}

static const struct snap_run *run_at(struct snap_instants *instants, size_t track, uint32_t tick)
{
	const struct snap_track *of = &instants->recording->tracks[track];
	size_t *cursor = &instants->cursors[track];

	while (*cursor < of->run_count && of->runs[*cursor].last < tick)
		++*cursor;
	return *cursor < of->run_count && of->runs[*cursor].first <= tick ? &of->runs[*cursor]
									  : NULL;
}

/* The threads of a process from a track on, as items; where the next process's tracks begin. */
static size_t list_instant_items(struct snap_instants *instants, size_t process, size_t track,
				 uint32_t tick, struct item *items, size_t *count_ret)
{
	const struct snap_recording *recording = instants->recording;
	size_t count = 0;

	for (; track < recording->track_count && recording->tracks[track].process == process;
	     track++) {
		const struct snap_run *run = run_at(instants, track, tick);

		if (!run)
			continue;
		items[count++] = (struct item){
			snap_recorded_key_of(recording, &recording->tracks[track], run,
					     instants->options, instants->ids[run->stack]),
			track,
			run->stack,
		};
	}
	*count_ret = count;
	return track;
}

SNAP_ORDER(compare_items, struct item, a, b, snap_compare(a->id, b->id),
	   snap_compare(a->track, b->track));

/* What a thread waits for, with its holder at that tick; `from` without memory. */
static const struct snap_wait *owned_wait(struct snap_instants *instants,
					  const struct snap_run *run, const struct snap_wait *from)
{
	const struct snap_recording *recording = instants->recording;
	const struct snap_holder_span *held =
		snap_holders_at(&instants->holders, run->wait - 1, instants->tick);
	struct snap_wait *wait =
		held ? snap_arena_memdup(&instants->arena, from, sizeof(*from)) : NULL;

	if (!wait)
		return from;
	wait->owner = (struct snap_wait_party){ .tid = held->tid };
	wait->owner_lack = held->lack;
	wait->has_owner = held->lack == SNAP_OWNER_KNOWN;
	if (held->track < recording->track_count) {
		const struct snap_track *track = &recording->tracks[held->track];

		wait->owner.pid = recording->processes[track->process].node->pid;
		wait->owner.name = track->name;
		wait->owner.function = held->function;
	}
	return wait;
}

/* A thread at a tick; what it waits for only if there is room for it. */
static struct snap_member thread_at(struct snap_instants *instants, const struct snap_track *track,
				    const struct snap_run *run)
{
	struct snap_member thread =
		snap_recorded_thread_of(instants->recording, instants->options, track, run);
	size_t bytes;

	if (!thread.wait)
		return thread;
	thread.wait = owned_wait(instants, run, thread.wait);
	bytes = snap_waited_bytes(thread.wait);
	if (bytes > instants->wait_bytes) {
		thread.wait = NULL;
		instants->left_out = true;
		return thread;
	}
	instants->wait_bytes -= bytes;
	return thread;
}

static bool group_items(struct snap_instants *instants, struct snap_interner *strings,
			const struct item *items, size_t count, struct snap_stack *stack)
{
	const struct snap_recording *recording = instants->recording;

	if (!snap_recorded_make_stack(&instants->arena, &recording->stacks[items[0].stack],
				      items[0].id, &recording->tracks[items[0].track], count,
				      stack))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct snap_track *track = &recording->tracks[items[i].track];

		const struct snap_run *run = &track->runs[instants->cursors[items[i].track]];

		if (stack->runtime)
			stack->tasks[i] = snap_recorded_task_of(track, run);
		else
			stack->threads[i] = thread_at(instants, track, run);
	}
	stack->wait = snap_recorded_common_wait(stack);
	return snap_recorded_label_stack(strings, instants->options, stack);
}

static bool group_all_items(struct snap_instants *instants, struct snap_interner *strings,
			    struct item *items, size_t count, struct snap_node *node)
{
	size_t stack_count = 0;

	qsort(items, count, sizeof(*items), compare_items);
	for (size_t i = 0; i < count; i++)
		stack_count += i == 0 || items[i].id != items[i - 1].id;
	node->stacks = snap_arena_new_array(&instants->arena, stack_count + 1, struct snap_stack);
	if (!node->stacks)
		return false;
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && items[end].id == items[i].id;)
			end++;
		if (!group_items(instants, strings, items + i, end - i,
				 &node->stacks[node->stack_count++]))
			return false;
	}
	qsort(node->stacks, node->stack_count, sizeof(*node->stacks), snap_stack_compare);
	return true;
}

/* The process as it was: its threads are those that were seen. NULL without memory. */
static struct snap_node *make_instant_node(struct snap_instants *instants,
					   struct snap_interner *strings, struct item *items,
					   size_t count, const struct snap_node *from)
{
	const struct snap_recording *recording = instants->recording;
	struct snap_node *node = snap_recorded_copy_node(&instants->arena, from);

	if (!node)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		const struct snap_track *track = &recording->tracks[items[i].track];

		node->task_count += track->task != NULL;
		node->thread_count += !track->task;
		if (track->tid == from->pid)
			node->state = track->runs[instants->cursors[items[i].track]].state;
	}
	instants->snapshot.thread_count += node->thread_count;
	instants->snapshot.task_count += node->task_count;
	return count && !group_all_items(instants, strings, items, count, node) ? NULL : node;
}

/* Nodes of the processes that were there, NULL for the others. */
static bool make_instant_nodes(struct snap_instants *instants, struct snap_interner *strings,
			       uint32_t tick, struct snap_node **nodes)
{
	const struct snap_recording *recording = instants->recording;
	_cleanup_free_ struct item *items = calloc(recording->track_count + 1, sizeof(*items));
	struct snap_snapshot *snapshot = &instants->snapshot;
	size_t track = 0, count;

	if (!items)
		return false;
	for (size_t i = 0; i < recording->process_count; i++) {
		const struct snap_recorded_process *process = &recording->processes[i];

		track = list_instant_items(instants, i, track, tick, items, &count);
		if (tick < process->first || tick > process->last)
			continue;
		nodes[i] = make_instant_node(instants, strings, items, count, process->node);
		if (!nodes[i])
			return false;
		snapshot->process_count++;
		snapshot->stack_count += nodes[i]->stack_count;
	}
	return true;
}

struct snap_snapshot *snap_instants_at(struct snap_instants *instants, size_t tick)
{
	const struct snap_recording *recording = instants->recording;
	struct snap_interner strings;
	struct snap_node **nodes;
	bool made;

	snap_arena_deinit(&instants->arena);
	instants->snapshot = (struct snap_snapshot){
		.host = recording->host,
		.time_ns = recording->time_ns + recording->ticks[tick].time_ns,
		.stop_duration_ns = recording->ticks[tick].stopped_ns,
		.many_instants = true,
		.flat = instants->options->flat,
	};
	nodes = snap_arena_new_array(&instants->arena, recording->process_count + 1,
				     struct snap_node *);
	if (!nodes)
		return NULL;
	instants->wait_bytes += TICK_WAIT_BYTES;
	instants->tick = (uint32_t)tick;
	snap_interner_init(&strings, &instants->arena);
	made = make_instant_nodes(instants, &strings, (uint32_t)tick, nodes) &&
	       snap_recorded_make_tree(&instants->arena, recording, nodes, instants->options->flat,
				       &instants->snapshot);
	if (instants->left_out && !instants->reported) {
		instants->reported = true;
		made = made && snap_limited_warn_of(&instants->arena, &instants->snapshot,
						    "waits are left out, as they are larger than "
						    "what is left for them");
	}
	snap_interner_deinit(&strings);
	return made ? &instants->snapshot : NULL;
}
