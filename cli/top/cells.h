/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cells: text that is cut to columns of a terminal.
 *
 * What a terminal would not print as itself stands as \xNN, whatever its text went through before,
 * so nothing that comes from here moves a cursor. Knows nothing of screens.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes that suffice for all that a screen's line can show, with its NUL. */
enum { SNAP_TOP_CELLS_SIZE = 4096 };

/* Which end of a text that is too long stays. */
enum snap_top_keep {
	SNAP_TOP_KEEP_HEAD,
	SNAP_TOP_KEEP_TAIL,
};

/* How many columns a text takes. `utf8`: what the terminal understands; else ASCII. */
unsigned snap_top_columns(const char *text, bool utf8);

/*
 * Writes a text into at most `columns` columns of `out`, with a mark where something was cut.
 * Returns how many columns it takes.
 */
unsigned snap_top_cut(const char *text, unsigned columns, enum snap_top_keep keep, bool utf8,
		      char out[SNAP_TOP_CELLS_SIZE]);
