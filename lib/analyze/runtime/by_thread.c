/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads threads that were copied one after the other: see by_thread.h. */
#include "analyze/runtime/by_thread.h"

#include "analyze/runtime/runtimes.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

/* What was read with one thread's memory. */
struct part {
	pid_t tid;
	struct snap_runtime_result *result;
};

struct joining {
	const struct snap_runtime_process *of;
	struct part *parts;
	size_t part_count;
	/* One frame for each place, for all threads. */
	const struct snap_runtime_frame **frames;
	size_t frame_count, frame_capacity;
	struct snap_hash_table table;
	struct snap_runtime_symbols symbols;
};

static void joining_deinit(struct joining *joining)
{
	free(joining->parts);
	free(joining->frames);
	snap_hash_table_deinit(&joining->table);
	snap_runtime_symbols_deinit(&joining->symbols);
}

/* ---- frames ---- */

static uint64_t hash_joined_frame(const struct snap_runtime_frame *frame)
{
	uint64_t hash = frame->pc;

	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = snap_hash_add(hash, (uintptr_t)entry->function);
		hash = snap_hash_add(hash, (uint64_t)entry->line << 32 | entry->column);
	}
	return hash;
}

/* Texts are interned. */
static bool is_same_frame(const struct snap_runtime_frame *a, const struct snap_runtime_frame *b)
{
	bool same =
		a->pc == b->pc && a->is_exact == b->is_exact && a->entry_count == b->entry_count;

	for (size_t i = 0; same && a != b && i < a->entry_count; i++) {
		const struct snap_entry *x = &a->entries[i], *y = &b->entries[i];

		same = x->function == y->function && x->symbol == y->symbol && x->file == y->file &&
		       x->line == y->line && x->column == y->column && x->inlined == y->inlined &&
		       x->system == y->system;
	}
	return same;
}

/* The frame that represents all at its place; NULL: no memory. */
static const struct snap_runtime_frame *find_joined_frame(struct joining *joining,
							  const struct snap_runtime_frame *frame)
{
	uint64_t hash = hash_joined_frame(frame);
	struct snap_probe probe = snap_hash_table_probe(&joining->table, hash);

	while (snap_probe_next(&probe))
		if (is_same_frame(joining->frames[probe.number], frame))
			return joining->frames[probe.number];
	if (!snap_reserve_array(joining->frames, joining->frame_capacity,
				joining->frame_count + 1) ||
	    !snap_hash_table_add(&joining->table, hash, joining->frame_count))
		return NULL;
	return joining->frames[joining->frame_count++] = frame;
}

static bool take_frames(struct joining *joining, struct snap_runtime_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		const struct snap_runtime_frame *frame =
			find_joined_frame(joining, stack->frames[i]);

		if (!frame)
			return false;
		stack->frames[i] = frame;
	}
	return true;
}

/* ---- the results of all threads ---- */

/* They were not read at one moment: of an interpreter the first one that held its lock counts. */
static bool is_interpreter_held(const struct snap_runtime_result *result, int64_t interpreter)
{
	return snap_any(result->thread_count, i,
			result->threads[i].holds_gil &&
				result->threads[i].interpreter == interpreter);
}

static bool add_joined_thread(struct joining *joining, const struct part *part,
			      struct snap_runtime_result *result)
{
	for (size_t i = 0; i < part->result->thread_count; i++) {
		struct snap_runtime_thread thread = part->result->threads[i];

		if (thread.tid != part->tid)
			continue;
		thread.holds_gil =
			thread.holds_gil && !is_interpreter_held(result, thread.interpreter);
		result->threads[result->thread_count++] = thread;
		return take_frames(joining, &thread.stack);
	}
	return true;
}

static bool add_task(struct joining *joining, const struct part *part,
		     struct snap_runtime_result *result)
{
	for (size_t i = 0; i < part->result->task_count; i++) {
		struct snap_runtime_task *task = &part->result->tasks[i];

		if (task->tid != part->tid)
			continue;
		result->tasks[result->task_count++] = *task;
		return take_frames(joining, &task->stack);
	}
	return true;
}

