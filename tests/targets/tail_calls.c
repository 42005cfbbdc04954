/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that end in the call of another one, so they have no frame: tail_calls chain|fork|cycle|any|far.
 * Compiled by its test, once with the second file's functions (-DFAR) in an object of their own.
 */
#include "victim.h"

#define APART __attribute__((noinline, used)) NOCLONE
#ifdef __clang__
#define NOCLONE
#else
#define NOCLONE __attribute__((noclone, noipa))
#endif

extern volatile int sink;
int stand_still(int n);
int far_away(int n);

#ifdef FAR
volatile int sink;

APART int far_away(int n)
{
	sink = n;
	return stand_still(n + 1);
}
#else
APART int stand_still(int n)
{
	victim_ready("tail_calls");
	if (sink >= 0) /* it might return */
		victim_hold();
	return n + sink;
}

APART int second(int n)
{
	sink = n;
	return stand_still(n + 1);
}

APART int first(int n)
{
	sink = n;
	return second(n + 1);
}

APART int left_way(int n)
{
	sink = n;
	return stand_still(n + 1);
}

APART int right_way(int n)
{
	sink = n + 1;
	return stand_still(n + 2);
}

APART int fork_of_ways(int n)
{
	return n & 1 ? left_way(n) : right_way(n);
}

APART int odd_one(int n);

APART int even_one(int n)
{
	sink = n;
	return n > 8 ? stand_still(n) : odd_one(n + 1);
}

APART int odd_one(int n)
{
	sink = n;
	return even_one(n + 1);
}

APART int to_far(int n)
{
	sink = n;
	return far_away(n + 1);
}

static int (*volatile anywhere)(int) = stand_still;

APART int any_way(int n)
{
	return n & 1 ? anywhere(n) : left_way(n);
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "chain";

	if (strcmp(which, "chain") == 0)
		sink = first(argc);
	else if (strcmp(which, "fork") == 0)
		sink = fork_of_ways(argc);
	else if (strcmp(which, "cycle") == 0)
		sink = even_one(argc);
	else if (strcmp(which, "any") == 0)
		sink = any_way(argc);
	else
		sink = to_far(argc);
	return sink;
}
#endif
