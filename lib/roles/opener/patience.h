/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Patience: how long an opener is waited for, by what it was seen to do meanwhile.
 *
 * One that gets no processor, on a busy machine, has the whole time; and so has one that a slow disk
 * keeps waiting, if no opener was lost yet: without the file stacks are short. One that sleeps
 * because of a program has a part of that, as a program answers at once or, if it is hostile, never:
 * a sleep that signals could end (S) is never one for a disk, and when what is read may be served by
 * a program the opener says so. It is the time since it last ran that counts, so a file system that
 * is slow, but answers, is waited for. With each loss the part halves, and with each time as long as
 * the part that was slept through for answers which came. Knows nothing of files, nor whom it looks
 * at.
 */
#ifndef SNAP_ROLES_OPENER_PATIENCE_H
#define SNAP_ROLES_OPENER_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Over all requests of a run. */
struct snap_patience {
	unsigned losses;
	int64_t slow_ns; /* asleep because of programs, in requests that were answered */
};

/* What is seen of an opener at one moment. */
struct snap_patience_look {
	int64_t now_ns;
	char state;     /* as the kernel tells it; 0: it does not */
	uint64_t runs;  /* how often it was given a processor; 0 always: the kernel does not tell */
	bool is_served; /* it reads what a program may serve */
};

/* One request. */
struct snap_patience_wait {
	int64_t begin_ns, last_ns, whole_ns;
	uint64_t runs;
	int64_t still_ns;  /* asleep because of a program, without having run */
	int64_t asleep_ns; /* in all */
	int64_t served_ns; /* of these, because of a program */
};

/* A request is made now, which may take so long. */
void snap_patience_begin(struct snap_patience_wait *wait, int64_t now_ns, int64_t whole_ns);
/* Whether it is to be given up; to be called every 20 ms or so. */
bool snap_patience_is_over(const struct snap_patience *patience, struct snap_patience_wait *wait,
			   const struct snap_patience_look *look);
/* It was answered. */
void snap_patience_end(struct snap_patience *patience, const struct snap_patience_wait *wait);

#endif
