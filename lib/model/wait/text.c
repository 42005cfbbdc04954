/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The line of a wait, as people read it: see wait.h. Its object is in object.c, names and numbers are
 * in parts.c. Knows no columns and no escapes; the code that prints a line does both.
 */
#include "model/wait/parts.h"

#include "base/clock.h"
#include "base/text.h"
#include "model/wait/kind.h"

#include <inttypes.h>
#include <string.h>

enum { FEW_POLLED = 4 }; /* descriptors that are listed one by one */

static bool is_variant(const struct snap_wait *wait, const char *variant)
{
	return snap_same_text(wait->variant, variant);
}

/* ---- the object ---- */

/* The word between "waits" and the object; NULL: a kind whose line begins otherwise. */
static const char *waits_word(const struct snap_wait *wait)
{
	if (wait->kind == SNAP_WAIT_RWLOCK && wait->mode != SNAP_WAIT_ANY_MODE)
		return wait->mode == SNAP_WAIT_WRITE ? "to write " : "to read ";
	return snap_wait_kind_row(wait->kind)->before;
}

/* "a mutex": one that is known by neither a name nor an address. */
static void add_object_or_noun(struct snap_buffer *text, const struct snap_wait *wait)
{
	bool vowel = wait->kind == SNAP_WAIT_MALLOC || wait->kind == SNAP_WAIT_ATOMIC ||
		     is_variant(wait, "rlock") || (wait->variant && strchr("ae", *wait->variant));

	if (!wait->address && !wait->symbol && !wait->module &&
	    snap_wait_kind_is(wait->kind, SNAP_KIND_ADDRESS))
		snap_buffer_add_text(text, vowel ? "an " : "a ");
	snap_wait_add_object(text, wait);
}

/* "stdout (FILE 0x5581c0)": the C library's own names of its three files are not people's. */
static void add_stdio(struct snap_buffer *text, const struct snap_wait *wait)
{
	static const struct {
		const char *symbol, *name;
	} files[] = {
		{ "_IO_2_1_stdin_", "stdin" },   { "_IO_stdfile_0_lock", "stdin" },
		{ "_IO_2_1_stdout_", "stdout" }, { "_IO_stdfile_1_lock", "stdout" },
		{ "_IO_2_1_stderr_", "stderr" }, { "_IO_stdfile_2_lock", "stderr" },
	};
	const char *name = wait->symbol;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(files); i++)
		if (snap_same_text(wait->symbol, files[i].symbol))
			name = files[i].name;
	if (!name || wait->offset) {
		add_object_or_noun(text, wait);
		return;
	}
	snap_wait_add_name(text, name);
	if (wait->address)
		snap_buffer_printf(text, " (FILE 0x%" PRIx64 ")", wait->address);
}

static void add_waits_object(struct snap_buffer *text, const struct snap_wait *wait)
{
	switch (wait->kind) {
	case SNAP_WAIT_STDIO:
		add_stdio(text, wait);
		break;
	case SNAP_WAIT_MALLOC:
		if (is_variant(wait, "self"))
			snap_buffer_add_text(text, "itself: malloc in a signal handler that "
						   "interrupted malloc");
		else
			add_object_or_noun(text, wait);
		break;
	case SNAP_WAIT_SIGNAL:
		if (wait->signals)
			snap_wait_add_signals(text, wait->signals);
		else
			snap_buffer_add_text(text, "a signal");
		break;
	case SNAP_WAIT_PARK:
	case SNAP_WAIT_RUNTIME:
		break;
	case SNAP_WAIT_THREAD:
		snap_buffer_add_text(text, "thread");
		if (wait->owner.tid) {
			snap_buffer_add_byte(text, ' ');
			snap_wait_add_party(text, &wait->owner, false);
		}
		snap_buffer_add_text(text, " to end");
		break;
	case SNAP_WAIT_VFORK:
		snap_wait_add_object(text, wait);
		snap_buffer_add_text(text, " execs or exits");
		break;
	default:
		add_object_or_noun(text, wait);
	}
}

/* "recv", "send", "accept" …: what a call does with a descriptor. */
static const char *verb_of(const struct snap_wait *wait)
{
	bool is_socket = snap_wait_kind_is(wait->kind, SNAP_KIND_SOCKET);

	if (is_variant(wait, "accept") || is_variant(wait, "connect"))
		return wait->variant;
	if (wait->kind == SNAP_WAIT_FIFO_OPEN)
		return "open";
	if (wait->mode == SNAP_WAIT_READ)
		return is_socket ? "recv" : "read";
	if (wait->mode == SNAP_WAIT_WRITE)
		return is_socket ? "send" : "write";
	return wait->call ? wait->call : "waits";
}

