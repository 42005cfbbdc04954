/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A thread in code of asm_x86_64.S, or asm_aarch64.S: cfi fp | no_fp | leaf | cycle | creep | endless | bad_stack. */
#include "victim.h"

void fp_outer(void (*function)(void));
void no_fp(void);
void leaf_outer(void);
void fp_cycle(void);
void creep(void);
void endless(void);
void bad_stack(void);

static atomic_int in_position;

static void held(void)
{
	in_position = 1;
	for (;;)
		pause();
}

static void *weird_main(void *argument)
{
	const char *mode = argument;

	prctl(PR_SET_NAME, "weird", 0, 0, 0);
	in_position = 1;
	if (!strcmp(mode, "fp"))
		fp_outer(held);
	else if (!strcmp(mode, "no_fp"))
		no_fp();
	else if (!strcmp(mode, "leaf"))
		leaf_outer();
	else if (!strcmp(mode, "cycle"))
		fp_cycle();
	else if (!strcmp(mode, "creep"))
		creep();
	else if (!strcmp(mode, "endless"))
		endless();
	else
		bad_stack();
	return NULL;
}

int main(int argc, char **argv)
{
	static char frame_pointers[] = "fp";

	victim_thread(weird_main, argc > 1 ? argv[1] : frame_pointers, 0);
	while (!in_position)
		sched_yield();
	victim_ready("weird");
	victim_hold();
}
