/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Workers, seen from their maker and from within: see workers.h.
 *
 * Items of a list are claimed from a cursor that all its workers share. It carries the number of
 * the list, so whoever comes back late from an old list claims nothing of a new one. An item's mark
 * is set by who is first: the worker, when it is done, or the maker, when it gives up.
 */
#include "base/workers.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/spawn.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	PAGE = 4096,
	END_PATIENCE_MS = 100,
	MAKER_PATIENCE_MS = 500,
	NAP_NS = 500000,
	AWAKE_NS = 20000,   /* that both sides look for each other before they sleep */
	LOOK_NS = 20000000, /* between two looks at workers that are not heard of */
	LATE_NS = 1000000,  /* a look that is so late tells of a processor that was not to be had */
	UNSEEN_FACTOR = 4,  /* times the patience, for a worker that does not get a processor */
};

/* After so long with one item another worker goes on with the next. */
static const int64_t SLOW_NS = 5000000;
static const size_t MOST_AREA = (size_t)1 << 30;

/* Of all workers; a page of shared memory. */
struct snap_workers_shared {
	uint32_t bell;     /* futex: counts what workers have to tell */
	uint32_t wish;     /* futex: counts workers that the proxy is to make */
	uint32_t answered; /* of these; a futex */
	uint32_t made;     /* whether the last one was made */
	uint32_t slot;     /* for whom; SNAP_WORKERS_MOST: it is to leave */
	uint32_t awake;    /* whether both sides look for each other before they sleep */
	uint64_t cursor;   /* number of the list << 32, next item */
};

/* Of one worker, before its area. */
struct snap_worker_slot {
	uint32_t posted;   /* futex: lists that it was given */
	uint32_t finished; /* of these */
	uint32_t dismissed;
	pid_t pid;
	int64_t since_ns; /* when the item at hand was claimed; negative: when the last was done */
	/* The list. */
	void (*run)(void *context, uint32_t item);
	void *context;
	uint8_t *marks;
	uint64_t *cursor;
	uint32_t number, count;
	uint32_t item; /* at hand, or the last one */
	/* Of a list of one item that is nobody else's. */
	uint64_t own_cursor;
	uint8_t own_mark;
};

_Static_assert(sizeof(struct snap_workers_shared) <= PAGE, "one page");
_Static_assert(sizeof(struct snap_worker_slot) <= PAGE, "one page");