/* "recv on tcp …", "write to a full pipe", "read of /etc/hosts". */
static void add_transfer(struct snap_buffer *text, const struct snap_wait *wait)
{
	const char *verb = verb_of(wait);
	bool writes = wait->mode == SNAP_WAIT_WRITE, nameless = !wait->path;

	snap_buffer_add_text(text, verb);
	switch (wait->kind) {
	case SNAP_WAIT_PIPE:
		snap_buffer_add_text(text, writes ? " to a full pipe" : " on a pipe");
		return;
	case SNAP_WAIT_FIFO:
		snap_buffer_add_text(text, writes ? " to full " : " on ");
		break;
	case SNAP_WAIT_FILE:
		snap_buffer_add_text(text, writes ? " to " : " of ");
		break;
	case SNAP_WAIT_FIFO_OPEN:
		snap_buffer_add_text(text, " of ");
		break;
	case SNAP_WAIT_UNIX:
		nameless = !wait->local && !wait->remote;
		snap_buffer_add_text(text, is_variant(wait, "connect") ? " to " : " on ");
		if (nameless)
			snap_buffer_add_text(text, "a ");
		break;
	case SNAP_WAIT_TCP:
	case SNAP_WAIT_UDP:
		snap_buffer_add_text(text, is_variant(wait, "connect") ? " to " : " on ");
		break;
	case SNAP_WAIT_SOCKET:
		snap_buffer_add_text(text, wait->local || wait->remote ? " on " : " on a ");
		break;
	default:
		snap_buffer_add_text(text, writes ? " to " : " on ");
	}
	snap_wait_add_object(text, wait);
}

/* "1 listening socket (tcp 127.0.0.1:8080), 212 connections, 1 eventfd, 1 timer". */
static void add_watched(struct snap_buffer *text, const struct snap_wait *wait)
{
	const char *comma = "";
	uint32_t sockets = wait->kinds_watched[SNAP_DESCRIPTOR_SOCKET];

	if (wait->listening) {
		snap_buffer_printf(text, "%u listening socket%s", wait->listening,
				   wait->listening == 1 ? "" : "s");
		if (wait->listen_address && wait->listening == 1) {
			snap_buffer_add_text(text, " (");
			snap_wait_add_path(text, wait->listen_address);
			snap_buffer_add_byte(text, ')');
		}
		comma = ", ";
	}
	if (wait->connected) {
		snap_buffer_printf(text, "%s%u connection%s", comma, wait->connected,
				   wait->connected == 1 ? "" : "s");
		comma = ", ";
	}
	sockets -= wait->listening < sockets ? wait->listening : sockets;
	sockets -= wait->connected < sockets ? wait->connected : sockets;
	for (int kind = SNAP_DESCRIPTOR_KINDS - 1; kind >= 0; kind--) {
		uint32_t count =
			kind == SNAP_DESCRIPTOR_SOCKET ? sockets : wait->kinds_watched[kind];

		if (count == 0)
			continue;
		snap_buffer_printf(text, "%s%u %s", comma, count,
				   snap_descriptor_noun(kind, count != 1));
		comma = ", ";
	}
	if (wait->fds_cut)
		snap_buffer_printf(text, "%sand more", comma);
	else if (!*comma)
		snap_buffer_add_text(text, "nothing that is known");
}

/* "eventfd 7, pipe 9" */
static void add_text_polled(struct snap_buffer *text, const struct snap_wait *wait)
{
	for (size_t i = 0; i < wait->fds_count; i++)
		snap_buffer_printf(text, "%s%s %d", i ? ", " : "",
				   snap_descriptor_noun(wait->fd_kinds[i], false), wait->fds[i]);
}

/* What an epoll watches is not known in recordings. */
static bool watches_something(const struct snap_wait *wait)
{
	bool some = wait->listening || wait->connected || wait->fds_cut;

	for (int kind = 0; kind < SNAP_DESCRIPTOR_KINDS && !some; kind++)
		some = wait->kinds_watched[kind] > 0;
	return some;
}

static void add_poll(struct snap_buffer *text, const struct snap_wait *wait)
{
	snap_buffer_add_text(text, snap_wait_kind_word(wait->kind));
	if (wait->kind == SNAP_WAIT_EPOLL && wait->fd >= 0 && !watches_something(wait)) {
		snap_buffer_printf(text, " %d", wait->fd);
		return;
	}
	snap_buffer_add_text(text, ": ");
	if (wait->kind == SNAP_WAIT_EPOLL) {
		add_watched(text, wait);
		return;
	}
	if (wait->fd_count >= 0)
		snap_buffer_printf(text, "%" PRId64 " descriptor%s (", wait->fd_count,
				   wait->fd_count == 1 ? "" : "s");
	/* The purpose of sockets says more than their numbers. */
	if (wait->fd_kinds && wait->fds_count && wait->fds_count <= FEW_POLLED && !wait->fds_cut &&
	    !wait->listening && !wait->connected)
		add_text_polled(text, wait);
	else
		add_watched(text, wait);
	if (wait->fd_count >= 0)
		snap_buffer_add_byte(text, ')');
	if (!wait->timed)
		snap_buffer_add_text(text, ", no timeout");
}

