/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Heads of requests: see heads.h. */
#include "serve/heads.h"

#include "serve/http.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A moment is what a client needs between its connection and its request, on a busy host. */
static const int64_t patience_ns = 1000000000, moment_ns = 100000000;

/* Empty lines may come before it. What other readers take for its end comes no later. */
static bool is_whole(const char *text, const char *end)
{
	while (text < end && (*text == '\r' || *text == '\n'))
		text++;
	while (text < end && (text = memchr(text, '\n', (size_t)(end - text)))) {
		text++;
		text += text < end && *text == '\r';
		if (text < end && *text == '\n')
			return true;
	}
	return false;
}

/* 200: the head is there; 0: it may come; else the status of its refusal. */
static unsigned look(int fd, bool has_ended)
{
	char text[SNAP_SERVE_HEAD_BYTES];
	ssize_t size = recv(fd, text, sizeof(text), MSG_PEEK | MSG_DONTWAIT);

	if (size > 0 && memchr(text, '\0', (size_t)size))
		return 400;
	if (size > 0 && is_whole(text, text + size))
		return 200;
	return has_ended || size == 0 || size == sizeof(text) ? 400 : 0;
}

static int release(struct snap_serve_heads *heads, unsigned index)
{
	struct snap_serve_head *head = &heads->heads[index];
	int fd = head->fd;

	epoll_ctl(heads->news, EPOLL_CTL_DEL, fd, NULL);
	memmove(head, head + 1, (--heads->count - index) * sizeof(*head));
	return fd;
}

/* One that has said nothing goes without an answer. */
static void refuse(struct snap_serve_heads *heads, unsigned index, unsigned status)
{
	char text[SNAP_SERVE_HEAD_BYTES];
	int fd = release(heads, index);

	/* Bytes that are not read would make a reset of the answer. */
	if (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0) {
		if (status == 400)
			snap_serve_metrics_add_refusal(heads->metrics, status);
		else
			heads->metrics->cut++;
		snap_serve_http_give_up(fd, status);
	}
	close(fd);
}

bool snap_serve_heads_init(struct snap_serve_heads *heads, struct snap_serve_metrics *metrics)
{
	heads->metrics = metrics;
	heads->count = 0;
	heads->news = epoll_create1(EPOLL_CLOEXEC);
	return heads->news >= 0;
}

void snap_serve_heads_deinit(struct snap_serve_heads *heads)
{
	while (heads->count)
		close(release(heads, 0));
	if (heads->news >= 0)
		close(heads->news);
	heads->news = -1;
}

int64_t snap_serve_heads_room_at(const struct snap_serve_heads *heads)
{
	bool is_full = heads->count == SNAP_SERVE_MOST_HEADS;

	return is_full ? heads->heads[0].deadline_ns - patience_ns + moment_ns : 0;
}

void snap_serve_heads_add(struct snap_serve_heads *heads, int fd)
{
	/* By edges: what is there already and is no whole head must not wake the loop again. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };

	if (epoll_ctl(heads->news, EPOLL_CTL_ADD, fd, &event) < 0) {
		close(fd);
		return;
	}
	if (heads->count == SNAP_SERVE_MOST_HEADS)
		refuse(heads, 0, 408);
	heads->heads[heads->count++] =
		(struct snap_serve_head){ .fd = fd,
					  .deadline_ns = snap_serve_now_ns() + patience_ns };
}

int snap_serve_heads_take(struct snap_serve_heads *heads)
{
	struct epoll_event event;

	for (unsigned n = 0, i; n < SNAP_SERVE_MOST_HEADS; n++) {
		unsigned status;

		if (epoll_wait(heads->news, &event, 1, 0) <= 0)
			break;
		for (i = 0; heads->heads[i].fd != event.data.fd;)
			i++;
		status = look(event.data.fd, event.events & ~(unsigned)EPOLLIN);
		if (status == 200)
			return release(heads, i);
		if (status)
			refuse(heads, i, status);
	}
	while (heads->count && heads->heads[0].deadline_ns <= snap_serve_now_ns())
		refuse(heads, 0, 408);
	return -1;
}
