/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The proxy: a process that makes workers for a caller whose memory will grow. It wishes for one at
 * a time. Knows nothing of what they do.
 */
#include "base/clock.h"
#include "base/workers/internal.h"

#include "base/cleanup.h"
#include "base/spawn.h"

#include <signal.h>
#include <sys/wait.h>

enum {
	MAKER_PATIENCE_MS = 500,
	NAP_NS = 500000,
	LOOK_NS = 20000000, /* between two looks whether it lives */
};

/* Reaps those that have ended, waiting for them up to so long. */
static void reap_workers(int64_t patience_ns)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + patience_ns;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);

		if (pid < 0 || (pid == 0 && snap_clock_ns(CLOCK_MONOTONIC) >= until))
			return;
		if (pid == 0)
			nanosleep(&nap, NULL);
	}
}

/* Until the caller has gone, or wants no more workers. */
static void run_maker(void *context)
{
	const struct snap_workers *pool = context;
	struct snap_workers_shared *shared = pool->shared;
	uint32_t answered = 0;

	snap_spawn_close_all_but_two(pool->kept_fd, snap_workers_kept_channel(pool));
	for (;;) {
		int pidfd = -1;

		while (snap_futex_load(&shared->wish) == answered)
			snap_futex_sleep(&shared->wish, answered, 0);
		if (shared->slot == SNAP_WORKERS_MOST) {
			reap_workers(SNAP_WORKERS_END_MS * SNAP_NS_PER_MS);
			return;
		}
		reap_workers(0);
		shared->made = snap_worker_spawn(pool, snap_worker_slot_of(pool, shared->slot),
						 &pidfd) == 0;
		snap_close(&pidfd);
		__atomic_store_n(&shared->answered, ++answered, __ATOMIC_RELEASE);
		snap_futex_wake(&shared->answered);
	}
}

int snap_worker_make_by_proxy(struct snap_workers *pool, size_t index)
{
	struct snap_workers_shared *shared = pool->shared;
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + MAKER_PATIENCE_MS * SNAP_NS_PER_MS;
	uint32_t wish = shared->wish + 1;
	int pidfd;
	pid_t pid;

	shared->slot = (uint32_t)index;
	__atomic_store_n(&shared->wish, wish, __ATOMIC_RELEASE);
	snap_futex_wake(&shared->wish);
	while (snap_futex_load(&shared->answered) != wish) {
		if (snap_clock_ns(CLOCK_MONOTONIC) > until ||
		    snap_spawn_has_ended(pool->maker_pidfd, 0))
			return -1;
		snap_futex_sleep(&shared->answered, wish - 1, LOOK_NS);
	}
	if (!shared->made)
		return -1;
	pid = snap_worker_slot_of(pool, index)->pid;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Else it would wait at a slot that the next worker has, and answer in its place. */
	if (pidfd < 0)
		kill(pid, SIGKILL);
	return pidfd;
}

int snap_workers_make_maker(struct snap_workers *pool)
{
	struct snap_workers_shared *shared = pool->shared;
	pid_t pid;

	shared->wish = shared->answered = shared->slot = 0;
	return snap_spawn_child(0, "snap-reader", run_maker, pool, &pid, &pool->maker_pidfd);
}

void snap_workers_dismiss_maker(struct snap_workers *pool)
{
	if (pool->maker_pidfd < 0)
		return;
	pool->shared->slot = SNAP_WORKERS_MOST;
	__atomic_fetch_add(&pool->shared->wish, 1, __ATOMIC_RELEASE);
	snap_futex_wake(&pool->shared->wish);
	snap_spawn_end(pool->maker_pidfd, 2 * SNAP_WORKERS_END_MS, SNAP_WORKERS_END_MS);
	snap_close(&pool->maker_pidfd);
}
