/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks a parser's answer about the tasks of a process: numbers must be in their ranges, texts
 * must end, frames must be known. See unwinder.h. As in answer.c, the parser may go on writing, so
 * each value is read once.
 */
#include "analyze/runtime/runtimes.h"
#include "base/buffer.h"
#include "roles/unwinder/internal.h"

#include <string.h>

/* The tasks of the last answer; the next one replaces all of them. */
struct snap_remote_taken_tasks {
	struct snap_remote_tasks shown;
	struct snap_remote_task *tasks;
	struct snap_log_pcs *stacks;
	struct snap_log_managed *managed;
	struct snap_label *labels;
};

void snap_remote_drop_tasks(struct snap_remote_unwinder *unwinder)
{
	struct snap_remote_taken_tasks *taken = snap_take_ptr(unwinder->tasks);

	if (!taken)
		return;
	free(taken->tasks);
	free(taken->stacks);
	free(taken->managed);
	free(taken->labels);
	free(taken);
}

static bool make_taken(struct snap_remote_unwinder *unwinder,
		       const struct snap_exchange_answer *answer)
{
	struct snap_remote_taken_tasks *taken = calloc(1, sizeof(*taken));

	snap_remote_drop_tasks(unwinder);
	unwinder->tasks = taken;
	if (!taken)
		return false;
	taken->tasks = calloc(answer->task_count + 1ul, sizeof(*taken->tasks));
	taken->stacks = calloc(answer->stack_count + 1ul, sizeof(*taken->stacks));
	taken->managed = calloc(answer->stack_frame_count + 1ul, sizeof(*taken->managed));
	taken->labels = calloc(answer->task_label_count + 1ul, sizeof(*taken->labels));
	return taken->tasks && taken->stacks && taken->managed && taken->labels;
}

/* ---- stacks ---- */

/* Takes the frames of a stack, from frame `first` of the answer on. */
static bool take_stack_frames(struct snap_remote_unwinder *unwinder, uint32_t number,
			      uint32_t first, struct snap_log_pcs *stack)
{
	struct snap_log_managed *managed = unwinder->tasks->managed + first;

	stack->managed = managed;
	stack->managed_count = stack->count;
	for (uint32_t i = 0; i < stack->count; i++) {
		uint32_t frame;

		snap_remote_take(&frame, &unwinder->room.stack_frames[first + i], sizeof(frame));
		managed[i] = (struct snap_log_managed){
			i, snap_remote_frame(&unwinder->processes[number], frame)
		};
		if (!managed[i].frame)
			return false;
	}
	return true;
}

static bool take_stack(struct snap_remote_unwinder *unwinder, uint32_t number,
		       const struct snap_exchange_answer *answer, uint32_t index, uint32_t *frame)
{
	struct snap_log_pcs *stack = &unwinder->tasks->stacks[index];
	struct snap_exchange_stack taken;
	const char *reason;

	snap_remote_take(&taken, &unwinder->room.stacks[index], sizeof(taken));
	if (taken.end >= SNAP_UNWIND_COUNT ||
	    taken.frame_count > answer->stack_frame_count - *frame ||
	    taken.frame_count > unwinder->most_pcs ||
	    (taken.gap_count && taken.gap_after >= taken.frame_count) ||
	    !snap_remote_text_at(unwinder, answer->text_size, taken.reason, &reason))
		return false;
	*stack = (struct snap_log_pcs){ .count = taken.frame_count,
					.end = (enum snap_unwind_end)taken.end,
					.gap_after = taken.gap_count ? taken.gap_after : 0,
					.gap_count = taken.gap_count,
					.shows_all = true };
	if (snap_unwind_is_whole(stack->end) != !reason)
		return false;
	if (reason)
		stack->reason = snap_remote_reason(unwinder, reason, SNAP_EXCHANGE_REASON);
	if (reason && !stack->reason)
		return false;
	if (!take_stack_frames(unwinder, number, *frame, stack))
		return false;
	*frame += taken.frame_count;
	return true;
}

/* ---- tasks ---- */

static bool take_label(struct snap_remote_unwinder *unwinder,
		       const struct snap_exchange_answer *answer, uint32_t index,
		       const struct snap_label *before)
{
	struct snap_label *label = &unwinder->tasks->labels[index];
	struct snap_exchange_label taken;

	snap_remote_take(&taken, &unwinder->room.task_labels[index], sizeof(taken));
	return snap_remote_text_at(unwinder, answer->text_size, taken.key, &label->key) &&
	       snap_remote_text_at(unwinder, answer->text_size, taken.value, &label->value) &&
	       label->key && label->value && (!before || strcmp(before->key, label->key) < 0);
}

