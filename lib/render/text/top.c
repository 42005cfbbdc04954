/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See top.h. */
#include "render/text/top.h"

#include "base/table.h"
#include "base/text.h"
#include "render/text/stack.h"
#include "render/text/stack/lock_numbers.h"
#include "render/view/elide.h"
#include "render/view/walk.h"
#include "render/view/when.h"

#include <string.h>

enum {
	CONTENDED_SHOWN = 5,
	BLOCKERS_SHOWN = 5,
};

struct top {
	struct snap_sheet *lines;
	const struct snap_options *options;
	const struct snap_snapshot *snapshot;
	const struct snap_waits *waits;
	struct snap_pointer_table nodes; /* of processes, by pid */
	size_t process_count;
	bool begun; /* a line stands there already */
};

/* Texts that were made, each of which may be missing without memory. */
static void add_made(struct snap_sheet *lines, enum snap_style style, char *text)
{
	if (!text)
		lines->failed = true;
	else
		snap_line_add_escaped(lines, style, text);
	free(text);
}

/* A line of its own, behind an empty one if it is the first. */
static void begin_top_line(struct top *top, enum snap_style style, const char *word)
{
	if (!top->begun)
		snap_line_blank(top->lines);
	top->begun = true;
	snap_line_begin(top->lines);
	snap_line_add(top->lines, style, word);
}

static const void *key_of_pid(pid_t pid)
{
	return (const void *)(uintptr_t)pid;
}

static void list_top_node(struct top *top, const struct snap_node *node)
{
	struct snap_pointer_entry *entry =
		snap_pointer_table_get(&top->nodes, key_of_pid(node->pid));

	if (entry && !entry->pointer)
		entry->pointer = (void *)(uintptr_t)node;
	top->lines->failed = top->lines->failed || !entry;
}

static void list_top_nodes(struct top *top)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, top->snapshot);
	while (snap_walk_next(&walk, &step))
		list_top_node(top, step.node);
}

/* Of a process that a filter hides: as its first thread is called, if a deadlock has that; else "". */
static const char *hidden_name(const struct top *top, pid_t pid)
{
	for (size_t i = 0; i < top->waits->deadlock_count; i++)
		for (size_t k = 0; k < top->waits->deadlocks[i].thread_count; k++) {
			const struct snap_wait_link *link = &top->waits->deadlocks[i].threads[k];

			if (link->pid == pid && link->tid == pid && link->name)
				return link->name;
		}
	return "";
}

/*
 * "java[18660] " in a report of several processes, "[18660] " of one that a filter hides, else "".
 * Malloc'ed, raw; NULL without memory.
 */
static char *process_prefix(const struct top *top, pid_t pid)
{
	const struct snap_pointer_entry *entry =
		snap_pointer_table_find(&top->nodes, key_of_pid(pid));
	const struct snap_node *node = entry ? entry->pointer : NULL;
	char *prefix;

	if (pid <= 0 || (node && top->process_count == 1))
		return strdup("");
	return asprintf(&prefix, "%s[%d] ", node && node->name ? node->name : hidden_name(top, pid),
			pid) < 0
		       ? NULL
		       : prefix;
}

/* ---- deadlocks ---- */

/* Columns of what the threads of a deadlock have: wide names move nothing but their own line. */
struct columns {
	size_t name, waits, held, function;
};

static size_t width_of(struct snap_sheet *lines, char *text, size_t widest)
{
	size_t width = strlen(snap_sheet_escape(lines, text ? text : ""));

	free(text);
	return width < widest ? width : widest;
}

static void widen_top_column(size_t *column, size_t width)
{
	*column = SNAP_MAX(*column, width);
}

/* malloc'ed; NULL without memory */
static char *link_line(const struct top *top, const struct snap_wait_link *link)
{
	struct snap_wait wait = snap_numbered_wait(top->lines->locks, top->options, link->wait);

	return snap_wait_link_line(&wait);
}

static struct columns measure(const struct top *top, const struct snap_deadlock *deadlock)
{
	enum { WIDEST = 48 };
	struct snap_sheet *lines = top->lines;
	struct columns columns = { 0 };

	for (size_t i = 0; i < deadlock->thread_count; i++) {
		const struct snap_wait_link *link = &deadlock->threads[i];
		_cleanup_free_ char *prefix = process_prefix(top, link->pid);
		char *name = NULL;

		if (asprintf(&name, "%s%d %s", prefix ? prefix : "", link->tid,
			     link->name ? link->name : "") < 0)
			name = NULL;
		widen_top_column(&columns.name, width_of(lines, name, WIDEST));
		widen_top_column(&columns.waits, width_of(lines, link_line(top, link), WIDEST));
		widen_top_column(&columns.held,
				 width_of(lines, snap_wait_owner_line(link->wait), WIDEST));
		if (link->function)
			widen_top_column(&columns.function,
					 width_of(lines,
						  snap_short_name(top->options, top->options->utf8,
								  link->function),
						  WIDEST));
	}
	return columns;
}

