/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A difference as an HTML page: see render/diff/diff.h and parts.h. Numbers are those of the model:
 * thousandths of threads, hundred-thousandths of samples.
 */
#include "render/diff/diff.h"
#include "render/html/parts.h"
#include "render/view/when.h"

#include <inttypes.h>

/* "db-7, 2026-11-20 07:52:18.106: 2 processes, 65 threads, 4 stacks" */
static void put_html_side(struct snap_html *html, const char *word,
			  const struct snap_diff_side *side)
{
	struct snap_buffer *text = &html->scratch;
	char when[SNAP_WHEN_SIZE];

	snap_buffer_clear(text);
	snap_buffer_add_text(text, side->host.name ? side->host.name : "?");
	if (side->time_ns) {
		snap_when(side->time_ns, ' ', 3, when);
		snap_buffer_printf(text, ", %s", when);
	}
	snap_buffer_printf(text, ": %zu process%s, %zu thread%s, ", side->process_count,
			   side->process_count == 1 ? "" : "es", side->thread_count,
			   side->thread_count == 1 ? "" : "s");
	if (side->task_count)
		snap_buffer_printf(text, "%zu task%s, ", side->task_count,
				   side->task_count == 1 ? "" : "s");
	snap_buffer_printf(text, "%zu stack%s", side->stack_count,
			   side->stack_count == 1 ? "" : "s");
	if (side->ticks) {
		snap_when_length(side->duration_ns, when);
		snap_buffer_printf(text, ", recorded %s, %" PRIu64 " samples", when, side->samples);
	}
	html->failed |= text->failed;
	snap_html_put_fact(html, word, snap_buffer_text(text));
}

static void put_html_changes(struct snap_html *html, const struct snap_diff *diff)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "changes", '[');
	for (size_t i = 0; i < diff->group_count && !html->failed; i++) {
		const struct snap_diff_group *group = &diff->groups[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_clean(json, "change", snap_change_word(group->change));
		snap_json_number(json, "before", (int64_t)group->before);
		snap_json_number(json, "after", (int64_t)group->after);
		snap_json_text_if(json, "process", group->node->name);
		snap_json_list(json, "pids", group->pid_count, k,
			       snap_json_number(json, NULL, group->pids[k]));
		snap_json_number(json, "process_count", (int64_t)group->process_count);
		if (group->stack->runtime)
			snap_json_text(json, "runtime", group->stack->runtime);
		snap_html_put_group(html, group->stack);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
	snap_json_number(json, "unchanged", (int64_t)diff->same_count);
}

static void put_html_stuck(struct snap_html *html, const struct snap_diff *diff)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "stuck", '[');
	for (size_t i = 0; i < diff->stuck_count && !html->failed; i++) {
		const struct snap_diff_stuck *stuck = &diff->stuck[i];

		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "pid", stuck->node->pid);
		snap_json_text_if(json, "process", stuck->node->name);
		snap_json_number(json, "tid", stuck->thread->tid);
		snap_json_text_if(json, "name", stuck->thread->name);
		snap_html_put_text(html, "wait", snap_html_wait(html, stuck->thread->wait));
		snap_html_put_group(html, stuck->stack);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_html_processes(struct snap_html *html, const struct snap_diff *diff)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "processes", '[');
	for (size_t i = 0; i < diff->process_count; i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_true_if(json, "came", diff->processes[i].came);
		snap_html_put_process(html, diff->processes[i].node, 0);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_html_functions(struct snap_html *html, const struct snap_diff *diff)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "functions", '[');
	for (size_t i = 0; i < diff->function_count; i++) {
		const struct snap_diff_function *function = &diff->functions[i];

		snap_json_begin(json, NULL, '[');
		snap_json_number(json, NULL, (int64_t)snap_html_function(html, function->name));
		snap_json_number(json, NULL, (int64_t)snap_html_text(html, function->module));
		snap_json_number(json, NULL, function->running);
		snap_json_number(json, NULL, function->before);
		snap_json_number(json, NULL, function->after);
		snap_json_number(json, NULL, function->before_self);
		snap_json_number(json, NULL, function->after_self);
		snap_json_end(json, ']');
	}
	snap_json_end(json, ']');
}

static struct stacksnap_error *put_diff(const void *what, struct snap_html *html)
{
	static const struct snap_missing nothing = { .shown = 0 };
	const struct snap_diff *diff = what;

	snap_html_put_kind(html, "diff");
	snap_html_begin_facts(html);
	put_html_side(html, "Before", &diff->before);
	put_html_side(html, "After", &diff->after);
	snap_json_end(html->json, ']');
	snap_json_true_if(html->json, "differs", snap_diff_differs(diff));
	snap_json_true_if(html->json, "recordings", diff->before.ticks && diff->after.ticks);
	snap_html_put_missing(html, &nothing, diff->warnings, diff->warning_count);
	put_html_changes(html, diff);
	put_html_stuck(html, diff);
	put_html_processes(html, diff);
	put_html_functions(html, diff);
	return NULL;
}

static struct stacksnap_error *put_diff_text(const void *what, const struct snap_options *options,
					     FILE *out)
{
	return snap_render_diff_text(what, options, out);
}

struct stacksnap_error *snap_render_diff_html(const struct snap_diff *diff,
					      const struct snap_options *options, FILE *out)
{
	struct snap_buffer text = { .data = NULL };
	_cleanup_free_ char *title = NULL;
	struct snap_html_page page = {
		.put_text = put_diff_text,
		.put_data = put_diff,
		.what = diff,
	};

	snap_buffer_printf(&text, "stacksnap: what changed from %s to %s",
			   diff->before.host.name ? diff->before.host.name : "?",
			   diff->after.host.name ? diff->after.host.name : "?");
	title = snap_buffer_take(&text, NULL);
	page.title = title;
	return title ? snap_html_put_page(&page, options, out) : snap_error_no_memory();
}
