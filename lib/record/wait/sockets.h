/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is known of the sockets that sampled threads wait with: addresses, states, names.
 *
 * The kernel lists all sockets of a network namespace at once, which may take long. So a child asks
 * it beside the ticks: after the first one, and when a thread waited with another socket, at most
 * once a second and in a hundredth of the time. Knows nothing of the waiters.
 */
#pragma once

#include "base/table.h"
#include "sample/sampler.h"
#include "store/log/log.h"

/* The network of a process; a part of the sink's entry. All zero: it was not asked for yet. */
struct snap_socket_owner {
	uint64_t network; /* inode of its namespace; 0 unknown */
	bool is_asked;
};

struct snap_wanted_socket;
struct snap_socket_query;

struct snap_socket_queries {
	struct snap_log *log;
	struct snap_wanted_socket *wanted;
	size_t count, capacity;
	struct snap_hash_table by_inode;
	size_t asked;                    /* how many of them the last query was for */
	struct snap_socket_query *query; /* that is under way; NULL: none */
	int64_t next_ns;                 /* CLOCK_MONOTONIC: no other one before */
	bool failed;                     /* there can be none */
};

void snap_socket_queries_init(struct snap_socket_queries *queries, struct snap_log *log);
void snap_socket_queries_deinit(struct snap_socket_queries *queries);

/* A thread of a process, whose space has that number in the log, waits with these descriptors. */
struct stacksnap_error *
snap_socket_queries_note(struct snap_socket_queries *queries, struct snap_socket_owner *owner,
			 const struct snap_sampled_process *process, uint32_t space,
			 const struct snap_descriptor *descriptors, size_t count) _must_check_;

/*
 * Takes what a query has found, and begins one that is due. At the end (`is_last`) waits a moment
 * for both.
 */
struct stacksnap_error *snap_socket_queries_work(struct snap_socket_queries *queries,
						 bool is_last) _must_check_;
