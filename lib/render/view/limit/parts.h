/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of the limit of a recording's report (limit.h): how often a format prints each stack
 * (uses.c), and how many bytes that is (bytes.c). Both are upper bounds. For the files of this
 * folder only.
 */
#pragma once

#include "base/buffer.h"
#include "base/table.h"
#include "render/view/limit/limit.h"

/* Of each stack of the recording. */
struct snap_limit_stack {
	double times;   /* how often it is printed */
	double fixed;   /* bytes each time, without its frames */
	double bytes;   /* of its frames, each time */
	double samples; /* in which a thread was in it */
	bool left_out;  /* what is left of it is one stack without frames */
	/* the latest owner that was counted, + 1, and the states in which its threads were in it */
	uint32_t owner;
	unsigned states;
	const struct snap_run *run; /* the latest one that was counted */
	/* lines that tell what its threads wait for; the latest wait that was counted */
	unsigned waits;
	uint32_t wait;
};

struct snap_limit {
	struct snap_limited *limited;
	const struct snap_recording *from; /* not cut */
	const struct snap_options *options;
	enum snap_frame_use use;
	size_t longest; /* bytes of names; SIZE_MAX: as long as they are */
	struct snap_limit_stack *stacks;
	double once;                      /* bytes, whatever is cut: names that are in tables */
	struct snap_pointer_table frames; /* bytes of each */
	struct snap_pointer_table texts;  /* that were counted in `once` */
	struct snap_pointer_table copies; /* of frames, with short names */
	struct snap_interner names;       /* the short ones, in the arena of `limited` */
	struct snap_buffer scratch;
};

void snap_limit_deinit(struct snap_limit *limit);

/* How often each stack is printed. False without memory. */
bool snap_limit_count(struct snap_limit *limit);

/* What all takes, with names as long as they may be. False without memory. */
bool snap_limit_measure(struct snap_limit *limit);
/* The bytes of a frame beside another one of the stack (NULL: none). False without memory. */
bool snap_limit_frame_bytes(struct snap_limit *limit, const struct snap_recorded_stack *stack,
			    size_t frame, const struct snap_frame *beside, double *ret);
/* What SNAP_FRAMES_IN_CHANGES prints of the stacks as they are now; negative without memory. */
double snap_limit_bytes_of_changes(struct snap_limit *limit);

/* A copy with short names, once for all stacks that have it. NULL without memory. */
const struct snap_frame *snap_limit_shorten_frame(struct snap_limit *limit,
						  const struct snap_frame *from);
/* Makes a text of the recording short, if it is long. False without memory. */
bool snap_limit_shorten_text(struct snap_limit *limit, const char **text);
