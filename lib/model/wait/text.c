/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The line of a wait, as people read it: see wait.h. Its beginning is in head.c, names and numbers are
 * in parts.c. Knows no columns and no escapes; the code that prints a line does both.
 */
#include "model/wait/parts.h"

#include "base/clock.h"
#include "base/text.h"
#include "model/wait/kind.h"

#include <inttypes.h>
#include <string.h>

static bool is_variant(const struct snap_wait *wait, const char *variant)
{
	return snap_same_text(wait->variant, variant);
}

/* ---- owners ---- */

static const char *held_word(const struct snap_wait *wait)
{
	if (snap_wait_kind_is(wait->kind, SNAP_KIND_RUN))
		return ", run by ";
	return wait->kind == SNAP_WAIT_RWLOCK ? ", held for writing by " : ", held by ";
}

/* Why its owner is not known, for the parenthesis; NULL: nothing to say. */
static const char *why_unknown(const struct snap_wait *wait)
{
	switch (wait->owner_lack) {
	case SNAP_OWNER_NOT_KEPT:
		/* The number of readers is shown; a lock keeps nothing else about them. */
		if (!snap_wait_kind_is(wait->kind, SNAP_KIND_HELD) || wait->readers > 0)
			return NULL;
		return is_variant(wait, "musl")   ? "owner unknown: musl keeps none"
		       : is_variant(wait, "rust") ? "owner unknown: Rust keeps none"
						  : "owner unknown: none is kept";
	case SNAP_OWNER_CHANGING:
		return "being taken or released";
	case SNAP_OWNER_UNREADABLE:
		return "owner unknown: address unreadable";
	case SNAP_OWNER_NOT_SEEN:
		return "owner unknown: not in this report";
	case SNAP_OWNER_OTHER_USER:
		return "owner unknown: a process of another user";
	case SNAP_OWNER_YOUNGER: /* said with its name */
	case SNAP_OWNER_KNOWN:
	case SNAP_OWNER_EXITED:
	case SNAP_OWNER_AT_FORK:
	case SNAP_OWNER_DIED:
	case SNAP_OWNER_REFUSED:
	case SNAP_OWNER_LACKS:
		break;
	}
	return NULL;
}

/* The kind of a hint: the last thread that the kernel names, or a thread whose stack has the address. */
static const char *hint_text(const struct snap_wait *wait)
{
	if (wait->kind == SNAP_WAIT_SYSV_SEMAPHORE)
		return "last changed by ";
	if (wait->kind == SNAP_WAIT_MSGQUEUE)
		return wait->mode == SNAP_WAIT_WRITE ? "last received by " : "last sent by ";
	return "its address is on the stack of ";
}

/* " (owner unknown: musl keeps none; its address is on the stack of 4671 abba-b)" */
static void add_unknown(struct snap_buffer *text, const struct snap_wait *wait, bool all)
{
	const char *why = why_unknown(wait);
	bool hints = all && wait->hint_count;

	if (wait->owner_lack == SNAP_OWNER_YOUNGER) {
		snap_buffer_add_text(text, " (owner unknown: its number is that of ");
		snap_wait_add_party(text, &wait->owner, false);
		snap_buffer_add_text(text, ", which is younger than this wait)");
		return;
	}

	if (!why && !hints)
		return;
	snap_buffer_printf(text, " (%s%s", why ? why : "", why && hints ? "; " : "");
	if (hints) {
		snap_buffer_add_text(text, hint_text(wait));
		snap_wait_add_parties(text, wait->hints, wait->hint_count, wait->hint_count, false);
	}
	snap_buffer_add_byte(text, ')');
}