/* Goes on at a column, at least three blanks further on. */
static void continue_top_line(struct snap_sheet *lines, size_t *column, size_t width)
{
	*column += width + 3;
	snap_line_pad(lines, lines->columns + 3 > *column ? lines->columns + 3 : *column);
}

static void put_top_link(const struct top *top, const struct snap_wait_link *link,
			 const struct columns *columns)
{
	struct snap_sheet *lines = top->lines;
	size_t column = 2;

	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
	add_made(lines, SNAP_STYLE_PLAIN, process_prefix(top, link->pid));
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%d ", link->tid);
	if (link->name)
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, link->name);
	continue_top_line(lines, &column, columns->name);
	add_made(lines, SNAP_STYLE_PLAIN, link_line(top, link));
	if (columns->held) {
		continue_top_line(lines, &column, columns->waits);
		add_made(lines, SNAP_STYLE_PLAIN, snap_wait_owner_line(link->wait));
		continue_top_line(lines, &column, columns->held);
	} else {
		continue_top_line(lines, &column, columns->waits);
	}
	if (link->function)
		add_made(lines, SNAP_STYLE_PLAIN,
			 snap_short_name(top->options, top->options->utf8, link->function));
	if (link->file) {
		continue_top_line(lines, &column, columns->function);
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, snap_base_name(link->file));
		if (link->line)
			snap_line_printf(lines, SNAP_STYLE_DIM, ":%u", link->line);
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_deadlock(struct top *top, const struct snap_deadlock *deadlock)
{
	struct snap_sheet *lines = top->lines;
	struct columns columns = measure(top, deadlock);

	begin_top_line(top,
		       snap_deadlock_is_real(deadlock) ? SNAP_STYLE_RED_BOLD : SNAP_STYLE_YELLOW,
		       snap_wait_deadlock_word(deadlock));
	snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
	add_made(lines, SNAP_STYLE_PLAIN, snap_wait_deadlock_line(deadlock));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
	for (size_t i = 0; i < deadlock->thread_count; i++)
		put_top_link(top, &deadlock->threads[i], &columns);
	if (deadlock->size == deadlock->thread_count)
		return;
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  and %zu more",
			 deadlock->size - deadlock->thread_count);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_deadlocks(struct top *top)
{
	const struct snap_waits *waits = top->waits;

	for (size_t i = 0; i < waits->deadlock_count; i++)
		put_deadlock(top, &waits->deadlocks[i]);
	if (waits->deadlock_total <= waits->deadlock_count)
		return;
	begin_top_line(top, SNAP_STYLE_PLAIN, "");
	snap_line_printf(top->lines, SNAP_STYLE_PLAIN, "and %zu more deadlock%s",
			 waits->deadlock_total - waits->deadlock_count,
			 snap_plural(waits->deadlock_total - waits->deadlock_count));
	snap_line_end(top->lines, SNAP_STYLE_PLAIN, NULL);
}

/* ---- threads that hold up others, and locks that do ---- */

static void put_blockers(struct top *top)
{
	for (size_t i = 0; i < top->waits->blocker_count && i < BLOCKERS_SHOWN; i++) {
		begin_top_line(top, SNAP_STYLE_YELLOW, "blocked    ");
		add_made(top->lines, SNAP_STYLE_PLAIN,
			 process_prefix(top, top->waits->blockers[i].pid));
		add_made(top->lines, SNAP_STYLE_PLAIN,
			 snap_wait_blocker_line(&top->waits->blockers[i]));
		snap_line_end(top->lines, SNAP_STYLE_PLAIN, NULL);
	}
}

