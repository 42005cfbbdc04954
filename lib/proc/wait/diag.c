/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages of sock_diag: see diag.h. */
#include "proc/wait/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/netlink_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum {
	TIME_WAIT = 6, /* of net/tcp_states.h: belongs to no process any more */
	NEW_SYN = 12,  /* and this one to no process yet */
	STATES = 1 << 14,
};

static size_t put_request(uint8_t ret[SNAP_DIAG_REQUEST], const void *body, size_t size)
{
	const struct nlmsghdr header = {
		.nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
		.nlmsg_type = SOCK_DIAG_BY_FAMILY,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};

	memcpy(ret, &header, sizeof(header));
	memcpy(ret + NLMSG_HDRLEN, body, size);
	return header.nlmsg_len;
}

static bool is_inet(enum snap_socket_family family)
{
	return family == SNAP_SOCKET_TCP4 || family == SNAP_SOCKET_TCP6 ||
	       family == SNAP_SOCKET_UDP4 || family == SNAP_SOCKET_UDP6;
}

static bool is_six(enum snap_socket_family family)
{
	return family == SNAP_SOCKET_TCP6 || family == SNAP_SOCKET_UDP6;
}

size_t snap_diag_request(enum snap_socket_family family, uint8_t ret[SNAP_DIAG_REQUEST])
{
	const struct inet_diag_req_v2 inet = {
		.sdiag_family = is_six(family) ? AF_INET6 : AF_INET,
		.sdiag_protocol = family == SNAP_SOCKET_TCP4 || family == SNAP_SOCKET_TCP6
					  ? IPPROTO_TCP
					  : IPPROTO_UDP,
		.idiag_states = (STATES - 1) & ~(1u << TIME_WAIT) & ~(1u << NEW_SYN),
	};
	const struct unix_diag_req local = {
		.sdiag_family = AF_UNIX,
		.udiag_states = UINT32_MAX,
		.udiag_show =
			UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_ICONS | UDIAG_SHOW_RQLEN,
	};
	const struct netlink_diag_req netlink = { .sdiag_family = AF_NETLINK,
						  .sdiag_protocol = NDIAG_PROTO_ALL };

	if (is_inet(family))
		return put_request(ret, &inet, sizeof(inet));
	if (family == SNAP_SOCKET_UNIX)
		return put_request(ret, &local, sizeof(local));
	return family == SNAP_SOCKET_NETLINK ? put_request(ret, &netlink, sizeof(netlink)) : 0;
}

static void take_diag_address(const uint32_t address[4], uint16_t port, bool six,
			      struct snap_socket_address *ret)
{
	memcpy(ret->bytes, address, six ? 16 : 4);
	ret->port = ntohs(port);
}

static bool take_inet(const uint8_t *body, size_t size, struct snap_diag_answer *ret)
{
	struct inet_diag_msg message;
	bool six = is_six(ret->socket.family);

	if (size < sizeof(message))
		return false;
	memcpy(&message, body, sizeof(message));
	if (message.idiag_family != (six ? AF_INET6 : AF_INET))
		return false;
	ret->socket.inode = message.idiag_inode;
	ret->socket.state = message.idiag_state;
	take_diag_address(message.id.idiag_src, message.id.idiag_sport, six, &ret->socket.local);
	take_diag_address(message.id.idiag_dst, message.id.idiag_dport, six, &ret->socket.remote);
	ret->socket.receive_queue = message.idiag_rqueue;
	ret->socket.send_queue = message.idiag_wqueue;
	ret->socket.queues_known = true;
	ret->socket.retransmits = message.idiag_retrans;
	return true;
}

static void take_unix_attribute(uint16_t type, const uint8_t *data, size_t size,
				struct snap_diag_answer *ret)
{
	struct unix_diag_rqlen queues;
	uint32_t peer;

