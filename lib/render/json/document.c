/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as JSON documents: see document.h. Written by hand, as a DOM costs a kilobyte a
 * frame. Trees are walked without recursion: their depth is the target's.
 */
#include "render/json/document.h"

#include "model/recording.h"
#include "render/view/walk.h"

#include <errno.h>
#include <string.h>

struct snap_error *snap_json_writer_init(struct snap_json_writer *writer, FILE *out, bool lines)
{
	*writer = (struct snap_json_writer){ .lines = lines };
	writer->out = snap_json_out_create(out);
	return snap_json_entries_init(&writer->entries, lines) && writer->out
		       ? NULL
		       : snap_error_no_memory();
}

void snap_json_writer_deinit(struct snap_json_writer *writer)
{
	snap_json_out_destroy(writer->out);
	snap_json_entries_deinit(&writer->entries);
}

static void raw(struct snap_json_writer *writer, const char *text)
{
	snap_json_out_raw(writer->out, text);
}

/* In front of the elements of an array that stand one below the other. */
static void next_element(struct snap_json_writer *writer, bool first)
{
	if (!first)
		raw(writer, writer->lines ? ", " : ",\n");
	else if (!writer->lines)
		raw(writer, "\n");
}

/* ---- stacks ---- */

static void put_labels(struct snap_members *members, const struct snap_label *label, size_t count)
{
	struct snap_members inner = { .out = members->out };

	snap_members_key(members, "labels");
	snap_json_out_raw(members->out, "{");
	for (size_t i = 0; i < count; i++)
		snap_members_text(&inner, label[i].key, label[i].value);
	snap_json_out_raw(members->out, "}");
}

static void put_threads(struct snap_json_writer *writer, const struct snap_stack *stack)
{
	raw(writer, ", \"threads\": [");
	for (size_t i = 0; i < stack->thread_count; i++) {
		const struct snap_member *thread = &stack->threads[i];
		struct snap_members members = { .out = writer->out };

		next_element(writer, i == 0);
		raw(writer, "{");
		snap_members_number(&members, "tid", thread->tid);
		snap_members_count(&members, "ns_tid", thread->ns_tid);
		snap_members_text(&members, "name", thread->name);
		snap_members_text(&members, "state", snap_state_word(thread->state));
		snap_members_text(&members, "type", thread->kernel ? "kernel" : "user");
		snap_members_text(&members, "syscall", thread->syscall);
		snap_members_text(&members, "wchan", thread->wchan);
		if (thread->cpu >= 0)
			snap_members_number(&members, "cpu", thread->cpu);
		if (thread->taken != SNAP_TAKEN_TOGETHER)
			snap_members_text(&members, "taken", snap_taken_word(thread->taken));
		if (stack->thread_samples)
			snap_members_number(&members, "samples", (int64_t)stack->thread_samples[i]);
		raw(writer, "}");
	}
	raw(writer, writer->lines ? "], " : "],\n");
}

/* The index of the last entry of the frame after which frames were left out. */
static int64_t gap_entry(const struct snap_stack *stack)
{
	int64_t entries = 0;

	for (size_t i = 0; i <= stack->gap_frame && i < stack->frame_count; i++)
		entries += (int64_t)stack->frames[i]->entry_count;
	return entries - 1;
}

static void put_end(struct snap_members *members, const struct snap_stack *stack)
{
	struct snap_members gap = { .out = members->out };

	snap_members_text(members, "unwind", snap_unwind_word(stack->unwind));
	snap_members_text(members, "unwind_detail", stack->unwind_detail);
	if (!stack->gap_count)
		return;
	snap_members_key(members, "gap");
	snap_json_out_raw(members->out, "{");
	snap_members_number(&gap, "after", gap_entry(stack));
	snap_members_number(&gap, "count", (int64_t)stack->gap_count);
	snap_json_out_raw(members->out, "}");
}

/* How often a group was seen, and in which states: of a recording alone. */
static void put_samples(struct snap_json_writer *writer, struct snap_members *members,
			const struct snap_stack *stack)
{
	struct snap_members states = { .out = writer->out };
	int64_t length;

	if (!stack->state_samples)
		return;
	snap_members_number(members, "samples", (int64_t)stack->samples);
	if (!__builtin_mul_overflow((int64_t)stack->samples, writer->sample_ns, &length))
		snap_members_count(members, "duration_ns", length);
	snap_members_key(members, "states");
	raw(writer, "{");
	for (unsigned i = 0; i < SNAP_STATE_COUNT; i++)
		snap_members_count(&states, snap_state_word(i), (int64_t)stack->state_samples[i]);
	raw(writer, "}");
}

