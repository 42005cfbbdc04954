/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What stands where: see draw.h.
 *
 *     stacksnap top  orderd[1234]  64 threads  10 looks/s  stopped 0.31 %
 *     groups by share, last 5 s: running 1.0, sleeping 63.0
 *      share  state     threads  names       function (in leaf)            waits
 *     96.9 %  sleeping     62.0  worker-*    queue_pop (in pthread_cond…)  condition queue.more
 *     …
 *     s sort  f filter  Enter stack  …
 */
#include "top/draw.h"

#include <stdio.h>
#include <string.h>

enum {
	FOOT_FROM = 3, /* lines that a screen has at least for the last line … */
	HEAD_FROM = 5, /* … for the titles of columns … */
	INFO_FROM = 7, /* … and for the line above them */

	SHARE_COLUMNS = 8,
	STATE_COLUMNS = 10,
	THREADS_COLUMNS = 9,
	NAMES_COLUMNS = 17,
	STATE_FROM = 30, /* columns that a screen has at least for these */
	THREADS_FROM = 44,
	NAME_OF_TOOL_FROM = 60,
	NAMES_FROM = 100,
	WAIT_FROM = 72,
	PLACE_FROM = 50,

	MOST_LINE = 1024, /* bytes */
};

struct layout {
	unsigned info, head, body, foot; /* lines; UINT_MAX: there is none */
	unsigned body_rows;
};

static const unsigned NOWHERE = ~0u;

static struct layout lay_out(const struct snap_top_screen *screen)
{
	struct layout at = { .info = NOWHERE, .head = NOWHERE, .foot = NOWHERE };
	unsigned rows = screen->rows, next = rows > 1;

	if (rows >= INFO_FROM)
		at.info = next++;
	if (rows >= HEAD_FROM)
		at.head = next++;
	at.body = next;
	if (rows >= FOOT_FROM)
		at.foot = --rows;
	at.body_rows = rows > next ? rows - next : 0;
	return at;
}

static void put_line(struct snap_top_screen *screen, unsigned row, const char *text, unsigned style)
{
	unsigned used = snap_top_screen_put(screen, row, 0, screen->columns, text,
					    SNAP_TOP_KEEP_HEAD, style);

	if (style & SNAP_TOP_REVERSE)
		snap_top_screen_fill(screen, row, used, style);
}

/* ---- the head ---- */

static void print_targets(const struct snap_top_table *table, char *out, size_t size)
{
	const struct stacksnap_group *first =
		table->groups ? stacksnap_groups_get(table->groups, 0) : NULL;

	if (!first)
		snprintf(out, size, "looking");
	else if (table->process_count == 1)
		snprintf(out, size, "%s[%d]", first->process, first->pid);
	else
		snprintf(out, size, "%zu processes", table->process_count);
}

static void draw_title(struct snap_top_screen *screen, const struct snap_top_view *view,
		       const struct snap_top_table *table, const struct snap_top_status *status)
{
	char text[MOST_LINE], targets[MOST_LINE / 4];

	print_targets(table, targets, sizeof(targets));
	snprintf(text, sizeof(text), "%s%s%s  %llu thread%s  %.1f looks/s  stopped %.2f %%",
		 screen->columns >= NAME_OF_TOOL_FROM ? "stacksnap top  " : "",
		 view->paused ? "PAUSED  " : "", targets, status->threads,
		 status->threads == 1 ? "" : "s", status->hz_reached, status->stopped_percent);
	put_line(screen, 0, text, SNAP_TOP_BOLD);
}

/* How many threads were in each state on average; the first few of them. */
static void print_states(const struct snap_top_table *table, char *out, size_t size)
{
	static const char *const states[] = { "running", "disk",    "sleeping",
					      "stopped", "waiting", "runnable" };
	const struct stacksnap_group *group;
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]) && table->ticks; i++) {
		unsigned long long samples = 0;

		for (size_t k = 0; (group = stacksnap_groups_get(table->groups, k)); k++)
			if (group->state && strcmp(group->state, states[i]) == 0)
				samples += group->samples;
		if (samples && used < size)
			used += (size_t)snprintf(out + used, size - used, "%s%s %.1f",
						 used ? ", " : "", states[i],
						 (double)samples / (double)table->ticks);
	}
}

