/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A worker: takes a list when it is given one, and does its items one after the other until none is
 * left or it is dismissed. Knows nothing of other workers, nor of how long an item may take.
 */
#include "base/workers/internal.h"

#include "base/spawn.h"

enum {
	AWAKE_NS = 20000, /* that both sides look for each other before they sleep */
};

static void ring(struct snap_workers_shared *shared)
{
	__atomic_fetch_add(&shared->bell, 1, __ATOMIC_RELEASE);
	snap_futex_wake(&shared->bell);
}

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

static void do_items(struct snap_worker_slot *slot)
{
	uint32_t item;

	while (!snap_futex_load(&slot->dismissed) &&
	       claim_item(slot->cursor, slot->number, slot->count, &item)) {
		slot->item = item;
		__atomic_store_n(&slot->since_ns, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
		slot->run(slot->context, item);
		snap_worker_mark(&slot->marks[item], SNAP_ITEM_DONE);
		__atomic_store_n(&slot->since_ns, -snap_clock_ns(CLOCK_MONOTONIC),
				 __ATOMIC_RELEASE);
	}
}

void snap_workers_look_out(const struct snap_workers_shared *shared, const uint32_t *word,
			   uint32_t seen)
{
	int64_t until;

	if (!shared->awake)
		return;
	until = snap_clock_ns(CLOCK_MONOTONIC) + AWAKE_NS;
	while (snap_futex_load(word) == seen && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static void wait_for_list(const struct snap_workers_shared *shared, struct snap_worker_slot *slot)
{
	snap_workers_look_out(shared, &slot->posted, slot->finished);
	while (snap_futex_load(&slot->posted) == slot->finished)
		snap_futex_sleep(&slot->posted, slot->finished, 0);
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

	snap_spawn_close_all_but_two(birth->pool->kept_fd, snap_workers_kept_channel(birth->pool));
	for (;;) {
		wait_for_list(shared, slot);
		if (snap_futex_load(&slot->dismissed))
			return;
		do_items(slot);
		__atomic_store_n(&slot->finished, slot->finished + 1, __ATOMIC_RELEASE);
		ring(shared);
	}
}

int snap_worker_spawn(const struct snap_workers *pool, struct snap_worker_slot *slot,
		      int *pidfd_ret)
{
	struct birth birth = { pool, slot };

	return snap_spawn_child(0, "snap-reader", run_worker, &birth, &slot->pid, pidfd_ret);
}
