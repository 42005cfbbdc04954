/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signal stack: finds the stack that a handler on an alternate signal stack (sigaltstack(2)) has
 * interrupted. Its frames are in another mapping, and the signal frame in the copied stack says
 * where. Works on copied bytes alone; knows nothing of threads that run.
 */
#pragma once

#include "model/capture.h"

#include <string.h>

/*
 * Not one of a signal: the first thread's, or one that has the thread pointer. That of the first
 * thread lies anywhere, as a signal stack from malloc() may.
 */
static inline bool snap_is_usual_stack(const struct snap_map *map, uint64_t pointer, bool is_first)
{
	return (!is_first && pointer >= map->start && pointer < map->end) ||
	       (map->path && strcmp(map->path, "[stack]") == 0);
}

/*
 * The stack pointer that a signal handler interrupted: that of the first signal frame in
 * thread->stack which `accepts`. It searches *budget bytes at most, and subtracts what it has
 * searched. 0: there is none, or the layout of such frames is unknown for this architecture.
 */
uint64_t snap_tracer_interrupted_sp(const struct snap_thread *thread, size_t *budget,
				    bool (*accepts)(void *context, uint64_t sp), void *context);
