/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See tree.h. Nothing recurses, as the target decides how deep the tree is. */
#include "render/text/tree.h"

#include "base/buffer.h"
#include "base/text.h"
#include "render/text/stack/ending_stacks.h"
#include "render/view/elide.h"

#include <inttypes.h>
#include <string.h>

enum {
	LEAST_ROOM = 24,       /* columns for functions, however deep they stand */
	FEWEST_FOLDED = 3,     /* functions of the system in a row that are not listed one by one */
	SMALLEST_SHARE = 1000, /* of the samples of a recording: smaller ones are summed up */
};

/* Siblings whose lines are being written. */
struct level {
	size_t end;   /* behind the last of them, and what is below it */
	size_t width; /* digits of the largest count */
};

struct writing {
	struct snap_text_stacks *stacks;
	struct snap_sheet *lines;
	const struct snap_call_tree *tree;
	struct level *levels;
	size_t depth, capacity;
	size_t end_at; /* the first end that has not been printed */
	/* of the current line */
	size_t indent, limit; /* where functions begin, and where they end at last */
	bool begun;           /* with a function */
};

/* ---- functions ---- */

static bool is_system_node(const struct snap_call_node *node)
{
	const struct snap_entry *entry = snap_call_entry(node);

	return entry && entry->system && !entry->kernel;
}

static bool is_same_function(const struct writing *writing, const struct snap_call_node *a,
			     const struct snap_call_node *b)
{
	const struct snap_options *options = writing->stacks->options;
	const struct snap_entry *x = snap_call_entry(a), *y = snap_call_entry(b);
	const char *name = x ? snap_call_name(options, x) : NULL;

	return name && y && snap_same_text(name, snap_call_name(options, y)) &&
	       snap_same_text(a->frame->module, b->frame->module) &&
	       (a->frame->module || snap_same_text(x->file, y->file)) && x->kernel == y->kernel;
}

/* Malloc'ed; NULL without memory. */
static char *name_of_call(struct writing *writing, const struct snap_call_node *node)
{
	size_t room = writing->limit - writing->indent;
	struct snap_shown_by by = { writing->stacks->options, &writing->stacks->folders, room,
				    true };
	const char *dots = writing->lines->signs->dots;
	char *name = NULL;
	int n = 0;

	if (node->kind == SNAP_CALL_FUNCTION)
		name = snap_shown_name(writing->lines, &by, node->frame, snap_call_entry(node));
	else if (node->kind == SNAP_CALL_GAP && node->left_out)
		n = asprintf(&name, "%s %" PRIu64 " frames left out (-n) %s", dots, node->left_out,
			     dots);
	else if (node->kind == SNAP_CALL_GAP)
		n = asprintf(&name, "%s frames left out (-n) %s", dots, dots);
	else if (node->unwind == SNAP_UNWIND_NOT_STOPPED)
		name = strdup("(not stopped)");
	else if (snap_unwind_is_whole(node->unwind))
		name = strdup("(not whole)");
	else
		n = asprintf(&name, "(callers unknown: %s)", snap_unwind_word(node->unwind));
	if (n < 0)
		name = NULL;
	writing->lines->failed = writing->lines->failed || !name;
	return name;
}

static enum snap_style style_of(const struct snap_call_node *node)
{
	const struct snap_entry *entry = snap_call_entry(node);

	if (node->kind == SNAP_CALL_END)
		return SNAP_STYLE_YELLOW;
	if (node->kind == SNAP_CALL_GAP)
		return SNAP_STYLE_BOLD;
	return entry->system || entry->kernel ? SNAP_STYLE_DIM : SNAP_STYLE_PLAIN;
}

/* What is inlined into a function of the system, and is system code itself, is its own affair. */
static bool is_hidden(const struct writing *writing, size_t first, size_t last, size_t at)
{
	const struct snap_call_node *nodes = writing->tree->nodes;
	bool reverse = writing->tree->options->reverse;

	if (writing->stacks->options->verbose || at == (reverse ? last : first))
		return false;
	return nodes[at].inlined && is_system_node(&nodes[at]) &&
	       is_system_node(&nodes[reverse ? at + 1 : at - 1]);
}

