/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tracing children from the outside: how one is made, and how it is ended.
 *
 * The program that uses the library must not notice: no SIGCHLD, no handler of its own runs in the
 * child, nothing to be reaped is left behind. Knows nothing of what the child does.
 */
#ifndef SNAP_STOP_SPAWN_H
#define SNAP_STOP_SPAWN_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Makes a child that runs `run`, with all signals blocked. `flags`: of clone3, beside what every
 * tracing child has; those only that clone knows as well (CLONE_FILES). The pidfd is the caller's.
 */
struct snap_error *snap_tracer_spawn(uint64_t flags, void (*run)(void *context, pid_t parent),
				     void *context, pid_t *pid_ret, int *pidfd_ret) _must_check_;

/* Whether it has ended, waiting so long for it. */
bool snap_tracer_has_ended(int pidfd, int timeout_ms);

/*
 * Reaps it, after SIGKILL where asked. One that does not even die is left behind, for the kernel
 * to end.
 */
void snap_tracer_end(int pidfd, bool kill_it);

#endif
