/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The text report: head, tree of processes, and the two other views of it
 * (--flat, --summary). A recording is a snapshot whose stacks have samples, between its figures
 * and what its threads waited for.
 * Lines are line.c, processes node.c, stacks stack.c, what follows them notes.c. All is gone through
 * twice, to find the column of the right parts and to write.
 */
#include "base/text.h"
#include "base/bsearch.h"
#include "render/render.h"
#include "render/summary.h"
#include "render/text/node.h"
#include "render/text/notes.h"
#include "render/text/stack.h"
#include "render/text/stack/lock_numbers.h"
#include "render/text/task.h"
#include "render/text/top.h"
#include "render/text/tree.h"
#include "render/view/fold/fold.h"
#include "render/view/recorded/groups.h"
#include "render/view/together.h"
#include "render/view/walk.h"
#include "render/wait/table.h"

#include <errno.h>
#include <string.h>

struct text {
	const struct snap_snapshot *snapshot; /* a view, in which what is alike is folded */
	const struct snap_options *options;
	const struct snap_together *together; /* with groups of all processes, or NULL */
	struct snap_folds rest;               /* then: processes that have none */
	const struct snap_idle *hidden;       /* NULL: not said */
	size_t groups_left, processes_left;   /* out, as a terminal has only so many lines */
	struct snap_text_notes notes;
	struct snap_lock_numbers locks;
	struct snap_sheet lines;
	struct snap_text_stacks stacks;
};

static void report_text_deinit(struct text *text)
{
	snap_text_stacks_deinit(&text->stacks);
	snap_folds_deinit(&text->rest);
	snap_lock_numbers_deinit(&text->locks);
	snap_sheet_deinit(&text->lines);
}

/* What follows is counted alone: groups, or a process that has none. */
static bool leave_out(struct text *text, size_t groups)
{
	if (!text->options->group_lines || text->lines.written < text->options->group_lines)
		return false;
	text->groups_left += groups;
	text->processes_left += groups == 0;
	return true;
}

/* Stacks of a process begin: their counts are aligned, their frames are its own. */
static void enter_stacks(struct text *text, const struct snap_stack *stacks, size_t count)
{
	struct snap_sheet *lines = &text->lines;
	size_t rails = 2 * (lines->depth < SNAP_DEEPEST_RAILS ? lines->depth : SNAP_DEEPEST_RAILS);
	enum { INDENT = 8, NARROWEST = 16, IN_A_CHAIN = 40 };

	snap_text_stacks_clear(&text->stacks);
	if (!text->options->summary) {
		text->stacks.count_width = count ? snap_count_digits(stacks[0].count) : 1;
		text->stacks.samples_width = count ? snap_count_digits(stacks[0].samples) : 1;
	}
	text->stacks.name_width = lines->widest_column > rails + INDENT + NARROWEST
					  ? lines->widest_column - rails - INDENT
					  : NARROWEST;
	if (text->options->summary)
		text->stacks.name_width = SNAP_MIN(text->stacks.name_width, IN_A_CHAIN);
}

/* Stacks of a recording that hardly count share one line. Returns how many have lines of their own. */
static size_t worth_showing(const struct text *text, const struct snap_stack *stacks, size_t all)
{
	enum { SMALLEST_SHARE = 1000 };
	size_t count = all;

	if (!text->stacks.samples || text->options->verbose)
		return count;
	while (count && stacks[count - 1].samples < text->stacks.samples / SMALLEST_SHARE)
		count--;
	return all - count > 1 ? count : all;
}