static void draw_info(struct snap_top_screen *screen, unsigned row,
		      const struct snap_top_view *view, const struct snap_top_table *table,
		      const struct snap_top_status *status)
{
	char text[MOST_LINE], states[MOST_LINE / 4], filter[4 * sizeof(view->choice.filter) + 1];

	if (status->ended) {
		put_line(screen, row, status->why, SNAP_TOP_BOLD);
		return;
	}
	stacksnap_escape(view->choice.filter, strlen(view->choice.filter), !screen->utf8, filter,
			 sizeof(filter));
	print_states(table, states, sizeof(states));
	snprintf(text, sizeof(text), "%s by %s, last %d s%s%s%s%s",
		 snap_top_rows_word(view->choice.rows), snap_top_sort_word(view->choice.sort),
		 SNAP_TOP_SHOWN_S, *filter ? ", filter " : "", filter, *states ? ": " : "", states);
	put_line(screen, row, text, SNAP_TOP_PLAIN);
}

/* ---- rows ---- */

/* Where columns begin; NOWHERE: there is no room. */
struct columns {
	unsigned state, threads, names, function, wait;
	unsigned function_columns;
};

static struct columns columns_of(const struct snap_top_screen *screen)
{
	struct columns at = {
		.state = NOWHERE, .threads = NOWHERE, .names = NOWHERE, .wait = NOWHERE
	};
	unsigned next = SHARE_COLUMNS, left;

	if (screen->columns >= STATE_FROM) {
		at.state = next;
		next += STATE_COLUMNS;
	}
	if (screen->columns >= THREADS_FROM) {
		at.threads = next;
		next += THREADS_COLUMNS;
	}
	if (screen->columns >= NAMES_FROM) {
		at.names = next;
		next += NAMES_COLUMNS;
	}
	at.function = next;
	left = screen->columns > next ? screen->columns - next : 1;
	at.function_columns = left;
	if (screen->columns >= WAIT_FROM) {
		at.function_columns = left * 3 / 5 - 2;
		at.wait = next + left * 3 / 5;
	}
	return at;
}

static void put_cell(struct snap_top_screen *screen, unsigned row, unsigned column,
		     unsigned columns, const char *text, unsigned style)
{
	if (column != NOWHERE && text)
		snap_top_screen_put(screen, row, column, columns, text, SNAP_TOP_KEEP_HEAD, style);
}

static void draw_head(struct snap_top_screen *screen, unsigned row)
{
	const struct columns at = columns_of(screen);

	snap_top_screen_fill(screen, row, 0, SNAP_TOP_REVERSE);
	put_cell(screen, row, 0, SHARE_COLUMNS - 1, " share", SNAP_TOP_REVERSE);
	put_cell(screen, row, at.state, STATE_COLUMNS - 1, "state", SNAP_TOP_REVERSE);
	put_cell(screen, row, at.threads, THREADS_COLUMNS - 2, "threads", SNAP_TOP_REVERSE);
	put_cell(screen, row, at.names, NAMES_COLUMNS - 1, "names", SNAP_TOP_REVERSE);
	put_cell(screen, row, at.function, at.function_columns, "function", SNAP_TOP_REVERSE);
	put_cell(screen, row, at.wait, screen->columns, "waits for", SNAP_TOP_REVERSE);
}

/* Colour is never the only sign. */
static const char *shown_state(const char *state)
{
	if (!state)
		return "several";
	if (strcmp(state, "running") == 0)
		return "RUNNING";
	return strcmp(state, "disk") == 0 ? "DISK" : state;
}

