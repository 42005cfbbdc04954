/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See wait.h. The words are those of model/wait/text.c. */
#include "render/text/wait.h"

#include "base/bsearch.h"
#include "base/text.h"
#include "model/wait/kind.h"
#include "render/text/stack/lock_numbers.h"

#include <string.h>

enum {
	MOST_LINES = 8, /* of a stack: different things that are listed one by one */
	MOST_TIDS = 5,
};

/* Threads of which the same is said. */
struct alike {
	const struct snap_wait *wait; /* of the first one */
	bool differ;                  /* others wait for something else that is called the same */
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

/* `numbers` NULL: the same words for locks that nothing names. */
static char *line_of_wait(const struct snap_options *options, struct snap_lock_numbers *numbers,
			  const struct snap_wait *wait, const struct snap_wait_times *times)
{
	struct snap_wait shown = snap_numbered_wait(numbers, options, wait);

	return snap_wait_line_of(&shown, times, options->explain == SNAP_EXPLAIN_ALL);
}

/* The entry of threads that wait for the same thing, or for things that the line shows alike. */
static struct alike *find_alike(struct alikes *alikes, const struct snap_options *options,
				const struct snap_wait *wait)
{
	static const struct snap_wait_times none = { -1, -1, -1, -1 };
	struct alike *alike = alikes->items, *end = alike + alikes->count;
	_cleanup_free_ char *line = NULL;

	while (alike < end && !snap_wait_same(alike->wait, wait))
		alike++;
	if (alike < end)
		return alike;
	line = line_of_wait(options, NULL, wait, &none);
	for (alike = alikes->items; line && alike < end; alike++) {
		if (!alike->line || strcmp(alike->line, line) != 0)
			continue;
		alike->differ = true;
		return alike;
	}
	if (alikes->count == MOST_LINES)
		return NULL;
	alikes->items[alikes->count] = (struct alike){ .wait = wait,
						       .line = snap_take_ptr(line),
						       .times = snap_wait_times_of(wait) };
	return &alikes->items[alikes->count++];
}

static void add_wait_thread(struct alikes *alikes, const struct snap_options *options,
			    const struct snap_member *thread)
{
	struct alike *alike = find_alike(alikes, options, thread->wait);

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
	_cleanup_free_ char *line = line_of_wait(options, alike->differ ? NULL : lines->locks,
						 alike->wait, &alike->times);

	if (!line) {
		lines->failed = true;
		return;
	}
	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + indent);
	lines->hang = indent + 2;
	snap_line_add_escaped(lines, SNAP_STYLE_CYAN, line);
	if (alike->differ && snap_wait_kind_is(alike->wait->kind, SNAP_KIND_ADDRESS))
		snap_line_add(lines, SNAP_STYLE_DIM, ", not all the same one");
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
			add_wait_thread(&alikes, options, &stack->threads[i]);
	/* Of tasks in a system call it is what their threads wait for. */
	if (stack->task_count && snap_wait_is_shown(stack->wait, all))
		(void)find_alike(&alikes, options, stack->wait);
	qsort(alikes.items, alikes.count, sizeof(alikes.items[0]), compare_alikes);
	for (size_t i = 0; i < alikes.count; i++)
		put_alike(lines, options, &alikes.items[i], indent,
			  alikes.items[i].count < stack->thread_count);
	if (!alikes.others)
		return;
	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + indent);
	snap_line_printf(lines, SNAP_STYLE_DIM, "%zu thread%s more wait%s for other things",
			 alikes.others, snap_plural(alikes.others), alikes.others == 1 ? "s" : "");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
