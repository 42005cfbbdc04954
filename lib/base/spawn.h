/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Spawn: child processes that are copies of this one and run one function.
 *
 * The program that uses the library must not notice them: none of its signal handlers and none of
 * its thread cancellation runs in the child, no exit signal reaches the program where that can be
 * avoided, and no zombie is left. Every child gets SIGKILL when the thread that made it ends. Knows
 * nothing of what a child does.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

enum snap_spawn_flags {
	/*
	 * The child calls malloc(). In a program with several threads only fork(2) makes the
	 * allocator usable in the child; such a child sends SIGCHLD, and the handlers of
	 * pthread_atfork(3) run.
	 */
	SNAP_SPAWN_ALLOCATES = 1 << 0,
};

/*
 * Makes a child that runs `run` with all signals blocked, and exits with status 0 when that
 * returns. `name` is its comm, of which the kernel keeps 15 bytes. The pidfd is the caller's, and
 * is closed on exec. OS.
 */
struct stacksnap_error *snap_spawn(unsigned flags, const char *name, void (*run)(void *context),
				   void *context, pid_t *pid_ret, int *pidfd_ret) _must_check_;
/* The same for callers that may not allocate; 0 or an errno. */
int snap_spawn_child(unsigned flags, const char *name, void (*run)(void *context), void *context,
		     pid_t *pid_ret, int *pidfd_ret);

/*
 * For a child. A descriptor that a child keeps open stays in use, as an output or in a mount, after
 * the program has closed it. So this closes all descriptors but one, or two; -1: all.
 */
void snap_spawn_close_all_but(int kept);
void snap_spawn_close_all_but_two(int kept, int other);

/* Ends this process at once, without handlers of atexit(3) and without flushing any stream. */
_Noreturn void snap_spawn_exit(int status);

/* Whether the child has ended; waits up to `timeout_ms` for it. */
bool snap_spawn_has_ended(int pidfd, int timeout_ms);

/*
 * Reaps the child: waits up to `grace_ms` for it to end by itself, then sends SIGKILL and waits up
 * to `patience_ms`. A child that does not end then (it is in an uninterruptible wait) is left to
 * the kernel. Returns the status as wait(2) has it if the child ended by itself, else -1. Does not
 * close the pidfd.
 */
int snap_spawn_end(int pidfd, int grace_ms, int patience_ms);
