/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as JSON documents, see document.h, and a snapshot as one of them. Written by hand, as a
 * DOM costs a kilobyte a frame. Trees are walked without recursion, as the target decides how deep
 * they are.
 */
#include "render/json/document.h"

#include "model/recording.h"
#include "render/json/calls.h"
#include "render/json/tasks.h"
#include "render/json/waits.h"
#include "render/render.h"
#include "render/view/walk.h"

#include <errno.h>

struct stacksnap_error *snap_json_document_init(struct snap_json_document *document,
						const struct snap_options *options, FILE *out,
						enum snap_json_style style)
{
	*document = (struct snap_json_document){
		.json = snap_json_writer_create(out, style),
		.options = options,
	};
	return snap_no_memory_unless(snap_json_entries_init(&document->entries, style) &&
				     document->json);
}

void snap_json_document_deinit(struct snap_json_document *document)
{
	snap_json_writer_destroy(document->json);
	snap_json_entries_deinit(&document->entries);
}

/* ---- stacks ---- */

static void put_json_wait(struct snap_json_document *document, const struct snap_wait *wait)
{
	const struct snap_pointer_entry *found = NULL;

	if (!document->wait_numbers) {
		snap_json_wait_put(document->json, wait);
		return;
	}
	if (wait)
		found = snap_pointer_table_find(document->wait_numbers, wait);
	if (found)
		snap_json_number(document->json, "wait_number", (int64_t)found->number);
}

