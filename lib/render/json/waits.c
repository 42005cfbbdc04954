/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits as JSON: see waits.h. Threads that wait for each other point to each other's waits, in a
 * circle where there is a deadlock: of what another thread waits for, its object alone is written.
 */
#include "render/json/waits.h"

static const char *mode_word(enum snap_wait_mode mode)
{
	return mode == SNAP_WAIT_READ ? "read" : mode == SNAP_WAIT_WRITE ? "write" : NULL;
}

static void put_known(struct snap_json_writer *json, const char *key, int64_t number)
{
	if (number >= 0)
		snap_json_number(json, key, number);
}

static void put_hex_if(struct snap_json_writer *json, const char *key, uint64_t number)
{
	if (number)
		snap_json_hex(json, key, number);
}

static void put_state(struct snap_json_writer *json, char letter)
{
	if (letter)
		snap_json_text(json, "state", snap_state_word(snap_state_of_letter(letter)));
}

/* ---- what it is for ---- */

static void put_place(struct snap_json_writer *json, const struct snap_wait *wait)
{
	snap_json_text(json, "kind", snap_wait_kind_word(wait->kind));
	snap_json_text_if(json, "variant", wait->variant);
	put_hex_if(json, "address", wait->address);
	snap_json_text_if(json, "symbol", wait->symbol);
	snap_json_text_if(json, "module", wait->module);
	put_hex_if(json, "offset", wait->offset);
	snap_json_text_if(json, "place", wait->place);
	snap_json_text_if(json, "mode", mode_word(wait->mode));
	put_known(json, "fd", wait->fd);
	snap_json_text_if(json, "path", wait->path);
	put_known(json, "id", wait->id);
	snap_json_number_if(json, "msgtype", wait->message_type);
	put_known(json, "semaphore", wait->semaphore);
	snap_json_text_if(json, "call", wait->call);
}

static void put_numbers(struct snap_json_writer *json, const struct snap_wait *wait)
{
	put_hex_if(json, "mutex", wait->mutex);
	snap_json_text_if(json, "mutex_symbol", wait->mutex_symbol);
	snap_json_true_if(json, "mutex_free", wait->mutex_free);
	put_known(json, "readers", wait->readers);
	put_known(json, "value", wait->value);
	put_known(json, "waiter_count", wait->waiters);
	put_known(json, "arrived", wait->arrived);
	put_known(json, "needed", wait->needed);
}

