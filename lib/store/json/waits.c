/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of a snapshot's JSON, see reader.h. A document has only the objects of the waits of the threads
 * that a wait points to, so they are read one level deep.
 */
#include "store/json/reader.h"

#include <limits.h>

static const char *mode_word(unsigned mode)
{
	static const char *const words[] = { "", "read", "write" };

	return words[mode];
}

/* The letter of a state's word: see proc(5). */
static char pick_letter(struct snap_json_pick *pick, const struct snap_json *object)
{
	static const char letters[] = "RSDtTZXIP";
	enum snap_state state;

	if (!snap_json_pick_has(object, "state"))
		return 0;
	state = snap_json_pick_state(pick, object);
	for (size_t i = 0; letters[i]; i++)
		if (snap_state_of_letter(letters[i]) == state)
			return letters[i];
	return 0;
}

static int64_t pick_known(struct snap_json_pick *pick, const struct snap_json *object,
			  const char *key)
{
	return snap_json_pick_number(pick, object, key, 0, SNAP_WAIT_MOST, -1);
}

static uint64_t pick_address(struct snap_json_pick *pick, const struct snap_json *object,
			     const char *key)
{
	uint64_t address = 0;

	(void)snap_json_pick_hex(pick, object, key, &address);
	return address;
}

static const char *pick_wait_text(struct snap_json_pick *pick, const struct snap_json *object,
				  const char *key)
{
	return snap_json_pick_text(pick, object, key, SNAP_MAX_NAME);
}

/* ---- the object ---- */

static void read_place(struct snap_json_pick *pick, const struct snap_json *object,
		       struct snap_wait *wait)
{
	wait->variant = snap_json_pick_text(pick, object, "variant", 64);
	wait->address = pick_address(pick, object, "address");
	wait->symbol = pick_wait_text(pick, object, "symbol");
	wait->module = pick_wait_text(pick, object, "module");
	wait->offset = pick_address(pick, object, "offset");
	wait->place = pick_wait_text(pick, object, "place");
	if (snap_json_pick_has(object, "mode"))
		wait->mode =
			snap_json_pick_word(pick, object, "mode", mode_word, SNAP_WAIT_WRITE + 1);
	wait->fd = (int32_t)snap_json_pick_number(pick, object, "fd", 0, INT_MAX, -1);
	wait->path = pick_wait_text(pick, object, "path");
	wait->id = pick_known(pick, object, "id");
	wait->message_type =
		snap_json_pick_number(pick, object, "msgtype", INT64_MIN, INT64_MAX, 0);
	wait->semaphore =
		(int32_t)snap_json_pick_number(pick, object, "semaphore", 0, UINT16_MAX, -1);
	wait->call = snap_json_pick_text(pick, object, "call", 64);
	wait->wchan = pick_wait_text(pick, object, "wchan");
	wait->cgroup = pick_wait_text(pick, object, "cgroup");
}

static void read_numbers(struct snap_json_pick *pick, const struct snap_json *object,
			 struct snap_wait *wait)
{
	wait->mutex = pick_address(pick, object, "mutex");
	wait->mutex_symbol = pick_wait_text(pick, object, "mutex_symbol");
	wait->mutex_free = snap_json_pick_flag(pick, object, "mutex_free");
	wait->readers = pick_known(pick, object, "readers");
	wait->value = pick_known(pick, object, "value");
	wait->waiters = pick_known(pick, object, "waiter_count");
	wait->arrived = pick_known(pick, object, "arrived");
	wait->needed = pick_known(pick, object, "needed");
	wait->child = (pid_t)snap_json_pick_number(pick, object, "child", 1, INT_MAX, 0);
	if (snap_json_pick_has(object, "pgrp"))
		wait->child = -(pid_t)snap_json_pick_required(pick, object, "pgrp", 1, INT_MAX);
	wait->range_start = (uint64_t)snap_json_pick_number(pick, object, "start", 0, INT64_MAX, 0);
	if (wait->kind == SNAP_WAIT_FILE_LOCK)
		wait->range_end =
			(uint64_t)snap_json_pick_number(pick, object, "end", 0, INT64_MAX, -1);
}

static void read_fds(struct snap_json_pick *pick, const struct snap_json *object,
		     struct snap_wait *wait)
{
	struct snap_json_list fds = snap_json_pick_list(pick, object, "fds"),
			      kinds = snap_json_pick_list(pick, object, "fd_kinds");
	uint32_t *fd_kinds = NULL;

