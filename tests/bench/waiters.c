/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * waiters locks N | sockets N | wakers N: N threads, each of which waits for a mutex of its own that
 * the main thread has; or a thread in epoll_wait with N sockets, half of them the other ends of the
 * others; or N threads at conditions of their own, of which a fifth is woken 99 times a second.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of a cache line each, and more: no two are copied together. */
struct own {
	pthread_mutex_t mutex;
	char room[256 - sizeof(pthread_mutex_t)];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *wait_for_own(void *own)
{
	pthread_mutex_lock(&((struct own *)own)->mutex);
	return NULL;
}

static void make_locks(int count)
{
	struct own *all = calloc((size_t)count, sizeof(*all));
	pthread_attr_t attributes;
	pthread_t thread;

	if (!all)
		die("calloc");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (int i = 0; i < count; i++) {
		pthread_mutex_init(&all[i].mutex, NULL);
		pthread_mutex_lock(&all[i].mutex);
		if (pthread_create(&thread, &attributes, wait_for_own, &all[i]) != 0)
			die("pthread_create");
	}
	/* 2: somebody sleeps for it. */
	for (int i = 0; i < count; i++)
		while (__atomic_load_n((int *)&all[i].mutex, __ATOMIC_RELAXED) != 2)
			usleep(100);
}

struct sleeper {
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	unsigned long wanted, done;
};

static struct sleeper *sleepers;
static int sleeper_count;

static void *sleep_and_wake(void *argument)
{
	struct sleeper *own = argument;

	pthread_mutex_lock(&own->mutex);
	for (;;) {
		while (own->done == own->wanted)
			pthread_cond_wait(&own->condition, &own->mutex);
		own->done = own->wanted;
	}
	return NULL;
}

static void *wake_some(void *unused)
{
	const long period_ns = 1000000000 / 99;
	struct timespec at;

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &at);
	for (int first = 0;; first = (first + 1) % 5) {
		for (int i = first; i < sleeper_count; i += 5) {
			pthread_mutex_lock(&sleepers[i].mutex);
			sleepers[i].wanted++;
			pthread_cond_signal(&sleepers[i].condition);
			pthread_mutex_unlock(&sleepers[i].mutex);
		}
		at.tv_nsec += period_ns;
		at.tv_sec += at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	return NULL;
}

static void make_wakers(int count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	sleepers = calloc((size_t)count, sizeof(*sleepers));
	sleeper_count = count;
	if (!sleepers)
		die("calloc");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (int i = 0; i < count; i++) {
		pthread_mutex_init(&sleepers[i].mutex, NULL);
		pthread_cond_init(&sleepers[i].condition, NULL);
		if (pthread_create(&thread, &attributes, sleep_and_wake, &sleepers[i]) != 0)
			die("pthread_create");
	}
	if (pthread_create(&thread, &attributes, wake_some, NULL) != 0)
		die("pthread_create");
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		die("socket");
}

static void *wait_for_sockets(void *epoll)
{
	struct epoll_event event;

	epoll_wait((int)(long)epoll, &event, 1, -1);
	return NULL;
}

static void make_sockets(int count)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rlimit limit = { (rlim_t)count + 64, (rlim_t)count + 64 };
	int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
	socklen_t size = sizeof(address);
	pthread_t thread;

	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		die("setrlimit");
	if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 64) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) != 0)
		die("listen");
	for (int i = 0; i < count / 2; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
			die("connect");
		watch(epoll, fd);
		watch(epoll, accept(listener, NULL, NULL));
	}
	if (pthread_create(&thread, NULL, wait_for_sockets, (void *)(long)epoll) != 0)
		die("pthread_create");
}

int main(int argc, char **argv)
{
	char byte;

	if (argc != 3)
		return 64;
	if (strcmp(argv[1], "locks") == 0)
		make_locks(atoi(argv[2]));
	else if (strcmp(argv[1], "wakers") == 0)
		make_wakers(atoi(argv[2]));
	else
		make_sockets(atoi(argv[2]));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