static void put_watched(struct snap_json_writer *json, const struct snap_wait *wait)
{
	bool some = false;

	if (wait->fds_count) {
		snap_json_list(json, "fds", wait->fds_count, i,
			       snap_json_number(json, NULL, wait->fds[i]));
	}
	if (wait->fds_count && wait->fd_kinds) {
		snap_json_list(json, "fd_kinds", wait->fds_count, i,
			       snap_json_text(json, NULL, snap_descriptor_word(wait->fd_kinds[i])));
	}
	snap_json_true_if(json, "fds_cut", wait->fds_cut);
	put_known(json, "fd_count", wait->fd_count);
	snap_json_number_if(json, "listening", wait->listening);
	snap_json_number_if(json, "connected", wait->connected);
	snap_json_text_if(json, "listen_address", wait->listen_address);
	for (unsigned i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		some = some || wait->kinds_watched[i];
	if (!some)
		return;
	snap_json_begin(json, "watches", '{');
	for (unsigned i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		snap_json_number_if(json, snap_descriptor_word(i), wait->kinds_watched[i]);
	snap_json_end(json, '}');
}

static void put_signals(struct snap_json_writer *json, uint64_t signals)
{
	if (!signals)
		return;
	snap_json_begin(json, "signals", '[');
	for (int i = 0; i < 64; i++)
		if (signals >> i & 1)
			snap_json_number(json, NULL, i + 1);
	snap_json_end(json, ']');
}

static void put_children(struct snap_json_writer *json, const struct snap_wait *wait)
{
	if (wait->kind != SNAP_WAIT_CHILD && wait->kind != SNAP_WAIT_VFORK)
		return;
	if (wait->child > 0)
		snap_json_number(json, "child", wait->child);
	if (wait->peer_count) {
		snap_json_list(json, "children", wait->peer_count, i,
			       snap_json_number(json, NULL, wait->peers[i].pid));
	}
	if (wait->child < 0)
		snap_json_number(json, "pgrp", -(int64_t)wait->child);
}

static void put_range(struct snap_json_writer *json, const struct snap_wait *wait)
{
	if (wait->kind != SNAP_WAIT_FILE_LOCK)
		return;
	snap_json_number_if(json, "start", (int64_t)(wait->range_start & INT64_MAX));
	if (wait->range_end <= INT64_MAX)
		snap_json_number(json, "end", (int64_t)wait->range_end);
}

static void put_socket(struct snap_json_writer *json, const struct snap_wait *wait)
{
	snap_json_text_if(json, "local", wait->local);
	snap_json_text_if(json, "remote", wait->remote);
	snap_json_text_if(json, "state", wait->socket_state);
	put_known(json, "recv_queue", wait->recv_queue);
	put_known(json, "send_queue", wait->send_queue);
	put_known(json, "backlog", wait->backlog);
	put_known(json, "backlog_max", wait->backlog_max);
	put_known(json, "retransmits", wait->retransmits);
	if (wait->peer_recv_queue < 0)
		return;
	snap_json_begin(json, "peer_queue", '{');
	snap_json_number(json, "recv_queue", wait->peer_recv_queue);
	snap_json_end(json, '}');
}

static void put_times(struct snap_json_writer *json, const struct snap_wait *wait)
{
	snap_json_text_if(json, "cgroup", wait->cgroup);
	snap_json_text_if(json, "wchan", wait->wchan);
	put_known(json, "since_ns", wait->since_ns);
	snap_json_true_if(json, "timed", wait->timed);
	put_known(json, "remaining_ns", wait->remaining_ns);
	snap_json_text(json, "confidence", snap_wait_confidence_word(wait->confidence));
}

/* ---- the holder and the other end ---- */

static void put_rest(struct snap_json_writer *json, const struct snap_wait *wait)
{
	put_numbers(json, wait);
	put_watched(json, wait);
	put_signals(json, wait->signals);
	put_children(json, wait);
	put_range(json, wait);
	put_socket(json, wait);
	put_times(json, wait);
}

static void put_party(struct snap_json_writer *json, const char *key,
		      const struct snap_wait_party *party)
{
	snap_json_begin(json, key, '{');
	snap_json_number_if(json, "pid", party->pid);
	snap_json_number_if(json, "tid", party->tid);
	snap_json_text_if(json, "name", party->name);
	put_state(json, party->state);
	snap_json_text_if(json, "function", party->function);
	snap_json_text_if(json, "stack", party->stack);
	snap_json_true_if(json, "outside", party->outside);
	if (party->wait) {
		snap_json_begin(json, "wait", '{');
		put_place(json, party->wait);
		put_rest(json, party->wait);
		snap_json_end(json, '}');
	}
	snap_json_end(json, '}');
}

static void put_parties(struct snap_json_writer *json, const char *key,
			const struct snap_wait_party *parties, size_t count)
{
	if (count == 0)
		return;
	snap_json_list(json, key, count, i, put_party(json, NULL, &parties[i]));
}

static void put_owners(struct snap_json_writer *json, const struct snap_wait *wait)
{
	if (wait->has_owner || wait->owner.tid)
		put_party(json, "owner", &wait->owner);
	if (wait->owner_lack != SNAP_OWNER_KNOWN)
		snap_json_text(json, "owner_unknown", snap_owner_lack_word(wait->owner_lack));
	if (wait->holder_count) {
		snap_json_list(json, "holders", wait->holder_count, i,
			       snap_json_number(json, NULL, wait->holders[i].pid));
	}
	put_parties(json, "held_by", wait->holders, wait->holder_count);
	put_parties(json, "hints", wait->hints, wait->hint_count);
	put_parties(json, "peers", wait->peers, wait->peer_count);
	if (wait->peer_total > wait->peer_count)
		snap_json_number(json, "peer_count", (int64_t)wait->peer_total);
	snap_json_true_if(json, "peers_unknown", wait->peers_unknown);
}

/* All keys of a wait, into an object that has been begun. */
static void put_deadlock_wait(struct snap_json_writer *json, const struct snap_wait *wait)
{
	put_place(json, wait);
	put_owners(json, wait);
	put_rest(json, wait);
}

void snap_json_wait_put_as(struct snap_json_writer *json, const char *key,
			   const struct snap_wait *wait)
{
	if (!wait)
		return;
	snap_json_begin(json, key, '{');
	put_deadlock_wait(json, wait);
	snap_json_end(json, '}');
}

void snap_json_wait_put(struct snap_json_writer *json, const struct snap_wait *wait)
{
	snap_json_wait_put_as(json, "wait", wait);
}

/* ---- of all ---- */

static void put_wait_link(struct snap_json_writer *json, const struct snap_wait_link *link)
{
	snap_json_begin(json, NULL, '{');
	snap_json_number(json, "pid", link->pid);
	snap_json_number(json, "tid", link->tid);
	snap_json_text_if(json, "name", link->name);
	snap_json_text_if(json, "function", link->function);
	snap_json_text_if(json, "file", link->file);
	snap_json_number_if(json, "line", link->line);
	snap_json_wait_put(json, link->wait);
	snap_json_end(json, '}');
}

void snap_json_deadlock_put(struct snap_json_writer *json, const char *key,
			    const struct snap_deadlock *deadlock)
{
	snap_json_begin(json, key, '{');
	snap_json_bool(json, "certain", deadlock->certain);
	snap_json_true_if(json, "timed", deadlock->timed);
	put_known(json, "until_ns", deadlock->until_ns);
	snap_json_number(json, "behind", (int64_t)deadlock->behind);
	if (deadlock->size > deadlock->thread_count)
		snap_json_number(json, "size", (int64_t)deadlock->size);
	snap_json_list(json, "threads", deadlock->thread_count, k,
		       put_wait_link(json, &deadlock->threads[k]));
	snap_json_end(json, '}');
}

static void put_deadlocks(struct snap_json_writer *json, const struct snap_waits *waits)
{
	if (waits->deadlock_count == 0)
		return;
	snap_json_begin_line(json, "deadlocks", '[');
	for (size_t i = 0; i < waits->deadlock_count; i++) {
		snap_json_line(json);
		snap_json_deadlock_put(json, NULL, &waits->deadlocks[i]);
	}
	snap_json_end(json, ']');
	if (waits->deadlock_total > waits->deadlock_count)
		snap_json_number(json, "deadlock_count", (int64_t)waits->deadlock_total);
}

static void put_blockers(struct snap_json_writer *json, const struct snap_waits *waits)
{
	if (waits->blocker_count == 0)
		return;
	snap_json_begin_line(json, "blockers", '[');
	for (size_t i = 0; i < waits->blocker_count; i++) {
		const struct snap_blocker *blocker = &waits->blockers[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_number_if(json, "pid", blocker->pid);
		snap_json_number_if(json, "tid", blocker->tid);
		snap_json_text_if(json, "name", blocker->name);
		snap_json_number(json, "blocked", (int64_t)blocker->blocked);
		snap_json_number_if(json, "locks", (int64_t)blocker->locks);
		put_state(json, blocker->state);
		snap_json_text_if(json, "function", blocker->function);
		if (blocker->lack != SNAP_OWNER_KNOWN)
			snap_json_text(json, "owner_unknown", snap_owner_lack_word(blocker->lack));
		snap_json_true_if(json, "certain", blocker->certain);
		snap_json_wait_put(json, blocker->wait);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_wait_contended(struct snap_json_writer *json, const struct snap_waits *waits)
{
	if (waits->contended_count == 0)
		return;
	snap_json_begin_line(json, "contended", '[');
	for (size_t i = 0; i < waits->contended_count; i++) {
		const struct snap_contended *contended = &waits->contended[i];

		snap_json_begin_line(json, NULL, '{');
		put_deadlock_wait(json, contended->wait);
		snap_json_number(json, "pid", contended->pid);
		snap_json_number(json, "waiters", (int64_t)contended->waiters);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

void snap_json_waits_put(struct snap_json_writer *json, const struct snap_waits *waits)
{
	put_deadlocks(json, waits);
	put_blockers(json, waits);
	put_wait_contended(json, waits);
	if (!waits->lacks)
		return;
	snap_json_begin_line(json, "waits_lack", '[');
	for (unsigned bit = 0; 1u << bit <= SNAP_LACK_ALL; bit++)
		if (waits->lacks >> bit & 1)
			snap_json_text(json, NULL, snap_wait_lack_word(bit));
	snap_json_end(json, ']');
}
