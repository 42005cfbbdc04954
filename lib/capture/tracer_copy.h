/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the two files that copy stacks inside the pause share. No other file includes this. */
#ifndef SNAP_CAPTURE_TRACER_COPY_H
#define SNAP_CAPTURE_TRACER_COPY_H

#include "capture/tracer_child.h"

/* Where a stack is, and how much of it there is; size 0: nowhere. */
struct snap_want {
	uint64_t address;
	uint64_t size;
};

/* The stack around a stack pointer, in whatever mapping that lies. */
struct snap_want snap_tracer_want(struct snap_tracer *tracer, const struct snap_tracee *tracee,
				  uint64_t sp);

/* tracer_signal.c: the stacks that threads on a signal stack were interrupted on. */
void snap_tracer_copy_interrupted(struct snap_tracer *tracer);

#endif
