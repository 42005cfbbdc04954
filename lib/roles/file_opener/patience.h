/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Patience: decides how long to wait for an opener, by what it was seen to do meanwhile.
 *
 * An opener that gets no processor, on a busy machine, has the whole time. So has one that waits
 * for a slow disk, as long as no opener was lost: without the file stacks are short. An opener that
 * sleeps because of a program has only a part of the time, as a program answers at once or, if it
 * is hostile, never. A sleep in state S is never one for a disk; and the opener reports when it
 * reads what a program may serve. The time since the opener last ran counts, so a slow file system
 * that answers is waited for. The part halves with each lost opener, and each time that answered
 * requests have slept as long as the part. Knows nothing of files, nor of the process that it
 * judges.
 */
#pragma once

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
	char state;     /* as the kernel gives it; 0: unknown */
	uint64_t runs;  /* how often it was given a processor; always 0: unknown */
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

/* Begins a request, which may take so long. */
void snap_patience_begin(struct snap_patience_wait *wait, int64_t now_ns, int64_t whole_ns);
/* Whether the opener is to be given up; call it about every 20 ms. */
bool snap_patience_is_over(const struct snap_patience *patience, struct snap_patience_wait *wait,
			   const struct snap_patience_look *look);
/* The request was answered. */
void snap_patience_end(struct snap_patience *patience, const struct snap_patience_wait *wait);