static void put_stack(struct snap_json_writer *writer, const struct snap_stack *stack)
{
	struct snap_members members = { .out = writer->out };

	raw(writer, "{");
	snap_members_text(&members, "id", stack->id);
	snap_members_number(&members, "count", (int64_t)stack->count);
	put_samples(writer, &members, stack);
	snap_members_text(&members, "description", stack->description);
	put_labels(&members, stack->labels, stack->label_count);
	put_end(&members, stack);
	put_threads(writer, stack);
	snap_json_entries_put(&writer->entries, writer->out, stack->frames, stack->frame_count);
	raw(writer, "}");
}

/* ---- processes ---- */

static void put_ancestors(struct snap_members *members, const struct snap_node *node)
{
	if (node->ancestor_count == 0)
		return;
	snap_members_key(members, "ancestors");
	for (size_t i = 0; i < node->ancestor_count; i++) {
		struct snap_members inner = { .out = members->out };

		snap_json_out_raw(members->out, i ? ", {" : "[{");
		snap_members_number(&inner, "pid", node->ancestors[i].pid);
		snap_members_text(&inner, "name", node->ancestors[i].name);
		snap_members_count(&inner, "start_ticks", (int64_t)node->ancestors[i].start_ticks);
		snap_json_out_raw(members->out, "}");
	}
	snap_json_out_raw(members->out, "]");
}

static void put_facts(struct snap_members *members, const struct snap_node *node)
{
	snap_members_number(members, "pid", node->pid);
	snap_members_count(members, "ppid", node->ppid);
	snap_members_count(members, "ns_pid", node->ns_pid);
	snap_members_text(members, "name", node->name);
	snap_members_text(members, "description", node->description);
	snap_members_text(members, "type", snap_process_type_word(node->type));
	snap_members_text(members, "state", snap_state_word(node->state));
	snap_members_text(members, "exe", node->exe);
	if (node->arg_count)
		snap_members_texts(members, "args", node->args, node->arg_count);
	if (node->uid != (uid_t)-1)
		snap_members_number(members, "uid", node->uid);
	snap_members_text(members, "user", node->user);
	snap_members_time(members, "start_time", node->start_time_ns);
	snap_members_count(members, "start_ticks", (int64_t)node->start_ticks);
	snap_members_text(members, "cgroup", node->cgroup);
	snap_members_text(members, "unit", node->unit);
	snap_members_text(members, "container", node->container);
	put_ancestors(members, node);
	snap_members_number(members, "thread_count", (int64_t)node->thread_count);
	snap_members_count(members, "threads_missed", (int64_t)node->threads_missed);
	snap_members_count(members, "stop_duration_ns", node->stop_duration_ns);
	if (node->label_count)
		put_labels(members, node->labels, node->label_count);
	if (!node->recorded)
		return;
	snap_members_number(members, "first_ns", node->first_ns);
	snap_members_number(members, "last_ns", node->last_ns);
	snap_members_flag(members, "ended", node->ended);
	snap_members_flag(members, "execed", node->execed);
}

/* A process up to and with its stacks; its object stays open. */
static void put_node(struct snap_json_writer *writer, const struct snap_node *node, bool flat)
{
	struct snap_members members = { .out = writer->out };

	raw(writer, "{");
	put_facts(&members, node);
	raw(writer, writer->lines ? ", \"stacks\": [" : ",\n\"stacks\": [");
	for (size_t i = 0; i < node->stack_count && !writer->entries.failed; i++) {
		next_element(writer, i == 0);
		put_stack(writer, &node->stacks[i]);
	}
	raw(writer, flat ? "]" : "], \"children\": [");
	/* Frames are a process's own. */
	if (!writer->lines)
		snap_json_entries_forget(&writer->entries);
}

static void put_error(struct snap_members *members, const struct snap_node *node)
{
	struct snap_members error = { .out = members->out };

	if (!node->trouble)
		return;
	snap_members_key(members, "error");
	snap_json_out_raw(members->out, "{");
	snap_members_text(&error, "code", snap_trouble_word(node->trouble));
	snap_members_text(&error, "message", node->trouble_message);
	snap_json_out_raw(members->out, "}");
}

