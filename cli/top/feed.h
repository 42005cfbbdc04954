/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Feed: the flight recorder of `stacksnap top`, in a thread of its own, and what it hands to the
 * thread that draws: the last seconds, again and again, and what was asked to be written.
 *
 * The recorder never waits for the screen: what was not taken is replaced. Knows nothing of
 * screens, keys or files.
 */
#pragma once

#include "options.h"

enum { SNAP_TOP_SHOWN_S = 5 }; /* the seconds that are shown */

struct snap_top_feed;

/* What may be asked for. */
enum snap_top_ask {
	SNAP_TOP_ASK_NOTHING,
	SNAP_TOP_ASK_SNAPSHOT, /* of now; without a stop of all, as with --no-stop */
	SNAP_TOP_ASK_RING,     /* all that the recorder keeps */
};

/* Where the run stands, as a copy. */
struct snap_top_status {
	unsigned long long threads, ticks_missed;
	double hz_reached, stopped_percent; /* since the start */
	bool ended;                         /* no process is looked at any more … */
	bool failed;                        /* … and not because of the targets */
	const char *why;                    /* then: static, or the feed's */
};

/* What was asked for: one of the three is there; the taker's to destroy. */
struct snap_top_answer {
	struct stacksnap_snapshot *snapshot;
	struct stacksnap_recording *ring;
	struct stacksnap_error *error;
};

/*
 * Finds the targets; no process is touched before snap_top_feed_start(). Of the request, which must
 * outlive it, its options are the recorder's thread's from then on. Returns WHOLE, or the exit
 * status after a message.
 */
int snap_top_feed_create(struct snap_cli_request *request, struct snap_top_feed **ret);
/* Begins to record. Returns 0, or an errno where there can be no thread for it. */
int snap_top_feed_start(struct snap_top_feed *feed);
/* Ends the run, which takes a third of a second at the most, or one where names are looked for. */
void snap_top_feed_destroy(struct snap_top_feed *feed);

/* A descriptor that can be read once there is news; snap_top_feed_listen() empties it. */
int snap_top_feed_fd(const struct snap_top_feed *feed);
void snap_top_feed_listen(struct snap_top_feed *feed);
/* Makes it readable. From any thread or signal handler. */
void snap_top_feed_wake(const struct snap_top_feed *feed);

/* The last seconds, if there are newer ones than those taken before, else NULL. The caller's. */
struct stacksnap_recording *snap_top_feed_take(struct snap_top_feed *feed);
struct snap_top_status snap_top_feed_status(struct snap_top_feed *feed);

/* Whether the last seconds are to be handed over; they are recorded in any case. */
void snap_top_feed_pause(struct snap_top_feed *feed, bool paused);

/* Asks for one thing; the one before it must have been answered. */
void snap_top_feed_ask(struct snap_top_feed *feed, enum snap_top_ask ask);
/* Whether it has been answered; then it is in *ret. */
bool snap_top_feed_answered(struct snap_top_feed *feed, struct snap_top_answer *ret);

/*
 * Between two of them no process is looked at or stopped: for a tool that is about to be stopped
 * itself. The first waits until this holds, a second at the most.
 */
void snap_top_feed_hold(struct snap_top_feed *feed);
void snap_top_feed_release(struct snap_top_feed *feed);
