/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes and their groups for an HTML page: a list in the order of the tree, each with the
 * number of the one above it. See parts.h. Knows nothing of time.
 */
#include "base/table.h"
#include "render/html/parts.h"
#include "render/view/walk.h"
#include "render/view/when.h"

enum thread_flag {
	THREAD_KERNEL = 1 << 0,
	THREAD_STUCK = 1 << 1,
	THREAD_APART = 1 << 2, /* not taken at the one moment */
};

/* ---- groups ---- */

/* Threads as rows of seven numbers, one behind the other: there are many. */
static void put_html_threads(struct snap_html *html, const struct snap_stack *stack)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin(json, "threads", '[');
	for (size_t i = 0; i < stack->thread_count; i++) {
		const struct snap_member *thread = &stack->threads[i];
		unsigned flags = (thread->kernel ? THREAD_KERNEL : 0) |
				 (thread->stuck ? THREAD_STUCK : 0) |
				 (!snap_taken_at_once(thread->taken) ? THREAD_APART : 0);

		snap_json_number(json, NULL, thread->tid);
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, thread->name));
		snap_json_number(json, NULL, thread->state);
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, thread->syscall));
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, thread->wchan));
		snap_json_number(json, NULL, (int64_t)snap_html_wait(html, thread->wait));
		snap_json_number(json, NULL, flags);
	}
	snap_json_end(json, ']');
}

static void put_tasks(struct snap_html *html, const struct snap_stack *stack)
{
	struct snap_json_writer *json = html->json;

	snap_json_text(json, "runtime", stack->runtime);
	snap_json_begin(json, "tasks", '[');
	for (size_t i = 0; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];
		const char *maker = task->created_by ? task->created_by->function : NULL;

		snap_json_begin(json, NULL, '[');
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, task->id));
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, task->name));
		snap_json_number(json, NULL, task->state);
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, task->wait));
		snap_json_number(json, NULL, task->tid);
		snap_json_number(json, NULL, (int64_t)snap_html_function(html, maker));
		for (size_t k = 0; k < task->label_count; k++) {
			const struct snap_label *label = &task->labels[k];

			snap_json_number(json, NULL, (int64_t)snap_html_text(html, label->key));
			snap_json_number(json, NULL, (int64_t)snap_html_text(html, label->value));
		}
		snap_json_end(json, ']');
	}
	snap_json_end(json, ']');
}

void snap_html_put_group(struct snap_html *html, const struct snap_stack *stack)
{
	struct snap_json_writer *json = html->json;

	snap_json_text(json, "id", stack->id);
	snap_json_number(json, "stack",
			 (int64_t)snap_html_stack(html, stack->frames, stack->frame_count,
						  stack->gap_frame, stack->gap_count));
	snap_html_put_text(html, "title", snap_html_function(html, stack->description));
	snap_json_number_if(json, "end", stack->unwind);
	snap_html_put_text(html, "why", snap_html_text(html, stack->unwind_detail));
	snap_html_put_labels(html, "labels", stack->labels, stack->label_count);
}

