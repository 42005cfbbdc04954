/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Edges: the threads of which one must act, so that a waiter goes on: see waiter.h.
 *
 * The edges of pipes, sockets, children and file locks lead to sets of processes, which the
 * explanation of the wait has set. This file adds the edges to owners. Conditions, semaphores,
 * signals, times and epolls have none: an unknown thread may act.
 */
#include "analyze/wait/waiter.h"

#include "model/wait/kind.h"

/* No thread can end it any more: its owner is known to be gone. */
static bool is_orphaned(const struct snap_wait *wait)
{
	return wait->owner_lack == SNAP_OWNER_EXITED || wait->owner_lack == SNAP_OWNER_AT_FORK ||
	       wait->owner_lack == SNAP_OWNER_REFUSED;
}

static void find_edge_owner(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			    size_t *room)
{
	const struct snap_wait *wait = waiter->wait;
	const struct snap_waiter *owner;

	if (!snap_wait_kind_is(wait->kind, SNAP_KIND_ENDED_BY_OWNER) ||
	    wait->confidence < SNAP_WAIT_IS_LIKELY)
		return;
	if (is_orphaned(wait)) {
		waiter->any_known = true;
	} else if (wait->has_owner && wait->owner_lack == SNAP_OWNER_KNOWN && wait->owner.tid) {
		owner = snap_waiter_by_tid(waits, wait->owner.tid);
		if (!owner || wait->owner.outside)
			return;
		*room = (size_t)(owner - waits->waiters);
		waiter->any_of = room;
		waiter->any_count = 1;
		waiter->any_known = true;
	}
	waiter->any_certain = waiter->any_known && wait->confidence == SNAP_WAIT_IS_CERTAIN;
}

struct stacksnap_error *snap_wait_find_edges(struct snap_wait_analysis *waits)
{
	size_t *rooms =
		snap_arena_new_array(&waits->analysis->scratch, waits->waiter_count + 1, size_t);

	SNAP_TRY(snap_no_memory_unless(rooms));
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];

		if (waiter->wait)
			find_edge_owner(waits, waiter, &rooms[i]);
	}
	return NULL;
}
