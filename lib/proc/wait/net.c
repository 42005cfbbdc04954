/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of tables of sockets: see net.h; written by net/ipv4/tcp_ipv4.c, net/unix/af_unix.c … */
#include "proc/wait/net.h"

#include "proc/text_cursor.h"

enum {
	STATE_ESTABLISHED = 1, /* of net/tcp_states.h */
	STATE_CLOSE = 7,
	STATE_LISTEN = 10,
	ACCEPTS = 1 << 16, /* __SO_ACCEPTCON of linux/net.h */
};

static bool take_hex(struct snap_text_cursor *cursor, uint64_t limit, uint64_t *ret)
{
	return snap_take_number(cursor, 16, ret) && *ret <= limit;
}

/* "0100007F:BF45": words of 32 bits as they lie in memory, and the port. */
static bool take_net_address(struct snap_text_cursor *cursor, size_t words,
			     struct snap_socket_address *ret)
{
	enum { DIGITS = 8 };
	uint64_t value;

	for (size_t i = 0; i < words; i++) {
		struct snap_text_cursor word = { cursor->at, cursor->at + DIGITS };
		uint32_t bytes;

		if (cursor->end - cursor->at < DIGITS || !take_hex(&word, UINT32_MAX, &value) ||
		    word.at != word.end)
			return false;
		bytes = (uint32_t)value;
		memcpy(ret->bytes + i * sizeof(bytes), &bytes, sizeof(bytes));
		cursor->at += DIGITS;
	}
	if (!snap_take_char(cursor, ':') || !take_hex(cursor, UINT16_MAX, &value))
		return false;
	ret->port = (uint16_t)value;
	snap_skip_blanks(cursor);
	return true;
}

/* Two numbers with a colon between them, and the blanks behind. */
static bool take_pair(struct snap_text_cursor *cursor, uint64_t *first, uint64_t *second)
{
	bool good = snap_take_number(cursor, 16, first) && snap_take_char(cursor, ':') &&
		    snap_take_number(cursor, 16, second);

	snap_skip_blanks(cursor);
	return good;
}

static bool take_plain(struct snap_text_cursor *cursor, int base, uint64_t *ret)
{
	bool good = snap_take_number(cursor, base, ret);

	snap_skip_blanks(cursor);
	return good;
}

/* "   1: 0100007F:BF45 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 …" */
bool snap_parse_inet_socket(const char *line, size_t length, enum snap_socket_family family,
			    struct snap_socket *ret)
{
	struct snap_text_cursor cursor = { line, line + length };
	struct snap_socket socket = { .family = family };
	bool is_six = family == SNAP_SOCKET_TCP6 || family == SNAP_SOCKET_UDP6;
	size_t words = is_six ? 4 : 1;
	uint64_t state, timer, when, retransmits, uid, timeout;

	snap_skip_blanks(&cursor);
	if (!snap_take_number(&cursor, 10, &state) || !snap_take_char(&cursor, ':'))
		return false;
	snap_skip_blanks(&cursor);
	if (!take_net_address(&cursor, words, &socket.local) ||
	    !take_net_address(&cursor, words, &socket.remote) || !take_plain(&cursor, 16, &state) ||
	    state > UINT8_MAX || !take_pair(&cursor, &socket.send_queue, &socket.receive_queue) ||
	    !take_pair(&cursor, &timer, &when) || !take_plain(&cursor, 16, &retransmits) ||
	    retransmits > UINT32_MAX || !take_plain(&cursor, 10, &uid) ||
	    !take_plain(&cursor, 10, &timeout) || !snap_take_number(&cursor, 10, &socket.inode))
		return false;
	socket.state = (uint8_t)state;
	socket.retransmits = (uint32_t)retransmits;
	socket.queues_known = state != STATE_LISTEN;
	*ret = socket;
	return true;
}

/* "0000000040810d51: 00000003 00000000 00000000 0001 03 4711 /run/x": count, protocol, flags … */
bool snap_parse_unix_socket(const char *line, size_t length, struct snap_socket *ret)
{
	enum { CONNECTED = 3 }; /* SS_CONNECTED of linux/net.h */
	struct snap_text_cursor cursor = { line, line + length };
	struct snap_socket socket = { .family = SNAP_SOCKET_UNIX };
	uint64_t number, flags = 0, type = 0, state = 0;

	if (!snap_take_number(&cursor, 16, &number) || !snap_take_char(&cursor, ':'))
		return false;
	snap_skip_blanks(&cursor);
	if (!take_plain(&cursor, 16, &number) || !take_plain(&cursor, 16, &number) ||
	    !take_plain(&cursor, 16, &flags) || !take_plain(&cursor, 16, &type) ||
	    type > UINT8_MAX || !take_plain(&cursor, 16, &state) ||
	    !snap_take_number(&cursor, 10, &socket.inode))
		return false;
	socket.type = (uint8_t)type;
	socket.state = flags & ACCEPTS      ? STATE_LISTEN
		       : state == CONNECTED ? STATE_ESTABLISHED
					    : STATE_CLOSE;
	*ret = socket;
	return true;
}
