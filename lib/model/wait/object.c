/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The object of a wait as text: the same words for all threads that wait for the same object. See
 * parts.h and wait.h. Knows neither owners nor times.
 */
#include "model/wait/parts.h"

#include "base/text.h"
#include "model/wait/kind.h"

#include <inttypes.h>
#include <string.h>

/* Variants that stand in front of their object. */
static const char *const adjectives[] = { "robust", "recursive", "errorcheck", "adaptive",
					  "protect" };

void snap_wait_add_noun(struct snap_buffer *text, const struct snap_wait *wait)
{
	const char *noun = snap_wait_kind_row(wait->kind)->noun;

	if (wait->kind == SNAP_WAIT_INOTIFY && snap_same_text(wait->variant, "fanotify"))
		noun = wait->variant;
	if (wait->kind == SNAP_WAIT_SEMAPHORE && snap_same_text(wait->variant, "python"))
		noun = "lock of Python";
	if (wait->kind == SNAP_WAIT_MUTEX && snap_same_text(wait->variant, "rlock"))
		noun = "RLock of Python";
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(adjectives); i++)
		if (snap_same_text(wait->variant, adjectives[i]))
			snap_buffer_printf(text, "%s ", adjectives[i]);
	if (snap_same_text(wait->variant, "pi") && wait->kind == SNAP_WAIT_MUTEX)
		snap_buffer_add_text(text, "PI ");
	snap_buffer_add_text(text, noun ? noun : snap_wait_kind_word(wait->kind));
}

void snap_wait_add_address(struct snap_buffer *text, const struct snap_wait *wait)
{
	static const char guard[] = "guard variable for "; /* as demanglers call _ZGV… */
	const char *name = wait->symbol ? wait->symbol : wait->module;

	if (name && snap_begins_with(name, guard))
		name += strlen(guard);
	if (!name) {
		snap_buffer_printf(text, "0x%" PRIx64, wait->address);
		if (wait->place)
			snap_buffer_printf(text, " (%s)", wait->place);
		return;
	}
	if (wait->symbol)
		snap_wait_add_name(text, name);
	else /* shared memory is known by its path */
		snap_wait_add_path(text,
				   snap_begins_with(name, "/dev/") ? name : snap_base_name(name));
	if (wait->offset || !wait->symbol)
		snap_buffer_printf(text, "+0x%" PRIx64, wait->offset);
}

/* "10.0.0.4:51234 -> 10.0.0.9:5432", or one of the two. */
static void add_ends(struct snap_buffer *text, const struct snap_wait *wait)
{
	bool connects = snap_same_text(wait->variant, "connect"),
	     both = wait->local && wait->remote;

	if (wait->local && !(connects && wait->remote)) {
		snap_wait_add_path(text, wait->local);
		if (both)
			snap_buffer_add_text(text, " -> ");
	}
	if (wait->remote)
		snap_wait_add_path(text, wait->remote);
}

static void add_object_socket(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (!wait->local && !wait->remote) {
		snap_wait_add_noun(text, wait);
		return;
	}
	snap_buffer_printf(text, "%s ", snap_wait_kind_word(wait->kind));
	add_ends(text, wait);
}

/* How the kernel's text of a descriptor begins that has no name: "anon_inode:[eventfd]". */
static const char unnamed[] = "anon_inode:";

/* "message queue 7 (type 3)", "semaphore set 8 (semaphore 1)". */
static void add_queue(struct snap_buffer *text, const struct snap_wait *wait)
{
	int64_t type = wait->message_type;

	if (wait->id >= 0)
		snap_buffer_printf(text, " %" PRId64, wait->id);
	if (wait->semaphore >= 0)
		snap_buffer_printf(text, " (semaphore %d)", wait->semaphore);
	if (type > 0)
		snap_buffer_printf(text, " (%s %" PRId64 ")",
				   snap_same_text(wait->variant, "except") ? "types but" : "type",
				   type);
	else if (type < 0)
		snap_buffer_printf(text, " (types up to %" PRIu64 ")", -(uint64_t)type);
}

