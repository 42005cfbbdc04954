/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups of threads of a snapshot's JSON, see reader.h; those of tasks are tasks.c. */
#include "base/bsearch.h"
#include "store/json/reader.h"

#include "model/recording.h"

#include <limits.h>
#include <string.h>

static const char *thread_type_word(unsigned kernel)
{
	return kernel ? "kernel" : "user";
}

enum snap_state snap_json_pick_state(struct snap_json_pick *pick, const struct snap_json *object)
{
	return snap_json_pick_word(pick, object, "state", snap_state_word, SNAP_STATE_COUNT);
}

static struct snap_member pick_thread(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_member thread = {
		.tid = (pid_t)snap_json_pick_required(pick, object, "tid", 1, INT_MAX),
		.ns_tid = (pid_t)snap_json_pick_number(pick, object, "ns_tid", 1, INT_MAX, 0),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.state = snap_json_pick_state(pick, object),
		.kernel = snap_json_pick_word(pick, object, "type", thread_type_word, 2),
		.syscall = snap_json_pick_text(pick, object, "syscall", SNAP_MAX_NAME),
		.wchan = snap_json_pick_text(pick, object, "wchan", SNAP_MAX_NAME),
		.cpu = (int)snap_json_pick_number(pick, object, "cpu", 0, INT_MAX, -1),
		.runs = (uint64_t)snap_json_pick_number(pick, object, "runs", 0, INT64_MAX, 0),
	};

	if (snap_json_pick_has(object, "taken"))
		thread.taken = snap_json_pick_word(pick, object, "taken", snap_taken_word,
						   SNAP_TAKEN_COUNT);
	thread.stuck = snap_json_pick_flag(pick, object, "stuck");
	thread.idle = snap_json_pick_flag(pick, object, "idle");
	thread.wait = snap_json_read_wait(pick, object);
	return thread;
}

SNAP_ORDER(by_tid, struct snap_member, a, b, snap_compare(a->tid, b->tid));

static void read_threads(struct snap_json_reader *reader, const struct snap_json *object,
			 struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list threads = snap_json_pick_list(pick, object, "threads");
	const struct snap_json *thread;

	reader->thread_count += threads.count;
	if (threads.count == 0 || threads.count != stack->count ||
	    reader->thread_count > SNAP_MAX_THREADS)
		snap_json_pick_refuse(pick, "threads", "an array of as many threads as its count");
	if (snap_json_pick_failed(pick))
		return;
	stack->threads = snap_json_pick_memory(pick, threads.count, sizeof(*stack->threads));
	if (reader->together)
		stack->pids = snap_json_pick_memory(pick, threads.count, sizeof(*stack->pids));
	if (snap_json_pick_failed(pick))
		return;
	while ((thread = snap_json_list_object(&threads))) {
		if (reader->together)
			stack->pids[stack->thread_count] =
				(pid_t)snap_json_pick_required(pick, thread, "pid", 1, INT_MAX);
		stack->threads[stack->thread_count++] = pick_thread(pick, thread);
	}
	if (stack->thread_count && !reader->together)
		qsort(stack->threads, stack->thread_count, sizeof(*stack->threads), by_tid);
}

/* The labels that there are, each held to what may be its value, in the order of our own. */
static void read_labels(struct snap_json_pick *pick, const struct snap_json *object,
			struct snap_stack *stack)
{
	static const char *const keys[] = { "state", "thread_name", "syscall",
					    "wchan", "cpu",         "type" };
	const struct snap_json *labels = snap_json_pick_object(pick, object, "labels");

	if (!labels)
		return;
	stack->labels = snap_json_pick_memory(pick, SNAP_ARRAY_SIZE(keys), sizeof(*stack->labels));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(keys) && !snap_json_pick_failed(pick); i++) {
		const char *key = keys[i], *value;

		if (!snap_json_pick_has(labels, key))
			continue;
		if (strcmp(key, "state") == 0)
			value = snap_state_word(snap_json_pick_state(pick, labels));
		else if (strcmp(key, "type") == 0)
			value = thread_type_word(
				snap_json_pick_word(pick, labels, key, thread_type_word, 2));
		else if (strcmp(key, "cpu") == 0)
			value = snap_json_pick_of(pick, labels, key, "0123456789", 10);
		else
			value = snap_json_pick_text(pick, labels, key, SNAP_MAX_NAME);
		if (value)
			stack->labels[stack->label_count++] = (struct snap_label){ key, value };
	}
}

static void read_json_stack(struct snap_json_reader *reader, const struct snap_json *object,
			    struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	const char *id = snap_json_pick_of(pick, object, "id", "0123456789abcdef", 16);

	if (!id || strlen(id) != 16)
		snap_json_pick_refuse(pick, "id", "a string of 16 hexadecimal digits");
	else
		memcpy(stack->id, id, sizeof(stack->id));
	stack->count = (size_t)snap_json_pick_required(pick, object, "count", 1, SNAP_MAX_THREADS);
	stack->description = snap_json_pick_text(pick, object, "description", SNAP_MAX_NAME);
	if (!stack->description)
		stack->description = "(unknown)";
	stack->runtime = snap_json_pick_text(pick, object, "runtime", 64);
	if (stack->runtime)
		stack->labels = snap_json_pick_labels(pick, object, "labels", SNAP_MAX_NAME,
						      &stack->label_count);
	else
		read_labels(pick, object, stack);
	stack->unwind =
		snap_json_pick_word(pick, object, "unwind", snap_unwind_word, SNAP_UNWIND_COUNT);
	stack->unwind_detail = snap_json_pick_text(pick, object, "unwind_detail", SNAP_MAX_ARGS);
	stack->wait = snap_json_read_wait(pick, object);
	if (stack->runtime)
		snap_json_read_tasks(reader, object, stack);
	else
		read_threads(reader, object, stack);
	stack->crashed = snap_stack_has_thread(stack, reader->crashed_tid);
	snap_json_read_frames(reader, object, stack);
}

void snap_json_read_stacks(struct snap_json_reader *reader, const struct snap_json *object,
			   struct snap_stack **stacks, size_t *count)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list list = snap_json_pick_list(pick, object, "stacks");
	const struct snap_json *stack;

	if (list.count == 0)
		return;
	*stacks = snap_json_pick_memory(pick, list.count, sizeof(**stacks));
	while ((stack = snap_json_list_object(&list)))
		read_json_stack(reader, stack, &(*stacks)[(*count)++]);
	if (*count)
		qsort(*stacks, *count, sizeof(**stacks), snap_stack_compare);
}