static unsigned style_of(const char *state)
{
	if (state && strcmp(state, "running") == 0)
		return SNAP_TOP_GREEN | SNAP_TOP_BOLD;
	if (state && strcmp(state, "disk") == 0)
		return SNAP_TOP_RED | SNAP_TOP_BOLD;
	return SNAP_TOP_PLAIN;
}

static void draw_row(struct snap_top_screen *screen, unsigned row,
		     const struct snap_top_table *table, const struct snap_top_row *of,
		     bool is_chosen)
{
	const struct columns at = columns_of(screen);
	unsigned style = is_chosen ? SNAP_TOP_REVERSE : SNAP_TOP_PLAIN;
	char text[MOST_LINE];

	if (is_chosen)
		snap_top_screen_fill(screen, row, 0, style);
	snprintf(text, sizeof(text), "%5.1f %%", snap_top_row_share(table, of));
	put_cell(screen, row, 0, SHARE_COLUMNS - 1, text, style);
	put_cell(screen, row, at.state, STATE_COLUMNS - 1, shown_state(of->state),
		 style | style_of(of->state));
	snprintf(text, sizeof(text), "%7.1f", snap_top_row_threads(table, of));
	put_cell(screen, row, at.threads, THREADS_COLUMNS - 2, text, style);
	put_cell(screen, row, at.names, NAMES_COLUMNS - 1, of->threads ? of->threads : "", style);
	snprintf(text, sizeof(text), "%s%s%s%s", of->function, of->leaf ? " (in " : "",
		 of->leaf ? of->leaf : "", of->leaf ? ")" : "");
	put_cell(screen, row, at.function, at.function_columns, text, style);
	put_cell(screen, row, at.wait, screen->columns, of->wait, style);
}

/* The chosen row is on the screen, and no line below the last row is empty without need. */
static void scroll_rows(struct snap_top_view *view, const struct snap_top_table *table,
			unsigned rows)
{
	if (view->first + rows > table->count)
		view->first = table->count > rows ? table->count - rows : 0;
	if (view->cursor < view->first)
		view->first = view->cursor;
	if (rows && view->cursor >= view->first + rows)
		view->first = view->cursor - rows + 1;
}

static void draw_rows(struct snap_top_screen *screen, const struct layout *at,
		      struct snap_top_view *view, const struct snap_top_table *table)
{
	if (at->head != NOWHERE)
		draw_head(screen, at->head);
	scroll_rows(view, table, at->body_rows);
	for (unsigned i = 0; i < at->body_rows && view->first + i < table->count; i++)
		draw_row(screen, at->body + i, table, &table->rows[view->first + i],
			 view->first + i == view->cursor);
	if (table->count == 0 && at->body_rows)
		put_line(screen, at->body,
			 !table->groups         ? "no samples yet"
			 : *view->choice.filter ? "nothing matches the filter"
						: "no samples in the last seconds",
			 SNAP_TOP_PLAIN);
}

/* ---- a stack, the help ---- */

static void draw_stack_line(struct snap_top_screen *screen, unsigned row,
			    const struct snap_top_line *line)
{
	unsigned columns = screen->columns, place = 0, wanted;

	if (line->place && columns >= PLACE_FROM) {
		wanted = snap_top_columns(line->place, screen->utf8);
		place = wanted < columns * 2 / 5 ? wanted : columns * 2 / 5;
		snap_top_screen_put(screen, row, columns - place, place, line->place,
				    SNAP_TOP_KEEP_TAIL, SNAP_TOP_DIM);
		columns -= place + 2;
	}
	snap_top_screen_put(screen, row, 0, columns, line->text, SNAP_TOP_KEEP_HEAD,
			    SNAP_TOP_PLAIN);
}