static void put_json_threads(struct snap_json_document *document, const struct snap_stack *stack)
{
	struct snap_json_writer *json = document->json;
	bool is_held = document->any_stopped && stack->frame_count &&
		       stack->unwind != SNAP_UNWIND_NOT_STOPPED;

	snap_json_begin(json, "threads", '[');
	for (size_t i = 0; i < stack->thread_count; i++) {
		const struct snap_member *thread = &stack->threads[i];

		snap_json_begin_line(json, NULL, '{');
		if (stack->pids)
			snap_json_number(json, "pid", stack->pids[i]);
		snap_json_number(json, "tid", thread->tid);
		snap_json_number_if(json, "ns_tid", thread->ns_tid);
		snap_json_text_if(json, "name", thread->name);
		snap_json_text(json, "state", snap_state_word(thread->state));
		snap_json_text(json, "type", thread->kernel ? "kernel" : "user");
		snap_json_text_if(json, "syscall", thread->syscall);
		snap_json_text_if(json, "wchan", thread->wchan);
		if (thread->cpu >= 0)
			snap_json_number(json, "cpu", thread->cpu);
		if (thread->taken != SNAP_TAKEN_TOGETHER || is_held)
			snap_json_text(json, "taken", snap_taken_word(thread->taken));
		snap_json_number_if(json, "runs", (int64_t)thread->runs);
		snap_json_true_if(json, "stuck", thread->stuck);
		snap_json_true_if(json, "idle", thread->idle);
		if (stack->thread_samples)
			snap_json_number(json, "samples", (int64_t)stack->thread_samples[i]);
		put_json_wait(document, thread->wait);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* The index of the last entry of the frame after which frames were left out. */
static int64_t gap_entry(const struct snap_stack *stack)
{
	int64_t entries = 0;

	for (size_t i = 0; i <= stack->gap_frame && i < stack->frame_count; i++)
		entries += (int64_t)stack->frames[i]->entry_count;
	return entries - 1;
}

static void put_unwind_end(struct snap_json_writer *json, const struct snap_stack *stack)
{
	snap_json_text(json, "unwind", snap_unwind_word(stack->unwind));
	snap_json_text_if(json, "unwind_detail", stack->unwind_detail);
	if (!stack->gap_count)
		return;
	snap_json_begin(json, "gap", '{');
	snap_json_number(json, "after", gap_entry(stack));
	snap_json_number(json, "count", (int64_t)stack->gap_count);
	snap_json_end(json, '}');
}

/* How often a group was seen, and in which states: of a recording alone. */
static void put_json_samples(struct snap_json_document *document, const struct snap_stack *stack)
{
	struct snap_json_writer *json = document->json;
	int64_t length;

	if (!stack->state_samples)
		return;
	snap_json_number(json, "samples", (int64_t)stack->samples);
	if (!__builtin_mul_overflow((int64_t)stack->samples, document->sample_ns, &length))
		snap_json_number_if(json, "duration_ns", length);
	snap_json_begin(json, "states", '{');
	for (unsigned i = 0; i < SNAP_STATE_COUNT; i++)
		if (stack->state_samples[i])
			snap_json_number(
				json, stack->runtime ? snap_task_state_word(i) : snap_state_word(i),
				(int64_t)stack->state_samples[i]);
	snap_json_end(json, '}');
}

void snap_json_stack_put(struct snap_json_document *document, const struct snap_stack *stack)
{
	struct snap_json_writer *json = document->json;

	snap_json_labels_put(json, stack->labels, stack->label_count);
	put_unwind_end(json, stack);
	snap_json_line(json);
	snap_json_entries_put(&document->entries, json, stack->frames, stack->frame_count);
}

static void put_json_stack(struct snap_json_document *document, const struct snap_stack *stack)
{
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_text(json, "id", stack->id);
	snap_json_number(json, "count", (int64_t)stack->count);
	put_json_samples(document, stack);
	if (stack->runtime) {
		snap_json_text(json, "kind", "task");
		snap_json_text(json, "runtime", stack->runtime);
	}
	snap_json_text_if(json, "description", stack->description);
	snap_json_labels_put(json, stack->labels, stack->label_count);
	put_unwind_end(json, stack);
	put_json_wait(document, stack->wait);
	if (stack->runtime)
		snap_json_tasks_put(json, stack);
	else
		put_json_threads(document, stack);
	snap_json_line(json);
	snap_json_entries_put(&document->entries, json, stack->frames, stack->frame_count);
	snap_json_end(json, '}');
}

static void put_json_stacks(void *context, const struct snap_stack *stacks, size_t count)
{
	struct snap_json_document *document = context;

	snap_json_begin(document->json, "stacks", '[');
	for (size_t i = 0; i < count && !document->entries.failed; i++)
		put_json_stack(document, &stacks[i]);
	snap_json_end(document->json, ']');
}

/* All stacks of a process, or of all processes together, as one tree. */
static void put_calls(struct snap_json_document *document, const struct snap_node *node,
		      const struct snap_together *together)
{
	_cleanup_(snap_call_tree_deinit) struct snap_call_tree tree = { .nodes = NULL };
	const struct snap_options *options = document->options;
	bool made;

	if (!options->call_tree)
		return;
	made = node ? snap_call_tree_init(&tree, node, options)
		    : snap_call_tree_init_of(&tree, together->stacks, together->stack_count,
					     options);
	if (!made) {
		document->failed = true;
		return;
	}
	snap_json_line(document->json);
	snap_json_calls_put(document->json, &tree);
}

/* ---- processes ---- */

static void put_ancestors(struct snap_json_writer *json, const struct snap_node *node)
{
	if (node->ancestor_count == 0)
		return;
	snap_json_begin(json, "ancestors", '[');
	for (size_t i = 0; i < node->ancestor_count; i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "pid", node->ancestors[i].pid);
		snap_json_text_if(json, "name", node->ancestors[i].name);
		snap_json_number_if(json, "start_ticks", (int64_t)node->ancestors[i].start_ticks);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_args(struct snap_json_writer *json, const struct snap_node *node)
{
	if (node->arg_count == 0)
		return;
	snap_json_list(json, "args", node->arg_count, i, snap_json_text(json, NULL, node->args[i]));
}

static void put_signal(struct snap_json_writer *json, const struct snap_signal *signal)
{
	if (!signal->number)
		return;
	snap_json_begin(json, "signal", '{');
	snap_json_text_if(json, "name", snap_signal_word(signal->number));
	snap_json_number(json, "number", signal->number);
	if (signal->code)
		snap_json_number(json, "code", signal->code);
	if (signal->has_address)
		snap_json_hex(json, "address", signal->address);
	snap_json_number_if(json, "tid", signal->tid);
	snap_json_end(json, '}');
}

static void put_json_facts(struct snap_json_writer *json, const struct snap_node *node)
{
	snap_json_number(json, "pid", node->pid);
	snap_json_number_if(json, "ppid", node->ppid);
	snap_json_number_if(json, "ns_pid", node->ns_pid);
	snap_json_text_if(json, "name", node->name);
	snap_json_text_if(json, "description", node->description);
	snap_json_text(json, "type", snap_process_type_word(node->type));
	snap_json_text(json, "state", snap_state_word(node->state));
	snap_json_text_if(json, "exe", node->exe);
	put_args(json, node);
	if (node->uid != (uid_t)-1)
		snap_json_number(json, "uid", node->uid);
	snap_json_text_if(json, "user", node->user);
	snap_json_time_if(json, "start_time", node->start_time_ns);
	snap_json_number_if(json, "start_ticks", (int64_t)node->start_ticks);
	snap_json_text_if(json, "cgroup", node->cgroup);
	snap_json_text_if(json, "unit", node->unit);
	snap_json_text_if(json, "container", node->container);
	put_ancestors(json, node);
	snap_json_number(json, "thread_count", (int64_t)node->thread_count);
	snap_json_number_if(json, "threads_missed", (int64_t)node->threads_missed);
	snap_json_number_if(json, "stop_duration_ns", node->stop_duration_ns);
	snap_json_number_if(json, "rss_bytes", node->usage.rss_bytes);
	snap_json_number_if(json, "rss_bytes_before", node->usage_before.rss_bytes);
	snap_json_number_if(json, "cpu_ns", node->usage.cpu_ns);
	snap_json_number_if(json, "cpu_ns_before", node->usage_before.cpu_ns);
	put_signal(json, &node->signal);
	if (node->label_count)
		snap_json_labels_put(json, node->labels, node->label_count);
	snap_json_runtimes_put(json, node);
	if (!node->recorded)
		return;
	snap_json_number(json, "first_ns", node->first_ns);
	snap_json_number(json, "last_ns", node->last_ns);
	snap_json_true_if(json, "ended", node->ended);
	snap_json_true_if(json, "execed", node->execed);
}

/* A process up to and with its stacks; its object, and the array of its children, stay open. */
static void begin_json_node(struct snap_json_document *document, const struct snap_node *node,
			    bool flat)
{
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, NULL, '{');
	put_json_facts(json, node);
	snap_json_line(json);
	put_json_stacks(document, node->stacks, node->stack_count);
	snap_json_logical_put(json, node, flat, put_json_stacks, document);
	put_calls(document, node, NULL);
	if (!flat)
		snap_json_begin(json, "children", '[');
	/* No other process has the same frames. */
	if (!document->entries.many)
		snap_json_entries_forget(&document->entries);
}

static void end_json_node(struct snap_json_writer *json, const struct snap_node *node, bool flat)
{
	if (!flat)
		snap_json_end(json, ']');
	if (node->trouble) {
		snap_json_begin(json, "error", '{');
		snap_json_text(json, "code", snap_trouble_word(node->trouble));
		snap_json_text_if(json, "message", node->trouble_message);
		snap_json_end(json, '}');
	}
	snap_json_end(json, '}');
}

/* ---- the document ---- */

void snap_json_host_put(struct snap_json_writer *json, const struct snap_host *host)
{
	snap_json_begin(json, "host", '{');
	snap_json_text_if(json, "name", host->name);
	snap_json_text_if(json, "kernel", host->kernel);
	snap_json_text_if(json, "arch", host->arch);
	snap_json_number_if(json, "cpus", host->cpus);
	snap_json_text_if(json, "boot_id", host->boot_id);
	snap_json_end(json, '}');
}

void snap_json_schema_put(struct snap_json_writer *json, const char *schema)
{
	snap_json_begin(json, NULL, '{');
	snap_json_text(json, "schema", schema);
	snap_json_number(json, "schema_version", 1);
	snap_json_begin(json, "tool", '{');
	snap_json_text(json, "name", "stacksnap");
	snap_json_text(json, "version", SNAP_VERSION);
	snap_json_end(json, '}');
}

void snap_json_document_begin(struct snap_json_document *document, const char *schema,
			      const struct snap_host *host)
{
	snap_json_schema_put(document->json, schema);
	snap_json_host_put(document->json, host);
}

void snap_json_warnings_put(struct snap_json_writer *json, const struct snap_warning *warnings,
			    size_t count)
{
	snap_json_begin_line(json, "warnings", '[');
	for (size_t i = 0; i < count; i++) {
		snap_json_begin_line(json, NULL, '{');
		snap_json_text_if(json, "code", warnings[i].code);
		snap_json_text_if(json, "message", warnings[i].message);
		snap_json_number_if(json, "pid", warnings[i].pid);
		snap_json_number_if(json, "tid", warnings[i].tid);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

void snap_json_document_end(struct snap_json_document *document,
			    const struct snap_together *together)
{
	const struct snap_snapshot *snapshot = &together->snapshot;
	struct snap_json_writer *json = document->json;
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	if (together->stacks) {
		snap_json_line(json);
		put_json_stacks(document, together->stacks, together->stack_count);
		put_calls(document, NULL, together);
		if (!document->entries.many)
			snap_json_entries_forget(&document->entries);
	}
	snap_json_true_if(json, "reverse",
			  document->options->call_tree && document->options->reverse);
	snap_json_begin_line(json, "processes", '[');
	snap_walk_init(&walk, snapshot);
	while (!document->entries.failed && snap_walk_next(&walk, &step)) {
		if (step.leave)
			end_json_node(json, step.node, snapshot->flat);
		else
			begin_json_node(document, step.node, snapshot->flat);
	}
	snap_json_end(json, ']');
	snap_json_waits_put(json, &snapshot->waits);
	snap_json_warnings_put(json, snapshot->warnings, snapshot->warning_count);
	snap_json_end(json, '}');
	snap_json_end_document(json);
	if (walk.failed || json->failed || document->entries.failed)
		document->failed = true;
}

/* Absent where no process was: in a core. */
static void put_json_stop(struct snap_json_writer *json, const struct snap_snapshot *snapshot)
{
	if (!snapshot->stop_rounds && !snapshot->threads_stopped && !snapshot->threads_late)
		return;
	snap_json_begin(json, "stop", '{');
	snap_json_number(json, "threads_stopped", (int64_t)snapshot->threads_stopped);
	snap_json_number(json, "threads_late", (int64_t)snapshot->threads_late);
	snap_json_number(json, "rounds", snapshot->stop_rounds);
	snap_json_number(json, "duration_ns", snapshot->stop_duration_ns);
	snap_json_end(json, '}');
}

bool snap_json_document_put(struct snap_json_document *document, const struct snap_snapshot *from)
{
	_cleanup_(snap_together_deinit) struct snap_together together;
	const struct snap_snapshot *snapshot = &together.snapshot;
	struct snap_json_writer *json = document->json;

	if (!snap_together_init(&together, from, document->options)) {
		document->failed = true;
		return false;
	}
	document->any_stopped = snapshot->threads_stopped > 0;
	snap_json_document_begin(document, "stacksnap.snapshot", &snapshot->host);
	snap_json_time_if(json, "time", snapshot->time_ns);
	snap_json_number_if(json, "monotonic_ns", snapshot->monotonic_ns);
	snap_json_number_if(json, "duration_ns", snapshot->duration_ns);
	put_json_stop(json, snapshot);
	snap_json_number_if(json, "stop_duration_ns", snapshot->stop_duration_ns);
	snap_json_number_if(json, "stop_skew_ns", snapshot->stop_skew_ns);
	snap_json_number_if(json, "again_ns", snapshot->again_ns);
	snap_json_number_if(json, "stuck_count", (int64_t)snapshot->stuck);
	snap_json_number_if(json, "stuck_idle_count", (int64_t)snapshot->stuck_idle);
	snap_json_number_if(json, "stopped_count", (int64_t)snapshot->stopped);
	if (snapshot->many_instants)
		snap_json_bool(json, "consistent", false);
	snap_json_number(json, "process_count", (int64_t)snapshot->process_count);
	snap_json_number(json, "thread_count", (int64_t)snapshot->thread_count);
	snap_json_number_if(json, "task_count", (int64_t)snapshot->task_count);
	snap_json_number(json, "stack_count", (int64_t)snapshot->stack_count);
	snap_json_document_end(document, &together);
	return !document->failed;
}

struct stacksnap_error *snap_json_document_finish(struct snap_json_document *document, FILE *out)
{
	SNAP_TRY(snap_no_memory_unless(!document->failed));
	snap_json_flush(document->json);
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}

/* One document, in the style of the format. */
static struct stacksnap_error *render_snapshot(const struct snap_snapshot *snapshot,
					       const struct snap_options *options, FILE *out,
					       enum snap_json_style style)
{
	_cleanup_(snap_json_document_deinit) struct snap_json_document document;

	SNAP_TRY(snap_json_document_init(&document, options, out, style));
	(void)snap_json_document_put(&document, snapshot);
	return snap_json_document_finish(&document, out);
}

struct stacksnap_error *snap_render_json(const struct snap_snapshot *snapshot,
					 const struct snap_options *options, FILE *out)
{
	return render_snapshot(snapshot, options, out, SNAP_JSON_SPACED);
}

struct stacksnap_error *snap_render_jsonl(const struct snap_snapshot *snapshot,
					  const struct snap_options *options, FILE *out)
{
	return render_snapshot(snapshot, options, out, SNAP_JSON_ONE_LINE);
}
