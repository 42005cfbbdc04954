/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recording as snapshots: see recorded.h. Nothing here recurses. */
#include "render/view/recorded.h"

#include "base/buffer.h"
#include "base/table.h"
#include "base/text.h"
#include "model/group_label.h"
#include "model/task_label.h"
#include "render/view/limit.h"
#include "render/wait/object.h"

#include <inttypes.h>
#include <string.h>

/* ---- for both ---- */

/* The ids of the recording's stacks as numbers; malloc'ed, NULL without memory. */
static uint64_t *list_ids(const struct snap_recording *recording)
{
	uint64_t *ids = calloc(recording->stack_count + 1, sizeof(*ids));

	for (size_t i = 0; ids && i < recording->stack_count; i++)
		ids[i] = strtoull(recording->stacks[i].id, NULL, 16);
	return ids;
}

/* NULL: for nothing that is known, or that is to be told. */
static const struct snap_wait *wait_of(const struct snap_recording *recording,
				       const struct snap_options *options,
				       const struct snap_run *run)
{
	if (options->explain == SNAP_EXPLAIN_NO || !run->wait || run->wait > recording->wait_count)
		return NULL;
	return recording->waits[run->wait - 1].wait;
}

static struct snap_member thread_of(const struct snap_recording *recording,
				    const struct snap_options *options,
				    const struct snap_track *track, const struct snap_run *run)
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
		.wait = wait_of(recording, options, run),
	};
}

/* A task as it stood. */
static struct snap_task task_of(const struct snap_track *track, const struct snap_run *run)
{
	struct snap_task task = *track->task;

	task.state = run->task_state;
	task.wait = run->wchan;
	return task;
}

/* As tasks of snapshots are told apart; `id`: of the stack. */
static uint64_t task_key(const struct snap_track *track, const struct snap_run *run,
			 const struct snap_options *options, uint64_t id)
{
	const struct snap_task *task = track->task;
	unsigned by = options->group_by | SNAP_GROUP_STACK;
	uint64_t hash = snap_hash_text(track->runtime, snap_hash_number(by, id | 1));

	if (by & SNAP_GROUP_STATE) {
		hash = snap_hash_text(snap_task_state_word(run->task_state), hash);
		hash = snap_hash_text(run->wchan, hash);
	}
	if (by & SNAP_GROUP_NAME)
		hash = snap_hash_text(task->name, hash);
	if (by & SNAP_GROUP_TYPE)
		hash = snap_hash_number(false, hash);
	if (by & SNAP_GROUP_TID)
		hash = snap_hash_text(task->id, hash);
	for (size_t i = 0; i < options->group_label_count; i++)
		hash = snap_hash_text(
			snap_task_label(task->labels, task->label_count, options->group_labels[i]),
			hash);
	return hash;
}

/* What tells the group of a thread, or of a task. */
static uint64_t key_of(const struct snap_recording *recording, const struct snap_track *track,
		       const struct snap_run *run, const struct snap_options *options, uint64_t id)
{
	struct snap_member thread;

	if (track->task)
		return task_key(track, run, options, id);
	thread = thread_of(recording, options, track, run);
	return snap_label_key(&thread, options->group_by | SNAP_GROUP_STACK, id);
}

