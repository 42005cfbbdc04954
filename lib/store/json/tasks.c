/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks, runtimes and logical processes of a snapshot's JSON, see reader.h. The tree of logical
 * processes becomes a list in its order; it is walked without recursion.
 */
#include "store/json/reader.h"

#include "base/buffer.h"

#include <limits.h>

static const struct snap_entry *pick_creator(struct snap_json_pick *pick,
					     const struct snap_json *object)
{
	const struct snap_json *from = snap_json_pick_object(pick, object, "created_by");
	struct snap_entry *entry = from ? snap_json_pick_memory(pick, 1, sizeof(*entry)) : NULL;

	if (entry)
		*entry = (struct snap_entry){
			.function = snap_json_pick_text(pick, from, "function", SNAP_MAX_NAME),
			.file = snap_json_pick_text(pick, from, "file", SNAP_MAX_NAME),
			.line = (uint32_t)snap_json_pick_number(pick, from, "line", 0, UINT32_MAX,
								0),
		};
	return entry;
}

static struct snap_task pick_task(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_task task = {
		.id = snap_json_pick_text(pick, object, "id", SNAP_MAX_NAME),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.state = snap_json_pick_word(pick, object, "state", snap_task_state_word,
					     SNAP_TASK_STATE_COUNT),
		.wait = snap_json_pick_text(pick, object, "wait", SNAP_MAX_NAME),
		.since_ns = snap_json_pick_number(pick, object, "since_ns", 0, INT64_MAX / 2, 0),
		.tid = (pid_t)snap_json_pick_number(pick, object, "tid", 0, INT_MAX, 0),
		.locked = snap_json_pick_flag(pick, object, "locked"),
		.idle = snap_json_pick_flag(pick, object, "idle"),
		.parent = snap_json_pick_text(pick, object, "parent", SNAP_MAX_NAME),
		.labels_cut = snap_json_pick_flag(pick, object, "labels_cut"),
		.created_by = pick_creator(pick, object),
	};

	task.labels =
		snap_json_pick_labels(pick, object, "labels", SNAP_MAX_NAME, &task.label_count);
	if (!task.id)
		snap_json_pick_refuse(pick, "id", "a string");
	return task;
}

void snap_json_read_tasks(struct snap_json_reader *reader, const struct snap_json *object,
			  struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list tasks = snap_json_pick_list(pick, object, "tasks");
	const struct snap_json *task;

	reader->task_count += tasks.count;
	if (tasks.count == 0 || tasks.count != stack->count || reader->task_count > SNAP_MAX_TASKS)
		snap_json_pick_refuse(pick, "tasks", "an array of as many tasks as its count");
	if (snap_json_pick_failed(pick))
		return;
	stack->tasks = snap_json_pick_memory(pick, tasks.count, sizeof(*stack->tasks));
	if (reader->together)
		stack->pids = snap_json_pick_memory(pick, tasks.count, sizeof(*stack->pids));
	if (snap_json_pick_failed(pick))
		return;
	while ((task = snap_json_list_object(&tasks))) {
		if (reader->together)
			stack->pids[stack->task_count] =
				(pid_t)snap_json_pick_required(pick, task, "pid", 1, INT_MAX);
		stack->tasks[stack->task_count++] = pick_task(pick, task);
	}
}

static void read_gil(struct snap_json_pick *pick, const struct snap_json *object,
		     struct snap_node_runtime *runtime)
{
	struct snap_json_list list = snap_json_pick_list(pick, object, "gil");
	const struct snap_json *from;

	if (list.count == 0)
		return;
	runtime->gil = snap_json_pick_memory(pick, list.count, sizeof(*runtime->gil));
	while ((from = snap_json_list_object(&list)))
		runtime->gil[runtime->gil_count++] = (struct snap_gil){
			(pid_t)snap_json_pick_required(pick, from, "tid", 1, INT_MAX),
			snap_json_pick_number(pick, from, "interpreter", 0, INT64_MAX, -1),
		};
}

