/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * View: what of the table is on the screen, and what keys do to it.
 *
 * Knows nothing of curses, of the recorder, nor of files: what keys ask of these is returned to the
 * caller.
 */
#pragma once

#include "top/stack.h"

enum snap_top_page {
	SNAP_TOP_PAGE_ROWS,
	SNAP_TOP_PAGE_STACK,
	SNAP_TOP_PAGE_HELP,
};

/* What the last line asks for. */
enum snap_top_prompt {
	SNAP_TOP_PROMPT_NONE,
	SNAP_TOP_PROMPT_FILTER,
	SNAP_TOP_PROMPT_WHAT, /* to write: a letter */
	SNAP_TOP_PROMPT_NAME, /* of the file */
};

/* What keys ask of others. */
enum snap_top_wish {
	SNAP_TOP_WISH_NOTHING,
	SNAP_TOP_WISH_QUIT,
	SNAP_TOP_WISH_SUSPEND,
	SNAP_TOP_WISH_PAUSE, /* view->paused has changed */
	SNAP_TOP_WISH_NAME,  /* a name for the file that is to be written, in view->input */
	SNAP_TOP_WISH_WRITE, /* view->ring or a snapshot to view->input */
};

enum { SNAP_TOP_INPUT_SIZE = 512 };

struct snap_top_view {
	enum snap_top_page page;
	enum snap_top_prompt prompt;
	struct snap_top_choice choice;
	bool paused;

	size_t cursor, first; /* rows: the chosen one, and the uppermost one on the screen */
	bool follows;         /* the cursor was moved: it stays with its row */
	char chosen[SNAP_TOP_KEY_SIZE];
	struct snap_top_stack stack;
	size_t scroll;    /* lines of the stack, or of the help, above the screen */
	size_t page_size; /* rows that the screen shows; set by the drawing code */

	char input[SNAP_TOP_INPUT_SIZE];   /* of the prompt, as it was typed */
	bool ring;                         /* what is to be written: the ring, or a snapshot */
	char message[SNAP_TOP_INPUT_SIZE]; /* in the last line, until the next key; escaped */
};

void snap_top_view_deinit(struct snap_top_view *view);

/* There are other rows: makes those that are chosen. */
void snap_top_view_renew(struct snap_top_view *view, struct snap_top_table *table);

/* What a key of the screen does. */
enum snap_top_wish snap_top_view_press(struct snap_top_view *view, struct snap_top_table *table,
				       int key);

/* A line for people, escaped; replaces the one before. */
void snap_top_view_tell(struct snap_top_view *view, const char *line);

/* The lines of the help, without what stands around them; NULL past the last. */
const char *snap_top_help_line(size_t index);
