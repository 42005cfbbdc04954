/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A job: one snapshot, recording or list, in a thread of its own, from an order to an answer.
 *
 * In a thread, as the library works in the thread that calls it, and its child processes end with
 * that. Knows nothing of connections.
 */
#pragma once

#include "options.h"
#include "serve/route.h"

#include <stdatomic.h>
#include <stdint.h>

/* What all jobs have in common, and outlives them. */
struct snap_serve_common {
	const struct snap_cli_request *request;
	const struct stacksnap_snapshot
		*seen;        /* the targets at the start; NULL: no pids among them */
	int wake;             /* an eventfd: a number is written to it when a job is done */
	atomic_size_t bodies; /* bytes of all answers */
};

/* What was done, for the metrics. */
struct snap_serve_work {
	enum snap_serve_page page;
	bool is_made;                           /* else it failed */
	bool is_partial;                        /* something is missing in it */
	long long stopped_ns;                   /* that its targets stood still, at most */
	long long length_ns;                    /* of a recording */
	unsigned long long ticks, ticks_missed; /* of a recording */
};

struct snap_serve_answer {
	unsigned status;
	int fd;           /* the body; -1: `message` is */
	size_t size;      /* of the body, among those of all */
	const char *type; /* static */
	char message[512];
	struct snap_serve_work work;
};

struct snap_serve_job;

/* CLOCK_MONOTONIC */
int64_t snap_serve_now_ns(void);

/*
 * Starts it. A recording stops its targets for a `share` of the time. The order, with its texts,
 * outlives the job. NULL with errno.
 */
struct snap_serve_job *snap_serve_job_start(struct snap_serve_common *common,
					    const struct snap_serve_order *order, double share);
/* Ends it soon, with the status 503, unless it is done. */
void snap_serve_job_cancel(struct snap_serve_job *job);
bool snap_serve_job_is_done(const struct snap_serve_job *job);
/* Waits for its end, releases it, and hands over the answer. */
void snap_serve_job_finish(struct snap_serve_job *job, struct snap_serve_answer *ret);
