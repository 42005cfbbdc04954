/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of a process in the parser of a remote unwinder: turns what the runtimes read in the memory
 * of one stop into numbers and texts for the client (take_tasks.c), which checks all of them. Knows
 * nothing of calls.
 */
#include "analyze/task/task.h"
#include "base/buffer.h"
#include "model/stack_cut.h"
#include "roles/unwinder/answering.h"

#include <string.h>

struct telling {
	struct snap_answering answering;
	struct snap_exchange_answer *answer;
	struct snap_pointer_table texts;          /* text -> its place */
	const struct snap_runtime_stack **stacks; /* those in the answer */
	size_t stack_capacity;
	struct snap_hash_table table; /* of them */
	struct snap_label *labels;    /* of the current task */
	size_t label_capacity;
	bool no_memory;
};

static void telling_deinit(struct telling *telling)
{
	snap_answering_deinit(&telling->answering);
	snap_pointer_table_deinit(&telling->texts);
	snap_hash_table_deinit(&telling->table);
	free(telling->stacks);
	free(telling->labels);
}

/* Notes that memory is used up, in place of an answer. */
static bool fail_telling(struct telling *telling)
{
	telling->no_memory = true;
	return false;
}

/* Equal texts are mostly one pointer, and are put once. False: there is no room. */
static bool put_task_text(struct telling *telling, const char *text, uint32_t *ret)
{
	struct snap_pointer_entry *found;

	*ret = 0;
	if (!text)
		return true;
	found = snap_pointer_table_get(&telling->texts, text);
	if (!found)
		return fail_telling(telling);
	if (!found->pointer) {
		if (!snap_answering_put_text(&telling->answering, text, ret))
			return false;
		found->pointer = (void *)(uintptr_t)*ret;
	}
	*ret = (uint32_t)(uintptr_t)found->pointer;
	return true;
}

/* ---- stacks ---- */

static bool is_same_task_stack(const struct snap_runtime_stack *a,
			       const struct snap_runtime_stack *b)
{
	return a->count == b->count && a->end == b->end && a->reason == b->reason &&
	       (a->count == 0 || memcmp(a->frames, b->frames, a->count * sizeof(*a->frames)) == 0);
}

/* False: there is no room. */
static bool put_task_frame(struct telling *telling, const struct snap_runtime_frame *frame)
{
	struct snap_exchange_answer *answer = telling->answer;
	uint32_t *room = telling->answering.exchange->room.stack_frames;

	if (answer->stack_frame_count == SNAP_EXCHANGE_STACK_FRAMES)
		return false;
	switch (snap_answering_number(&telling->answering, frame,
				      &room[answer->stack_frame_count])) {
	case SNAP_NUMBERED:
		answer->stack_frame_count++;
		return true;
	case SNAP_NUMBERED_NO_ROOM:
		return false;
	case SNAP_NUMBERED_NO_MEMORY:
		break;
	}
	return fail_telling(telling);
}

/* Puts a new stack; false: there is no room. */
static bool put_task_stack(struct telling *telling, const struct snap_runtime_stack *stack)
{
	struct snap_exchange_answer *answer = telling->answer;
	uint64_t most = telling->answering.exchange->most_pcs;
	struct snap_stack_cut cut = { stack->count, 0 };
	struct snap_exchange_stack put = { .end = stack->end };
	uint32_t first = answer->stack_frame_count;

	if (answer->stack_count == SNAP_EXCHANGE_STACKS ||
	    !put_task_text(telling,
			   snap_unwind_is_whole(stack->end) ? NULL
			   : stack->reason                  ? stack->reason
							    : "its frames cannot be read",
			   &put.reason))
		return false;
	if (stack->count > most)
		cut = most < 2 ? (struct snap_stack_cut){ most, 0 }
			       : snap_stack_cut_to(most, stack->count, 0, 0);
	for (size_t i = 0; i < cut.head + cut.tail; i++) {
		size_t from = i < cut.head ? i : stack->count - (cut.head + cut.tail - i);

		if (!put_task_frame(telling, stack->frames[from])) {
			answer->stack_frame_count = first;
			return false;
		}
	}
	put.frame_count = answer->stack_frame_count - first;
	if (cut.tail) {
		put.gap_after = (uint32_t)cut.head - 1;
		put.gap_count = stack->count - cut.head - cut.tail;
	}
	telling->answering.exchange->room.stacks[answer->stack_count++] = put;
	return true;
}

/* The place of a stack, + 1; tasks with equal stacks share one. */
static bool find_task_stack(struct telling *telling, const struct snap_runtime_stack *stack,
			    uint32_t *ret)
{
	uint64_t hash =
		snap_hash_bytes(stack->frames, stack->count * sizeof(*stack->frames), stack->end);
	uint32_t number = telling->answer->stack_count;

	if (snap_hash_got(&telling->table, hash, i, is_same_task_stack(telling->stacks[i], stack),
			  ret)) {
		++*ret;
		return true;
	}
	if (!put_task_stack(telling, stack))
		return false;
	if (!snap_reserve_array(telling->stacks, telling->stack_capacity, number + 1ul) ||
	    !snap_hash_table_add(&telling->table, hash, number))
		return fail_telling(telling);
	telling->stacks[number] = stack;
	*ret = number + 1;
	return true;
}

