/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * poll, select and epoll: the descriptors that they watch, by kind and number: see kernel.h. An
 * epoll in an epoll is a descriptor like others, and is not followed.
 */
#include "analyze/wait/kernel/kernel.h"

#include <poll.h>
#include <string.h>

enum {
	STATE_LISTEN = 10,
	WORD_BITS = 64,
	SET_WORDS = 16, /* 1,024 descriptors (select(2)) */
	MOST_LISTED = SNAP_MAX_POLLED,
	SETS = 3,
};

/* Descriptors that a wait is for, as they are found. */
struct watch {
	struct snap_wait_analysis *waits;
	struct snap_waiter *waiter;
	int32_t fds[MOST_LISTED];
	uint32_t kinds[MOST_LISTED];
	size_t count;
	bool reads, writes; /* something of them is waited for */
	const struct snap_socket *listener;
};

static void count_socket(struct watch *watch, const struct snap_descriptor *descriptor)
{
	const struct snap_socket *socket =
		snap_wait_descriptor_socket(watch->waits, watch->waiter, descriptor);

	if (!socket)
		return;
	if (socket->state != STATE_LISTEN) {
		watch->waiter->wait->connected++;
		return;
	}
	watch->waiter->wait->listening++;
	watch->listener = socket;
}

static void add_descriptor(struct watch *watch, int32_t fd)
{
	const struct snap_descriptor *descriptor = snap_wait_descriptor(watch->waiter, fd);
	struct snap_wait *wait = watch->waiter->wait;
	enum snap_descriptor_kind kind = SNAP_DESCRIPTOR_OTHER;

	if (descriptor && (unsigned)descriptor->kind < SNAP_DESCRIPTOR_KINDS)
		kind = descriptor->kind;
	if (watch->count < MOST_LISTED) {
		watch->kinds[watch->count] = kind;
		watch->fds[watch->count++] = fd;
	} else {
		wait->fds_cut = true;
	}
	wait->kinds_watched[kind]++;
	if (kind == SNAP_DESCRIPTOR_SOCKET)
		count_socket(watch, descriptor);
	/* Its time ends this wait, too. */
	if (kind == SNAP_DESCRIPTOR_TIMERFD && descriptor->remaining_ns >= 0) {
		if (!wait->timed || wait->remaining_ns < 0 ||
		    descriptor->remaining_ns < wait->remaining_ns)
			wait->remaining_ns = descriptor->remaining_ns;
		wait->timed = true;
	}
}

/* "tcp 127.0.0.1:8080", "unix /run/ctl". */
static struct stacksnap_error *name_listener(struct watch *watch)
{
	bool is_unix = watch->listener->family == SNAP_SOCKET_UNIX;
	const char *address = snap_wait_local_text(watch->waits, watch->listener);
	struct snap_wait *wait = watch->waiter->wait;

	if (!address)
		return NULL;
	wait->listen_address = snap_arena_printf(snap_wait_arena(watch->waits), "%s %s",
						 is_unix ? "unix" : "tcp", address);
	return wait->listen_address ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *keep_watched_descriptor(struct watch *watch)
{
	struct snap_wait *wait = watch->waiter->wait;

	wait->fds_count = watch->count;
	wait->fds = snap_arena_memdup(snap_wait_arena(watch->waits), watch->fds,
				      watch->count * sizeof(*watch->fds));
	wait->fd_kinds = snap_arena_memdup(snap_wait_arena(watch->waits), watch->kinds,
					   watch->count * sizeof(*watch->kinds));
	SNAP_TRY(snap_no_memory_unless(wait->fds && wait->fd_kinds));
	return wait->listening == 1 ? name_listener(watch) : NULL;
}

/* A thread that waits for one descriptor alone waits for its other end, as in read(2). */
static struct stacksnap_error *conclude(struct watch *watch)
{
	struct snap_wait *wait = watch->waiter->wait;
	const struct snap_descriptor *only;
	struct stacksnap_error *err = keep_watched_descriptor(watch);

	if (err || wait->fds_cut || watch->count > 1)
		return err;
	if (watch->count == 0) {
		wait->kind = SNAP_WAIT_SLEEP;
		return NULL;
	}
	only = snap_wait_descriptor(watch->waiter, watch->fds[0]);
	if (!only || watch->reads == watch->writes)
		return NULL;
	return snap_wait_find_peers(watch->waits, watch->waiter, only,
				    watch->reads ? SNAP_WAIT_READ : SNAP_WAIT_WRITE);
}

/* ---- poll ---- */

static struct stacksnap_error *explain_poll(struct watch *watch)
{
	const uint64_t *arguments = watch->waiter->call.arguments;
	uint32_t count = (uint32_t)arguments[1];
	struct snap_wait *wait = watch->waiter->wait;
	struct pollfd polled;

