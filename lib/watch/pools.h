/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pools: threads of a process whose names differ in numbers only, look after look: where they wait
 * for work, and how many they are. Goes by what a sweep tells; knows no stacks.
 */
#pragma once

#include "base/table.h"
#include "watch/sweep.h"

enum {
	SNAP_THREAD_POOL_PLACES = 8,
	SNAP_THREAD_POOL_LOOKS = 11, /* numbers that are kept: ten steps */
	SNAP_THREAD_POOL_TIDS = 64,
};

struct snap_thread_pool {
	pid_t pid;
	uint64_t start_ticks;
	const struct snap_sweep_process *process;
	char pattern[SNAP_MAX_COMM]; /* "worker-*" */
	/* Where its threads were seen blocked, and how often. */
	struct {
		struct snap_sweep_place place;
		uint64_t seen;
	} places[SNAP_THREAD_POOL_PLACES];
	uint64_t round;  /* of the last look that had it */
	size_t threads;  /* in it */
	size_t waiting;  /* of them at the usual place */
	int64_t away_ns; /* since when none is; 0: some is, or the place is not known */
	uint32_t numbers[SNAP_THREAD_POOL_LOOKS]; /* of threads, the oldest first */
	size_t number_count;
	pid_t tids[SNAP_THREAD_POOL_TIDS];
	size_t tid_count;
};

struct snap_pools {
	struct snap_thread_pool *pools;
	size_t count, capacity;
	struct snap_hash_table table;
	uint64_t round;
};

void snap_pools_deinit(struct snap_pools *pools);
/* What a sweep has just seen. NO_MEMORY. */
struct stacksnap_error *snap_pools_look(struct snap_pools *pools,
					const struct snap_sweep *sweep) _must_check_;
/* Whether there were more of them in each look than in the one before, `percent` more in all. */
bool snap_thread_pool_grows(const struct snap_thread_pool *pool, unsigned percent);

/* A name with its numbers as '*'; `out`: SNAP_MAX_COMM bytes. */
void snap_thread_pool_pattern(const char *name, char *out);
