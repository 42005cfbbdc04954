/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups that changed, and those of threads that are stuck, as text: see parts.h. */
#include "render/diff/parts.h"

#include "render/view/elide.h"
#include "render/view/own.h"

#include <inttypes.h>
#include <string.h>

/* "12", "0.31": thousandths. */
static void add_count(struct snap_sheet *lines, uint64_t count)
{
	if (count % SNAP_DIFF_THREAD)
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%.2f", (double)count / SNAP_DIFF_THREAD);
	else
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%" PRIu64, count / SNAP_DIFF_THREAD);
}

/* "3 × ", "12 → 40 × " */
static void add_counts(struct snap_diff_text *text, const struct snap_diff_group *group)
{
	struct snap_sheet *lines = &text->lines;

	snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
	if (group->change != SNAP_CHANGE_APPEARED)
		add_count(lines, group->before);
	if (group->before && group->after)
		snap_line_add(lines, SNAP_STYLE_PLAIN, text->options->utf8 ? " → " : " -> ");
	if (group->change != SNAP_CHANGE_WENT)
		add_count(lines, group->after);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
}

/* In one line: the function that its reader wrote. */
static void add_function(struct snap_diff_text *text, const struct snap_stack *stack)
{
	struct snap_sheet *lines = &text->lines;
	size_t entry;
	const struct snap_frame *frame = snap_own_frame(stack->frames, stack->frame_count, &entry);
	const char *name = frame ? frame->entries[entry].function : stack->description;
	_cleanup_free_ char *brief =
		snap_short_name(text->options, text->options->utf8, name ? name : "?");

	lines->failed |= !brief;
	snap_line_stop(lines, SNAP_STOP_FUNCTION, 3);
	snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, brief ? brief : "");
	if (frame && frame->trust != SNAP_TRUST_CFI)
		snap_line_add(lines, SNAP_STYLE_CYAN, " [?]");
}

/* "orderd[1234]", "orderd in 3 processes" */
static char *owner_of_group(struct snap_sheet *lines, const struct snap_node *node,
			    size_t processes)
{
	const char *name = snap_sheet_escape(lines, node->name ? node->name : "?");
	char *owner;

	if ((processes == 1 ? asprintf(&owner, "%s[%d]", name, node->pid)
			    : asprintf(&owner, "%s in %zu processes", name, processes)) >= 0)
		return owner;
	lines->failed = true;
	return NULL;
}

static void end_title(struct snap_diff_text *text, const struct snap_stack *stack, char *right)
{
	snap_text_stack_who(&text->stacks, stack);
	if (text->options->summary)
		add_function(text, stack);
	snap_line_end(&text->lines, SNAP_STYLE_DIM, right);
	if (!text->options->summary)
		snap_text_stack_frames(&text->stacks, stack);
	/* Frames are a process's own. */
	snap_text_stacks_clear(&text->stacks);
}

static void put_diff_group(struct snap_diff_text *text, const struct snap_diff_group *group)
{
	_cleanup_free_ char *owner =
		owner_of_group(&text->lines, group->node, group->process_count);

	snap_line_begin(&text->lines);
	add_counts(text, group);
	end_title(text, group->stack, owner);
}

void snap_diff_text_groups(struct snap_diff_text *text)
{
	static const enum snap_style styles[SNAP_CHANGE_COUNT] = {
		[SNAP_CHANGE_APPEARED] = SNAP_STYLE_GREEN,
		[SNAP_CHANGE_GREW] = SNAP_STYLE_YELLOW,
		[SNAP_CHANGE_SHRANK] = SNAP_STYLE_YELLOW,
		[SNAP_CHANGE_WENT] = SNAP_STYLE_MAGENTA,
	};
	const struct snap_diff *diff = text->diff;

	for (size_t i = 0; i < diff->group_count && !text->lines.failed; i++) {
		const struct snap_diff_group *group = &diff->groups[i];

		if (i == 0 || group->change != group[-1].change)
			snap_diff_text_heading(text, styles[group->change],
					       snap_change_word(group->change));
		else if (!text->options->summary)
			snap_line_blank(&text->lines);
		put_diff_group(text, group);
	}
}

/* How many from `first` on are of one group. */
static size_t count_alike(const struct snap_diff *diff, size_t first)
{
	size_t end = first + 1;

	while (end < diff->stuck_count && diff->stuck[end].stack == diff->stuck[first].stack)
		end++;
	return end - first;
}

/* "orderd[1234]  tids 1240-1243"; NULL without memory. */
static char *whose(struct snap_diff_text *text, const struct snap_diff_stuck *first, size_t count)
{
	_cleanup_free_ char *owner = owner_of_group(&text->lines, first->node, 1);
	_cleanup_free_ pid_t *tids = calloc(count, sizeof(*tids));
	char ranges[256], *out;

	if (!owner || !tids)
		return NULL;
	for (size_t i = 0; i < count; i++)
		tids[i] = first[i].thread->tid;
	snap_text_ranges("tid", tids, sizeof(*tids), count, SNAP_MOST_RANGES / 2, ranges,
			 sizeof(ranges));
	return asprintf(&out, "%s  %s", owner, ranges) < 0 ? NULL : out;
}

static void put_stuck_threads(struct snap_diff_text *text, const struct snap_diff_stuck *first,
			      size_t count)
{
	_cleanup_free_ char *right = whose(text, first, count);
	struct snap_sheet *lines = &text->lines;

	lines->failed |= !right;
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_BOLD, "  %zu", count);
	if (count < first->stack->count)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " of %zu", first->stack->count);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
	end_title(text, first->stack, right);
}

void snap_diff_text_stuck(struct snap_diff_text *text)
{
	const struct snap_diff *diff = text->diff;

	if (diff->stuck_count)
		snap_diff_text_heading(text, SNAP_STYLE_RED_BOLD,
				       "stuck: blocked in the same stack, and not run in between");
	for (size_t i = 0; i < diff->stuck_count && !text->lines.failed;) {
		size_t count = count_alike(diff, i);

		if (i && !text->options->summary)
			snap_line_blank(&text->lines);
		put_stuck_threads(text, &diff->stuck[i], count);
		i += count;
	}
}

void snap_diff_text_survey(struct snap_diff_text *text)
{
	const struct snap_diff *diff = text->diff;

	for (size_t i = 0; i < diff->group_count; i++)
		snap_text_stacks_survey(&text->stacks, diff->groups[i].stack);
	for (size_t i = 0; i < diff->stuck_count; i += count_alike(diff, i))
		snap_text_stacks_survey(&text->stacks, diff->stuck[i].stack);
}
