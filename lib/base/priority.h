/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Priority: makes the calling thread run soon after it wakes, for as long as a run takes.
 *
 * A thread that samples, or answers a target, sleeps most of the time and works for a moment. Behind a
 * thread that computes, it would wait until the time slice of the other one ends. That is longer than a
 * tick may be late, and longer than a thread should be stopped. Among hundreds of threads of a target
 * that wake up all the time it would get no processor for seconds, and miss every deadline. A nice value
 * is not enough: it counts within a session (autogroup, sched(7)) or control group, and a user may have
 * hundreds of these. So it is a real-time thread of the lowest level where that is permitted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct snap_priority {
	bool raised;
	int32_t nice;
	uint64_t slice_ns;
};

/*
 * As far as is permitted, and not if this process was given a nice value or another policy. Processes
 * that are made meanwhile have it, too.
 */
void snap_priority_raise(struct snap_priority *before);
void snap_priority_restore(const struct snap_priority *before);

/*
 * For a process that was made meanwhile and is to compute: it becomes a normal thread, which still
 * comes before others as far as is permitted.
 */
void snap_priority_lower(void);

/* What another process of ours can take over, as it works for this one. */
struct snap_priority_level {
	int32_t nice;
	bool real_time;
};

struct snap_priority_level snap_priority_level(void);
/* Of the calling thread, which had the other level before. */
void snap_priority_follow(struct snap_priority_level *before,
			  const struct snap_priority_level *level);
