/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Workers: processes that make the calls which may never return.
 *
 * A read of a target's memory, of its mappings or of its files can sleep for as long as the target
 * likes, where not even SIGKILL ends it. So a process that has stopped threads, that handles signals
 * or that keeps other processes waiting never makes such a call. It lists the work, item by item, and
 * a worker does it. A worker is a copy of its maker and shares memory with it. It has one descriptor,
 * and a channel if it hands over descriptors. Each item has a time. A worker that exceeds it is left
 * behind and killed, which takes effect when the kernel permits; another worker goes on with the next
 * item. While an item only takes long, a second worker goes on already, so many slow items cost the
 * time of one. Knows nothing of the work.
 *
 * Nothing here allocates or locks, so the tracing child of a threaded program may use it. Not to be
 * called from two threads at once. Workers end with the thread that made them, so a call from another
 * thread makes new ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SNAP_WORKERS_MOST = 64, /* at one time, with those that were left behind */
	SNAP_WORKERS_GIVEN = 4, /* descriptors that are handed over at once, at most */
};

enum snap_workers_flags {
	/*
	 * They are made by a small process that is made now, for a caller whose memory will grow: a
	 * worker that is left behind keeps the memory that its maker had.
	 */
	SNAP_WORKERS_BY_PROXY = 1 << 0,
	/* For many short calls: both sides look for each other for 20 us before they sleep. */
	SNAP_WORKERS_AWAKE = 1 << 1,
	/* They may hand over descriptors: see snap_workers_give(). */
	SNAP_WORKERS_GIVE = 1 << 2,
};

/* A worker's memory that both see; workers/internal.h has its contents. */
struct snap_worker_slot;

struct snap_worker {
	struct snap_worker_slot *slot;
	int pidfd;         /* -1: there is no worker */
	bool left;         /* behind; killed, but it has not ended */
	uint32_t posted;   /* lists that it was given */
	int64_t posted_ns; /* the last one */
	int64_t sign_ns;   /* the last time that it was seen to get on */
	int64_t lost_ns;   /* since then: time in which its maker got no processor either */
	unsigned place;    /* the processor that it is pinned to + 1; 0: it is not */
};

struct snap_workers {
	struct snap_worker workers[SNAP_WORKERS_MOST];
	struct snap_workers_shared *shared;
	size_t area_bytes, slot_bytes;
	int kept_fd;
	int maker_pidfd; /* the process that makes workers; -1: we do */
	int channel[2];  /* for descriptors: the maker's end, that of workers; -1: there is none */
	pid_t thread;    /* the end of which is that of all these */
	size_t single;   /* the worker of snap_workers_area(); SNAP_WORKERS_MOST: none */
	/* By calls one by one that were late, as of then: see snap_workers_patience(). */
	int64_t lost_ns, lost_at_ns;
};

/* What became of an item. */
enum snap_item {
	SNAP_ITEM_OPEN, /* zero: not done yet */
	SNAP_ITEM_DONE,
	SNAP_ITEM_LATE, /* or its worker died; it may still be at work, and write somewhere */
};

struct snap_work {
	/*
	 * Called in a worker, at most once an item. It sees memory as it was when the worker was
	 * made, but for shared mappings that were there by then; results go to such. It allocates
	 * nothing and takes no lock.
	 */
	void (*run)(void *context, uint32_t item);
	void *context; /* in shared memory, or not looked at */
	uint32_t count;
	uint8_t *marks; /* enum snap_item, by item; in shared memory, all OPEN */
	/*
	 * For each item. While the caller itself gets no processor, this time does not count; and it
	 * is half a second longer for a worker that runs, or waits for a processor, where `kept_fd` is procfs.
	 */
	int64_t patience_ns;
	/*
	 * The same for a worker that sleeps in a call by then, and does not merely wait for a
	 * processor. 0, or where that is not known: patience_ns.
	 */
	int64_t asleep_ns;
	int64_t until_ns; /* CLOCK_MONOTONIC, for all of them; 0: none */
	/*
	 * By item, in shared memory: run() may put the time there when it has got on, from which
	 * patience then counts. NULL: it does not.
	 */
	int64_t *signs;
	/* On the caller's own processor; the caller sleeps meanwhile, so no other one need wake up. */
	bool here;
};

/*
 * Prepares workers; none is made before it is needed. `area_bytes`: for snap_workers_area(), 0 to
 * 1 GiB, address space only. `kept_fd`: the root of procfs, a descriptor that workers keep, and by
 * which they are seen to sleep; -1: none. `flags`: enum snap_workers_flags. 0 or an errno.
 */
int snap_workers_init(struct snap_workers *pool, size_t area_bytes, int kept_fd, unsigned flags);
/*
 * Ends all workers; waits up to 100 ms for those that are killed, and not for those that were left
 * behind and sleep where that has no effect. Safe on zeroed memory.
 */
void snap_workers_deinit(struct snap_workers *pool);

/* Makes one worker, so that the first list need not wait for it. Whether there is one. */
bool snap_workers_prepare(struct snap_workers *pool);

/*
 * Has the items done, in their order as far as workers are not slow, and returns when each is DONE
 * or LATE; true: all are DONE. What a LATE item was given to write to must not be used again.
 */
bool snap_workers_run(struct snap_workers *pool, const struct snap_work *work);

/*
 * For calls one by one: memory of `area_bytes` that the next call will be given, aligned to 64.
 * After a call that was done it holds what that left there; after one that was not it is another,
 * zeroed one. NULL: no worker can be had, as too many were left behind.
 */
void *snap_workers_area(struct snap_workers *pool);
/*
 * Calls work->run(area, 0) in a worker, with the times of `work`, of which the rest is filled in;
 * false: it was late, or no worker can be had.
 */
bool snap_workers_call(struct snap_workers *pool, struct snap_work *work);
/*
 * How long a worker may sleep in a call that has so long in all: half of it for each 100 ms that
 * calls lost before, and a tenth at least: calls that stall one after the other must not use up the
 * time of all others. Lost time is forgotten in ten times as long.
 */
int64_t snap_workers_patience(const struct snap_workers *pool, int64_t whole_ns);

/*
 * Workers that have nothing to do, and those that are made from now on, are scheduled as the caller
 * is (sched(7)), as far as permitted; the first one moves to its processor. Not for those by proxy.
 */
void snap_workers_follow(struct snap_workers *pool);

/*
 * In a worker: hands over descriptors that it has opened, which stay its own to close, with a number
 * that tells what they are. Some hundred such calls fit in before the maker takes them; false: there
 * was no room.
 */
bool snap_workers_give(const struct snap_workers *pool, uint64_t tag, const int *fds, size_t count);
/*
 * In the maker: the next ones that were handed over, the caller's to close; false: there are no more.
 * Fewer than were sent: there was no descriptor left for them. What an item handed over is there when
 * it is DONE; of one that was LATE it may come at any time.
 */
bool snap_workers_take(struct snap_workers *pool, uint64_t *tag_ret, int fds[SNAP_WORKERS_GIVEN],
		       size_t *count_ret);

/* How many are left behind at this moment: asleep in a call that has not returned. */
unsigned snap_workers_left(struct snap_workers *pool);