static void draw_stack(struct snap_top_screen *screen, const struct layout *at,
		       const struct snap_top_view *view)
{
	if (at->head != NOWHERE)
		put_line(screen, at->head,
			 view->stack.gone ? "stack (no thread stood there in the last seconds)"
					  : "stack, the innermost function first",
			 SNAP_TOP_REVERSE);
	for (unsigned i = 0; i < at->body_rows && view->scroll + i < view->stack.count; i++)
		draw_stack_line(screen, at->body + i, &view->stack.lines[view->scroll + i]);
}

static void draw_help(struct snap_top_screen *screen, const struct layout *at,
		      const struct snap_top_view *view)
{
	const char *line;

	if (at->head != NOWHERE)
		put_line(screen, at->head, "keys; see stacksnap-top(1)", SNAP_TOP_REVERSE);
	for (unsigned i = 0; i < at->body_rows; i++) {
		line = snap_top_help_line(view->scroll + i);
		if (!line)
			return;
		put_line(screen, at->body + i, line, SNAP_TOP_PLAIN);
	}
}

/* ---- the last line ---- */

static const char *keys_of(const struct snap_top_view *view)
{
	switch (view->page) {
	case SNAP_TOP_PAGE_ROWS:
		return "q quit  ? help  Enter stack  Tab groups/functions  s sort  f filter  "
		       "p pause  w write";
	case SNAP_TOP_PAGE_STACK:
		return "Esc back  q quit  ? help  p pause  w write";
	case SNAP_TOP_PAGE_HELP:
		return "Esc back  q quit";
	}
	return "";
}

/* What was typed, whose end is what matters. */
static void draw_input(struct snap_top_screen *screen, unsigned row, const char *prompt,
		       const char *input)
{
	char text[4 * SNAP_TOP_INPUT_SIZE + 2];
	unsigned used = snap_top_screen_put(screen, row, 0, screen->columns / 2, prompt,
					    SNAP_TOP_KEEP_HEAD, SNAP_TOP_BOLD);
	size_t length =
		stacksnap_escape(input, strlen(input), !screen->utf8, text, sizeof(text) - 1);

	memcpy(text + length, "_", 2);
	snap_top_screen_put(screen, row, used, screen->columns, text, SNAP_TOP_KEEP_TAIL,
			    SNAP_TOP_PLAIN);
}

static void draw_foot(struct snap_top_screen *screen, unsigned row,
		      const struct snap_top_view *view)
{
	if (view->message[0]) {
		put_line(screen, row, view->message, SNAP_TOP_BOLD);
		return;
	}
	switch (view->prompt) {
	case SNAP_TOP_PROMPT_NONE:
		put_line(screen, row, keys_of(view), SNAP_TOP_DIM);
		break;
	case SNAP_TOP_PROMPT_FILTER:
		draw_input(screen, row, "filter: ", view->input);
		break;
	case SNAP_TOP_PROMPT_WHAT:
		put_line(screen, row,
			 "write: s a snapshot, m the last minute (--ring), Esc nothing",
			 SNAP_TOP_BOLD);
		break;
	case SNAP_TOP_PROMPT_NAME:
		draw_input(screen, row, "file: ", view->input);
		break;
	}
}

void snap_top_draw(struct snap_top_screen *screen, struct snap_top_view *view,
		   const struct snap_top_table *table, const struct snap_top_status *status)
{
	struct layout at;

	snap_top_screen_begin(screen);
	at = lay_out(screen);
	view->page_size = at.body_rows ? at.body_rows : 1;
	if (screen->rows > 1)
		draw_title(screen, view, table, status);
	if (at.info != NOWHERE)
		draw_info(screen, at.info, view, table, status);
	switch (view->page) {
	case SNAP_TOP_PAGE_ROWS:
		draw_rows(screen, &at, view, table);
		break;
	case SNAP_TOP_PAGE_STACK:
		draw_stack(screen, &at, view);
		break;
	case SNAP_TOP_PAGE_HELP:
		draw_help(screen, &at, view);
		break;
	}
	if (at.foot != NOWHERE)
		draw_foot(screen, at.foot, view);
	snap_top_screen_show(screen);
}