/*
 * How many functions from `at` on, up to `last`, share one line; at least 1. *length_ret: of them
 * stand there time and again; 0: they are the system's, of which the outer two are named.
 */
static size_t count_call_folded(const struct writing *writing, size_t at, size_t last,
				size_t *length_ret)
{
	const struct snap_call_node *nodes = writing->tree->nodes;
	bool folds = !snap_text_tree_is_wide(writing->stacks->options);
	size_t end = at;

	while (folds && end <= last && is_system_node(&nodes[end]))
		end++;
	*length_ret = 0;
	if (end - at >= FEWEST_FOLDED && !is_same_function(writing, &nodes[at], &nodes[end - 1]))
		return end - at;
	for (size_t length = 1; length <= SNAP_LONGEST_CYCLE; length++) {
		for (end = at + length; end <= last; end++)
			if (!is_same_function(writing, &nodes[end - length], &nodes[end]))
				break;
		*length_ret = length;
		if (end >= at + snap_least_times(length) * length)
			return (end - at) / length * length;
	}
	return *length_ret = 1;
}

/* The mark of a function that was not found by CFI; "": it needs none. */
static const char *mark_of(struct writing *writing, size_t first, size_t count)
{
	bool guessed = false;

	for (size_t i = first; i < first + count; i++)
		guessed = guessed || writing->tree->nodes[i].trust != SNAP_TRUST_CFI;
	writing->stacks->has_guessed = writing->stacks->has_guessed || guessed;
	return guessed ? writing->lines->signs->guessed : "";
}

/* ---- lines ---- */

static void continue_call_line(struct writing *writing)
{
	snap_line_end(writing->lines, SNAP_STYLE_PLAIN, NULL);
	snap_line_begin(writing->lines);
	snap_line_pad(writing->lines, writing->indent);
	writing->begun = false;
}

/* Puts an arrow behind what is there, and goes on in a new line where `width` more do not fit. */
static void put_arrow(struct writing *writing, size_t width)
{
	struct snap_sheet *lines = writing->lines;
	const char *arrow =
		writing->tree->options->reverse ? lines->signs->arrow : lines->signs->calls;
	size_t wide = snap_text_width(arrow) + 2;

	if (!writing->begun)
		return;
	snap_line_printf(lines, SNAP_STYLE_DIM, " %s", arrow);
	if (lines->width && lines->columns + 1 + width + wide > writing->limit)
		continue_call_line(writing);
	else
		snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
}

/* "walk", "(is_even → is_odd)": what stands there time and again; malloc'ed, NULL without memory. */
static char *name_of_cycle(struct writing *writing, size_t first, size_t length)
{
	const struct snap_signs *signs = writing->lines->signs;
	char *names = name_of_call(writing, &writing->tree->nodes[first]);

	for (size_t i = 1; i < length && names; i++) {
		_cleanup_free_ char *before = names, *name = NULL;

		name = name_of_call(writing, &writing->tree->nodes[first + i]);
		if (asprintf(&names, "%s%s %s %s%s", i == 1 ? "(" : "", before,
			     writing->tree->options->reverse ? signs->arrow : signs->calls,
			     name ? name : "", i + 1 == length ? ")" : "") < 0)
			names = NULL;
	}
	return names;
}