static void read_runtime(struct snap_json_pick *pick, const struct snap_json *object,
			 struct snap_node_runtime *runtime)
{
	*runtime = (struct snap_node_runtime){
		.name = snap_json_pick_text(pick, object, "name", 64),
		.version = snap_json_pick_text(pick, object, "version", SNAP_MAX_NAME),
		.unread = snap_json_pick_flag(pick, object, "unread"),
		.tasks = (size_t)snap_json_pick_number(pick, object, "tasks", 0, SNAP_MAX_TASKS, 0),
		.shown = (size_t)snap_json_pick_number(pick, object, "shown", 0, SNAP_MAX_TASKS, 0),
		.idle_threads = (size_t)snap_json_pick_number(pick, object, "idle_threads", 0,
							      SNAP_MAX_THREADS, 0),
		.memory_bytes = (uint64_t)snap_json_pick_number(pick, object, "memory_bytes", 0,
								INT64_MAX, 0),
		.plan_ns = snap_json_pick_number(pick, object, "plan_ns", 0, INT64_MAX / 2, 0),
	};
	if (snap_json_pick_has(object, "cut"))
		runtime->cut = snap_json_pick_word(pick, object, "cut", snap_runtime_cut_word,
						   SNAP_RUNTIME_CUT_COUNT);
	if (!runtime->name)
		snap_json_pick_refuse(pick, "name", "a string");
	read_gil(pick, object, runtime);
}

void snap_json_read_runtimes(struct snap_json_reader *reader, const struct snap_json *object,
			     struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list list = snap_json_pick_list(pick, object, "runtimes");
	const struct snap_json *runtime;

	node->task_count =
		(size_t)snap_json_pick_number(pick, object, "task_count", 0, SNAP_MAX_TASKS, 0);
	if (list.count == 0)
		return;
	node->runtimes = snap_json_pick_memory(pick, list.count, sizeof(*node->runtimes));
	while ((runtime = snap_json_list_object(&list)))
		read_runtime(pick, runtime, &node->runtimes[node->runtime_count++]);
}

/* ---- logical processes ---- */

struct logical_list {
	struct snap_logical *items; /* in the order of the tree */
	size_t count, capacity;
	struct snap_json_list *levels; /* siblings that are being read */
	size_t depth, level_capacity;
};

static void logical_list_deinit(struct logical_list *list)
{
	free(list->items);
	free(list->levels);
}

static void enter_json_task_level(struct logical_list *list, struct snap_json_pick *pick,
				  const struct snap_json *object, const char *key)
{
	struct snap_json_list level = snap_json_pick_list(pick, object, key);

	if (level.count == 0)
		return;
	if (snap_reserve_array(list->levels, list->level_capacity, list->depth + 1))
		list->levels[list->depth++] = level;
	else
		snap_json_pick_no_memory(pick);
}

static void read_one(struct snap_json_reader *reader, struct logical_list *list,
		     const struct snap_json *object)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_logical logical = {
		.id = snap_json_pick_text(pick, object, "id", SNAP_MAX_NAME),
		.parent = snap_json_pick_text(pick, object, "parent", SNAP_MAX_NAME),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.type = snap_json_pick_word(pick, object, "type", snap_logical_type_word,
					    SNAP_LOGICAL_TYPE_COUNT),
		.depth = (uint32_t)(list->depth - 1),
		.task_count = (size_t)snap_json_pick_required(pick, object, "task_count", 0,
							      SNAP_MAX_TASKS),
	};

	if (!logical.name)
		snap_json_pick_refuse(pick, "name", "a string");
	if (!logical.id != (logical.type == SNAP_LOGICAL_NONE))
		snap_json_pick_refuse(pick, "id", "a string");
	logical.labels =
		snap_json_pick_labels(pick, object, "labels", SNAP_MAX_NAME, &logical.label_count);
	snap_json_read_stacks(reader, object, &logical.stacks, &logical.stack_count);
	for (size_t i = 0; i < logical.stack_count; i++)
		if (!logical.stacks[i].runtime)
			snap_json_pick_refuse(pick, "stacks", "stacks of tasks");
	if (!snap_reserve_array(list->items, list->capacity, list->count + 1))
		snap_json_pick_no_memory(pick);
	else
		list->items[list->count++] = logical;
}

void snap_json_read_logical(struct snap_json_reader *reader, const struct snap_json *object,
			    struct snap_node *node)
{
	_cleanup_(logical_list_deinit) struct logical_list list = { .items = NULL };
	struct snap_json_pick *pick = &reader->pick;

	enter_json_task_level(&list, pick, object, "logical");
	while (list.depth && !snap_json_pick_failed(pick)) {
		struct snap_json_list *level = &list.levels[list.depth - 1];
		const struct snap_json *next = snap_json_list_object(level);

		if (!next) {
			list.depth--;
			continue;
		}
		read_one(reader, &list, next);
		enter_json_task_level(&list, pick, next, "children");
	}
	if (list.count == 0 || snap_json_pick_failed(pick))
		return;
	node->logical = snap_json_pick_memory(pick, list.count, sizeof(*node->logical));
	for (size_t i = 0; node->logical && i < list.count; i++)
		node->logical[node->logical_count++] = list.items[i];
}
