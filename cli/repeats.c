/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines that are many and alike: see repeats.h. */
#include "repeats.h"

#include "message.h"

#include <string.h>

enum { SAME_MESSAGES = 8 }; /* lines of one code before they are summed up */

static bool count_one(struct snap_cli_repeats *repeats, const char *code)
{
	size_t i = 0;

	while (i < repeats->used && strcmp(repeats->codes[i], code) != 0)
		i++;
	if (i == SNAP_CLI_MAX_CODES)
		return true;
	if (i == repeats->used)
		repeats->codes[repeats->used++] = code;
	return ++repeats->counts[i] <= SAME_MESSAGES;
}

void snap_cli_repeats_message(struct snap_cli_repeats *repeats, const char *code,
			      const char *message)
{
	if (count_one(repeats, code))
		snap_cli_message_escaped(message);
}

void snap_cli_repeats_rest(const struct snap_cli_repeats *repeats, const char *what)
{
	for (size_t i = 0; i < repeats->used; i++)
		if (repeats->counts[i] > SAME_MESSAGES)
			snap_cli_message("and %zu more %s: %s", repeats->counts[i] - SAME_MESSAGES,
					 what, repeats->codes[i]);
}
