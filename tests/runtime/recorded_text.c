/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A runtime's result as lines, one a fact, in the order in which it has them. Nothing is left out
 * but which frames are one object.
 */
#include "recorded.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text without line breaks; "-" for none. */
static void put_text(FILE *file, const char *before, const char *text)
{
	size_t size = text ? 4 * strlen(text) + 1 : 0;
	char *escaped = malloc(size + 1);

	fputs(before, file);
	if (text && escaped) {
		snap_escape(text, strlen(text), 0, escaped, size);
		fputs(escaped, file);
	} else {
		fputs("-", file);
	}
	free(escaped);
}

static void put_entry(FILE *file, const char *before, const struct snap_entry *entry)
{
	put_text(file, before, entry->function);
	put_text(file, " at ", entry->file);
	fprintf(file, ":%u", entry->line);
	if (entry->column)
		fprintf(file, ":%u", entry->column);
	if (entry->symbol && entry->symbol != entry->function)
		put_text(file, ", symbol ", entry->symbol);
	fputs(entry->inlined ? ", inlined" : "", file);
	fputs(entry->system ? ", system" : "", file);
	fprintf(file, ", %s\n", entry->language ? entry->language : "-");
}

static void put_stack(FILE *file, const struct snap_runtime_stack *stack)
{
	fprintf(file, "  stack %s", snap_unwind_word(stack->end));
	put_text(file, ": ", stack->reason);
	fputc('\n', file);
	for (size_t i = 0; i < stack->count; i++) {
		const struct snap_runtime_frame *frame = stack->frames[i];

		for (size_t k = 0; k < frame->entry_count; k++)
			put_entry(file, "    ", &frame->entries[k]);
		if (frame->pc)
			fprintf(file, "      pc %#" PRIx64 "%s\n", frame->pc,
				frame->is_exact ? ", exact" : "");
	}
}

static void put_labels(FILE *file, const struct snap_label *labels, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		put_text(file, "  label ", labels[i].key);
		put_text(file, " = ", labels[i].value);
		fputc('\n', file);
	}
}

static void put_thread(FILE *file, const struct snap_runtime_thread *thread)
{
	fprintf(file, "thread %d", thread->tid);
	if (thread->holds_gil)
		fprintf(file, ", holds the GIL of %" PRId64, thread->interpreter);
	put_text(file, ", loop ", thread->loop_function);
	fputc('\n', file);
	for (size_t i = 0; i < thread->run_count; i++)
		fprintf(file, "  run from %zu, %zu, anchor %#" PRIx64 "\n", thread->runs[i].first,
			thread->runs[i].count, thread->runs[i].anchor);
	put_stack(file, &thread->stack);
}

static void put_task(FILE *file, const struct snap_runtime_task *task)
{
	static const char *const states[] = { "unknown", "running", "runnable",
					      "syscall", "waiting", "dead" };

	put_text(file, "task ", task->id);
	put_text(file, " ", task->name);
	put_text(file, task->is_system ? ", system, " : ", ", states[task->state]);
	put_text(file, ", ", task->wait);
	fprintf(file, ", since %" PRId64 ", tid %d%s", task->since_ns, task->tid,
		task->locked ? ", locked" : "");
	put_text(file, ", parent ", task->parent);
	fputc('\n', file);
	if (task->created_by)
		put_entry(file, "  by ", task->created_by);
	if (task->start)
		put_entry(file, "  start ", task->start);
	put_labels(file, task->labels, task->label_count);
	if (task->labels_cut)
		fputs("  labels cut\n", file);
	if (task->native_until) {
		put_text(file, "  in C until ", task->native_until);
		fprintf(file, ", %#" PRIx64 " to %#" PRIx64 "\n", task->native_code[0],
			task->native_code[1]);
	}
	put_stack(file, &task->stack);
}

static void put_result(FILE *file, const struct snap_runtime_result *result)
{
	put_text(file, "", result->name);
	put_text(file, " ", result->version);
	fprintf(file, "%s%s, cut %d", result->torn ? ", torn" : "",
		result->has_tasks ? ", with tasks" : "", result->cut);
	put_text(file, ", refused ", result->refused);
	fputc('\n', file);
	put_labels(file, result->labels, result->label_count);
	for (size_t i = 0; i < result->idle_thread_count; i++)
		fprintf(file, "idle thread %d\n", result->idle_threads[i]);
	for (size_t i = 0; i < result->thread_count; i++)
		put_thread(file, &result->threads[i]);
	for (size_t i = 0; i < result->task_count; i++)
		put_task(file, &result->tasks[i]);
}

char *recorded_text(const struct snap_runtime_result *result)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	if (result)
		put_result(file, result);
	else
		fputs("nothing\n", file);
	fclose(file);
	return text;
}
