/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Holders: the words of futexes that sampled threads wait for, kept up to date while they wait.
 *
 * A sleeping thread is not sampled again, but the holder of its lock changes. So after a tick the
 * words of some futexes are read, in a small share of the time: the most waited-for first, each
 * again soon after one of its waiters has run, and seldom where nothing happens, because releasing
 * a lock wakes a waiter. What a word means is found at the end. Knows no locks, and of threads only
 * how many wait.
 */
#pragma once

#include "sample/sampler.h"
#include "store/log/log.h"

/* A process whose memory is read; a part of the sink's entry. */
struct snap_owner_source {
	struct snap_sampled_process *process;
	uint64_t rest_tick; /* until then it is left alone */
};

struct snap_watched_futex;

struct snap_owner_watch {
	struct snap_log *log;
	uint64_t tick; /* of ours */
	struct snap_watched_futex *futexes;
	size_t count, capacity;
	uint32_t *places; /* by object: index + 1 in futexes; 0: not there */
	size_t place_count, place_capacity;
	struct snap_owner_batch *batch;
	int64_t share_ns; /* of a tick, for reading */
	int64_t owed_ns;  /* by which it took more */
	/* figures for tests */
	uint64_t reads, calls;
};

void snap_owner_watch_init(struct snap_owner_watch *holders, struct snap_log *log);
void snap_owner_watch_deinit(struct snap_owner_watch *holders);

/*
 * Within a tick: a thread of `source` that stood with the object `before` was sampled, and stands
 * with `after` now (numbers + 1; 0: none). `words`: those of the sample; NULL: it brought none.
 */
struct stacksnap_error *snap_owner_watch_stand(struct snap_owner_watch *holders,
					       struct snap_owner_source *source, uint32_t before,
					       uint32_t after,
					       const struct snap_memory_image *words) _must_check_;

/* Within a tick, behind the sampler's: reads what is due, and tells the log. */
struct stacksnap_error *snap_owner_watch_read(struct snap_owner_watch *holders,
					      struct snap_sampler *sampler) _must_check_;

/* A process has ended: nothing of it is read any more. */
void snap_owner_watch_forget(struct snap_owner_watch *holders,
			     const struct snap_owner_source *source);
/* The log has been renumbered. */
void snap_owner_watch_renumber(struct snap_owner_watch *holders);
