/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "render/render.h"

#include <string.h>

const struct snap_format snap_formats[] = { { NULL, NULL, NULL, NULL } };

const struct snap_format *snap_format_by_name(const char *name)
{
	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (strcmp(format->name, name) == 0)
			return format;
	return NULL;
}
