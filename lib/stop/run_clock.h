/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Run clocks: for how long a thread has not run.
 *
 * The kernel notes when a thread ran last (`se.exec_start` of /proc/TID/sched, CONFIG_SCHED_DEBUG),
 * by a clock of the processor that it ran on. The clocks of two processors may be far apart, so
 * each is read once, by a thread that has just been scheduled there. A stop counts as a run: read
 * this before the stop. Nothing here allocates or locks. Knows nothing of why a thread did not run.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { SNAP_RUN_CLOCKS = 1024 /* processors; higher ones are not read */ };

struct snap_run_clocks {
	/* How far each clock is ahead of CLOCK_MONOTONIC, at least; INT64_MIN: unknown. */
	int64_t ahead_ns[SNAP_RUN_CLOCKS];
};

/*
 * Reads the clocks of all processors that the calling thread may run on. The thread moves to one
 * after the other, and may run on all of them again afterwards. It takes 100 ms at most, which only
 * a busy machine needs: the rest stays unknown. `root_fd`: of procfs.
 */
void snap_run_clocks_read(int root_fd, struct snap_run_clocks *ret);

/*
 * For how many nanoseconds a thread has not run by now, at least; -1: not known. `cpu`: the
 * processor that it ran on last.
 */
int64_t snap_run_clocks_blocked(const struct snap_run_clocks *clocks, int tasks_fd, pid_t tid,
				int cpu);