/* `count` functions: `length` of them time and again; 0: the system's, the outer two are named. */
static void put_call_functions(struct writing *writing, size_t first, size_t count, size_t length)
{
	const struct snap_call_node *from = &writing->tree->nodes[first];
	const struct snap_call_node *to = from + count - 1;
	_cleanup_free_ char *name = name_of_cycle(writing, first, length);
	_cleanup_free_ char *other = length ? NULL : name_of_call(writing, to);
	const char *mark = mark_of(writing, first, count);
	struct snap_sheet *lines = writing->lines;
	char between[64] = "";

	if (!name || (!length && !other))
		return;
	if (!length)
		snprintf(between, sizeof(between), " %s ", lines->signs->dots);
	else if (count > length)
		snprintf(between, sizeof(between), " %s %zu", lines->signs->times, count / length);
	put_arrow(writing, snap_text_width(name) + snap_text_width(between) +
				   (other ? snap_text_width(other) : 0) +
				   (*mark ? snap_text_width(mark) + 1 : 0));
	if (*mark)
		snap_line_printf(lines, SNAP_STYLE_CYAN, "%s ", mark);
	snap_line_add(lines, style_of(from), name);
	snap_line_add(lines, length ? SNAP_STYLE_BOLD : SNAP_STYLE_DIM, between);
	if (other)
		snap_line_add(lines, style_of(to), other);
	writing->begun = true;
}

static const char *sign_of_inlined(const struct snap_sheet *lines,
				   const struct snap_call_node *node)
{
	return snap_call_entry(node)->tail_call ? lines->signs->tail_call : lines->signs->inlined;
}

/* A line of its own for a function, which ends it. */
static void put_wide(struct writing *writing, size_t first, size_t count, size_t length)
{
	const struct snap_call_node *node = &writing->tree->nodes[first];
	struct snap_shown_by by = { writing->stacks->options, &writing->stacks->folders, 0, true };
	_cleanup_free_ char *name = name_of_cycle(writing, first, length), *location = NULL;
	struct snap_sheet *lines = writing->lines;
	const char *mark = mark_of(writing, first, count),
		   *sign = node->inlined ? sign_of_inlined(lines, node) : mark;

	if (node->kind == SNAP_CALL_FUNCTION)
		location = snap_shown_location(lines, &by, node->frame, snap_call_entry(node),
					       !node->lines_differ);
	lines->failed = lines->failed || (node->kind == SNAP_CALL_FUNCTION && !location);
	if (!name || lines->failed)
		return;
	if (writing->begun) {
		snap_line_begin(lines);
		snap_line_pad(lines, writing->indent);
	}
	snap_line_add(lines, SNAP_STYLE_CYAN, sign);
	snap_line_pad(lines, writing->indent + 2);
	snap_line_add(lines, style_of(node), name);
	if (count > length)
		snap_line_printf(lines, SNAP_STYLE_BOLD, " %s %zu", lines->signs->times,
				 count / length);
	snap_line_end(lines, SNAP_STYLE_DIM, location);
	writing->begun = true;
}

/* ---- the threads that stand there ---- */

/* "2 sleeping, 1 RUNNING", the states of threads that are not in the same one. */
static void put_states(struct writing *writing, const struct snap_stack *stack)
{
	struct snap_sheet *lines = writing->lines;
	size_t counts[SNAP_STATE_COUNT] = { 0 };
	bool begun = false;

	for (size_t i = 0; i < stack->thread_count; i++)
		counts[stack->threads[i].state]++;
	for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
		if (!counts[i])
			continue;
		snap_line_printf(lines,
				 i == SNAP_STATE_RUNNING ? SNAP_STYLE_GREEN : SNAP_STYLE_PLAIN,
				 "%s%zu %s", begun ? ", " : "", counts[i],
				 i == SNAP_STATE_RUNNING ? "RUNNING"
				 : i == SNAP_STATE_DISK  ? "DISK"
							 : snap_state_word(i));
		begun = true;
	}
}

static double share_of_call(const struct writing *writing, uint64_t count)
{
	return 100.0 * (double)count / (double)writing->stacks->samples;
}

