/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Drops the elements of a log that nothing refers to, and renumbers the rest in the same order.
 *
 * First it marks elements and copies the texts that are left. Only then, when memory can no longer be
 * short, it changes the log. Spaces keep their numbers, as others point to them. Waits are in
 * compact_waits.c.
 */
#include "base/buffer.h"
#include "store/log/compaction.h"

#include <string.h>

static void compaction_deinit(struct snap_log_compaction *compaction)
{
	free(compaction->processes.to);
	free(compaction->spaces.to);
	free(compaction->threads.to);
	free(compaction->stacks.to);
	free(compaction->frames.to);
	free(compaction->label_sets.to);
	free(compaction->labels);
	free(compaction->thread_names);
	free(compaction->reasons);
	free(compaction->tasks);
	free(compaction->calls);
	free(compaction->names);
	free(compaction->objects.to);
	free(compaction->words.to);
	free(compaction->kept_words);
	free(compaction->kept_objects);
	free(compaction->sockets);
	free(compaction->socket_stamps);
	free(compaction->explained);
	snap_interner_deinit(&compaction->strings);
	snap_arena_deinit(&compaction->arena);
}

/* Numbers of so many elements, none of which is marked yet. False without memory. */
static bool make_moves(struct snap_log_moves *moves, size_t count)
{
	moves->to = calloc(count + 1, sizeof(*moves->to));
	moves->count = count;
	return moves->to;
}

/* ---- marking ---- */

static void mark_change(struct snap_log_compaction *compaction,
			const struct snap_log_change *change)
{
	compaction->threads.to[change->thread] = 1;
	if (change->object)
		compaction->objects.to[change->object - 1] = 1;
	if (change->stack != SNAP_LOG_GONE)
		compaction->stacks.to[change->stack] = 1;
}

static void mark_threads(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	for (size_t i = 0; i < log->change_count; i++)
		mark_change(compaction, &log->changes[i]);
	for (size_t i = 0; i < log->before_count; i++)
		if (log->before[i].stack != SNAP_LOG_GONE)
			mark_change(compaction, &log->before[i]);
	for (size_t i = 0; i < log->wake_count; i++)
		compaction->threads.to[log->wakes[i].thread] = 1;
	for (size_t i = 0; i < log->thread_count; i++) {
		const struct snap_log_standing *standing = &log->index->standing[i];
		uint64_t process_end = log->processes[log->threads[i].process].last_tick;

		if (standing->change.stack != SNAP_LOG_GONE)
			mark_change(compaction, &standing->change);
		else if (!standing->ended && process_end == UINT64_MAX)
			compaction->threads.to[i] = 1;
	}
}

/* Labels are those of a space, which stays as long as they do. */
static void mark_labels_of_tasks(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	for (size_t i = 0; i < log->thread_count; i++) {
		uint32_t task = compaction->threads.to[i] ? log->threads[i].task : 0;
		uint32_t labels = task ? log->tasks[task - 1].labels : 0;
		uint32_t space;

		if (!labels)
			continue;
		space = log->label_sets[labels - 1].space;
		compaction->label_sets.to[labels - 1] = 1;
		compaction->spaces.to[space] = 1;
		compaction->processes.to[log->spaces[space].process] = 1;
	}
}

