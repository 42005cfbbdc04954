/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See object.h. */
#include "render/wait/object.h"

#include "base/text.h"
#include "model/wait/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a wait as JSON, without its texts, and what a byte of one may take. */
enum { WAIT_BYTES = 800, ESCAPED = 5 };

bool snap_waited_is_connection(const struct snap_wait *wait)
{
	return snap_wait_kind_is(wait->kind, SNAP_KIND_SOCKET) && wait->kind != SNAP_WAIT_SOCKET &&
	       wait->remote && !snap_same_text(wait->variant, "accept");
}

/* "recv" and "send" need no word: the object says it. */
static const char *word_before(const struct snap_wait *wait)
{
	if (snap_same_text(wait->variant, "accept"))
		return "accept on ";
	return snap_same_text(wait->variant, "connect") ? "connect to " : "";
}

/* Whether something is known of the descriptors that a poll is about. */
static bool knows_watched(const struct snap_wait *wait)
{
	bool some = wait->fds_count || wait->fd_count > 0 || wait->listening || wait->connected;

	for (size_t i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		some = some || wait->kinds_watched[i];
	return some;
}

/* What it is for where that has no name: "epoll: 2 descriptors", "sleep"; malloc'ed. */
static char *nameless_text(const struct snap_wait *wait)
{
	bool polls = snap_wait_kind_is(wait->kind, SNAP_KIND_POLL);
	char *line;

	if (wait->kind == SNAP_WAIT_SLEEP || (polls && !knows_watched(wait)))
		return strdup(snap_wait_kind_word(wait->kind));
	line = snap_wait_line(wait, false);
	if (!line || *line)
		return line;
	free(line);
	return strdup(snap_wait_kind_word(wait->kind));
}

struct snap_wait snap_shown_wait(const struct snap_options *options, const struct snap_wait *wait)
{
	return options->verbose ? *wait : snap_wait_plain(wait);
}

char *snap_waited_text(const struct snap_wait *wait)
{
	_cleanup_free_ char *object = snap_wait_object(wait);
	char *text;

	if (!object)
		return NULL;
	if (!*object)
		return nameless_text(wait);
	return asprintf(&text, "%s%s", word_before(wait), object) < 0 ? NULL : text;
}

char *snap_waited_connection_text(const struct snap_wait *wait, bool by_local)
{
	const char *end = by_local ? wait->local : wait->remote;
	char *text;

	return asprintf(&text, "%s%s %s %.*s", word_before(wait), snap_wait_kind_word(wait->kind),
			by_local ? "at" : "->", SNAP_MAX_SOCKET_NAME, end) < 0
		       ? NULL
		       : text;
}

bool snap_waited_is_owed(const struct snap_recorded_wait *recorded)
{
	const struct snap_wait *wait = recorded->wait;

	/* A thread that joins others holds up no work, whichever thread it waits for. */
	if (wait->kind == SNAP_WAIT_THREAD)
		return false;
	if (snap_any(recorded->owner_count, i, recorded->owners[i].tid))
		return true;
	if (snap_wait_kind_is(wait->kind, SNAP_KIND_SOCKET))
		return !snap_same_text(wait->variant, "accept");
	return !snap_wait_kind_is(wait->kind, SNAP_KIND_IDLE);
}

static size_t object_text_bytes(const char *text)
{
	return text ? ESCAPED * strlen(text) : 0;
}

/* Without the process at the other end. */
static size_t own_bytes(const struct snap_wait *wait)
{
	const char *const texts[] = { wait->symbol,      wait->module, wait->place,
				      wait->path,        wait->wchan,  wait->cgroup,
				      wait->local,       wait->remote, wait->listen_address,
				      wait->mutex_symbol };
	size_t bytes = WAIT_BYTES;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(texts); i++)
		bytes += object_text_bytes(texts[i]);
	return bytes;
}

size_t snap_waited_bytes(const struct snap_wait *wait)
{
	size_t bytes = own_bytes(wait) + object_text_bytes(wait->owner.name) +
		       object_text_bytes(wait->owner.function);

	for (size_t i = 0; i < wait->peer_count; i++) {
		const struct snap_wait_party *peer = &wait->peers[i];

		bytes += WAIT_BYTES / 4 + object_text_bytes(peer->name) +
			 object_text_bytes(peer->function);
		bytes += peer->wait ? own_bytes(peer->wait) : 0;
	}
	return bytes;
}
