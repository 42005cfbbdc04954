/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which waits one line tells, and the times in it: see wait.h. */
#include "model/wait/wait.h"

#include "base/bsearch.h"
#include "base/table.h"
#include "base/text.h"

static bool same_party(const struct snap_wait_party *a, const struct snap_wait_party *b)
{
	return a->pid == b->pid && a->tid == b->tid;
}

static bool same_parties(const struct snap_wait_party *a, size_t a_count,
			 const struct snap_wait_party *b, size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count && a != b; i++)
		if (!same_party(&a[i], &b[i]))
			return false;
	return true;
}

static bool same_object(const struct snap_wait *a, const struct snap_wait *b)
{
	return a->kind == b->kind && snap_same_text(a->variant, b->variant) && a->mode == b->mode &&
	       a->address == b->address && snap_same_text(a->symbol, b->symbol) &&
	       snap_same_text(a->module, b->module) && a->offset == b->offset &&
	       snap_same_text(a->place, b->place) && a->fd == b->fd &&
	       snap_same_text(a->path, b->path) && a->id == b->id &&
	       snap_same_text(a->call, b->call) && snap_same_text(a->wchan, b->wchan) &&
	       snap_same_text(a->cgroup, b->cgroup) && a->range_start == b->range_start &&
	       a->range_end == b->range_end && a->signals == b->signals && a->child == b->child &&
	       a->timed == b->timed;
}

static bool same_owners(const struct snap_wait *a, const struct snap_wait *b)
{
	return a->has_owner == b->has_owner && a->owner_lack == b->owner_lack &&
	       same_party(&a->owner, &b->owner) &&
	       same_parties(a->holders, a->holder_count, b->holders, b->holder_count) &&
	       same_parties(a->peers, a->peer_count, b->peers, b->peer_count) &&
	       same_parties(a->hints, a->hint_count, b->hints, b->hint_count) &&
	       a->peer_total == b->peer_total && a->peers_unknown == b->peers_unknown;
}

static bool same_numbers(const struct snap_wait *a, const struct snap_wait *b)
{
	return a->mutex == b->mutex && snap_same_text(a->mutex_symbol, b->mutex_symbol) &&
	       a->mutex_free == b->mutex_free && a->readers == b->readers && a->value == b->value &&
	       a->waiters == b->waiters && a->arrived == b->arrived && a->needed == b->needed;
}

static bool same_watched(const struct snap_wait *a, const struct snap_wait *b)
{
	return a->fd_count == b->fd_count && a->fds_count == b->fds_count &&
	       a->fds_cut == b->fds_cut &&
	       (a->fds_count == 0 || memcmp(a->fds, b->fds, a->fds_count * sizeof(*a->fds)) == 0) &&
	       memcmp(a->kinds_watched, b->kinds_watched, sizeof(a->kinds_watched)) == 0 &&
	       a->listening == b->listening && a->connected == b->connected &&
	       snap_same_text(a->listen_address, b->listen_address);
}

static bool same_sockets(const struct snap_wait *a, const struct snap_wait *b)
{
	return snap_same_text(a->local, b->local) && snap_same_text(a->remote, b->remote) &&
	       snap_same_text(a->socket_state, b->socket_state) && a->recv_queue == b->recv_queue &&
	       a->send_queue == b->send_queue && a->backlog == b->backlog &&
	       a->backlog_max == b->backlog_max && a->retransmits == b->retransmits &&
	       a->peer_recv_queue == b->peer_recv_queue;
}

bool snap_wait_same(const struct snap_wait *a, const struct snap_wait *b)
{
	return a == b || (same_object(a, b) && same_owners(a, b) && same_numbers(a, b) &&
			  same_watched(a, b) && same_sockets(a, b));
}

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : snap_compare(a != NULL, b != NULL);
}

int snap_wait_compare(const struct snap_wait *a, const struct snap_wait *b)
{
	return snap_compare(a->kind, b->kind)       ?: snap_compare(a->address, b->address) ?:
	       compare_texts(a->path, b->path)      ?: compare_texts(a->local, b->local) ?:
	       compare_texts(a->remote, b->remote)  ?: snap_compare(a->fd, b->fd) ?:
	       snap_compare(a->id, b->id)           ?: snap_compare(a->child, b->child) ?:
	       compare_texts(a->call, b->call)      ?: snap_compare(a->mode, b->mode);
}

uint64_t snap_wait_hash(const struct snap_wait *wait, uint64_t seed)
{
	uint64_t hash = snap_hash_number(wait ? wait->kind : SNAP_WAIT_NONE, seed);

	if (!wait)
		return hash;
	hash = snap_hash_text(wait->symbol, hash);
	if (!wait->symbol && wait->module)
		hash = snap_hash_number(wait->offset, snap_hash_text(wait->module, hash));
	else if (!wait->symbol)
		hash = snap_hash_number(wait->address, hash);
	hash = snap_hash_text(wait->path, hash);
	hash = snap_hash_text(wait->local, hash);
	hash = snap_hash_text(wait->remote, hash);
	hash = snap_hash_number((uint64_t)wait->id, hash);
	hash = snap_hash_number(wait->range_start, snap_hash_number(wait->range_end, hash));
	hash = snap_hash_number((uint64_t)wait->child, hash);
	hash = snap_hash_number((uint64_t)wait->owner.tid, hash);
	return snap_hash_number(wait->owner_lack, hash);
}

/* ---- times ---- */

struct snap_wait_times snap_wait_times_of(const struct snap_wait *wait)
{
	return (struct snap_wait_times){ wait->since_ns, wait->since_ns, wait->remaining_ns,
					 wait->remaining_ns };
}

static void widen(int64_t *least, int64_t *most, int64_t ns)
{
	if (ns < 0)
		return;
	if (*least < 0 || ns < *least)
		*least = ns;
	if (ns > *most)
		*most = ns;
}

void snap_wait_times_add(struct snap_wait_times *times, const struct snap_wait *wait)
{
	widen(&times->least_since_ns, &times->most_since_ns, wait->since_ns);
	widen(&times->least_left_ns, &times->most_left_ns, wait->remaining_ns);
}
