/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that take one mutex again and again: convoy COUNT [US [young]]. Whoever has it keeps it for US
 * microseconds, asleep. At any moment most wait, for somebody else each time; nobody is stuck. young:
 * these keep it for no time, and threads that have just begun keep it, one after the other.
 */
#include "victim.h"

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static struct timespec hold;
static atomic_int in_position;
static volatile unsigned taken;

NOINLINE static void take(void)
{
	pthread_mutex_lock(&busy);
	taken++;
	if (hold.tv_sec || hold.tv_nsec)
		nanosleep(&hold, NULL);
	pthread_mutex_unlock(&busy);
}

static void *take_once(void *unused)
{
	take();
	return unused;
}

static void *pass_for_ever(void *unused)
{
	in_position++;
	for (;;) {
		pthread_mutex_lock(&busy);
		pthread_mutex_unlock(&busy);
		usleep(50);
	}
	return unused;
}

static void *relay_for_ever(void *unused)
{
	pthread_t last = victim_thread(take_once, NULL, 64 << 10), next;

	for (;;) {
		next = victim_thread(take_once, NULL, 64 << 10);
		pthread_join(last, NULL);
		last = next;
	}
	return unused;
}

static void *take_for_ever(void *unused)
{
	in_position++;
	for (;;)
		take();
	return unused;
}

int main(int count, char **words)
{
	int threads = count > 1 ? atoi(words[1]) : 50;
	long hold_us = count > 2 ? atol(words[2]) : 0;

	hold = (struct timespec){ hold_us / 1000000, hold_us % 1000000 * 1000 };
	for (int i = 0; i < threads; i++)
		victim_thread(count > 3 ? pass_for_ever : take_for_ever, NULL, 64 << 10);
	if (count > 3)
		victim_thread(relay_for_ever, NULL, 64 << 10);
	while (in_position < threads)
		usleep(1000);
	victim_ready("threads=%d", threads + 1);
	victim_hold();
	return 0;
}
