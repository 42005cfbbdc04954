/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One line of the text report: left part, and a right part that begins in a common column.
 *
 * Holds the marks of the tree, the colours, and the form of the signs (UTF-8 or ASCII). The report
 * is gone through twice: first measuring, when lines only widen the column, then writing. Every
 * text that came from a target goes through snap_line_add_escaped(). Knows nothing of stacks.
 */
#pragma once

#include "base/buffer.h"
#include "model/options.h"

#include <stdio.h>

/* Signs that have an ASCII form. */
struct snap_signs {
	const char *tee, *corner, *rail, *inlined, *tail_call, *guessed, *times, *dots, *middot,
		*arrow, *calls;
};

enum snap_style {
	SNAP_STYLE_PLAIN,
	SNAP_STYLE_BOLD,
	SNAP_STYLE_DIM,
	SNAP_STYLE_RED,
	SNAP_STYLE_RED_BOLD,
	SNAP_STYLE_GREEN,
	SNAP_STYLE_YELLOW,
	SNAP_STYLE_MAGENTA,
	SNAP_STYLE_CYAN,
};

enum {
	SNAP_WIDEST_COLUMN = 72,        /* where right parts begin at the latest */
	SNAP_WIDEST_DENSE_COLUMN = 122, /* the same in --summary and --call-tree */
	SNAP_DEEPEST_RAILS = 40,        /* below this depth the tree is not indented any further */
};

/* Columns inside the left part of a line of --summary. */
enum snap_stop {
	SNAP_STOP_NAME,
	SNAP_STOP_STATE,
	SNAP_STOP_FUNCTION,
	SNAP_STOP_COUNT,
};

struct snap_sheet {
	FILE *out;
	const struct snap_signs *signs;
	unsigned escape_flags;
	bool color, failed, measuring;
	size_t written;       /* lines; what is broken into several counts as one */
	size_t width;         /* of the terminal; 0: nothing is elided */
	size_t column;        /* where right parts begin */
	size_t widest_column; /* and at most */
	bool ignores_long;    /* what is too long for the column does not widen it */
	bool stops_known;     /* `stops` holds columns, before that widths */
	size_t stops[SNAP_STOP_COUNT];
	size_t cell_begin;
	size_t hang; /* columns behind the rails where this line goes on if it is too long */
	struct snap_buffer text; /* the left part so far */
	size_t columns;          /* of it */
	struct snap_buffer escaped;
	char nothing[1];                 /* in place of a text for which there was no memory */
	size_t depth;                    /* of rails */
	bool rails[SNAP_DEEPEST_RAILS];  /* whether the line of this level goes on */
	struct snap_lock_numbers *locks; /* see lock_numbers.h; NULL: none */
};

void snap_sheet_init(struct snap_sheet *lines, const struct snap_options *options, FILE *out);
void snap_sheet_deinit(struct snap_sheet *lines);

/* One level more: its rail is drawn when something follows on that level. */
void snap_sheet_push(struct snap_sheet *lines, bool rail);
void snap_sheet_pop(struct snap_sheet *lines);

/* Puts the rails of all levels at the beginning of a line. */
void snap_line_begin(struct snap_sheet *lines);
/* The same of an item of the innermost level: the mark of the tree stands where its rail is. */
void snap_line_begin_item(struct snap_sheet *lines, bool last);
/* Our own words and signs, or text that was escaped before. */
void snap_line_add(struct snap_sheet *lines, enum snap_style style, const char *text);
void snap_line_printf(struct snap_sheet *lines, enum snap_style style, const char *format, ...)
	_printf_(3, 4);
void snap_line_add_escaped(struct snap_sheet *lines, enum snap_style style, const char *text);
/* The name of a thread or task, escaped; a summary has no room for the middle of a long one. */
void snap_line_add_thread(struct snap_sheet *lines, const char *name);
/* The names of a list that were printed already; zero at first. */
struct snap_line_names {
	const char *names[3];
	size_t count;
};
/* One more name, if it is a new one. False: there are more than are printed. */
bool snap_line_add_name(struct snap_sheet *lines, struct snap_line_names *reported,
			const char *name);
void snap_line_pad(struct snap_sheet *lines, size_t columns);
/*
 * Goes on at a stop, but at least `gap` blanks further on. Lines are measured once for the stops,
 * and then again for the column of right parts. Cells that are very wide widen no stop.
 */
void snap_line_stop(struct snap_sheet *lines, enum snap_stop stop, size_t gap);
void snap_sheet_fix_stops(struct snap_sheet *lines);
/* Ends the line; `right` (escaped) begins in the common column, NULL: there is none. */
void snap_line_end(struct snap_sheet *lines, enum snap_style style, const char *right);
/* A line with nothing but rails. */
void snap_line_blank(struct snap_sheet *lines);

/* Columns that a number takes. */
size_t snap_count_digits(uint64_t number);

/* The escaped form, borrowed until the next call; "" without memory. */
char *snap_sheet_escape(struct snap_sheet *lines, const char *text);
