/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The JSON document of DESIGN section 8, see stacksnap-json(5): outer braces by hand, one process,
 * stack, thread and frame at a time by json_value.c. The text of a frame is made once for all
 * stacks of its process, so a deep recursion costs a copy a frame. Trees are walked without
 * recursion: their depth is the target's.
 */
#include "render/json_value.h"
#include "render/pointer_map.h"
#include "render/render.h"
#include "render/walk.h"

#include <errno.h>
#include <string.h>

struct writer {
	FILE *out;
	const struct snap_snapshot *snapshot;
	struct snap_json_maker maker;
	struct snap_pointer_map frames; /* struct snap_frame -> its text */
};

static void writer_deinit(struct writer *writer)
{
	snap_json_maker_deinit(&writer->maker);
	snap_pointer_map_clear(&writer->frames, free);
}

static void put(struct writer *writer, const char *text)
{
	fputs_unlocked(text, writer->out);
}

/* Writes an object and drops it; `open`: without its closing brace. */
static void put_object(struct writer *writer, struct snap_json *object, bool open)
{
	_cleanup_free_ char *text = snap_json_finish(&writer->maker, object, open);

	if (text)
		put(writer, text);
}

static void put_head(struct writer *writer)
{
	const struct snap_snapshot *snapshot = writer->snapshot;
	struct snap_json_maker *maker = &writer->maker;
	struct snap_json *head = snap_json_object(maker), *tool = snap_json_object(maker),
			 *host = snap_json_object(maker);

	snap_json_text(maker, head, "schema", "stacksnap.snapshot");
	snap_json_number(maker, head, "schema_version", 1);
	snap_json_text(maker, tool, "name", "stacksnap");
	snap_json_text(maker, tool, "version", SNAP_VERSION);
	snap_json_nest(maker, head, "tool", tool);
	snap_json_text(maker, host, "name", snapshot->host.name);
	snap_json_text(maker, host, "kernel", snapshot->host.kernel);
	snap_json_text(maker, host, "arch", snapshot->host.arch);
	snap_json_count(maker, host, "cpus", snapshot->host.cpus);
	snap_json_text(maker, host, "boot_id", snapshot->host.boot_id);
	snap_json_nest(maker, head, "host", host);
	snap_json_time(maker, head, "time", snapshot->time_ns);
	snap_json_count(maker, head, "duration_ns", snapshot->duration_ns);
	snap_json_count(maker, head, "stop_duration_ns", snapshot->stop_duration_ns);
	snap_json_count(maker, head, "stop_skew_ns", snapshot->stop_skew_ns);
	snap_json_number(maker, head, "process_count", (int64_t)snapshot->process_count);
	snap_json_number(maker, head, "thread_count", (int64_t)snapshot->thread_count);
	snap_json_number(maker, head, "stack_count", (int64_t)snapshot->stack_count);
	put_object(writer, head, true);
	put(writer, ",\n\"processes\": [");
}

static struct snap_json *labels(struct snap_json_maker *maker, const struct snap_label *label,
				size_t count)
{
	struct snap_json *object = snap_json_object(maker);

	for (size_t i = 0; i < count; i++)
		snap_json_text(maker, object, label[i].key, label[i].value);
	return object;
}

static char *entry_text(struct snap_json_maker *maker, const struct snap_frame *frame,
			const struct snap_entry *entry)
{
	struct snap_json *object = snap_json_object(maker);

	snap_json_text(maker, object, "function", entry->function);
	snap_json_text(maker, object, "symbol", entry->symbol);
	snap_json_text(maker, object, "file", entry->file);
	snap_json_count(maker, object, "line", entry->line);
	snap_json_count(maker, object, "column", entry->column);
	snap_json_text(maker, object, "module", frame->module);
	snap_json_text(maker, object, "build_id", frame->build_id);
	if (frame->has_offset)
		snap_json_hex(maker, object, "offset", frame->offset);
	/* The kernel keeps the addresses of its own frames to itself. */
	if (frame->address || !entry->kernel)
		snap_json_hex(maker, object, "address", frame->address);
	snap_json_flag(maker, object, "inlined", entry->inlined);
	snap_json_flag(maker, object, "system", entry->system);
	snap_json_flag(maker, object, "kernel", entry->kernel);
	return snap_json_finish(maker, object, false);
}

