/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Metrics: what the server has done and what it costs, as text for Prometheus and its kind. Knows
 * nothing of connections; used by one thread.
 */
#pragma once

#include "serve/job.h"

#include <stdio.h>

enum { SNAP_SERVE_STOP_BUCKETS = 10, SNAP_SERVE_REFUSALS = 8 };

/* All zero at the start. */
struct snap_serve_metrics {
	unsigned long long requests, snapshots, recordings, failed, partial;
	unsigned long long cancelled; /* recordings and snapshots whose client went away */
	unsigned long long cut;       /* connections that were too slow */
	unsigned long long stops[SNAP_SERVE_STOP_BUCKETS + 1]; /* the last one: longer ones */
	double stopped_s, recording_stopped_s;
	unsigned long long ticks, ticks_missed;
	unsigned long long refused[SNAP_SERVE_REFUSALS]; /* by the table in metrics.c */
	unsigned running;                                /* jobs, now */
};

void snap_serve_metrics_add_work(struct snap_serve_metrics *metrics,
				 const struct snap_serve_work *work);
/* A request was refused with this status. */
void snap_serve_metrics_add_refusal(struct snap_serve_metrics *metrics, unsigned status);
/* As OpenMetrics, else in the older text format of Prometheus. */
void snap_serve_metrics_print(const struct snap_serve_metrics *metrics, bool is_open, FILE *out);
