/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines that are many and alike: see tally.h. */
#include "tally.h"

#include "message.h"

#include <string.h>

enum { SAME_MESSAGES = 8 }; /* lines of one code before they are summed up */

static bool count_one(struct snap_cli_tally *tally, const char *code)
{
	size_t i = 0;

	while (i < tally->used && strcmp(tally->codes[i], code) != 0)
		i++;
	if (i == SNAP_CLI_MAX_CODES)
		return true;
	if (i == tally->used)
		tally->codes[tally->used++] = code;
	return ++tally->counts[i] <= SAME_MESSAGES;
}

void snap_cli_tally_message(struct snap_cli_tally *tally, const char *code, const char *message)
{
	if (count_one(tally, code))
		snap_cli_message_escaped(message);
}

void snap_cli_tally_rest(const struct snap_cli_tally *tally, const char *what)
{
	for (size_t i = 0; i < tally->used; i++)
		if (tally->counts[i] > SAME_MESSAGES)
			snap_cli_message("and %zu more %s: %s", tally->counts[i] - SAME_MESSAGES,
					 what, tally->codes[i]);
}
