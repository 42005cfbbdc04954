/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Until: see until.h. */
#include "record/until.h"

static double threads_in(unsigned states, const struct snap_until_tick *tick)
{
	uint64_t count =
		snap_sum(SNAP_STATE_COUNT, state, states & 1u << state ? tick->states[state] : 0);

	return (double)count;
}

static const struct snap_until_point *point_at(const struct snap_until_watch *watch, unsigned n)
{
	return &watch->points[(watch->first + n) % SNAP_UNTIL_POINTS];
}

static void remember_tick(struct snap_until_watch *watch, const struct snap_until_tick *tick)
{
	const int64_t apart = SNAP_UNTIL_WINDOW_NS / (SNAP_UNTIL_POINTS / 2);

	if (watch->count && tick->time_ns - point_at(watch, watch->count - 1)->time_ns < apart)
		return;
	if (watch->count == SNAP_UNTIL_POINTS) {
		watch->first = (watch->first + 1) % SNAP_UNTIL_POINTS;
		watch->count--;
	}
	watch->points[(watch->first + watch->count++) % SNAP_UNTIL_POINTS] =
		(struct snap_until_point){ tick->time_ns, tick->run_ns };
	/* The oldest one is as old as the window, and the only one that is. */
	while (watch->count > 2 &&
	       tick->time_ns - point_at(watch, 1)->time_ns >= SNAP_UNTIL_WINDOW_NS) {
		watch->first = (watch->first + 1) % SNAP_UNTIL_POINTS;
		watch->count--;
	}
}

/*
 * How much of a processor all threads used within the window, in percent; negative: the window is
 * not full yet, or it is unknown.
 */
static double cpu_percent(struct snap_until_watch *watch, const struct snap_until_tick *tick)
{
	const struct snap_until_point *then;
	int64_t passed;

	if (tick->run_ns == 0) {
		watch->count = 0;
		return -1;
	}
	remember_tick(watch, tick);
	then = point_at(watch, 0);
	passed = tick->time_ns - then->time_ns;
	if (passed < SNAP_UNTIL_WINDOW_NS)
		return -1;
	if (tick->run_ns < then->run_ns)
		return 0;
	return 100.0 * (double)(tick->run_ns - then->run_ns) / (double)passed;
}

static bool holds(struct snap_until_watch *watch, const struct snap_until *until,
		  const struct snap_until_tick *tick)
{
	double value = -1;

	switch (until->kind) {
	case SNAP_UNTIL_NONE:
		return false;
	case SNAP_UNTIL_THREADS:
		value = (double)tick->threads;
		break;
	case SNAP_UNTIL_STATE:
		value = threads_in(until->states, tick);
		break;
	case SNAP_UNTIL_CPU:
		value = cpu_percent(watch, tick);
		if (value < 0)
			return false;
		break;
	}
	return until->below ? value < until->limit : value > until->limit;
}

bool snap_until_met(struct snap_until_watch *watch, const struct snap_until *until,
		    const struct snap_until_tick *tick)
{
	if (!holds(watch, until, tick)) {
		watch->holds = watch->reported = false;
		return false;
	}
	if (!watch->holds) {
		watch->holds = true;
		watch->since_ns = tick->time_ns;
	}
	if (watch->reported || tick->time_ns - watch->since_ns < until->for_ns)
		return false;
	watch->reported = true;
	return true;
}