/* How many stacks are not shown, on a line that has been begun. */
static void end_others(struct text *text, const struct snap_stack *stacks, size_t shown, size_t all)
{
	struct snap_sheet *lines = &text->lines;
	uint64_t samples = 0;

	for (size_t i = shown; i < all; i++)
		samples += stacks[i].samples;
	snap_text_share(lines, samples, text->stacks.samples, text->stacks.samples_width);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu other stacks (-v)", all - shown);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_others(struct text *text, const struct snap_node *node, size_t shown)
{
	if (shown && !text->options->summary)
		snap_line_blank(&text->lines);
	snap_line_begin_item(&text->lines, node->child_count == 0);
	end_others(text, node->stacks, shown, node->stack_count);
}

static int compare_shown(const void *left, const void *right)
{
	const struct snap_stack *const *a = left, *const *b = right;

	return snap_stack_compare_urgency(*a, *b) ?: strcmp((*a)->id, (*b)->id);
}

/* The urgent ones first, malloc'ed; NULL without memory. */
static const struct snap_stack **order_stacks(const struct snap_stack *stacks, size_t count)
{
	const struct snap_stack **ordered = malloc((count + 1) * sizeof(*ordered));

	for (size_t i = 0; ordered && i < count; i++)
		ordered[i] = &stacks[i];
	if (ordered)
		qsort(ordered, count, sizeof(*ordered), compare_shown);
	return ordered;
}

/* Stacks, the level of whose items has been pushed; `more`: others follow on it. */
static void put_report_stacks(struct text *text, const struct snap_stack *stacks, size_t count,
			      bool more)
{
	_cleanup_free_ const struct snap_stack **ordered = order_stacks(stacks, count);
	struct snap_sheet *lines = &text->lines;

	lines->failed |= !ordered;
	enter_stacks(text, stacks, count);
	for (size_t i = 0; i < count && !lines->failed && !leave_out(text, count - i); i++) {
		if (i && !text->options->summary)
			snap_line_blank(lines);
		snap_line_begin_item(lines, i + 1 == count && !more);
		if (text->options->summary) {
			snap_text_stack_summary(&text->stacks, ordered[i], NULL);
		} else {
			snap_text_stack_title(&text->stacks, ordered[i], NULL);
			snap_text_stack_frames(&text->stacks, ordered[i]);
		}
	}
}

/*
 * malloc'ed: the number of the logical process behind each one and all that is below it. NULL
 * without memory.
 */
static size_t *ends_of_branches(const struct snap_alikes *alikes)
{
	size_t *ends = malloc((alikes->count + 1) * sizeof(*ends));

	for (size_t i = alikes->count; ends && i-- > 0;) {
		ends[i] = i + 1;
		while (ends[i] < alikes->count &&
		       alikes->items[ends[i]].logical.depth > alikes->items[i].logical.depth)
			ends[i] = ends[ends[i]];
	}
	return ends;
}

/* Whether a line of the tree above it asks for an empty one between: not a mere title. */
static bool has_above(const struct snap_node *node, const struct snap_alike *alike, bool first)
{
	const struct snap_logical *before = first ? NULL : &alike[-1].logical;

	if (!before)
		return node->stack_count || snap_text_has_rest(node);
	return before->depth >= alike->logical.depth || before->stack_count;
}

/* Equal tasks that others await: their stack stands in place of a title. */
static void put_awaited(struct text *text, const struct snap_logical *logical, bool has_below)
{
	enter_stacks(text, logical->stacks, 1);
	if (text->options->summary) {
		snap_text_stack_summary(&text->stacks, logical->stacks, NULL);
		snap_sheet_push(&text->lines, has_below);
		return;
	}
	snap_text_stack_title(&text->stacks, logical->stacks, NULL);
	snap_sheet_push(&text->lines, has_below);
	snap_text_stack_frames(&text->stacks, logical->stacks);
}

/* Logical processes, the level of whose roots has been pushed. */
static void put_logical(struct text *text, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;
	_cleanup_(snap_alikes_deinit) struct snap_alikes alikes = { .count = 0 };
	bool made = snap_alikes_init(&alikes, node, text->options);
	_cleanup_free_ size_t *ends = made ? ends_of_branches(&alikes) : NULL;
	uint32_t open = 0;

	lines->failed = lines->failed || !ends;
	for (size_t i = 0; i < alikes.count && !lines->failed; i++) {
		const struct snap_logical *logical = &alikes.items[i].logical;
		size_t end = ends[i];
		bool has_below = end > i + 1,
		     last = end == alikes.count || alikes.items[end].logical.depth < logical->depth;

		if (leave_out(text, logical->stack_count))
			continue;
		for (; open > logical->depth; open--)
			snap_sheet_pop(lines);
		if (!text->options->summary && has_above(node, &alikes.items[i], i == 0))
			snap_line_blank(lines);
		snap_line_begin_item(lines, last && (logical->depth || !node->child_count));
		open++;
		if (logical->type == SNAP_LOGICAL_TASK && logical->stack_count == 1) {
			put_awaited(text, logical, has_below);
			continue;
		}
		snap_text_logical_title(lines, &alikes.items[i]);
		snap_sheet_push(lines, logical->stack_count || has_below);
		put_report_stacks(text, logical->stacks, logical->stack_count, has_below);
	}
	for (; open; open--)
		snap_sheet_pop(lines);
}

/* All stacks of a process as one tree, the level of whose items has been pushed. */
static void put_calls(struct text *text, const struct snap_node *node)
{
	_cleanup_(snap_call_tree_deinit) struct snap_call_tree tree;
	bool has_rest = snap_text_has_rest(node);

	enter_stacks(text, NULL, 0);
	if (snap_call_tree_init(&tree, node, text->options))
		snap_text_tree(&text->stacks, &tree, has_rest || node->child_count);
	else
		text->lines.failed = true;
	if (!has_rest)
		return;
	snap_line_begin_item(&text->lines, !node->child_count);
	snap_text_rest(&text->lines, node);
}

/* All that a process has, the level of whose items has been pushed. */
static void put_items(struct text *text, const struct snap_node *node)
{
	bool has_rest = snap_text_has_rest(node), others = node->logical_count || node->child_count;
	size_t count = worth_showing(text, node->stacks, node->stack_count);

	if (text->options->call_tree) {
		put_calls(text, node);
		return;
	}
	put_report_stacks(text, node->stacks, count,
			  has_rest || others || count < node->stack_count);
	if (count < node->stack_count)
		put_others(text, node, count);
	if (has_rest) {
		if (count && !text->options->summary)
			snap_line_blank(&text->lines);
		snap_line_begin_item(&text->lines, !others);
		snap_text_rest(&text->lines, node);
	}
	put_logical(text, node);
}

/* A process up to and with its stacks; the level of its items stays pushed. */
static void enter_node(struct text *text, const struct snap_walk_step *step)
{
	struct snap_sheet *lines = &text->lines;
	const struct snap_node *node = step->node, *parent = step->parent;

	if ((parent && snap_text_is_counted_alone(parent) && snap_text_is_counted_alone(node)) ||
	    leave_out(text, snap_node_stack_count(node))) {
		snap_sheet_push(lines, false);
		return;
	}
	if (!parent || (!text->options->summary &&
			(!step->first || parent->stack_count || parent->logical_count)))
		snap_line_blank(lines);
	if (parent)
		snap_line_begin_item(lines, step->last);
	else
		snap_line_begin(lines);
	snap_text_node_title(lines, node);
	snap_sheet_push(lines, snap_text_has_items(node));
	snap_text_node_facts(lines, text->options, text->snapshot, node, parent);
	put_items(text, node);
}

static void put_report_tree(struct text *text)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, text->snapshot);
	while (!text->lines.failed && snap_walk_next(&walk, &step)) {
		if (step.leave)
			snap_sheet_pop(&text->lines);
		else
			enter_node(text, &step);
	}
	text->lines.failed = text->lines.failed || walk.failed;
}

