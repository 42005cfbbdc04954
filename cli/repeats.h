/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines on stderr that may be many and alike: a few of a code are printed, of more only their number
 * and one of them. Knows nothing of what they are about.
 */
#pragma once

#include <stddef.h>

enum { SNAP_CLI_MAX_CODES = 32, SNAP_CLI_MAX_REPEATS = 8 };

struct snap_cli_repeats {
	struct {
		const char *code, *messages[SNAP_CLI_MAX_REPEATS]; /* borrowed */
		size_t count;
	} rows[SNAP_CLI_MAX_CODES];
	size_t used;
};

/* Keeps an escaped message, to be printed later. */
void snap_cli_repeats_add(struct snap_cli_repeats *repeats, const char *code, const char *message);

/*
 * Prints them; of a code with more than `most` (at most SNAP_CLI_MAX_REPEATS) messages one line:
 * "92 WHAT, for example: MESSAGE".
 */
void snap_cli_repeats_print(const struct snap_cli_repeats *repeats, size_t most, const char *what);
