/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks: one job and its answer for all clients that ask for the same within a second.
 *
 * Decides when a job begins, so that all of them together keep to the share of the time for which
 * targets may be stopped. Knows nothing of connections; used by one thread.
 */
#pragma once

#include "serve/job.h"
#include "serve/ledger.h"
#include "serve/metrics.h"

struct snap_serve_look {
	struct snap_serve_look *next;
	struct snap_serve_order order; /* its target is owned */
	struct snap_serve_job *job;    /* NULL: it has not begun, or is done */
	unsigned clients;              /* that wait for it or read it */
	bool is_done, is_late, is_cancelled;
	double share;        /* of a recording, set aside for it */
	int64_t begun_ns;    /* CLOCK_MONOTONIC; 0: it waits until targets may be stopped again */
	int64_t deadline_ns; /* INT64_MAX: none any more */
	struct snap_serve_answer answer; /* once it is done */
};

struct snap_serve_looks {
	struct snap_serve_common common;
	struct snap_serve_ledger ledger;
	struct snap_serve_metrics *metrics;
	struct snap_serve_look *first;
	unsigned captures, lists; /* that are not done */
	bool is_ending;
};

/* Whether it may stop targets. */
bool snap_serve_look_is_capture(const struct snap_serve_order *order);
/*
 * The look for an order, with one more client: one that began less than a second ago, or a new one.
 * NULL: *status_ret, *why_ret, and in how many seconds to ask again, 0: not known.
 */
struct snap_serve_look *snap_serve_looks_join(struct snap_serve_looks *looks,
					      const struct snap_serve_order *order,
					      unsigned *status_ret, const char **why_ret,
					      unsigned *retry_s_ret);
/* One client less. A recording without clients ends. */
void snap_serve_look_leave(struct snap_serve_look *look);
/* Begins, ends and forgets what it is time for. */
void snap_serve_looks_go_on(struct snap_serve_looks *looks);
/* When to call that again, unless a job wakes the loop before; INT64_MAX: never. */
int64_t snap_serve_looks_due(struct snap_serve_looks *looks);
/* All are asked to end, and no new one begins. */
void snap_serve_looks_cancel(struct snap_serve_looks *looks);
/* Waits for the end of all jobs. */
void snap_serve_looks_finish(struct snap_serve_looks *looks);
/* After that, and when no client is left. */
void snap_serve_looks_deinit(struct snap_serve_looks *looks);
