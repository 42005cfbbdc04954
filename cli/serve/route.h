/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Routes: which page a request asks for, in which format, with which parameters.
 *
 * One table of pages. Knows the formats of the library and nothing of connections, of targets, or
 * of how a page is made.
 */
#pragma once

#include "serve/query.h"

enum snap_serve_page {
	SNAP_SERVE_HOME,
	SNAP_SERVE_PPROF_INDEX,
	SNAP_SERVE_PPROF_REDIRECT, /* the index without its slash */
	SNAP_SERVE_METRICS,
	SNAP_SERVE_PROCESSES,
	SNAP_SERVE_SNAPSHOT,
	SNAP_SERVE_RECORDING,
};

enum { SNAP_SERVE_MAX_SECONDS = 60, SNAP_SERVE_MAX_HZ = 1000 };

/* What is asked for. Texts are static, or the query's. */
struct snap_serve_order {
	enum snap_serve_page page;
	const char *format; /* of a snapshot, a recording, or the list of processes */
	const char *type;   /* the media type of the answer */
	const char *target; /* NULL: all */
	unsigned seconds, hz;
	const char *mode; /* of a recording: "wall", "cpu" */
};

/*
 * 0, or the status of a refusal (400, 404, 406) and a word about it, static. `accept`: the header,
 * NULL if there is none. The order must not outlive the query.
 */
unsigned snap_serve_route(const struct snap_serve_query *query, const char *accept,
			  struct snap_serve_order *ret, const char **why_ret);