static void mark_processes(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	for (size_t i = 0; i < log->process_count; i++)
		if (log->processes[i].last_tick == UINT64_MAX ||
		    (log->tick_count && log->processes[i].last_tick >= log->first_tick))
			compaction->processes.to[i] = 1;
	for (size_t i = 0; i < log->thread_count; i++)
		if (compaction->threads.to[i])
			compaction->processes.to[log->threads[i].process] = 1;
	for (size_t i = 0; i < log->stack_count; i++) {
		const struct snap_log_stack *stack = &log->stacks[i];

		if (!compaction->stacks.to[i])
			continue;
		compaction->spaces.to[stack->space] = 1;
		compaction->processes.to[log->spaces[stack->space].process] = 1;
		if (stack->labels)
			compaction->label_sets.to[stack->labels - 1] = 1;
		for (size_t k = 0; k < stack->frame_count; k++)
			compaction->frames.to[log->frame_ids[stack->frame_start + k]] = 1;
	}
	for (size_t i = 0; i < log->object_count; i++) {
		uint32_t space = log->objects[i].space;

		if (!compaction->objects.to[i])
			continue;
		compaction->spaces.to[space] = 1;
		compaction->processes.to[log->spaces[space].process] = 1;
	}
	mark_labels_of_tasks(log, compaction);
	for (size_t i = 0; i < log->process_count; i++)
		if (compaction->processes.to[i] && log->processes[i].space != UINT32_MAX)
			compaction->spaces.to[log->processes[i].space] = 1;
}

/* New numbers in place of marks. */
static void number_kept_elements(struct snap_log_moves *moves)
{
	uint32_t next = 0;

	for (size_t i = 0; i < moves->count; i++)
		moves->to[i] = moves->to[i] ? next++ : UINT32_MAX;
}

static bool mark_elements(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	if (!make_moves(&compaction->processes, log->process_count) ||
	    !make_moves(&compaction->spaces, log->capture->process_count) ||
	    !make_moves(&compaction->threads, log->thread_count) ||
	    !make_moves(&compaction->stacks, log->stack_count) ||
	    !make_moves(&compaction->frames, log->frame_count) ||
	    !make_moves(&compaction->label_sets, log->label_set_count) ||
	    !make_moves(&compaction->objects, log->object_count) ||
	    !make_moves(&compaction->words, log->words_count))
		return false;
	mark_threads(log, compaction);
	snap_log_mark_waits(log, compaction);
	mark_processes(log, compaction);
	number_kept_elements(&compaction->processes);
	number_kept_elements(&compaction->threads);
	number_kept_elements(&compaction->stacks);
	number_kept_elements(&compaction->frames);
	number_kept_elements(&compaction->label_sets);
	number_kept_elements(&compaction->objects);
	number_kept_elements(&compaction->words);
	for (size_t i = 0; i < compaction->spaces.count; i++)
		compaction->spaces.to[i] = compaction->spaces.to[i] ? (uint32_t)i : UINT32_MAX;
	return true;
}

/* ---- texts ---- */

static bool copy_kept_text(struct snap_log_compaction *compaction, const char **text)
{
	return snap_intern_text(&compaction->strings, text, SIZE_MAX);
}

static bool copy_kept_labels(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->labels = calloc(log->label_set_count + 1, sizeof(struct snap_label *));
	for (size_t i = 0; compaction->labels && i < log->label_set_count; i++) {
		const struct snap_log_labels *set = &log->label_sets[i];
		uint32_t to = compaction->label_sets.to[i];
		struct snap_label *labels;

		if (to == UINT32_MAX)
			continue;
		labels = snap_arena_memdup(&compaction->arena, set->labels,
					   set->count * sizeof(*labels));
		if (!labels)
			return false;
		compaction->labels[to] = labels;
		for (size_t k = 0; k < set->count; k++)
			if (!copy_kept_text(compaction, &labels[k].key) ||
			    !copy_kept_text(compaction, &labels[k].value))
				return false;
	}
	return compaction->labels;
}

static bool copy_kept_creator(struct snap_log_compaction *compaction, struct snap_log_task *task)
{
	struct snap_entry *entry;

	if (!task->created_by)
		return true;
	entry = snap_arena_memdup(&compaction->arena, task->created_by, sizeof(*entry));
	task->created_by = entry;
	return entry && copy_kept_text(compaction, &entry->function) &&
	       copy_kept_text(compaction, &entry->file);
}

