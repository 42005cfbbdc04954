/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets: addresses, queues, and the process at the other end: see kernel.h. Peers on other hosts
 * are addresses alone. Names of unix sockets are raw bytes; no name is ever resolved.
 */
#include "analyze/wait/kernel/kernel.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { STATE_ESTABLISHED = 1, STATE_LISTEN = 10 };

/* The numbers of include/net/tcp_states.h, as ss(8) and netstat(8) write them. */
static const char *state_word(uint8_t state)
{
	static const char *const words[] = {
		NULL,        "established", "syn_sent",     "syn_recv",   "fin_wait1",
		"fin_wait2", "time_wait",   "close",        "close_wait", "last_ack",
		"listen",    "closing",     "new_syn_recv",
	};

	return state < SNAP_ARRAY_SIZE(words) ? words[state] : NULL;
}

static bool is_tcp_wait(const struct snap_socket *socket)
{
	return socket->family == SNAP_SOCKET_TCP4 || socket->family == SNAP_SOCKET_TCP6;
}

static bool is_udp(const struct snap_socket *socket)
{
	return socket->family == SNAP_SOCKET_UDP4 || socket->family == SNAP_SOCKET_UDP6;
}

static enum snap_wait_kind kind_of_socket(const struct snap_socket *socket)
{
	if (!socket)
		return SNAP_WAIT_SOCKET;
	if (is_tcp_wait(socket))
		return SNAP_WAIT_TCP;
	if (is_udp(socket))
		return SNAP_WAIT_UDP;
	return socket->family == SNAP_SOCKET_UNIX ? SNAP_WAIT_UNIX : SNAP_WAIT_SOCKET;
}

/* "10.0.0.4:51234", "[::1]:80". NULL without memory. */
static const char *address_text(struct snap_wait_analysis *waits, bool is_6,
				const struct snap_socket_address *address)
{
	char text[INET6_ADDRSTRLEN];

	if (!inet_ntop(is_6 ? AF_INET6 : AF_INET, address->bytes, text, sizeof(text)))
		return NULL;
	return snap_arena_printf(snap_wait_arena(waits), is_6 ? "[%s]:%u" : "%s:%u", text,
				 (unsigned)address->port);
}

/* Programs that give the whole sockaddr_un have abstract names that end in scores of NULs. */
static const char *unix_text(struct snap_wait_analysis *waits, const char *name)
{
	const size_t whole = sizeof(((struct sockaddr_un *)NULL)->sun_path);
	char text[SNAP_MAX_SOCKET_NAME + 1];
	size_t length = name ? strnlen(name, sizeof(text)) : 0;

	if (length != whole || name[0] != '@')
		return snap_analysis_text(waits->analysis, name);
	while (length > 1 && name[length - 1] == '@')
		length--;
	memcpy(text, name, length);
	text[length] = '\0';
	return snap_analysis_text(waits->analysis, text);
}

const char *snap_wait_local_text(struct snap_wait_analysis *waits, const struct snap_socket *socket)
{
	if (is_tcp_wait(socket) || is_udp(socket))
		return address_text(waits,
				    socket->family == SNAP_SOCKET_TCP6 ||
					    socket->family == SNAP_SOCKET_UDP6,
				    &socket->local);
	return unix_text(waits, socket->name);
}

static void set_queues(struct snap_wait *wait, const struct snap_socket *socket)
{
	if (!socket->queues_known)
		return;
	if (socket->state == STATE_LISTEN) {
		wait->backlog = snap_wait_number(socket->receive_queue);
		wait->backlog_max = snap_wait_number(socket->send_queue);
		return;
	}
	wait->recv_queue = snap_wait_number(socket->receive_queue);
	wait->send_queue = snap_wait_number(socket->send_queue);
	if (is_tcp_wait(socket))
		wait->retransmits = socket->retransmits;
}

static void set_texts(struct snap_wait_analysis *waits, struct snap_wait *wait,
		      const struct snap_socket *socket, const struct snap_socket *peer)
{
	wait->socket_state = state_word(socket->state);
	wait->local = snap_wait_local_text(waits, socket);
	if ((is_tcp_wait(socket) || is_udp(socket)) && socket->remote.port)
		wait->remote = address_text(waits,
					    socket->family == SNAP_SOCKET_TCP6 ||
						    socket->family == SNAP_SOCKET_UDP6,
					    &socket->remote);
	else if (peer)
		wait->remote = snap_wait_local_text(waits, peer);
}

/* Whether only the other end can end the wait: every process may send to a datagram socket. */
static bool is_stream(const struct snap_socket *socket)
{
	if (socket->state != STATE_ESTABLISHED)
		return false;
	return is_tcp_wait(socket) ||
	       (socket->family == SNAP_SOCKET_UNIX &&
		(socket->type == SOCK_STREAM || socket->type == SOCK_SEQPACKET));
}

static struct stacksnap_error *set_peer(struct snap_wait_analysis *waits,
					struct snap_waiter *waiter, const struct snap_socket *peer,
					bool decides)
{
	const struct snap_wait_crowd *crowd;

	if (peer->queues_known && peer->state != STATE_LISTEN)
		waiter->wait->peer_recv_queue = snap_wait_number(peer->receive_queue);
	SNAP_TRY(snap_wait_crowd_of_peers(waits, SNAP_DESCRIPTOR_SOCKET, peer->inode,
					  SNAP_WAIT_ANY_MODE, &crowd));
	snap_wait_set_peers(waits, waiter, crowd, decides);
	return NULL;
}

