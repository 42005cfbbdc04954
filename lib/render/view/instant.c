/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ticks of a recording as snapshots: see instant.h. */
#include "render/view/instant.h"

#include "model/group_label.h"
#include "render/view/recorded_tree.h"

#include <inttypes.h>
#include <string.h>

/* A thread at a tick, on its way into a group. */
struct item {
	uint64_t id;
	size_t track; /* tracks are sorted by tid */
	uint32_t stack;
};

struct snap_error *snap_instants_init(struct snap_instants *instants,
				      const struct snap_recording *recording,
				      const struct snap_options *options)
{
	*instants = (struct snap_instants){ .recording = recording, .options = options };
	snap_arena_init(&instants->arena);
	instants->ids = calloc(recording->stack_count + 1, sizeof(*instants->ids));
	instants->cursors = calloc(recording->track_count + 1, sizeof(*instants->cursors));
	if (!instants->ids || !instants->cursors)
		return snap_error_no_memory();
	for (size_t i = 0; i < recording->stack_count; i++)
		instants->ids[i] = strtoull(recording->stacks[i].id, NULL, 16);
	return NULL;
}

void snap_instants_deinit(struct snap_instants *instants)
{
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

static struct snap_member member_of(const struct snap_track *track, const struct snap_run *run)
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
	};
}

/* The threads of a process from a track on, as items; where the next process's tracks begin. */
static size_t list_items(struct snap_instants *instants, size_t process, size_t track,
			 uint32_t tick, struct item *items, size_t *count_ret)
{
	const struct snap_recording *recording = instants->recording;
	unsigned group_by = instants->options->group_by | SNAP_GROUP_STACK;
	size_t count = 0;

	for (; track < recording->track_count && recording->tracks[track].process == process;
	     track++) {
		const struct snap_run *run = run_at(instants, track, tick);
		struct snap_member member;

		if (!run)
			continue;
		member = member_of(&recording->tracks[track], run);
		items[count++] = (struct item){
			snap_label_key(&member, group_by, instants->ids[run->stack]),
			track,
			run->stack,
		};
	}
	*count_ret = count;
	return track;
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return a->track < b->track ? -1 : a->track > b->track;
}

static int compare_stacks(const void *left, const void *right)
{
	const struct snap_stack *a = left, *b = right;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->id, b->id);
}

static bool make_stack(struct snap_instants *instants, struct snap_interner *strings,
		       const struct item *items, size_t count, struct snap_stack *stack)
{
	const struct snap_recording *recording = instants->recording;
	const struct snap_recorded_stack *from = &recording->stacks[items[0].stack];

	*stack = (struct snap_stack){
		.count = count,
		.description = from->description ? from->description : "(unknown)",
		.unwind = from->unwind,
		.unwind_detail = from->unwind_detail,
		.gap_frame = from->gap_frame,
		.gap_count = from->gap_count,
		.thread_count = count,
		.frames = from->frames,
		.frame_count = from->frame_count,
	};
	snprintf(stack->id, sizeof(stack->id), "%016" PRIx64, items[0].id);
	stack->threads = snap_arena_new_array(&instants->arena, count, struct snap_member);
	if (!stack->threads)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct snap_track *track = &recording->tracks[items[i].track];

		stack->threads[i] =
			member_of(track, &track->runs[instants->cursors[items[i].track]]);
	}
	return snap_label_stack(strings, stack);
}

static bool make_stacks(struct snap_instants *instants, struct snap_interner *strings,
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
		if (!make_stack(instants, strings, items + i, end - i,
				&node->stacks[node->stack_count++]))
			return false;
	}
	qsort(node->stacks, node->stack_count, sizeof(*node->stacks), compare_stacks);
	return true;
}

/* The process as it was: its threads are those that were seen. */
static bool fill_node(struct snap_instants *instants, struct snap_interner *strings,
		      struct item *items, size_t count, const struct snap_node *from,
		      struct snap_node *node)
{
	const struct snap_recording *recording = instants->recording;

	*node = *from;
	node->children = NULL;
	node->child_count = 0;
	node->stacks = NULL;
	node->stack_count = 0;
	node->thread_count = count;
	node->threads_missed = 0;
	node->stop_duration_ns = 0;
	for (size_t i = 0; i < count; i++) {
		const struct snap_track *track = &recording->tracks[items[i].track];

		if (track->tid == from->pid)
			node->state = track->runs[instants->cursors[items[i].track]].state;
	}
	instants->snapshot.thread_count += count;
	return count == 0 || make_stacks(instants, strings, items, count, node);
}

/* Nodes of the processes that were there, NULL for the others. */
static bool fill_nodes(struct snap_instants *instants, struct snap_interner *strings, uint32_t tick,
		       struct snap_node **nodes)
{
	const struct snap_recording *recording = instants->recording;
	_cleanup_free_ struct item *items = calloc(recording->track_count + 1, sizeof(*items));
	struct snap_snapshot *snapshot = &instants->snapshot;
	size_t track = 0, count;

	if (!items)
		return false;
	for (size_t i = 0; i < recording->process_count; i++) {
		const struct snap_recorded_process *process = &recording->processes[i];

		track = list_items(instants, i, track, tick, items, &count);
		if (tick < process->first || tick > process->last)
			continue;
		nodes[i] = snap_arena_new(&instants->arena, struct snap_node);
		if (!nodes[i] ||
		    !fill_node(instants, strings, items, count, process->node, nodes[i]))
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
	snap_interner_init(&strings, &instants->arena);
	made = fill_nodes(instants, &strings, (uint32_t)tick, nodes) &&
	       snap_recorded_tree(&instants->arena, recording, nodes, instants->options->flat,
				  &instants->snapshot);
	snap_interner_deinit(&strings);
	return made ? &instants->snapshot : NULL;
}
