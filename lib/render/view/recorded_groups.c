/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording as a snapshot with samples: see recorded_groups.h. Runs are gone through once, track
 * by track, so that the runs of a thread in a group come one after the other.
 */
#include "render/view/recorded_groups.h"

#include "model/group_label.h"
#include "render/view/recorded_tree.h"

#include <inttypes.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* A thread in a group. */
struct share {
	struct snap_member member;
	uint64_t samples;
	uint32_t track, next; /* next: a share of the same group */
};

struct group {
	uint64_t id, samples, states[SNAP_STATE_COUNT];
	size_t process;
	uint32_t stack, first, last; /* shares */
	uint32_t count;
};

struct group_builder {
	const struct snap_recording *recording;
	struct snap_recorded_groups *result;
	struct snap_interner strings;
	unsigned group_by;
	uint64_t *ids; /* of stacks */
	struct group *groups;
	size_t group_count, group_capacity;
	struct share *shares;
	size_t share_count, share_capacity;
	uint32_t *slots; /* number of a group plus 1 */
	size_t slot_count;
};

static void builder_deinit(struct group_builder *builder)
{
	snap_interner_deinit(&builder->strings);
	free(builder->ids);
	free(builder->groups);
	free(builder->shares);
	free(builder->slots);
}

/* ---- groups ---- */

static uint32_t *slot_of(const struct group_builder *builder, uint64_t id, size_t process)
{
	size_t at = (id ^ process * 0x9e3779b97f4a7c15u) & (builder->slot_count - 1);

	while (builder->slots[at]) {
		const struct group *group = &builder->groups[builder->slots[at] - 1];

		if (group->id == id && group->process == process)
			break;
		at = (at + 1) & (builder->slot_count - 1);
	}
	return &builder->slots[at];
}

static bool grow_slots(struct group_builder *builder)
{
	free(builder->slots);
	builder->slot_count = builder->slot_count ? 2 * builder->slot_count : 1024;
	builder->slots = calloc(builder->slot_count, sizeof(*builder->slots));
	for (size_t i = 0; builder->slots && i < builder->group_count; i++)
		*slot_of(builder, builder->groups[i].id, builder->groups[i].process) =
			(uint32_t)i + 1;
	return builder->slots != NULL;
}

static struct group *group_of(struct group_builder *builder, uint64_t id, size_t process,
			      uint32_t stack)
{
	uint32_t *slot;

	if (2 * builder->group_count >= builder->slot_count && !grow_slots(builder))
		return NULL;
	slot = slot_of(builder, id, process);
	if (*slot)
		return &builder->groups[*slot - 1];
	if (!snap_grow_array(builder->groups, builder->group_capacity, builder->group_count))
		return NULL;
	builder->groups[builder->group_count] = (struct group){
		.id = id, .process = process, .stack = stack, .first = NONE, .last = NONE
	};
	*slot = (uint32_t)++builder->group_count;
	return &builder->groups[*slot - 1];
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* What a thread did not do at all of its samples is not said of it. */
static void add_to_share(struct share *share, const struct snap_member *member, uint64_t samples)
{
	share->samples += samples;
	share->member.state = member->state;
	if (!same(share->member.syscall, member->syscall))
		share->member.syscall = NULL;
	if (!same(share->member.wchan, member->wchan))
		share->member.wchan = NULL;
}

static bool add_share(struct group_builder *builder, struct group *group, uint32_t track,
		      const struct snap_member *member, uint64_t samples)
{
	uint32_t number = (uint32_t)builder->share_count;

	if (group->last != NONE && builder->shares[group->last].track == track) {
		add_to_share(&builder->shares[group->last], member, samples);
		return true;
	}
	if (!snap_grow_array(builder->shares, builder->share_capacity, builder->share_count))
		return false;
	builder->shares[builder->share_count++] = (struct share){ *member, samples, track, NONE };
	if (group->last == NONE)
		group->first = number;
	else
		builder->shares[group->last].next = number;
	group->last = number;
	group->count++;
	return true;
}

static bool add_track(struct group_builder *builder, uint32_t number)
{
	const struct snap_track *track = &builder->recording->tracks[number];
	struct snap_member member = {
		.tid = track->tid,
		.ns_tid = track->ns_tid,
		.name = track->name,
		.kernel = track->kernel,
		.cpu = -1,
	};

	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];
		uint64_t samples = snap_run_samples(run);
		struct group *group;

		member.state = run->state;
		member.syscall = run->syscall;
		member.wchan = run->wchan;
		group = group_of(
			builder,
			snap_label_key(&member, builder->group_by, builder->ids[run->stack]),
			track->process, run->stack);
		if (!group || !add_share(builder, group, number, &member, samples))
			return false;
		group->samples += samples;
		group->states[run->state] += samples;
		builder->result->samples += samples;
	}
	builder->result->thread_count += track->run_count > 0;
	return true;
}

/* ---- as stacks ---- */

/* Threads that were in several states have none in common. */
static void drop_state(struct snap_stack *stack, const struct group *group)
{
	size_t states = 0, kept = 0;

	for (size_t i = 0; i < SNAP_STATE_COUNT; i++)
		states += group->states[i] > 0;
	for (size_t i = 0; i < stack->label_count; i++)
		if (states == 1 || strcmp(stack->labels[i].key, "state") != 0)
			stack->labels[kept++] = stack->labels[i];
	stack->label_count = kept;
}

