/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Workers, seen from their maker: see workers.h. Which worker is given a list, which is late with it,
 * and which goes on then.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/workers/internal.h"

#include "base/cleanup.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
	LOOK_NS = 20000000,     /* between two looks at workers that are not heard of */
	RUNS_NS = 5000000,      /* between two looks at one that is late, but not asleep */
	RUNNING_NS = 500000000, /* how much longer one has that is late, but runs */
	LATE_NS = 1000000, /* a look that is so late tells of a processor that was not to be had */
	HALF_NS = 100000000, /* lost by calls, that halve the patience … */
	FORGOTTEN = 10,      /* … for so many times as long */
	LEAST_PART = 10,     /* of patience, that is always left */
	UNSEEN_FACTOR = 4,   /* times the patience, for a worker that does not get a processor */
};

/* After so long with one item another worker goes on with the next. */
static const int64_t SLOW_NS = 5000000;
static const size_t MOST_AREA = (size_t)1 << 30;

/* ---- the workers ---- */

static bool make_worker(struct snap_workers *pool, size_t index)
{
	struct snap_worker *worker = &pool->workers[index];
	struct snap_worker_slot *slot = snap_worker_slot_of(pool, index);
	int pidfd = -1;

	/* What the last one that had it may have left there. */
	madvise(slot, pool->slot_bytes, MADV_REMOVE);
	if (pool->maker_pidfd >= 0)
		pidfd = snap_worker_make_by_proxy(pool, index);
	else if (snap_worker_spawn(pool, slot, &pidfd))
		pidfd = -1;
	*worker = (struct snap_worker){ .slot = slot, .pidfd = pidfd };
	return pidfd >= 0;
}

/* Kills it; its slot is free when it has ended. */
static void leave_behind(struct snap_worker *worker)
{
	__atomic_store_n(&worker->slot->dismissed, 1, __ATOMIC_RELEASE);
	worker->left = true;
	snap_spawn_end(worker->pidfd, 0, 0);
}

/* Frees the slots of workers that have ended. */
static void sweep(struct snap_workers *pool)
{
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++) {
		struct snap_worker *worker = &pool->workers[i];

		/* The area of a call stays as it is until the next one. */
		if (worker->pidfd < 0 || pool->single == i ||
		    !snap_spawn_has_ended(worker->pidfd, 0))
			continue;
		snap_spawn_end(worker->pidfd, 0, 0);
		snap_close(&worker->pidfd);
		worker->left = false;
	}
}

static bool is_worker_idle(const struct snap_worker *worker)
{
	return worker->pidfd >= 0 && !worker->left &&
	       snap_futex_load(&worker->slot->finished) == worker->posted;
}

/* A worker with nothing to do, made if need be; SNAP_WORKERS_MOST: there is none to be had. */
static size_t find_idle(struct snap_workers *pool)
{
	bool swept = false;

	/* Whether it lives is seen when it is not heard of: asking costs as much as waking it. */
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		if (is_worker_idle(&pool->workers[i]))
			return i;
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++) {
		if (pool->workers[i].pidfd >= 0 && !swept) {
			sweep(pool);
			swept = true;
		}
		if (pool->workers[i].pidfd < 0)
			return make_worker(pool, i) ? i : SNAP_WORKERS_MOST;
	}
	return SNAP_WORKERS_MOST;
}

/*
 * Workers that another thread has made end with that thread, perhaps at any moment. Those that were
 * left behind by then stay so.
 */
static void renew_for_thread(struct snap_workers *pool)
{
	pid_t caller = gettid();

	if (pool->thread == caller)
		return;
	pool->thread = caller;
	pool->single = SNAP_WORKERS_MOST;
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		if (pool->workers[i].pidfd >= 0 && !pool->workers[i].left)
			leave_behind(&pool->workers[i]);
	if (pool->maker_pidfd < 0)
		return;
	snap_workers_dismiss_maker(pool);
	/* Without it workers are ours. */
	(void)snap_workers_make_maker(pool);
}

/* What the kernel says a worker does: R, S, D …; 0: unknown. */
static char state_of(const struct snap_workers *pool, const struct snap_worker *worker)
{
	char path[32], text[128];
	_cleanup_fd_ int fd = -1;
	const char *end;
	ssize_t got;

	snprintf(path, sizeof(path), "%d/stat", (int)worker->slot->pid);
	fd = pool->kept_fd < 0 ? -1 : openat(pool->kept_fd, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, text, sizeof(text));
	end = got > 0 ? memrchr(text, ')', (size_t)got) : NULL;
	return end && text + got - end > 2 ? end[2] : 0;
}

/* ---- a list ---- */

