/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings: creation, words, the length of a tick, and snapshots seen as recordings. See
 * model/recording.h.
 */
#include "model/recording.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"

#include <string.h>

struct snap_recording *snap_recording_new(void)
{
	struct snap_recording *recording = calloc(1, sizeof(*recording));

	if (recording)
		snap_arena_init(&recording->arena);
	return recording;
}

void snap_recording_destroy(struct snap_recording *recording)
{
	if (!recording)
		return;
	snap_arena_deinit(&recording->arena);
	free(recording);
}

const char *snap_taken_word(enum snap_taken taken)
{
	static const char *const words[SNAP_TAKEN_COUNT] = {
		[SNAP_TAKEN_TOGETHER] = "stopped",
		[SNAP_TAKEN_ALONE] = "alone",
		[SNAP_TAKEN_UNSTOPPED] = "late",
		[SNAP_TAKEN_CONFIRMED] = "confirmed",
	};

	return words[taken];
}

const char *snap_recording_end_word(enum snap_recording_end end)
{
	static const char *const words[SNAP_END_COUNT] = {
		[SNAP_END_TIME] = "time",
		[SNAP_END_ASKED] = "asked",
		[SNAP_END_CONDITION] = "condition",
		[SNAP_END_TARGETS] = "targets",
		[SNAP_END_PERMISSION] = "permission",
		[SNAP_END_UNFINISHED] = "unfinished",
		[SNAP_END_FAILED] = "failed",
	};

	return words[end];
}

int64_t snap_recording_tick_end(const struct snap_recording *recording, size_t tick)
{
	int64_t begin = recording->ticks[tick].time_ns;
	int64_t next = tick + 1 < recording->tick_count ? recording->ticks[tick + 1].time_ns : 0;

	if (next && next - begin <= 2 * recording->period_ns)
		return next;
	return begin + recording->period_ns;
}

/* ---- a snapshot as a recording ---- */

/* How many of everything there are, and then where the next one goes. */
struct filler {
	struct snap_recording *recording;
	size_t processes, tracks, stacks, tasks;
	struct snap_node **pending; /* nodes of the tree that are not entered yet, and … */
	size_t *parents;            /* … the number of each one's parent */
	size_t pending_count, pending_capacity, parent_capacity;
};

SNAP_FREES(filler_deinit, struct filler, pending, parents);

static bool push_node(struct filler *filler, struct snap_node *node, size_t parent)
{
	size_t wanted = filler->pending_count + 1;

	if (!snap_reserve_array(filler->pending, filler->pending_capacity, wanted) ||
	    !snap_reserve_array(filler->parents, filler->parent_capacity, wanted))
		return false;
	filler->pending[filler->pending_count] = node;
	filler->parents[filler->pending_count++] = parent;
	return true;
}

static bool push_children(struct filler *filler, struct snap_node **children, size_t count,
			  size_t parent)
{
	for (size_t i = count; i > 0; i--)
		if (!push_node(filler, children[i - 1], parent))
			return false;
	return true;
}

SNAP_ORDER(by_tid, struct snap_track, a, b, snap_compare(a->tid, b->tid));

enum snap_state snap_recording_state_of_task(enum snap_task_state state)
{
	switch (state) {
	case SNAP_TASK_RUNNING:
	case SNAP_TASK_RUNNABLE:
		return SNAP_STATE_RUNNING;
	case SNAP_TASK_SYSCALL:
	case SNAP_TASK_WAITING:
		return SNAP_STATE_SLEEPING;
	case SNAP_TASK_DEAD:
		return SNAP_STATE_DEAD;
	case SNAP_TASK_UNKNOWN:
	case SNAP_TASK_STATE_COUNT:
		break;
	}
	return SNAP_STATE_UNKNOWN;
}

static void add_tasks(struct filler *filler, size_t process, const struct snap_stack *from)
{
	struct snap_recording *recording = filler->recording;

	for (size_t i = 0; i < from->task_count; i++) {
		const struct snap_task *task = &from->tasks[i];
		struct snap_track *track = &recording->tracks[filler->tracks++];

		*track = (struct snap_track){ .process = process,
					      .tid = SNAP_TASK_FIRST_TID + (pid_t)filler->tasks++,
					      .name = task->name ? task->name : from->runtime,
					      .task = task,
					      .runtime = from->runtime,
					      .run_count = 1 };
		track->runs = snap_arena_new(&recording->arena, struct snap_run);
		if (track->runs)
			*track->runs = (struct snap_run){ .stack = (uint32_t)filler->stacks,
							  .state = snap_recording_state_of_task(
								  task->state),
							  .task_state = task->state,
							  .wchan = task->wait };
	}
}