static void add_holders(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (wait->holder_count && wait->kind == SNAP_WAIT_FILE_LOCK) {
		snap_buffer_add_text(text, ", held by ");
		snap_wait_add_parties(text, wait->holders, wait->holder_count, wait->holder_count,
				      true);
	} else if (wait->kind == SNAP_WAIT_RWLOCK && wait->readers > 0) {
		snap_buffer_printf(text, ", held by %" PRId64 " reader%s", wait->readers,
				   wait->readers == 1 ? "" : "s");
		if (wait->holder_count) {
			snap_buffer_add_text(text, ": ");
			snap_wait_add_parties(text, wait->holders, wait->holder_count,
					      wait->holder_count, true);
		}
	}
}

static void add_owner(struct snap_buffer *text, const struct snap_wait *wait, bool all)
{
	switch (wait->owner_lack) {
	case SNAP_OWNER_EXITED:
		snap_buffer_add_text(text, ", whose owner");
		if (wait->owner.tid)
			snap_buffer_printf(text, ", thread %d,", wait->owner.tid);
		snap_buffer_add_text(text, " has exited: no thread can release it");
		return;
	case SNAP_OWNER_AT_FORK:
		snap_buffer_printf(text,
				   ", held by thread %d of the parent when this process was "
				   "forked: %s can release it",
				   wait->owner.tid,
				   wait->confidence == SNAP_WAIT_IS_CERTAIN ? "no thread"
									    : "only its copy");
		return;
	case SNAP_OWNER_DIED:
		snap_buffer_add_text(text, ", whose owner died");
		return;
	case SNAP_OWNER_REFUSED:
		snap_buffer_add_text(text, ": PI deadlock, refused by the kernel");
		return;
	default:
		break;
	}
	/* Of these the owner has been named. */
	if (wait->kind == SNAP_WAIT_THREAD || wait->kind == SNAP_WAIT_TRACED ||
	    is_variant(wait, "self"))
		return;
	if (wait->has_owner && wait->owner_lack == SNAP_OWNER_KNOWN) {
		snap_buffer_add_text(text, held_word(wait));
		snap_wait_add_party(text, &wait->owner, true);
		return;
	}
	add_holders(text, wait);
	add_unknown(text, wait, all);
}

/* ---- further facts of some kinds ---- */

static void add_condition(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (!wait->mutex && !wait->mutex_symbol)
		return;
	snap_buffer_add_text(text, " (mutex ");
	if (wait->mutex_symbol)
		snap_wait_add_name(text, wait->mutex_symbol);
	else
		snap_buffer_printf(text, "0x%" PRIx64, wait->mutex);
	snap_buffer_add_text(text, wait->mutex_free ? ", free)" : ")");
}

static void add_semaphore(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (wait->value < 0)
		return;
	snap_buffer_printf(text, " (%" PRId64, wait->value);
	if (wait->waiters >= 0)
		snap_buffer_printf(text, ", %" PRId64 " waiter%s", wait->waiters,
				   wait->waiters == 1 ? "" : "s");
	snap_buffer_add_byte(text, ')');
}

static void add_backlog(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (wait->backlog >= 0 && wait->backlog_max >= 0)
		snap_buffer_printf(text, ", %" PRId64 " of %" PRId64 " queued", wait->backlog,
				   wait->backlog_max);
}