/* To the caller's processor, or to all of them again. */
static void pin_worker(struct snap_worker *worker, bool here)
{
	unsigned processor = 0, place;
	cpu_set_t set;

	if (!here && !worker->place)
		return;
	if (here && (getcpu(&processor, NULL) || processor >= CPU_SETSIZE))
		return;
	place = here ? processor + 1 : 0;
	if (worker->place == place)
		return;
	memset(&set, here ? 0 : 0xff, sizeof(set));
	CPU_SET(processor, &set);
	if (sched_setaffinity(worker->slot->pid, sizeof(set), &set) == 0)
		worker->place = place;
}

static void post_list(struct snap_worker *worker, const struct snap_work *work, uint64_t *cursor,
		      uint32_t number)
{
	struct snap_worker_slot *slot = worker->slot;

	pin_worker(worker, work->here);
	slot->run = work->run;
	slot->context = work->context;
	slot->marks = work->marks;
	slot->cursor = cursor;
	slot->number = number;
	slot->count = work->count;
	worker->posted_ns = snap_clock_ns(CLOCK_MONOTONIC);
	worker->sign_ns = worker->lost_ns = 0;
	__atomic_store_n(&slot->posted, ++worker->posted, __ATOMIC_RELEASE);
	snap_futex_wake(&slot->posted);
}

/* When the current item was begun, or last got on; negative: when the last one was done. */
static int64_t last_sign(const struct snap_worker *worker, const struct snap_work *work)
{
	const struct snap_worker_slot *slot = worker->slot;
	int64_t since = __atomic_load_n(&slot->since_ns, __ATOMIC_ACQUIRE), sign;

	if (since <= 0 || !work->signs || slot->item >= work->count)
		return since;
	sign = __atomic_load_n(&work->signs[slot->item], __ATOMIC_RELAXED);
	return sign > since ? sign : since;
}

/* How workers get on with a list. */
struct progress {
	uint32_t busy;   /* at work */
	uint32_t slow;   /* of these: with one item for long */
	int64_t next_ns; /* when to look again */
};

/* When it is given up: for its item, or because it does not get on with claiming one. */
static int64_t deadline_of_worker(const struct snap_worker *worker, const struct snap_work *work,
				  int64_t since, int64_t patience_ns)
{
	int64_t idle_ns = -since > worker->posted_ns ? -since : worker->posted_ns;
	int64_t until = since > 0 ? since + patience_ns : idle_ns + UNSEEN_FACTOR * patience_ns;

	until += worker->lost_ns;
	return work->until_ns && work->until_ns < until ? work->until_ns : until;
}

/* What we know of a list when we look at its workers. */
struct look {
	int64_t now;
	int64_t lost_ns; /* so much later than was meant: there was no processor to be had */
	bool heard;      /* the bell was rung */
};

/*
 * When it is to be looked at for being late, which it is if that has come. Nothing holds one that
 * runs, or would if it got a processor: it has a little longer. One that sleeps has less
 * time than one that waits for a processor, and is looked at again until it has used up its own.
 */
static int64_t due_of(const struct snap_workers *pool, const struct snap_worker *worker,
		      const struct snap_work *work, const struct look *look, int64_t since)
{
	int64_t until = deadline_of_worker(worker, work, since, work->patience_ns), asleep, at_most;
	char state;

	if (since > 0 && look->now >= until) {
		at_most = deadline_of_worker(worker, work, since, work->patience_ns + RUNNING_NS);
		return look->now < at_most && state_of(pool, worker) == 'R' ? look->now + RUNS_NS
									    : until;
	}
	if (since <= 0 || !work->asleep_ns || work->asleep_ns >= work->patience_ns ||
	    look->now >= until)
		return until;
	asleep = deadline_of_worker(worker, work, since, work->asleep_ns);
	if (look->now < asleep)
		return asleep;
	state = state_of(pool, worker);
	if ((state == 'S' || state == 'D') && last_sign(worker, work) == since)
		return asleep;
	return state && look->now + RUNS_NS < until ? look->now + RUNS_NS : until;
}

/* Looks at one worker of the list; one that is late or has died is given up. */
static void look_at_worker(const struct snap_workers *pool, struct snap_worker *worker,
			   const struct snap_work *work, const struct look *look,
			   struct progress *progress)
{
	int64_t since = last_sign(worker, work), until;

	if (!look->heard && snap_spawn_has_ended(worker->pidfd, 0)) {
		worker->left = true;
		return;
	}
	worker->lost_ns = since == worker->sign_ns ? worker->lost_ns + look->lost_ns : 0;
	worker->sign_ns = since;
	until = due_of(pool, worker, work, look, since);
	if (look->now >= until) {
		leave_behind(worker);
		return;
	}
	progress->busy++;
	if (since > 0 && look->now - since >= SLOW_NS) {
		progress->slow++;
		pin_worker(worker, false);
	} else if (since > 0 && since + SLOW_NS < until) {
		until = since + SLOW_NS;
	}
	progress->next_ns = SNAP_MIN(progress->next_ns, until);
}