static bool copy_tasks(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->tasks = calloc(log->task_count + 1, sizeof(*compaction->tasks));
	for (size_t i = 0; compaction->tasks && i < log->thread_count; i++) {
		struct snap_log_task *task;

		if (compaction->threads.to[i] == UINT32_MAX || !log->threads[i].task)
			continue;
		task = &compaction->tasks[compaction->task_count++];
		*task = log->tasks[log->threads[i].task - 1];
		if (task->labels)
			task->labels = compaction->label_sets.to[task->labels - 1] + 1;
		if (!copy_kept_text(compaction, &task->id) ||
		    !copy_kept_text(compaction, &task->name) ||
		    !copy_kept_text(compaction, &task->runtime) ||
		    !copy_kept_text(compaction, &task->parent) ||
		    !copy_kept_creator(compaction, task))
			return false;
	}
	return compaction->tasks;
}

static bool copy_texts(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->thread_names = calloc(log->thread_count + 1, sizeof(char *));
	compaction->reasons = calloc(log->reason_count + 1, sizeof(char *));
	compaction->calls = calloc(log->call_count + 1, sizeof(*compaction->calls));
	compaction->names = calloc(log->name_count + 1, sizeof(*compaction->names));
	if (!compaction->thread_names || !compaction->reasons || !compaction->calls ||
	    !compaction->names)
		return false;
	for (size_t i = 0; i < log->thread_count; i++) {
		uint32_t to = compaction->threads.to[i];

		if (to == UINT32_MAX)
			continue;
		compaction->thread_names[to] = log->threads[i].name;
		if (!copy_kept_text(compaction, &compaction->thread_names[to]))
			return false;
	}
	for (size_t i = 0; i < log->reason_count; i++) {
		compaction->reasons[i] = log->reasons[i];
		if (!copy_kept_text(compaction, &compaction->reasons[i]))
			return false;
	}
	for (size_t i = 0; i < log->call_count; i++) {
		compaction->calls[i] = log->calls[i];
		if (!copy_kept_text(compaction, &compaction->calls[i].syscall) ||
		    !copy_kept_text(compaction, &compaction->calls[i].wchan))
			return false;
	}
	/* One frame has one name of its own: they follow each other in the order of the frames. */
	for (size_t i = 0; i < log->frame_count; i++) {
		if (compaction->frames.to[i] == UINT32_MAX || !log->frames[i].name)
			continue;
		if (compaction->name_count == log->name_count ||
		    !snap_frame_copy(&compaction->strings, &log->names[log->frames[i].name - 1],
				     &compaction->names[compaction->name_count++]))
			return false;
	}
	return true;
}

/* ---- renumbering; nothing can fail from here on ---- */

/* The nearest ancestor that is left: no tick that is left shows those between. */
static uint32_t kept_ancestor(const struct snap_log *log,
			      const struct snap_log_compaction *compaction, uint32_t process)
{
	/* A parent was there before its child. */
	while (process != UINT32_MAX && compaction->processes.to[process] == UINT32_MAX)
		process = log->processes[process].parent;
	return process == UINT32_MAX ? UINT32_MAX : compaction->processes.to[process];
}

static void move_processes(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	size_t count = 0;

	/* From the end, while the old numbers of all that come before are still true. */
	for (size_t i = log->process_count; i-- > 0;)
		if (compaction->processes.to[i] != UINT32_MAX)
			log->processes[i].parent =
				kept_ancestor(log, compaction, log->processes[i].parent);
	for (size_t i = 0; i < log->process_count; i++)
		if (compaction->processes.to[i] != UINT32_MAX) {
			log->processes[count] = log->processes[i];
			/* Its texts go; only recordings of recordings have it, which are no rings.
			 */
			log->processes[count++].reported = (struct snap_log_reported){ 0 };
		}
	log->process_count = count;
	for (size_t i = 0; i < compaction->spaces.count; i++) {
		uint32_t *process = &log->spaces[i].process;

		if (!log->index->spaces[i].version)
			continue;
		if (compaction->spaces.to[i] == UINT32_MAX)
			snap_log_space_drop(log, (uint32_t)i);
		else
			*process = compaction->processes.to[*process];
	}
}

