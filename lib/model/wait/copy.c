/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies a wait without the threads of its moment: see wait.h. */
#include "model/wait/wait.h"

#include "base/arena.h"
#include "model/snapshot.h"

static bool copy_wait_text(struct snap_interner *strings, const char **text)
{
	return snap_intern_text(strings, text, SNAP_MAX_NAME);
}

static bool copy_party(struct snap_interner *strings, struct snap_wait_party *party)
{
	party->wait = NULL;
	party->stack = NULL;
	return copy_wait_text(strings, &party->name) && copy_wait_text(strings, &party->function);
}

/* Processes alone: *count becomes how many these are. */
static bool copy_parties(struct snap_interner *strings, struct snap_wait_party **parties,
			 size_t *count)
{
	const struct snap_wait_party *from = *parties;
	size_t all = *count < SNAP_WAIT_LIST ? *count : SNAP_WAIT_LIST;

	*parties = NULL;
	*count = 0;
	for (size_t i = 0; i < all; i++) {
		if (from[i].tid)
			continue;
		if (!*parties)
			*parties =
				snap_arena_new_array(strings->arena, all, struct snap_wait_party);
		if (!*parties)
			return false;
		(*parties)[*count] = from[i];
		if (!copy_party(strings, &(*parties)[(*count)++]))
			return false;
	}
	return true;
}

static bool copy_others(struct snap_interner *strings, struct snap_wait *wait)
{
	size_t peers = wait->peer_count;

	if (wait->owner.tid) {
		wait->has_owner = false;
		wait->owner = (struct snap_wait_party){ .tid = 0 };
		wait->owner_lack = SNAP_OWNER_KNOWN;
	}
	if (!copy_party(strings, &wait->owner) ||
	    !copy_parties(strings, &wait->holders, &wait->holder_count) ||
	    !copy_parties(strings, &wait->peers, &wait->peer_count) ||
	    !copy_parties(strings, &wait->hints, &wait->hint_count))
		return false;
	peers -= wait->peer_count;
	wait->peer_total -= wait->peer_total < peers ? wait->peer_total : peers;
	return true;
}

static bool copy_watched(struct snap_interner *strings, struct snap_wait *wait)
{
	size_t count = wait->fds_count < SNAP_MAX_WATCHED ? wait->fds_count : SNAP_MAX_WATCHED;

	wait->fds_cut |= count < wait->fds_count;
	wait->fds_count = count;
	if (!count) {
		wait->fds = NULL;
		wait->fd_kinds = NULL;
		return true;
	}
	wait->fds = snap_arena_memdup(strings->arena, wait->fds, count * sizeof(*wait->fds));
	if (wait->fds && wait->fd_kinds) {
		wait->fd_kinds = snap_arena_memdup(strings->arena, wait->fd_kinds,
						   count * sizeof(*wait->fd_kinds));
		return wait->fd_kinds;
	}
	return wait->fds;
}

bool snap_wait_copy(struct snap_interner *strings, const struct snap_wait *from,
		    struct snap_wait *ret)
{
	struct snap_wait wait = *from;
	const char **texts[] = {
		&wait.variant,      &wait.symbol, &wait.module,       &wait.place,
		&wait.path,         &wait.call,   &wait.wchan,        &wait.cgroup,
		&wait.local,        &wait.remote, &wait.socket_state, &wait.listen_address,
		&wait.mutex_symbol,
	};

	if (!snap_all(SNAP_ARRAY_SIZE(texts), i, copy_wait_text(strings, texts[i])))
		return false;
	if (!copy_others(strings, &wait) || !copy_watched(strings, &wait))
		return false;
	*ret = wait;
	return true;
}
