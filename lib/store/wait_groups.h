/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups of a wait's fields, for both ways to store a wait: most kinds use a few fields, so a group
 * is stored only if it says something. Knows nothing of how it is stored.
 */
#pragma once

#include "model/wait/kind.h"

static inline bool snap_wait_has_address(const struct snap_wait *wait)
{
	return wait->address || wait->symbol || wait->module || wait->offset || wait->place;
}

static inline bool snap_wait_has_numbers(const struct snap_wait *wait)
{
	return wait->readers >= 0 || wait->value >= 0 || wait->waiters >= 0 || wait->arrived >= 0 ||
	       wait->needed >= 0 || wait->mutex || wait->mutex_symbol || wait->mutex_free;
}

static inline bool snap_wait_has_watched(const struct snap_wait *wait)
{
	return snap_wait_kind_is(wait->kind, SNAP_KIND_POLL);
}

static inline bool snap_wait_has_socket(const struct snap_wait *wait)
{
	return wait->local || wait->remote || wait->socket_state || wait->recv_queue >= 0 ||
	       wait->send_queue >= 0 || wait->backlog >= 0 || wait->backlog_max >= 0 ||
	       wait->retransmits >= 0 || wait->peer_recv_queue >= 0;
}

static inline bool snap_wait_has_rest(const struct snap_wait *wait)
{
	return wait->signals || wait->child || wait->range_start || wait->range_end;
}
