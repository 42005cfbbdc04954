/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * orderd: a make-believe order service to take snapshots of.
 *
 * Workers wait for jobs; one of them asks the helper process for a payment that does not come, with
 * the ledger locked, and two more wait for that lock; a flusher is in fsync, a pricer computes, the
 * main thread sits in epoll_wait. Prints "ready PID" when all are in place, and ends when its stdin
 * is closed.
 *
 *     usage: orderd WORKERS JOURNAL
 */
#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct service {
	struct queue queue;
	pthread_mutex_t ledger; /* guards the helper's socket */
	int helper;             /* socket to order-helper */
	int journal;
	atomic_uint in_place; /* threads at their work */
	atomic_uint charging; /* workers at or before the ledger */
	_Atomic double price;
};

static void fail(const char *what)
{
	fprintf(stderr, "orderd: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Asks the helper, which takes its time: for ever. */
static bool await_payment(struct service *service, struct job job)
{
	unsigned long answer = 0;

	if (send(service->helper, &job.order, sizeof(job.order), MSG_NOSIGNAL) < 0)
		return false;
	return recv(service->helper, &answer, sizeof(answer), 0) == sizeof(answer) &&
	       answer == job.order;
}

static bool charge_order(struct service *service, struct job job)
{
	bool paid;

	atomic_fetch_add(&service->charging, 1);
	pthread_mutex_lock(&service->ledger);
	paid = await_payment(service, job);
	pthread_mutex_unlock(&service->ledger);
	return paid;
}

static void *worker_main(void *context)
{
	struct service *service = context;

	atomic_fetch_add(&service->in_place, 1);
	while (charge_order(service, queue_pop(&service->queue)))
		;
	return NULL;
}

static void append_record(int journal, uint64_t sequence)
{
	char record[64];
	int length = snprintf(record, sizeof(record), "order %llu\n", (unsigned long long)sequence);

	if (pwrite(journal, record, (size_t)length, (off_t)(sequence % 256 * 64)) < 0)
		fail("write the journal");
}

static void *flusher_main(void *context)
{
	struct service *service = context;

	atomic_fetch_add(&service->in_place, 1);
	for (uint64_t sequence = 0;; sequence++) {
		append_record(service->journal, sequence);
		if (fsync(service->journal) < 0)
			fail("fsync the journal");
	}
	return NULL;
}

static double discount_curve(double value, int terms)
{
	double sum = 0;

	for (int i = 1; i <= terms; i++)
		sum += sin(value * i) / i;
	return sum;
}

static void *pricer_main(void *context)
{
	struct service *service = context;

	atomic_fetch_add(&service->in_place, 1);
	for (double value = 0;; value += 0.01)
		atomic_store(&service->price, discount_curve(value, 1000));
	return NULL;
}

static void start(void *(*function)(void *context), struct service *service, const char *name)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	if (pthread_create(&thread, &attributes, function, service) != 0)
		fail("start a thread");
	pthread_setname_np(thread, name);
	pthread_detach(thread);
	pthread_attr_destroy(&attributes);
}

/* Starts the order-helper that lies beside this program; its end of the socket is its stdin. */
static int start_helper(const char *program)
{
	const char *slash = strrchr(program, '/');
	char path[4096];
	int ends[2];

	snprintf(path, sizeof(path), "%.*sorder-helper", (int)(slash ? slash + 1 - program : 0),
		 program);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		fail("make a socket");
	switch (fork()) {
	case -1:
		fail("fork");
		break;
	case 0:
		dup2(ends[1], STDIN_FILENO);
		execl(path, "order-helper", "--gateway", "bank.example", NULL);
		fail(path);
		break;
	default:
		close(ends[1]);
	}
	return ends[0];
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("watch a descriptor");
}

/* Until stdin is closed; a stop of the process ends epoll_wait early, which is no reason to. */
static void serve(struct service *service, int epoll)
{
	struct epoll_event event;
	char byte;

	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) < 0) {
			if (errno != EINTR)
				fail("wait for events");
			continue;
		}
		if (read(STDIN_FILENO, &byte, 1) <= 0)
			return;
		queue_push(&service->queue, (struct job){ .order = (unsigned char)byte });
	}
}

static void await_count(atomic_uint *count, unsigned wanted)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (atomic_load(count) < wanted)
		nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	static struct service service = {
		.queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER },
		.ledger = PTHREAD_MUTEX_INITIALIZER,
	};
	enum { CHARGES = 3 };
	unsigned workers;
	int epoll;

	if (argc != 3 || atoi(argv[1]) < CHARGES || atoi(argv[1]) > 1000) {
		fprintf(stderr, "usage: orderd WORKERS JOURNAL\n");
		return 64;
	}
	workers = (unsigned)atoi(argv[1]);
	/* Under Yama only ancestors may trace; this one is made for being looked at. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	service.journal = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (service.journal < 0 || unlink(argv[2]) < 0)
		fail(argv[2]);
	service.helper = start_helper(argv[0]);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		fail("make an epoll set");
	watch(epoll, STDIN_FILENO);
	for (unsigned i = 0; i < workers; i++) {
		char name[16];

		snprintf(name, sizeof(name), "worker-%u", i % 10000);
		start(worker_main, &service, name);
	}
	start(flusher_main, &service, "flusher");
	start(pricer_main, &service, "pricer");
	await_count(&service.in_place, workers + 2);
	for (unsigned i = 0; i < CHARGES; i++)
		queue_push(&service.queue, (struct job){ .order = 1000 + i });
	await_count(&service.charging, CHARGES);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	serve(&service, epoll);
	return 0;
}
