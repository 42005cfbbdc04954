/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The entries of stacks as JSON: the text of a frame is made once for all stacks that share it.
 *
 * Where many documents are written, the text of whole stacks is kept, too, up to a bound: a stack
 * is known by its array of frames, so the same array must not hold other frames later. Knows
 * nothing of the rest of a document.
 */
#ifndef SNAP_RENDER_JSON_ENTRIES_H
#define SNAP_RENDER_JSON_ENTRIES_H

#include "model/snapshot.h"
#include "render/json/writer.h"
#include "render/view/pointer_map.h"

/* A text being made. */
struct snap_json_text {
	char *bytes;
	size_t length, capacity;
	bool failed;
};

struct snap_json_entries {
	bool lines;                  /* all in one line, and stacks come again */
	struct snap_json_out *aside; /* to `text` */
	struct snap_json_text text;
	struct snap_pointer_map frames; /* struct snap_frame -> its entries */
	struct snap_pointer_map stacks; /* array of frames -> its entries */
	size_t kept;                    /* bytes of both */
	bool failed;                    /* no memory */
};

/* False without memory; released by snap_json_entries_deinit() in any case. */
bool snap_json_entries_init(struct snap_json_entries *entries, bool lines);
void snap_json_entries_deinit(struct snap_json_entries *entries);
/* What was kept is dropped. */
void snap_json_entries_forget(struct snap_json_entries *entries);

/* `"entries": […]` */
void snap_json_entries_put(struct snap_json_entries *entries, struct snap_json_out *out,
			   const struct snap_frame *const *frames, size_t count);

#endif
