/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See wait.h. The words are those of model/wait/text.c. */
#include "render/text/wait.h"

#include "base/bsearch.h"
#include "render/view/elide.h"

#include <string.h>

enum {
	MOST_LINES = 8, /* of a stack: different things that are listed one by one */
	MOST_TIDS = 5,
};

/* Threads of which the same is said. */
struct alike {
	const struct snap_wait *wait; /* of the first one */
	char *line;                   /* what is said, without times */
	struct snap_wait_times times;
	size_t count;
	pid_t tids[MOST_TIDS]; /* the first ones */
};

struct alikes {
	struct alike items[MOST_LINES];
	size_t count;
	size_t others; /* threads that wait for something else than those */
};

static void alikes_deinit(struct alikes *alikes)
{
	for (size_t i = 0; i < alikes->count; i++)
		free(alikes->items[i].line);
}

/* The entry of threads that wait for the same thing, or for things that the line shows alike. */
static struct alike *find_alike(struct alikes *alikes, const struct snap_wait *wait, bool all)
{
	static const struct snap_wait_times none = { -1, -1, -1, -1 };
	struct alike *alike = alikes->items, *end = alike + alikes->count;
	_cleanup_free_ char *line = NULL;

	while (alike < end && !snap_wait_same(alike->wait, wait))
		alike++;
	if (alike < end)
		return alike;
	line = snap_wait_line_of(wait, &none, all);
	for (alike = alikes->items; line && alike < end; alike++)
		if (alike->line && strcmp(alike->line, line) == 0)
			return alike;
	if (alikes->count == MOST_LINES)
		return NULL;
	alikes->items[alikes->count] = (struct alike){ .wait = wait,
						       .line = snap_take_ptr(line),
						       .times = snap_wait_times_of(wait) };
	return &alikes->items[alikes->count++];
}

static void add_wait_thread(struct alikes *alikes, const struct snap_member *thread, bool all)
{
	struct alike *alike = find_alike(alikes, thread->wait, all);

	if (!alike) {
		alikes->others++;
		return;
	}
	snap_wait_times_add(&alike->times, thread->wait);
	if (alike->count < MOST_TIDS)
		alike->tids[alike->count] = thread->tid;
	alike->count++;
}

/* By count down; among equals the first thread decides, which has the lowest tid. */
SNAP_ORDER(compare_alikes, struct alike, a, b, snap_compare(b->count, a->count),
	   snap_compare(a->tids[0], b->tids[0]));

static void add_tids(struct snap_sheet *lines, const struct alike *alike)
{
	size_t shown = alike->count < MOST_TIDS ? alike->count : MOST_TIDS;

	snap_line_printf(lines, SNAP_STYLE_DIM, "  tid%s ", alike->count == 1 ? "" : "s");
	for (size_t i = 0; i < shown; i++)
		snap_line_printf(lines, SNAP_STYLE_DIM, "%s%d", i ? ", " : "", alike->tids[i]);
	if (alike->count > shown)
		snap_line_printf(lines, SNAP_STYLE_DIM, " and %zu more", alike->count - shown);
}

static void put_alike(struct snap_sheet *lines, const struct snap_options *options,
		      const struct alike *alike, size_t indent, bool with_tids)
{
	bool all = options->explain == SNAP_EXPLAIN_ALL;
	_cleanup_free_ char *line = snap_wait_line_of(alike->wait, &alike->times, all);
	char *escaped;

	if (!line) {
		lines->failed = true;
		return;
	}
	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + indent);
	escaped = snap_sheet_escape(lines, line);
	if (lines->width > lines->columns + 8 && !options->full_names && !with_tids)
		snap_elide_end(escaped, lines->width - lines->columns, lines->signs->dots);
	snap_line_add(lines, SNAP_STYLE_CYAN, escaped);
	if (with_tids)
		add_tids(lines, alike);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_waits(struct snap_sheet *lines, const struct snap_options *options,
		     const struct snap_stack *stack, size_t indent)
{
	bool all = options->explain == SNAP_EXPLAIN_ALL;
	_cleanup_(alikes_deinit) struct alikes alikes = { .count = 0, .others = 0 };

	/* These lines have no right part, so they widen no column. */
	if (lines->measuring || options->explain == SNAP_EXPLAIN_NO)
		return;
	for (size_t i = 0; i < stack->thread_count; i++)
		if (snap_wait_is_shown(stack->threads[i].wait, all))
			add_wait_thread(&alikes, &stack->threads[i], all);
	qsort(alikes.items, alikes.count, sizeof(alikes.items[0]), compare_alikes);
	for (size_t i = 0; i < alikes.count; i++)
		put_alike(lines, options, &alikes.items[i], indent,
			  alikes.items[i].count < stack->thread_count);
	if (!alikes.others)
		return;
	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + indent);
	snap_line_printf(lines, SNAP_STYLE_DIM, "%zu thread%s more wait%s for other things",
			 alikes.others, alikes.others == 1 ? "" : "s",
			 alikes.others == 1 ? "s" : "");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