/* What comes after a process's children. */
static void close_node(struct snap_json_writer *writer, const struct snap_node *node, bool flat)
{
	struct snap_members members = { .out = writer->out, .begun = true };

	if (!flat)
		raw(writer, "]");
	put_error(&members, node);
	raw(writer, "}");
}

/* ---- the document ---- */

void snap_json_put_origin(struct snap_members *members, const struct snap_host *host)
{
	struct snap_members tool = { .out = members->out }, place = { .out = members->out };

	snap_members_key(members, "tool");
	snap_json_out_raw(members->out, "{");
	snap_members_text(&tool, "name", "stacksnap");
	snap_members_text(&tool, "version", SNAP_VERSION);
	snap_json_out_raw(members->out, "}");
	snap_members_key(members, "host");
	snap_json_out_raw(members->out, "{");
	snap_members_text(&place, "name", host->name);
	snap_members_text(&place, "kernel", host->kernel);
	snap_members_text(&place, "arch", host->arch);
	snap_members_count(&place, "cpus", host->cpus);
	snap_members_text(&place, "boot_id", host->boot_id);
	snap_json_out_raw(members->out, "}");
}

static void put_head(struct snap_json_writer *writer, const struct snap_snapshot *snapshot)
{
	struct snap_members members = { .out = writer->out };

	raw(writer, "{");
	snap_members_text(&members, "schema", "stacksnap.snapshot");
	snap_members_number(&members, "schema_version", 1);
	snap_json_put_origin(&members, &snapshot->host);
	snap_members_time(&members, "time", snapshot->time_ns);
	snap_members_count(&members, "duration_ns", snapshot->duration_ns);
	snap_members_count(&members, "stop_duration_ns", snapshot->stop_duration_ns);
	snap_members_count(&members, "stop_skew_ns", snapshot->stop_skew_ns);
	if (snapshot->many_instants) {
		snap_members_key(&members, "consistent");
		raw(writer, "false");
	}
	snap_members_number(&members, "process_count", (int64_t)snapshot->process_count);
	snap_members_number(&members, "thread_count", (int64_t)snapshot->thread_count);
	snap_members_number(&members, "stack_count", (int64_t)snapshot->stack_count);
}

static void put_warnings(struct snap_json_writer *writer, const struct snap_warning *warnings,
			 size_t count)
{
	raw(writer, "\"warnings\": [");
	for (size_t i = 0; i < count; i++) {
		struct snap_members members = { .out = writer->out };

		next_element(writer, i == 0);
		raw(writer, "{");
		snap_members_text(&members, "code", warnings[i].code);
		snap_members_text(&members, "message", warnings[i].message);
		snap_members_count(&members, "pid", warnings[i].pid);
		snap_members_count(&members, "tid", warnings[i].tid);
		raw(writer, "}");
	}
	raw(writer, "]");
}

void snap_json_put_processes(struct snap_json_writer *writer, const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	raw(writer, writer->lines ? ", \"processes\": [" : ",\n\"processes\": [");
	snap_walk_init(&walk, snapshot);
	while (!writer->entries.failed && snap_walk_next(&walk, &step)) {
		if (step.leave) {
			close_node(writer, step.node, snapshot->flat);
		} else {
			next_element(writer, step.first);
			put_node(writer, step.node, snapshot->flat);
		}
	}
	raw(writer, writer->lines ? "], " : "],\n");
	put_warnings(writer, snapshot->warnings, snapshot->warning_count);
	raw(writer, "}\n");
	writer->failed =
		writer->failed || walk.failed || writer->out->failed || writer->entries.failed;
}

bool snap_json_writer_put(struct snap_json_writer *writer, const struct snap_snapshot *snapshot)
{
	put_head(writer, snapshot);
	snap_json_put_processes(writer, snapshot);
	return !writer->failed;
}

struct snap_error *snap_json_writer_finish(struct snap_json_writer *writer, FILE *out)
{
	if (writer->failed)
		return snap_error_no_memory();
	snap_json_out_flush(writer->out);
	if (ferror(out))
		return snap_error_os(errno, "cannot write the report");
	return NULL;
}