/* All entries of a frame, a line each; malloc'ed. */
static char *frame_text(struct snap_json_maker *maker, const struct snap_frame *frame)
{
	char *text = NULL, *joined;

	for (size_t i = 0; i < frame->entry_count; i++) {
		_cleanup_free_ char *before = snap_take_ptr(text);
		_cleanup_free_ char *entry = entry_text(maker, frame, &frame->entries[i]);

		if (!entry || asprintf(&joined, "%s%s%s", before ? before : "", before ? ",\n" : "",
				       entry) < 0) {
			maker->failed = true;
			return NULL;
		}
		text = joined;
	}
	return text;
}

static void put_entries(struct writer *writer, const struct snap_stack *stack)
{
	put(writer, "\"entries\": [");
	for (size_t i = 0; i < stack->frame_count && !writer->maker.failed; i++) {
		void **cached = snap_pointer_map_slot(&writer->frames, stack->frames[i]);

		if (!cached) {
			writer->maker.failed = true;
			return;
		}
		if (!*cached)
			*cached = frame_text(&writer->maker, stack->frames[i]);
		put(writer, i ? ",\n" : "\n");
		if (*cached)
			put(writer, *cached);
	}
	put(writer, stack->frame_count ? "\n]" : "]");
}

static void put_threads(struct writer *writer, const struct snap_stack *stack)
{
	struct snap_json_maker *maker = &writer->maker;

	put(writer, ", \"threads\": [");
	for (size_t i = 0; i < stack->thread_count && !maker->failed; i++) {
		const struct snap_member *thread = &stack->threads[i];
		struct snap_json *object = snap_json_object(maker);

		snap_json_number(maker, object, "tid", thread->tid);
		snap_json_count(maker, object, "ns_tid", thread->ns_tid);
		snap_json_text(maker, object, "name", thread->name);
		snap_json_text(maker, object, "state", snap_state_word(thread->state));
		snap_json_text(maker, object, "type", thread->kernel ? "kernel" : "user");
		snap_json_text(maker, object, "syscall", thread->syscall);
		snap_json_text(maker, object, "wchan", thread->wchan);
		if (thread->cpu >= 0)
			snap_json_number(maker, object, "cpu", thread->cpu);
		put(writer, i ? ",\n" : "\n");
		put_object(writer, object, false);
	}
	put(writer, "],\n");
}

/* The index of the last entry of the frame after which frames were left out. */
static int64_t gap_entry(const struct snap_stack *stack)
{
	int64_t entries = 0;

	for (size_t i = 0; i <= stack->gap_frame && i < stack->frame_count; i++)
		entries += (int64_t)stack->frames[i]->entry_count;
	return entries - 1;
}

static void put_stack(struct writer *writer, const struct snap_stack *stack)
{
	struct snap_json_maker *maker = &writer->maker;
	struct snap_json *object = snap_json_object(maker);

	snap_json_text(maker, object, "id", stack->id);
	snap_json_number(maker, object, "count", (int64_t)stack->count);
	snap_json_text(maker, object, "description", stack->description);
	snap_json_nest(maker, object, "labels", labels(maker, stack->labels, stack->label_count));
	snap_json_text(maker, object, "unwind", snap_unwind_word(stack->unwind));
	snap_json_text(maker, object, "unwind_detail", stack->unwind_detail);
	if (stack->gap_count) {
		struct snap_json *gap = snap_json_object(maker);

		snap_json_number(maker, gap, "after", gap_entry(stack));
		snap_json_number(maker, gap, "count", (int64_t)stack->gap_count);
		snap_json_nest(maker, object, "gap", gap);
	}
	put_object(writer, object, true);
	put_threads(writer, stack);
	put_entries(writer, stack);
	put(writer, "}");
}

static void put_stacks(struct writer *writer, const struct snap_node *node)
{
	put(writer, ",\n\"stacks\": [");
	for (size_t i = 0; i < node->stack_count && !writer->maker.failed; i++) {
		put(writer, i ? ",\n" : "\n");
		put_stack(writer, &node->stacks[i]);
	}
	put(writer, "]");
	snap_pointer_map_clear(&writer->frames, free);
}

