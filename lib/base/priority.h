/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Priority: has the calling thread run soon after it wakes, for as long as a run takes.
 *
 * Who reports for others sleeps most of the time and works for a moment. Behind a thread that computes
 * it would wait for the end of that one's time slice, which is longer than a tick of a recording may be
 * late, and longer than a stopped thread should stand still; among hundreds of threads of a target that
 * wake up all the time it would get no processor for seconds, and miss every deadline. It stays a normal
 * thread among normal threads.
 */
#ifndef SNAP_BASE_PRIORITY_H
#define SNAP_BASE_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

struct snap_priority {
	bool raised;
	int32_t nice;
	uint64_t slice_ns;
};

/*
 * As far as is permitted, and not where somebody made this process a nice one; processes made
 * meanwhile have it, too.
 */
void snap_priority_raise(struct snap_priority *before);
void snap_priority_restore(const struct snap_priority *before);

#endif
