/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Glue: frames of an interpreter between the functions that people wrote.
 *
 * In a merged stack the native frame right behind a run of managed ones is the loop that executes
 * them. That frame and the interpreter's own calls add nothing to the managed frames. Knows
 * runtimes only by the names of their own functions.
 */
#pragma once

#include "model/snapshot.h"

/* The real function at a frame, for what it is called in its file; NULL: it has no name. */
const char *snap_glue_name(const struct snap_frame *frame);

/*
 * Takes the loops and the glue out of a merged stack, whose frames all have their names, in place;
 * those that were left out at a gap behind *gap_frame are no loop's. Behind the last managed frame
 * of a stack that is not whole all stay, in place of those that are not known. How many frames are
 * left.
 */
size_t snap_glue_leave_out(const struct snap_frame **frames, size_t count, bool is_whole,
			   bool has_gap, size_t *gap_frame);
