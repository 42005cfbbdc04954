/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Monitors of Java: the runtime itself says which thread waits for which monitor, and its owner.
 * The thread is in a futex of its own, and wakes up from time to time to check again: no timeout
 * ends the wait.
 */
#include "analyze/wait/futex.h"
#include "base/bsearch.h"

static const struct snap_runtime_monitor *find_in(const struct snap_runtime_result *result,
						  uint32_t tid)
{
	size_t at = snap_first_not(result->monitor_count, i, result->monitors[i].tid < tid);

	return at < result->monitor_count && result->monitors[at].tid == tid ? &result->monitors[at]
									     : NULL;
}

static const struct snap_runtime_monitor *find_monitor(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	const struct snap_runtime_monitor *found = NULL;

	for (size_t i = 0; i < waiter->raw->runtime_count && !found; i++)
		found = find_in(waiter->raw->runtimes[i],
				(uint32_t)(thread->ns_tid ? thread->ns_tid : thread->tid));
	return found;
}

struct stacksnap_error *snap_monitor_explain(struct snap_futex *futex)
{
	const struct snap_runtime_monitor *monitor = find_monitor(futex->waiter);
	struct snap_waiter *owner = NULL;
	struct snap_wait *wait;

	if (!monitor || futex->is_shared)
		return NULL;
	wait = snap_futex_wait(futex, SNAP_WAIT_MONITOR, monitor->address, SNAP_WAIT_IS_CERTAIN);
	SNAP_TRY(snap_no_memory_unless(wait));
	wait->timed = false;
	wait->remaining_ns = -1;
	if (monitor->owner)
		owner = snap_waiter_by_ns_tid(futex->waits, futex->waiter->process, monitor->owner);
	if (owner && owner != futex->waiter)
		snap_futex_own(futex, wait, owner);
	else if (monitor->owner)
		wait->owner_lack = SNAP_OWNER_NOT_SEEN;
	else
		wait->owner_lack = monitor->is_free ? SNAP_OWNER_CHANGING : SNAP_OWNER_UNREADABLE;
	return NULL;
}