/* "2 here: sleeping in futex · mutex service" */
static void add_standing(struct writing *writing, const struct snap_call_node *node,
			 const struct snap_stack *stack, const char *object)
{
	struct snap_sheet *lines = writing->lines;
	uint64_t own = writing->stacks->samples ? stack->samples : stack->count;

	if (own != node->count && writing->stacks->samples)
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%.1f %%", share_of_call(writing, own));
	else if (own != node->count)
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%" PRIu64, own);
	if (own != node->count)
		snap_line_add(lines, SNAP_STYLE_PLAIN, " here: ");
	if (!snap_stack_label(stack, "state") && !stack->runtime && !stack->state_samples)
		put_states(writing, stack);
	else
		snap_text_stack_state(writing->stacks, stack);
	if (object) {
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->middot);
		snap_line_add_escaped(lines, SNAP_STYLE_CYAN, object);
	}
}

/* Those that stand in a function, of threads or of tasks; ends the line. */
static void put_standing(struct writing *writing, const struct snap_call_node *node,
			 const struct snap_stack *stack)
{
	struct snap_sheet *lines = writing->lines;
	_cleanup_free_ char *object = snap_text_stack_object(writing->stacks, stack);
	size_t size = lines->text.size, columns = lines->columns;

	if (writing->begun)
		snap_line_add(lines, SNAP_STYLE_PLAIN, "   ");
	add_standing(writing, node, stack, object);
	/* What does not fit behind the functions stands below them. */
	if (writing->begun && lines->width && lines->columns > writing->limit) {
		lines->text.size = size;
		lines->columns = columns;
		continue_call_line(writing);
		add_standing(writing, node, stack, object);
	}
	snap_text_stack_members(writing->stacks, stack);
}

/* Ends the line, which goes on in a new one where tasks stand in the same function as threads. */
static void put_ends(struct writing *writing, const struct snap_call_node *node,
		     const struct snap_call_end *ends, size_t count)
{
	bool begun = false;

	for (unsigned of_tasks = 0; of_tasks < 2; of_tasks++) {
		_cleanup_(snap_ending_stacks_deinit) struct snap_ending_stacks joined;

		if (!snap_ending_stacks_init(&joined, ends, count, of_tasks)) {
			writing->lines->failed = true;
			return;
		}
		if (!joined.stack.count)
			continue;
		if (begun) {
			snap_line_begin(writing->lines);
			snap_line_pad(writing->lines, writing->indent);
			writing->begun = false;
		}
		put_standing(writing, node, &joined.stack);
		begun = true;
	}
	if (!begun)
		snap_line_end(writing->lines, SNAP_STYLE_PLAIN, NULL);
}

/* The same with a line for each group. */
static void put_wide_ends(struct writing *writing, const struct snap_call_end *ends, size_t count)
{
	for (size_t i = 0; i < count && !writing->lines->failed; i++) {
		snap_line_begin(writing->lines);
		snap_line_pad(writing->lines, writing->indent + 4);
		snap_text_stack_title(writing->stacks, ends[i].stack, NULL);
	}
}

/* ---- runs ---- */

/* The last function from `first` on that all pass through and in which no thread stands, except the last. */
static size_t end_of_call_run(const struct snap_call_tree *tree, size_t first)
{
	const struct snap_call_node *nodes = tree->nodes;
	size_t last = first;

	while (!nodes[last].own && nodes[last].end > last + 1 &&
	       nodes[last + 1].end == nodes[last].end)
		last++;
	return last;
}

/* "62 × ", "45.3 %  " */
static void put_count(struct writing *writing, uint64_t count)
{
	const struct level *level = &writing->levels[writing->depth - 1];
	struct snap_sheet *lines = writing->lines;

	if (writing->stacks->samples) {
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%5.1f %%  ",
				 share_of_call(writing, count));
		return;
	}
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%*" PRIu64, (int)level->width, count);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
}

