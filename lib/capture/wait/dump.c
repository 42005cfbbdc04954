/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A dump of sockets: see dump.h. A worker that goes to another network namespace stays there; each
 * dump looks where it is. Nothing here outlives the worker.
 */
#include "capture/wait/dump.h"

#include "proc/wait/diag.h"
#include "proc/wait/fdinfo.h"
#include "proc/wait/net.h"

#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	ANSWER = 32768, /* bytes of one: the kernel fills that many (netlink(7)) */
	TABLE_TEXT = 16384,
	MOST_PENDING = 1 << 16,
};

static struct snap_socket *add_diag_socket(const struct snap_dumps *dumps, struct snap_dump *dump)
{
	struct snap_dump_block *block = dump->blocks;

	dump->is_cut |= dump->count >= SNAP_MAX_SOCKETS;
	if (dump->is_cut)
		return NULL;
	if (!block || block->count == SNAP_DUMP_BLOCK) {
		block = snap_region_alloc(&dumps->memory->region, sizeof(*block));
		if (!block) {
			dump->is_cut = true;
			return NULL;
		}
		block->next = dump->blocks;
		dump->blocks = block;
	}
	dump->count++;
	return &block->sockets[block->count++];
}

/* What an abstract name has for its NULs is what the kernel's own table has: "@". */
static const char *keep_name(const struct snap_dumps *dumps, const struct snap_diag_answer *answer)
{
	size_t length = answer->name_length;
	char *kept;

	if (!length || length > SNAP_MAX_SOCKET_NAME)
		return NULL;
	if (answer->name[0])
		length = strnlen(answer->name, length);
	kept = snap_region_text(&dumps->memory->region, answer->name, length);
	for (size_t i = 0; kept && i < length; i++)
		if (!kept[i])
			kept[i] = '@';
	return kept;
}

static void add_pending(const struct snap_dumps *dumps, struct snap_dump *dump,
			const struct snap_diag_answer *answer)
{
	for (size_t i = 0; i < answer->pending_count && i < MOST_PENDING; i++) {
		struct snap_dump_pending *pending =
			snap_region_alloc(&dumps->memory->region, sizeof(*pending));
		uint32_t inode;

		if (!pending) {
			dump->is_cut = true;
			return;
		}
		memcpy(&inode, answer->pending + i * sizeof(inode), sizeof(inode));
		*pending = (struct snap_dump_pending){ .next = dump->pending,
						       .listener = answer->socket.inode,
						       .inode = inode };
		dump->pending = pending;
	}
}

/* All sockets of one message from the kernel; true: there are more messages. */
static bool take_message(const struct snap_dumps *dumps, struct snap_dump *dump,
			 const uint8_t *bytes, size_t size)
{
	size_t at = 0;

	for (;;) {
		struct snap_diag_answer answer;
		struct snap_socket *kept;
		int error = 0;
		enum snap_diag_result result =
			snap_diag_next(bytes, size, &at, dump->family, &answer, &error);

		if (result == SNAP_DIAG_MORE)
			return true;
		dump->status = -error;
		if (result != SNAP_DIAG_SOCKET)
			return false;
		kept = add_diag_socket(dumps, dump);
		if (!kept)
			return false;
		*kept = answer.socket;
		kept->namespace = dump->namespace;
		kept->name = keep_name(dumps, &answer);
		add_pending(dumps, dump, &answer);
	}
}

/* From the kernel alone: a process could send to the socket as well (netlink(7)). */
static ssize_t receive_diag_answer(int fd, uint8_t *answer, size_t size)
{
	struct sockaddr_nl from = { .nl_pid = 0 };
	struct iovec part = { answer, size };
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1
	};
	ssize_t got;

	do {
		from.nl_pid = 0;
		message.msg_namelen = sizeof(from);
		got = recvmsg(fd, &message, 0);
	} while ((got < 0 && errno == EINTR) || (got >= 0 && from.nl_pid != 0));
	if (got >= 0 && message.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	return got < 0 ? -errno : got;
}

