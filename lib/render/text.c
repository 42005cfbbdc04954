/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The text report of DESIGN section 9: head, tree of processes, and the two other views of it
 * (--flat, --summary). Lines are text_line.c, stacks text_stack.c. The tree is gone through twice,
 * to find the column of the right parts and to write, each time without recursion.
 */
#include "render/elide.h"
#include "render/render.h"
#include "render/text_stack.h"
#include "render/when.h"

#include <errno.h>
#include <string.h>

struct text {
	const struct snap_snapshot *snapshot;
	const struct snap_options *options;
	struct snap_sheet lines;
	struct snap_text_stacks stacks;
};

static void text_deinit(struct text *text)
{
	snap_text_stacks_clear(&text->stacks);
	snap_sheet_deinit(&text->lines);
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

static void put_head(struct text *text)
{
	const struct snap_snapshot *snapshot = text->snapshot;
	struct snap_sheet *lines = &text->lines;
	char when[SNAP_WHEN_SIZE], length[SNAP_WHEN_SIZE];

	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_BOLD, "stacksnap");
	if (snapshot->host.name) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, snapshot->host.name);
	}
	snap_when(snapshot->time_ns, ' ', 3, when);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %s   %zu process%s, %zu thread%s, %zu stack%s",
			 when, snapshot->process_count, snapshot->process_count == 1 ? "" : "es",
			 snapshot->thread_count, plural(snapshot->thread_count),
			 snapshot->stack_count, plural(snapshot->stack_count));
	if (snapshot->stop_duration_ns) {
		snap_when_length(snapshot->stop_duration_ns, length);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "   stopped %s", length);
	}
	if (snapshot->stop_duration_ns && text->options->verbose) {
		snap_when_length(snapshot->stop_skew_ns, length);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " (all within %s)", length);
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* The name[pid] and what the process is; cut at its end on a terminal. */
static void put_process(struct text *text, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;
	size_t width = lines->width;

	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, node->name ? node->name : "?");
	snap_line_printf(lines, SNAP_STYLE_BOLD, "[%d]", node->pid);
	if (node->description) {
		char *description = snap_sheet_escape(lines, node->description);

		snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
		if (width > lines->columns + 8)
			snap_elide_end(description, width - lines->columns, lines->signs->dots);
		snap_line_add(lines, SNAP_STYLE_PLAIN, description);
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The parts of the line under a process, parted by dots; begins the line at the first one. */
struct info {
	struct snap_sheet *lines;
	bool begun;
};

static void info_part(struct info *info, const char *word, const char *value)
{
	struct snap_sheet *lines = info->lines;

	if (!info->begun)
		snap_line_begin(lines);
	else
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->middot);
	info->begun = true;
	snap_line_add(lines, SNAP_STYLE_PLAIN, word);
	if (value)
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, value);
}

static void info_threads(struct info *info, const struct snap_node *node)
{
	size_t shown = 0;
	char text[160];

	if (node->stack_count == 0) {
		snprintf(text, sizeof(text), "%zu thread%s not seen", node->threads_missed,
			 plural(node->threads_missed));
		info_part(info, text, NULL);
		return;
	}
	for (size_t i = 0; i < node->stack_count; i++)
		shown += node->stacks[i].count;
	if (shown + node->threads_missed == node->thread_count)
		snprintf(text, sizeof(text), "%zu thread%s in %zu stack%s", shown, plural(shown),
			 node->stack_count, plural(node->stack_count));
	else
		snprintf(text, sizeof(text), "%zu of %zu thread%s in %zu stack%s", shown,
			 node->thread_count, plural(node->thread_count), node->stack_count,
			 plural(node->stack_count));
	info_part(info, text, NULL);
	if (node->threads_missed) {
		snprintf(text, sizeof(text), "%zu not seen", node->threads_missed);
		info_part(info, text, NULL);
	}
}

/* Who and since when; of a child only what is different from its parent. */
static void info_facts(struct text *text, struct info *info, const struct snap_node *node,
		       const struct snap_node *parent)
{
	char number[48], up[SNAP_WHEN_SIZE];

	if (!parent || parent->uid != node->uid) {
		snprintf(number, sizeof(number), "%u", node->uid);
		if (node->user || node->uid != (uid_t)-1)
			info_part(info, "user ", node->user ? node->user : number);
	}
	if ((!parent || text->options->verbose) && node->start_time_ns &&
	    text->snapshot->time_ns > node->start_time_ns) {
		snap_when_uptime(text->snapshot->time_ns - node->start_time_ns, up);
		info_part(info, "up ", up);
	}
	if (node->unit && (!parent || !same(parent->unit, node->unit)))
		info_part(info, "", node->unit);
	if (node->container && (!parent || !same(parent->container, node->container)))
		info_part(info, "container ", node->container);
	if (node->ns_pid && node->ns_pid != node->pid) {
		snprintf(number, sizeof(number), "pid %d in its namespace", node->ns_pid);
		info_part(info, number, NULL);
	}
	for (size_t i = 0; i < node->label_count; i++)
		if (strcmp(node->labels[i].key, "exe_deleted") == 0)
			info_part(info, "program file deleted", NULL);
}