/* "2nd", "3rd", "11th". */
static const char *ordinal(int64_t number)
{
	if (number % 100 >= 11 && number % 100 <= 13)
		return "th";
	return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

static void add_connect(struct snap_buffer *text, const struct snap_wait *wait)
{
	add_backlog(text, wait);
	if (wait->peer_count) {
		const struct snap_wait_party *peer = &wait->peers[0];

		snap_buffer_printf(text, " at %d", peer->tid ? peer->tid : peer->pid);
		if (!peer->outside && !(peer->wait && is_variant(peer->wait, "accept")))
			snap_buffer_add_text(text, " (accepts nothing)");
	}
	if (wait->retransmits >= 0)
		snap_buffer_printf(text, ", %" PRId64 "%s SYN unanswered", wait->retransmits + 1,
				   ordinal(wait->retransmits + 1));
}

static void add_queues(struct snap_buffer *text, const struct snap_wait *wait)
{
	int64_t own = wait->mode == SNAP_WAIT_WRITE ? wait->send_queue : wait->recv_queue;

	if (wait->kind == SNAP_WAIT_UNIX && wait->peer_count) {
		snap_buffer_add_text(text, " to ");
		snap_wait_add_parties(text, wait->peers, wait->peer_count, wait->peer_total, false);
	} else if (wait->peer_count) {
		snap_buffer_add_text(text, " (");
		snap_wait_add_parties(text, wait->peers, wait->peer_count, wait->peer_total, false);
		snap_buffer_add_byte(text, ')');
	}
	/* Words of TCP: one of UDP that is not connected is "close" to the kernel. */
	if (wait->socket_state && wait->mode != SNAP_WAIT_WRITE && wait->kind != SNAP_WAIT_UDP) {
		snap_buffer_add_text(text, ", ");
		snap_wait_add_name(text, wait->socket_state);
	}
	if (own >= 0 && wait->kind != SNAP_WAIT_SOCKET) {
		snap_buffer_add_text(text, ", ");
		snap_wait_add_size(text, own);
		snap_buffer_add_text(text, " queued");
	}
	if (wait->mode == SNAP_WAIT_WRITE && wait->peer_recv_queue > 0) {
		snap_buffer_add_text(text, ", ");
		snap_wait_add_size(text, wait->peer_recv_queue);
		snap_buffer_add_text(text, " unread there");
	}
}

static void add_text_socket(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (is_variant(wait, "connect"))
		add_connect(text, wait);
	else if (is_variant(wait, "accept"))
		add_backlog(text, wait);
	else
		add_queues(text, wait);
}

/* A sleeping read(2) always has a writer, or it would read the end: one that was not seen. */
static void add_pipe(struct snap_buffer *text, const struct snap_wait *wait)
{
	bool writes = wait->mode == SNAP_WAIT_WRITE;

	if (wait->peer_count) {
		snap_buffer_add_text(text, writes ? " read by " : " written by ");
		snap_wait_add_parties(text, wait->peers, wait->peer_count, wait->peer_total, true);
	} else {
		snap_buffer_add_text(text, writes ? " whose readers are not seen"
						  : " whose writers are not seen");
	}
}

/* Objects of functions of the kernel that do not wait for a disk, by a part of their names. */
static void add_wchan(struct snap_buffer *text, const struct snap_wait *wait)
{
	static const struct {
		const char *part, *text;
	} places[] = {
		{ "rpc_wait_bit", ", NFS in " },
		{ "nfs", ", NFS in " },
		{ "rwsem_down_", ", lock of a memory map or an inode in " },
		{ "balance_dirty_pages", ", slowed down for writing too fast in " },
	};
	const char *word = ", DISK in ";

	if (is_variant(wait, "fuse")) {
		snap_buffer_add_text(text, ": the server of its FUSE file system does not answer");
		return;
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(places); i++)
		if (strstr(wait->wchan, places[i].part)) {
			word = places[i].text;
			break;
		}
	snap_buffer_add_text(text, word);
	snap_wait_add_name(text, wait->wchan);
}

/* Behind the object, in front of owners. */
static void add_details(struct snap_buffer *text, const struct snap_wait *wait)
{
	switch (wait->kind) {
	case SNAP_WAIT_CONDITION:
		add_condition(text, wait);
		break;
	case SNAP_WAIT_SEMAPHORE:
		add_semaphore(text, wait);
		break;
	case SNAP_WAIT_BARRIER:
		if (wait->arrived >= 0 && wait->needed >= 0)
			snap_buffer_printf(text, ": %" PRId64 " of %" PRId64 " have come",
					   wait->arrived, wait->needed);
		break;
	case SNAP_WAIT_PIPE:
	case SNAP_WAIT_FIFO:
		add_pipe(text, wait);
		break;
	case SNAP_WAIT_FIFO_OPEN:
		snap_buffer_add_text(text, wait->mode == SNAP_WAIT_WRITE
						   ? ": no process has opened it for reading"
						   : ": no process has opened it for writing");
		break;
	case SNAP_WAIT_UNIX:
	case SNAP_WAIT_TCP:
	case SNAP_WAIT_UDP:
	case SNAP_WAIT_SOCKET:
		add_text_socket(text, wait);
		break;
	case SNAP_WAIT_THREAD:
		if (wait->has_owner)
			snap_wait_add_doing(text, &wait->owner);
		break;
	case SNAP_WAIT_CHILD:
		if (wait->child > 0 && wait->peer_count == 1)
			snap_wait_add_doing(text, &wait->peers[0]);
		break;
	case SNAP_WAIT_SIGNALFD:
		if (wait->signals) {
			snap_buffer_add_text(text, " for ");
			snap_wait_add_signals(text, wait->signals);
		}
		break;
	case SNAP_WAIT_TRACED:
		if (wait->owner.pid) {
			snap_buffer_add_text(text, " by ");
			snap_wait_add_party(text, &wait->owner, false);
		}
		break;
	default:
		break;
	}
	if (wait->wchan && (wait->kind == SNAP_WAIT_FILE || wait->kind == SNAP_WAIT_DISK))
		add_wchan(text, wait);
}

/* ---- the line ---- */

/* The processes that a poll of one descriptor waits for, as a read of it names them. */
static void add_polled_peers(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (!snap_wait_kind_is(wait->kind, SNAP_KIND_POLL) || !wait->peer_count)
		return;
	snap_buffer_add_text(text, ", other end: ");
	snap_wait_add_parties(text, wait->peers, wait->peer_count, wait->peer_total, true);
}

/* Behind all else: until when, and of lines that do not begin with "waits" since when. */
static void add_text_times(struct snap_buffer *text, const struct snap_wait *wait,
			   const struct snap_wait_times *times, bool all)
{
	bool knows = wait->timed && times->least_left_ns >= 0;

	if (wait->kind == SNAP_WAIT_SLEEP) {
		if (knows) {
			snap_buffer_add_byte(text, ' ');
			snap_wait_add_duration(text, times->least_left_ns, times->most_left_ns);
			snap_buffer_add_text(text, " more");
		}
		return;
	}
	if (all && knows) {
		snap_buffer_add_text(text, ", for up to ");
		snap_wait_add_duration(text, times->least_left_ns, times->most_left_ns);
		snap_buffer_add_text(text, " more");
	} else if (all && wait->timed) {
		snap_buffer_add_text(text, ", with a timeout");
	}
	if (all && !snap_wait_word_before(wait) && times->most_since_ns > SNAP_NS_PER_S) {
		snap_buffer_add_text(text, ", for ");
		snap_wait_add_duration(text, times->least_since_ns, times->most_since_ns);
	}
}

char *snap_wait_line_of(const struct snap_wait *wait, const struct snap_wait_times *times, bool all)
{
	struct snap_buffer text = { 0 };
	char *line;

	if (snap_wait_word_before(wait)) {
		snap_buffer_add_text(&text, "waits ");
		if (all && times->most_since_ns > SNAP_NS_PER_S) {
			snap_wait_add_duration(&text, times->least_since_ns, times->most_since_ns);
			snap_buffer_add_byte(&text, ' ');
		}
	}
	snap_wait_add_head(&text, wait);
	add_details(&text, wait);
	add_owner(&text, wait, all);
	if (all)
		add_polled_peers(&text, wait);
	add_text_times(&text, wait, times, all);
	line = text.size || text.failed ? snap_buffer_take(&text, NULL) : strdup("");
	snap_buffer_deinit(&text);
	return line;
}

char *snap_wait_line(const struct snap_wait *wait, bool all)
{
	struct snap_wait_times times = snap_wait_times_of(wait);

	return snap_wait_line_of(wait, &times, all);
}