static void ask_kernel(const struct snap_dumps *dumps, struct snap_dump *dump)
{
	_cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	uint8_t request[SNAP_DIAG_REQUEST];
	_Alignas(struct nlmsghdr) uint8_t answer[ANSWER];
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	size_t size = snap_diag_request(dump->family, request);
	ssize_t got;

	if (fd < 0 || !size ||
	    sendto(fd, request, size, 0, (void *)&kernel, sizeof(kernel)) != (ssize_t)size) {
		dump->status = fd < 0 || size ? -errno : -EOPNOTSUPP;
		return;
	}
	do {
		got = receive_diag_answer(fd, answer, sizeof(answer));
	} while (got > 0 && take_message(dumps, dump, answer, (size_t)got));
	if (got <= 0)
		dump->status = got ? (int)got : -EBADMSG;
}

static uint64_t own_namespace(int root_fd)
{
	char text[SNAP_WAIT_NAME];
	ssize_t length = snap_procfs_link(root_fd, "thread-self/ns/net", text, sizeof(text));
	uint64_t inode;

	return length > 0 && snap_parse_namespace(text, (size_t)length, &inode) ? inode : 0;
}

static bool enter_diag_namespace(const struct snap_dumps *dumps, const struct snap_dump *dump)
{
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;

	if (own_namespace(dumps->memory->root_fd) == dump->namespace)
		return true;
	snprintf(name, sizeof(name), "%d/ns/net", (int)dump->pid);
	fd = snap_procfs_open_file(dumps->memory->root_fd, name);
	/* The process may have gone on to another one. */
	return fd >= 0 && setns(fd, CLONE_NEWNET) == 0 &&
	       own_namespace(dumps->memory->root_fd) == dump->namespace;
}

static const char *table_of(enum snap_socket_family family)
{
	static const char *const tables[SNAP_SOCKET_FAMILIES] = {
		[SNAP_SOCKET_TCP4] = "tcp",  [SNAP_SOCKET_TCP6] = "tcp6",
		[SNAP_SOCKET_UDP4] = "udp",  [SNAP_SOCKET_UDP6] = "udp6",
		[SNAP_SOCKET_UNIX] = "unix",
	};

	return tables[family];
}

static void read_diag_table(const struct snap_dumps *dumps, struct snap_dump *dump)
{
	const char *table = table_of(dump->family);
	char name[SNAP_WAIT_NAME], text[TABLE_TEXT], *line;
	_cleanup_fd_ int fd = -1;
	struct snap_socket socket, *kept;
	struct snap_lines lines;
	size_t length;
	int more;

	dump->is_text = true;
	dump->status = -EOPNOTSUPP;
	if (!table)
		return;
	snprintf(name, sizeof(name), "%d/net/%s", (int)dump->pid, table);
	fd = snap_procfs_open_file(dumps->memory->root_fd, name);
	dump->status = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	while ((more = snap_lines_next(&lines, &line, &length)) > 0) {
		if (dump->family == SNAP_SOCKET_UNIX
			    ? !snap_parse_unix_socket(line, length, &socket)
			    : !snap_parse_inet_socket(line, length, dump->family, &socket))
			continue;
		kept = add_diag_socket(dumps, dump);
		if (!kept)
			return;
		*kept = socket;
		kept->namespace = dump->namespace;
	}
	dump->status = more;
}

void snap_dump_run(void *context, uint32_t item)
{
	const struct snap_dumps *dumps = context;
	struct snap_dump *dump = &dumps->list[item];

	dump->is_elsewhere = !enter_diag_namespace(dumps, dump);
	if (dump->is_elsewhere)
		dump->status = -EPERM;
	else
		ask_kernel(dumps, dump);
	if (dump->status && !dump->count)
		read_diag_table(dumps, dump);
}
