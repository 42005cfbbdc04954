/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The frames of a stack, and how it ended: see ../stack.h. */
#include "render/text/stack/parts.h"

#include "base/text.h"
#include "render/text/task.h"
#include "render/text/wait.h"

#include <inttypes.h>
#include <string.h>

enum {
	FRAME_INDENT = 8, /* where frames begin, unless counts are wide */
	LONGEST_TOP = 3,  /* system frames on top of a stack that are shown one by one */
};

static size_t frame_indent(const struct snap_text_stacks *stacks)
{
	size_t title = 3 + stacks->count_width + 3; /* "├─ 62 × " */

	return title > FRAME_INDENT && !stacks->samples ? title : FRAME_INDENT;
}

/* Begins a line at the column of frames; a level of rails is two columns already. */
static void begin_frame(struct snap_text_stacks *stacks, const char *sign)
{
	struct snap_sheet *lines = stacks->lines;
	size_t target;

	snap_line_begin(lines);
	target = lines->columns + frame_indent(stacks) - 2;
	snap_line_pad(lines, target - (sign ? 2 : 0));
	if (sign) {
		snap_line_add(lines, SNAP_STYLE_CYAN, sign);
		snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
	}
}

static void put_text_entry(struct snap_text_stacks *stacks, const struct snap_shown_entry *entry,
			   size_t times)
{
	struct snap_sheet *lines = stacks->lines;
	enum snap_style style = entry->system || entry->kernel ? SNAP_STYLE_DIM : SNAP_STYLE_PLAIN;

	begin_frame(stacks, entry->tail_call ? lines->signs->tail_call
			    : entry->inlined ? lines->signs->inlined
					     : snap_text_mark_guessed(stacks, entry->guessed));
	snap_line_add(lines, style, entry->name);
	if (times > 1)
		snap_line_printf(lines, SNAP_STYLE_BOLD, " %s %zu", lines->signs->times, times);
	snap_line_end(lines, SNAP_STYLE_DIM, entry->location);
}

/* What is inlined into a function of the system, and is system code itself, is its own affair. */
static void put_text_frame(struct snap_text_stacks *stacks, const struct snap_shown_frame *shown,
			   size_t times)
{
	const struct snap_shown_entry *last = &shown->entries[shown->count - 1];

	for (const struct snap_shown_entry *entry = shown->entries; entry <= last; entry++) {
		bool hidden = entry < last && entry->system && last->system;

		if (!hidden || stacks->options->verbose)
			put_text_entry(stacks, entry, entry == last ? times : 1);
	}
}

static bool is_own_frame(const struct snap_frame *frame)
{
	return snap_any(frame->entry_count, i,
			!frame->entries[i].system && !frame->entries[i].kernel);
}

static bool is_system_frame(const struct snap_frame *frame)
{
	return !is_own_frame(frame) && !frame->entries[0].kernel;
}

/* What was left out by -n stays between its neighbours. */
static bool is_before_gap(const struct snap_stack *stack, size_t frame)
{
	return stack->gap_count && frame == stack->gap_frame;
}

/* How many frames of the system stand together around `first`; `enough` or more is `enough`. */
static size_t count_together(const struct snap_stack *stack, size_t first, size_t enough)
{
	size_t begin = first, end = first;

	while (begin && first - begin < enough && is_system_frame(stack->frames[begin - 1]) &&
	       !is_before_gap(stack, begin - 1))
		begin--;
	while (end < stack->frame_count && end - begin < enough &&
	       is_system_frame(stack->frames[end])) {
		end++;
		if (is_before_gap(stack, end - 1))
			break;
	}
	return end - begin;
}

/*
 * From `first` on, how many frames fold into one line; 0: none. Its place is that of the first
 * one, so all are of one language.
 */
static size_t count_text_folded(const struct snap_text_stacks *stacks,
				const struct snap_stack *stack, size_t first, bool has_own,
				bool seen_own)
{
	size_t end = first + 1, enough = seen_own ? 2 : LONGEST_TOP + 1;
	const char *language = stack->frames[first]->entries->language;

	if (!has_own || stacks->options->verbose || count_together(stack, first, enough) < enough)
		return 0;
	while (end < stack->frame_count && !is_before_gap(stack, end - 1) &&
	       is_system_frame(stack->frames[end]) &&
	       snap_same_text(stack->frames[end]->entries->language, language))
		end++;
	return end - first > 1 ? end - first : 0;
}

