/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts that Go's net/http/pprof prints of goroutines, of the threads and tasks of any program.
 *
 * Counts (`?debug=1`) has each stack once, with how many stand there; `go tool pprof` reads it. Dump
 * (`?debug=2`) has each thread with its stack, as a Go program prints when it ends in a panic; a
 * goroutine is called one, so that what reads such dumps finds it. Knows nothing of the web.
 */
#include "render/pprof/threads.h"

#include "base/buffer.h"
#include "base/escape.h"
#include "render/view/walk.h"

#include <inttypes.h>
#include <string.h>

struct writer {
	const struct snap_options *options;
	struct snap_buffer escaped;
	FILE *out;
};

/* A text of the target, without what a line may not hold; borrowed until the next call. */
static const char *clean(struct writer *writer, const char *text)
{
	unsigned flags = writer->options->utf8 ? 0 : SNAP_ESCAPE_ASCII;
	size_t length = strlen(text), room = 4 * length + 1;
	char *place;

	snap_buffer_clear(&writer->escaped);
	place = snap_buffer_reserve(&writer->escaped, room);
	if (!place)
		return "?";
	snap_escape(text, length, flags, place, room);
	return place;
}

static void put_goroutine_text(struct writer *writer, const char *before, const char *text)
{
	fputs(before, writer->out);
	fputs(clean(writer, text ? text : "?"), writer->out);
}

/* "/src/queue.c:57", or "/usr/lib/libc.so.6+0x8f1e2" where no line is known. */
static void put_place(struct writer *writer, const struct snap_frame *frame,
		      const struct snap_entry *entry)
{
	if (entry->file) {
		put_goroutine_text(writer, "", entry->file);
		fprintf(writer->out, ":%u", entry->line);
		return;
	}
	put_goroutine_text(writer, "", frame->module);
	if (frame->has_offset)
		fprintf(writer->out, "+0x%" PRIx64, frame->offset);
}

/* ---- counts ---- */

static size_t count_goroutine_members(const struct snap_snapshot *snapshot)
{
	return snapshot->thread_count + snapshot->task_count;
}

/* As JSON: the escaped text holds no controls, so quotes and backslashes are what is left. */
static void put_label(struct writer *writer, const char *key, const char *value)
{
	fputs(", \"", writer->out);
	for (const char *c = clean(writer, key); *c; c++)
		fprintf(writer->out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	fputs("\":\"", writer->out);
	for (const char *c = clean(writer, value); *c; c++)
		fprintf(writer->out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	fputs("\"", writer->out);
}

static void put_goroutine_labels(struct writer *writer, const struct snap_node *node,
				 const struct snap_stack *stack)
{
	fprintf(writer->out, "# labels: {\"pid\":\"%d\"", (int)node->pid);
	put_label(writer, "process", node->name ? node->name : "?");
	for (size_t i = 0; i < stack->label_count; i++)
		put_label(writer, stack->labels[i].key, stack->labels[i].value);
	fputs("}\n", writer->out);
}

/* Frames of an interpreter have none; the format wants one at least. */
static void put_addresses(struct writer *writer, const struct snap_stack *stack)
{
	bool any = false;

	for (size_t i = 0; i < stack->frame_count; i++) {
		if (!stack->frames[i]->address)
			continue;
		fprintf(writer->out, " 0x%" PRIx64, stack->frames[i]->address);
		any = true;
	}
	fputs(any ? "\n" : " 0x0\n", writer->out);
}

static void put_counted_stack(struct writer *writer, const struct snap_node *node,
			      const struct snap_stack *stack)
{
	fprintf(writer->out, "%zu @", stack->count);
	put_addresses(writer, stack);
	put_goroutine_labels(writer, node, stack);
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		for (size_t j = 0; j < frame->entry_count; j++) {
			fprintf(writer->out, "#\t0x%" PRIx64, frame->address);
			put_goroutine_text(writer, "\t", frame->entries[j].function);
			fputs("\t", writer->out);
			put_place(writer, frame, &frame->entries[j]);
			fputs("\n", writer->out);
		}
	}
	fputs("\n", writer->out);
}

/* ---- dump ---- */

static void put_goroutine_frame(struct writer *writer, const struct snap_frame *frame)
{
	for (size_t i = 0; i < frame->entry_count; i++) {
		put_goroutine_text(writer, "", frame->entries[i].function);
		fputs("(...)\n\t", writer->out);
		put_place(writer, frame, &frame->entries[i]);
		if (frame->address)
			fprintf(writer->out, " pc=0x%" PRIx64, frame->address);
		fputs("\n", writer->out);
	}
}

static void put_goroutine_frames(struct writer *writer, const struct snap_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++) {
		put_goroutine_frame(writer, stack->frames[i]);
		if (stack->gap_count && i == stack->gap_frame)
			fprintf(writer->out, "...%" PRIu64 " additional frames elided...\n",
				stack->gap_count);
	}
	if (!snap_unwind_is_whole(stack->unwind))
		fprintf(writer->out, "...the stack ends here: %s...\n",
			snap_unwind_word(stack->unwind));
	fputs("\n", writer->out);
}

