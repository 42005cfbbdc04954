/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runtimes, tasks and logical processes of a snapshot as bytes: see tasks.h. Labels are raw bytes
 * of a program, and never count as our own words. The tree of logical processes is a
 * list in the order of the tree, so it needs no recursion.
 */
#include "store/snapshot/tasks.h"

#include <string.h>

enum {
	MOST_LABELS = 1 << 16, /* of a task */
	MOST_RUNTIMES = 64,
	/* the least that an element takes, in bytes */
	LEAST_LABEL = 8,
	LEAST_TASK = 47,
	LEAST_RUNTIME = 60,
	LEAST_GIL = 12,
	LEAST_LOGICAL = 32,
};

void snap_code_task_labels(struct snap_pointer_codec *to, struct snap_label **labels, size_t *count)
{
	snap_code_array(&to->codec, labels, count, MOST_LABELS, sizeof(**labels), LEAST_LABEL);
	for (size_t i = 0; i < *count; i++) {
		struct snap_label *label = &(*labels)[i];

		snap_code_text_pointer(to, &label->key, SNAP_MAX_NAME);
		snap_code_text_pointer(to, &label->value, SNAP_MAX_NAME);
		snap_codec_check(&to->codec, label->key && label->value, "label without a value");
	}
}

static void code_task(struct snap_pointer_codec *to, struct snap_task *task)
{
	struct snap_codec *codec = &to->codec;

	snap_code_text_pointer(to, &task->id, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &task->name, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &task->state, SNAP_TASK_STATE_COUNT);
	snap_code_text_pointer(to, &task->wait, SNAP_MAX_NAME);
	snap_code_length(to, &task->since_ns);
	snap_code_least(codec, &task->tid, 0);
	snap_code_bool(codec, &task->locked);
	snap_code_text_pointer(to, &task->parent, SNAP_MAX_NAME);
	snap_code_entry_pointer(to, &task->created_by);
	snap_code_task_labels(to, &task->labels, &task->label_count);
	snap_code_bool(codec, &task->labels_cut);
	snap_code_bool(codec, &task->idle);
	snap_codec_check(codec, task->id && *task->id, "task without an id");
}

void snap_code_tasks(struct snap_pointer_codec *to, struct snap_stack *stack)
{
	snap_code_list(&to->codec, stack->tasks, stack->task_count, SNAP_MAX_TASKS, LEAST_TASK, i,
		       code_task(to, &stack->tasks[i]));
	if (snap_codec_reads(&to->codec))
		stack->count = stack->task_count;
	snap_codec_check(&to->codec, stack->task_count, "stack without tasks");
}

static void code_gil(struct snap_pointer_codec *to, struct snap_node_runtime *runtime)
{
	snap_code_array(&to->codec, &runtime->gil, &runtime->gil_count, SNAP_MAX_THREADS,
			sizeof(*runtime->gil), LEAST_GIL);
	for (size_t i = 0; i < runtime->gil_count; i++) {
		snap_code_i32(&to->codec, &runtime->gil[i].tid);
		snap_code_range(&to->codec, &runtime->gil[i].interpreter, -1, INT64_MAX);
		snap_codec_check(&to->codec, runtime->gil[i].tid > 0, "invalid holder of a lock");
	}
}

static void code_runtime(struct snap_pointer_codec *to, struct snap_node_runtime *runtime)
{
	struct snap_codec *codec = &to->codec;

	snap_code_text_pointer(to, &runtime->name, SNAP_LONGEST_RUNTIME);
	snap_code_text_pointer(to, &runtime->version, SNAP_MAX_NAME);
	snap_code_at_most(to, &runtime->tasks, SNAP_MAX_TASKS);
	snap_code_at_most(to, &runtime->shown, SNAP_MAX_TASKS);
	snap_code_at_most(to, &runtime->idle_threads, SNAP_MAX_THREADS);
	snap_code_bool(codec, &runtime->unread);
	snap_code_enumerator(codec, &runtime->cut, SNAP_RUNTIME_CUT_COUNT);
	snap_code_most(codec, &runtime->memory_bytes, INT64_MAX);
	snap_code_length(to, &runtime->plan_ns);
	code_gil(to, runtime);
	snap_codec_check(codec, runtime->name, "runtime without a name");
}

void snap_code_runtimes(struct snap_pointer_codec *to, struct snap_node *node)
{
	snap_code_list(&to->codec, node->runtimes, node->runtime_count, MOST_RUNTIMES,
		       LEAST_RUNTIME, i, code_runtime(to, &node->runtimes[i]));
	snap_code_at_most(to, &node->task_count, SNAP_MAX_TASKS);
}

static void code_logical(struct snap_pointer_codec *to, struct snap_logical *logical,
			 const struct snap_logical *before)
{
	struct snap_codec *codec = &to->codec;

	snap_code_text_pointer(to, &logical->id, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &logical->parent, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &logical->name, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &logical->type, SNAP_LOGICAL_TYPE_COUNT);
	snap_code_u32(codec, &logical->depth);
	snap_code_task_labels(to, &logical->labels, &logical->label_count);
	snap_code_at_most(to, &logical->task_count, SNAP_MAX_TASKS);
	snap_code_stacks(to, &logical->stacks, &logical->stack_count);
	snap_codec_check(codec, logical->name && *logical->name, "logical process without a name");
	snap_codec_check(codec, !logical->id == (logical->type == SNAP_LOGICAL_NONE),
			 "logical process without an id");
	snap_codec_check(codec, logical->depth <= (before ? before->depth + 1 : 0),
			 "logical process without a parent");
	for (size_t i = 0; i < logical->stack_count; i++)
		snap_codec_check(codec, logical->stacks[i].runtime, "logical process with threads");
}

void snap_code_logical(struct snap_pointer_codec *to, struct snap_node *node)
{
	snap_code_list(&to->codec, node->logical, node->logical_count, SNAP_MAX_TASKS * 2,
		       LEAST_LOGICAL, i,
		       code_logical(to, &node->logical[i], i ? &node->logical[i - 1] : NULL));
}
