/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A diff as a JSON document: see diff.h and stacksnap-json(5). */
#include "render/diff/diff.h"

#include "render/json/document.h"

enum {
	THREAD_DECIMALS = 3, /* SNAP_DIFF_THREAD */
	SHARE_DECIMALS = 5,  /* SNAP_DIFF_WHOLE */
};

static void put_json_side(struct snap_json_writer *json, const char *key,
			  const struct snap_diff_side *side)
{
	snap_json_begin_line(json, key, '{');
	snap_json_text(json, "kind", side->ticks ? "recording" : "snapshot");
	snap_json_host_put(json, &side->host);
	snap_json_time_if(json, "time", side->time_ns);
	snap_json_number_if(json, "duration_ns", side->duration_ns);
	snap_json_number(json, "process_count", (int64_t)side->process_count);
	snap_json_number(json, "thread_count", (int64_t)side->thread_count);
	snap_json_number_if(json, "task_count", (int64_t)side->task_count);
	snap_json_number(json, "stack_count", (int64_t)side->stack_count);
	snap_json_number_if(json, "ticks", (int64_t)side->ticks);
	snap_json_number_if(json, "samples", (int64_t)side->samples);
	snap_json_end(json, '}');
}

static void put_json_group(struct snap_json_document *document, const struct snap_diff_group *group)
{
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_text(json, "id", group->stack->id);
	snap_json_text(json, "change", snap_change_word(group->change));
	snap_json_decimal(json, "before", (int64_t)group->before, THREAD_DECIMALS);
	snap_json_decimal(json, "after", (int64_t)group->after, THREAD_DECIMALS);
	if (group->stack->runtime) {
		snap_json_text(json, "kind", "task");
		snap_json_text(json, "runtime", group->stack->runtime);
	}
	snap_json_text_if(json, "description", group->stack->description);
	snap_json_text_if(json, "process", group->node->name);
	snap_json_number(json, "process_count", (int64_t)group->process_count);
	snap_json_list(json, "pids", group->pid_count, i,
		       snap_json_number(json, NULL, group->pids[i]));
	snap_json_stack_put(document, group->stack);
	snap_json_end(json, '}');
	/* Frames are a process's own. */
	snap_json_entries_forget(&document->entries);
}

static void put_json_groups(struct snap_json_document *document, const struct snap_diff *diff)
{
	snap_json_begin_line(document->json, "groups", '[');
	for (size_t i = 0; i < diff->group_count && !document->entries.failed; i++)
		put_json_group(document, &diff->groups[i]);
	snap_json_end(document->json, ']');
	snap_json_number(document->json, "unchanged", (int64_t)diff->same_count);
}

static void put_json_stuck(struct snap_json_writer *json, const struct snap_diff *diff)
{
	snap_json_begin_line(json, "stuck", '[');
	for (size_t i = 0; i < diff->stuck_count; i++) {
		const struct snap_diff_stuck *stuck = &diff->stuck[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_number(json, "pid", stuck->node->pid);
		snap_json_number(json, "tid", stuck->thread->tid);
		snap_json_text_if(json, "name", stuck->thread->name);
		snap_json_text(json, "id", stuck->stack->id);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_json_processes(struct snap_json_writer *json, const struct snap_diff *diff)
{
	snap_json_begin_line(json, "processes", '[');
	for (size_t i = 0; i < diff->process_count; i++) {
		const struct snap_node *node = diff->processes[i].node;

		snap_json_begin_line(json, NULL, '{');
		snap_json_number(json, "pid", node->pid);
		snap_json_number_if(json, "start_ticks", (int64_t)node->start_ticks);
		snap_json_text(json, "change", diff->processes[i].came ? "came" : "went");
		snap_json_text_if(json, "name", node->name);
		snap_json_text_if(json, "description", node->description);
		snap_json_number(json, "thread_count", (int64_t)node->thread_count);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* Of two recordings alone. */
static void put_json_functions(struct snap_json_writer *json, const struct snap_diff *diff)
{
	if (!diff->before.ticks || !diff->after.ticks)
		return;
	snap_json_begin_line(json, "functions", '[');
	for (size_t i = 0; i < diff->function_count; i++) {
		const struct snap_diff_function *function = &diff->functions[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_text(json, "function", function->name);
		snap_json_text_if(json, "module", function->module);
		snap_json_text(json, "of", function->running ? "running" : "waiting");
		snap_json_decimal(json, "before", function->before, SHARE_DECIMALS);
		snap_json_decimal(json, "after", function->after, SHARE_DECIMALS);
		snap_json_decimal(json, "before_self", function->before_self, SHARE_DECIMALS);
		snap_json_decimal(json, "after_self", function->after_self, SHARE_DECIMALS);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_json_head(struct snap_json_writer *json, const struct snap_diff *diff)
{
	snap_json_schema_put(json, "stacksnap.diff");
	put_json_side(json, "before", &diff->before);
	put_json_side(json, "after", &diff->after);
	snap_json_line(json);
	snap_json_bool(json, "differs", snap_diff_differs(diff));
}

struct stacksnap_error *snap_render_diff_json(const struct snap_diff *diff,
					      const struct snap_options *options _unused_,
					      FILE *out)
{
	_cleanup_(snap_json_document_deinit) struct snap_json_document document;

	SNAP_TRY(snap_json_document_init(&document, NULL, out, SNAP_JSON_SPACED));
	put_json_head(document.json, diff);
	put_json_groups(&document, diff);
	put_json_stuck(document.json, diff);
	put_json_processes(document.json, diff);
	put_json_functions(document.json, diff);
	snap_json_warnings_put(document.json, diff->warnings, diff->warning_count);
	snap_json_end(document.json, '}');
	snap_json_end_document(document.json);
	document.failed |= document.json->failed || document.entries.failed;
	return snap_json_document_finish(&document, out);
}