static void move_change(const struct snap_log_compaction *compaction,
			struct snap_log_change *change)
{
	change->thread = compaction->threads.to[change->thread];
	if (change->stack != SNAP_LOG_GONE)
		change->stack = compaction->stacks.to[change->stack];
	if (change->object)
		change->object = compaction->objects.to[change->object - 1] + 1;
}

/* Before the number of threads is the new one. */
static void move_wakes(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	struct snap_log_index *index = log->index;
	size_t awake = 0, before = 0;

	for (size_t i = 0; i < log->wake_count; i++)
		log->wakes[i].thread =
			compaction->threads.to[log->wakes[i].thread] & SNAP_LOG_WAKE_THREADS;
	for (size_t i = 0; i < index->awake_count; i++) {
		uint32_t to = compaction->threads.to[index->awake[i]];

		if (to != UINT32_MAX)
			index->awake[awake++] = to;
	}
	index->awake_count = awake;
	for (size_t i = 0; i < log->ran_before_count; i++) {
		uint32_t to = compaction->threads.to[i];

		if (to == UINT32_MAX)
			continue;
		log->ran_before[to] = log->ran_before[i];
		before = to + (size_t)1;
	}
	log->ran_before_count = before;
}

static void move_threads(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	struct snap_log_standing *standing = log->index->standing;
	size_t before = 0;
	uint32_t task = 0;

	for (size_t i = 0; i < log->thread_count; i++) {
		uint32_t to = compaction->threads.to[i];

		if (to == UINT32_MAX)
			continue;
		log->threads[to] = log->threads[i];
		log->threads[to].process = compaction->processes.to[log->threads[i].process];
		log->threads[to].name = compaction->thread_names[to];
		if (log->threads[to].task)
			log->threads[to].task = ++task;
		standing[to] = standing[i];
		move_change(compaction, &standing[to].change);
		if (i < log->before_count) {
			log->before[to] = log->before[i];
			move_change(compaction, &log->before[to]);
			before = to + 1;
		}
	}
	log->before_count = before;
	move_wakes(log, compaction);
	for (size_t i = 0; i < log->change_count; i++)
		move_change(compaction, &log->changes[i]);
}

static void move_stacks(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	size_t frames = 0, stacks = 0, ids = 0;
	uint32_t name = 0;

	for (size_t i = 0; i < log->frame_count; i++) {
		if (compaction->frames.to[i] == UINT32_MAX)
			continue;
		log->frames[frames] = log->frames[i];
		if (log->frames[frames].name)
			log->frames[frames].name = ++name;
		frames++;
	}
	log->frame_count = frames;
	for (size_t i = 0; i < log->label_set_count; i++)
		if (compaction->label_sets.to[i] != UINT32_MAX)
			log->label_sets[compaction->label_sets.to[i]] = log->label_sets[i];
	/* Their frames lie in the order of the stacks. */
	for (size_t i = 0; i < log->stack_count; i++) {
		struct snap_log_stack stack = log->stacks[i];

		if (compaction->stacks.to[i] == UINT32_MAX)
			continue;
		for (size_t k = 0; k < stack.frame_count; k++)
			log->frame_ids[ids + k] =
				compaction->frames.to[log->frame_ids[stack.frame_start + k]];
		stack.frame_start = ids;
		if (stack.labels)
			stack.labels = compaction->label_sets.to[stack.labels - 1] + 1;
		ids += stack.frame_count;
		log->stacks[stacks++] = stack;
	}
	log->stack_count = stacks;
	log->frame_id_count = ids;
}