static void add_ancestors(struct snap_json_maker *maker, struct snap_json *object,
			  const struct snap_node *node)
{
	for (size_t i = 0; i < node->ancestor_count; i++) {
		struct snap_json *ancestor = snap_json_object(maker);

		snap_json_number(maker, ancestor, "pid", node->ancestors[i].pid);
		snap_json_text(maker, ancestor, "name", node->ancestors[i].name);
		snap_json_count(maker, ancestor, "start_ticks",
				(int64_t)node->ancestors[i].start_ticks);
		snap_json_append(maker, object, "ancestors", ancestor);
	}
}

/* A process up to and with its stacks; its object stays open. */
static void put_node(struct writer *writer, const struct snap_node *node)
{
	struct snap_json_maker *maker = &writer->maker;
	struct snap_json *object = snap_json_object(maker);

	snap_json_number(maker, object, "pid", node->pid);
	snap_json_count(maker, object, "ppid", node->ppid);
	snap_json_count(maker, object, "ns_pid", node->ns_pid);
	snap_json_text(maker, object, "name", node->name);
	snap_json_text(maker, object, "description", node->description);
	snap_json_text(maker, object, "type", snap_process_type_word(node->type));
	snap_json_text(maker, object, "state", snap_state_word(node->state));
	snap_json_text(maker, object, "exe", node->exe);
	if (node->arg_count)
		snap_json_texts(maker, object, "args", node->args, node->arg_count);
	if (node->uid != (uid_t)-1)
		snap_json_number(maker, object, "uid", node->uid);
	snap_json_text(maker, object, "user", node->user);
	snap_json_time(maker, object, "start_time", node->start_time_ns);
	snap_json_count(maker, object, "start_ticks", (int64_t)node->start_ticks);
	snap_json_text(maker, object, "cgroup", node->cgroup);
	snap_json_text(maker, object, "unit", node->unit);
	snap_json_text(maker, object, "container", node->container);
	add_ancestors(maker, object, node);
	snap_json_number(maker, object, "thread_count", (int64_t)node->thread_count);
	snap_json_count(maker, object, "threads_missed", (int64_t)node->threads_missed);
	snap_json_count(maker, object, "stop_duration_ns", node->stop_duration_ns);
	if (node->label_count)
		snap_json_nest(maker, object, "labels",
			       labels(maker, node->labels, node->label_count));
	put_object(writer, object, true);
	put_stacks(writer, node);
	if (!writer->snapshot->flat)
		put(writer, ", \"children\": [");
}

/* What comes after a process's children. */
static void close_node(struct writer *writer, const struct snap_node *node)
{
	struct snap_json_maker *maker = &writer->maker;

	if (!writer->snapshot->flat)
		put(writer, "]");
	if (node->trouble) {
		struct snap_json *error = snap_json_object(maker);

		snap_json_text(maker, error, "code", snap_trouble_word(node->trouble));
		snap_json_text(maker, error, "message", node->trouble_message);
		put(writer, ", \"error\": ");
		put_object(writer, error, false);
	}
	put(writer, "}");
}

static void put_warnings(struct writer *writer)
{
	struct snap_json_maker *maker = &writer->maker;

	put(writer, "],\n\"warnings\": [");
	for (size_t i = 0; i < writer->snapshot->warning_count; i++) {
		const struct snap_warning *warning = &writer->snapshot->warnings[i];
		struct snap_json *object = snap_json_object(maker);

		snap_json_text(maker, object, "code", warning->code);
		snap_json_text(maker, object, "message", warning->message);
		snap_json_count(maker, object, "pid", warning->pid);
		snap_json_count(maker, object, "tid", warning->tid);
		put(writer, i ? ",\n" : "\n");
		put_object(writer, object, false);
	}
	put(writer, "]}\n");
}

static bool put_tree(struct writer *writer)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, writer->snapshot);
	while (!writer->maker.failed && snap_walk_next(&walk, &step)) {
		if (step.leave) {
			close_node(writer, step.node);
		} else {
			put(writer, step.first ? "\n" : ",\n");
			put_node(writer, step.node);
		}
	}
	return !walk.failed && !writer->maker.failed;
}

struct snap_error *snap_render_json(const struct snap_snapshot *snapshot,
				    const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(writer_deinit) struct writer writer = { .out = out, .snapshot = snapshot };

	put_head(&writer);
	if (!put_tree(&writer))
		return snap_error_no_memory();
	put_warnings(&writer);
	if (writer.maker.failed)
		return snap_error_no_memory();
	if (ferror(out))
		return snap_error_os(errno, "cannot write the report");
	return NULL;
}