static void put_html_groups(struct snap_html *html, const struct snap_stack *stacks, size_t count)
{
	struct snap_json_writer *json = html->json;

	if (count == 0)
		return;
	snap_json_begin(json, "groups", '[');
	for (size_t i = 0; i < count && !html->failed; i++) {
		snap_json_begin_line(json, NULL, '{');
		snap_json_number(json, "count", (int64_t)stacks[i].count);
		snap_json_number_if(json, "urgency", stacks[i].urgency);
		snap_html_put_group(html, &stacks[i]);
		if (stacks[i].runtime)
			put_tasks(html, &stacks[i]);
		else
			put_html_threads(html, &stacks[i]);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* The tree that labels of tasks describe, with the groups of its nodes. */
static void put_logical(struct snap_html *html, const struct snap_node *node)
{
	struct snap_json_writer *json = html->json;

	if (node->logical_count == 0)
		return;
	snap_json_begin(json, "logical", '[');
	for (size_t i = 0; i < node->logical_count && !html->failed; i++) {
		const struct snap_logical *logical = &node->logical[i];

		snap_json_begin_line(json, NULL, '{');
		snap_html_put_text(html, "id", snap_html_text(html, logical->id));
		snap_html_put_text(html, "name", snap_html_text(html, logical->name));
		snap_json_clean(json, "type", snap_logical_type_word(logical->type));
		snap_json_number_if(json, "depth", logical->depth);
		snap_html_put_labels(html, "labels", logical->labels, logical->label_count);
		put_html_groups(html, logical->stacks, logical->stack_count);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* ---- processes ---- */

static void put_times(struct snap_html *html, const struct snap_node *node, int64_t now_ns)
{
	char text[SNAP_WHEN_SIZE];
	int64_t up_ns;

	if (node->start_time_ns) {
		snap_when(node->start_time_ns, ' ', 3, text);
		snap_json_clean(html->json, "started", text);
		if (!__builtin_sub_overflow(now_ns, node->start_time_ns, &up_ns) && up_ns > 0) {
			snap_when_uptime(up_ns, text);
			snap_json_clean(html->json, "up", text);
		}
	}
	if (node->stop_duration_ns) {
		snap_when_length(node->stop_duration_ns, text);
		snap_json_clean(html->json, "stopped", text);
	}
}

static void put_runtimes(struct snap_html *html, const struct snap_node *node)
{
	struct snap_json_writer *json = html->json;

	if (node->runtime_count == 0)
		return;
	snap_json_begin(json, "runtimes", '[');
	for (size_t i = 0; i < node->runtime_count; i++) {
		const struct snap_node_runtime *runtime = &node->runtimes[i];

		snap_json_begin(json, NULL, '[');
		snap_json_text(json, NULL, runtime->name);
		snap_json_text(json, NULL, runtime->version);
		snap_json_number(json, NULL, (int64_t)runtime->tasks);
		snap_json_number(json, NULL, (int64_t)runtime->shown);
		snap_json_clean(json, NULL, snap_runtime_cut_word(runtime->cut));
		snap_json_end(json, ']');
	}
	snap_json_end(json, ']');
}

void snap_html_put_process(struct snap_html *html, const struct snap_node *node, int64_t now_ns)
{
	struct snap_json_writer *json = html->json;

	snap_json_number(json, "pid", node->pid);
	snap_json_text_if(json, "name", node->name);
	snap_json_text_if(json, "title", node->description);
	snap_json_clean(json, "type", snap_process_type_word(node->type));
	snap_json_text_if(json, "user", node->user);
	snap_json_text_if(json, "unit", node->unit);
	snap_json_text_if(json, "container", node->container);
	snap_json_text_if(json, "cgroup", node->cgroup);
	snap_json_text_if(json, "exe", node->exe);
	put_times(html, node, now_ns);
	snap_json_number_if(json, "threads", (int64_t)node->thread_count);
	snap_json_number_if(json, "missed", (int64_t)node->threads_missed);
	snap_json_number_if(json, "tasks", (int64_t)node->task_count);
	snap_html_put_labels(html, "labels", node->labels, node->label_count);
	put_runtimes(html, node);
	if (!node->trouble)
		return;
	snap_json_clean(json, "trouble", snap_trouble_word(node->trouble));
	snap_json_text_if(json, "because", node->trouble_message);
}

/* The number of the process above it; each process gets its own when it is entered. */
static void put_above(struct snap_html *html, struct snap_pointer_table *numbers,
		      const struct snap_walk_step *step)
{
	const struct snap_pointer_entry *above =
		step->parent ? snap_pointer_table_find(numbers, step->parent) : NULL;

	if (above)
		snap_json_number(html->json, "above", (int64_t)above->number);
}

void snap_html_put_tree(struct snap_html *html, const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_pointer_table_deinit) struct snap_pointer_table numbers = { 0 };
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_json_writer *json = html->json;
	struct snap_walk_step step;

	snap_json_begin_line(json, "processes", '[');
	snap_walk_init(&walk, snapshot);
	while (!html->failed && snap_walk_next(&walk, &step)) {
		struct snap_pointer_entry *own;

		if (step.leave)
			continue;
		own = snap_pointer_table_get(&numbers, step.node);
		html->failed |= !own;
		if (own)
			own->number = numbers.count - 1;
		snap_json_begin_line(json, NULL, '{');
		put_above(html, &numbers, &step);
		snap_html_put_process(html, step.node, snapshot->time_ns);
		put_html_groups(html, step.node->stacks, step.node->stack_count);
		put_logical(html, step.node);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
	html->failed |= walk.failed;
}
