/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blocked inside a signal handler: signals plain | alt | malloc | nested | fault | null | wild |
 * overflow | thread. With malloc its stack is where malloc() put it, beside the first thread's data;
 * null and wild are calls of what is no code; a stack overflows, the first thread's or another's.
 */
#include "victim.h"

#include <sys/resource.h>

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

NOINLINE static void overflows(int depth)
{
	char room[2000];

	memset(room, depth, sizeof(room));
	overflows(depth + room[0] + 1);
	sink += room[1];
}

NOINLINE static void interrupted(const char *mode)
{
	volatile uintptr_t wild = !strcmp(mode, "wild") ? 0x7000000000 : 0;

	if (!strcmp(mode, "overflow") || !strcmp(mode, "thread"))
		overflows(0);
	else if (!strcmp(mode, "fault"))
		*nowhere = 1;
	else if (!strcmp(mode, "null") || !strcmp(mode, "wild"))
		((void (*)(void))wild)();
	else
		raise(SIGUSR1);
	sink++;
}

NOINLINE static void caller_of_interrupted(const char *mode)
{
	interrupted(mode);
	sink++;
}

static void *runs_in_thread(void *alternate)
{
	sigaltstack(alternate, NULL);
	caller_of_interrupted("thread");
	return NULL;
}

int main(int argc, char **argv)
{
	const struct rlimit small = { 1 << 18, 1 << 18 };
	enum { LARGE = 1 << 20, SMALL = 1 << 16 };
	const char *mode = argc > 1 ? argv[1] : "plain";
	struct sigaction action = { .sa_handler = on_first };
	static char other_stack[SMALL];
	stack_t alternate = { .ss_sp = other_stack, .ss_size = SMALL };

	if (!strcmp(mode, "malloc"))
		alternate = (stack_t){ .ss_sp = malloc(LARGE), .ss_size = LARGE };
	if (!strcmp(mode, "alt") || !strcmp(mode, "malloc") || !strcmp(mode, "fault") ||
	    !strcmp(mode, "wild") || !strcmp(mode, "overflow") || !strcmp(mode, "thread")) {
		sigaltstack(&alternate, NULL);
		action.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	action.sa_handler = on_second;
	sigaction(SIGUSR2, &action, NULL);
	sink = !strcmp(mode, "nested");
	if (!strcmp(mode, "overflow"))
		setrlimit(RLIMIT_STACK, &small);
	if (!strcmp(mode, "thread")) {
		victim_thread(runs_in_thread, &alternate, 1 << 17);
		victim_hold();
	}
	caller_of_interrupted(mode);
	return 0;
}