static bool fill_stack(struct group_builder *builder, const struct group *group,
		       struct snap_stack *stack)
{
	const struct snap_recorded_stack *from = &builder->recording->stacks[group->stack];
	struct snap_arena *arena = &builder->result->arena;
	uint64_t *samples = snap_arena_new_array(arena, group->count, uint64_t);

	*stack = (struct snap_stack){
		.count = group->count,
		.description = from->description ? from->description : "(unknown)",
		.unwind = from->unwind,
		.unwind_detail = from->unwind_detail,
		.gap_frame = from->gap_frame,
		.gap_count = from->gap_count,
		.threads = snap_arena_new_array(arena, group->count, struct snap_member),
		.thread_count = group->count,
		.frames = from->frames,
		.frame_count = from->frame_count,
		.samples = group->samples,
		.thread_samples = samples,
		.state_samples = snap_arena_memdup(arena, group->states, sizeof(group->states)),
	};
	snprintf(stack->id, sizeof(stack->id), "%016" PRIx64, group->id);
	if (!stack->threads || !samples || !stack->state_samples)
		return false;
	for (uint32_t i = 0, at = group->first; i < group->count; i++) {
		const struct share *share = &builder->shares[at];

		stack->threads[i] = share->member;
		samples[i] = share->samples;
		at = share->next;
	}
	if (!snap_label_stack(&builder->strings, stack))
		return false;
	drop_state(stack, group);
	return true;
}

static int by_samples(const void *left, const void *right)
{
	const struct snap_stack *a = left, *b = right;

	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return strcmp(a->id, b->id);
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

		if (!fill_stack(builder, &builder->groups[i], &node->stacks[node->stack_count++]))
			return false;
	}
	for (size_t i = 0; i < builder->recording->process_count; i++)
		if (nodes[i]->stack_count)
			qsort(nodes[i]->stacks, nodes[i]->stack_count, sizeof(*nodes[i]->stacks),
			      by_samples);
	return true;
}

/* ---- as a snapshot ---- */

static int64_t time_of(const struct snap_recording *recording, uint32_t tick)
{
	return tick < recording->tick_count ? recording->ticks[tick].time_ns : 0;
}

static struct snap_node **copy_nodes(struct group_builder *builder)
{
	const struct snap_recording *recording = builder->recording;
	struct snap_arena *arena = &builder->result->arena;
	struct snap_node **nodes =
		snap_arena_new_array(arena, recording->process_count + 1, struct snap_node *);

	for (size_t i = 0; nodes && i < recording->process_count; i++) {
		const struct snap_recorded_process *process = &recording->processes[i];
		struct snap_node *node = snap_arena_memdup(arena, process->node, sizeof(*node));

		if (!node)
			return NULL;
		node->children = NULL;
		node->child_count = 0;
		node->stacks = NULL;
		node->stack_count = 0;
		node->thread_count = 0;
		node->threads_missed = 0;
		node->stop_duration_ns = 0;
		node->recorded = true;
		node->late = process->first > 0;
		node->ended = process->ended;
		node->execed = process->execed;
		node->first_ns = time_of(recording, process->first);
		node->last_ns = time_of(recording, process->last);
		nodes[i] = node;
	}
	for (size_t i = 0; nodes && i < recording->track_count; i++)
		nodes[recording->tracks[i].process]->thread_count++;
	return nodes;
}

static bool make_snapshot(struct group_builder *builder, const struct snap_options *options)
{
	const struct snap_recording *recording = builder->recording;
	struct snap_recorded_groups *result = builder->result;
	struct snap_node **nodes = copy_nodes(builder);

	if (!nodes || !fill_stacks(builder, nodes))
		return false;
	result->snapshot = (struct snap_snapshot){
		.host = recording->host,
		.time_ns = recording->time_ns,
		.duration_ns = recording->duration_ns,
		.process_count = recording->process_count,
		.thread_count = result->thread_count,
		.stack_count = builder->group_count,
		.flat = options->flat,
		.missing = recording->missing,
		.warnings = recording->warnings,
		.warning_count = recording->warning_count,
	};
	return snap_recorded_tree(&result->arena, recording, nodes, options->flat,
				  &result->snapshot);
}

struct snap_error *snap_recorded_groups_init(struct snap_recorded_groups *groups,
					     const struct snap_recording *recording,
					     const struct snap_options *options)
{
	_cleanup_(builder_deinit) struct group_builder builder = {
		.recording = recording,
		.result = groups,
		.group_by = options->group_by | SNAP_GROUP_STACK,
	};

	*groups = (struct snap_recorded_groups){ 0 };
	snap_arena_init(&groups->arena);
	snap_interner_init(&builder.strings, &groups->arena);
	builder.ids = calloc(recording->stack_count + 1, sizeof(*builder.ids));
	if (!builder.ids)
		return snap_error_no_memory();
	for (size_t i = 0; i < recording->stack_count; i++)
		builder.ids[i] = strtoull(recording->stacks[i].id, NULL, 16);
	for (size_t i = 0; i < recording->track_count; i++)
		if (!add_track(&builder, (uint32_t)i))
			return snap_error_no_memory();
	return make_snapshot(&builder, options) ? NULL : snap_error_no_memory();
}

void snap_recorded_groups_deinit(struct snap_recorded_groups *groups)
{
	snap_arena_deinit(&groups->arena);
}