	wait->fd_count = count;
	for (uint32_t i = 0; i < count; i++) {
		if (i == SNAP_MAX_POLLED ||
		    !snap_wait_read(watch->waiter, arguments[0] + i * sizeof(polled), &polled,
				    sizeof(polled))) {
			wait->fds_cut = true;
			break;
		}
		/* The kernel looks at no number below 0 (poll(2)). */
		if (polled.fd < 0)
			continue;
		add_descriptor(watch, polled.fd);
		watch->writes |= (polled.events & (POLLOUT | POLLWRNORM)) != 0;
		watch->reads |= (polled.events & ~(POLLOUT | POLLWRNORM)) != 0;
	}
	return conclude(watch);
}

/* ---- select ---- */

/* The second of the three sets is of those that are to be written to. */
static void add_set(struct watch *watch, uint64_t *all, const uint64_t *set, size_t words,
		    int which)
{
	for (size_t i = 0; i < words; i++) {
		all[i] |= set[i];
		if (set[i] && which == 2)
			watch->writes = true;
		else if (set[i])
			watch->reads = true;
	}
}

static struct stacksnap_error *explain_select(struct watch *watch)
{
	const uint64_t *arguments = watch->waiter->call.arguments;
	int32_t most = (int32_t)arguments[0];
	struct snap_wait *wait = watch->waiter->wait;
	uint64_t all[SET_WORDS] = { 0 }, set[SET_WORDS];
	size_t words;

	if (most > SET_WORDS * WORD_BITS) {
		most = SET_WORDS * WORD_BITS;
		wait->fds_cut = true;
	}
	words = most > 0 ? ((size_t)most + WORD_BITS - 1) / WORD_BITS : 0;
	for (int i = 1; i <= SETS && words; i++) {
		if (!arguments[i])
			continue;
		if (!snap_wait_read(watch->waiter, arguments[i], set, words * sizeof(*set)))
			wait->fds_cut = true;
		else
			add_set(watch, all, set, words, i);
	}
	wait->fd_count = 0;
	for (int32_t fd = 0; fd < most; fd++) {
		if (!(all[fd / WORD_BITS] >> fd % WORD_BITS & 1))
			continue;
		wait->fd_count++;
		add_descriptor(watch, fd);
	}
	return conclude(watch);
}

/* ---- epoll ---- */

/* A thread that waits for the same epoll as one before has the same wait, except for times. */
static bool copy_other(struct watch *watch, const struct snap_descriptor *epoll)
{
	const struct snap_pointer_entry *entry =
		snap_pointer_table_find(&watch->waits->lookup->epolls, epoll);
	struct snap_wait *wait = watch->waiter->wait;
	int64_t since_ns = wait->since_ns;
	enum snap_wait_confidence confidence = wait->confidence;

	if (!entry)
		return false;
	*wait = *(const struct snap_wait *)entry->pointer;
	wait->since_ns = since_ns;
	wait->confidence = confidence;
	return true;
}

static struct stacksnap_error *explain_epoll(struct watch *watch)
{
	struct snap_wait *wait = watch->waiter->wait;
	struct snap_pointer_entry *entry;
	int32_t fd = snap_wait_call_fd(watch->waiter);
	const struct snap_descriptor *epoll = snap_wait_descriptor(watch->waiter, fd);
	struct snap_wait *shared;

	wait->fd = fd;
	watch->waiter->object =
		snap_wait_object_of(SNAP_WAIT_EPOLL, watch->waiter->process, (uint32_t)fd, 0);
	if (!epoll || epoll->kind != SNAP_DESCRIPTOR_EPOLL || copy_other(watch, epoll))
		return NULL;
	wait->fd_count = epoll->watches;
	for (size_t i = 0; i < epoll->watched_count; i++)
		add_descriptor(watch, epoll->watched[i]);
	if (epoll->watches_cut || epoll->watched_count < epoll->watches)
		wait->fds_cut = true;
	SNAP_TRY(keep_watched_descriptor(watch));
	shared = snap_arena_memdup(&watch->waits->analysis->scratch, wait, sizeof(*wait));
	entry = shared ? snap_pointer_table_get(&watch->waits->lookup->epolls, epoll) : NULL;
	SNAP_TRY(snap_no_memory_unless(entry));
	entry->pointer = shared;
	return NULL;
}

struct stacksnap_error *snap_wait_explain_poll(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	enum snap_wait_kind kind = waiter->row->kind;
	struct watch watch = { .waits = waits, .waiter = waiter };
	struct stacksnap_error *err;
	int64_t until_timer_ns;

	if (!snap_wait_new(waits, waiter, kind, snap_wait_call_confidence(waiter)))
		return snap_error_no_memory();
	if (kind == SNAP_WAIT_EPOLL)
		err = explain_epoll(&watch);
	else if (kind == SNAP_WAIT_POLL)
		err = explain_poll(&watch);
	else
		err = explain_select(&watch);
	until_timer_ns = waiter->wait->remaining_ns;
	snap_wait_set_timeout(waits, waiter);
	/*
	 * Of nothing and for ever: until a signal. That is pause(3) where the kernel has no such
	 * call (sysdeps/unix/sysv/linux/pause.c of glibc).
	 */
	if (waiter->wait->kind == SNAP_WAIT_SLEEP && !waiter->wait->timed) {
		waiter->wait->kind = SNAP_WAIT_SIGNAL;
		waiter->wait->variant = "pause";
	}
	if (until_timer_ns >= 0 && until_timer_ns < waiter->wait->remaining_ns)
		waiter->wait->remaining_ns = until_timer_ns;
	return err;
}