	if (type == UNIX_DIAG_NAME) {
		ret->name = (const char *)data;
		ret->name_length = size;
	} else if (type == UNIX_DIAG_PEER && size >= sizeof(peer)) {
		memcpy(&peer, data, sizeof(peer));
		ret->socket.peer = peer;
	} else if (type == UNIX_DIAG_ICONS) {
		ret->pending = data;
		ret->pending_count = size / sizeof(uint32_t);
	} else if (type == UNIX_DIAG_RQLEN && size >= sizeof(queues)) {
		memcpy(&queues, data, sizeof(queues));
		ret->socket.receive_queue = queues.udiag_rqueue;
		ret->socket.send_queue = queues.udiag_wqueue;
		ret->socket.queues_known = true;
	}
}

static bool take_unix(const uint8_t *body, size_t size, struct snap_diag_answer *ret)
{
	struct unix_diag_msg message;
	struct rtattr attribute;
	size_t at = NLMSG_ALIGN(sizeof(message));

	if (size < sizeof(message))
		return false;
	memcpy(&message, body, sizeof(message));
	if (message.udiag_family != AF_UNIX)
		return false;
	ret->socket.inode = message.udiag_ino;
	ret->socket.state = message.udiag_state;
	ret->socket.type = message.udiag_type;
	while (at + sizeof(attribute) <= size) {
		memcpy(&attribute, body + at, sizeof(attribute));
		if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > size - at)
			break;
		take_unix_attribute(attribute.rta_type, body + at + RTA_LENGTH(0),
				    attribute.rta_len - RTA_LENGTH(0), ret);
		at += RTA_ALIGN(attribute.rta_len);
	}
	return true;
}

static bool take_netlink(const uint8_t *body, size_t size, struct snap_diag_answer *ret)
{
	struct netlink_diag_msg message;

	if (size < sizeof(message))
		return false;
	memcpy(&message, body, sizeof(message));
	ret->socket.inode = message.ndiag_ino;
	ret->socket.state = message.ndiag_state;
	return message.ndiag_family == AF_NETLINK;
}

static bool take_socket(const uint8_t *body, size_t size, struct snap_diag_answer *ret)
{
	if (is_inet(ret->socket.family))
		return take_inet(body, size, ret);
	if (ret->socket.family == SNAP_SOCKET_UNIX)
		return take_unix(body, size, ret);
	return ret->socket.family == SNAP_SOCKET_NETLINK && take_netlink(body, size, ret);
}

/* What a message of an error says, 0 if it is none or cut. */
static int error_of(const uint8_t *body, size_t size)
{
	int32_t error;

	if (size < sizeof(error))
		return EBADMSG;
	memcpy(&error, body, sizeof(error));
	return error < 0 ? -error : EBADMSG;
}

enum snap_diag_result snap_diag_next(const uint8_t *bytes, size_t size, size_t *at,
				     enum snap_socket_family family, struct snap_diag_answer *ret,
				     int *error_ret)
{
	while (*at <= size && size - *at >= NLMSG_HDRLEN) {
		const uint8_t *body = bytes + *at + NLMSG_HDRLEN;
		struct nlmsghdr header;
		size_t length;

		memcpy(&header, bytes + *at, sizeof(header));
		if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > size - *at) {
			*error_ret = EBADMSG;
			return SNAP_DIAG_ERROR;
		}
		length = header.nlmsg_len - NLMSG_HDRLEN;
		*at += NLMSG_ALIGN(header.nlmsg_len);
		if (header.nlmsg_type == NLMSG_DONE)
			return SNAP_DIAG_DONE;
		if (header.nlmsg_type == NLMSG_ERROR) {
			*error_ret = error_of(body, length);
			return SNAP_DIAG_ERROR;
		}
		*ret = (struct snap_diag_answer){ .socket = { .family = family } };
		if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY && take_socket(body, length, ret))
			return SNAP_DIAG_SOCKET;
	}
	return SNAP_DIAG_MORE;
}
