/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks as text: see stack.h. */
#include "render/text/stack.h"

#include "base/bsearch.h"
#include "base/text.h"
#include "render/text/frame.h"
#include "render/text/stack/lock_numbers.h"
#include "render/text/task.h"
#include "render/text/wait.h"
#include "render/view/elide.h"
#include "render/view/own.h"

#include <inttypes.h>
#include <string.h>

enum {
	FRAME_INDENT = 8, /* where frames begin, unless counts are wide */
	LONGEST_TOP = 3,  /* system frames on top of a stack that are shown one by one */
};

void snap_text_stacks_deinit(struct snap_text_stacks *stacks)
{
	snap_text_stacks_clear(stacks);
	snap_folders_deinit(&stacks->folders);
	snap_chains_deinit(&stacks->chains);
}

void snap_text_stacks_clear(struct snap_text_stacks *stacks)
{
	snap_pointer_table_release(&stacks->shown, snap_shown_frame_destroy);
}

void snap_text_share(struct snap_sheet *lines, uint64_t samples, uint64_t all, size_t width)
{
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%5.1f %%", 100.0 * (double)samples / (double)all);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %*" PRIu64 " sample%s %s ", (int)width,
			 samples, samples == 1 ? " " : "s", lines->signs->times);
}

/* "disk 90 %, running 10 %", the most frequent first. */
static void add_states(struct snap_sheet *lines, const struct snap_stack *stack)
{
	uint64_t left = UINT64_MAX;
	unsigned last = 0;

	for (bool begun = false;; begun = true) {
		unsigned most = SNAP_STATE_COUNT;

		/* The next one: fewer samples than the last, or as many and behind it. */
		for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
			uint64_t count = stack->state_samples[i];

			if (count && (count < left || (count == left && i > last)) &&
			    (most == SNAP_STATE_COUNT || count > stack->state_samples[most]))
				most = i;
		}
		if (most == SNAP_STATE_COUNT)
			return;
		left = stack->state_samples[most];
		last = most;
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s%s %.0f %%", begun ? ", " : "",
				 snap_state_word(most),
				 100.0 * (double)left / (double)stack->samples);
	}
}

/* The name of all threads, or the first few different ones. */
static void add_names(struct snap_sheet *lines, const struct snap_stack *stack)
{
	const char *common = snap_stack_label(stack, "thread_name");
	struct snap_line_names reported = { 0 };

	if (common) {
		snap_line_add_thread(lines, common);
		return;
	}
	for (size_t i = 0; i < stack->thread_count; i++) {
		const char *name = stack->threads[i].name ? stack->threads[i].name : "(no name)";

		if (!snap_line_add_name(lines, &reported, name))
			return;
	}
}

/* Capitals for what wants to be seen; colour only says it again. */
void snap_text_state(struct snap_sheet *lines, const struct snap_stack *stack)
{
	const char *word = snap_stack_label(stack, "state"),
		   *call = snap_stack_label(stack, "syscall"),
		   *wchan = snap_stack_label(stack, "wchan"), *in = call ? call : wchan;
	enum snap_style style = SNAP_STYLE_PLAIN;
	enum snap_state state = word ? snap_state_of_word(word) : SNAP_STATE_COUNT;

	if (state == SNAP_STATE_RUNNING) {
		word = "RUNNING";
		style = SNAP_STYLE_GREEN;
		in = NULL;
	} else if (state == SNAP_STATE_DISK) {
		word = "DISK";
		style = SNAP_STYLE_RED_BOLD;
		in = wchan ? wchan : call;
	} else if (state == SNAP_STATE_STOPPED || state == SNAP_STATE_TRACED ||
		   state == SNAP_STATE_FROZEN) {
		style = SNAP_STYLE_YELLOW;
	} else if (state == SNAP_STATE_ZOMBIE || state == SNAP_STATE_DEAD) {
		style = SNAP_STYLE_MAGENTA;
	}
	if (state == SNAP_STATE_UNKNOWN && in) {
		/* Of a core: the call is all that is known. */
		snap_line_add(lines, SNAP_STYLE_PLAIN, "in ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, in);
		return;
	}
	if (!word && stack->state_samples)
		add_states(lines, stack);
	else
		snap_line_add(lines, style, word ? word : "in several states");
	if (in) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, word ? " in " : ", ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, in);
	}
}

