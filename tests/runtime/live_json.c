/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A runtime's result as one JSON document. Frames that many tasks share are written once, in
 * "frames", and named by number: an innermost frame first, its inlined functions first.
 */
#include "live.h"

#include "base/escape.h"

#include <jansson.h>
#include <string.h>

static json_t *text(const char *bytes)
{
	json_t *made = bytes ? json_string(bytes) : json_null();
	char *escaped;
	size_t size;

	if (made)
		return made;
	size = 4 * strlen(bytes) + 1;
	escaped = malloc(size);
	if (!escaped)
		fail("out of memory");
	snap_escape(bytes, strlen(bytes), 0, escaped, size);
	made = json_string(escaped);
	free(escaped);
	return made;
}

static json_t *labels_of(const struct snap_label *labels, size_t count)
{
	json_t *made = json_object();

	for (size_t i = 0; i < count; i++) {
		json_t *key = text(labels[i].key);

		json_object_set_new(made, json_string_value(key), text(labels[i].value));
		json_decref(key);
	}
	return made;
}

static json_t *entry_of(const struct snap_entry *entry)
{
	json_t *made = entry ? json_object() : json_null();

	if (!entry)
		return made;
	json_object_set_new(made, "function", text(entry->function));
	if (entry->symbol && entry->symbol != entry->function)
		json_object_set_new(made, "symbol", text(entry->symbol));
	json_object_set_new(made, "file", text(entry->file));
	json_object_set_new(made, "line", json_integer(entry->line));
	if (entry->column)
		json_object_set_new(made, "column", json_integer(entry->column));
	if (entry->inlined)
		json_object_set_new(made, "inlined", json_true());
	if (entry->system)
		json_object_set_new(made, "system", json_true());
	json_object_set_new(made, "language", text(entry->language));
	return made;
}

static json_t *frame_of(const struct snap_runtime_frame *frame)
{
	json_t *made = json_object(), *entries = json_array();

	json_object_set_new(made, "pc", json_integer((json_int_t)frame->pc));
	json_object_set_new(made, "exact", json_boolean(frame->is_exact));
	for (size_t i = 0; i < frame->entry_count; i++)
		json_array_append_new(entries, entry_of(&frame->entries[i]));
	json_object_set_new(made, "entries", entries);
	return made;
}

/* The distinct frames, numbered as they come. */
struct frames {
	struct snap_pointer_table known;
	json_t *list;
};

static json_t *stack_of(struct frames *frames, const struct snap_runtime_stack *stack)
{
	json_t *made = json_object(), *numbers = json_array();

	for (size_t i = 0; i < stack->count; i++) {
		size_t count = frames->known.count;
		struct snap_pointer_entry *entry =
			snap_pointer_table_get(&frames->known, stack->frames[i]);

		if (!entry)
			fail("out of memory");
		if (frames->known.count > count) {
			entry->number = count;
			json_array_append_new(frames->list, frame_of(stack->frames[i]));
		}
		json_array_append_new(numbers, json_integer((json_int_t)entry->number));
	}
	json_object_set_new(made, "frames", numbers);
	json_object_set_new(made, "end", text(snap_unwind_word(stack->end)));
	if (stack->reason)
		json_object_set_new(made, "reason", text(stack->reason));
	return made;
}

static json_t *thread_of(struct frames *frames, const struct snap_runtime_thread *thread)
{
	json_t *made = json_object(), *runs = json_array();

	json_object_set_new(made, "tid", json_integer(thread->tid));
	json_object_set_new(made, "stack", stack_of(frames, &thread->stack));
	for (size_t i = 0; i < thread->run_count; i++)
		json_array_append_new(runs, json_pack("{s:I,s:I,s:I}", "first",
						      (json_int_t)thread->runs[i].first, "count",
						      (json_int_t)thread->runs[i].count, "anchor",
						      (json_int_t)thread->runs[i].anchor));
	json_object_set_new(made, "runs", runs);
	json_object_set_new(made, "loop_function", text(thread->loop_function));
	json_object_set_new(made, "holds_gil", json_boolean(thread->holds_gil));
	json_object_set_new(made, "interpreter", json_integer(thread->interpreter));
	return made;
}

