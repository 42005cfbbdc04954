/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that spend known shares of their time in known places: "busy" 70, 20 and 10 % in three
 * functions, "half" as much running as asleep, "asleep" never runs. The rounds last a tenth of a
 * second, which no usual sampling rate divides.
 */
#include "victim.h"

enum { ROUND_MS = 103 };

static volatile unsigned long sink;
static atomic_int in_position;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Works until a moment: no function below is left for more than a microsecond on its way. */
#define WORK(name)                                        \
	static NOINLINE void name(int64_t until_us)       \
	{                                                 \
		do                                        \
			for (int i = 0; i < 500; i++)     \
				sink += (unsigned long)i; \
		while (now_us() < until_us);              \
	}

WORK(seventy)
WORK(twenty)
WORK(ten)
WORK(half_awake)

static NOINLINE void half_asleep(int64_t until_us)
{
	struct timespec until = { until_us / 1000000, until_us % 1000000 * 1000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void *busy_main(void *unused)
{
	int64_t at = now_us();

	prctl(PR_SET_NAME, "busy", 0, 0, 0);
	in_position++;
	for (;;) {
		seventy(at + 700 * ROUND_MS);
		twenty(at + 900 * ROUND_MS);
		at += 1000 * ROUND_MS;
		ten(at);
	}
	return unused;
}

static void *half_main(void *unused)
{
	int64_t at = now_us();

	prctl(PR_SET_NAME, "half", 0, 0, 0);
	in_position++;
	for (;;) {
		half_awake(at + 500 * ROUND_MS);
		at += 1000 * ROUND_MS;
		half_asleep(at);
	}
	return unused;
}

static NOINLINE void *asleep_main(void *unused)
{
	prctl(PR_SET_NAME, "asleep", 0, 0, 0);
	in_position++;
	for (;;)
		pause();
	return unused;
}

int main(void)
{
	victim_thread(busy_main, NULL, 0);
	victim_thread(half_main, NULL, 0);
	victim_thread(asleep_main, NULL, 0);
	while (in_position < 3)
		sched_yield();
	victim_ready("shares");
	victim_hold();
}
