/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process family: two children, each with a grandchild; a zombie child; and an orphan, whose
 * parent has gone. All end with the first one, by their shared standard input.
 */
#include "victim.h"

#include <sys/mman.h>

enum { CHILD_A, CHILD_B, GRAND_A, GRAND_B, ZOMBIE, ORPHAN, MEMBERS };
static _Atomic int *pids;

NOINLINE static void child_work(void)
{
	victim_hold();
}

NOINLINE static void grandchild_work(void)
{
	victim_hold();
}

static void name_self(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static void start_child(int which)
{
	if (fork() > 0)
		return;
	name_self(which == CHILD_A ? "child-a" : "child-b");
	if (fork() == 0) {
		name_self(which == CHILD_A ? "grand-a" : "grand-b");
		pids[which + GRAND_A] = getpid();
		grandchild_work();
	}
	pids[which] = getpid();
	child_work();
}

static void start_orphan(void)
{
	pid_t middle = fork();

	if (middle == 0) {
		middle = getpid();
		if (fork() > 0)
			_exit(0);
		name_self("orphan");
		while (getppid() == middle)
			sched_yield();
		pids[ORPHAN] = getpid();
		victim_hold();
	}
	waitpid(middle, NULL, 0);
}

int main(void)
{
	siginfo_t info;
	pid_t dead;

	pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_child(CHILD_A);
	start_child(CHILD_B);
	start_orphan();
	dead = fork();
	if (dead == 0)
		_exit(3);
	/* Waited for, yet not reaped. */
	waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT);
	pids[ZOMBIE] = dead;
	for (int i = 0; i < MEMBERS; i++)
		while (!pids[i])
			sched_yield();
	victim_ready("child_a=%d child_b=%d grand_a=%d grand_b=%d zombie=%d orphan=%d",
		     pids[CHILD_A], pids[CHILD_B], pids[GRAND_A], pids[GRAND_B], pids[ZOMBIE],
		     pids[ORPHAN]);
	victim_hold();
}