/* Those that a program gave, sorted by key; of those with one key the first. */
static void add_slice_labels(struct snap_recorded_stack *stack, const struct snap_label *from,
			     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = stack->label_count;
		bool own =
			!snap_label_clashes(from[i].key) || snap_begins_with(from[i].key, "label.");

		while (at > 0 && strcmp(stack->labels[at - 1].key, from[i].key) > 0)
			at--;
		if (!own || (at > 0 && strcmp(stack->labels[at - 1].key, from[i].key) == 0))
			continue;
		memmove(&stack->labels[at + 1], &stack->labels[at],
			(stack->label_count++ - at) * sizeof(*from));
		stack->labels[at] = from[i];
	}
}

static const char *value_of_task_label(const struct snap_task *task, const char *key)
{
	for (size_t i = 0; i < task->label_count; i++)
		if (strcmp(task->labels[i].key, key) == 0)
			return task->labels[i].value;
	return NULL;
}

static bool all_have(const struct snap_stack *stack, const struct snap_label *label, size_t place)
{
	for (size_t i = 1; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];
		const struct snap_label *same =
			place < task->label_count ? &task->labels[place] : NULL;
		const char *value;

		/* Mostly they are in the same order. */
		if (same && strcmp(same->key, label->key) == 0)
			value = same->value;
		else
			value = value_of_task_label(task, label->key);
		if (!value || strcmp(value, label->value) != 0)
			return false;
	}
	return true;
}

/* The labels that all tasks of a stack share, with keys that differ from ours. */
static bool add_labels_of_tasks(struct filler *filler, const struct snap_stack *from,
				struct snap_recorded_stack *stack)
{
	const struct snap_task *first = from->tasks;

	for (size_t i = 0; i < first->label_count; i++) {
		struct snap_label label = first->labels[i];

		if (!all_have(from, &label, i))
			continue;
		if (snap_label_clashes(label.key))
			label.key =
				snap_arena_printf(&filler->recording->arena, "label.%s", label.key);
		if (!label.key)
			return false;
		add_slice_labels(stack, &label, 1);
	}
	return true;
}

/* The labels of its tasks, or of the request that the process of its threads serves. */
static bool fill_slice_labels(struct filler *filler, const struct snap_node *node,
			      const struct snap_stack *from, struct snap_recorded_stack *stack)
{
	size_t most =
		from->task_count ? from->tasks->label_count : from->label_count + node->label_count;

	stack->label_count = 0;
	if (!most)
		return true;
	stack->labels = snap_arena_new_array(&filler->recording->arena, most, struct snap_label);
	if (!stack->labels)
		return false;
	if (from->task_count)
		return add_labels_of_tasks(filler, from, stack);
	add_slice_labels(stack, from->labels, from->label_count);
	add_slice_labels(stack, node->labels, node->label_count);
	return true;
}

static void add_slice_stack(struct filler *filler, size_t process, const struct snap_stack *from)
{
	struct snap_recording *recording = filler->recording;
	struct snap_recorded_stack *stack = &recording->stacks[filler->stacks];

	*stack = (struct snap_recorded_stack){
		.process = process,
		.labels = stack->labels,
		.label_count = stack->label_count,
		.description = from->description,
		.frames = from->frames,
		.frame_count = from->frame_count,
		.unwind = from->unwind,
		.unwind_detail = from->unwind_detail,
		.gap_frame = from->gap_frame,
		.gap_count = from->gap_count,
	};
	memcpy(stack->id, from->id, sizeof(stack->id));
	for (size_t i = 0; i < from->thread_count; i++) {
		const struct snap_member *member = &from->threads[i];
		struct snap_track *track = &recording->tracks[filler->tracks++];

		*track = (struct snap_track){ .process = process,
					      .tid = member->tid,
					      .ns_tid = member->ns_tid,
					      .name = member->name,
					      .kernel = member->kernel,
					      .wait = member->wait,
					      .run_count = 1 };
		track->runs = snap_arena_new(&recording->arena, struct snap_run);
		if (track->runs)
			*track->runs = (struct snap_run){ .stack = (uint32_t)filler->stacks,
							  .state = member->state,
							  .taken = member->taken,
							  .syscall = member->syscall,
							  .wchan = member->wchan };
	}
	add_tasks(filler, process, from);
	filler->stacks++;
}