/* Of code made at run time that no map names: its address says nothing. */
static bool is_unnamed(const struct snap_frame *frame)
{
	const struct snap_entry *entry = frame->entries;

	return !frame->module && !entry->language && !entry->function && !entry->symbol;
}

/* From `first` on, how many frames without names share one line; 0: none. */
static size_t count_unnamed(const struct snap_text_stacks *stacks, const struct snap_stack *stack,
			    size_t first)
{
	size_t end = first;

	while (!stacks->options->verbose && end < stack->frame_count &&
	       is_unnamed(stack->frames[end])) {
		end++;
		if (is_before_gap(stack, end - 1))
			break;
	}
	return end - first > 1 ? end - first : 0;
}

static bool is_guessed(const struct snap_stack *stack, size_t first, size_t count)
{
	return snap_any(count, i, stack->frames[first + i]->trust != SNAP_TRUST_CFI);
}

static bool put_folded(struct snap_text_stacks *stacks, const struct snap_stack *stack,
		       size_t first, size_t count)
{
	const struct snap_shown_frame *inner = snap_text_shown_frame(stacks, stack->frames[first]),
				      *outer = snap_text_shown_frame(
					      stacks, stack->frames[first + count - 1]);
	struct snap_sheet *lines = stacks->lines;
	const struct snap_shown_entry *last;

	if (!inner || !outer)
		return false;
	last = &outer->entries[outer->count - 1];
	begin_frame(stacks, snap_text_mark_guessed(stacks, is_guessed(stack, first, count)));
	if (is_unnamed(stack->frames[first])) {
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu frames of code without names",
				 count);
	} else {
		snap_line_add(lines, SNAP_STYLE_DIM, inner->entries[inner->count - 1].name);
		snap_line_printf(lines, SNAP_STYLE_DIM, " %s ", lines->signs->dots);
		snap_line_add(lines, SNAP_STYLE_DIM, last->name);
	}
	snap_line_end(lines, SNAP_STYLE_DIM, inner->entries[inner->count - 1].location);
	return true;
}

static bool look_equal(struct snap_text_stacks *stacks, const struct snap_frame *a,
		       const struct snap_frame *b)
{
	const struct snap_shown_frame *left, *right;

	if (a == b)
		return true;
	left = snap_text_shown_frame(stacks, a);
	right = snap_text_shown_frame(stacks, b);
	return left && right && snap_shown_frame_equal(left, right);
}

/*
 * How often frames from `first` on are repeated, *length_ret at a time; what was left out by -n
 * stays between its neighbours.
 */
static size_t count_text_times(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			       size_t first, size_t *length_ret)
{
	bool gap = stack->gap_count && stack->gap_frame >= first;
	size_t end = gap ? stack->gap_frame + 1 : stack->frame_count, at, length;

	for (length = 1; length <= SNAP_LONGEST_CYCLE; length++) {
		for (at = first + length; at < end; at++)
			if (!look_equal(stacks, stack->frames[at - length], stack->frames[at]))
				break;
		if (at >= first + snap_least_times(length) * length)
			break;
	}
	*length_ret = length <= SNAP_LONGEST_CYCLE ? length : 1;
	return length <= SNAP_LONGEST_CYCLE ? (at - first) / length : 1;
}

/* "(is_odd ← is_even) × 61": functions that call each other in turn. */
static void put_text_cycle(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			   size_t first, size_t length, size_t times)
{
	struct snap_sheet *lines = stacks->lines;
	const char *location = NULL;

	begin_frame(stacks, snap_text_mark_guessed(stacks, is_guessed(stack, first, length)));
	for (size_t i = first; i < first + length; i++) {
		const struct snap_shown_frame *shown =
			snap_text_shown_frame(stacks, stack->frames[i]);

		for (size_t k = 0; shown && k < shown->count; k++) {
			snap_line_add(lines, SNAP_STYLE_PLAIN, location ? " " : "(");
			if (location)
				snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s ",
						 lines->signs->arrow);
			snap_line_add(lines, SNAP_STYLE_PLAIN, shown->entries[k].name);
			location = location ? location : shown->entries[k].location;
		}
	}
	snap_line_printf(lines, SNAP_STYLE_BOLD, ") %s %zu", lines->signs->times, times);
	snap_line_end(lines, SNAP_STYLE_DIM, location);
}