/* A stack and whose it is, for --flat. */
struct owned {
	struct snap_text_owner by;
	const struct snap_stack *stack;
};

SNAP_ORDER(compare_owned, struct owned, a, b, snap_stack_compare_urgency(a->stack, b->stack),
	   snap_compare(a->by.node->pid, b->by.node->pid), strcmp(a->stack->id, b->stack->id));

static void put_block(struct text *text, const struct owned *block, const struct owned *widest)
{
	struct snap_sheet *lines = &text->lines;

	enter_stacks(text, NULL, 0);
	text->stacks.count_width = snap_count_digits(widest->stack->count);
	text->stacks.samples_width = snap_count_digits(widest->stack->samples);
	if (!text->options->summary)
		snap_line_blank(lines);
	snap_line_begin(lines);
	if (text->options->summary) {
		snap_text_stack_summary(&text->stacks, block->stack, &block->by);
		return;
	}
	snap_text_stack_title(&text->stacks, block->stack, &block->by);
	snap_text_stack_frames(&text->stacks, block->stack);
}

static void put_calls_together(struct text *text)
{
	_cleanup_(snap_call_tree_deinit) struct snap_call_tree tree;

	enter_stacks(text, NULL, 0);
	if (!snap_call_tree_init_of(&tree, text->together->stacks, text->together->stack_count,
				    text->options)) {
		text->lines.failed = true;
		return;
	}
	snap_line_blank(&text->lines);
	snap_sheet_push(&text->lines, true);
	snap_text_tree(&text->stacks, &tree, false);
	snap_sheet_pop(&text->lines);
}

static void put_without_stacks(struct text *text, const struct snap_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->root_count && !text->lines.failed; i++) {
		if (snap_node_stack_count(snapshot->processes[i]) || leave_out(text, 0))
			continue;
		snap_line_blank(&text->lines);
		snap_line_begin(&text->lines);
		snap_text_node_title(&text->lines, snapshot->processes[i]);
		snap_text_node_trouble(&text->lines, snapshot->processes[i]);
	}
}