static pid_t number_at(const pid_t *first, size_t stride, size_t at)
{
	const void *place = (const char *)first + at * stride;

	return *(const pid_t *)place;
}

void snap_text_ranges(const char *noun, const pid_t *first, size_t stride, size_t count, size_t max,
		      char *out, size_t size)
{
	size_t ranges = 0, n, end;

	n = (size_t)snprintf(out, size, "%s%s ", noun, count == 1 ? "" : "s");
	for (size_t i = 0; i < count && n < size; i = end) {
		const char *comma = i ? ", " : "";
		pid_t from = number_at(first, stride, i), to = from;

		for (end = i + 1; end < count && number_at(first, stride, end) == to + 1; end++)
			to++;
		if (ranges++ == max) {
			snprintf(out + n, size - n, "%s+%zu", comma, count - i);
			return;
		}
		n += (size_t)(end == i + 1
				      ? snprintf(out + n, size - n, "%s%d", comma, from)
				      : snprintf(out + n, size - n, "%s%d-%d", comma, from, to));
	}
}

void snap_text_count_reads(const struct snap_stack *stack, struct snap_text_reads *reads)
{
	for (size_t i = 0; i < stack->thread_count; i++) {
		reads->unstopped += stack->threads[i].taken == SNAP_TAKEN_UNSTOPPED;
		reads->alone += stack->threads[i].taken == SNAP_TAKEN_ALONE;
	}
	reads->all += stack->thread_count;
}

/* "  (3 read while blocked, 1 stopped alone)"; nothing where all were stopped together. */
static void add_how_read(struct snap_sheet *lines, const struct snap_stack *stack)
{
	struct snap_text_reads reads = { 0 };

	snap_text_count_reads(stack, &reads);
	if (reads.unstopped && reads.alone)
		snap_line_printf(lines, SNAP_STYLE_DIM,
				 "  (%zu read while blocked, %zu stopped alone)", reads.unstopped,
				 reads.alone);
	else if (reads.unstopped || reads.alone)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      reads.alone ? "  (stopped alone)" : "  (read while blocked)");
}

/* "forge[19152] GET: /issues [4] " */
static void add_owner(struct snap_sheet *lines, const struct snap_text_owner *owner)
{
	const struct snap_node *node = owner ? owner->node : NULL;

	if (node) {
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, node->name ? node->name : "?");
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "[%d] ", node->pid);
	}
	if (owner && owner->logical)
		snap_text_logical_name(lines, owner->logical);
}

/* "   crashed" */
static void add_crashed(struct snap_sheet *lines, const struct snap_stack *stack)
{
	if (stack->crashed)
		snap_line_add(lines, SNAP_STYLE_RED_BOLD, "   crashed");
}

/* "   stuck", "   3 of 62 stuck" */
static void add_stuck(struct snap_sheet *lines, const struct snap_stack *stack)
{
	size_t count = 0;

	for (size_t i = 0; i < stack->thread_count; i++)
		count += stack->threads[i].stuck;
	if (count && count < stack->thread_count)
		snap_line_printf(lines, SNAP_STYLE_YELLOW, "   %zu of %zu stuck", count,
				 stack->thread_count);
	else if (count)
		snap_line_add(lines, SNAP_STYLE_YELLOW, "   stuck");
}

void snap_text_stack_state(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	if (stack->runtime)
		snap_text_task_state(stacks->lines, stack);
	else
		snap_text_state(stacks->lines, stack);
}

void snap_text_stack_who(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	struct snap_sheet *lines = stacks->lines;

	if (stack->runtime)
		snap_text_task_names(lines, stack);
	else
		add_names(lines, stack);
	if (stacks->options->summary)
		snap_line_stop(lines, SNAP_STOP_STATE, 3);
	else
		snap_line_add(lines, SNAP_STYLE_PLAIN, "   ");
	snap_text_stack_state(stacks, stack);
	if (stacks->options->verbose)
		add_how_read(lines, stack);
	add_crashed(lines, stack);
	add_stuck(lines, stack);
}

