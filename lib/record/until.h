/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Until: whether the condition of --until is met, tick after tick.
 *
 * It is met once it has held without a break for as long as it asks, and not again before it has
 * been false. Works on what a tick counted; knows nothing of threads.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"

enum {
	SNAP_UNTIL_POINTS = 64,                /* of the processor's use that are remembered … */
	SNAP_UNTIL_WINDOW_NS = 1000 * 1000000, /* … within the second over which it is judged */
};

/* What a tick counted. */
struct snap_until_tick {
	int64_t time_ns;
	uint64_t threads;       /* that are there */
	const uint64_t *states; /* threads by enum snap_state */
	uint64_t run_ns;        /* processor time that all threads used, ever; 0 unknown */
};

struct snap_until_point {
	int64_t time_ns;
	uint64_t run_ns;
};

/* Zeroed at first. */
struct snap_until_watch {
	bool holds, reported;
	int64_t since_ns;
	struct snap_until_point points[SNAP_UNTIL_POINTS]; /* a ring, oldest at `first` */
	unsigned first, count;
};

/* True at the one tick at which the condition is met. */
bool snap_until_met(struct snap_until_watch *watch, const struct snap_until *until,
		    const struct snap_until_tick *tick);