static void add_file_lock_line(struct snap_buffer *text, const struct snap_wait *wait)
{
	struct snap_buffer object = { 0 };
	const char *of;

	/* "lock on PATH" -> "flock on PATH", "fcntl lock on PATH" */
	snap_wait_add_object(&object, wait);
	of = snap_buffer_text(&object);
	snap_buffer_add_text(text, is_variant(wait, "flock") ? "f" : "fcntl ");
	snap_buffer_add_text(text, of);
	snap_buffer_deinit(&object);
}

static void add_page_fault(struct snap_buffer *text, const struct snap_wait *wait)
{
	snap_buffer_add_text(text, "page fault");
	if (is_variant(wait, "fuse"))
		snap_buffer_add_text(text, " on memory of a FUSE file system that does not answer");
	else if (is_variant(wait, "userfaultfd"))
		snap_buffer_add_text(text, " on memory that a userfaultfd serves");
	else if (wait->path || wait->module)
		snap_buffer_add_text(text, " on memory of ");
	if (wait->path || wait->module)
		snap_wait_add_path(text, wait->path ? wait->path : snap_base_name(wait->module));
}

/* The text before owners, without times. */
static void add_head(struct snap_buffer *text, const struct snap_wait *wait)
{
	switch (wait->kind) {
	case SNAP_WAIT_SLEEP:
		snap_buffer_add_text(text, "sleeps");
		break;
	case SNAP_WAIT_POLL:
	case SNAP_WAIT_SELECT:
	case SNAP_WAIT_EPOLL:
		add_poll(text, wait);
		break;
	case SNAP_WAIT_FILE_LOCK:
		add_file_lock_line(text, wait);
		break;
	case SNAP_WAIT_PAGE_FAULT:
		add_page_fault(text, wait);
		break;
	case SNAP_WAIT_FROZEN:
		snap_buffer_add_text(text, "frozen by ");
		snap_wait_add_object(text, wait);
		break;
	case SNAP_WAIT_STOPPED:
		snap_buffer_add_text(text, "stopped by a signal");
		break;
	case SNAP_WAIT_TRACED:
		snap_buffer_add_text(text, "traced");
		break;
	case SNAP_WAIT_DISK:
	case SNAP_WAIT_SYSCALL:
		snap_buffer_add_text(text, wait->call ? wait->call : "in the kernel");
		if (wait->path) {
			snap_buffer_add_text(text, " of ");
			snap_wait_add_path(text, wait->path);
		}
		break;
	case SNAP_WAIT_NONE:
	case SNAP_WAIT_KINDS:
		break;
	default:
		add_transfer(text, wait);
	}
}

/* Kinds whose line begins with "waits". */
static void add_waits(struct snap_buffer *text, const struct snap_wait *wait, const char *word)
{
	snap_buffer_add_text(text, word);
	add_waits_object(text, wait);
}

void snap_wait_add_brief(struct snap_buffer *text, const struct snap_wait *whole)
{
	const struct snap_wait plain = snap_wait_plain(whole), *wait = &plain;
	const char *word = waits_word(wait);

	if (wait->call && (wait->kind == SNAP_WAIT_SLEEP || wait->kind == SNAP_WAIT_SIGNAL ||
			   snap_wait_kind_is(wait->kind, SNAP_KIND_POLL))) {
		snap_buffer_printf(text, "in %s", wait->call);
		return;
	}
	if (word) {
		snap_buffer_add_text(text, "waits ");
		add_waits(text, wait, word);
		return;
	}
	if (!snap_wait_kind_is(wait->kind, SNAP_KIND_HALTED))
		snap_buffer_add_text(text, "in ");
	add_head(text, wait);
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
	if (all && !waits_word(wait) && times->most_since_ns > SNAP_NS_PER_S) {
		snap_buffer_add_text(text, ", for ");
		snap_wait_add_duration(text, times->least_since_ns, times->most_since_ns);
	}
}

char *snap_wait_line_of(const struct snap_wait *wait, const struct snap_wait_times *times, bool all)
{
	const char *word = waits_word(wait);
	struct snap_buffer text = { 0 };
	char *line;

	if (word) {
		snap_buffer_add_text(&text, "waits ");
		if (all && times->most_since_ns > SNAP_NS_PER_S) {
			snap_wait_add_duration(&text, times->least_since_ns, times->most_since_ns);
			snap_buffer_add_byte(&text, ' ');
		}
		add_waits(&text, wait, word);
	} else {
		add_head(&text, wait);
	}
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
