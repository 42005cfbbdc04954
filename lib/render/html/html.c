/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots and recordings as HTML pages: which parts a page of each has. See parts.h.
 *
 * The text form of a page is the text report; all else is data for the page's script. Knows nothing
 * of tags.
 */
#include "render/html/parts.h"
#include "render/render.h"
#include "render/view/figures.h"
#include "render/wait/circles.h"

#include <inttypes.h>

/* "stacksnap: orderd[1234] on db-7, 2026-11-20 07:52:18.106Z"; malloc'ed, NULL without memory. */
static char *title_of(const struct snap_host *host, const struct snap_node *first, size_t roots,
		      int64_t time_ns)
{
	struct snap_buffer text = { .data = NULL };
	char when[SNAP_WHEN_SIZE];

	snap_buffer_add_text(&text, "stacksnap:");
	if (first)
		snap_buffer_printf(&text, " %s[%d]", first->name ? first->name : "?", first->pid);
	if (roots > 1)
		snap_buffer_printf(&text, " and %zu more", roots - 1);
	if (host->name)
		snap_buffer_printf(&text, " on %s", host->name);
	if (time_ns) {
		snap_when(time_ns, ' ', 3, when);
		snap_buffer_printf(&text, ", %s", when);
	}
	return snap_buffer_take(&text, NULL);
}

/* ---- snapshots ---- */

static void put_counts(struct snap_html *html, const struct snap_snapshot *snapshot)
{
	struct snap_buffer *text = &html->scratch;

	snap_buffer_clear(text);
	snap_buffer_printf(text, "%zu process%s, %zu thread%s", snapshot->process_count,
			   snapshot->process_count == 1 ? "" : "es", snapshot->thread_count,
			   snapshot->thread_count == 1 ? "" : "s");
	if (snapshot->task_count)
		snap_buffer_printf(text, ", %zu task%s", snapshot->task_count,
				   snapshot->task_count == 1 ? "" : "s");
	snap_buffer_printf(text, ", %zu stack%s", snapshot->stack_count,
			   snapshot->stack_count == 1 ? "" : "s");
	html->failed |= text->failed;
	snap_html_put_fact(html, "Holds", snap_buffer_text(text));
}

static struct stacksnap_error *put_snapshot(const void *what, struct snap_html *html)
{
	const struct snap_snapshot *snapshot = what;
	char length[SNAP_WHEN_SIZE];

	snap_html_put_kind(html, "snapshot");
	snap_html_begin_facts(html);
	snap_html_put_host(html, &snapshot->host, snapshot->time_ns);
	put_counts(html, snapshot);
	if (snapshot->stop_duration_ns) {
		snap_when_length(snapshot->stop_duration_ns, length);
		snap_html_put_fact(html, "Stopped", length);
	}
	if (snapshot->many_instants)
		snap_html_put_fact(html, "Moment", "threads were looked at one by one");
	if (snapshot->again_ns) {
		snap_when_length(snapshot->again_ns, length);
		snap_html_put_fact(html, "Second look after", length);
	}
	snap_json_end(html->json, ']');
	snap_html_put_waits(html, &snapshot->waits);
	snap_html_put_missing(html, &snapshot->missing, snapshot->warnings,
			      snapshot->warning_count);
	snap_html_put_tree(html, snapshot);
	return NULL;
}

static struct stacksnap_error *put_snapshot_text(const void *what,
						 const struct snap_options *options, FILE *out)
{
	return snap_render_text(what, options, out);
}

struct stacksnap_error *snap_render_html(const struct snap_snapshot *snapshot,
					 const struct snap_options *options, FILE *out)
{
	_cleanup_free_ char *title =
		title_of(&snapshot->host, snapshot->root_count ? snapshot->processes[0] : NULL,
			 snapshot->root_count, snapshot->time_ns);
	struct snap_html_page page = {
		.title = title,
		.put_text = put_snapshot_text,
		.put_data = put_snapshot,
		.what = snapshot,
	};

	return title ? snap_html_put_page(&page, options, out) : snap_error_no_memory();
}

/* ---- recordings ---- */

static void put_html_figures(struct snap_html *html, const struct snap_recording *recording)
{
	char text[SNAP_WHEN_SIZE];

	if (recording->is_slice) {
		snap_when_length(recording->duration_ns, text);
		snap_html_put_fact(html, "This slice", text);
	}
	for (unsigned i = 0; i < SNAP_FIGURE_COUNT; i++) {
		if (snap_figure_is_reported(&recording->stats, i))
			snap_html_put_fact(html, snap_figure_label(i),
					   snap_figure_text(&recording->stats, i, text));
	}
	snap_html_put_fact(html, "Ended by", snap_recording_end_word(recording->end));
}

static struct stacksnap_error *put_recording(const void *what, struct snap_html *html)
{
	_cleanup_(snap_circles_deinit) struct snap_circles circles;
	const struct snap_recording *recording = what;

	SNAP_TRY(snap_circles_init(&circles, recording, html->options));
	snap_html_put_kind(html, "recording");
	snap_html_begin_facts(html);
	snap_html_put_host(html, &recording->host, recording->time_ns);
	put_html_figures(html, recording);
	snap_json_end(html->json, ']');
	snap_json_true_if(html->json, "cpu_only", recording->cpu_only);
	snap_html_put_missing(html, &recording->missing, recording->warnings,
			      recording->warning_count);
	snap_html_put_waits(html, &circles.waits);
	return snap_html_put_timeline(html, recording);
}

static struct stacksnap_error *put_recording_text(const void *what,
						  const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_limited_deinit) struct snap_limited limited = { 0 };

	/* What fits into tables may be too much where each group has all of its frames. */
	SNAP_TRY(snap_limited_init(&limited, what, options, SNAP_FRAMES_IN_TEXT));
	return snap_render_text_recording(&limited.recording, options, out);
}

struct stacksnap_error *snap_render_html_recording(const struct snap_recording *recording,
						   const struct snap_options *options, FILE *out)
{
	size_t roots = 0;
	const struct snap_node *first = NULL;
	_cleanup_free_ char *title = NULL;
	struct snap_html_page page = {
		.put_text = put_recording_text,
		.put_data = put_recording,
		.what = recording,
	};

	for (size_t i = 0; i < recording->process_count; i++) {
		if (recording->processes[i].parent != SIZE_MAX)
			continue;
		if (roots++ == 0)
			first = recording->processes[i].node;
	}
	title = title_of(&recording->host, first, roots, recording->time_ns);
	page.title = title;
	return title ? snap_html_put_page(&page, options, out) : snap_error_no_memory();
}
