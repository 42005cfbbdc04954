/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread held inside vfork() by its child, beside two threads that wait and one that works; with
 * an argument the only thread is held so.
 */
#include "victim.h"

static atomic_int in_position;

static void *waiter_main(void *unused)
{
	(void)unused;
	in_position++;
	for (;;)
		pause();
	return NULL;
}

static void *vfork_main(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "vforker", 0, 0, 0);
	if (vfork() == 0) {
		/* Only system calls: the memory is the parent's. */
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		in_position++;
		for (;;)
			pause();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		victim_ready("vfork");
		vfork_main(NULL);
	}
	victim_thread(waiter_main, NULL, 0);
	victim_thread(waiter_main, NULL, 0);
	victim_thread(vfork_main, NULL, 0);
	while (in_position < 3)
		sched_yield();
	victim_ready("vfork");
	victim_hold();
}
