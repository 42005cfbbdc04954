/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See groups.h. Nothing here recurses. */
#include "render/view/recorded/groups.h"

#include "base/buffer.h"
#include "base/table.h"
#include "base/text.h"
#include "render/view/limit/limit.h"
#include "render/view/recorded/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups ---- */

enum {
	NONE = UINT32_MAX,
	/* Of the memory that a recording has, for each thread of a group but its first. */
	BYTES_OF_VISIT = 1024,
};

/* A thread or a task in a group: its samples there. */
struct visit {
	struct snap_member thread;
	struct snap_task task; /* in place of `thread`; without id: a thread */
	uint64_t samples;
	uint32_t track, next; /* next: a visit to the same group */
};

struct group {
	uint64_t id, samples, states[SNAP_STATE_COUNT];
	size_t process;
	uint32_t stack, first, last; /* visits */
	uint32_t count, listed;      /* threads; those that have a visit */
	uint32_t last_track;
};

struct group_builder {
	const struct snap_recording *recording;
	struct snap_recorded_groups *result;
	const struct snap_options *options;
	struct snap_interner strings;
	uint64_t *ids; /* of stacks */
	struct group *groups;
	size_t group_count, group_capacity;
	struct visit *visits;
	size_t visit_count, visit_capacity, most_visits;
	bool left_out;                /* some threads have no visit */
	struct snap_hash_table table; /* of groups */
};

static void recorded_builder_deinit(struct group_builder *builder)
{
	snap_interner_deinit(&builder->strings);
	free(builder->ids);
	free(builder->groups);
	free(builder->visits);
	snap_hash_table_deinit(&builder->table);
}

/* NULL without memory. */
static struct group *find_group(struct group_builder *builder, uint64_t id, size_t process,
				uint32_t stack)
{
	uint64_t hash = snap_hash_add(process, id);
	struct snap_probe probe = snap_hash_table_probe(&builder->table, hash);
	size_t count = builder->group_count;

	while (snap_probe_next(&probe)) {
		struct group *group = &builder->groups[probe.number];

		if (group->id == id && group->process == process)
			return group;
	}
	if (!snap_reserve_array(builder->groups, builder->group_capacity, count + 1) ||
	    !snap_hash_table_add(&builder->table, hash, count))
		return NULL;
	builder->groups[count] = (struct group){ .id = id,
						 .process = process,
						 .stack = stack,
						 .first = NONE,
						 .last = NONE,
						 .last_track = NONE };
	builder->group_count++;
	return &builder->groups[count];
}

/* A thread in a group has only the properties of all its samples there. */
static void add_to_visit(const struct group_builder *builder, struct visit *visit,
			 const struct snap_track *track, const struct snap_run *run)
{
	visit->samples += snap_run_samples(run);
	if (track->task) {
		if (visit->task.state != run->task_state)
			visit->task.state = SNAP_TASK_UNKNOWN;
		if (!snap_same_text(visit->task.wait, run->wchan))
			visit->task.wait = NULL;
		return;
	}
	visit->thread.state = run->state;
	if (!snap_same_text(visit->thread.syscall, run->syscall))
		visit->thread.syscall = NULL;
	if (!snap_same_text(visit->thread.wchan, run->wchan))
		visit->thread.wchan = NULL;
	if (visit->thread.wait != snap_recorded_wait_of(builder->recording, builder->options, run))
		visit->thread.wait = NULL;
}

