/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * attack_wake [COUNT]: 300 threads (COUNT) that work for a moment, sleep for some milliseconds and wake up again, each in
 * a recursion of its own. Whoever has an ordinary priority waits behind them for seconds: the kernel prefers
 * who has slept. So does the test that has started this; it ends by itself after half a minute.
 */
#include "victim.h"

enum { THREADS = 300, DEPTH = 100, NAP_US = 4000, STACK = 1 << 20, SECONDS = 30 };

static int go_down(unsigned depth, unsigned *seed);

NOINLINE static int step_left(unsigned depth, unsigned *seed)
{
	return go_down(depth - 1, seed) + 1;
}

NOINLINE static int step_right(unsigned depth, unsigned *seed)
{
	return go_down(depth - 1, seed) + 2;
}

NOINLINE static int go_down(unsigned depth, unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	if (!depth)
		return usleep(NAP_US);
	return *seed & 1 << 16 ? step_left(depth, seed) : step_right(depth, seed);
}

static void *wake_up(void *seed)
{
	volatile int sink = 0;
	unsigned own = (unsigned)(uintptr_t)seed;

	for (;;)
		sink = sink + go_down(DEPTH, &own);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : THREADS;
	pthread_attr_t attributes;
	pthread_t thread;

	alarm(SECONDS);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, wake_up, (void *)(uintptr_t)(i + 1)))
			return 1;
	victim_ready("threads=%d", count + 1);
	victim_hold();
	return 0;
}
