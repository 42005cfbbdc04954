/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The beginning of the line of a wait: what a thread does, and with which object. Owners and times
 * follow in text.c. Knows no columns and no escapes.
 */
#include "model/wait/parts.h"

#include "base/text.h"
#include "model/wait/kind.h"

#include <inttypes.h>
#include <string.h>

enum { FEW_POLLED = 4 }; /* descriptors that are listed one by one */

const char *snap_wait_word_before(const struct snap_wait *wait)
{
	if (wait->kind == SNAP_WAIT_RWLOCK && wait->mode != SNAP_WAIT_ANY_MODE)
		return wait->mode == SNAP_WAIT_WRITE ? "to write " : "to read ";
	return snap_wait_kind_row(wait->kind)->before;
}

/* "a mutex": one that is known by neither a name nor an address. */
static void add_object_or_noun(struct snap_buffer *text, const struct snap_wait *wait)
{
	bool vowel = wait->kind == SNAP_WAIT_MALLOC || wait->kind == SNAP_WAIT_ATOMIC ||
		     snap_same_text(wait->variant, "rlock") ||
		     (wait->variant && strchr("ae", *wait->variant));

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
		if (snap_same_text(wait->variant, "self"))
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

	if (snap_same_text(wait->variant, "accept") || snap_same_text(wait->variant, "connect"))
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
		snap_buffer_add_text(text,
				     snap_same_text(wait->variant, "connect") ? " to " : " on ");
		if (nameless)
			snap_buffer_add_text(text, "a ");
		break;
	case SNAP_WAIT_TCP:
	case SNAP_WAIT_UDP:
		snap_buffer_add_text(text,
				     snap_same_text(wait->variant, "connect") ? " to " : " on ");
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
	snap_buffer_add_text(text, snap_same_text(wait->variant, "flock") ? "f" : "fcntl ");
	snap_buffer_add_text(text, of);
	snap_buffer_deinit(&object);
}

static void add_page_fault(struct snap_buffer *text, const struct snap_wait *wait)
{
	snap_buffer_add_text(text, "page fault");
	if (snap_same_text(wait->variant, "fuse"))
		snap_buffer_add_text(text, " on memory of a FUSE file system that does not answer");
	else if (snap_same_text(wait->variant, "userfaultfd"))
		snap_buffer_add_text(text, " on memory that a userfaultfd serves");
	else if (wait->path || wait->module)
		snap_buffer_add_text(text, " on memory of ");
	if (wait->path || wait->module)
		snap_wait_add_path(text, wait->path ? wait->path : snap_base_name(wait->module));
}

/* Of kinds whose line does not begin with "waits". */
static void add_other_head(struct snap_buffer *text, const struct snap_wait *wait)
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

void snap_wait_add_head(struct snap_buffer *text, const struct snap_wait *wait)
{
	const char *word = snap_wait_word_before(wait);

	if (!word) {
		add_other_head(text, wait);
		return;
	}
	snap_buffer_add_text(text, word);
	add_waits_object(text, wait);
}

void snap_wait_add_brief(struct snap_buffer *text, const struct snap_wait *whole)
{
	const struct snap_wait plain = snap_wait_plain(whole), *wait = &plain;

	if (wait->call && (wait->kind == SNAP_WAIT_SLEEP || wait->kind == SNAP_WAIT_SIGNAL ||
			   snap_wait_kind_is(wait->kind, SNAP_KIND_POLL))) {
		snap_buffer_printf(text, "in %s", wait->call);
		return;
	}
	if (snap_wait_word_before(wait))
		snap_buffer_add_text(text, "waits ");
	else if (!snap_wait_kind_is(wait->kind, SNAP_KIND_HALTED))
		snap_buffer_add_text(text, "in ");
	snap_wait_add_head(text, wait);
}