static void put_run(struct writing *writing, size_t first, size_t last)
{
	const struct snap_call_tree *tree = writing->tree;
	const struct snap_call_end *ends = &tree->ends[writing->end_at];
	bool wide = snap_text_tree_is_wide(writing->stacks->options);
	struct snap_sheet *lines = writing->lines;
	size_t count = 0;

	put_count(writing, tree->nodes[first].count);
	writing->indent = lines->columns;
	writing->limit = lines->widest_column - 2;
	writing->limit = SNAP_MAX(writing->limit, writing->indent + LEAST_ROOM);
	writing->begun = false;
	for (size_t i = first, step, length; i <= last && !lines->failed; i += step) {
		step = count_call_folded(writing, i, last, &length);
		if (step == 1 && is_hidden(writing, first, last, i))
			continue;
		if (wide)
			put_wide(writing, i, step, length);
		else
			put_call_functions(writing, i, step, length);
	}
	for (; writing->end_at < tree->end_count && tree->ends[writing->end_at].node <= last;
	     count++)
		writing->end_at++;
	if (wide)
		put_wide_ends(writing, ends, count);
	else
		put_ends(writing, &tree->nodes[last], ends, count);
}

/* ---- the tree ---- */

static bool push_level(struct writing *writing, size_t first, size_t end)
{
	if (!snap_reserve_array(writing->levels, writing->capacity, writing->depth + 1)) {
		writing->lines->failed = true;
		return false;
	}
	writing->levels[writing->depth++] =
		(struct level){ end, snap_count_digits(writing->tree->nodes[first].count) };
	return true;
}

/* How many siblings from `at` on hardly count, if one line sums them up; else 0. */
static size_t count_small(const struct writing *writing, size_t at, uint64_t *sum_ret)
{
	const struct snap_call_node *nodes = writing->tree->nodes;
	uint64_t all = writing->stacks->samples;
	size_t count = 0;

	*sum_ret = 0;
	if (!all || writing->stacks->options->verbose || nodes[at].count >= all / SMALLEST_SHARE)
		return 0;
	for (size_t end = writing->levels[writing->depth - 1].end; at < end; at = nodes[at].end) {
		*sum_ret += nodes[at].count;
		count++;
	}
	return count > 1 ? count : 0;
}

/* The others of a level in one line. */
static void put_small(struct writing *writing, size_t count, uint64_t sum, bool last)
{
	snap_line_begin_item(writing->lines, last);
	put_count(writing, sum);
	snap_line_printf(writing->lines, SNAP_STYLE_PLAIN, "%zu other branches (-v)", count);
	snap_line_end(writing->lines, SNAP_STYLE_PLAIN, NULL);
}

/* The line or lines at `at`; returns the next one. */
static size_t put_item(struct writing *writing, size_t at, bool more)
{
	const struct snap_call_tree *tree = writing->tree;
	size_t end = writing->levels[writing->depth - 1].end, last;
	bool outermost = writing->depth == 1;
	uint64_t sum;
	size_t small = count_small(writing, at, &sum);

	if (small) {
		put_small(writing, small, sum, !outermost || !more);
		while (writing->end_at < tree->end_count && tree->ends[writing->end_at].node < end)
			writing->end_at++;
		return end;
	}
	last = end_of_call_run(tree, at);
	snap_line_begin_item(writing->lines, tree->nodes[at].end == end && !(outermost && more));
	snap_sheet_push(writing->lines, tree->nodes[last].end > last + 1);
	put_run(writing, at, last);
	if (tree->nodes[last].end > last + 1 &&
	    push_level(writing, last + 1, tree->nodes[last].end))
		return last + 1;
	snap_sheet_pop(writing->lines);
	return tree->nodes[last].end;
}

void snap_text_tree(struct snap_text_stacks *stacks, const struct snap_call_tree *tree, bool more)
{
	struct writing writing = { .stacks = stacks, .lines = stacks->lines, .tree = tree };

	if (tree->node_count && push_level(&writing, 0, tree->node_count)) {
		for (size_t at = 0; at < tree->node_count && !stacks->lines->failed;) {
			for (; at >= writing.levels[writing.depth - 1].end; writing.depth--)
				snap_sheet_pop(stacks->lines);
			at = put_item(&writing, at, more);
		}
		for (; writing.depth > 1; writing.depth--)
			snap_sheet_pop(stacks->lines);
	}
	free(writing.levels);
}