static void put_trouble(struct text *text, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;

	if (!node->trouble)
		return;
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_RED, "error: ");
	snap_line_add_escaped(lines, SNAP_STYLE_RED,
			      node->trouble_message ? node->trouble_message
						    : snap_trouble_word(node->trouble));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_blank(struct snap_sheet *lines)
{
	snap_line_begin(lines);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static bool is_filtered(const struct snap_options *options)
{
	return options->states || options->thread_regex || options->match_regex || options->no_idle;
}

static void put_info(struct text *text, const struct snap_node *node,
		     const struct snap_node *parent)
{
	struct info info = { .lines = &text->lines };
	bool has_items = node->stack_count || node->child_count;

	info_facts(text, &info, node, parent);
	if (node->stack_count > 1 || node->threads_missed > 1 ||
	    (node->stack_count && (!parent || node->threads_missed)))
		info_threads(&info, node);
	else if (node->stack_count == 0 && !node->trouble && is_filtered(text->options))
		info_part(&info, "no stacks match", NULL);
	if (info.begun)
		snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
	put_trouble(text, node);
	if ((info.begun || node->trouble) && has_items && !text->options->summary)
		put_blank(&text->lines);
}

static size_t digits(size_t number)
{
	size_t n = 1;

	while (number >= 10) {
		number /= 10;
		n++;
	}
	return n;
}

/* Stacks of a process begin: their counts are aligned, their frames are its own. */
static void enter_stacks(struct text *text, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;
	size_t rails = 2 * (lines->depth < SNAP_DEEPEST_RAILS ? lines->depth : SNAP_DEEPEST_RAILS);
	enum { INDENT = 8, NARROWEST = 16 };

	snap_text_stacks_clear(&text->stacks);
	text->stacks.count_width = node->stack_count ? digits(node->stacks[0].count) : 1;
	text->stacks.room = 0;
	if (lines->width)
		text->stacks.room = lines->widest_column > rails + INDENT + NARROWEST
					    ? lines->widest_column - rails - INDENT
					    : NARROWEST;
}

/* Begins an item of the tree: the mark stands where the rail of its level is. */
static void begin_item(struct snap_sheet *lines, bool last)
{
	bool hidden = lines->depth > SNAP_DEEPEST_RAILS;

	snap_sheet_pop(lines);
	snap_line_begin(lines);
	if (!hidden)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      last ? lines->signs->corner : lines->signs->tee);
	snap_sheet_push(lines, !last);
}

/* The stacks of a process, the level of whose items has been pushed. */
static void put_stacks(struct text *text, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;

	enter_stacks(text, node);
	for (size_t i = 0; i < node->stack_count && !lines->failed; i++) {
		bool last = i + 1 == node->stack_count && node->child_count == 0;

		if (i && !text->options->summary)
			put_blank(lines);
		begin_item(lines, last);
		if (text->options->summary) {
			snap_text_stack_summary(&text->stacks, &node->stacks[i], NULL);
		} else {
			snap_text_stack_title(&text->stacks, &node->stacks[i], NULL);
			snap_text_stack_frames(&text->stacks, &node->stacks[i]);
		}
	}
}

/* Siblings of which some are still to be written. */
struct level {
	const struct snap_node *parent;
	struct snap_node *const *nodes;
	size_t count, next;
};

/* A process up to and with its stacks; the level of its items stays pushed. */
static void put_node(struct text *text, const struct level *level, const struct snap_node *node)
{
	struct snap_sheet *lines = &text->lines;

	if (level->parent) {
		if (!text->options->summary && (level->next > 1 || level->parent->stack_count))
			put_blank(lines);
		begin_item(lines, level->next == level->count);
	} else {
		snap_line_begin(lines);
		snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
		snap_line_begin(lines);
	}
	put_process(text, node);
	snap_sheet_push(lines, node->stack_count || node->child_count);
	put_info(text, node, level->parent);
	put_stacks(text, node);
}

