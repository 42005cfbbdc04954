/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Descriptors that a worker has opened, on their way to its maker: over a socket, as they are no
 * memory. Neither side ever waits for the other. Knows nothing of what they are.
 */
#include "base/workers/internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum {
	MAKER,
	WORKER,
	ROOM = 1 << 20, /* bytes that may be on their way, if the system permits */
};

union control {
	char bytes[CMSG_SPACE(SNAP_WORKERS_GIVEN * sizeof(int))];
	struct cmsghdr header;
};

int snap_workers_open_channel(struct snap_workers *pool)
{
	const int room = ROOM;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pool->channel))
		return errno;
	(void)setsockopt(pool->channel[WORKER], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return 0;
}

bool snap_workers_give(const struct snap_workers *pool, uint64_t tag, const int *fds, size_t count)
{
	struct iovec data = { &tag, sizeof(tag) };
	union control control = { .bytes = "" };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
	ssize_t sent;

	if (!count || count > SNAP_WORKERS_GIVEN || pool->channel[WORKER] < 0)
		return false;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	do
		sent = sendmsg(pool->channel[WORKER], &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)sizeof(tag);
}

/* How many descriptors the message has brought. */
static size_t take_descriptors(struct msghdr *message, int fds[SNAP_WORKERS_GIVEN])
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(message);
	size_t size;

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return 0;
	size = header->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(header), size);
	return size / sizeof(int);
}

bool snap_workers_take(struct snap_workers *pool, uint64_t *tag_ret, int fds[SNAP_WORKERS_GIVEN],
		       size_t *count_ret)
{
	struct iovec data = { tag_ret, sizeof(*tag_ret) };
	union control control;
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t got;

	if (pool->channel[MAKER] < 0)
		return false;
	do
		got = recvmsg(pool->channel[MAKER], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return false;
	*count_ret = take_descriptors(&message, fds);
	return true;
}

void snap_workers_close_channel(struct snap_workers *pool)
{
	snap_close(&pool->channel[MAKER]);
	snap_close(&pool->channel[WORKER]);
}

int snap_workers_kept_channel(const struct snap_workers *pool)
{
	return pool->channel[WORKER];
}
