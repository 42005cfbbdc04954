/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Instants: ticks of a recording, each as the snapshot that was seen then.
 *
 * Threads are grouped as in a snapshot; the stack always counts. Ticks are asked for in their
 * order, and an instant lives until the next one. Frames and texts are the recording's, so a
 * stack's array of frames is the same at all ticks. Knows nothing of formats.
 */
#ifndef SNAP_RENDER_VIEW_INSTANT_H
#define SNAP_RENDER_VIEW_INSTANT_H

#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"

struct snap_instants {
	const struct snap_recording *recording;
	const struct snap_options *options;
	uint64_t *ids;   /* of the recording's stacks */
	size_t *cursors; /* of each track: its run at or after the tick */
	struct snap_arena arena;
	struct snap_snapshot snapshot;
};

/* NO_MEMORY; released by snap_instants_deinit() in any case. */
struct snap_error *snap_instants_init(struct snap_instants *instants,
				      const struct snap_recording *recording,
				      const struct snap_options *options) _must_check_;
void snap_instants_deinit(struct snap_instants *instants);

/* The snapshot of a tick, without warnings. NULL without memory. */
struct snap_snapshot *snap_instants_at(struct snap_instants *instants, size_t tick);

#endif
