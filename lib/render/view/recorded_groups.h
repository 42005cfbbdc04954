/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording as one snapshot, whose groups have samples: where its threads stood, and how often.
 *
 * Threads are grouped as in a snapshot, but one may be in several groups; the stack always counts.
 * Stacks of a process are sorted by samples down, then by id. Knows nothing of formats.
 */
#ifndef SNAP_RENDER_VIEW_RECORDED_GROUPS_H
#define SNAP_RENDER_VIEW_RECORDED_GROUPS_H

#include "model/options.h"
#include "model/recording.h"

struct snap_recorded_groups {
	struct snap_arena arena;
	struct snap_snapshot snapshot; /* frames, texts and warnings are the recording's */
	uint64_t samples;
	size_t thread_count; /* that were sampled */
};

/* NO_MEMORY; released by snap_recorded_groups_deinit() in any case. */
struct snap_error *snap_recorded_groups_init(struct snap_recorded_groups *groups,
					     const struct snap_recording *recording,
					     const struct snap_options *options) _must_check_;
void snap_recorded_groups_deinit(struct snap_recorded_groups *groups);

#endif