/* ---- tasks ---- */

/*
 * A thread shows the task that it runs; a task that is only locked to a thread waits as others do.
 */
static bool is_shown_by_thread(const struct snap_runtime_task *task)
{
	return task->tid > 0 && !(task->locked && task->state == SNAP_TASK_WAITING);
}

/* Puts the labels, sorted, as the program wrote them; labels beyond the limit are left out. */
static bool put_task_labels(struct telling *telling, const struct snap_runtime_task *task,
			    struct snap_exchange_task *put)
{
	struct snap_exchange_answer *answer = telling->answer;
	struct snap_exchange_label *room = telling->answering.exchange->room.task_labels;
	size_t count = 0;

	if (task->label_count &&
	    !snap_reserve_array(telling->labels, telling->label_capacity, task->label_count))
		return fail_telling(telling);
	for (size_t i = 0; i < task->label_count; i++)
		if (task->labels[i].key)
			telling->labels[count++] =
				(struct snap_label){ task->labels[i].key,
						     task->labels[i].value ? task->labels[i].value
									   : "" };
	count = snap_task_sort_labels(telling->labels, count);
	for (size_t i = 0; i < count; i++) {
		struct snap_exchange_label label;

		/* Long keys may be the same once they are cut. */
		if (put->label_count == SNAP_EXCHANGE_LABELS ||
		    strlen(telling->labels[i].key) >= SNAP_MAX_NAME) {
			put->labels_cut = 1;
			continue;
		}
		if (answer->task_label_count == SNAP_EXCHANGE_TASK_LABELS ||
		    !put_task_text(telling, telling->labels[i].key, &label.key) ||
		    !put_task_text(telling, telling->labels[i].value, &label.value))
			return false;
		room[answer->task_label_count++] = label;
		put->label_count++;
	}
	return true;
}

/* False: there is no room. */
static bool put_task_record(struct telling *telling, const struct snap_runtime_result *result,
			    const struct snap_runtime_task *task)
{
	const struct snap_entry *by = task->created_by;
	struct snap_exchange_answer *answer = telling->answer;
	struct snap_exchange_task put = { .state = (uint8_t)task->state,
					  .labels_cut = task->labels_cut };
	uint32_t labels = answer->task_label_count;

	if (by)
		put.creator_line = by->line;
	if (answer->task_count < SNAP_EXCHANGE_TASKS && put_task_text(telling, task->id, &put.id) &&
	    put_task_text(telling, task->name && *task->name ? task->name : NULL, &put.name) &&
	    put_task_text(telling, result->name, &put.runtime) &&
	    put_task_text(telling, task->parent && *task->parent ? task->parent : NULL,
			  &put.parent) &&
	    put_task_text(telling, task->wait && *task->wait ? task->wait : NULL, &put.wait) &&
	    put_task_text(telling, by ? by->function : NULL, &put.creator) &&
	    put_task_text(telling, by ? by->file : NULL, &put.creator_file) &&
	    (is_shown_by_thread(task) || find_task_stack(telling, &task->stack, &put.stack)) &&
	    put_task_labels(telling, task, &put)) {
		telling->answering.exchange->room.tasks[answer->task_count++] = put;
		return true;
	}
	answer->task_label_count = labels;
	return false;
}

static void put_tasks(struct telling *telling, const struct snap_runtime_result *result)
{
	const struct snap_options *options = telling->answering.thread->options;
	struct snap_exchange_answer *answer = telling->answer;

	answer->has_tasks |= result->has_tasks;
	answer->cut |= result->cut != SNAP_PLAN_WHOLE || result->torn;
	for (size_t i = 0; i < result->task_count && !telling->no_memory; i++) {
		const struct snap_runtime_task *task = &result->tasks[i];

		if (!task->id || !*task->id || (task->is_system && !options->system_tasks))
			continue;
		if (!put_task_record(telling, result, task)) {
			answer->cut = 1;
			return;
		}
	}
}

struct stacksnap_error *snap_managed_tasks(struct snap_managed **managed,
					   const struct snap_managed_thread *whose,
					   struct snap_process *process,
					   struct snap_exchange *exchange)
{
	_cleanup_(telling_deinit) struct telling telling = {
		.answering = { .thread = whose, .exchange = exchange },
		.answer = &exchange->answer,
	};
	struct stacksnap_error *err;

	snap_arena_init(&telling.answering.arena);
	SNAP_TRY(snap_no_memory_unless(snap_answering_begin(managed, exchange)));
	telling.answering.managed = *managed;
	err = snap_answering_read(&telling.answering, process, false);
	for (size_t i = 0; !err && i < telling.answering.result_count; i++)
		put_tasks(&telling, telling.answering.results[i]);
	return !err && telling.no_memory ? snap_error_no_memory() : err;
}
