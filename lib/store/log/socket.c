/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sockets of a log, as they were last seen: see log.h. */
#include "base/buffer.h"
#include "base/text.h"
#include "store/log/index.h"

#include <string.h>

uint64_t snap_log_hash_socket(const struct snap_socket *socket)
{
	return snap_hash_add(socket->namespace, socket->inode);
}

static bool same_address(const struct snap_socket_address *a, const struct snap_socket_address *b)
{
	return a->port == b->port && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool is_same_socket(const struct snap_socket *a, const struct snap_socket *b)
{
	return a->family == b->family && a->state == b->state && a->type == b->type &&
	       same_address(&a->local, &b->local) && same_address(&a->remote, &b->remote) &&
	       a->receive_queue == b->receive_queue && a->send_queue == b->send_queue &&
	       a->queues_known == b->queues_known && a->retransmits == b->retransmits &&
	       a->peer == b->peer && snap_same_text(a->name, b->name);
}

struct snap_socket *snap_log_find_socket(struct snap_log *log, const struct snap_socket *socket)
{
	return snap_hash_find_in(
		&log->index->sockets, snap_log_hash_socket(socket), log->sockets, known,
		known->namespace == socket->namespace && known->inode == socket->inode);
}

struct stacksnap_error *snap_log_add_socket(struct snap_log *log, const struct snap_socket *from)
{
	struct snap_log_index *index = log->index;
	struct snap_socket *known = snap_log_find_socket(log, from), socket = *from;

	if (!known &&
	    (log->socket_count >= SNAP_LOG_MAX_SOCKETS || !snap_log_has_room_for_socket(log))) {
		log->cuts |= SNAP_LOG_CUT_OBJECTS;
		return NULL;
	}
	if (!snap_intern_text(&log->strings, &socket.name, SNAP_MAX_SOCKET_NAME))
		return snap_error_no_memory();
	if (known && is_same_socket(known, &socket))
		return NULL;
	if (!known) {
		if (!snap_reserve_array(log->sockets, log->socket_capacity,
					log->socket_count + 1) ||
		    !snap_reserve_array(index->socket_stamps, index->socket_stamp_capacity,
					log->socket_count + 1) ||
		    !snap_hash_table_add(&index->sockets, snap_log_hash_socket(&socket),
					 log->socket_count))
			return snap_error_no_memory();
		known = &log->sockets[log->socket_count++];
		snap_log_charge_socket(log);
	}
	*known = socket;
	index->socket_stamps[known - log->sockets] = ++index->socket_stamp;
	return NULL;
}
