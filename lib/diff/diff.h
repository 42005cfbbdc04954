/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From two looks at the same programs to what changed between them (model/diff/diff.h).
 *
 * Groups are compared by their ids, threads and processes by their numbers: pid and start, which
 * survive that a pid is given out again, and mean something on one boot of one host alone. Where a
 * recording is among the two, less than half a thread and a hundredth of all samples is noise.
 * Pure: knows nothing of files and formats.
 */
#ifndef SNAP_DIFF_DIFF_H
#define SNAP_DIFF_DIFF_H

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

#endif
