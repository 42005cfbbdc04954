/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The phases of a thread, as a table: see phases.h. */
#include "stop/child/phases.h"

#include <stdint.h>

/* 0: the event has no effect in that phase; else the next phase + 1. */
#define ON(event, phase) [SNAP_TRACEE_ON_##event] = SNAP_TRACEE_##phase + 1

static const uint8_t next_phase[SNAP_TRACEE_PHASES][SNAP_TRACEE_EVENTS] = {
	[SNAP_TRACEE_LISTED] = { ON(RESTED, RESTING), ON(REFUSED, REFUSED), ON(ENDED, EXITING),
				 ON(SEIZED, SEIZED), ON(BORN, AWAITED) },
	[SNAP_TRACEE_RESTING] = { ON(RAN, LISTED) },
	[SNAP_TRACEE_SEIZED] = { ON(INTERRUPTED, AWAITED), ON(STOPPED, STOPPED) },
	[SNAP_TRACEE_AWAITED] = { ON(ENDED, EXITING), ON(DELAYED, SLOW), ON(STOPPED, STOPPED) },
	[SNAP_TRACEE_SLOW] = { ON(ENDED, EXITING), ON(STOPPED, STOPPED) },
	[SNAP_TRACEE_STOPPED] = { ON(KILLED, AWAITED), ON(RELEASED, RELEASED) },
};

enum snap_tracee_phase snap_tracee_next(enum snap_tracee_phase phase, enum snap_tracee_event event)
{
	uint8_t next = next_phase[phase][event];

	if (event == SNAP_TRACEE_ON_GONE)
		return SNAP_TRACEE_GONE;
	if (event == SNAP_TRACEE_ON_EXECED)
		return SNAP_TRACEE_AWAITED;
	return next ? (enum snap_tracee_phase)(next - 1) : phase;
}

bool snap_tracee_is_counted(enum snap_tracee_phase phase)
{
	return phase != SNAP_TRACEE_GONE;
}

bool snap_tracee_is_unwatched(enum snap_tracee_phase phase)
{
	return phase == SNAP_TRACEE_REFUSED || phase == SNAP_TRACEE_EXITING;
}

bool snap_tracee_is_done(enum snap_tracee_phase phase)
{
	return phase == SNAP_TRACEE_REFUSED || phase == SNAP_TRACEE_RELEASED ||
	       phase == SNAP_TRACEE_GONE;
}
