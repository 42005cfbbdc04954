/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A feed. One thread sends events to all subscribers, in turn, and has a lock meanwhile; one of the
 * subscribers, another process, has stopped reading. Each publisher waits, and nothing is logged.
 */
#include "incident.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

enum { SUBSCRIBERS = 3, PUBLISHERS = 4 };

static pthread_mutex_t subscribers_lock = PTHREAD_MUTEX_INITIALIZER;
static int subscribers[SUBSCRIBERS];

static void send_to_all(const char *event, size_t size)
{
	pthread_mutex_lock(&subscribers_lock);
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (send(subscribers[i], event, size, MSG_NOSIGNAL) < 0)
			perror("send");
	pthread_mutex_unlock(&subscribers_lock);
}

static void *publish(void *name)
{
	static const char event[1 << 14];

	call_oneself(name);
	for (;;)
		send_to_all(event, sizeof(event));
}

/* The third one reads what is there when it starts, and then hangs. */
static void subscribe(int fd, bool reads)
{
	char buffer[1 << 14];

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	call_oneself(reads ? "subscriber" : "stuck-reader");
	while (reads && read(fd, buffer, sizeof(buffer)) > 0)
		;
	for (;;)
		pause();
}

static int connect_child(int listener, struct sockaddr_in *address, bool reads)
{
	int fd;

	if (fork() == 0) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		close(listener);
		for (int i = 0; i < SUBSCRIBERS; i++)
			if (subscribers[i])
				close(subscribers[i]);
		if (connect(fd, (struct sockaddr *)address, sizeof(*address)) == 0)
			subscribe(fd, reads);
		_exit(1);
	}
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return fd;
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
		perror("listen");
		return 1;
	}
	for (int i = 0; i < SUBSCRIBERS; i++)
		subscribers[i] = connect_child(listener, &address, i != 1);
	for (int i = 0; i < PUBLISHERS; i++)
		start(publish, "publisher");
	until_asleep(1, SYS_sendto, subscribers[1]);
	until_asleep(PUBLISHERS - 1, SYS_futex, -1);
	return live();
}
