/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Phases of a tracee, which is a thread that a tracing child works on, and the one function that
 * changes them. The events are on the arrows.
 *
 *	            +--RESTED---> RESTING   on no processor, not traced; RAN leads back to LISTED
 *	            |
 *	            +--REFUSED--> REFUSED   runs on, not traced
 *	            |
 *	            +--ENDED----> EXITING   has ended, the kernel still counts it <--+
 *	            |                                                                | ENDED: a
 *	LISTED -----+--SEIZED---> SEIZED ------------+                               | leader whose
 *	            |               | INTERRUPTED    |                               | threads live
 *	            |               v                |                               |
 *	            +--BORN-----> AWAITED --DELAYED--|--> SLOW ----------------------+
 *	                            | STOPPED        |     |
 *	                            v                |     |
 *	                          STOPPED <----------+-----+ STOPPED
 *	                            |   |
 *	                   RELEASED |   +--KILLED--> AWAITED
 *	                            v
 *	                          RELEASED
 *
 * The event GONE leads from every phase to GONE. EXECED leads from every phase to AWAITED: a thread
 * that calls exec takes over the number of its leader, and stops.
 *
 * Knows no process, and makes no system call.
 */
#pragma once

#include <stdbool.h>

enum snap_tracee_phase {
	SNAP_TRACEE_LISTED, /* its tid is known; zero, the phase of a new record */
	SNAP_TRACEE_RESTING, /* not traced: on no processor since its registers were read, see rest.c */
	SNAP_TRACEE_REFUSED,  /* not traced: a worker of the kernel, or no permission */
	SNAP_TRACEE_EXITING,  /* has ended, and counts until the kernel has removed it */
	SNAP_TRACEE_SEIZED,   /* traced, runs */
	SNAP_TRACEE_AWAITED,  /* traced, will stop or end */
	SNAP_TRACEE_SLOW,     /* the same, but only waited for when all others stand still */
	SNAP_TRACEE_STOPPED,  /* stopped, as wait(2) has reported */
	SNAP_TRACEE_RELEASED, /* runs again, not traced any more */
	SNAP_TRACEE_GONE,     /* nothing of it is left */
	SNAP_TRACEE_PHASES,
};

enum snap_tracee_event {
	SNAP_TRACEE_ON_RESTED,  /* its registers were read, and it was on no processor */
	SNAP_TRACEE_ON_RAN,     /* it has been on a processor since then */
	SNAP_TRACEE_ON_REFUSED, /* SEIZE failed, or is not tried */
	SNAP_TRACEE_ON_ENDED,   /* has ended, and wait(2) will not report that now */
	SNAP_TRACEE_ON_SEIZED,  /* SEIZE succeeded */
	SNAP_TRACEE_ON_BORN,    /* a tracee made it: traced, stops before its first instruction */
	SNAP_TRACEE_ON_INTERRUPTED, /* INTERRUPT succeeded */
	SNAP_TRACEE_ON_DELAYED,     /* it sleeps in D, or the time is up */
	SNAP_TRACEE_ON_STOPPED,     /* wait(2) reported a stop */
	SNAP_TRACEE_ON_KILLED,      /* DETACH failed, after SIGKILL: wait(2) will report its end */
	SNAP_TRACEE_ON_RELEASED,    /* DETACH succeeded */
	SNAP_TRACEE_ON_EXECED,      /* another thread has its tid now, and is about to stop */
	SNAP_TRACEE_ON_GONE,        /* wait(2) reported its end, or there is no such thread */
	SNAP_TRACEE_EVENTS,
};

/* The phase that follows; the same one if the event has no effect in it. */
enum snap_tracee_phase snap_tracee_next(enum snap_tracee_phase phase, enum snap_tracee_event event);

/* Whether the kernel counts it among the threads of its process. */
bool snap_tracee_is_counted(enum snap_tracee_phase phase);
/* Whether it is counted, and can vanish at any time without a report of wait(2). */
bool snap_tracee_is_unwatched(enum snap_tracee_phase phase);
/* Whether we are done with it: it runs untraced, or has gone. */
bool snap_tracee_is_done(enum snap_tracee_phase phase);