/* "thread 1242 [sleeping, futex, worker-3 of orderd 1234]:" */
static void put_goroutine_thread(struct writer *writer, const struct snap_node *node,
				 const struct snap_member *member)
{
	fprintf(writer->out, "thread %d [%s", (int)member->tid, snap_state_word(member->state));
	if (member->syscall)
		put_goroutine_text(writer, ", ", member->syscall);
	put_goroutine_text(writer, ", ", member->name);
	put_goroutine_text(writer, " of ", node->name);
	fprintf(writer->out, " %d]:\n", (int)node->pid);
}

/* "goroutine 18 [chan receive, process orderd 1234]:"; others than Go's are called tasks. */
static void put_goroutine_task(struct writer *writer, const struct snap_node *node,
			       const struct snap_stack *stack, const struct snap_task *task)
{
	bool is_go = stack->runtime && strcmp(stack->runtime, "go") == 0;

	put_goroutine_text(writer, is_go ? "goroutine " : "task ", task->id);
	put_goroutine_text(writer, " [",
			   task->wait ? task->wait : snap_task_state_word(task->state));
	if (task->locked)
		fputs(", locked to thread", writer->out);
	put_goroutine_text(writer, ", process ", node->name);
	fprintf(writer->out, " %d]:\n", (int)node->pid);
}

static void put_dumped_stack(struct writer *writer, const struct snap_node *node,
			     const struct snap_stack *stack)
{
	for (size_t i = 0; i < stack->thread_count; i++) {
		put_goroutine_thread(writer, node, &stack->threads[i]);
		put_goroutine_frames(writer, stack);
	}
	for (size_t i = 0; i < stack->task_count; i++) {
		put_goroutine_task(writer, node, stack, &stack->tasks[i]);
		put_goroutine_frames(writer, stack);
	}
}

/* ---- both ---- */

typedef void put_stack_fn(struct writer *writer, const struct snap_node *node,
			  const struct snap_stack *stack);

static struct stacksnap_error *put_goroutine_stacks(const struct snap_snapshot *snapshot,
						    struct writer *writer, put_stack_fn *put)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;
	bool failed;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step)) {
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while (!step.leave && (stack = snap_node_next_stack(step.node, &cursor)))
			put(writer, step.node, stack);
	}
	failed = walk.failed || writer->escaped.failed;
	snap_buffer_deinit(&writer->escaped);
	return snap_no_memory_unless(!failed);
}

struct stacksnap_error *snap_render_thread_counts(const struct snap_snapshot *snapshot,
						  const struct snap_options *options, FILE *out)
{
	struct writer writer = { .options = options, .out = out };

	fprintf(out, "threads profile: total %zu\n", count_goroutine_members(snapshot));
	return put_goroutine_stacks(snapshot, &writer, put_counted_stack);
}

struct stacksnap_error *snap_render_thread_dump(const struct snap_snapshot *snapshot,
						const struct snap_options *options, FILE *out)
{
	struct writer writer = { .options = options, .out = out };

	return put_goroutine_stacks(snapshot, &writer, put_dumped_stack);
}