static void add_head(struct snap_text_stacks *stacks, const struct snap_stack *stack,
		     const struct snap_text_owner *owner)
{
	struct snap_sheet *lines = stacks->lines;

	if (stacks->samples) {
		snap_text_share(lines, stack->samples, stacks->samples, stacks->samples_width);
	} else {
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%*zu", (int)stacks->count_width,
				 stack->count);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
	}
	add_owner(lines, owner);
	if (stacks->options->summary)
		snap_line_stop(lines, SNAP_STOP_NAME, 0);
	snap_text_stack_who(stacks, stack);
}

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

/* Malloc'ed: the processes that threads of all of them are of, each once. False without memory. */
static bool list_text_pids(const struct snap_stack *stack, pid_t **ret, size_t *count_ret)
{
	size_t count = stack->runtime ? stack->task_count : stack->thread_count, kept = 0;
	pid_t *pids = malloc((count + 1) * sizeof(*pids));

	*ret = pids;
	if (!pids)
		return false;
	memcpy(pids, stack->pids, count * sizeof(*pids));
	qsort(pids, count, sizeof(*pids), compare_pids);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || pids[i] != pids[kept - 1])
			pids[kept++] = pids[i];
	*count_ret = kept;
	return true;
}

void snap_text_stack_members(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	struct snap_sheet *lines = stacks->lines;
	size_t max = SNAP_MOST_RANGES, column;
	char ranges[1024];

	_cleanup_free_ pid_t *pids = NULL;
	size_t pid_count = 0;

	if (stack->pids && !list_text_pids(stack, &pids, &pid_count))
		lines->failed = true;
	column = lines->columns + 2 > lines->column ? lines->columns + 2 : lines->column;
	do {
		if (pids)
			snap_text_ranges("pid", pids, sizeof(*pids), pid_count, max, ranges,
					 sizeof(ranges));
		else if (stack->runtime)
			snap_text_task_ids(lines, stack, max, ranges, sizeof(ranges));
		else
			snap_text_ranges("tid", &stack->threads[0].tid, sizeof(stack->threads[0]),
					 stack->thread_count, max, ranges, sizeof(ranges));
	} while (lines->width && column + strlen(ranges) > lines->width && --max > 0);
	snap_line_end(lines, SNAP_STYLE_DIM, ranges);
}

void snap_text_stack_title(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			   const struct snap_text_owner *owner)
{
	add_head(stacks, stack, owner);
	snap_text_stack_members(stacks, stack);
}

static const struct snap_shown_frame *shown_of(struct snap_text_stacks *stacks,
					       const struct snap_frame *frame)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&stacks->shown, frame);

	if (found && !found->pointer)
		found->pointer = snap_shown_frame_create(
			stacks->lines,
			&(struct snap_shown_by){ stacks->options, &stacks->folders,
						 stacks->name_width, stacks->options->summary },
			frame);
	if (!found || !found->pointer) {
		stacks->lines->failed = true;
		return NULL;
	}
	return found->pointer;
}

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

/* The mark of a frame that was not found by CFI; NULL: it needs none. */
static const char *mark_guessed(struct snap_text_stacks *stacks, bool guessed)
{
	stacks->has_guessed = stacks->has_guessed || guessed;
	return guessed ? stacks->lines->signs->guessed : NULL;
}

