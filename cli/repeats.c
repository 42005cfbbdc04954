/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines that are many and alike: see repeats.h. */
#include "repeats.h"

#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void snap_cli_repeats_add(struct snap_cli_repeats *repeats, const char *code, const char *message)
{
	size_t i = 0;

	while (i < repeats->used && strcmp(repeats->rows[i].code, code) != 0)
		i++;
	if (i == SNAP_CLI_MAX_CODES) {
		snap_cli_message_escaped(message);
		return;
	}
	repeats->used += i == repeats->used;
	repeats->rows[i].code = code;
	if (repeats->rows[i].count < SNAP_CLI_MAX_REPEATS)
		repeats->rows[i].messages[repeats->rows[i].count] = message;
	repeats->rows[i].count++;
}

void snap_cli_repeats_print(const struct snap_cli_repeats *repeats, size_t most, const char *what)
{
	for (size_t i = 0; i < repeats->used; i++) {
		const char *const *messages = repeats->rows[i].messages;
		size_t count = repeats->rows[i].count;
		char *text = NULL;

		for (size_t k = 0; k < count && count <= most; k++)
			snap_cli_message_escaped(messages[k]);
		if (count <= most)
			continue;
		if (asprintf(&text, "%zu %s, for example: %s", count, what, messages[0]) < 0)
			text = NULL;
		snap_cli_message_escaped(text ? text : messages[0]);
		free(text);
	}
}
