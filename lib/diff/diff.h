/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares two snapshots or recordings of the same programs (the result: model/diff/diff.h).
 *
 * Groups are compared by their ids, threads and processes by pid and start time. A pid and a start
 * identify a process even if the pid is used again, but only on one boot of one host. If one of the
 * two is a recording, less than half a thread, and less than a hundredth of all samples, counts as
 * noise. Pure: knows nothing of files and formats.
 */
#pragma once

#include "base/error.h"
#include "model/diff/diff.h"
#include "model/recording.h"

/* One of the two. */
struct snap_diff_look {
	const struct snap_snapshot *snapshot;   /* a recording as a whole, too */
	const struct snap_recording *recording; /* NULL: it is none */
};

/* What both have is borrowed by the result, and must outlive it. NO_MEMORY. */
struct stacksnap_error *snap_diff_make(const struct snap_diff_look *before,
				       const struct snap_diff_look *after,
				       struct snap_diff **ret) _must_check_;

/*
 * Marks the threads of `after` that are stuck since `before`, which was taken on the same host just
 * before. NO_MEMORY.
 */
struct stacksnap_error *snap_diff_mark_stuck(const struct snap_snapshot *before,
					     struct snap_snapshot *after) _must_check_;
