/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the two files share that make a log of a recording: see snaprec.c. Nobody else includes it.
 */
#ifndef SNAP_RENDER_SNAPREC_INTERNAL_H
#define SNAP_RENDER_SNAPREC_INTERNAL_H

#include "store/recording/file.h"

struct snap_converter {
	const struct snap_recording *recording;
	struct snap_log *log;
	struct snap_arena arena;
	/* frames by address and process; open addressing, index + 1 */
	uint32_t *slots;
	size_t slot_count;
	const struct snap_frame **frames; /* of the log's */
	size_t frame_capacity;
};

/* Adds a stack, and the frames and names that are new in it. False without memory. */
bool snap_convert_stack(struct snap_converter *converter, const struct snap_recorded_stack *from);

#endif
