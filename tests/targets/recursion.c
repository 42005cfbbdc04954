/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ever new deep recursions: recursion THREADS [DEPTH]
 *
 * Each thread goes down by random paths through a few dozen functions, stays for a moment, comes
 * up a random number of frames and goes down again, so that no two looks at it see the same stack.
 * Built as recursion_names, each function has a name of eight thousand characters.
 */
#include "victim.h"

typedef unsigned walker(unsigned depth);

static walker *const walkers[64];
static unsigned deepest = 3000;
static atomic_int in_position;
static _Thread_local uint64_t seed;

static unsigned next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 16);
}

NOINLINE static void stay(void)
{
	struct timespec moment = { 0, 10000000 };

	nanosleep(&moment, NULL);
}

/* Returns how many frames more to come up. */
static inline __attribute__((always_inline)) unsigned walk(unsigned depth)
{
	unsigned up = 0;

	while (up == 0) {
		if (depth >= deepest) {
			stay();
			return next_random() % deepest;
		}
		up = walkers[next_random() % 64](depth + 1);
	}
	return up - 1;
}

#ifdef LONG_NAMES
#define X100                                                 \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X1000 X100 X100 X100 X100 X100 X100 X100 X100 X100 X100
#define NAMED(n) __asm__("w" #n "_" X1000 X1000 X1000 X1000 X1000 X1000 X1000 X1000)
#else
#define NAMED(n)
#endif

#define WALKER(n)                                      \
	static unsigned w##n(unsigned depth) NAMED(n); \
	NOINLINE static unsigned w##n(unsigned depth)  \
	{                                              \
		return walk(depth);                    \
	}
#define WALKERS(n)   \
	WALKER(n##0) \
	WALKER(n##1) WALKER(n##2) WALKER(n##3) WALKER(n##4) WALKER(n##5) WALKER(n##6) WALKER(n##7)
#define NAMES(n) w##n##0, w##n##1, w##n##2, w##n##3, w##n##4, w##n##5, w##n##6, w##n##7

WALKERS(0)
WALKERS(1)
WALKERS(2)
WALKERS(3)
WALKERS(4)
WALKERS(5)
WALKERS(6)
WALKERS(7)

static walker *const walkers[64] = { NAMES(0), NAMES(1), NAMES(2), NAMES(3),
				     NAMES(4), NAMES(5), NAMES(6), NAMES(7) };

static void *thread_main(void *argument)
{
	seed = (uintptr_t)argument * 0x9e3779b97f4a7c15;
	in_position++;
	for (;;)
		walk(0);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 4;

	if (argc > 2)
		deepest = (unsigned)atoi(argv[2]);
	for (int i = 0; i < threads; i++)
		victim_thread(thread_main, (void *)(uintptr_t)(i + 1), deepest * 256 + (128 << 10));
	while (in_position < threads)
		sched_yield();
	victim_ready("threads=%d", threads + 1);
	victim_hold();
}
