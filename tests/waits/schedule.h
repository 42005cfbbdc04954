/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that knows its own schedule: nine threads, three locks, and who had which lock for how
 * long while others waited for it. For C and C++, which have locks of their own (schedule.c,
 * schedule.cc).
 *
 * In each round of 100 ms a keeper takes its lock and keeps it for a while, by the clock; then its
 * deputy has it, who has waited meanwhile, and then a third, who has waited for both. So of all
 * waited time 70, 20 and 10 % are spent behind the three locks. It measures that itself, and says so
 * as a line of JSON each time it is told something; it ends when its standard input closes.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { LOCKS = 3, ACTORS = 3 * LOCKS, ROUND_MS = 100, MOST_SPANS = 1 << 16, MILLISECOND = 1000000 };

struct span {
	int64_t begin, end;
};

struct spans {
	struct span spans[MOST_SPANS];
	size_t count;
};

struct actor {
	int lock;
	const char *function; /* in which it has the lock */
	void (*act)(struct actor *me, int64_t round_ns);
	int after; /* how many of its lock come before it in a round */
	int tid;
	struct spans *holds, *waits;
};

/* ns: when the first round begins; how many of a lock's actors have come in a round. */
static int64_t first_round_ns;
static uint64_t arrived[LOCKS];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct timespec time_at(int64_t ns)
{
	struct timespec at;

	at.tv_sec = ns / 1000000000;
	at.tv_nsec = ns % 1000000000;
	return at;
}

/* In the function that calls it: sleeps to that millisecond of the round. */
#define KEEP_UNTIL(round_ns, ms)                                                                \
	do {                                                                                    \
		struct timespec _until = time_at((round_ns) + (int64_t)(ms)*MILLISECOND);       \
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &_until, NULL) == EINTR) \
			;                                                                       \
	} while (0)

static void add_span(struct spans *spans, int64_t begin, int64_t end)
{
	size_t count = spans->count;

	if (count == MOST_SPANS)
		return;
	spans->spans[count].begin = begin;
	spans->spans[count].end = end;
	__atomic_store_n(&spans->count, count + 1, __ATOMIC_RELEASE);
}

/* What every holder does: `take` and `keep` are statements. */
#define HOLD(me, take, keep, release)                                                            \
	do {                                                                                     \
		int64_t _asked = now_ns(), _got;                                                 \
		if ((me)->after < 2)                                                             \
			__atomic_fetch_add(&arrived[(me)->lock], (me)->after, __ATOMIC_SEQ_CST); \
		take;                                                                            \
		_got = now_ns();                                                                 \
		if ((me)->after == 0)                                                            \
			__atomic_fetch_add(&arrived[(me)->lock], 1, __ATOMIC_SEQ_CST);           \
		add_span((me)->waits, _asked, _got);                                             \
		keep;                                                                            \
		add_span((me)->holds, _got, now_ns());                                           \
		release;                                                                         \
	} while (0)

static void *actor_main(void *argument)
{
	struct actor *me = (struct actor *)argument;

	me->tid = (int)syscall(SYS_gettid);
	for (uint64_t round = 0;; round++) {
		int64_t round_ns = first_round_ns + (int64_t)round * ROUND_MS * MILLISECOND;
		struct timespec pause = time_at(200000);

		KEEP_UNTIL(round_ns, 0);
		/* The keeper and the deputy count in each round, each when it has come. */
		while (__atomic_load_n(&arrived[me->lock], __ATOMIC_SEQ_CST) <
		       2 * round + (uint64_t)me->after)
			nanosleep(&pause, NULL);
		me->act(me, round_ns);
	}
	return NULL;
}

/* ---- the truth ---- */

static int64_t overlap(const struct spans *waits, const struct spans *holds)
{
	size_t wait_count = __atomic_load_n(&waits->count, __ATOMIC_ACQUIRE);
	size_t hold_count = __atomic_load_n(&holds->count, __ATOMIC_ACQUIRE), first = 0;
	int64_t all = 0;

	for (size_t i = 0; i < wait_count; i++) {
		const struct span *wait = &waits->spans[i];

		while (first < hold_count && holds->spans[first].end <= wait->begin)
			first++;
		for (size_t k = first; k < hold_count && holds->spans[k].begin < wait->end; k++) {
			const struct span *hold = &holds->spans[k];
			int64_t begin = wait->begin > hold->begin ? wait->begin : hold->begin;
			int64_t end = wait->end < hold->end ? wait->end : hold->end;

			all += end > begin ? end - begin : 0;
		}
	}
	return all;
}

static int64_t length(const struct spans *spans, int64_t *longest)
{
	size_t count = __atomic_load_n(&spans->count, __ATOMIC_ACQUIRE);
	int64_t all = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t own = spans->spans[i].end - spans->spans[i].begin;

		all += own;
		*longest = own > *longest ? own : *longest;
	}
	return all;
}

static void say_lock(const struct actor *actors, int lock, const char *name)
{
	int64_t all = 0, longest = 0;
	const char *comma = "";

	for (int i = 0; i < ACTORS; i++)
		if (actors[i].lock == lock)
			all += length(actors[i].waits, &longest);
	printf("{\"lock\":\"%s\",\"waited_ns\":%lld,\"longest_ns\":%lld,\"held_by\":[", name,
	       (long long)all, (long long)longest);
	for (int i = 0; i < ACTORS; i++) {
		int64_t behind = 0;

		if (actors[i].lock != lock)
			continue;
		for (int k = 0; k < ACTORS; k++)
			if (actors[k].lock == lock && k != i)
				behind += overlap(actors[k].waits, actors[i].holds);
		printf("%s{\"function\":\"%s\",\"tid\":%d,\"ns\":%lld}", comma, actors[i].function,
		       actors[i].tid, (long long)behind);
		comma = ",";
	}
	printf("]}");
}

static void say_truth(const struct actor *actors, const char *const names[LOCKS])
{
	printf("[");
	for (int i = 0; i < LOCKS; i++) {
		printf(i ? "," : "");
		say_lock(actors, i, names[i]);
	}
	printf("]\n");
	fflush(stdout);
}

/* Runs until standard input closes. */
static int schedule_main(struct actor *actors, const char *const names[LOCKS])
{
	char line[64];

	first_round_ns = now_ns() + 20 * MILLISECOND;
	for (int i = 0; i < ACTORS; i++) {
		pthread_t thread;

		actors[i].holds = (struct spans *)calloc(1, sizeof(struct spans));
		actors[i].waits = (struct spans *)calloc(1, sizeof(struct spans));
		if (!actors[i].holds || !actors[i].waits ||
		    pthread_create(&thread, NULL, actor_main, &actors[i]))
			return 1;
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	printf("ready %d round_ms=%d\n", (int)getpid(), ROUND_MS);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		say_truth(actors, names);
	_exit(0);
}
