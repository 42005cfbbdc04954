/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What stands where: see draw.h.
 *
 *     stacksnap top  orderd[1234]  64 threads  10 looks/s  stopped 0.31 %
 *     groups by urgency, last 5 s: running 1.0, sleeping 63.0
 *     DEADLOCK  2 threads: 1240 dl1 waits for mutex accounts, held by 1241 dl2; 1241 dl2 waits for …
 *     blocked 62.0 threads: mutex queue.lock, held by 1302 flusher (in flush)
 *      share  state     threads  names       function (in leaf)       waits for
 *     96.9 %  sleeping     62.0  worker-*    queue_pop (in __lll_lo…  mutex queue.lock, held by …
 *     …
 *     s sort  f filter  Enter stack  …
 */
#include "top/draw.h"

#include <stdio.h>
#include <string.h>

enum {
	FOOT_FROM = 3,    /* lines that a screen has at least for the last line … */
	HEAD_FROM = 5,    /* … for the titles of columns … */
	INFO_FROM = 7,    /* … and for the line above them … */
	BLOCKED_FROM = 8, /* … and for that of locks, and each of a deadlock */

	MOST_DEADLOCKS = 3,

	SHARE_COLUMNS = 8,
	STATE_COLUMNS = 10,
	THREADS_COLUMNS = 9,
	FUNCTION_LEAST = 12,
	STATE_FROM = 30, /* columns that a screen has at least for these */
	NAMES_FROM = 44,
	PLACE_FROM = 50,
	WAIT_FROM = 50,
	NAME_OF_TOOL_FROM = 60,
	THREADS_FROM = 76, /* beside that of processes, if there are several */
	PROCESS_FROM = 80,

	MOST_LINE = 1024, /* bytes */
};

struct layout {
	unsigned info, deadlock, blocked, head, body, foot; /* lines; UINT_MAX: there is none */
	unsigned body_rows, deadlocks;
};

static const unsigned NOWHERE = ~0u;

static struct layout lay_out(const struct snap_top_screen *screen,
			     const struct snap_top_table *table, bool is_blocked)
{
	struct layout at = {
		.info = NOWHERE, .blocked = NOWHERE, .head = NOWHERE, .foot = NOWHERE
	};
	unsigned rows = screen->rows, next = rows > 1;

	if (rows >= INFO_FROM)
		at.info = next++;
	at.deadlock = next;
	while (table->groups && at.deadlocks < MOST_DEADLOCKS &&
	       rows >= BLOCKED_FROM + at.deadlocks &&
	       stacksnap_groups_deadlock(table->groups, at.deadlocks))
		at.deadlocks++;
	next += at.deadlocks;
	if (rows >= BLOCKED_FROM && is_blocked)
		at.blocked = next++;
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

static const char *text_or(const char *text, const char *other)
{
	return text ? text : other;
}

/* Threads that wait for the same lock of the same holder as group `index`; 0: one before it does. */
static double count_blocked(const struct snap_top_table *table, size_t index)
{
	const struct stacksnap_group *of = stacksnap_groups_get(table->groups, index), *group;
	unsigned long long samples = 0;

	for (size_t i = 0; (group = stacksnap_groups_get(table->groups, i)); i++) {
		if (!group->waits_for_lock ||
		    strcmp(text_or(group->wait, ""), text_or(of->wait, "")) != 0 ||
		    strcmp(text_or(group->holder, ""), text_or(of->holder, "")) != 0)
			continue;
		if (i < index)
			return 0;
		samples += group->samples;
	}
	return (double)samples / (double)table->ticks;
}

/* Which locks hold up threads, and which threads have these; as many as fit. False: none does. */
static bool print_blocked(const struct snap_top_table *table, char *out, size_t size)
{
	const struct stacksnap_group *group;
	unsigned long long samples = 0;
	double all, threads;
	size_t used = 0;
	char count[32];

	for (size_t i = 0; table->ticks && (group = stacksnap_groups_get(table->groups, i)); i++)
		samples += group->waits_for_lock ? group->samples : 0;
	if (!samples)
		return false;
	all = (double)samples / (double)table->ticks;
	used += (size_t)snprintf(out, size, "blocked %.1f threads:", all);
	for (size_t i = 0; used < size && (group = stacksnap_groups_get(table->groups, i)); i++) {
		threads = group->waits_for_lock ? count_blocked(table, i) : 0;
		if (threads <= 0)
			continue;
		snprintf(count, sizeof(count), "%.1f for ", threads);
		used += (size_t)snprintf(
			out + used, size - used, "%s %s%s%s%s", out[used - 1] == ':' ? "" : ";",
			threads < all ? count : "", text_or(group->wait, "several locks"),
			group->holder ? ", " : "", text_or(group->holder, ""));
	}
	return true;
}

/* ---- rows ---- */

/* Where columns begin; NOWHERE: there is no room. */
struct columns {
	unsigned state, threads, process, names, function, wait;
	unsigned process_columns, names_columns;
};

/* "orderd[1234]"; empty: the row has several. */
static void print_process(const struct snap_top_row *row, char *out, size_t size)
{
	char pid[16] = "";

	if (row->pid)
		snprintf(pid, sizeof(pid), "[%d]", row->pid);
	snprintf(out, size, "%s%s", text_or(row->process, ""), pid);
}

/* With a blank behind each, and room for their titles. */
static void measure_columns(const struct snap_top_screen *screen,
			    const struct snap_top_table *table, struct columns *at)
{
	char process[MOST_LINE];
	unsigned names = strlen("names"), processes = strlen("process"), columns;

	for (size_t i = 0; i < table->count; i++) {
		print_process(&table->rows[i], process, sizeof(process));
		columns = snap_top_columns(process, screen->utf8);
		processes = columns > processes ? columns : processes;
		columns = snap_top_columns(text_or(table->rows[i].threads, ""), screen->utf8);
		names = columns > names ? columns : names;
	}
	at->names_columns = (names < screen->columns / 3 ? names : screen->columns / 3) + 1;
	at->process_columns =
		(processes < screen->columns / 5 ? processes : screen->columns / 5) + 1;
}

static struct columns columns_of(const struct snap_top_screen *screen,
				 const struct snap_top_table *table)
{
	struct columns at = { NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, 0, 0 };
	unsigned next = SHARE_COLUMNS, beside, function;

	measure_columns(screen, table, &at);
	beside = table->process_count > 1 ? at.process_columns : 0;
	if (screen->columns >= STATE_FROM) {
		at.state = next;
		next += STATE_COLUMNS;
	}
	if (screen->columns >= THREADS_FROM + beside) {
		at.threads = next;
		next += THREADS_COLUMNS;
	}
	if (beside && screen->columns >= PROCESS_FROM) {
		at.process = next;
		next += at.process_columns;
	}
	if (screen->columns >= NAMES_FROM) {
		at.names = next;
		next += at.names_columns;
	}
	at.function = next;
	if (screen->columns >= WAIT_FROM) {
		function = (screen->columns - next) * 2 / 5;
		at.wait = next + (function > FUNCTION_LEAST ? function : FUNCTION_LEAST);
	}
	return at;
}

static void put_cell(struct snap_top_screen *screen, unsigned row, unsigned column,
		     unsigned columns, const char *text, unsigned style)
{
	if (column != NOWHERE && text)
		snap_top_screen_put(screen, row, column, columns, text, SNAP_TOP_KEEP_HEAD, style);
}

static void draw_head(struct snap_top_screen *screen, unsigned row, const struct columns *at)
{
	snap_top_screen_fill(screen, row, 0, SNAP_TOP_REVERSE);
	put_cell(screen, row, 0, SHARE_COLUMNS - 1, " share", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->state, STATE_COLUMNS - 1, "state", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->threads, THREADS_COLUMNS - 2, "threads", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->process, at->process_columns - 1, "process", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->names, at->names_columns - 1, "names", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->function, FUNCTION_LEAST - 1, "function", SNAP_TOP_REVERSE);
	put_cell(screen, row, at->wait, screen->columns, "waits for", SNAP_TOP_REVERSE);
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

/* The wait takes what it needs of the function's columns, and the function those of no wait. */
static void draw_function_and_wait(struct snap_top_screen *screen, unsigned row,
				   const struct columns *at, const struct snap_top_row *of,
				   unsigned style)
{
	unsigned end = SNAP_TOP_CELLS_SIZE, least = at->function + FUNCTION_LEAST, needed;
	char text[MOST_LINE];

	if (at->wait != NOWHERE && of->wait) {
		snprintf(text, sizeof(text), "%s%s%s", of->wait, of->holder ? ", " : "",
			 text_or(of->holder, ""));
		needed = snap_top_columns(text, screen->utf8);
		end = at->wait;
		if (needed > screen->columns - end)
			end = needed > screen->columns - least ? least : screen->columns - needed;
		put_cell(screen, row, end, screen->columns - end, text, style);
	}
	snprintf(text, sizeof(text), "%s%s%s%s", of->function, of->leaf ? " (in " : "",
		 text_or(of->leaf, ""), of->leaf ? ")" : "");
	put_cell(screen, row, at->function, end - at->function - 1, text, style);
}

static void draw_row(struct snap_top_screen *screen, unsigned row, const struct columns *at,
		     const struct snap_top_table *table, const struct snap_top_row *of,
		     bool is_chosen)
{
	unsigned style = is_chosen ? SNAP_TOP_REVERSE : SNAP_TOP_PLAIN;
	char text[MOST_LINE];

	if (is_chosen)
		snap_top_screen_fill(screen, row, 0, style);
	snprintf(text, sizeof(text), "%5.1f %%", snap_top_row_share(table, of));
	put_cell(screen, row, 0, SHARE_COLUMNS - 1, text, style);
	put_cell(screen, row, at->state, STATE_COLUMNS - 1, shown_state(of->state),
		 style | style_of(of->state));
	snprintf(text, sizeof(text), "%7.1f", snap_top_row_threads(table, of));
	put_cell(screen, row, at->threads, THREADS_COLUMNS - 2, text, style);
	put_cell(screen, row, at->names, at->names_columns - 1, text_or(of->threads, ""), style);
	print_process(of, text, sizeof(text));
	/* The tail of a long one stays, as the number tells it from others. */
	if (at->process != NOWHERE)
		snap_top_screen_put(screen, row, at->process, at->process_columns - 1, text,
				    SNAP_TOP_KEEP_TAIL, style);
	draw_function_and_wait(screen, row, at, of, style);
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
	const struct columns columns = columns_of(screen, table);

	if (at->head != NOWHERE)
		draw_head(screen, at->head, &columns);
	scroll_rows(view, table, at->body_rows);
	for (unsigned i = 0; i < at->body_rows && view->first + i < table->count; i++)
		draw_row(screen, at->body + i, &columns, table, &table->rows[view->first + i],
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
	char blocked[MOST_LINE];
	struct layout at;

	snap_top_screen_begin(screen);
	at = lay_out(screen, table, print_blocked(table, blocked, sizeof(blocked)));
	view->page_size = at.body_rows ? at.body_rows : 1;
	if (screen->rows > 1)
		draw_title(screen, view, table, status);
	if (at.info != NOWHERE)
		draw_info(screen, at.info, view, table, status);
	for (unsigned i = 0; i < at.deadlocks; i++)
		put_line(screen, at.deadlock + i, stacksnap_groups_deadlock(table->groups, i),
			 SNAP_TOP_RED | SNAP_TOP_BOLD);
	if (at.blocked != NOWHERE)
		put_line(screen, at.blocked, blocked, SNAP_TOP_RED | SNAP_TOP_BOLD);
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
