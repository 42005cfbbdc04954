/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of formats: see render.h for what a new one takes. */
#include "render/render.h"

#include <string.h>

const struct snap_format snap_formats[] = {
	{ "text", ".txt", "a tree for people", snap_render_text },
	{ "json", ".json", "one document for programs, see stacksnap-json(5)", snap_render_json },
	{ NULL, NULL, NULL, NULL },
};

/* What `stacksnap list` prints: no format that a snapshot is asked for by name on its own. */
static const struct snap_format list_format = { "list", NULL, "the tree alone", snap_render_list };

const struct snap_format *snap_format_by_name(const char *name)
{
	if (strcmp(name, list_format.name) == 0)
		return &list_format;
	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (strcmp(format->name, name) == 0)
			return format;
	return NULL;
}