static void put_text_entry(struct snap_text_stacks *stacks, const struct snap_shown_entry *entry,
			   size_t times)
{
	struct snap_sheet *lines = stacks->lines;
	enum snap_style style = entry->system || entry->kernel ? SNAP_STYLE_DIM : SNAP_STYLE_PLAIN;

	begin_frame(stacks,
		    entry->inlined ? lines->signs->inlined : mark_guessed(stacks, entry->guessed));
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
	const struct snap_shown_frame *inner = shown_of(stacks, stack->frames[first]),
				      *outer = shown_of(stacks, stack->frames[first + count - 1]);
	struct snap_sheet *lines = stacks->lines;
	const struct snap_shown_entry *last;

	if (!inner || !outer)
		return false;
	last = &outer->entries[outer->count - 1];
	begin_frame(stacks, mark_guessed(stacks, is_guessed(stack, first, count)));
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
	left = shown_of(stacks, a);
	right = shown_of(stacks, b);
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

	begin_frame(stacks, mark_guessed(stacks, is_guessed(stack, first, length)));
	for (size_t i = first; i < first + length; i++) {
		const struct snap_shown_frame *shown = shown_of(stacks, stack->frames[i]);

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
		const struct snap_shown_frame *shown = shown_of(stacks, stack->frames[i]);

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

/* Where a stack of a language's own functions stands: in the one that it is called by. */
static const struct snap_frame *described_frame(const struct snap_stack *stack, size_t *entry_ret)
{
	for (size_t i = stack->frame_count; i-- > 0;) {
		const struct snap_frame *frame = stack->frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			*entry_ret = k;
			if (frame->entries[k].language &&
			    snap_same_text(frame->entries[k].function, stack->description))
				return frame;
		}
	}
	*entry_ret = 0;
	return NULL;
}

/* The innermost function that is not system code, else the innermost of all; NULL: no frames. */
static const struct snap_frame *own_frame(const struct snap_stack *stack, size_t *entry_ret)
{
	return snap_own_frame(stack->frames, stack->frame_count, entry_ret)
		       ?: described_frame(stack, entry_ret)
		       ?: (stack->frame_count ? stack->frames[0] : NULL);
}

void snap_text_stacks_survey(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	const struct snap_frame *last = NULL;
	bool fine = true;
	size_t entry;

	if (stacks->options->call_tree && !snap_text_tree_is_wide(stacks->options))
		return;
	if (stacks->options->summary) {
		stacks->chains.functions.options = stacks->options;
		last = own_frame(stack, &entry);
		fine = !last || (snap_folders_add(&stacks->folders, stacks->options, last) &&
				 snap_chains_add(&stacks->chains, stack, last, entry));
	} else {
		for (size_t i = 0; i < stack->frame_count && fine; last = stack->frames[i++])
			fine = stack->frames[i] == last ||
			       snap_folders_add(&stacks->folders, stacks->options,
						stack->frames[i]);
	}
	stacks->lines->failed = stacks->lines->failed || !fine;
}

static const char *name_of_link(struct snap_text_stacks *stacks, const struct snap_link *link)
{
	const struct snap_shown_frame *shown = shown_of(stacks, link->frame);

	return shown ? shown->entries[link->entry].name : "";
}

static void add_link(struct snap_text_stacks *stacks, const struct snap_link *link,
		     const char *name)
{
	const char *mark = mark_guessed(stacks, link->frame->trust != SNAP_TRUST_CFI);

	if (mark)
		snap_line_printf(stacks->lines, SNAP_STYLE_CYAN, "%s ", mark);
	snap_line_add(stacks->lines, SNAP_STYLE_PLAIN, name);
}

/* One that is too wide for its column alone loses its middle, but keeps some letters. */
static void add_long_link(struct snap_text_stacks *stacks, const struct snap_link *link,
			  const char *name, size_t limit)
{
	enum { FEWEST = 16 };
	const struct snap_sheet *lines = stacks->lines;
	size_t room = limit > lines->columns ? limit - lines->columns : 0;
	_cleanup_free_ char *copy = strdup(name);

	if (copy)
		snap_elide_name(copy, SNAP_MAX(room, FEWEST), lines->signs->dots);
	add_link(stacks, link, copy ? copy : name);
}

/*
 * "queue_pop ← next_job … worker_main", up to a column: from the inside, and where the thread began,
 * if that is not left out as all others have it.
 */
static void add_functions(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			  const struct snap_link *links, size_t count, size_t limit)
{
	const struct snap_signs *signs = stacks->lines->signs;
	struct snap_sheet *lines = stacks->lines;
	const struct snap_link *last = &links[count - 1];
	const char *root = name_of_link(stacks, last);
	size_t tail = snap_text_width(signs->dots) + 2;

	if (!snap_same_text(last->frame->entries[last->entry].function, stack->description))
		root = "";
	tail += snap_text_width(root);
	for (size_t i = 0; i < count; i++) {
		const char *name = name_of_link(stacks, &links[i]);
		size_t mark = links[i].frame->trust != SNAP_TRUST_CFI ? 2 : 0;
		size_t end = lines->columns + 3 + mark + snap_text_width(name);

		if (i == 0 && lines->width && end - 3 > limit) {
			add_long_link(stacks, links, name, limit);
			continue;
		}
		if (i && end + (i + 1 < count ? tail : 0) > limit) {
			end = lines->columns + tail;
			snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s", signs->dots);
			if (*root && end <= limit) {
				snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
				add_link(stacks, last, root);
			}
			return;
		}
		if (i)
			snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", signs->arrow);
		add_link(stacks, &links[i], name);
	}
}

/* Where functions end; what a thread waits for follows, and the location: lines are in a column. */
static size_t limit_of_functions(const struct snap_sheet *lines, const struct snap_entry *own,
				 const char *location, const char *object)
{
	size_t limit = lines->widest_column - 2, right = snap_text_width(location) + 2,
	       waits = object ? snap_text_width(object) + 3 : 0;

	if (!own->file && lines->width > limit + right)
		limit = lines->width - right;
	return limit > waits ? limit - waits : 0;
}

/* "pipe from 4711 producer": its number says less; NULL: it is none, or without a known other end. */
static char *peer_text(const struct snap_wait *wait)
{
	const struct snap_wait_party *peer = wait->peers;
	char *text;

	if (wait->kind != SNAP_WAIT_PIPE || !wait->peer_count)
		return NULL;
	return asprintf(&text, "pipe %s %d%s%s%s", wait->mode == SNAP_WAIT_WRITE ? "to" : "from",
			peer->pid, peer->name ? " " : "", peer->name ? peer->name : "",
			wait->peer_count > 1 ? ", …" : "") < 0
		       ? NULL
		       : text;
}

char *snap_text_stack_object(const struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	enum snap_explain explain = stacks->options->explain;
	struct snap_wait shown;
	char *object;

	if (explain == SNAP_EXPLAIN_NO ||
	    !snap_wait_is_shown(stack->wait, explain == SNAP_EXPLAIN_ALL))
		return NULL;
	shown = snap_numbered_wait(stacks->lines->locks, stacks->options, stack->wait);
	object = peer_text(&shown) ?: snap_wait_object(&shown);
	stacks->lines->failed |= !object;
	if (object && *object)
		return object;
	free(object);
	return NULL;
}

void snap_text_stack_summary(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			     const struct snap_text_owner *owner)
{
	const char *state = snap_stack_label(stack, "state"), *location = NULL;
	struct snap_sheet *lines = stacks->lines;
	bool star = state && (strcmp(state, "running") == 0 || strcmp(state, "disk") == 0);
	_cleanup_free_ char *object = snap_text_stack_object(stacks, stack);
	size_t entry, count = 0;
	const struct snap_frame *own = own_frame(stack, &entry);
	_cleanup_free_ struct snap_link *links =
		own ? snap_chains_of(&stacks->chains, stack, own, entry, &count) : NULL;
	const struct snap_shown_frame *shown = links ? shown_of(stacks, links->frame) : NULL;

	lines->failed |= own && !shown;
	snap_line_add(lines, SNAP_STYLE_RED_BOLD, star ? "* " : "  ");
	add_head(stacks, stack, owner);
	snap_text_group_labels(lines, stacks->options, stack);
	if (shown || object)
		snap_line_stop(lines, SNAP_STOP_FUNCTION, 3);
	if (shown) {
		location = shown->entries[links->entry].location;
		add_functions(stacks, stack, links, count,
			      stacks->options->full_names
				      ? SIZE_MAX
				      : limit_of_functions(lines,
							   &links->frame->entries[links->entry],
							   location, object));
	}
	if (shown && object)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->middot);
	if (object)
		snap_line_add_escaped(lines, SNAP_STYLE_CYAN, object);
	snap_line_end(lines, SNAP_STYLE_DIM, location);
}

void snap_text_stacks_note(struct snap_text_stacks *stacks)
{
	struct snap_sheet *lines = stacks->lines;

	if (!stacks->has_guessed)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_CYAN, lines->signs->guessed);
	snap_line_add(lines, SNAP_STYLE_DIM,
		      " guessed, by frame pointer or by scanning the stack, or found from such a "
		      "frame: may be wrong");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_stacks_put_measured(struct snap_text_stacks *stacks, void (*put)(void *context),
				   void *context)
{
	struct snap_sheet *lines = stacks->lines;

	lines->measuring = true;
	put(context);
	if (stacks->options->summary) {
		snap_sheet_fix_stops(lines);
		put(context);
	}
	lines->measuring = false;
	put(context);
	snap_text_stacks_note(stacks);
	snap_folders_note(&stacks->folders, lines, !stacks->has_guessed);
}
