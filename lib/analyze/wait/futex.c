/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Futexes: takes the call apart, and has the order in which it is explained: by names of the C
 * library first, by data second. If neither explains it, it stays a futex.
 */
#include "analyze/wait/futex.h"

enum {
	FUTEX_CALL_OP = 0x7f, /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */
	FUTEX_PRIVATE = 0x80,
};

bool snap_futex_is_on_own_stack(const struct snap_futex *futex, uint64_t address)
{
	const struct snap_map *map = snap_process_map(snap_waiter_process(futex->waiter), address);
	uint64_t sp = futex->waiter->call.sp;

	return map && sp && sp - map->start < map->end - map->start && address >= sp;
}

/* A number that is the same for all that wait for the object at an address. */
static uint64_t object_of_futex(const struct snap_futex *futex, uint64_t address)
{
	const struct snap_map *map = futex->map;
	uint64_t hash = snap_hash_add(1, (uint64_t)snap_waiter_process(futex->waiter)->pid);

	if (futex->is_shared)
		hash = snap_hash_add(
			snap_hash_add(snap_hash_add(2, map->dev_major), map->dev_minor),
			map->inode),
		address = address - map->start + map->offset;
	hash = snap_hash_add(hash, address);
	return hash ? hash : 1;
}

void snap_futex_move(const struct snap_futex *futex, uint64_t address)
{
	futex->waiter->wait->address = address;
	futex->waiter->object = object_of_futex(futex, address);
}

static bool stood_still(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;

	return thread->result == SNAP_THREAD_COPIED && snap_taken_at_once(thread->taken);
}

struct snap_wait *snap_futex_wait(struct snap_futex *futex, enum snap_wait_kind kind,
				  uint64_t address, enum snap_wait_confidence confidence)
{
	struct snap_wait *wait;

	if (confidence == SNAP_WAIT_IS_CERTAIN &&
	    (!stood_still(futex->waiter) || futex->names.is_scanned)) {
		futex->lacks_stop = !futex->names.is_scanned;
		confidence = SNAP_WAIT_IS_LIKELY;
	}
	wait = snap_wait_new(futex->waits, futex->waiter, kind, confidence);
	if (!wait)
		return NULL;
	wait->owner_lack = SNAP_OWNER_NOT_KEPT;
	snap_futex_move(futex, address);
	snap_wait_set_timeout(futex->waits, futex->waiter);
	return wait;
}

/* False: it does not wait. */
static bool take_apart(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
		       struct snap_futex *ret)
{
	const uint64_t *arguments = waiter->call.arguments;
	unsigned op = (unsigned)arguments[1] & FUTEX_CALL_OP;

	*ret = (struct snap_futex){
		.waits = waits,
		.waiter = waiter,
		.address = arguments[0],
		.op = (enum snap_futex_op)op,
		.is_private = arguments[1] & FUTEX_PRIVATE,
		.value = (uint32_t)arguments[2],
		.map = snap_process_map(snap_waiter_process(waiter), arguments[0]),
	};
	ret->is_shared = !ret->is_private && ret->map && ret->map->shared && ret->map->inode;
	return op == SNAP_FUTEX_WAIT || op == SNAP_FUTEX_WAIT_BITSET || op == SNAP_FUTEX_LOCK_PI ||
	       op == SNAP_FUTEX_LOCK_PI2 || op == SNAP_FUTEX_WAIT_REQUEUE_PI;
}

/* futex_waitv(2): the first of its words represents all of them. */
static struct stacksnap_error *explain_vector(struct snap_wait_analysis *waits,
					      struct snap_waiter *waiter)
{
	struct snap_futex futex = { .waits = waits,
				    .waiter = waiter,
				    .op = SNAP_FUTEX_WAIT_BITSET };
	struct snap_wait *wait;
	uint64_t first[2] = { 0 };

	if (waiter->call.arguments[1] &&
	    snap_wait_read(waiter, waiter->call.arguments[0], first, sizeof(first)))
		futex.address = first[1];
	futex.map = snap_process_map(snap_waiter_process(waiter), futex.address);
	wait = snap_futex_wait(&futex, SNAP_WAIT_FUTEX, futex.address, SNAP_WAIT_IS_GUESS);
	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = "waitv";
	return NULL;
}

/* A step a time, until one of them knows what it is. */
static struct stacksnap_error *(*const steps[])(struct snap_futex *futex) = {
	snap_language_explain,
	snap_glibc_explain,
	snap_glibc_explain_data,
};
static struct stacksnap_error *(*const musl_steps[])(struct snap_futex *futex) = {
	snap_language_explain,
	snap_musl_explain,
	snap_musl_explain_data,
};

static struct stacksnap_error *explain_futex(struct snap_futex *futex)
{
	bool is_musl = snap_musl_fits(futex);
	struct snap_waiter *waiter = futex->waiter;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(steps) && !err && !waiter->wait; i++)
		err = is_musl ? musl_steps[i](futex) : steps[i](futex);
	if (!err && waiter->wait)
		return snap_gil_explain(futex);
	if (err)
		return err;
	return snap_no_memory_unless(
		snap_futex_wait(futex, SNAP_WAIT_FUTEX, futex->address, SNAP_WAIT_IS_GUESS));
}

struct stacksnap_error *snap_wait_explain_futex(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	struct stacksnap_error *err;
	struct snap_futex futex;

	if (waiter->row->call == SNAP_CALL_FUTEX_WAITV)
		return explain_vector(waits, waiter);
	if (!take_apart(waits, waiter, &futex))
		return NULL;
	err = snap_monitor_explain(&futex);
	if (err || waiter->wait)
		return err;
	SNAP_TRY(snap_futex_find_names(&futex));
	return explain_futex(&futex);
}