static void put_tree(struct text *text)
{
	_cleanup_free_ struct level *levels = NULL;
	size_t capacity = 0, depth = 0;

	if (!snap_grow_array(levels, capacity, depth)) {
		text->lines.failed = true;
		return;
	}
	levels[depth++] =
		(struct level){ NULL, text->snapshot->processes, text->snapshot->root_count, 0 };
	while (depth && !text->lines.failed) {
		struct level *level = &levels[depth - 1];
		const struct snap_node *node;

		if (level->next == level->count) {
			depth--;
			if (level->parent)
				snap_sheet_pop(&text->lines);
			continue;
		}
		node = level->nodes[level->next++];
		put_node(text, level, node);
		if (!snap_grow_array(levels, capacity, depth)) {
			text->lines.failed = true;
			return;
		}
		levels[depth++] = (struct level){ node, node->children, node->child_count, 0 };
	}
}

/* A stack and whose it is, for --flat. */
struct owned {
	const struct snap_node *node;
	const struct snap_stack *stack;
};

static int compare_owned(const void *left, const void *right)
{
	const struct owned *a = left, *b = right;

	if (a->stack->count != b->stack->count)
		return a->stack->count > b->stack->count ? -1 : 1;
	if (a->node->pid != b->node->pid)
		return a->node->pid < b->node->pid ? -1 : 1;
	return strcmp(a->stack->id, b->stack->id);
}

static void put_block(struct text *text, const struct owned *block, size_t count_width)
{
	struct snap_sheet *lines = &text->lines;

	enter_stacks(text, block->node);
	text->stacks.count_width = count_width;
	if (!text->options->summary)
		put_blank(lines);
	snap_line_begin(lines);
	if (text->options->summary) {
		snap_text_stack_summary(&text->stacks, block->stack, block->node);
		return;
	}
	snap_text_stack_title(&text->stacks, block->stack, block->node);
	snap_text_stack_frames(&text->stacks, block->stack);
}

/* --flat: a block a stack, whatever the process, then the processes that have none to show. */
static void put_flat(struct text *text)
{
	const struct snap_snapshot *snapshot = text->snapshot;
	_cleanup_free_ struct owned *blocks = malloc((snapshot->stack_count + 1) * sizeof(*blocks));
	size_t count = 0;

	for (size_t i = 0; blocks && i < snapshot->root_count; i++) {
		const struct snap_node *node = snapshot->processes[i];

		for (size_t k = 0; k < node->stack_count && count < snapshot->stack_count; k++)
			blocks[count++] = (struct owned){ node, &node->stacks[k] };
	}
	if (!blocks) {
		text->lines.failed = true;
		return;
	}
	qsort(blocks, count, sizeof(*blocks), compare_owned);
	if (text->options->summary && count)
		put_blank(&text->lines);
	for (size_t i = 0; i < count && !text->lines.failed; i++)
		put_block(text, &blocks[i], digits(blocks[0].stack->count));
	for (size_t i = 0; i < snapshot->root_count; i++) {
		if (snapshot->processes[i]->stack_count)
			continue;
		put_blank(&text->lines);
		snap_line_begin(&text->lines);
		put_process(text, snapshot->processes[i]);
		put_trouble(text, snapshot->processes[i]);
	}
}

static void put_body(struct text *text)
{
	const struct snap_snapshot *snapshot = text->snapshot;

	if (snapshot->flat)
		put_flat(text);
	else
		put_tree(text);
	snap_text_stacks_clear(&text->stacks);
	if (snapshot->stack_count == 0 && is_filtered(text->options)) {
		put_blank(&text->lines);
		snap_line_begin(&text->lines);
		snap_line_add(&text->lines, SNAP_STYLE_PLAIN, "no stacks match");
		snap_line_end(&text->lines, SNAP_STYLE_PLAIN, NULL);
	}
}

struct snap_error *snap_render_text(const struct snap_snapshot *snapshot,
				    const struct snap_options *options, FILE *out)
{
	_cleanup_(text_deinit) struct text text = { .snapshot = snapshot, .options = options };

	snap_sheet_init(&text.lines, options, out);
	text.stacks.lines = &text.lines;
	text.stacks.options = options;
	put_head(&text);
	text.lines.measuring = true;
	put_body(&text);
	text.lines.measuring = false;
	put_body(&text);
	if (text.lines.failed)
		return snap_error_no_memory();
	if (ferror(out))
		return snap_error_os(errno, "cannot write the report");
	return NULL;
}
