/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tick pacer: a grid of moments at a steady rate, and which of them were missed.
 *
 * Slot k is the time from k / hz to (k + 1) / hz seconds after the start. A tick that begins within
 * a slot is that slot's; slots in which none began are missed, and are never made up for. Reasons:
 * the tick before was not done yet when one was due; it was done, but the recorder did not run in
 * time; or the tick was left out by choice. All by numbers: knows no clock.
 */
#pragma once

#include <stdint.h>

struct snap_missed {
	uint64_t slots;          /* all */
	uint64_t late, left_out; /* not begun in time; by choice; the rest: not done yet */
};

struct snap_tick_pacer {
	unsigned hz;
	uint64_t next; /* the first slot that is neither taken nor missed */
	uint64_t taken;
	struct snap_missed missed;
	int64_t done_ns; /* since the start: when the last tick was done */
	uint64_t ahead;  /* slots before `next` that count as missed, and may not have begun */
};

/* When a slot begins, in nanoseconds since the start. */
int64_t snap_tick_pacer_time(const struct snap_tick_pacer *pace, uint64_t slot);
/* The slot in which a moment lies. */
uint64_t snap_tick_pacer_slot(const struct snap_tick_pacer *pace, int64_t elapsed_ns);

/* When the next tick is due; a moment in the past if it is late. */
static inline int64_t snap_tick_pacer_due(const struct snap_tick_pacer *pace)
{
	return snap_tick_pacer_time(pace, pace->next);
}

/* A tick begins, not before it is due. */
void snap_tick_pacer_take(struct snap_tick_pacer *pace, int64_t elapsed_ns);
/* The tick that began last is done. */
static inline void snap_tick_pacer_done(struct snap_tick_pacer *pace, int64_t elapsed_ns)
{
	pace->done_ns = elapsed_ns;
}

/* So many slots more are missed, by choice. */
void snap_tick_pacer_leave_out(struct snap_tick_pacer *pace, uint64_t slots);
/* The run ends: slots that began before are missed. */
void snap_tick_pacer_finish(struct snap_tick_pacer *pace, int64_t elapsed_ns);