static struct progress look_at_workers(struct snap_workers *pool, const struct snap_work *work,
				       uint64_t *cursor, const struct look *look)
{
	struct progress progress = { .next_ns = look->now + LOOK_NS };

	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++) {
		struct snap_worker *worker = &pool->workers[i];

		if (worker->pidfd >= 0 && !worker->left && worker->slot->cursor == cursor &&
		    snap_futex_load(&worker->slot->finished) != worker->posted)
			look_at_worker(pool, worker, work, look, &progress);
	}
	return progress;
}

static bool has_unclaimed(uint64_t *cursor, const struct snap_work *work)
{
	return (uint32_t)__atomic_load_n(cursor, __ATOMIC_ACQUIRE) < work->count;
}

static void wait_for_news(struct snap_workers_shared *shared, uint32_t bell, int64_t until)
{
	int64_t now;

	snap_workers_look_out(shared, &shared->bell, bell);
	now = snap_clock_ns(CLOCK_MONOTONIC);
	if (snap_futex_load(&shared->bell) == bell && until > now)
		snap_futex_sleep(&shared->bell, bell, until - now);
}

/* Until nothing more can become of the list. */
static void watch_list(struct snap_workers *pool, const struct snap_work *work, uint64_t *cursor,
		       uint32_t number)
{
	uint32_t seen = snap_futex_load(&pool->shared->bell), last = seen;
	struct progress progress = { .next_ns = INT64_MAX };

	for (;; last = seen) {
		struct look look = { .now = snap_clock_ns(CLOCK_MONOTONIC) };
		bool is_over = work->until_ns && look.now >= work->until_ns;

		seen = snap_futex_load(&pool->shared->bell);
		look.heard = seen != last;
		if (look.now > progress.next_ns && look.now - progress.next_ns > LATE_NS)
			look.lost_ns = look.now - progress.next_ns;
		progress = look_at_workers(pool, work, cursor, &look);
		if (!progress.busy && (is_over || !has_unclaimed(cursor, work)))
			return;
		if (progress.busy == progress.slow && !is_over && has_unclaimed(cursor, work)) {
			size_t next = find_idle(pool);

			if (next < SNAP_WORKERS_MOST)
				post_list(&pool->workers[next], work, cursor, number);
			else if (!progress.busy)
				return;
			progress.next_ns = snap_clock_ns(CLOCK_MONOTONIC) + SLOW_NS;
		}
		wait_for_news(pool->shared, seen, progress.next_ns);
	}
}

static bool has_all_done(const struct snap_work *work)
{
	bool all = true;

	for (uint32_t i = 0; i < work->count; i++) {
		snap_worker_mark(&work->marks[i], SNAP_ITEM_LATE);
		all &= work->marks[i] == SNAP_ITEM_DONE;
	}
	return all;
}

bool snap_workers_run(struct snap_workers *pool, const struct snap_work *work)
{
	uint64_t *cursor = &pool->shared->cursor;
	uint32_t number = (uint32_t)(*cursor >> 32) + 1;

	renew_for_thread(pool);
	/* A worker that is late with an older list finds another number here. */
	__atomic_store_n(cursor, (uint64_t)number << 32, __ATOMIC_RELEASE);
	watch_list(pool, work, cursor, number);
	/* No worker begins an item of it any more. */
	__atomic_store_n(cursor, (uint64_t)(number + 1) << 32, __ATOMIC_RELEASE);
	return has_all_done(work);
}

/* ---- calls one by one ---- */

static bool has_single(const struct snap_workers *pool)
{
	return pool->single < SNAP_WORKERS_MOST && is_worker_idle(&pool->workers[pool->single]) &&
	       !snap_spawn_has_ended(pool->workers[pool->single].pidfd, 0);
}

void *snap_workers_area(struct snap_workers *pool)
{
	renew_for_thread(pool);
	if (!has_single(pool)) {
		pool->single = SNAP_WORKERS_MOST;
		pool->single = find_idle(pool);
	}
	if (pool->single == SNAP_WORKERS_MOST)
		return NULL;
	return (uint8_t *)pool->workers[pool->single].slot + SNAP_MOST_PAGE;
}

static int64_t lost_by_now(const struct snap_workers *pool, int64_t now_ns)
{
	int64_t lost = pool->lost_ns - (now_ns - pool->lost_at_ns) / FORGOTTEN;

	return lost > 0 ? lost : 0;
}