struct stacksnap_error *snap_wait_find_socket_peers(struct snap_wait_analysis *waits,
						    struct snap_waiter *waiter,
						    const struct snap_descriptor *descriptor,
						    enum snap_wait_mode mode)
{
	const struct snap_socket *socket = snap_wait_descriptor_socket(waits, waiter, descriptor);
	const struct snap_socket *peer;
	struct stacksnap_error *err;

	if (!socket)
		return NULL;
	err = snap_wait_socket_peer(waits, socket, &peer);
	if (err || !peer)
		return err;
	return set_peer(waits, waiter, peer, is_stream(socket) && mode != SNAP_WAIT_ANY_MODE);
}

/* ---- connect ---- */

/*
 * The name in the sockaddr of connect(2) as sockets have it: a path, or '@' for each NUL of an
 * abstract one. False: it is no unix address, or cannot be read.
 */
static bool read_unix_name(const struct snap_waiter *waiter, char ret[SNAP_MAX_SOCKET_NAME + 1])
{
	struct sockaddr_un address;
	uint64_t length = waiter->call.arguments[2];
	size_t size;

	if (length <= offsetof(struct sockaddr_un, sun_path) || length > sizeof(address) ||
	    !snap_wait_read(waiter, waiter->call.arguments[1], &address, (size_t)length) ||
	    address.sun_family != AF_UNIX)
		return false;
	size = (size_t)length - offsetof(struct sockaddr_un, sun_path);
	memcpy(ret, address.sun_path, size);
	ret[size] = '\0';
	/* Of an abstract name all bytes count, those that are NUL, too. */
	for (size_t i = 0; address.sun_path[0] == '\0' && i < size; i++)
		if (ret[i] == '\0')
			ret[i] = '@';
	return true;
}

static struct stacksnap_error *connect_unix(struct snap_wait_analysis *waits,
					    struct snap_waiter *waiter,
					    const struct snap_socket *socket)
{
	char name[SNAP_MAX_SOCKET_NAME + 1];
	const struct snap_socket *listener;
	struct stacksnap_error *err;

	if (!read_unix_name(waiter, name))
		return NULL;
	waiter->wait->remote = unix_text(waits, name);
	err = snap_wait_unix_listener(waits, socket->namespace, name, &listener);
	if (err || !listener)
		return err;
	waiter->object =
		snap_wait_object_of(SNAP_WAIT_UNIX, listener->namespace, listener->inode, 0);
	if (listener->queues_known) {
		waiter->wait->backlog = snap_wait_number(listener->receive_queue);
		waiter->wait->backlog_max = snap_wait_number(listener->send_queue);
	}
	return set_peer(waits, waiter, listener, true);
}

/* The address in the sockaddr, where the socket itself is not known. */
static void read_remote(struct snap_wait_analysis *waits, struct snap_waiter *waiter)
{
	struct snap_socket_address address = { .port = 0 };
	uint64_t at = waiter->call.arguments[1];
	struct sockaddr_in narrow;
	struct sockaddr_in6 wide;

	if (snap_wait_read(waiter, at, &wide, sizeof(wide)) && wide.sin6_family == AF_INET6) {
		address.port = ntohs(wide.sin6_port);
		memcpy(address.bytes, &wide.sin6_addr, sizeof(address.bytes));
		waiter->wait->remote = address_text(waits, true, &address);
	} else if (snap_wait_read(waiter, at, &narrow, sizeof(narrow)) &&
		   narrow.sin_family == AF_INET) {
		address.port = ntohs(narrow.sin_port);
		memcpy(address.bytes, &narrow.sin_addr, sizeof(narrow.sin_addr));
		waiter->wait->remote = address_text(waits, false, &address);
	}
}

/* ---- all ---- */

struct stacksnap_error *snap_wait_explain_socket(struct snap_wait_analysis *waits,
						 struct snap_waiter *waiter)
{
	const struct snap_descriptor *descriptor =
		snap_wait_descriptor(waiter, snap_wait_call_fd(waiter));
	const struct snap_socket *socket = snap_wait_descriptor_socket(waits, waiter, descriptor);
	bool connects = waiter->row->call == SNAP_CALL_CONNECT;
	const struct snap_socket *peer = NULL;
	struct snap_wait *wait = snap_wait_new(waits, waiter, kind_of_socket(socket),
					       snap_wait_call_confidence(waiter));

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = waiter->row->variant;
	wait->mode = waiter->row->mode;
	wait->fd = snap_wait_call_fd(waiter);
	if (descriptor && descriptor->inode)
		waiter->object =
			snap_wait_object_of(wait->kind, snap_waiter_process(waiter)->net_namespace,
					    descriptor->inode, 0);
	if (!socket) {
		wait->path = snap_wait_path(waits, descriptor);
		if (connects)
			read_remote(waits, waiter);
		return NULL;
	}
	SNAP_TRY(snap_wait_socket_peer(waits, socket, &peer));
	set_texts(waits, wait, socket, peer);
	set_queues(wait, socket);
	if (connects && socket->family == SNAP_SOCKET_UNIX)
		return connect_unix(waits, waiter, socket);
	return snap_wait_find_socket_peers(waits, waiter, descriptor, wait->mode);
}
