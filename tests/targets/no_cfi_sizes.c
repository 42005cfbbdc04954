/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions with frames of many sizes, which is built without call frame information and without
 * frame pointers. Old return addresses lie in the frames, one function is called by a pointer, and
 * one jumps to the next: jumps, which is on no stack.
 *
 * main -> small -> large (3 KiB) -> by_pointer -> middle (600) -> [jumps] -> behind_jump -> waits
 */
#include <stdio.h>
#include <unistd.h>

#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noipa))
#endif

static volatile int sink;
static int by_pointer(int n);
static int (*volatile pointer)(int) = by_pointer;

/* The compiler knows nothing of what lies there. */
static void fill(volatile char *room, int size, int n)
{
	for (int i = 0; i < size; i += 7)
		room[i] = (char)n;
}

KEPT static int waits(int n)
{
	sink = n;
	while (sink)
		pause();
	return n;
}

KEPT static int behind_jump(int n)
{
	volatile char room[100];

	fill(room, sizeof(room), n);
	return waits(n + 1) + room[n & 31];
}

KEPT static int jumps(int n)
{
	sink = n;
	return behind_jump(n + 1);
}

KEPT static int middle(int n)
{
	volatile char room[600];

	fill(room, sizeof(room), n);
	return jumps(n + 1) + room[n & 31];
}

KEPT static int by_pointer(int n)
{
	volatile char room[40];

	if (n > 1000)
		return sink;
	fill(room, sizeof(room), n);
	return middle(n + 1) + room[n & 31];
}

KEPT static int large(int n)
{
	volatile char room[3000];

	room[n & 7] = (char)n;
	return pointer(n + 1) + room[n & 31];
}

KEPT static int small(int n)
{
	volatile char room[24];

	fill(room, sizeof(room), n);
	return large(n + 1) + room[n & 15];
}

/* Leaves return addresses where frames will be. */
KEPT static int litter(int n)
{
	volatile char room[40];

	fill(room, sizeof(room), n);
	return n ? litter(n - 1) + pointer(n + 1001) + room[n & 31] : 0;
}

int main(void)
{
	sink = litter(60);
	printf("ready %d\n", getpid());
	fflush(stdout);
	return small(3) + sink;
}
