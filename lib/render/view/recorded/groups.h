/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All ticks of a recording as one snapshot, with samples in its groups.
 *
 * Threads are grouped as in a snapshot; the stack always counts. Knows nothing of formats, and not
 * at which ticks the samples were.
 */
#pragma once

#include "model/options.h"
#include "model/recording.h"

/*
 * All ticks: where threads stood, and how often. A thread may be in several groups. Stacks of a
 * process are sorted by samples down, then by id.
 */
struct snap_recorded_groups {
	struct snap_arena arena;
	struct snap_snapshot snapshot; /* warnings are the recording's, too */
	uint64_t samples;
	size_t thread_count; /* that were sampled */
	size_t task_count;   /* that were seen waiting */
};

/* NO_MEMORY; released by snap_recorded_groups_deinit() in any case. */
struct stacksnap_error *snap_recorded_groups_init(struct snap_recorded_groups *groups,
						  const struct snap_recording *recording,
						  const struct snap_options *options) _must_check_;
void snap_recorded_groups_deinit(struct snap_recorded_groups *groups);