static void move_texts(struct snap_log *log, struct snap_log_compaction *compaction)
{
	snap_interner_deinit(&log->strings);
	snap_arena_deinit(&log->arena);
	log->arena = compaction->arena;
	log->strings = compaction->strings;
	log->strings.arena = &log->arena;
	snap_arena_init(&compaction->arena);
	snap_interner_init(&compaction->strings, &compaction->arena);
	for (size_t i = 0; i < log->reason_count; i++)
		log->reasons[i] = compaction->reasons[i];
	for (size_t i = 0; i < log->call_count; i++)
		log->calls[i] = compaction->calls[i];
	for (size_t i = 0; i < compaction->name_count; i++)
		log->names[i] = compaction->names[i];
	log->name_count = compaction->name_count;
	for (size_t i = 0; i < log->label_set_count; i++)
		log->label_sets[i].labels = compaction->labels[i];
	if (compaction->task_count)
		memcpy(log->tasks, compaction->tasks, compaction->task_count * sizeof(*log->tasks));
	log->task_count = compaction->task_count;
}

void snap_log_shrink_array(void *pointer_to_array, size_t *capacity, size_t count, size_t size)
{
	size_t wanted = 2 * count + 16;
	void *array;

	if (*capacity <= 2 * wanted)
		return;
	memcpy(&array, pointer_to_array, sizeof(array));
	array = realloc(array, wanted * size);
	if (!array)
		return;
	memcpy(pointer_to_array, &array, sizeof(array));
	*capacity = wanted;
}

static void shrink_all(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	snap_log_shrink(log->processes, log->process_capacity, log->process_count);
	snap_log_shrink(log->threads, log->thread_capacity, log->thread_count);
	snap_log_shrink(index->standing, index->standing_capacity, log->thread_count);
	snap_log_shrink(log->tasks, log->task_capacity, log->task_count);
	snap_log_shrink(log->before, index->before_capacity, log->before_count);
	snap_log_shrink(log->ran_before, index->ran_before_capacity, log->ran_before_count);
	snap_log_shrink(log->frames, log->frame_capacity, log->frame_count);
	snap_log_shrink(log->frame_ids, log->frame_id_capacity, log->frame_id_count);
	snap_log_shrink(log->stacks, log->stack_capacity, log->stack_count);
	snap_log_shrink(log->label_sets, log->label_set_capacity, log->label_set_count);
	snap_log_shrink(log->names, log->name_capacity, log->name_count);
}

size_t snap_log_kept_count(const struct snap_log_moves *moves)
{
	size_t count = 0;

	for (size_t i = 0; i < moves->count; i++)
		count += moves->to[i] != UINT32_MAX;
	return count;
}

static void publish_moves(struct snap_log_moves *published, struct snap_log_moves *moves)
{
	struct snap_log_moves old = *published;

	*published = *moves;
	*moves = old;
}

struct stacksnap_error *snap_log_compact(struct snap_log *log)
{
	_cleanup_(compaction_deinit) struct snap_log_compaction compaction = { 0 };
	struct snap_log_index *index = log->index;

	snap_arena_init(&compaction.arena);
	snap_interner_init(&compaction.strings, &compaction.arena);
	if (!mark_elements(log, &compaction) || !copy_texts(log, &compaction) ||
	    !copy_kept_labels(log, &compaction) || !copy_tasks(log, &compaction) ||
	    !snap_log_copy_waits(log, &compaction))
		return snap_error_no_memory();
	move_threads(log, &compaction);
	log->thread_count = snap_log_kept_count(&compaction.threads);
	move_processes(log, &compaction);
	move_stacks(log, &compaction);
	snap_log_move_waits(log, &compaction);
	log->label_set_count = snap_log_kept_count(&compaction.label_sets);
	move_texts(log, &compaction);
	shrink_all(log);
	publish_moves(&index->process_moves, &compaction.processes);
	publish_moves(&index->space_moves, &compaction.spaces);
	publish_moves(&index->thread_moves, &compaction.threads);
	publish_moves(&index->stack_moves, &compaction.stacks);
	publish_moves(&index->object_moves, &compaction.objects);
	snap_log_count_costs(log);
	return snap_log_rebuild_tables(log) ? NULL : snap_error_no_memory();
}
