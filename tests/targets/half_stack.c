/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread on a stack whose outer half cannot be read: the pages of a file that is shorter by now.
 *
 * It has no thread pointer of its own, as that would lead there, and makes its calls itself.
 */
#include "victim.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 1 << 18, FRAME = 1 << 12, KEPT = STACK / 2 };

static atomic_int in_position;

NOINLINE static void descend(int left)
{
	volatile char filler[FRAME];

	filler[0] = (char)left;
	if (left > 0)
		descend(left - 1);
	in_position = 1;
	while (in_position)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 8);
	filler[1] = filler[0];
}

static int half_main(void *unused)
{
	(void)unused;
	syscall(SYS_prctl, PR_SET_NAME, "half", 0, 0, 0);
	descend(3 * STACK / 4 / FRAME);
	return 0;
}

int main(void)
{
	int fd = memfd_create("stack", 0);
	char *stack;

	if (fd < 0 || ftruncate(fd, STACK))
		victim_cannot("memfd_create");
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (stack == MAP_FAILED ||
	    clone(half_main, stack + STACK,
		  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
		  NULL) < 0)
		victim_cannot("clone");
	while (!in_position)
		sched_yield();
	if (ftruncate(fd, KEPT))
		victim_cannot("ftruncate");
	victim_ready("kept=%d", KEPT);
	victim_hold();
}
