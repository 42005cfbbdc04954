/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that take one mutex again and again: convoy COUNT [US]. Whoever has it keeps it for US
 * microseconds, asleep. At any moment most wait, for somebody else each time; nobody is stuck.
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
		victim_thread(take_for_ever, NULL, 64 << 10);
	while (in_position < threads)
		usleep(1000);
	victim_ready("threads=%d", threads + 1);
	victim_hold();
	return 0;
}
