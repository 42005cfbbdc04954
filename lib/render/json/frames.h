/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The entries of stacks as JSON: the text of a frame is made once for all stacks that hold it.
 *
 * Where many documents are written, the text of whole stacks is kept, too, up to a bound: a stack
 * is known by its array of frames, so the same array must not hold other frames later. Knows
 * nothing of the rest of a document.
 */
#pragma once

#include "base/table.h"
#include "model/snapshot.h"
#include "render/json/writer.h"

struct snap_json_entries {
	bool many;                        /* documents: stacks come again */
	struct snap_buffer text;          /* of a frame or a stack that is being made */
	struct snap_json_writer *aside;   /* writes to `text` */
	struct snap_pointer_table frames; /* struct snap_frame -> its entries */
	struct snap_pointer_table stacks; /* array of frames -> its entries */
	size_t kept;                      /* bytes of both */
	bool failed;                      /* no memory */
};

/* False without memory; released by snap_json_entries_deinit() in any case. */
bool snap_json_entries_init(struct snap_json_entries *entries, enum snap_json_style style);
void snap_json_entries_deinit(struct snap_json_entries *entries);
/* What was kept is dropped. */
void snap_json_entries_forget(struct snap_json_entries *entries);

/* The value of "entries" of a stack, with its key. */
void snap_json_entries_put(struct snap_json_entries *entries, struct snap_json_writer *json,
			   const struct snap_frame *const *frames, size_t count);