/* A group of `count` threads or tasks, which the caller fills in. False without memory. */
static bool make_stack(struct snap_arena *arena, const struct snap_recorded_stack *from,
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

/* False without memory. */
static bool label_stack(struct snap_interner *strings, const struct snap_options *options,
			struct snap_stack *stack)
{
	return stack->runtime ? snap_task_label_stack(strings, options, stack, false)
			      : snap_label_stack(strings, stack);
}

/* The facts of a process, without stacks and children; NULL without memory. */
static struct snap_node *copy_node(struct snap_arena *arena, const struct snap_node *from)
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

/*
 * Puts the nodes (one a process of the recording, NULL: not there) into the snapshot's tree, in the
 * recording's order; who has no parent there goes to the nearest one above. `flat`: all are roots.
 * False without memory.
 */
static bool make_tree(struct snap_arena *arena, const struct snap_recording *recording,
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

/* What all of its threads wait for, and nothing else; NULL: they differ, or not all are listed. */
static const struct snap_wait *common_wait(const struct snap_stack *stack)
{
	const struct snap_wait *wait = stack->thread_count ? stack->threads[0].wait : NULL;

	for (size_t i = 1; wait && i < stack->thread_count; i++) {
		const struct snap_wait *other = stack->threads[i].wait;

		if (other != wait && (!other || !snap_wait_same(wait, other)))
			return NULL;
	}
	return stack->thread_count == stack->count ? wait : NULL;
}

/* ---- ticks ---- */

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
	instants->ids = list_ids(recording);
	instants->cursors = calloc(recording->track_count + 1, sizeof(*instants->cursors));
	if (!instants->ids || !instants->cursors)
		return snap_error_no_memory();
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
static size_t list_items(struct snap_instants *instants, size_t process, size_t track,
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
			key_of(recording, &recording->tracks[track], run, instants->options,
			       instants->ids[run->stack]),
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

/* What a thread waits for, with who had it at that tick; `from` without memory. */
static const struct snap_wait *owned_wait(struct snap_instants *instants,
					  const struct snap_run *run, const struct snap_wait *from)
{
	const struct snap_recording *recording = instants->recording;
	const struct snap_held *held =
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
	struct snap_member thread = thread_of(instants->recording, instants->options, track, run);
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

	if (!make_stack(&instants->arena, &recording->stacks[items[0].stack], items[0].id,
			&recording->tracks[items[0].track], count, stack))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct snap_track *track = &recording->tracks[items[i].track];

		const struct snap_run *run = &track->runs[instants->cursors[items[i].track]];

		if (stack->runtime)
			stack->tasks[i] = task_of(track, run);
		else
			stack->threads[i] = thread_at(instants, track, run);
	}
	stack->wait = common_wait(stack);
	return label_stack(strings, instants->options, stack);
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
static struct snap_node *make_node(struct snap_instants *instants, struct snap_interner *strings,
				   struct item *items, size_t count, const struct snap_node *from)
{
	const struct snap_recording *recording = instants->recording;
	struct snap_node *node = copy_node(&instants->arena, from);

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
	if (count && !group_all_items(instants, strings, items, count, node))
		return NULL;
	return node;
}

/* Nodes of the processes that were there, NULL for the others. */
static bool make_nodes(struct snap_instants *instants, struct snap_interner *strings, uint32_t tick,
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
		nodes[i] = make_node(instants, strings, items, count, process->node);
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
	made = make_nodes(instants, &strings, (uint32_t)tick, nodes) &&
	       make_tree(&instants->arena, recording, nodes, instants->options->flat,
			 &instants->snapshot);
	if (instants->left_out && !instants->told) {
		instants->told = true;
		made = made && snap_limited_warn_of(&instants->arena, &instants->snapshot,
						    "waits are left out, as they are larger than "
						    "what is left for them");
	}
	snap_interner_deinit(&strings);
	return made ? &instants->snapshot : NULL;
}

/* ---- all ticks ---- */

enum {
	NONE = UINT32_MAX,
	/* Of the memory that a recording has, for each thread of a group but its first. */
	BYTES_OF_VISIT = 1024,
};

/* A thread or a task in a group: its samples there. */
struct visit {
	struct snap_member thread;
	struct snap_task task; /* in place of that; without id: a thread */
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

static void builder_deinit(struct group_builder *builder)
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

/* Of a thread in a group is told only what holds at all of its samples there. */
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
	if (visit->thread.wait != wait_of(builder->recording, builder->options, run))
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
	/* Threads by the hundred in stacks by the thousand: not all are told of. */
	if (group->listed && number >= builder->most_visits) {
		builder->left_out = true;
		return true;
	}
	if (!snap_reserve_array(builder->visits, builder->visit_capacity, number + 1ul))
		return false;
	if (of->task)
		visit.task = task_of(of, run);
	else
		visit.thread = thread_of(builder->recording, builder->options, of, run);
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

static bool add_track(struct group_builder *builder, uint32_t number)
{
	const struct snap_track *track = &builder->recording->tracks[number];

	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];
		uint64_t samples = snap_run_samples(run);
		uint64_t id = key_of(builder->recording, track, run, builder->options,
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

static bool fill_stack(struct group_builder *builder, const struct group *group,
		       struct snap_stack *stack)
{
	struct snap_arena *arena = &builder->result->arena;
	uint64_t *samples = snap_arena_new_array(arena, group->listed, uint64_t);

	if (!samples ||
	    !make_stack(arena, &builder->recording->stacks[group->stack], group->id,
			&builder->recording->tracks[group->last_track], group->listed, stack))
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
	stack->wait = common_wait(stack);
	stack->state_samples = snap_arena_memdup(arena, group->states, sizeof(group->states));
	if (!stack->state_samples || !label_stack(&builder->strings, builder->options, stack))
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

		if (!fill_stack(builder, &builder->groups[i], &node->stacks[node->stack_count++]))
			return false;
	}
	for (size_t i = 0; i < builder->recording->process_count; i++)
		if (nodes[i]->stack_count)
			qsort(nodes[i]->stacks, nodes[i]->stack_count, sizeof(*nodes[i]->stacks),
			      snap_stack_compare);
	return true;
}

/* ---- as a snapshot ---- */

static int64_t time_of(const struct snap_recording *recording, uint32_t tick)
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
		struct snap_node *node = copy_node(arena, process->node);

		if (!node)
			return NULL;
		node->recorded = true;
		node->late = process->first > 0;
		node->ended = process->ended;
		node->execed = process->execed;
		node->first_ns = time_of(recording, process->first);
		node->last_ns = time_of(recording, process->last);
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
	return make_tree(&result->arena, recording, nodes, options->flat, &result->snapshot);
}

struct stacksnap_error *snap_recorded_groups_init(struct snap_recorded_groups *groups,
						  const struct snap_recording *recording,
						  const struct snap_options *options)
{
	_cleanup_(builder_deinit) struct group_builder builder = {
		.recording = recording,
		.result = groups,
		.options = options,
		.most_visits =
			options->max_memory ? options->max_memory / BYTES_OF_VISIT : SIZE_MAX,
	};

	*groups = (struct snap_recorded_groups){ 0 };
	snap_arena_init(&groups->arena);
	snap_interner_init(&builder.strings, &groups->arena);
	builder.ids = list_ids(recording);
	if (!builder.ids)
		return snap_error_no_memory();
	for (size_t i = 0; i < recording->track_count; i++)
		if (!add_track(&builder, (uint32_t)i))
			return snap_error_no_memory();
	return make_snapshot(&builder, options) ? NULL : snap_error_no_memory();
}

void snap_recorded_groups_deinit(struct snap_recorded_groups *groups)
{
	snap_arena_deinit(&groups->arena);
}