/* Groups of all processes: a block each, then the processes that have none, folded. */
static void put_together(struct text *text)
{
	const struct snap_together *together = text->together;
	size_t count = worth_showing(text, together->stacks, together->stack_count);
	_cleanup_free_ const struct snap_stack **ordered = order_stacks(together->stacks, count);
	struct snap_sheet *lines = &text->lines;

	if (text->options->summary && count)
		snap_line_blank(lines);
	if (text->options->call_tree) {
		put_calls_together(text);
		count = together->stack_count;
	}
	lines->failed |= !ordered;
	for (size_t i = 0; !text->options->call_tree && i < count && !lines->failed &&
			   !leave_out(text, count - i);
	     i++)
		put_block(text, &(struct owned){ { NULL, NULL }, ordered[i] },
			  &(struct owned){ { NULL, NULL }, &together->stacks[0] });
	if (count < together->stack_count) {
		if (!text->options->summary)
			snap_line_blank(lines);
		snap_line_begin(lines);
		end_others(text, together->stacks, count, together->stack_count);
	}
	put_without_stacks(text, &text->rest.snapshot);
}

/* --flat: a block a stack, whatever the process, then the processes that have none to show. */
static void put_flat(struct text *text)
{
	const struct snap_snapshot *snapshot = text->snapshot;
	_cleanup_free_ struct owned *blocks = malloc((snapshot->stack_count + 1) * sizeof(*blocks));
	size_t count = 0, widest = 0;

	for (size_t i = 0; blocks && i < snapshot->root_count; i++) {
		const struct snap_node *node = snapshot->processes[i];
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while (count < snapshot->stack_count &&
		       (stack = snap_node_next_stack(node, &cursor)))
			blocks[count++] =
				(struct owned){ { node, cursor.logical
								? &node->logical[cursor.logical - 1]
								: NULL },
						stack };
	}
	if (!blocks) {
		text->lines.failed = true;
		return;
	}
	qsort(blocks, count, sizeof(*blocks), compare_owned);
	if (text->options->summary && count)
		snap_line_blank(&text->lines);
	for (size_t i = 1; i < count; i++)
		if (snap_stack_compare_weight(blocks[i].stack, blocks[widest].stack) < 0)
			widest = i;
	for (size_t i = 0; i < count && !text->lines.failed && !leave_out(text, count - i); i++)
		put_block(text, &blocks[i], &blocks[widest]);
	put_without_stacks(text, snapshot);
}

static void put_body(void *context)
{
	struct text *text = context;
	const struct snap_snapshot *snapshot = text->snapshot;

	if (text->together)
		put_together(text);
	else if (snapshot->flat && !text->options->call_tree)
		put_flat(text);
	else
		put_report_tree(text);
	snap_text_put_left_out(&text->lines, text->groups_left, text->processes_left);
	snap_text_stacks_clear(&text->stacks);
	if (snapshot->stack_count == 0 && snap_text_is_filtered(text->options)) {
		snap_line_blank(&text->lines);
		snap_line_begin(&text->lines);
		snap_line_add(&text->lines, SNAP_STYLE_PLAIN, "no stacks match");
		snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
	}
}

/* The largest count of what tasks are shown in. */
static size_t most_alike(struct text *text, const struct snap_node *node)
{
	_cleanup_(snap_alikes_deinit) struct snap_alikes alikes = { .count = 0 };
	size_t most = 0;

	if (node->logical_count && !snap_alikes_init(&alikes, node, text->options))
		text->lines.failed = true;
	for (size_t i = 0; i < alikes.count; i++)
		for (size_t k = 0; k < alikes.items[i].logical.stack_count; k++)
			most = SNAP_MAX(most, alikes.items[i].logical.stacks[k].count);
	return most;
}

static void survey_stack(struct text *text, const struct snap_stack *stack)
{
	snap_text_stacks_survey(&text->stacks, stack);
	snap_text_notes_take(&text->notes, text->options, stack);
}