static void put_gap(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	struct snap_sheet *lines = stacks->lines;

	begin_frame(stacks, NULL);
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%s %" PRIu64 " frames left out (-n) %s",
			 lines->signs->dots, stack->gap_count, lines->signs->dots);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* Frames of an interpreter, which stand among the machine's. */
static bool has_interpreted(const struct snap_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++) {
		const char *language = stack->frames[i]->entries->language;

		if (language && strcmp(language, "go") != 0)
			return true;
	}
	return false;
}

/* How the line about the end of a stack begins, which may have a place. */
static const char *end_word(const struct snap_stack *stack, bool has_place)
{
	switch (stack->unwind) {
	case SNAP_UNWIND_NOT_STOPPED:
		return "(not stopped";
	case SNAP_UNWIND_COMPLETE:
		return "(complete";
	case SNAP_UNWIND_SCANNED:
		return "(complete, in part by scanning the stack";
	case SNAP_UNWIND_GUESSED:
		return "(complete, in part by frame pointers";
	default:
		/* What is missing are frames of the interpreter, wherever the machine's end. */
		return !has_place && has_interpreted(stack) ? "(not whole" : "(stack ends here";
	}
}

/* "order-helper+0x5000: no unwind information" -> "no unwind information at order-helper+0x5000" */
static void put_end(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	const char *detail = stack->unwind_detail, *colon = NULL;
	struct snap_sheet *lines = stacks->lines;

	if (stack->unwind == SNAP_UNWIND_COMPLETE && !detail)
		return;
	for (const char *p = detail; p && (p = strstr(p, ": ")); p += 2)
		colon = p;
	begin_frame(stacks, NULL);
	snap_line_add(lines, SNAP_STYLE_YELLOW, end_word(stack, colon));
	if (detail || !snap_unwind_is_whole(stack->unwind)) {
		snap_line_add(lines, SNAP_STYLE_YELLOW, ": ");
		snap_line_add_escaped(lines, SNAP_STYLE_YELLOW,
				      colon    ? colon + 2
				      : detail ? detail
					       : snap_unwind_word(stack->unwind));
	}
	if (colon) {
		_cleanup_free_ char *where = strndup(detail, (size_t)(colon - detail));

		snap_line_add(lines, SNAP_STYLE_YELLOW, " at ");
		snap_line_add_escaped(lines, SNAP_STYLE_YELLOW, where ? where : "?");
	}
	snap_line_add(lines, SNAP_STYLE_YELLOW, ")");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* While measuring there is no need to go on once the column cannot grow. */
static bool is_measured(const struct snap_sheet *lines)
{
	return lines->failed || (lines->measuring && lines->column == lines->widest_column);
}

void snap_text_stack_frames(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	bool has_own = false, seen_own = false;

	snap_text_waits(stacks->lines, stacks->options, stack, frame_indent(stacks) - 2);
	snap_text_labels(stacks->lines, stack->labels, stack->label_count,
			 frame_indent(stacks) - 2);
	for (size_t i = 0; i < stack->frame_count && !has_own; i++)
		has_own = is_own_frame(stack->frames[i]);
	for (size_t i = 0, step, length; i < stack->frame_count && !is_measured(stacks->lines);
	     i += step) {
		const struct snap_shown_frame *shown =
			snap_text_shown_frame(stacks, stack->frames[i]);

		seen_own = seen_own || is_own_frame(stack->frames[i]);
		step = is_system_frame(stack->frames[i])
			       ? count_text_folded(stacks, stack, i, has_own, seen_own)
			       : count_unnamed(stacks, stack, i);
		if (step && put_folded(stacks, stack, i, step)) {
			/* one line for all */
		} else if (shown) {
			step = count_text_times(stacks, stack, i, &length);
			if (length > 1)
				put_text_cycle(stacks, stack, i, length, step);
			else
				put_text_frame(stacks, shown, step);
			step *= length;
		} else {
			return;
		}
		if (stack->gap_count && i <= stack->gap_frame && stack->gap_frame < i + step)
			put_gap(stacks, stack);
	}
	put_end(stacks, stack);
}
