/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Heartbeat: threads that record the longest times they did not run, in a shared file. */
#pragma once
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define HB_RING 4096
struct hb_gap {
	uint64_t start, len;
};
struct hb_thread {
	_Atomic uint64_t last; /* last beat */
	_Atomic uint64_t beats;
	_Atomic uint64_t ngaps; /* gaps longer than HB_MIN_NS ever written */
	struct hb_gap ring[HB_RING];
};
struct hb_file {
	_Atomic int ready;
	int pid;
	struct hb_thread t[2];
	_Atomic uint64_t work; /* rounds of a spinning worker */
};
#define HB_MIN_NS 400000ull

static inline uint64_t hb_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}
static inline struct hb_file *hb_map(const char *path, int create)
{
	int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0666);
	if (fd < 0 || (create && ftruncate(fd, sizeof(struct hb_file)))) {
		perror(path);
		exit(2);
	}
	void *p = mmap(NULL, sizeof(struct hb_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	close(fd);
	return p;
}
struct hb_arg {
	struct hb_thread *t;
};
static void *hb_thread_main(void *arg)
{
	struct hb_thread *t = arg;
	prctl(PR_SET_NAME, "heartbeat");
	prctl(PR_SET_TIMERSLACK, 1);
	/* real-time, where allowed, so that a busy machine is not taken for a pause */
	struct sched_param sp = { .sched_priority = 1 };
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &sp);
	uint64_t prev = hb_now();
	for (;;) {
		struct timespec ts = { 0, 200000 };
		nanosleep(&ts, NULL);
		uint64_t now = hb_now();
		if (now - prev > HB_MIN_NS) {
			uint64_t k = t->ngaps;
			t->ring[k % HB_RING].start = prev;
			t->ring[k % HB_RING].len = now - prev;
			t->ngaps = k + 1;
		}
		prev = now;
		t->last = now;
		t->beats++;
	}
	return NULL;
}
static inline void hb_start(struct hb_file *hb, int which, pthread_attr_t *at)
{
	pthread_t th;
	prctl(PR_SET_PTRACER,
	      PR_SET_PTRACER_ANY); /* Yama 1: the tools are no ancestors of the target */
	if (pthread_create(&th, at, hb_thread_main, &hb->t[which])) {
		perror("pthread_create");
		exit(1);
	}
}
