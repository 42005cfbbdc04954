/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocked inside a signal handler: signals plain | alt | nested | fault. */
#include "victim.h"

static volatile int sink;
static volatile char *volatile nowhere;

NOINLINE static void in_handler(void)
{
	victim_ready("handler");
	victim_hold();
	sink++;
}

static void on_second(int number)
{
	in_handler();
	sink += number;
}

static void on_first(int number)
{
	if (sink == 1)
		raise(SIGUSR2);
	else
		in_handler();
	sink += number;
}

NOINLINE static void interrupted(bool fault)
{
	if (fault)
		*nowhere = 1;
	else
		raise(SIGUSR1);
	sink++;
}

NOINLINE static void caller_of_interrupted(bool fault)
{
	interrupted(fault);
	sink++;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	struct sigaction action = { .sa_handler = on_first };
	static char other_stack[1 << 16];
	stack_t alternate = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };

	if (!strcmp(mode, "alt") || !strcmp(mode, "fault")) {
		sigaltstack(&alternate, NULL);
		action.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	action.sa_handler = on_second;
	sigaction(SIGUSR2, &action, NULL);
	sink = !strcmp(mode, "nested");
	caller_of_interrupted(!strcmp(mode, "fault"));
	return 0;
}
