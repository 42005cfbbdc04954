/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks in a recording on disk, one for each thread without a tid. See internal.h; their states are
 * among the changes of threads.
 */
#include "store/recording/internal.h"

static void code_creator(struct snap_log_file *file, struct snap_log_task *task)
{
	struct snap_entry entry = { .line = 0 };
	bool known = task->created_by;

	if (!file->reads && known)
		entry = *task->created_by;
	snap_log_code_flag(file, &known);
	if (!known)
		return;
	snap_log_code_text(file, &entry.function, SNAP_MAX_NAME);
	snap_log_code_text(file, &entry.file, SNAP_MAX_NAME);
	snap_log_code(file, entry.line, UINT32_MAX, "invalid line number");
	snap_log_check(file, entry.function, "task without a creator");
	if (!file->reads || !snap_log_fine(file))
		return;
	task->created_by = snap_arena_memdup(&file->log->arena, &entry, sizeof(entry));
	if (!task->created_by)
		snap_log_fail_memory(file);
}

static void code_task(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_task *task = element;

	snap_log_check(file, index < file->task_threads, "task without a thread");
	snap_log_code_text(file, &task->id, SNAP_MAX_NAME);
	snap_log_code_text(file, &task->name, SNAP_MAX_NAME);
	snap_log_code_text(file, &task->runtime, SNAP_MAX_NAME);
	snap_log_code_text(file, &task->parent, SNAP_MAX_NAME);
	snap_log_code(file, task->labels, file->log->label_set_count, "invalid labels");
	snap_log_code_flag(file, &task->labels_cut);
	code_creator(file, task);
	snap_log_check(file, task->id && *task->id && task->runtime && *task->runtime,
		       "task without an id");
}

void snap_log_code_tasks(struct snap_log_file *file)
{
	snap_log_code_new(file, tasks, task, code_task);
	snap_log_check(file, file->log->task_count == file->task_threads,
		       "thread without a number");
}