/* What stacks that will be shown have in common; in a summary counts of all line up. */
static void survey_stacks(struct text *text)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_text_stacks *stacks = &text->stacks;
	size_t most_count = 1;
	uint64_t most_samples = 1;
	struct snap_walk_step step;

	for (size_t i = 0; text->together && i < text->together->stack_count; i++) {
		const struct snap_stack *stack = &text->together->stacks[i];

		most_count = stack->count > most_count ? stack->count : most_count;
		most_samples = stack->samples > most_samples ? stack->samples : most_samples;
		survey_stack(text, stack);
	}
	snap_walk_init(&walk, text->snapshot);
	while (!text->lines.failed && snap_walk_next(&walk, &step)) {
		const struct snap_node *node = step.node;
		size_t count = text->snapshot->flat
				       ? node->stack_count
				       : worth_showing(text, node->stacks, node->stack_count);
		size_t alike = text->snapshot->flat || step.leave ? 0 : most_alike(text, node);
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		most_count = alike > most_count ? alike : most_count;
		/* Those that are left out are the last ones of a recording, which has no tasks. */
		for (size_t i = 0; !step.leave && (stack = snap_node_next_stack(node, &cursor));
		     i++) {
			if (i >= count && i < node->stack_count)
				continue;
			most_count = stack->count > most_count ? stack->count : most_count;
			most_samples =
				stack->samples > most_samples ? stack->samples : most_samples;
			survey_stack(text, stack);
		}
	}
	stacks->count_width = snap_count_digits(most_count);
	stacks->samples_width = snap_count_digits(most_samples);
	text->lines.failed = text->lines.failed || walk.failed;
}

static struct stacksnap_error *put_result(const struct text *text, FILE *out)
{
	SNAP_TRY(snap_no_memory_unless(!text->lines.failed));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}

/* The tree is gone through twice or more: see line.h. */
static struct stacksnap_error *put_measured(struct text *text, FILE *out)
{
	survey_stacks(text);
	snap_text_stacks_put_measured(&text->stacks, put_body, text);
	if (text->hidden)
		snap_text_put_idle(&text->lines, text->hidden, text->snapshot->waits.lacks);
	snap_text_notes_put(&text->notes, &text->lines, text->options);
	return put_result(text, out);
}

static void text_init(struct text *text, const struct snap_snapshot *snapshot,
		      const struct snap_options *options, FILE *out)
{
	*text = (struct text){ .snapshot = snapshot, .options = options };
	snap_sheet_init(&text->lines, options, out);
	text->stacks.lines = &text->lines;
	text->stacks.options = options;
	text->stacks.monotonic_ns = snapshot->monotonic_ns;
}

/* The groups of all processes as what is shown, if the options ask for that. */
static bool take_together(struct text *text, const struct snap_together *together)
{
	struct snap_snapshot rest = {
		.processes = together->empty,
		.root_count = together->empty_count,
	};

	if (!together->stacks)
		return true;
	text->together = together;
	text->snapshot = &together->snapshot;
	return snap_folds_init(&text->rest, &rest, text->options);
}

struct stacksnap_error *snap_render_text(const struct snap_snapshot *snapshot,
					 const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_together_deinit) struct snap_together together = { .empty = NULL };
	_cleanup_(snap_folds_deinit) struct snap_folds folds;
	_cleanup_(report_text_deinit) struct text text;
	bool folded = snap_folds_init(&folds, snapshot, options);

	text_init(&text, &folds.snapshot, options, out);
	text.lines.locks = &text.locks;
	if (!folded || !snap_lock_numbers_init(&text.locks, snapshot) ||
	    !snap_together_init(&together, snapshot, options) || !take_together(&text, &together))
		return snap_error_no_memory();
	if (options->deadlocks_only) {
		snap_text_top(&text.lines, options, snapshot);
		return put_result(&text, out);
	}
	text.hidden = &snapshot->idle;
	snap_text_head(&text.lines, options, together.stacks ? &together.snapshot : snapshot,
		       false);
	snap_text_top(&text.lines, options, snapshot);
	return put_measured(&text, out);
}

struct stacksnap_error *snap_render_text_recording(const struct snap_recording *recording,
						   const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_recorded_groups_deinit) struct snap_recorded_groups groups;
	_cleanup_(snap_together_deinit) struct snap_together together = { .empty = NULL };
	_cleanup_(report_text_deinit) struct text text = { 0 };

	SNAP_TRY(snap_recorded_groups_init(&groups, recording, options));
	text_init(&text, &groups.snapshot, options, out);
	SNAP_TRY(snap_no_memory_unless(snap_together_init(&together, &groups.snapshot, options) &&
				       take_together(&text, &together)));
	text.stacks.samples = groups.samples ? groups.samples : 1;
	snap_text_head(&text.lines, options, text.snapshot, false);
	SNAP_TRY(snap_render_figures(recording, options, out));
	SNAP_TRY(put_measured(&text, out));
	return snap_waited_put_table(&text.lines, options, recording);
}
