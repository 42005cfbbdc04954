/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines on stderr that may be many and alike: of each code the first few, then their number. Knows
 * nothing of what they are about.
 */
#ifndef SNAP_CLI_REPEATS_H
#define SNAP_CLI_REPEATS_H

#include <stddef.h>

enum { SNAP_CLI_MAX_CODES = 32 };

struct snap_cli_repeats {
	const char *codes[SNAP_CLI_MAX_CODES]; /* borrowed */
	size_t counts[SNAP_CLI_MAX_CODES];
	size_t used;
};

/* Prints an escaped message, unless there were enough of its code. */
void snap_cli_repeats_message(struct snap_cli_repeats *repeats, const char *code,
			      const char *message);

/* "and 92 more warnings: unreadable", for each code that had too many. */
void snap_cli_repeats_rest(const struct snap_cli_repeats *repeats, const char *what);

#endif
