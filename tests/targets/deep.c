/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recursion as deep as asked: deep FRAMES [TURNS]. With TURNS 2 or 3 so many functions call each
 * other in turn.
 */
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

static long turns;

NOINLINE static void ask(long left);

NOINLINE static void forward(long left)
{
	ask(left - 1);
	sink++;
}

NOINLINE static void answer(long left)
{
	if (turns == 3)
		forward(left - 1);
	else
		ask(left - 1);
	sink++;
}

NOINLINE static void ask(long left)
{
	if (left > 0)
		answer(left - 1);
	else
		bottom();
	sink++;
}

static void *deep_main(void *argument)
{
	prctl(PR_SET_NAME, "diver", 0, 0, 0);
	if (turns)
		ask(*(long *)argument);
	else
		descend(*(long *)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	long frames = argc > 1 ? atol(argv[1]) : 1000;

	turns = argc > 2 ? atol(argv[2]) : 0;
	victim_thread(deep_main, &frames, (size_t)frames * 64 + (1 << 20));
	while (!in_position)
		sched_yield();
	victim_ready("frames=%ld", frames);
	victim_hold();
}
