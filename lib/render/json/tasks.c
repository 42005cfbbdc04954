/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks, runtimes and logical processes as JSON: see tasks.h. The tree of logical processes comes
 * as a list with depths, so brackets are opened and closed by the difference of two neighbours.
 */
#include "render/json/tasks.h"

void snap_json_labels_put(struct snap_json_writer *json, const struct snap_label *labels,
			  size_t count)
{
	snap_json_begin(json, "labels", '{');
	for (size_t i = 0; i < count; i++)
		snap_json_label(json, labels[i].key, labels[i].value);
	snap_json_end(json, '}');
}

static void put_created_by(struct snap_json_writer *json, const struct snap_entry *entry)
{
	if (!entry || !entry->function)
		return;
	snap_json_begin(json, "created_by", '{');
	snap_json_text_if(json, "function", entry->function);
	snap_json_text_if(json, "file", entry->file);
	snap_json_number_if(json, "line", entry->line);
	snap_json_end(json, '}');
}

void snap_json_tasks_put(struct snap_json_writer *json, const struct snap_stack *stack)
{
	snap_json_begin(json, "tasks", '[');
	for (size_t i = 0; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];

		snap_json_begin_line(json, NULL, '{');
		if (stack->pids)
			snap_json_number(json, "pid", stack->pids[i]);
		snap_json_text(json, "id", task->id);
		snap_json_text_if(json, "name", task->name);
		snap_json_text(json, "state", snap_task_state_word(task->state));
		snap_json_text_if(json, "wait", task->wait);
		snap_json_true_if(json, "idle", task->idle);
		snap_json_number_if(json, "since_ns", task->since_ns);
		snap_json_number_if(json, "tid", task->tid);
		snap_json_true_if(json, "locked", task->locked);
		snap_json_text_if(json, "parent", task->parent);
		put_created_by(json, task->created_by);
		if (task->label_count)
			snap_json_labels_put(json, task->labels, task->label_count);
		snap_json_true_if(json, "labels_cut", task->labels_cut);
		if (stack->thread_samples)
			snap_json_number(json, "samples", (int64_t)stack->thread_samples[i]);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_gil(struct snap_json_writer *json, const struct snap_node_runtime *runtime)
{
	if (runtime->gil_count == 0)
		return;
	snap_json_begin(json, "gil", '[');
	for (size_t i = 0; i < runtime->gil_count; i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "tid", runtime->gil[i].tid);
		if (runtime->gil[i].interpreter >= 0)
			snap_json_number(json, "interpreter", runtime->gil[i].interpreter);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

void snap_json_runtimes_put(struct snap_json_writer *json, const struct snap_node *node)
{
	if (node->runtime_count) {
		snap_json_begin(json, "runtimes", '[');
		for (size_t i = 0; i < node->runtime_count; i++) {
			const struct snap_node_runtime *runtime = &node->runtimes[i];

			snap_json_begin(json, NULL, '{');
			snap_json_text(json, "name", runtime->name);
			snap_json_text_if(json, "version", runtime->version);
			snap_json_true_if(json, "unread", runtime->unread);
			snap_json_number_if(json, "tasks", (int64_t)runtime->tasks);
			if (runtime->tasks)
				snap_json_number(json, "shown", (int64_t)runtime->shown);
			snap_json_text_if(json, "cut", snap_runtime_cut_word(runtime->cut));
			snap_json_number_if(json, "memory_bytes", (int64_t)runtime->memory_bytes);
			snap_json_number_if(json, "plan_ns", runtime->plan_ns);
			put_gil(json, runtime);
			snap_json_number_if(json, "idle_threads", (int64_t)runtime->idle_threads);
			snap_json_end(json, '}');
		}
		snap_json_end(json, ']');
	}
	snap_json_number_if(json, "task_count", (int64_t)node->task_count);
}

static void end_logical(struct snap_json_writer *json, bool flat)
{
	if (!flat)
		snap_json_end(json, ']');
	snap_json_end(json, '}');
}

void snap_json_logical_put(struct snap_json_writer *json, const struct snap_node *node, bool flat,
			   void (*put_stacks)(void *context, const struct snap_stack *stacks,
					      size_t count),
			   void *context)
{
	uint32_t open = 0; /* objects */

	if (node->logical_count == 0)
		return;
	snap_json_begin_line(json, "logical", '[');
	for (size_t i = 0; i < node->logical_count; i++) {
		const struct snap_logical *logical = &node->logical[i];
		uint32_t depth = flat ? 0 : logical->depth;

		while (open > depth) {
			end_logical(json, flat);
			open--;
		}
		snap_json_begin_line(json, NULL, '{');
		snap_json_text_if(json, "id", logical->id);
		snap_json_text_if(json, "parent", logical->parent);
		snap_json_text(json, "name", logical->name);
		snap_json_text(json, "type", snap_logical_type_word(logical->type));
		if (logical->label_count)
			snap_json_labels_put(json, logical->labels, logical->label_count);
		snap_json_number(json, "task_count", (int64_t)logical->task_count);
		snap_json_line(json);
		put_stacks(context, logical->stacks, logical->stack_count);
		if (!flat)
			snap_json_begin(json, "children", '[');
		open++;
	}
	for (; open; open--)
		end_logical(json, flat);
	snap_json_end(json, ']');
}
