/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tasks of a log -> those of a recording: see internal.h. Knows nothing of how they are grouped. */
#include "analyze/log/internal.h"

static bool fill_log_task_labels(struct snap_log_analysis *of, const struct snap_log_labels *set,
				 struct snap_task *task)
{
	struct snap_analysis *analysis = &of->analysis;

	task->labels =
		snap_arena_new_array(snap_analysis_arena(analysis), set->count, struct snap_label);
	for (size_t i = 0; task->labels && i < set->count; i++) {
		const char *key = snap_analysis_text(analysis, set->labels[i].key);
		const char *value = snap_analysis_text(analysis, set->labels[i].value);

		if (key)
			task->labels[task->label_count++] =
				(struct snap_label){ key, value ? value : "" };
	}
	return task->labels;
}

static bool fill_creator(struct snap_log_analysis *of, const struct snap_entry *from,
			 struct snap_task *task)
{
	struct snap_analysis *analysis = &of->analysis;
	struct snap_entry *entry = snap_arena_new(snap_analysis_arena(analysis), struct snap_entry);

	task->created_by = entry;
	if (!entry)
		return false;
	entry->function = snap_analysis_text(analysis, from->function);
	if (of->options->lines) {
		entry->file = snap_analysis_text(analysis, from->file);
		entry->line = from->line;
	}
	return true;
}

struct snap_task *snap_log_task(struct snap_log_analysis *of, uint32_t thread)
{
	uint32_t number = of->log->threads[thread].task - 1;
	const struct snap_log_task *from = &of->log->tasks[number];
	struct snap_task *task = of->tasks[number];

	if (task)
		return task;
	task = snap_arena_new(snap_analysis_arena(&of->analysis), struct snap_task);
	if (!task)
		return NULL;
	*task = (struct snap_task){
		.id = snap_analysis_text(&of->analysis, from->id),
		.name = snap_analysis_text(&of->analysis, from->name),
		.parent = snap_analysis_text(&of->analysis, from->parent),
		.labels_cut = from->labels_cut,
	};
	if (!task->id || (from->created_by && !fill_creator(of, from->created_by, task)) ||
	    (from->labels &&
	     !fill_log_task_labels(of, &of->log->label_sets[from->labels - 1], task)))
		return NULL;
	of->tasks[number] = task;
	return task;
}

bool snap_log_standing_task(struct snap_log_analysis *of, const struct snap_log_change *change,
			    struct snap_task *ret)
{
	const struct snap_task *task = snap_log_task(of, change->thread);

	if (!task)
		return false;
	*ret = *task;
	ret->state = (enum snap_task_state)change->state;
	if (change->syscall >= SNAP_LOG_FIRST_CALL)
		ret->wait = of->log->calls[change->syscall - SNAP_LOG_FIRST_CALL].wchan;
	return true;
}
