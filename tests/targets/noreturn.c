/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A call of a noreturn function as the very last instruction: its return address lies outside. */
#include "victim.h"

__attribute__((noreturn)) NOINLINE void never_returns(void)
{
	victim_ready("noreturn");
	victim_hold();
	_exit(0);
}

NOINLINE void ends_in_a_call(void)
{
	never_returns();
}

/* Follows at once, and must not be named. */
NOINLINE int innocent_neighbour(int value)
{
	return value + 1;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc < 100)
		ends_in_a_call();
	return innocent_neighbour(argc);
}
