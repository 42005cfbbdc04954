/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of one thread each, all asleep: attack_children COUNT [nested].
 *
 * Children of the first one, or, nested, each a child of the one before. Where the machine has no
 * room for so many the victim says so.
 */
#include "victim.h"

#include <sys/mman.h>

/* Shared by all. */
static struct {
	_Atomic int count, error;
} * all;

NOINLINE static void child_work(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	all->count += 1;
	victim_hold();
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 6000;
	bool nested = argc > 2;
	pid_t first = getpid();

	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		victim_cannot("mmap");
	for (int i = 0; i < wanted && !all->error; i++) {
		pid_t child = fork();

		if (child < 0)
			all->error = errno;
		if (child == 0 && !nested)
			child_work();
		if (child > 0 && nested)
			break;
	}
	if (getpid() != first)
		child_work();
	while (all->count < wanted && !all->error)
		usleep(1000);
	errno = all->error;
	if (errno)
		victim_cannot("fork");
	victim_ready("children=%d", wanted);
	victim_hold();
}