	if (fds.count > SNAP_MAX_WATCHED)
		snap_json_pick_refuse(pick, "fds", "a smaller array");
	if (kinds.count && kinds.count != fds.count)
		snap_json_pick_refuse(pick, "fd_kinds", "as many words as there are descriptors");
	if (snap_json_pick_failed(pick) || fds.count == 0)
		return;
	wait->fds = snap_json_pick_memory(pick, fds.count, sizeof(*wait->fds));
	if (kinds.count)
		fd_kinds = snap_json_pick_memory(pick, kinds.count, sizeof(*fd_kinds));
	for (size_t i = 0; i < fds.count && !snap_json_pick_failed(pick); i++)
		wait->fds[wait->fds_count++] =
			(int32_t)snap_json_list_number(&fds, INT_MIN, INT_MAX);
	for (size_t i = 0; i < kinds.count && !snap_json_pick_failed(pick); i++)
		fd_kinds[i] =
			snap_json_list_word(&kinds, snap_descriptor_word, SNAP_DESCRIPTOR_KINDS);
	wait->fd_kinds = fd_kinds;
}

static void read_watched(struct snap_json_pick *pick, const struct snap_json *object,
			 struct snap_wait *wait)
{
	const struct snap_json *watches = snap_json_pick_object(pick, object, "watches");

	read_fds(pick, object, wait);
	wait->fds_cut = snap_json_pick_flag(pick, object, "fds_cut");
	wait->fd_count = pick_known(pick, object, "fd_count");
	wait->listening =
		(uint32_t)snap_json_pick_number(pick, object, "listening", 0, UINT32_MAX, 0);
	wait->connected =
		(uint32_t)snap_json_pick_number(pick, object, "connected", 0, UINT32_MAX, 0);
	wait->listen_address = pick_wait_text(pick, object, "listen_address");
	for (unsigned i = 0; watches && i < SNAP_DESCRIPTOR_KINDS; i++)
		wait->kinds_watched[i] = (uint32_t)snap_json_pick_number(
			pick, watches, snap_descriptor_word(i), 0, UINT32_MAX, 0);
}

static void read_signals(struct snap_json_pick *pick, const struct snap_json *object,
			 struct snap_wait *wait)
{
	struct snap_json_list signals = snap_json_pick_list(pick, object, "signals");

	if (signals.count > 64)
		snap_json_pick_refuse(pick, "signals", "a smaller array");
	for (size_t i = 0; i < signals.count && !snap_json_pick_failed(pick); i++) {
		int64_t number = snap_json_list_number(&signals, 1, 64);

		if (number)
			wait->signals |= 1ull << (number - 1);
	}
}

static void read_socket(struct snap_json_pick *pick, const struct snap_json *object,
			struct snap_wait *wait)
{
	const struct snap_json *queue = snap_json_pick_object(pick, object, "peer_queue");

	wait->local = pick_wait_text(pick, object, "local");
	wait->remote = pick_wait_text(pick, object, "remote");
	wait->socket_state = snap_json_pick_text(pick, object, "state", 64);
	wait->recv_queue = pick_known(pick, object, "recv_queue");
	wait->send_queue = pick_known(pick, object, "send_queue");
	wait->backlog = pick_known(pick, object, "backlog");
	wait->backlog_max = pick_known(pick, object, "backlog_max");
	wait->retransmits = pick_known(pick, object, "retransmits");
	if (queue)
		wait->peer_recv_queue = pick_known(pick, queue, "recv_queue");
}

/* The object of a wait, without owner and peers; NULL without memory, or after an error. */
static struct snap_wait *read_object(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_wait *wait = snap_json_pick_memory(pick, 1, sizeof(*wait));
	unsigned kind = snap_json_pick_word(pick, object, "kind", snap_wait_kind_word,
					    SNAP_WAIT_KINDS),
		 confidence = snap_json_pick_word(pick, object, "confidence",
						  snap_wait_confidence_word, SNAP_WAIT_CONFIDENCES);

	if (kind == SNAP_WAIT_NONE)
		snap_json_pick_refuse(pick, "kind", "a word listed in stacksnap-json(5)");
	if (snap_json_pick_failed(pick))
		return NULL;
	*wait = snap_wait_init(kind, confidence);
	read_place(pick, object, wait);
	read_numbers(pick, object, wait);
	read_watched(pick, object, wait);
	read_signals(pick, object, wait);
	read_socket(pick, object, wait);
	wait->since_ns = pick_known(pick, object, "since_ns");
	wait->timed = snap_json_pick_flag(pick, object, "timed");
	wait->remaining_ns = pick_known(pick, object, "remaining_ns");
	return wait;
}

