/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Locks of Python. To 3.13 a lock is a semaphore of the C library. From 3.14 on a thread parks on a
 * semaphore of its own stack; before it stands the lock's address (struct wait_entry of
 * Python/parking_lot.c). A Lock keeps no owner. An RLock does, which the runtime's reader has found
 * (analyze/runtime/python/locks.c).
 */
#include "analyze/wait/futex.h"
#include "base/bsearch.h"

static const struct snap_runtime_lock *rlock_of(const struct snap_waiter *waiter)
{
	pid_t tid = waiter->thread->thread->tid;

	for (size_t i = 0; i < waiter->raw->runtime_count; i++) {
		const struct snap_runtime_result *runtime = waiter->raw->runtimes[i];
		size_t at = snap_first_not(runtime->lock_count, k, runtime->locks[k].tid < tid);

		if (at < runtime->lock_count && runtime->locks[at].tid == tid)
			return &runtime->locks[at];
	}
	return NULL;
}

static void explain_rlock(struct snap_futex *futex, const struct snap_runtime_lock *lock)
{
	struct snap_wait *wait = futex->waiter->wait;
	struct snap_waiter *owner =
		snap_waiter_by_thread_pointer(futex->waits, futex->waiter->process, lock->owner);

	wait->kind = SNAP_WAIT_MUTEX;
	wait->variant = "rlock";
	wait->value = wait->waiters = -1;
	snap_futex_move(futex, lock->address);
	/* Its owner does not wait for it. */
	if (!lock->owner || owner == futex->waiter)
		wait->owner_lack = SNAP_OWNER_CHANGING;
	else if (owner)
		snap_futex_own(futex, wait, owner);
	else
		snap_futex_say_why_gone(futex, wait, lock->owner);
}

void snap_python_lock_explain(struct snap_futex *futex)
{
	struct snap_wait *wait = futex->waiter->wait;
	const struct snap_runtime_lock *lock = rlock_of(futex->waiter);
	uint64_t word;

	wait->variant = "python";
	if (lock) {
		explain_rlock(futex, lock);
	} else if (snap_futex_is_on_own_stack(futex, wait->address) &&
		   snap_futex_read(futex, wait->address - sizeof(word), &word, sizeof(word)) &&
		   snap_process_map(snap_waiter_process(futex->waiter), word)) {
		snap_futex_move(futex, word);
		wait->value = wait->waiters = -1;
	}
}