static void add_idle_thread(const struct part *part, struct snap_runtime_result *result)
{
	for (size_t i = 0; i < part->result->idle_thread_count; i++)
		if (part->result->idle_threads[i] == part->tid)
			result->idle_threads[result->idle_thread_count++] = part->tid;
}

static void add_facts(const struct part *part, struct snap_runtime_result *result)
{
	const struct snap_runtime_result *from = part->result;

	result->name = from->name;
	result->version = result->version ?: from->version;
	result->torn |= from->torn;
	result->has_tasks |= from->has_tasks;
	result->parents_await |= from->parents_await;
	/* Where one of them was understood, all is well: the others may have nothing of it. */
	if (!from->refused)
		result->refused = NULL;
	if (!result->label_count) {
		result->labels = from->labels;
		result->label_count = from->label_count;
	}
}

SNAP_ORDER(compare_tasks, struct snap_runtime_task, a, b,
	   snap_compare(strtoull(a->id, NULL, 0), strtoull(b->id, NULL, 0)), strcmp(a->id, b->id),
	   snap_compare(a->tid, b->tid));

/* A task may have gone from thread to thread in the meantime: it is shown once. */
static void sort_tasks(struct snap_runtime_result *result)
{
	size_t kept = 0;

	qsort(result->tasks, result->task_count, sizeof(*result->tasks), compare_tasks);
	for (size_t i = 0; i < result->task_count; i++)
		if (kept == 0 || strcmp(result->tasks[kept - 1].id, result->tasks[i].id) != 0)
			result->tasks[kept++] = result->tasks[i];
	result->task_count = kept;
}

static struct stacksnap_error *join_parts(struct joining *joining, struct snap_runtime_result **ret)
{
	struct snap_arena *arena = joining->of->arena;
	struct snap_runtime_result *result = snap_arena_new(arena, struct snap_runtime_result);
	size_t count = joining->part_count;
	bool fits = true;

	SNAP_TRY(snap_no_memory_unless(result));
	result->threads = snap_arena_new_array(arena, count, struct snap_runtime_thread);
	result->tasks = snap_arena_new_array(arena, count, struct snap_runtime_task);
	result->idle_threads = snap_arena_new_array(arena, count, pid_t);
	SNAP_TRY(snap_no_memory_unless(result->threads && result->tasks && result->idle_threads));
	result->refused = joining->parts[0].result->refused;
	for (size_t i = 0; i < count && fits; i++) {
		add_facts(&joining->parts[i], result);
		add_idle_thread(&joining->parts[i], result);
		fits = add_joined_thread(joining, &joining->parts[i], result) &&
		       add_task(joining, &joining->parts[i], result);
	}
	SNAP_TRY(snap_no_memory_unless(fits));
	sort_tasks(result);
	*ret = result;
	return NULL;
}

struct stacksnap_error *snap_runtime_read_by_thread(const struct snap_runtime *runtime,
						    const struct snap_runtime_process *of,
						    struct snap_runtime_result **ret)
{
	_cleanup_(joining_deinit) struct joining joining = { .of = of };
	struct snap_process process = *of->process;
	struct snap_runtime_process own = *of;

	*ret = NULL;
	own.process = &process;
	own.symbols = &joining.symbols;
	own.is_of_thread = true;
	joining.parts = malloc((of->process->thread_count + 1) * sizeof(*joining.parts));
	SNAP_TRY(snap_no_memory_unless(joining.parts));
	for (size_t i = 0; i < of->process->thread_count; i++) {
		struct snap_thread *thread = &of->process->threads[i];
		struct part part = { .tid = thread->tid };

		if (thread->result != SNAP_THREAD_COPIED || !thread->memory)
			continue;
		process.threads = thread;
		process.thread_count = 1;
		process.memory = (struct snap_memory_image *)(uintptr_t)thread->memory;
		SNAP_TRY(snap_runtime_read_process(runtime, &own, &part.result));
		/* Its files say so: the other threads have the same ones. */
		if (!part.result)
			return NULL;
		joining.parts[joining.part_count++] = part;
	}
	return joining.part_count ? join_parts(&joining, ret) : NULL;
}
