/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the terminal is like: width, colour, and a line of progress on stderr. Knows nothing of what
 * is printed there.
 */
#pragma once

#include <stdbool.h>

/* Columns of the terminal behind fd, 0 if it is none. */
unsigned snap_cli_terminal_width(int fd);

/* Its rows, 0 if it is none or does not say. */
unsigned snap_cli_terminal_height(int fd);

/* Whether "auto" means colour there: a terminal, no NO_COLOR, TERM not dumb. */
bool snap_cli_terminal_has_color(int fd);

/*
 * Starts the clock of the progress line: it appears on stderr, if that is a terminal, only when the
 * run is 0.5 s old. For stacksnap_options_set_progress(): text NULL erases it.
 */
void snap_cli_progress_start(void);
void snap_cli_progress(void *context, const char *text);
void snap_cli_progress_erase(void);