/* ---- owner, holders, peers ---- */

static struct snap_wait_party read_party(struct snap_json_pick *pick,
					 const struct snap_json *object)
{
	const struct snap_json *wait = snap_json_pick_object(pick, object, "wait");

	return (struct snap_wait_party){
		.pid = (pid_t)snap_json_pick_number(pick, object, "pid", 0, INT_MAX, 0),
		.tid = (pid_t)snap_json_pick_number(pick, object, "tid", 0, INT_MAX, 0),
		.name = pick_wait_text(pick, object, "name"),
		.state = pick_letter(pick, object),
		.function = pick_wait_text(pick, object, "function"),
		.stack = snap_json_pick_of(pick, object, "stack", "0123456789abcdef", 16),
		.outside = snap_json_pick_flag(pick, object, "outside"),
		.wait = wait ? read_object(pick, wait) : NULL,
	};
}

static struct snap_wait_party *read_parties(struct snap_json_pick *pick,
					    const struct snap_json *object, const char *key,
					    size_t *count)
{
	struct snap_json_list list = snap_json_pick_list(pick, object, key);
	const struct snap_json *from;
	struct snap_wait_party *parties;

	if (list.count > SNAP_WAIT_LIST)
		snap_json_pick_refuse(pick, key, "a smaller array");
	if (list.count == 0 || snap_json_pick_failed(pick))
		return NULL;
	parties = snap_json_pick_memory(pick, list.count, sizeof(*parties));
	while ((from = snap_json_list_object(&list)))
		parties[(*count)++] = read_party(pick, from);
	return parties;
}

static void read_owners(struct snap_json_pick *pick, const struct snap_json *object,
			struct snap_wait *wait)
{
	const struct snap_json *owner = snap_json_pick_object(pick, object, "owner");

	if (owner)
		wait->owner = read_party(pick, owner);
	if (snap_json_pick_has(object, "owner_unknown"))
		wait->owner_lack = snap_json_pick_word(pick, object, "owner_unknown",
						       snap_owner_lack_word, SNAP_OWNER_LACKS);
	wait->has_owner = owner && wait->owner_lack == SNAP_OWNER_KNOWN;
	wait->holders = read_parties(pick, object, "held_by", &wait->holder_count);
	wait->hints = read_parties(pick, object, "hints", &wait->hint_count);
	wait->peers = read_parties(pick, object, "peers", &wait->peer_count);
	wait->peer_total = (size_t)snap_json_pick_number(pick, object, "peer_count", 0, INT_MAX,
							 (int64_t)wait->peer_count);
	wait->peers_unknown = snap_json_pick_flag(pick, object, "peers_unknown");
}

/* A wait whose keys are in the object itself. */
static const struct snap_wait *read_whole(struct snap_json_pick *pick,
					  const struct snap_json *object)
{
	struct snap_wait *wait = read_object(pick, object);

	if (wait)
		read_owners(pick, object, wait);
	return wait;
}

const struct snap_wait *snap_json_read_wait(struct snap_json_pick *pick,
					    const struct snap_json *object)
{
	const struct snap_json *wait = snap_json_pick_object(pick, object, "wait");

	return wait ? read_whole(pick, wait) : NULL;
}

/* ---- of all ---- */

static struct snap_wait_link read_json_link(struct snap_json_pick *pick,
					    const struct snap_json *object)
{
	struct snap_wait_link link = {
		.pid = (pid_t)snap_json_pick_required(pick, object, "pid", 1, INT_MAX),
		.tid = (pid_t)snap_json_pick_required(pick, object, "tid", 1, INT_MAX),
		.name = pick_wait_text(pick, object, "name"),
		.function = pick_wait_text(pick, object, "function"),
		.file = pick_wait_text(pick, object, "file"),
		.line = (uint32_t)snap_json_pick_number(pick, object, "line", 0, UINT32_MAX, 0),
		.wait = snap_json_read_wait(pick, object),
	};

	if (!link.wait)
		snap_json_pick_refuse(pick, "wait", "an object");
	return link;
}

static void read_deadlock(struct snap_json_pick *pick, const struct snap_json *object,
			  struct snap_deadlock *deadlock)
{
	struct snap_json_list threads = snap_json_pick_list(pick, object, "threads");
	const struct snap_json *from;

