/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sweep: what all threads of the targets do, look after look, without stopping any.
 *
 * A sink of the sampler (sample/sampler.h) that never stops: a thread that did not run costs one
 * read. Kept of each is where it is blocked, since when, when it last ran, and how much of a
 * processor it uses. Knows nothing of stacks beyond that, of waits, or of alerts.
 */
#pragma once

#include "model/options.h"
#include "sample/sampler.h"

struct snap_sweep_process {
	struct snap_sweep_process *next, *previous;
	pid_t pid;
	uint64_t start_ticks;
	char name[SNAP_MAX_COMM];
};

/* Where a thread is blocked; all zero: it is not, or that is unknown. */
struct snap_sweep_place {
	int64_t number;      /* of the call; -1: in none */
	uint64_t pc, object; /* the call's first argument */
};

struct snap_sweep_thread {
	const struct snap_sampled_thread *shown; /* NULL: the place is free */
	const struct snap_sweep_process *process;
	struct snap_sweep_place place;
	bool is_blocked;    /* `place` is known */
	int64_t blocked_ns; /* CLOCK_MONOTONIC: seen there first, and since then nowhere else */
	int64_t changed_ns; /* the last time that its copy was another one */
	uint64_t run_ns;    /* at the last look */
	unsigned percent;   /* of a processor, between the last two looks */
	int64_t busy_ns;    /* since when it uses much of one; 0: it does not */
};

struct snap_sweep {
	struct snap_options options; /* the caller's, changed; the arena is the caller's */
	struct snap_sampler_sink sink;
	struct snap_sampler *sampler;
	struct snap_sweep_process *processes;
	struct snap_sweep_thread *threads;
	size_t thread_count, thread_capacity;
	uint32_t *free;
	size_t free_count, free_capacity;
	int64_t now_ns, last_ns; /* CLOCK_MONOTONIC of this look, and of the one before; 0: none */
	unsigned busy_percent;   /* from how much on a thread is busy */
	bool no_targets, refused;
};

/* `busy_percent`: from how much of a processor on a thread counts as busy. Errors of discovery. */
struct stacksnap_error *snap_sweep_init(struct snap_sweep *sweep,
					const struct snap_options *options,
					unsigned busy_percent) _must_check_;
void snap_sweep_deinit(struct snap_sweep *sweep);

/* One look. CANCELLED, NO_MEMORY. */
struct stacksnap_error *snap_sweep_run(struct snap_sweep *sweep) _must_check_;

/*
 * Whether a thread stands where it stood at a moment: it has not run since `left_ns`, which is that
 * moment or a later one, and has been nowhere else since; or, where it wakes up to look again, it
 * came back to the same place with the same stack, and used next to nothing.
 */
bool snap_sweep_is_still(const struct snap_sweep_thread *thread, int64_t since_ns, int64_t left_ns,
			 bool looks_again);