static bool add_visit(struct group_builder *builder, struct group *group, uint32_t track,
		      const struct snap_run *run)
{
	const struct snap_track *of = &builder->recording->tracks[track];
	struct visit visit = { .samples = snap_run_samples(run), .track = track, .next = NONE };

	uint32_t number = (uint32_t)builder->visit_count;

	if (group->last != NONE && builder->visits[group->last].track == track) {
		add_to_visit(builder, &builder->visits[group->last], of, run);
		return true;
	}
	group->count += group->last_track != track;
	group->last_track = track;
	/* Threads by the hundred in stacks by the thousand: not all are listed. */
	if (group->listed && number >= builder->most_visits) {
		builder->left_out = true;
		return true;
	}
	if (!snap_reserve_array(builder->visits, builder->visit_capacity, number + 1ul))
		return false;
	if (of->task)
		visit.task = snap_recorded_task_of(of, run);
	else
		visit.thread =
			snap_recorded_thread_of(builder->recording, builder->options, of, run);
	/* Samples of one thread may have been copied in different ways. */
	visit.thread.taken = SNAP_TAKEN_TOGETHER;
	builder->visits[builder->visit_count++] = visit;
	if (group->last == NONE)
		group->first = number;
	else
		builder->visits[group->last].next = number;
	group->last = number;
	group->listed++;
	return true;
}

static bool add_recorded_track(struct group_builder *builder, uint32_t number)
{
	const struct snap_track *track = &builder->recording->tracks[number];

	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];
		uint64_t samples = snap_run_samples(run);
		uint64_t id = snap_recorded_key_of(builder->recording, track, run, builder->options,
						   builder->ids[run->stack]);
		struct group *group = find_group(builder, id, track->process, run->stack);

		if (!group || !add_visit(builder, group, number, run))
			return false;
		group->samples += samples;
		group->states[track->task ? run->task_state : run->state] += samples;
		builder->result->samples += samples;
	}
	if (track->task)
		builder->result->task_count += track->run_count > 0;
	else
		builder->result->thread_count += track->run_count > 0;
	return true;
}

/* ---- as stacks ---- */

/* Threads that were in several states have none in common; those of tasks tell themselves. */
static void drop_state(struct snap_stack *stack, const struct group *group)
{
	size_t states = 0, kept = 0;

	if (stack->runtime)
		return;
	for (size_t i = 0; i < SNAP_STATE_COUNT; i++)
		states += group->states[i] > 0;
	for (size_t i = 0; i < stack->label_count; i++)
		if (states == 1 || strcmp(stack->labels[i].key, "state") != 0)
			stack->labels[kept++] = stack->labels[i];
	stack->label_count = kept;
}

static bool fill_recorded_stack(struct group_builder *builder, const struct group *group,
				struct snap_stack *stack)
{
	struct snap_arena *arena = &builder->result->arena;
	uint64_t *samples = snap_arena_new_array(arena, group->listed, uint64_t);

	if (!samples ||
	    !snap_recorded_make_stack(arena, &builder->recording->stacks[group->stack], group->id,
				      &builder->recording->tracks[group->last_track], group->listed,
				      stack))
		return false;
	stack->count = group->count;
	for (uint32_t i = 0, at = group->first; i < group->listed; i++) {
		const struct visit *visit = &builder->visits[at];

		if (stack->runtime)
			stack->tasks[i] = visit->task;
		else
			stack->threads[i] = visit->thread;
		samples[i] = visit->samples;
		at = visit->next;
	}
	stack->samples = group->samples;
	stack->thread_samples = samples;
	stack->wait = snap_recorded_common_wait(stack);
	stack->state_samples = snap_arena_memdup(arena, group->states, sizeof(group->states));
	if (!stack->state_samples ||
	    !snap_recorded_label_stack(&builder->strings, builder->options, stack))
		return false;
	drop_state(stack, group);
	return true;
}

static bool fill_stacks(struct group_builder *builder, struct snap_node *const *nodes)
{
	struct snap_arena *arena = &builder->result->arena;

	for (size_t i = 0; i < builder->group_count; i++)
		nodes[builder->groups[i].process]->stack_count++;
	for (size_t i = 0; i < builder->recording->process_count; i++) {
		nodes[i]->stacks =
			snap_arena_new_array(arena, nodes[i]->stack_count + 1, struct snap_stack);
		if (!nodes[i]->stacks)
			return false;
		nodes[i]->stack_count = 0;
	}
	for (size_t i = 0; i < builder->group_count; i++) {
		struct snap_node *node = nodes[builder->groups[i].process];

		if (!fill_recorded_stack(builder, &builder->groups[i],
					 &node->stacks[node->stack_count++]))
			return false;
	}
	for (size_t i = 0; i < builder->recording->process_count; i++)
		if (nodes[i]->stack_count)
			qsort(nodes[i]->stacks, nodes[i]->stack_count, sizeof(*nodes[i]->stacks),
			      snap_stack_compare);
	return true;
}

