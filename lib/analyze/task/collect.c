/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Takes what the runtimes of a process know into the analysis: managed frames become records as
 * machine frames do, tasks are distinguished by their frames, and threads that only carry tasks are
 * hidden. Knows nothing of the meaning of names and labels.
 */
#include "analyze/task/task.h"

#include "analyze/classify.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"

#include <string.h>

struct collector {
	struct snap_analysis *analysis;
	struct snap_raw_process *raw;
	struct snap_pointer_table records; /* struct snap_runtime_frame -> its record */
	struct snap_hash_table stacks;     /* of raw->stacks, those of tasks */
	const struct snap_frame **frames;  /* of the current stack */
	size_t frame_capacity, task_capacity;
};

static void collector_deinit(struct collector *collector)
{
	snap_pointer_table_deinit(&collector->records);
	snap_hash_table_deinit(&collector->stacks);
	free(collector->frames);
}

static int compare_thread(const void *key, const void *element)
{
	return snap_compare(*(const pid_t *)key,
			    ((const struct snap_runtime_thread *)element)->tid);
}

void snap_task_find_thread(const struct snap_raw_process *raw, struct snap_raw_thread *thread)
{
	pid_t tid = thread->thread->tid;

	for (size_t i = 0; i < raw->runtime_count && !thread->managed; i++) {
		const struct snap_runtime_result *result = raw->runtimes[i];

		if (result->thread_count)
			thread->managed = bsearch(&tid, result->threads, result->thread_count,
						  sizeof(*result->threads), compare_thread);
		thread->runtime = result->name;
	}
	if (thread->managed && thread->managed->stack.count == 0)
		thread->managed = NULL;
}

/* ---- frames ---- */

static struct snap_frame_record *make_record(struct collector *collector,
					     const struct snap_runtime_frame *from)
{
	struct snap_frame_record *record =
		snap_arena_new(snap_analysis_arena(collector->analysis), struct snap_frame_record);

	if (!record)
		return NULL;
	if (from->pc && from->pc >> SNAP_PC_USER_BITS == 0)
		snap_frame_record_set_pc(record, from->is_exact ? snap_pc_exact(from->pc)
								: snap_pc_return(from->pc));
	record->is_managed = true;
	record->frame.entries = from->entries;
	record->frame.entry_count = from->entry_count;
	for (size_t i = 0; i < from->entry_count; i++)
		from->entries[i].system = from->entries[i].system ||
					  snap_classify_managed_system(from->entries[i].language,
								       from->entries[i].function,
								       from->entries[i].file);
	return snap_frame_record_add(collector->raw, record) ? record : NULL;
}

static const struct snap_frame *frame_of(struct collector *collector,
					 const struct snap_runtime_frame *from)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&collector->records, from);
	struct snap_frame_record *record = found ? found->pointer : NULL;

	if (found && !record)
		found->pointer = record = make_record(collector, from);
	return record ? &record->frame : NULL;
}

/* The frames of a managed stack, into collector->frames. False without memory. */
static bool list_frames(struct collector *collector, const struct snap_runtime_stack *stack)
{
	if (!snap_reserve_array(collector->frames, collector->frame_capacity, stack->count + 1))
		return false;
	for (size_t i = 0; i < stack->count; i++) {
		collector->frames[i] = i && stack->frames[i] == stack->frames[i - 1]
					       ? collector->frames[i - 1]
					       : frame_of(collector, stack->frames[i]);
		if (!collector->frames[i])
			return false;
	}
	return true;
}

/* ---- tasks ---- */

/* The raw stack of a task, shared with those that stand in the same place. */
static bool find_collected_stack(struct collector *collector, const struct snap_runtime_task *task,
				 size_t *ret)
{
	struct snap_raw_process *raw = collector->raw;
	size_t bytes = task->stack.count * sizeof(struct snap_frame *);
	struct snap_raw_stack stack = { .frame_count = task->stack.count,
					.end = task->stack.end,
					.reason = task->stack.reason };

	if (!list_frames(collector, &task->stack))
		return false;
	stack.hash = snap_hash_bytes(collector->frames, bytes, stack.end);
	if (snap_hash_got(&collector->stacks, stack.hash, i,
			  raw->stacks[i].frame_count == stack.frame_count &&
				  raw->stacks[i].end == stack.end &&
				  raw->stacks[i].reason == stack.reason &&
				  memcmp(raw->stacks[i].frames, collector->frames, bytes) == 0,
			  ret))
		return true;
	stack.frames = snap_arena_memdup(snap_analysis_arena(collector->analysis),
					 collector->frames, bytes);
	return stack.frames && snap_raw_stack_add(raw, &stack, ret) &&
	       snap_hash_table_add(&collector->stacks, stack.hash, *ret);
}