int64_t snap_workers_patience(const struct snap_workers *pool, int64_t whole_ns)
{
	int64_t lost = lost_by_now(pool, snap_clock_ns(CLOCK_MONOTONIC)), part = whole_ns;

	for (; lost >= HALF_NS && part > whole_ns / LEAST_PART; lost -= HALF_NS)
		part /= 2;
	return part > whole_ns / LEAST_PART ? part : whole_ns / LEAST_PART;
}

bool snap_workers_call(struct snap_workers *pool, struct snap_work *work)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), now;
	struct snap_worker_slot *slot;
	struct snap_worker *worker;

	/* Not another one than the area that was filled is of. */
	if (pool->single == SNAP_WORKERS_MOST)
		return false;
	worker = &pool->workers[pool->single];
	slot = worker->slot;
	work->count = 1;
	work->context = (uint8_t *)slot + SNAP_MOST_PAGE;
	work->marks = &slot->own_mark;
	slot->own_mark = SNAP_ITEM_OPEN;
	slot->own_cursor = (uint64_t)(worker->posted + 1) << 32;
	post_list(worker, work, &slot->own_cursor, worker->posted + 1);
	watch_list(pool, work, &slot->own_cursor, worker->posted);
	if (has_all_done(work))
		return true;
	pool->single = SNAP_WORKERS_MOST;
	now = snap_clock_ns(CLOCK_MONOTONIC);
	pool->lost_ns = lost_by_now(pool, now) + now - begin;
	pool->lost_at_ns = now;
	return false;
}

/* ---- life ---- */

int snap_workers_init(struct snap_workers *pool, size_t area_bytes, int kept_fd, unsigned flags)
{
	size_t slot_bytes = SNAP_MOST_PAGE + snap_round_up(area_bytes, SNAP_MOST_PAGE);
	void *memory;
	int error;

	*pool = (struct snap_workers){ .maker_pidfd = -1, .channel = { -1, -1 } };
	if (area_bytes > MOST_AREA)
		return EINVAL;
	memory = mmap(NULL, SNAP_MOST_PAGE + SNAP_WORKERS_MOST * slot_bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return errno;
	pool->shared = memory;
	pool->area_bytes = area_bytes;
	pool->slot_bytes = slot_bytes;
	pool->kept_fd = kept_fd;
	pool->thread = gettid();
	pool->single = SNAP_WORKERS_MOST;
	pool->shared->awake = (flags & SNAP_WORKERS_AWAKE) != 0;
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		pool->workers[i].pidfd = -1;
	error = flags & SNAP_WORKERS_GIVE ? snap_workers_open_channel(pool) : 0;
	if (!error && flags & SNAP_WORKERS_BY_PROXY)
		error = snap_workers_make_maker(pool);
	if (error)
		snap_workers_deinit(pool);
	return error;
}

void snap_workers_deinit(struct snap_workers *pool)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + SNAP_WORKERS_END_MS * SNAP_NS_PER_MS;

	if (!pool->shared)
		return;
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		if (pool->workers[i].pidfd >= 0)
			snap_spawn_end(pool->workers[i].pidfd, 0, 0);
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++) {
		struct snap_worker *worker = &pool->workers[i];
		int64_t left = until - snap_clock_ns(CLOCK_MONOTONIC);

		if (worker->pidfd < 0)
			continue;
		/* Killed long ago, and it sleeps all the same. */
		if (worker->left && state_of(pool, worker) == 'D')
			left = 0;
		snap_spawn_end(worker->pidfd, 0, left > 0 ? (int)(left / 1000000) : 0);
		snap_close(&worker->pidfd);
	}
	snap_workers_dismiss_maker(pool);
	snap_workers_close_channel(pool);
	munmap(pool->shared, SNAP_MOST_PAGE + SNAP_WORKERS_MOST * pool->slot_bytes);
	pool->shared = NULL;
}

bool snap_workers_prepare(struct snap_workers *pool)
{
	renew_for_thread(pool);
	return find_idle(pool) < SNAP_WORKERS_MOST;
}

void snap_workers_follow(struct snap_workers *pool)
{
	size_t first = SNAP_WORKERS_MOST;
	struct sched_param parameter;
	int policy = sched_getscheduler(0);

	if (policy < 0 || sched_getparam(0, &parameter))
		return;
	for (size_t i = SNAP_WORKERS_MOST; i-- > 0;) {
		if (!is_worker_idle(&pool->workers[i]))
			continue;
		sched_setscheduler(pool->workers[i].slot->pid, policy, &parameter);
		first = i;
	}
	if (first < SNAP_WORKERS_MOST)
		pin_worker(&pool->workers[first], true);
}

unsigned snap_workers_left(struct snap_workers *pool)
{

	sweep(pool);
	return snap_sum(SNAP_WORKERS_MOST, i, pool->workers[i].pidfd >= 0 && pool->workers[i].left);
}