/* False without memory. */
static bool add_node(struct filler *filler, struct snap_node *node, size_t parent)
{
	size_t process = filler->processes++, first = filler->tracks;
	struct snap_track *tracks = filler->recording->tracks;
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	filler->recording->processes[process] =
		(struct snap_recorded_process){ .node = node, .parent = parent };
	while ((stack = snap_node_next_stack(node, &cursor))) {
		if (!fill_slice_labels(filler, node, stack,
				       &filler->recording->stacks[filler->stacks]))
			return false;
		add_slice_stack(filler, process, stack);
	}
	qsort(tracks + first, filler->tracks - first, sizeof(*tracks), by_tid);
	for (size_t i = first; i < filler->tracks; i++)
		if (!tracks[i].runs)
			return false;
	return true;
}

/* Calls `visit` for each node, parents first; false without memory. */
static bool visit_all(struct filler *filler, const struct snap_snapshot *snapshot,
		      bool (*visit)(struct filler *, struct snap_node *, size_t))
{
	if (!push_children(filler, snapshot->processes, snapshot->root_count, SIZE_MAX))
		return false;
	while (filler->pending_count) {
		struct snap_node *node = filler->pending[--filler->pending_count];
		size_t number = filler->processes;

		if (!visit(filler, node, filler->parents[filler->pending_count]) ||
		    !push_children(filler, node->children, node->child_count, number))
			return false;
	}
	return true;
}

static bool count_slice_node(struct filler *filler, struct snap_node *node, size_t parent _unused_)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	filler->processes++;
	while ((stack = snap_node_next_stack(node, &cursor))) {
		filler->stacks++;
		filler->tracks += stack->thread_count + stack->task_count;
	}
	return true;
}

static bool allocate_recording(struct filler *filler)
{
	struct snap_recording *recording = filler->recording;
	struct snap_arena *arena = &recording->arena;

	recording->process_count = filler->processes;
	recording->track_count = filler->tracks;
	recording->stack_count = filler->stacks;
	recording->processes =
		snap_arena_new_array(arena, filler->processes + 1, struct snap_recorded_process);
	recording->tracks = snap_arena_new_array(arena, filler->tracks + 1, struct snap_track);
	recording->stacks =
		snap_arena_new_array(arena, filler->stacks + 1, struct snap_recorded_stack);
	recording->ticks = snap_arena_new(arena, struct snap_tick);
	recording->tick_count = 1;
	filler->processes = filler->tracks = filler->stacks = filler->tasks = 0;
	return recording->processes && recording->tracks && recording->stacks && recording->ticks;
}

struct stacksnap_error *snap_recording_of_snapshot(const struct snap_snapshot *snapshot,
						   struct snap_recording **ret)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = snap_recording_new();
	_cleanup_(filler_deinit) struct filler filler = { .recording = recording };

	if (!recording || !visit_all(&filler, snapshot, count_slice_node) ||
	    !allocate_recording(&filler) || !visit_all(&filler, snapshot, add_node))
		return snap_error_no_memory();
	SNAP_TRY(snap_no_memory_unless(snap_recording_set_waits(recording)));
	recording->explains = snapshot->waits.asked;
	recording->host = snapshot->host;
	recording->time_ns = snapshot->time_ns;
	recording->duration_ns = snapshot->duration_ns;
	recording->ticks[0].stopped_ns = snapshot->stop_duration_ns;
	recording->missing = snapshot->missing;
	recording->warnings = snapshot->warnings;
	recording->warning_count = recording->warning_capacity = snapshot->warning_count;
	recording->stats = (struct snap_recording_stats){
		.ticks = 1,
		.duration_ns = snapshot->duration_ns,
		.stopped_ns = snapshot->stop_duration_ns,
		.threads = snapshot->thread_count,
		.thread_samples = snapshot->thread_count,
		.stacks = snapshot->stack_count,
	};
	*ret = snap_take_ptr(recording);
	return NULL;
}
