/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A diff as text, see diff.h: what both were, what to mind, processes, groups, what is stuck,
 * functions.
 */
#include "render/diff/diff.h"

#include "base/text.h"
#include "render/diff/parts.h"
#include "render/text/node.h"
#include "render/view/elide.h"
#include "render/view/when.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_FUNCTIONS = 20 /* of those that run, and of those that wait; -v: all */ };

static const char *arrow(const struct snap_diff_text *text)
{
	return text->options->utf8 ? "→" : "->";
}

void snap_diff_text_heading(struct snap_diff_text *text, enum snap_style style, const char *word)
{
	snap_line_blank(&text->lines);
	snap_line_begin(&text->lines);
	snap_line_add(&text->lines, style, word);
	snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
}

/* ---- the head ---- */

static void add_host(struct snap_sheet *lines, const struct snap_diff_side *side)
{
	char when[SNAP_WHEN_SIZE];

	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, side->host.name ? side->host.name : "?");
	if (!side->time_ns)
		return;
	snap_when(side->time_ns, ' ', 3, when);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %s", when);
}

static void add_kind(struct snap_sheet *lines, const struct snap_diff_side *side)
{
	char length[SNAP_WHEN_SIZE];

	if (!side->ticks)
		return;
	snap_when_length(side->duration_ns, length);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "   recorded %s, %" PRIu64 " sample%s", length,
			 side->samples, side->samples == 1 ? "" : "s");
}

static void put_side_line(struct snap_diff_text *text, const char *word,
			  const struct snap_diff_side *side)
{
	struct snap_sheet *lines = &text->lines;

	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_DIM, word);
	add_host(lines, side);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "   %zu process%s, %zu thread%s",
			 side->process_count, side->process_count == 1 ? "" : "es",
			 side->thread_count, side->thread_count == 1 ? "" : "s");
	if (side->task_count)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu task%s", side->task_count,
				 side->task_count == 1 ? "" : "s");
	snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu stack%s", side->stack_count,
			 side->stack_count == 1 ? "" : "s");
	add_kind(lines, side);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_verdict(struct snap_diff_text *text)
{
	const struct snap_diff *diff = text->diff;
	struct snap_sheet *lines = &text->lines;
	int64_t later;
	char length[SNAP_WHEN_SIZE];

	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_DIM, "       ");
	if (diff->same_boot && diff->before.time_ns &&
	    !__builtin_sub_overflow(diff->after.time_ns, diff->before.time_ns, &later) &&
	    later > 0) {
		snap_when_length(later, length);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s later: ", length);
	}
	if (snap_diff_differs(diff))
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%zu group%s changed, %zu did not",
				 diff->group_count, diff->group_count == 1 ? "" : "s",
				 diff->same_count);
	else
		snap_line_add(lines, SNAP_STYLE_BOLD, "nothing changed");
	if (diff->stuck_count)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu thread%s stuck", diff->stuck_count,
				 diff->stuck_count == 1 ? " is" : "s are");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_warnings(struct snap_diff_text *text)
{
	for (size_t i = 0; i < text->diff->warning_count; i++) {
		snap_line_begin(&text->lines);
		snap_line_add(&text->lines, SNAP_STYLE_YELLOW, "note   ");
		snap_line_add_escaped(&text->lines, SNAP_STYLE_PLAIN,
				      text->diff->warnings[i].message);
		snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
	}
}

/* ---- processes ---- */

static void put_process_lines(struct snap_diff_text *text)
{
	const struct snap_diff *diff = text->diff;
	struct snap_sheet *lines = &text->lines;

	if (diff->process_count)
		snap_line_blank(lines);
	for (size_t i = 0; i < diff->process_count && !lines->failed; i++) {
		const struct snap_node *node = diff->processes[i].node;
		_cleanup_free_ char *description =
			strdup(snap_sheet_escape(lines, node->description ?: ""));

		lines->failed |= !description;
		snap_line_begin(lines);
		if (diff->processes[i].came)
			snap_line_add(lines, SNAP_STYLE_GREEN, "came   ");
		else
			snap_line_add(lines, SNAP_STYLE_MAGENTA, "went   ");
		snap_text_node_name(lines, node);
		if (description && lines->width > lines->column + 8)
			snap_elide_end(description, lines->width - lines->column,
				       lines->signs->dots);
		snap_line_end(lines, SNAP_STYLE_PLAIN, description);
	}
}

/* ---- functions ---- */

static double percent(uint32_t share)
{
	return 100.0 * share / SNAP_DIFF_WHOLE;
}

/* " 12.0 % → 55.0 %   (itself  0.0 % → 50.0 %)   compute" and the module. */
static void put_function(struct snap_diff_text *text, const struct snap_diff_function *function)
{
	struct snap_sheet *lines = &text->lines;
	_cleanup_free_ char *module =
		function->module
			? strdup(snap_sheet_escape(lines, snap_base_name(function->module)))
			: NULL;

	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%5.1f %% %s %5.1f %%", percent(function->before),
			 arrow(text), percent(function->after));
	snap_line_printf(lines, SNAP_STYLE_DIM, "   (itself %5.1f %% %s %5.1f %%)   ",
			 percent(function->before_self), arrow(text),
			 percent(function->after_self));
	snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, function->name);
	snap_line_add(lines, SNAP_STYLE_CYAN, function->guessed ? " [?]" : "");
	snap_line_end(lines, SNAP_STYLE_DIM, module);
}

static void put_function_lines(struct snap_diff_text *text)
{
	const struct snap_diff *diff = text->diff;
	size_t shown = 0, left = 0;

	for (size_t i = 0; i < diff->function_count; i++) {
		const struct snap_diff_function *function = &diff->functions[i];

		if (i == 0 || function->running != function[-1].running) {
			snap_diff_text_heading(text, SNAP_STYLE_YELLOW,
					       function->running
						       ? "functions, of the samples that ran"
						       : "functions, of the samples that waited");
			shown = 0;
		}
		if (shown++ < MOST_FUNCTIONS || text->options->verbose)
			put_function(text, function);
		else
			left++;
	}
	if (!left)
		return;
	snap_line_begin(&text->lines);
	snap_line_printf(&text->lines, SNAP_STYLE_DIM, "and %zu more (-v)", left);
	snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
}

/* ---- all of it ---- */

static void put_body(void *context)
{
	struct snap_diff_text *text = context;

	put_process_lines(text);
	snap_diff_text_groups(text);
	snap_diff_text_stuck(text);
	put_function_lines(text);
}

static void diff_text_deinit(struct snap_diff_text *text)
{
	snap_text_stacks_deinit(&text->stacks);
	snap_sheet_deinit(&text->lines);
}

/* All but the head is gone through twice or more: see line.h. */
static void put_measured(struct snap_diff_text *text)
{
	snap_diff_text_survey(text);
	snap_text_stacks_put_measured(&text->stacks, put_body, text);
}

struct stacksnap_error *snap_render_diff_text(const struct snap_diff *diff,
					      const struct snap_options *options, FILE *out)
{
	_cleanup_(diff_text_deinit) struct snap_diff_text text = { .diff = diff,
								   .options = options };

	snap_sheet_init(&text.lines, options, out);
	text.stacks.lines = &text.lines;
	text.stacks.options = options;
	text.stacks.count_width = 1;
	text.stacks.name_width = text.lines.widest_column - 8;
	put_side_line(&text, "before ", &diff->before);
	put_side_line(&text, "after  ", &diff->after);
	put_verdict(&text);
	put_warnings(&text);
	put_measured(&text);
	SNAP_TRY(snap_no_memory_unless(!text.lines.failed));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