static bool copy_collected_labels(struct collector *collector, struct snap_raw_task *task)
{
	size_t count = task->task->label_count, kept = 0;

	task->labels = snap_arena_new_array(snap_analysis_arena(collector->analysis), count + 1,
					    struct snap_label);
	for (size_t i = 0; task->labels && i < count; i++) {
		struct snap_label label = task->task->labels[i];

		if (label.key)
			task->labels[kept++] =
				(struct snap_label){ label.key, label.value ? label.value : "" };
	}
	if (task->labels)
		task->label_count = snap_task_sort_labels(task->labels, kept);
	return task->labels;
}

SNAP_ORDER(compare_tasks, struct snap_raw_task, a, b,
	   snap_task_compare_ids(a->task->id, b->task->id));

static bool add_tasks(struct collector *collector, const struct snap_runtime_result *result)
{
	struct snap_raw_process *raw = collector->raw;
	size_t first = raw->task_count;
	bool sorted = true;

	for (size_t i = 0; i < result->task_count && raw->task_count < SNAP_MAX_TASKS; i++) {
		const struct snap_runtime_task *task = &result->tasks[i];
		struct snap_raw_task *listed = &raw->tasks[raw->task_count];

		if (!task->id || !*task->id ||
		    (task->is_system && !collector->analysis->options->system_tasks))
			continue;
		*listed = (struct snap_raw_task){ .task = task, .runtime = result };
		if (!find_collected_stack(collector, task, &listed->stack) ||
		    !copy_collected_labels(collector, listed))
			return false;
		sorted = sorted &&
			 (raw->task_count == first || compare_tasks(listed - 1, listed) <= 0);
		raw->task_count++;
	}
	if (!sorted)
		qsort(raw->tasks + first, raw->task_count - first, sizeof(*raw->tasks),
		      compare_tasks);
	return true;
}

/* ---- threads ---- */

struct snap_raw_thread *snap_task_thread(const struct snap_raw_process *raw, pid_t tid)
{
	size_t at = snap_first_not(raw->thread_count, i, raw->threads[i].thread->tid < tid);

	return at < raw->thread_count && raw->threads[at].thread->tid == tid ? &raw->threads[at]
									     : NULL;
}

static void hide_threads(struct collector *collector, size_t number)
{
	struct snap_raw_process *raw = collector->raw;
	const struct snap_runtime_result *result = raw->runtimes[number];

	if (collector->analysis->options->all_threads)
		return;
	for (size_t i = 0; i < result->idle_thread_count; i++) {
		struct snap_raw_thread *thread = snap_task_thread(raw, result->idle_threads[i]);

		raw->idle_threads[number] += thread && !thread->is_hidden;
		if (thread)
			thread->is_hidden = true;
	}
	for (size_t i = 0; i < result->task_count; i++) {
		struct snap_raw_thread *thread =
			result->tasks[i].tid ? snap_task_thread(raw, result->tasks[i].tid) : NULL;

		if (thread)
			thread->is_hidden = true;
	}
}

static bool list_managed_frames(struct collector *collector)
{
	struct snap_raw_process *raw = collector->raw;

	for (size_t i = 0; i < raw->thread_count; i++) {
		struct snap_raw_thread *thread = &raw->threads[i];

		if (!thread->managed)
			continue;
		if (!list_frames(collector, &thread->managed->stack))
			return false;
		thread->managed_frames = snap_arena_memdup(
			&collector->analysis->scratch, collector->frames,
			thread->managed->stack.count * sizeof(*collector->frames));
		if (!thread->managed_frames)
			return false;
	}
	return true;
}

struct stacksnap_error *snap_tasks_collect(struct snap_analysis *analysis,
					   struct snap_raw_process *raw)
{
	_cleanup_(collector_deinit) struct collector collector = { .analysis = analysis,
								   .raw = raw };
	size_t total = 0;

	if (raw->runtime_count == 0)
		return NULL;
	for (size_t i = 0; i < raw->runtime_count; i++)
		total += raw->runtimes[i]->task_count;
	raw->idle_threads = snap_arena_new_array(&analysis->scratch, raw->runtime_count, size_t);
	raw->tasks = snap_arena_new_array(&analysis->scratch, total + 1, struct snap_raw_task);
	if (!raw->idle_threads || !raw->tasks || !list_managed_frames(&collector))
		return snap_error_no_memory();
	for (size_t i = 0; i < raw->runtime_count; i++) {
		SNAP_TRY(snap_options_check(analysis->options));
		hide_threads(&collector, i);
		SNAP_TRY(snap_no_memory_unless(add_tasks(&collector, raw->runtimes[i])));
	}
	return NULL;
}