static void put_top_contended(struct top *top)
{
	size_t shown = 0;

	for (size_t i = 0; i < top->waits->contended_count && shown < CONTENDED_SHOWN; i++) {
		const struct snap_contended *contended = &top->waits->contended[i];
		struct snap_wait wait =
			snap_numbered_wait(top->lines->locks, top->options, contended->wait);
		char *object = snap_wait_object(&wait);

		if (shown++)
			snap_line_add(top->lines, SNAP_STYLE_PLAIN, ", ");
		else
			begin_top_line(top, SNAP_STYLE_YELLOW, "contended  ");
		snap_line_printf(top->lines, SNAP_STYLE_PLAIN, "%zu %s ", contended->waiters,
				 top->lines->signs->times);
		add_made(top->lines, SNAP_STYLE_PLAIN, process_prefix(top, contended->pid));
		add_made(top->lines, SNAP_STYLE_PLAIN, object);
	}
	if (top->waits->contended_count > shown)
		snap_line_printf(top->lines, SNAP_STYLE_PLAIN, " and %zu more",
				 top->waits->contended_count - shown);
	if (shown)
		snap_line_end(top->lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_lack(struct top *top, size_t *count, size_t number, const char *text)
{
	if ((*count)++)
		snap_line_add(top->lines, SNAP_STYLE_DIM, ", ");
	else
		begin_top_line(top, SNAP_STYLE_DIM, "waits are not known in full: ");
	if (number)
		snap_line_printf(top->lines, SNAP_STYLE_DIM, "%zu ", number);
	snap_line_add(top->lines, SNAP_STYLE_DIM, text);
}

/* What is not known, and why: if the caller asked for more. */
static void put_lacks(struct top *top)
{
	/* With deadlocks alone, a search that was cut must not look like a good sign. */
	const bool searching = top->options->deadlocks_only;
	const struct snap_missing *missing = &top->snapshot->missing;
	size_t count = 0;

	if (!searching && !top->options->verbose && top->options->explain != SNAP_EXPLAIN_ALL)
		return;
	for (unsigned bit = 0; 1u << bit <= SNAP_LACK_ALL; bit++)
		if (top->waits->lacks >> bit & 1)
			put_lack(top, &count, 0, snap_wait_lack_text(bit));
	if (searching && missing->threads)
		put_lack(top, &count, missing->threads,
			 missing->threads == 1 ? "thread that was not stopped"
					       : "threads that were not stopped");
	if (searching && missing->processes)
		put_lack(top, &count, missing->processes,
			 missing->processes == 1 ? "process that could not be read"
						 : "processes that could not be read");
	if (count)
		snap_line_end(top->lines, SNAP_STYLE_PLAIN, NULL);
}

/* --again: threads that have not run and are where they were. Those shown are marked below, too. */
static void put_top_stuck(struct top *top)
{
	const struct snap_snapshot *snapshot = top->snapshot;
	struct snap_sheet *lines = top->lines;
	char length[SNAP_WHEN_SIZE];

	snap_when_length(snapshot->again_ns, length);
	begin_top_line(top, SNAP_STYLE_YELLOW, "stuck      ");
	if (!snapshot->stuck && snapshot->stopped)
		snap_line_add(lines, SNAP_STYLE_PLAIN, "none");
	else if (!snapshot->stuck)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "none: all threads ran within %s",
				 length);
	else
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu thread%s %s not run for %s",
				 snapshot->stuck, snap_plural(snapshot->stuck),
				 snapshot->stuck == 1 ? "has" : "have", length);
	if (snapshot->stuck_idle && snapshot->stuck_idle == snapshot->stuck)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", and wait%s for work",
				 snapshot->stuck == 1 ? "s" : "");
	else if (snapshot->stuck_idle)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu of them wait%s for work",
				 snapshot->stuck_idle, snapshot->stuck_idle == 1 ? "s" : "");
	if (snapshot->stopped)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "; %zu thread%s %s stopped by a signal",
				 snapshot->stopped, snap_plural(snapshot->stopped),
				 snapshot->stopped == 1 ? "is" : "are");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_top(struct snap_sheet *lines, const struct snap_options *options,
		   const struct snap_snapshot *snapshot)
{
	struct top top = { .lines = lines,
			   .options = options,
			   .snapshot = snapshot,
			   .waits = &snapshot->waits,
			   .process_count = snapshot->process_count,
			   .begun = options->deadlocks_only };

	if (snapshot->again_ns && !options->deadlocks_only)
		put_top_stuck(&top);
	if (options->explain == SNAP_EXPLAIN_NO)
		return;
	list_top_nodes(&top);
	put_deadlocks(&top);
	put_blockers(&top);
	put_top_contended(&top);
	put_lacks(&top);
	snap_pointer_table_deinit(&top.nodes);
}

void snap_text_deadlocks(struct snap_sheet *lines, const struct snap_options *options,
			 const struct snap_recording *recording, const struct snap_waits *waits)
{
	struct top top = { .lines = lines,
			   .options = options,
			   .waits = waits,
			   .process_count = recording->process_count };

	for (size_t i = 0; i < recording->process_count && waits->deadlock_count; i++)
		list_top_node(&top, recording->processes[i].node);
	put_deadlocks(&top);
	snap_pointer_table_deinit(&top.nodes);
}