static void wake(uint32_t *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until it is not `seen` any more, or so long; 0: without an end. */
static void sleep_at(uint32_t *futex, uint32_t seen, int64_t ns)
{
	struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	syscall(SYS_futex, futex, FUTEX_WAIT, seen, ns ? &timeout : NULL, NULL, 0);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void ring(struct snap_workers_shared *shared)
{
	__atomic_fetch_add(&shared->bell, 1, __ATOMIC_RELEASE);
	wake(&shared->bell);
}

/* ---- in a worker ---- */

/* The next item of a list; false: there is none left, or the list is over. */
static bool claim_item(uint64_t *cursor, uint32_t number, uint32_t count, uint32_t *ret)
{
	uint64_t seen = __atomic_load_n(cursor, __ATOMIC_ACQUIRE);

	do {
		if (seen >> 32 != number || (uint32_t)seen >= count)
			return false;
	} while (!__atomic_compare_exchange_n(cursor, &seen, seen + 1, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	*ret = (uint32_t)seen;
	return true;
}

/* Whether the item was still open. */
static bool mark_item(uint8_t *mark, enum snap_item what)
{
	uint8_t open = SNAP_ITEM_OPEN;

	return __atomic_compare_exchange_n(mark, &open, (uint8_t)what, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void do_items(struct snap_worker_slot *slot)
{
	uint32_t item;

	while (!load(&slot->dismissed) &&
	       claim_item(slot->cursor, slot->number, slot->count, &item)) {
		slot->item = item;
		__atomic_store_n(&slot->since_ns, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
		slot->run(slot->context, item);
		mark_item(&slot->marks[item], SNAP_ITEM_DONE);
		__atomic_store_n(&slot->since_ns, -snap_clock_ns(CLOCK_MONOTONIC),
				 __ATOMIC_RELEASE);
	}
}

/* Until a word is not `seen` any more; as long as that costs less than to be woken. */
static void look_out(const struct snap_workers_shared *shared, const uint32_t *word, uint32_t seen)
{
	int64_t until;

	if (!shared->awake)
		return;
	until = snap_clock_ns(CLOCK_MONOTONIC) + AWAKE_NS;
	while (load(word) == seen && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static void wait_for_list(const struct snap_workers_shared *shared, struct snap_worker_slot *slot)
{
	look_out(shared, &slot->posted, slot->finished);
	while (load(&slot->posted) == slot->finished)
		sleep_at(&slot->posted, slot->finished, 0);
}

struct birth {
	const struct snap_workers *pool;
	struct snap_worker_slot *slot;
};

static void run_worker(void *context)
{
	const struct birth *birth = context;
	struct snap_workers_shared *shared = birth->pool->shared;
	struct snap_worker_slot *slot = birth->slot;

	snap_spawn_close_all_but(birth->pool->kept_fd);
	for (;;) {
		wait_for_list(shared, slot);
		if (load(&slot->dismissed))
			return;
		do_items(slot);
		__atomic_store_n(&slot->finished, slot->finished + 1, __ATOMIC_RELEASE);
		ring(shared);
	}
}

/* ---- who makes them ---- */

static struct snap_worker_slot *slot_of(const struct snap_workers *pool, size_t index)
{
	return (void *)((uint8_t *)pool->shared + PAGE + index * pool->slot_bytes);
}

static int spawn_worker(const struct snap_workers *pool, struct snap_worker_slot *slot,
			int *pidfd_ret)
{
	struct birth birth = { pool, slot };

	return snap_spawn_child(0, "snap-reader", run_worker, &birth, &slot->pid, pidfd_ret);
}

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

/* Until the caller has gone, or wishes for nobody any more. */
static void run_maker(void *context)
{
	const struct snap_workers *pool = context;
	struct snap_workers_shared *shared = pool->shared;
	uint32_t answered = 0;

	snap_spawn_close_all_but(pool->kept_fd);
	for (;;) {
		int pidfd = -1;

		while (load(&shared->wish) == answered)
			sleep_at(&shared->wish, answered, 0);
		if (shared->slot == SNAP_WORKERS_MOST) {
			reap_workers(END_PATIENCE_MS * 1000000ll);
			return;
		}
		reap_workers(0);
		shared->made = spawn_worker(pool, slot_of(pool, shared->slot), &pidfd) == 0;
		snap_close(&pidfd);
		__atomic_store_n(&shared->answered, ++answered, __ATOMIC_RELEASE);
		wake(&shared->answered);
	}
}

/* A pidfd, -1: it cannot be made. Its number is good, as nobody reaps it before the next wish. */
static int make_by_proxy(struct snap_workers *pool, size_t index)
{
	struct snap_workers_shared *shared = pool->shared;
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + MAKER_PATIENCE_MS * 1000000ll;
	uint32_t wish = shared->wish + 1;

	shared->slot = (uint32_t)index;
	__atomic_store_n(&shared->wish, wish, __ATOMIC_RELEASE);
	wake(&shared->wish);
	while (load(&shared->answered) != wish) {
		if (snap_clock_ns(CLOCK_MONOTONIC) > until ||
		    snap_spawn_has_ended(pool->maker_pidfd, 0))
			return -1;
		sleep_at(&shared->answered, wish - 1, LOOK_NS);
	}
	return shared->made ? (int)syscall(SYS_pidfd_open, slot_of(pool, index)->pid, 0) : -1;
}

static bool make_worker(struct snap_workers *pool, size_t index)
{
	struct snap_worker *worker = &pool->workers[index];
	struct snap_worker_slot *slot = slot_of(pool, index);
	int pidfd = -1;

	/* What the last one that had it may have left there. */
	madvise(slot, pool->slot_bytes, MADV_REMOVE);
	if (pool->maker_pidfd >= 0)
		pidfd = make_by_proxy(pool, index);
	else if (spawn_worker(pool, slot, &pidfd))
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

static bool is_idle(const struct snap_worker *worker)
{
	return worker->pidfd >= 0 && !worker->left &&
	       load(&worker->slot->finished) == worker->posted;
}

/* A worker with nothing to do, made if need be; SNAP_WORKERS_MOST: there is none to be had. */
static size_t find_idle(struct snap_workers *pool)
{
	bool swept = false;

	/* Whether it lives is seen when it is not heard of: asking costs as much as waking it. */
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		if (is_idle(&pool->workers[i]))
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
	wake(&slot->posted);
}

/* When the item at hand was begun, or last got on; negative: when the last one was done. */
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
static int64_t deadline_of(const struct snap_worker *worker, const struct snap_work *work,
			   int64_t since)
{
	int64_t idle_ns = -since > worker->posted_ns ? -since : worker->posted_ns;
	int64_t until =
		since > 0 ? since + work->patience_ns : idle_ns + UNSEEN_FACTOR * work->patience_ns;

	until += worker->lost_ns;
	return work->until_ns && work->until_ns < until ? work->until_ns : until;
}

/* What we know of a list when we look at its workers. */
struct look {
	int64_t now;
	int64_t lost_ns; /* so much later than was meant: there was no processor to be had */
	bool heard;      /* somebody has rung */
};

/* Looks at one worker of the list; one that is late or has died is given up. */
static void look_at_worker(struct snap_worker *worker, const struct snap_work *work,
			   const struct look *look, struct progress *progress)
{
	int64_t since = last_sign(worker, work), until;

	if (!look->heard && snap_spawn_has_ended(worker->pidfd, 0)) {
		worker->left = true;
		return;
	}
	worker->lost_ns = since == worker->sign_ns ? worker->lost_ns + look->lost_ns : 0;
	worker->sign_ns = since;
	until = deadline_of(worker, work, since);
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
	if (until < progress->next_ns)
		progress->next_ns = until;
}

static struct progress look_at_workers(struct snap_workers *pool, const struct snap_work *work,
				       uint64_t *cursor, const struct look *look)
{
	struct progress progress = { .next_ns = look->now + LOOK_NS };

	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++) {
		struct snap_worker *worker = &pool->workers[i];

		if (worker->pidfd >= 0 && !worker->left && worker->slot->cursor == cursor &&
		    load(&worker->slot->finished) != worker->posted)
			look_at_worker(worker, work, look, &progress);
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

	look_out(shared, &shared->bell, bell);
	now = snap_clock_ns(CLOCK_MONOTONIC);
	if (load(&shared->bell) == bell && until > now)
		sleep_at(&shared->bell, bell, until - now);
}

/* Until nothing more can become of the list. */
static void watch_list(struct snap_workers *pool, const struct snap_work *work, uint64_t *cursor,
		       uint32_t number)
{
	uint32_t seen = load(&pool->shared->bell), last = seen;
	struct progress progress = { .next_ns = INT64_MAX };

	for (;; last = seen) {
		struct look look = { .now = snap_clock_ns(CLOCK_MONOTONIC) };
		bool is_over = work->until_ns && look.now >= work->until_ns;

		seen = load(&pool->shared->bell);
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
		mark_item(&work->marks[i], SNAP_ITEM_LATE);
		all &= work->marks[i] == SNAP_ITEM_DONE;
	}
	return all;
}

bool snap_workers_run(struct snap_workers *pool, const struct snap_work *work)
{
	uint64_t *cursor = &pool->shared->cursor;
	uint32_t number = (uint32_t)(*cursor >> 32) + 1;

	/* A worker that is late with an older list finds another number here. */
	__atomic_store_n(cursor, (uint64_t)number << 32, __ATOMIC_RELEASE);
	watch_list(pool, work, cursor, number);
	/* Nobody begins an item of it any more. */
	__atomic_store_n(cursor, (uint64_t)(number + 1) << 32, __ATOMIC_RELEASE);
	return has_all_done(work);
}

/* ---- calls one by one ---- */

static bool has_single(const struct snap_workers *pool)
{
	return pool->single < SNAP_WORKERS_MOST && is_idle(&pool->workers[pool->single]) &&
	       !snap_spawn_has_ended(pool->workers[pool->single].pidfd, 0);
}

void *snap_workers_area(struct snap_workers *pool)
{
	if (!has_single(pool)) {
		pool->single = SNAP_WORKERS_MOST;
		pool->single = find_idle(pool);
	}
	if (pool->single == SNAP_WORKERS_MOST)
		return NULL;
	return (uint8_t *)pool->workers[pool->single].slot + PAGE;
}

bool snap_workers_call(struct snap_workers *pool, void (*run)(void *area, uint32_t item),
		       int64_t patience_ns)
{
	struct snap_worker_slot *slot;
	struct snap_work work = { .run = run, .count = 1, .patience_ns = patience_ns };
	struct snap_worker *worker;

	/* Not another one than the area that was filled is of. */
	if (pool->single == SNAP_WORKERS_MOST)
		return false;
	worker = &pool->workers[pool->single];
	slot = worker->slot;
	work.context = (uint8_t *)slot + PAGE;
	work.marks = &slot->own_mark;
	slot->own_mark = SNAP_ITEM_OPEN;
	slot->own_cursor = (uint64_t)(worker->posted + 1) << 32;
	post_list(worker, &work, &slot->own_cursor, worker->posted + 1);
	watch_list(pool, &work, &slot->own_cursor, worker->posted);
	if (has_all_done(&work))
		return true;
	pool->single = SNAP_WORKERS_MOST;
	return false;
}

/* ---- life ---- */

int snap_workers_init(struct snap_workers *pool, size_t area_bytes, int kept_fd, unsigned flags)
{
	size_t slot_bytes = PAGE + ((area_bytes + PAGE - 1) & ~(size_t)(PAGE - 1));
	void *memory;
	pid_t pid;
	int error;

	*pool = (struct snap_workers){ .maker_pidfd = -1 };
	if (area_bytes > MOST_AREA)
		return EINVAL;
	memory = mmap(NULL, PAGE + SNAP_WORKERS_MOST * slot_bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return errno;
	pool->shared = memory;
	pool->area_bytes = area_bytes;
	pool->slot_bytes = slot_bytes;
	pool->kept_fd = kept_fd;
	pool->single = SNAP_WORKERS_MOST;
	pool->shared->awake = (flags & SNAP_WORKERS_AWAKE) != 0;
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		pool->workers[i].pidfd = -1;
	if (!(flags & SNAP_WORKERS_BY_PROXY))
		return 0;
	error = snap_spawn_child(0, "snap-reader", run_maker, pool, &pid, &pool->maker_pidfd);
	if (error)
		snap_workers_deinit(pool);
	return error;
}

/* Asked to go, it reaps those that it has made; killed, it leaves them to init. */
static void dismiss_maker(struct snap_workers *pool)
{
	if (pool->maker_pidfd < 0)
		return;
	pool->shared->slot = SNAP_WORKERS_MOST;
	__atomic_fetch_add(&pool->shared->wish, 1, __ATOMIC_RELEASE);
	wake(&pool->shared->wish);
	snap_spawn_end(pool->maker_pidfd, 2 * END_PATIENCE_MS, END_PATIENCE_MS);
	snap_close(&pool->maker_pidfd);
}

void snap_workers_deinit(struct snap_workers *pool)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + END_PATIENCE_MS * 1000000ll;

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
		snap_spawn_end(worker->pidfd, 0, left > 0 ? (int)(left / 1000000) : 0);
		snap_close(&worker->pidfd);
	}
	dismiss_maker(pool);
	munmap(pool->shared, PAGE + SNAP_WORKERS_MOST * pool->slot_bytes);
	pool->shared = NULL;
}

bool snap_workers_prepare(struct snap_workers *pool)
{
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
		if (!is_idle(&pool->workers[i]))
			continue;
		sched_setscheduler(pool->workers[i].slot->pid, policy, &parameter);
		first = i;
	}
	if (first < SNAP_WORKERS_MOST)
		pin_worker(&pool->workers[first], true);
}

unsigned snap_workers_left(struct snap_workers *pool)
{
	unsigned count = 0;

	sweep(pool);
	for (size_t i = 0; i < SNAP_WORKERS_MOST; i++)
		count += pool->workers[i].pidfd >= 0 && pool->workers[i].left;
	return count;
}