/* ---- as a snapshot ---- */

static int64_t time_of_tick(const struct snap_recording *recording, uint32_t tick)
{
	return tick < recording->tick_count ? recording->ticks[tick].time_ns : 0;
}

static struct snap_node **copy_all_nodes(struct group_builder *builder)
{
	const struct snap_recording *recording = builder->recording;
	struct snap_arena *arena = &builder->result->arena;
	struct snap_node **nodes =
		snap_arena_new_array(arena, recording->process_count + 1, struct snap_node *);

	for (size_t i = 0; nodes && i < recording->process_count; i++) {
		const struct snap_recorded_process *process = &recording->processes[i];
		struct snap_node *node = snap_recorded_copy_node(arena, process->node);

		if (!node)
			return NULL;
		node->recorded = true;
		node->late = process->first > 0;
		node->ended = process->ended;
		node->execed = process->execed;
		node->first_ns = time_of_tick(recording, process->first);
		node->last_ns = time_of_tick(recording, process->last);
		nodes[i] = node;
	}
	for (size_t i = 0; nodes && i < recording->track_count; i++)
		if (recording->tracks[i].task)
			nodes[recording->tracks[i].process]->task_count++;
		else
			nodes[recording->tracks[i].process]->thread_count++;
	return nodes;
}

static bool make_snapshot(struct group_builder *builder, const struct snap_options *options)
{
	const struct snap_recording *recording = builder->recording;
	struct snap_recorded_groups *result = builder->result;
	struct snap_node **nodes = copy_all_nodes(builder);

	if (!nodes || !fill_stacks(builder, nodes))
		return false;
	result->snapshot = (struct snap_snapshot){
		.host = recording->host,
		.time_ns = recording->time_ns,
		.duration_ns = recording->duration_ns,
		.process_count = recording->process_count,
		.thread_count = result->thread_count,
		.task_count = result->task_count,
		.stack_count = builder->group_count,
		.flat = options->flat,
		.missing = recording->missing,
		.warnings = recording->warnings,
		.warning_count = recording->warning_count,
	};
	if (builder->left_out &&
	    !snap_limited_warn(&result->arena, &result->snapshot, builder->visit_count))
		return false;
	return snap_recorded_make_tree(&result->arena, recording, nodes, options->flat,
				       &result->snapshot);
}

struct stacksnap_error *snap_recorded_groups_init(struct snap_recorded_groups *groups,
						  const struct snap_recording *recording,
						  const struct snap_options *options)
{
	_cleanup_(recorded_builder_deinit) struct group_builder builder = {
		.recording = recording,
		.result = groups,
		.options = options,
		.most_visits =
			options->max_memory ? options->max_memory / BYTES_OF_VISIT : SIZE_MAX,
	};

	*groups = (struct snap_recorded_groups){ 0 };
	snap_arena_init(&groups->arena);
	snap_interner_init(&builder.strings, &groups->arena);
	builder.ids = snap_recorded_ids(recording);
	SNAP_TRY(snap_no_memory_unless(builder.ids));
	for (size_t i = 0; i < recording->track_count; i++)
		SNAP_TRY(snap_no_memory_unless(add_recorded_track(&builder, (uint32_t)i)));
	return make_snapshot(&builder, options) ? NULL : snap_error_no_memory();
}

void snap_recorded_groups_deinit(struct snap_recorded_groups *groups)
{
	snap_arena_deinit(&groups->arena);
}
