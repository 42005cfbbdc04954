/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recursion as deep as asked: deep FRAMES. */
#include "victim.h"

static volatile int sink;
static atomic_int in_position;

NOINLINE static void bottom(void)
{
	in_position = 1;
	for (;;)
		pause();
}

NOINLINE static void descend(long left)
{
	if (left > 0)
		descend(left - 1);
	else
		bottom();
	sink++;
}

static void *deep_main(void *argument)
{
	prctl(PR_SET_NAME, "diver", 0, 0, 0);
	descend(*(long *)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	long frames = argc > 1 ? atol(argv[1]) : 1000;

	victim_thread(deep_main, &frames, (size_t)frames * 64 + (1 << 20));
	while (!in_position)
		sched_yield();
	victim_ready("frames=%ld", frames);
	victim_hold();
}