	if (threads.count == 0 || threads.count > SNAP_DEADLOCK_SHOWN)
		snap_json_pick_refuse(pick, "threads", "an array of 1 to 16 threads");
	if (snap_json_pick_failed(pick))
		return;
	*deadlock = (struct snap_deadlock){
		.certain = snap_json_pick_flag(pick, object, "certain"),
		.timed = snap_json_pick_flag(pick, object, "timed"),
		.until_ns = pick_known(pick, object, "until_ns"),
		.behind = (size_t)snap_json_pick_number(pick, object, "behind", 0, SNAP_MAX_THREADS,
							0),
		.size = (size_t)snap_json_pick_number(pick, object, "size", (int64_t)threads.count,
						      SNAP_MAX_THREADS, (int64_t)threads.count),
	};
	deadlock->threads = snap_json_pick_memory(pick, threads.count, sizeof(*deadlock->threads));
	while ((from = snap_json_list_object(&threads)))
		deadlock->threads[deadlock->thread_count++] = read_json_link(pick, from);
}

static struct snap_blocker read_blocker(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_blocker blocker = {
		.pid = (pid_t)snap_json_pick_number(pick, object, "pid", 0, INT_MAX, 0),
		.tid = (pid_t)snap_json_pick_number(pick, object, "tid", 0, INT_MAX, 0),
		.name = pick_wait_text(pick, object, "name"),
		.blocked = (size_t)snap_json_pick_required(pick, object, "blocked", 1,
							   SNAP_MAX_THREADS),
		.locks = (size_t)snap_json_pick_number(pick, object, "locks", 0, SNAP_MAX_THREADS,
						       0),
		.state = pick_letter(pick, object),
		.certain = snap_json_pick_flag(pick, object, "certain"),
		.function = pick_wait_text(pick, object, "function"),
		.wait = snap_json_read_wait(pick, object),
	};

	if (snap_json_pick_has(object, "owner_unknown"))
		blocker.lack = snap_json_pick_word(pick, object, "owner_unknown",
						   snap_owner_lack_word, SNAP_OWNER_LACKS);
	return blocker;
}

static struct snap_contended read_contended(struct snap_json_pick *pick,
					    const struct snap_json *object)
{
	return (struct snap_contended){
		.waiters = (size_t)snap_json_pick_required(pick, object, "waiters", 1,
							   SNAP_MAX_THREADS),
		.pid = (pid_t)snap_json_pick_required(pick, object, "pid", 1, INT_MAX),
		.wait = read_whole(pick, object),
	};
}

/* An array of at most SNAP_WAIT_LIST objects, and room for what they are. */
static struct snap_json_list begin_list(struct snap_json_pick *pick, const struct snap_json *root,
					const char *key, size_t size, void *pointer_to_array)
{
	struct snap_json_list list = snap_json_pick_list(pick, root, key);

	if (list.count > SNAP_WAIT_LIST)
		snap_json_pick_refuse(pick, key, "a smaller array");
	if (list.count && !snap_json_pick_failed(pick))
		*(void **)pointer_to_array = snap_json_pick_memory(pick, list.count, size);
	return list;
}

static void read_lacks(struct snap_json_pick *pick, const struct snap_json *root,
		       struct snap_waits *waits)
{
	struct snap_json_list lacks = snap_json_pick_list(pick, root, "waits_lack");

	for (size_t i = 0; i < lacks.count && !snap_json_pick_failed(pick); i++)
		waits->lacks |= 1u << snap_json_list_word(&lacks, snap_wait_lack_word,
							  __builtin_popcount(SNAP_LACK_ALL));
}

void snap_json_read_waits(struct snap_json_reader *reader, const struct snap_json *root)
{
	struct snap_waits *waits = &reader->snapshot->waits;
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list list;
	const struct snap_json *from;

	list = begin_list(pick, root, "deadlocks", sizeof(*waits->deadlocks), &waits->deadlocks);
	while ((from = snap_json_list_object(&list)))
		read_deadlock(pick, from, &waits->deadlocks[waits->deadlock_count++]);
	waits->deadlock_total = (size_t)snap_json_pick_number(
		pick, root, "deadlock_count", (int64_t)waits->deadlock_count, SNAP_MAX_THREADS,
		(int64_t)waits->deadlock_count);
	list = begin_list(pick, root, "blockers", sizeof(*waits->blockers), &waits->blockers);
	while ((from = snap_json_list_object(&list)))
		waits->blockers[waits->blocker_count++] = read_blocker(pick, from);
	list = begin_list(pick, root, "contended", sizeof(*waits->contended), &waits->contended);
	while ((from = snap_json_list_object(&list)))
		waits->contended[waits->contended_count++] = read_contended(pick, from);
	read_lacks(pick, root, waits);
	waits->asked = !snap_json_pick_failed(pick);
}