/* "terminal 7", "eventfd 5": of a number where there is no other name. */
static void add_numbered(struct snap_buffer *text, const struct snap_wait *wait)
{
	snap_wait_add_noun(text, wait);
	if (wait->path && !snap_begins_with(wait->path, unnamed)) {
		snap_buffer_add_byte(text, ' ');
		snap_wait_add_path(text, wait->path);
	} else if (wait->kind == SNAP_WAIT_MSGQUEUE || wait->kind == SNAP_WAIT_SYSV_SEMAPHORE) {
		add_queue(text, wait);
	} else if (wait->fd >= 0) {
		snap_buffer_printf(text, " %d", wait->fd);
	}
}

static void add_file_lock(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (wait->path)
		snap_wait_add_path(text, wait->path);
	else if (wait->fd >= 0)
		snap_buffer_printf(text, "descriptor %d", wait->fd);
	if (snap_same_text(wait->variant, "flock") ||
	    (wait->range_start == 0 && wait->range_end == UINT64_MAX))
		return;
	if (wait->range_end == UINT64_MAX)
		snap_buffer_printf(text, " from %" PRIu64 " on", wait->range_start);
	else
		snap_buffer_printf(text, " %" PRIu64 "-%" PRIu64, wait->range_start,
				   wait->range_end);
}

static void add_child(struct snap_buffer *text, const struct snap_wait *wait)
{
	if (wait->child > 0)
		snap_buffer_printf(text, "child %d", wait->child);
	else if (wait->child < 0)
		snap_buffer_printf(text, "any child of group %d", -wait->child);
	else if (wait->peer_total)
		snap_buffer_printf(text, "any of %zu child%s", wait->peer_total,
				   wait->peer_total == 1 ? "" : "ren");
	else
		snap_buffer_add_text(text, "any child");
}

static void add_addressed(struct snap_buffer *text, const struct snap_wait *wait)
{
	snap_wait_add_noun(text, wait);
	if (wait->address || wait->symbol || wait->module) {
		snap_buffer_add_byte(text, ' ');
		snap_wait_add_address(text, wait);
	}
}

void snap_wait_add_object(struct snap_buffer *text, const struct snap_wait *wait)
{
	unsigned facts = snap_wait_kind_row(wait->kind)->facts;

	switch (wait->kind) {
	case SNAP_WAIT_GIL:
		snap_buffer_add_text(text, "GIL");
		break;
	case SNAP_WAIT_THREAD:
		snap_buffer_add_text(text, "thread");
		if (wait->owner.tid)
			snap_buffer_printf(text, " %d", wait->owner.tid);
		break;
	case SNAP_WAIT_CHILD:
	case SNAP_WAIT_VFORK:
		add_child(text, wait);
		break;
	case SNAP_WAIT_FILE:
		if (wait->path)
			snap_wait_add_path(text, wait->path);
		else
			add_numbered(text, wait);
		break;
	case SNAP_WAIT_FILE_LOCK:
		snap_buffer_add_text(text, "lock on ");
		add_file_lock(text, wait);
		break;
	case SNAP_WAIT_FROZEN:
		snap_buffer_add_text(text, wait->cgroup ? "control group " : "a control group");
		if (wait->cgroup)
			snap_wait_add_path(text, wait->cgroup);
		break;
	default:
		if (facts & SNAP_KIND_SOCKET)
			add_object_socket(text, wait);
		else if (facts & SNAP_KIND_NUMBER)
			add_numbered(text, wait);
		else if (facts & SNAP_KIND_ADDRESS)
			add_addressed(text, wait);
	}
}

struct snap_wait snap_wait_plain(const struct snap_wait *wait)
{
	struct snap_wait plain = *wait;

	if (!wait->symbol && !wait->module && snap_wait_kind_is(wait->kind, SNAP_KIND_ADDRESS))
		plain.address = 0;
	plain.mutex = 0;
	plain.mutex_free = false;
	if (snap_same_text(wait->variant, "python"))
		plain.value = -1;
	return plain;
}

char *snap_wait_object(const struct snap_wait *wait)
{
	struct snap_buffer text = { 0 };
	char *object;

	snap_wait_add_object(&text, wait);
	object = text.size || text.failed ? snap_buffer_take(&text, NULL) : strdup("");
	snap_buffer_deinit(&text);
	return object;
}
