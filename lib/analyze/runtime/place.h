/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Place: finds where runs of managed frames belong among the native frames of a thread. A run
 * belongs before the frame of the interpreter's loop that executes it, which is found by its
 * position in the stack or by its name. Knows neither how native frames are named, nor how both are
 * joined.
 */
#pragma once

#include "analyze/runtime/runtime.h"

/* A native stack, without frames of the kernel, innermost first. */
struct snap_place_finder {
	const uint64_t *sps; /* NULL: unknown */
	size_t count;
	/* Whether the name of the function at a frame begins so. */
	bool (*is_function)(void *context, size_t index, const char *prefix);
	void *context;
};

/* Why a stack is shown in two parts. */
extern const char snap_place_none[];

/* malloc'ed: of each run the frame; NULL: one has no place, or there is no memory for it. */
size_t *snap_place_runs(const struct snap_runtime_thread *managed,
			const struct snap_place_finder *finder);
