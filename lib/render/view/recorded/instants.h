/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One tick of a recording after the other, as the snapshot that was seen then.
 *
 * Threads are grouped as in a snapshot; the stack always counts. Frames and texts are the
 * recording's, so a stack's array of frames is the same at all ticks. Knows nothing of formats.
 */
#pragma once

#include "model/options.h"
#include "model/recording.h"
#include "render/wait/holders.h"

/* Ticks, each as the snapshot that was seen then. */
struct snap_instants {
	const struct snap_recording *recording;
	const struct snap_options *options;
	uint64_t *ids;   /* of the recording's stacks */
	size_t *cursors; /* of each track: its run at or after the tick */
	struct snap_holders holders;
	uint32_t tick; /* the current one */
	/* That waits may still take, and whether a warning says that some were left out. */
	size_t wait_bytes;
	bool left_out, reported;
	struct snap_arena arena;
	struct snap_snapshot snapshot;
};

/* NO_MEMORY; released by snap_instants_deinit() in any case. */
struct stacksnap_error *snap_instants_init(struct snap_instants *instants,
					   const struct snap_recording *recording,
					   const struct snap_options *options) _must_check_;
void snap_instants_deinit(struct snap_instants *instants);

/*
 * The snapshot of a tick, without warnings, but for one where waits are left out for their size; it
 * lives until the next one, which must be of a later tick. NULL without memory.
 */
struct snap_snapshot *snap_instants_at(struct snap_instants *instants, size_t tick);
