/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process with a known number of blocked threads at a known depth, and with heartbeat threads
 * that record how long they did not run.
 *
 *   target THREADS DEPTH DISTINCT HBFILE [STACKKB] [SPINNERS]
 *
 * THREADS workers recurse DEPTH frames through one of DISTINCT paths and then block (futex,
 * nanosleep, epoll in turn). Two heartbeat threads, one made first and one made last, publish the
 * gaps they see into HBFILE (hb.h).
 */
#include "hb.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static int depth, distinct;
static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static _Atomic int ready;
static volatile int sink;
static _Thread_local volatile int sink2;
static struct hb_file *hbf;

static void block_futex(void) __attribute__((noinline));
static void block_sleep(void) __attribute__((noinline));
static void block_epoll(void) __attribute__((noinline));
static void spin(void) __attribute__((noinline));

static void block_futex(void)
{
	pthread_mutex_lock(&never);
	ready++;
	for (;;)
		pthread_cond_wait(&cond, &never);
}
static void block_sleep(void)
{
	ready++;
	for (;;) {
		struct timespec ts = { 3600, 0 };
		nanosleep(&ts, NULL);
		sink++;
	}
}
static void block_epoll(void)
{
	int fd = epoll_create1(0);
	struct epoll_event ev;
	ready++;
	for (;;) {
		epoll_wait(fd, &ev, 1, -1);
		sink++;
	}
}
static void spin(void)
{
	ready++;
	for (;;) {
		for (int i = 0; i < 100000; i++)
			sink2++;
		hbf->work++;
	}
}

static int leaf(int kind)
{
	switch (kind) {
	case 0:
		block_futex();
		break;
	case 1:
		block_sleep();
		break;
	case 2:
		block_epoll();
		break;
	default:
		spin();
		break;
	}
	return sink;
}

/* four bodies with different frame sizes, so that the CFI differs */
#define BODY(NAME, BYTES, NEXT)                                             \
	static int NAME(int n, unsigned path, int kind)                     \
	{                                                                   \
		volatile char pad[BYTES];                                   \
		pad[n % (BYTES)] = (char)n;                                 \
		int r = n <= 0 ? leaf(kind) : NEXT(n - 1, path >> 1, kind); \
		return r + pad[0] + sink;                                   \
	}
static int walk(int n, unsigned path, int kind) __attribute__((noinline));
static int rec_b(int n, unsigned path, int kind) __attribute__((noinline));
static int rec_c(int n, unsigned path, int kind) __attribute__((noinline));
static int rec_d(int n, unsigned path, int kind) __attribute__((noinline));
BODY(rec_b, 24, walk)
BODY(rec_c, 72, rec_b)
BODY(rec_d, 40, walk)
static int walk(int n, unsigned path, int kind)
{
	int r;
	if (n <= 0)
		r = leaf(kind);
	else if (path & 1)
		r = rec_b(n - 1, path >> 1, kind);
	else if (path & 2)
		r = rec_c(n - 1, path >> 1, kind);
	else
		r = rec_d(n - 1, path >> 1, kind);
	return r + sink;
}

static int spinners;
static void *worker(void *arg)
{
	long i = (long)arg;
	unsigned path = (unsigned)(i % distinct) * 2654435761u;
	walk(depth - 3, path, i < spinners ? 3 : (int)(i % distinct % 3));
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr,
			"usage: target THREADS DEPTH DISTINCT HBFILE [STACKKB] [SPINNERS]\n");
		return 2;
	}
	int n = atoi(argv[1]);
	depth = atoi(argv[2]);
	distinct = atoi(argv[3]);
	int kb = argc > 5 ? atoi(argv[5]) : 256;
	spinners = argc > 6 ? atoi(argv[6]) : 0;
	struct hb_file *hb = hbf = hb_map(argv[4], 1);
	pthread_attr_t at;
	pthread_attr_init(&at);
	pthread_attr_setstacksize(&at, (size_t)kb << 10);
	hb_start(hb, 0, &at);
	for (long i = 0; i < n; i++) {
		pthread_t t;
		if (pthread_create(&t, &at, worker, (void *)i)) {
			perror("pthread_create");
			return 1;
		}
	}
	while (ready < n)
		usleep(1000);
	hb_start(hb, 1, &at);
	usleep(10000);
	hb->pid = getpid();
	hb->ready = 1;
	for (;;)
		pause();
}
