/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cuts a stack in its middle when a report would be too large. The frames at both ends stay, and the
 * gap is shown. There is one gap in a stack: an earlier one becomes part of it.
 *
 * Knows nothing of why stacks are cut, and to how many frames.
 */
#pragma once

#include "model/snapshot.h"

/* How many frames of a stack stand before its gap, and how many behind it. */
struct snap_stack_cut {
	size_t head, tail;
};

/* A stack of `count` frames with a gap of `gap_count` behind gap_frame, cut to `most` (2 or more). */
struct snap_stack_cut snap_stack_cut_to(size_t most, size_t count, size_t gap_frame,
					uint64_t gap_count);

/*
 * What is left of `frames`, copied to `to`, which may be the same; the gap is brought up to date.
 * How many they are.
 */
size_t snap_stack_cut_copy(const struct snap_stack_cut *cut, const struct snap_frame **frames,
			   size_t count, const struct snap_frame **to, size_t *gap_frame,
			   uint64_t *gap_count);
