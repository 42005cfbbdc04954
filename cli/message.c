/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines on stderr: see message.h. */
#include "message.h"

#include "stacksnap.h"
#include "terminal.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool snap_cli_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Of this process, as its stderr is. */
static struct {
	void (*take)(void *context, const char *line);
	void *context;
} diverted;

void snap_cli_message_divert(void (*take)(void *context, const char *line), void *context)
{
	diverted.take = take;
	diverted.context = context;
}

bool snap_cli_message_escaped(const char *text)
{
	if (diverted.take) {
		diverted.take(diverted.context, text);
		return false;
	}
	snap_cli_progress_erase();
	fprintf(stderr, "stacksnap: %s\n", text);
	return false;
}

bool snap_cli_message(const char *format, ...)
{
	va_list arguments;
	char *text = NULL, *escaped;
	size_t length;
	int printed;

	va_start(arguments, format);
	printed = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (printed < 0)
		return snap_cli_message_escaped("out of memory");
	length = (size_t)printed;
	escaped = malloc(4 * length + 1);
	if (escaped)
		stacksnap_escape(text, length, !snap_cli_is_utf8(), escaped, 4 * length + 1);
	snap_cli_message_escaped(escaped ? escaped : "out of memory");
	free(escaped);
	free(text);
	return false;
}