static json_t *task_of(struct frames *frames, const struct snap_runtime_task *task)
{
	static const char *const states[] = { "unknown", "running", "runnable",
					      "syscall", "waiting", "dead" };
	json_t *made = json_object();

	json_object_set_new(made, "id", text(task->id));
	json_object_set_new(made, "name", text(task->name));
	json_object_set_new(made, "state", text(states[task->state]));
	json_object_set_new(made, "wait", text(task->wait));
	json_object_set_new(made, "since_ns", json_integer(task->since_ns));
	json_object_set_new(made, "tid", json_integer(task->tid));
	json_object_set_new(made, "locked", json_boolean(task->locked));
	json_object_set_new(made, "parent", text(task->parent));
	json_object_set_new(made, "created_by", entry_of(task->created_by));
	json_object_set_new(made, "start", entry_of(task->start));
	json_object_set_new(made, "labels", labels_of(task->labels, task->label_count));
	json_object_set_new(made, "labels_cut", json_boolean(task->labels_cut));
	json_object_set_new(made, "system", json_boolean(task->is_system));
	json_object_set_new(made, "native_until", text(task->native_until));
	json_object_set_new(made, "native_code",
			    json_pack("[I,I]", (json_int_t)task->native_code[0],
				      (json_int_t)task->native_code[1]));
	json_object_set_new(made, "stack", stack_of(frames, &task->stack));
	return made;
}

static json_t *result_of(const struct snap_runtime_result *result)
{
	struct frames frames = { .list = json_array() };
	json_t *made = json_object(), *threads = json_array(), *tasks = json_array(),
	       *idle = json_array();

	json_object_set_new(made, "name", text(result->name));
	json_object_set_new(made, "version", text(result->version));
	json_object_set_new(made, "refused", text(result->refused));
	json_object_set_new(made, "torn", json_boolean(result->torn));
	json_object_set_new(made, "has_tasks", json_boolean(result->has_tasks));
	for (size_t i = 0; i < result->thread_count; i++)
		json_array_append_new(threads, thread_of(&frames, &result->threads[i]));
	for (size_t i = 0; i < result->task_count; i++)
		json_array_append_new(tasks, task_of(&frames, &result->tasks[i]));
	for (size_t i = 0; i < result->idle_thread_count; i++)
		json_array_append_new(idle, json_integer(result->idle_threads[i]));
	json_object_set_new(made, "threads", threads);
	json_object_set_new(made, "tasks", tasks);
	json_object_set_new(made, "idle_threads", idle);
	json_object_set_new(made, "labels", labels_of(result->labels, result->label_count));
	json_object_set_new(made, "frames", frames.list);
	snap_pointer_table_deinit(&frames.known);
	return made;
}

/* What each step of the plan brought; without an image its operation alone. */
static json_t *steps_of(const struct live_report *report)
{
	json_t *steps = json_array();

	for (uint32_t i = 0; i < report->plan->step_count; i++) {
		json_t *step = json_pack("{s:i,s:i}", "op", report->plan->steps[i].op, "source",
					 report->plan->steps[i].source);

		if (report->image && i < report->image->image.step_count) {
			const struct snap_plan_result *result = &report->image->image.steps[i];

			json_object_set_new(step, "records",
					    json_integer((json_int_t)result->records));
			json_object_set_new(step, "bytes", json_integer((json_int_t)result->bytes));
			json_object_set_new(step, "cut", json_integer(result->cut));
		}
		json_array_append_new(steps, step);
	}
	return steps;
}

void live_print(FILE *file, const struct live *live, const struct live_report *report)
{
	json_t *made = json_object();

	json_object_set_new(made, "runtime", text(report->runtime));
	json_object_set_new(made, "pid", json_integer(live->process.pid));
	json_object_set_new(made, "found", json_boolean(report->found));
	json_object_set_new(made, "probe_ns", json_integer(report->probe_ns));
	json_object_set_new(made, "stop_ns", json_integer(report->stop_ns));
	json_object_set_new(made, "read_ns", json_integer(report->read_ns));
	json_object_set_new(made, "steps", steps_of(report));
	if (report->image) {
		json_object_set_new(made, "image_bytes",
				    json_integer((json_int_t)report->image->image.bytes));
		json_object_set_new(made, "image_ns", json_integer(report->image->taken_ns));
	}
	json_object_set_new(made, "result",
			    report->result ? result_of(report->result) : json_null());
	if (json_dumpf(made, file, JSON_COMPACT) != 0)
		fail("cannot write");
	fputc('\n', file);
	json_decref(made);
}
