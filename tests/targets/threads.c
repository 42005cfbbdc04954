/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads made to order: threads KIND:COUNT:NAME[:DEPTH] ...
 *
 * KIND is how they wait (futex, sleep, epoll, pipe, poll, sem, spin); NAME gets a number behind it
 * when COUNT is above one; DEPTH frames of walk() lie below the wait. Main holds on standard input.
 */
#include "victim.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static atomic_int in_position;
static volatile int sink;

struct order {
	char kind[16], name[32];
	int depth;
};

NOINLINE static void wait_futex(void)
{
	pthread_mutex_lock(&lock);
	in_position++;
	for (;;)
		pthread_cond_wait(&never, &lock);
}

NOINLINE static void wait_sleep(void)
{
	in_position++;
	for (;;) {
		struct timespec hour = { 3600, 0 };

		nanosleep(&hour, NULL);
		sink++;
	}
}

NOINLINE static void wait_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	in_position++;
	for (;;) {
		epoll_wait(fd, &event, 1, -1);
		sink++;
	}
}

NOINLINE static void wait_pipe(void)
{
	char byte;
	int ends[2];

	if (pipe(ends))
		victim_cannot("pipe");
	in_position++;
	for (;;) {
		ssize_t got = read(ends[0], &byte, 1);

		sink += (int)got;
	}
}

NOINLINE static void wait_poll(void)
{
	in_position++;
	for (;;) {
		poll(NULL, 0, -1);
		sink++;
	}
}

NOINLINE static void wait_sem(void)
{
	in_position++;
	for (;;) {
		sem_wait(&empty);
		sink++;
	}
}

NOINLINE static void spin(void)
{
	volatile unsigned long rounds = 0;

	in_position++;
	for (;;)
		rounds = rounds + 1;
}

NOINLINE static int walk(const struct order *order, int depth)
{
	int got;

	if (depth > 0)
		got = walk(order, depth - 1);
	else if (!strcmp(order->kind, "futex"))
		wait_futex(), got = 1;
	else if (!strcmp(order->kind, "epoll"))
		wait_epoll(), got = 2;
	else if (!strcmp(order->kind, "pipe"))
		wait_pipe(), got = 3;
	else if (!strcmp(order->kind, "poll"))
		wait_poll(), got = 4;
	else if (!strcmp(order->kind, "sem"))
		wait_sem(), got = 5;
	else if (!strcmp(order->kind, "spin"))
		spin(), got = 6;
	else
		wait_sleep(), got = 7;
	return got + sink;
}

static void *worker_main(void *argument)
{
	struct order *order = argument;

	prctl(PR_SET_NAME, order->name, 0, 0, 0);
	sink = walk(order, order->depth);
	return NULL;
}

static int start(char *text)
{
	char *kind = strtok(text, ":"), *count = strtok(NULL, ":"), *name = strtok(NULL, ":"),
	     *depth = strtok(NULL, ":");
	int n = count ? atoi(count) : 1;

	for (int i = 0; i < n; i++) {
		struct order *order = calloc(1, sizeof(*order));

		snprintf(order->kind, sizeof(order->kind), "%s", kind);
		if (n > 1)
			snprintf(order->name, sizeof(order->name), "%.10s-%d", name, i);
		else
			snprintf(order->name, sizeof(order->name), "%.15s", name ? name : kind);
		order->depth = depth ? atoi(depth) : 0;
		victim_thread(worker_main, order, 128 << 10);
	}
	return n;
}

int main(int argc, char **argv)
{
	int wanted = 0;

	sem_init(&empty, 0, 0);
	for (int i = 1; i < argc; i++) {
		char *text = strdup(argv[i]);

		wanted += start(text);
		free(text);
	}
	while (in_position < wanted)
		sched_yield();
	victim_ready("threads=%d", wanted + 1);
	victim_hold();
}
