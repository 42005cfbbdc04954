/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines on stderr: "stacksnap: …", lower case: what failed, on what, why, remedy. Everything is
 * escaped for the locale on the way. Knows nothing of reports.
 */
#pragma once

#include <stdbool.h>

/* Formats, escapes, prints; always false, so that "return snap_cli_message(…)" says "failed". */
bool snap_cli_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for text that was escaped already. */
bool snap_cli_message_escaped(const char *text);

/*
 * From here on `take` gets what would be printed, escaped and without what stands before it: while
 * the screen is in use. NULL: it is printed again.
 */
void snap_cli_message_divert(void (*take)(void *context, const char *line), void *context);

/* Whether the locale's characters are UTF-8; after setlocale(). */
bool snap_cli_is_utf8(void);
