/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frames that show what threads wait for, with --group-by wait. Knows nothing of samples.
 */
#pragma once

#include "render/speedscope/frames.h"
#include "render/view/profile.h"

/* All but the table is the user's to set. */
struct snap_scope_waits {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_profile *profile;
	struct snap_scope_frames *frames;
	struct snap_pointer_table table; /* of waits: their frames' numbers + 2 */
};

void snap_scope_waits_deinit(struct snap_scope_waits *waits);

/* The number + 1 of the frame of an object (NULL: none), 0 for none; SIZE_MAX without memory. */
size_t snap_scope_frame_of_object(struct snap_scope_waits *waits, const char *object);
/* The same of what a thread waits for in a run. */
size_t snap_scope_frame_of_run(struct snap_scope_waits *waits, const struct snap_run *run);
