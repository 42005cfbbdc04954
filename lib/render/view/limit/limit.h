/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The limit of a recording's report: tens of thousands of different stacks of hundreds of frames,
 * or names of kilobytes, are a target's way to fill a disk. Unless the caller asked for more, the
 * bytes that a format prints of them are at most some 64 MiB: stacks are cut in their middle, then
 * long names, and at last the stacks with the fewest samples are left out, all of a process as one
 * without frames. The recording says so.
 *
 * Knows how often a format prints a stack and what of a frame, and nothing else of formats.
 */
#pragma once

#include "model/options.h"
#include "model/recording.h"

/* How a format prints the frames of stacks. */
enum snap_frame_use {
	SNAP_FRAMES_AS_NUMBERS, /* so shortly that there is nothing to limit */
	SNAP_FRAMES_IN_TABLES,  /* once, into tables that are held in memory */
	SNAP_FRAMES_IN_ROWS,    /* the same, and their numbers with each row that counts samples */
	SNAP_FRAMES_IN_SAMPLES, /* the same, and their numbers wherever a thread's stack changes */
	SNAP_FRAMES_IN_LINES,   /* by name, once for the threads of a name */
	SNAP_FRAMES_IN_TEXT,    /* a line each, with each group of threads that is shown */
	SNAP_FRAMES_IN_GROUPS,  /* in full, with each group of threads */
	SNAP_FRAMES_IN_TICKS,   /* in full, with each group of each tick */
	SNAP_FRAMES_IN_CHANGES, /* by name, where a thread's stack changes */
};

/* A recording that borrows all but some stacks and warnings from another one. */
struct snap_limited {
	struct snap_recording recording;
	struct snap_arena arena;
	const char *warning; /* what was left out; NULL: nothing */
};

/* Released by snap_limited_deinit() in any case. NO_MEMORY. */
struct stacksnap_error *snap_limited_init(struct snap_limited *limited,
					  const struct snap_recording *recording,
					  const struct snap_options *options,
					  enum snap_frame_use use) _must_check_;
void snap_limited_deinit(struct snap_limited *limited);

/*
 * Tells in a snapshot, whose warnings are copied to the arena, that its groups list so many threads
 * in all and have more. False without memory.
 */
bool snap_limited_warn(struct snap_arena *arena, struct snap_snapshot *snapshot,
		       size_t listed) _must_check_;

/* The same of something else; the message must live as long as the snapshot. */
bool snap_limited_warn_of(struct snap_arena *arena, struct snap_snapshot *snapshot,
			  const char *message) _must_check_;
