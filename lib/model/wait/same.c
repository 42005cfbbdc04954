/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which waits one line describes, and the times in it: see wait.h. */
#include "model/wait/wait.h"

#include "base/bsearch.h"
#include "base/table.h"
#include "base/text.h"

#include <stdlib.h>

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
	       a->message_type == b->message_type && a->semaphore == b->semaphore &&
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

static int compare_wait_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : snap_compare(a != NULL, b != NULL);
}

int snap_wait_compare(const struct snap_wait *a, const struct snap_wait *b)
{
	return snap_compare(a->kind, b->kind)       ?: snap_compare(a->address, b->address) ?:
	       compare_wait_texts(a->path, b->path)      ?: compare_wait_texts(a->local, b->local) ?:
	       compare_wait_texts(a->remote, b->remote)  ?: snap_compare(a->fd, b->fd) ?:
	       snap_compare(a->id, b->id)           ?: snap_compare(a->child, b->child) ?:
	       snap_compare(a->semaphore, b->semaphore) ?: snap_compare(a->message_type, b->message_type) ?:
	       compare_wait_texts(a->call, b->call)      ?: snap_compare(a->mode, b->mode);
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
	/* Without one the hash is as it was before there were any. */
	if (wait->message_type || wait->semaphore >= 0)
		hash = snap_hash_number((uint64_t)wait->message_type + (uint64_t)wait->semaphore,
					hash);
	hash = snap_hash_number(wait->range_start, snap_hash_number(wait->range_end, hash));
	hash = snap_hash_number((uint64_t)wait->child, hash);
	hash = snap_hash_number((uint64_t)wait->owner.tid, hash);
	return snap_hash_number(wait->owner_lack, hash);
}

/* ---- the same in other processes ---- */

/* Without a port that the kernel chose for a client: "10.0.0.4:51234" -> "10.0.0.4". */
static uint64_t hash_address(const char *text, uint64_t hash)
{
	enum { FIRST_GIVEN_PORT = 32768 };
	const char *colon = text ? strrchr(text, ':') : NULL;

	if (!colon || strtoul(colon + 1, NULL, 10) < FIRST_GIVEN_PORT)
		return snap_hash_text(text, hash);
	return snap_hash_bytes(text, (size_t)(colon - text), hash);
}

static uint64_t hash_party(const struct snap_wait_party *party, uint64_t hash)
{
	return snap_hash_text(party->function, snap_hash_pattern(party->name, hash));
}

static uint64_t hash_parties(const struct snap_wait_party *parties, size_t count, uint64_t hash)
{
	uint64_t sum = snap_sum(count, i, snap_hash_mix(hash_party(&parties[i], 0)));

	return snap_hash_number(sum, snap_hash_number(count, hash));
}

static uint64_t hash_alike_object(const struct snap_wait *wait, uint64_t hash)
{
	hash = snap_hash_text(wait->variant, snap_hash_number(wait->kind, hash));
	hash = snap_hash_text(wait->symbol, snap_hash_number(wait->mode, hash));
	if (!wait->symbol && wait->module)
		hash = snap_hash_number(wait->offset, snap_hash_text(wait->module, hash));
	hash = snap_hash_text(wait->path, snap_hash_pattern(wait->place, hash));
	hash = snap_hash_text(wait->wchan, snap_hash_text(wait->call, hash));
	hash = snap_hash_text(wait->mutex_symbol, snap_hash_text(wait->cgroup, hash));
	hash = snap_hash_number(wait->signals, snap_hash_number(wait->timed, hash));
	hash = snap_hash_number((uint64_t)wait->message_type,
				snap_hash_number((uint64_t)wait->semaphore, hash));
	return snap_hash_number(wait->range_end, snap_hash_number(wait->range_start, hash));
}

static uint64_t hash_alike_sockets(const struct snap_wait *wait, uint64_t hash)
{
	hash = hash_address(wait->remote, hash_address(wait->local, hash));
	hash = snap_hash_text(wait->listen_address, snap_hash_text(wait->socket_state, hash));
	hash = snap_hash_number(wait->send_queue > 0, snap_hash_number(wait->recv_queue > 0, hash));
	for (unsigned i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		hash = snap_hash_number(wait->kinds_watched[i] > 0, hash);
	hash = snap_hash_number(wait->listening > 0, hash);
	return snap_hash_number(wait->connected > 0, hash);
}

uint64_t snap_wait_hash_alike(const struct snap_wait *wait, uint64_t seed)
{
	uint64_t hash = hash_alike_sockets(wait, hash_alike_object(wait, seed));

	hash = snap_hash_number(wait->has_owner, snap_hash_number(wait->owner_lack, hash));
	hash = hash_party(&wait->owner, hash);
	hash = hash_parties(wait->holders, wait->holder_count, hash);
	return hash_parties(wait->peers, wait->peer_count, hash);
}

/* ---- times ---- */

struct snap_wait_times snap_wait_times_of(const struct snap_wait *wait)
{
	return (struct snap_wait_times){ wait->since_ns, wait->since_ns, wait->remaining_ns,
					 wait->remaining_ns };
}

static void widen_range(int64_t *least, int64_t *most, int64_t ns)
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
	widen_range(&times->least_since_ns, &times->most_since_ns, wait->since_ns);
	widen_range(&times->least_left_ns, &times->most_left_ns, wait->remaining_ns);
}
