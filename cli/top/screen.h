/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Screen: the terminal, in lines and columns. The one door to curses.
 *
 * What is put is not seen before snap_top_screen_show(). Knows nothing of what it shows. One a
 * process, as curses has it.
 */
#pragma once

#include "top/cells.h"

struct snap_top_screen {
	unsigned rows, columns; /* now */
	bool utf8, color;
	bool is_open;
};

/* Bits; what a terminal does not have is left out. */
enum snap_top_style {
	SNAP_TOP_PLAIN = 0,
	SNAP_TOP_BOLD = 1 << 0,
	SNAP_TOP_DIM = 1 << 1,
	SNAP_TOP_REVERSE = 1 << 2,
	SNAP_TOP_GREEN = 1 << 3,
	SNAP_TOP_RED = 1 << 4,
};

/* Keys that are no characters; others are bytes of the terminal's encoding. */
enum snap_top_key {
	SNAP_TOP_KEY_NONE = -1,
	SNAP_TOP_KEY_ENTER = 0x1000,
	SNAP_TOP_KEY_ESCAPE,
	SNAP_TOP_KEY_BACKSPACE,
	SNAP_TOP_KEY_KILL, /* Ctrl-U: all that was typed */
	SNAP_TOP_KEY_UP,
	SNAP_TOP_KEY_DOWN,
	SNAP_TOP_KEY_PAGE_UP,
	SNAP_TOP_KEY_PAGE_DOWN,
	SNAP_TOP_KEY_HOME,
	SNAP_TOP_KEY_END,
	SNAP_TOP_KEY_INTERRUPT, /* Ctrl-C */
	SNAP_TOP_KEY_SUSPEND,   /* Ctrl-Z */
	SNAP_TOP_KEY_REDRAW,    /* Ctrl-L */
	SNAP_TOP_KEY_RESIZED,
	SNAP_TOP_KEY_OTHER,
};

/* Whether standard input and output are a terminal. False after a message. */
bool snap_top_screen_is_possible(void);

/* Takes it over. False after a message: it is not known, or cannot place a cursor. */
bool snap_top_screen_open(struct snap_top_screen *screen, bool color, bool utf8);
/* Gives it back as it was; for good, or until snap_top_screen_resume(), which draws all anew. */
void snap_top_screen_close(struct snap_top_screen *screen);
void snap_top_screen_suspend(struct snap_top_screen *screen);
void snap_top_screen_resume(struct snap_top_screen *screen);

/* The next key that was pressed; NONE: there is none now. */
int snap_top_screen_key(struct snap_top_screen *screen);

/* An empty screen to put lines on. */
void snap_top_screen_begin(struct snap_top_screen *screen);
/*
 * Text at a place, in `columns` columns at most and within the line; returns how many it took.
 * `style`: bits of enum snap_top_style.
 */
unsigned snap_top_screen_put(struct snap_top_screen *screen, unsigned row, unsigned column,
			     unsigned columns, const char *text, enum snap_top_keep keep,
			     unsigned style);
/* From a column to the end of the line. */
void snap_top_screen_fill(struct snap_top_screen *screen, unsigned row, unsigned column,
			  unsigned style);
void snap_top_screen_show(struct snap_top_screen *screen);
