/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the workers: the memory that maker and workers see, and how they wait for
 * each other.
 *
 * Items of a list are claimed from a cursor that all its workers share. It carries the number of
 * the list, so a worker that comes back late from an old list claims nothing of a new one. The first
 * one sets an item's mark: the worker, when it is done, or the maker, when it gives up.
 */
#pragma once

#include "base/bytes.h"
#include "base/workers.h"

#include "base/clock.h"
#include "base/shared_memory.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum {
	SNAP_WORKERS_END_MS = 100, /* for those that were killed */
};

/* Of all workers; a page of shared memory. */
struct snap_workers_shared {
	uint32_t bell;     /* futex: counts what workers have finished */
	uint32_t wish;     /* futex: counts workers that the proxy is to make */
	uint32_t answered; /* of these; a futex */
	uint32_t made;     /* whether the last one was made */
	uint32_t slot;     /* for the wanted worker; SNAP_WORKERS_MOST: the proxy is to end */
	uint32_t awake;    /* whether both sides look for each other before they sleep */
	uint64_t cursor;   /* number of the list << 32, next item */
};

/* Of one worker, before its area. */
struct snap_worker_slot {
	uint32_t posted;   /* futex: lists that it was given */
	uint32_t finished; /* of these */
	uint32_t dismissed;
	pid_t pid;
	int64_t since_ns; /* when the current item was claimed; negative: when the last was done */
	/* The list. */
	void (*run)(void *context, uint32_t item);
	void *context;
	uint8_t *marks;
	uint64_t *cursor;
	uint32_t number, count;
	uint32_t item; /* the current or the last one */
	/* Of a list of one item that no other worker shares. */
	uint64_t own_cursor;
	uint8_t own_mark;
};

_Static_assert(sizeof(struct snap_workers_shared) <= SNAP_MOST_PAGE, "one page");
_Static_assert(sizeof(struct snap_worker_slot) <= SNAP_MOST_PAGE, "one page");

static inline void snap_futex_wake(uint32_t *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until it is not `seen` any more, or so long; 0: without an end. */
static inline void snap_futex_sleep(uint32_t *futex, uint32_t seen, int64_t ns)
{
	struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	syscall(SYS_futex, futex, FUTEX_WAIT, seen, ns ? &timeout : NULL, NULL, 0);
}

static inline uint32_t snap_futex_load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Whether the item was still open. */
static inline bool snap_worker_mark(uint8_t *mark, enum snap_item what)
{
	uint8_t open = SNAP_ITEM_OPEN;

	return __atomic_compare_exchange_n(mark, &open, (uint8_t)what, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static inline struct snap_worker_slot *snap_worker_slot_of(const struct snap_workers *pool,
							   size_t index)
{
	return (void *)((uint8_t *)pool->shared + SNAP_MOST_PAGE + index * pool->slot_bytes);
}

/* worker.c: the process that does the items. */
/* Made by the caller, which has to reap it; 0 or an errno. */
int snap_worker_spawn(const struct snap_workers *pool, struct snap_worker_slot *slot,
		      int *pidfd_ret);
/* Until a word is not `seen` any more; as long as that costs less than to be woken. */
void snap_workers_look_out(const struct snap_workers_shared *shared, const uint32_t *word,
			   uint32_t seen);

/* give.c: descriptors that workers hand over. */
/* 0 or an errno. */
int snap_workers_open_channel(struct snap_workers *pool);
void snap_workers_close_channel(struct snap_workers *pool);
/* What a worker keeps of it; -1: nothing. */
int snap_workers_kept_channel(const struct snap_workers *pool);

/* proxy.c: a small process that makes them. */
/* Makes it; 0 or an errno. */
int snap_workers_make_maker(struct snap_workers *pool);
/* A pidfd, -1: it cannot be made. Its number stays valid, as nothing reaps it before the next wish. */
int snap_worker_make_by_proxy(struct snap_workers *pool, size_t index);
/* Asked to go, it reaps those that it has made; killed, it leaves them to init. */
void snap_workers_dismiss_maker(struct snap_workers *pool);
