/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which processes of the recording have the other ends of pipes and sockets that sampled threads
 * wait with, and which have files locked, over time.
 *
 * The tables of descriptors say so; reading them may take long, and may sleep. So a child reads
 * them beside the ticks, again and again while a thread waits, in a hundredth of the time. The
 * result of a query is added to the log with the tick in which it arrives. Knows nothing of the
 * waiters.
 */
#pragma once

#include "base/error.h"
#include "store/log/log.h"

struct snap_waited_peer;
struct snap_peer_query;

struct snap_peer_queries {
	struct snap_log *log;
	struct snap_waited_peer *ends; /* with which a thread waits, or has since the last query */
	size_t count, capacity;
	uint32_t *places; /* by object: index + 1 in ends; 0: not there */
	size_t place_count, place_capacity;
	struct snap_peer_query *query; /* that is under way; NULL: none */
	uint32_t *asked;               /* objects that it is for */
	size_t asked_capacity;
	int64_t next_ns; /* CLOCK_MONOTONIC: no other one before */
	unsigned taken;  /* queries that have ended */
	bool failed;     /* there can be none */
};

void snap_peer_queries_init(struct snap_peer_queries *queries, struct snap_log *log);
void snap_peer_queries_deinit(struct snap_peer_queries *queries);

/* A thread that stood with the object `before` stands with `after` now (numbers + 1; 0: none). */
struct stacksnap_error *snap_peer_queries_stand(struct snap_peer_queries *queries, uint32_t before,
						uint32_t after) _must_check_;

/* Within a tick: takes what a query has found, and begins one that is due. */
struct stacksnap_error *snap_peer_queries_work(struct snap_peer_queries *queries) _must_check_;

/* The log has other numbers for its objects. */
void snap_peer_queries_renumber(struct snap_peer_queries *queries);