static bool take_task_labels(struct snap_remote_unwinder *unwinder,
			     const struct snap_exchange_answer *answer, uint32_t count,
			     uint32_t *at, struct snap_remote_task *task)
{
	if (count > SNAP_EXCHANGE_LABELS || count > answer->task_label_count - *at)
		return false;
	task->labels = &unwinder->tasks->labels[*at];
	task->label_count = count;
	for (uint32_t i = 0; i < count; i++, ++*at)
		if (!take_label(unwinder, answer, *at,
				i ? &unwinder->tasks->labels[*at - 1] : NULL))
			return false;
	return true;
}

/* Our own text for a runtime; NULL: no runtime has this name. */
static const char *runtime_named(const char *name)
{
	for (size_t i = 0; name && snap_runtimes[i]; i++)
		if (strcmp(snap_runtimes[i]->name, name) == 0)
			return snap_runtimes[i]->name;
	return NULL;
}

static bool take_texts(struct snap_remote_unwinder *unwinder, uint32_t size,
		       const struct snap_exchange_task *taken, struct snap_remote_task *task)
{
	struct {
		uint32_t place;
		const char **text;
	} texts[] = {
		{ taken->id, &task->id },
		{ taken->name, &task->name },
		{ taken->runtime, &task->runtime },
		{ taken->parent, &task->parent },
		{ taken->wait, &task->wait },
		{ taken->creator, &task->created_by.function },
		{ taken->creator_file, &task->created_by.file },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(texts); i++)
		if (!snap_remote_text_at(unwinder, size, texts[i].place, texts[i].text))
			return false;
	task->runtime = runtime_named(task->runtime);
	task->created_by.line = taken->creator_line;
	return task->runtime && task->id && *task->id;
}

static bool take_answered_task(struct snap_remote_unwinder *unwinder,
			       const struct snap_exchange_answer *answer, uint32_t index,
			       uint32_t *label)
{
	struct snap_remote_task *task = &unwinder->tasks->tasks[index];
	struct snap_exchange_task taken;

	snap_remote_take(&taken, &unwinder->room.tasks[index], sizeof(taken));
	if (taken.state >= SNAP_TASK_STATE_COUNT || taken.labels_cut > 1 ||
	    taken.stack > answer->stack_count ||
	    !take_texts(unwinder, answer->text_size, &taken, task) ||
	    !take_task_labels(unwinder, answer, taken.label_count, label, task))
		return false;
	task->state = (enum snap_task_state)taken.state;
	task->labels_cut = taken.labels_cut;
	task->stack = taken.stack ? &unwinder->tasks->stacks[taken.stack - 1] : NULL;
	return true;
}

/* ---- all of it ---- */

bool snap_remote_take_task_answer(struct snap_remote_unwinder *unwinder, uint32_t number)
{
	struct snap_exchange_answer answer;
	uint32_t frame = 0, label = 0;

	snap_remote_take(&answer, &unwinder->exchange->answer, sizeof(answer));
	if (answer.task_count > SNAP_EXCHANGE_TASKS || answer.stack_count > SNAP_EXCHANGE_STACKS ||
	    answer.stack_frame_count > SNAP_EXCHANGE_STACK_FRAMES ||
	    answer.task_label_count > SNAP_EXCHANGE_TASK_LABELS || answer.has_tasks > 1 ||
	    answer.cut > 1 || !make_taken(unwinder, &answer) ||
	    !snap_remote_take_frames(unwinder, &unwinder->processes[number], &answer))
		return false;
	if (!snap_all(answer.stack_count, i, take_stack(unwinder, number, &answer, i, &frame)))
		return false;
	if (!snap_all(answer.task_count, i, take_answered_task(unwinder, &answer, i, &label)))
		return false;
	unwinder->tasks->shown = (struct snap_remote_tasks){
		.tasks = unwinder->tasks->tasks,
		.count = answer.task_count,
		.has_tasks = answer.has_tasks,
		.cut = answer.cut,
	};
	return true;
}

const struct snap_remote_tasks *
snap_remote_unwinder_task_answer(const struct snap_remote_unwinder *unwinder)
{
	return &unwinder->tasks->shown;
}
