/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of a log, which are threads that the kernel does not know, and why they wait: see log.h. Knows
 * nothing of how they are read, nor how often.
 */
#include "base/buffer.h"
#include "base/text.h"
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

static bool copy_task_creator(struct snap_log *log, struct snap_log_task *task)
{
	const struct snap_entry *from = task->created_by;
	struct snap_entry *entry;

	if (!from)
		return true;
	entry = snap_arena_new(&log->arena, struct snap_entry);
	if (!entry)
		return false;
	*entry = (struct snap_entry){ .function = from->function,
				      .file = from->file,
				      .line = from->line };
	task->created_by = entry;
	return snap_intern_text(&log->strings, &entry->function, SNAP_MAX_NAME) &&
	       snap_intern_text(&log->strings, &entry->file, SNAP_MAX_NAME);
}

static bool copy_task(struct snap_log *log, struct snap_log_task *task)
{
	return snap_intern_text(&log->strings, &task->id, SNAP_MAX_NAME) &&
	       snap_intern_text(&log->strings, &task->name, SNAP_MAX_NAME) &&
	       snap_intern_text(&log->strings, &task->runtime, SNAP_MAX_NAME) &&
	       snap_intern_text(&log->strings, &task->parent, SNAP_MAX_NAME) &&
	       copy_task_creator(log, task);
}

struct stacksnap_error *snap_log_add_task(struct snap_log *log, uint32_t process, uint32_t space,
					  const struct snap_log_task *from,
					  const struct snap_label *labels, size_t label_count,
					  uint32_t *ret)
{
	struct snap_log_task task = *from;

	assert(task.id && task.runtime && log->spaces[space].process < log->process_count);
	SNAP_TRY(snap_log_find_labels(log, space, labels, label_count, true, &task.labels));
	SNAP_TRY(snap_no_memory_unless(
		copy_task(log, &task) &&
		snap_reserve_array(log->tasks, log->task_capacity, log->task_count + 1)));
	SNAP_TRY(snap_log_add_thread(log, process, 0, 0, NULL, false, ret));
	log->tasks[log->task_count++] = task;
	log->threads[*ret].task = (uint32_t)log->task_count;
	snap_log_charge_task(log, *ret);
	return NULL;
}

/* Reasons are a few words of a runtime; what a program makes up is bounded. */
struct stacksnap_error *snap_log_wait(struct snap_log *log, const char *wait, int16_t *ret)
{
	*ret = -1;
	if (!wait)
		return NULL;
	for (size_t i = 0; i < log->call_count; i++) {
		if (log->calls[i].syscall || !snap_same_text(log->calls[i].wchan, wait))
			continue;
		*ret = (int16_t)(SNAP_LOG_FIRST_CALL + i);
		return NULL;
	}
	if (log->call_count >= SNAP_LOG_MAX_WAITS)
		return NULL;
	if (!snap_intern_text(&log->strings, &wait, SNAP_MAX_NAME) ||
	    !snap_reserve_array(log->calls, log->call_capacity, log->call_count + 1))
		return snap_error_no_memory();
	*ret = (int16_t)(SNAP_LOG_FIRST_CALL + log->call_count);
	log->calls[log->call_count++] = (struct snap_log_call){ .wchan = wait };
	return NULL;
}
