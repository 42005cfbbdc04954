/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process whose number another one gets: "ready PID" is of a child. With each line the child ends,
 * and another one has its number, "again" is printed then. Making a process with a given number needs
 * rights over the pid namespace.
 */
#include "victim.h"

#include <linux/sched.h>
#include <sys/syscall.h>

static NOINLINE void first_process(void)
{
	for (;;)
		pause();
}

static NOINLINE void other_process(void)
{
	for (;;)
		pause();
}

/* `wanted` 0: any number. */
static pid_t make_process(pid_t wanted, bool other)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD };
	pid_t pid;

	if (wanted) {
		arguments.set_tid = (uintptr_t)&wanted;
		arguments.set_tid_size = 1;
	}
	pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (pid < 0)
		victim_cannot("clone3 with a number");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, other ? "other" : "first", 0, 0, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (other)
		other_process();
	else
		first_process();
	_exit(0);
}

static void replace(pid_t pid, bool other)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	make_process(pid, other);
}

int main(void)
{
	/* The clock of start times has 100 ticks a second: the two must not begin in one of them. */
	const struct timespec tick = { .tv_nsec = 20000000 };
	pid_t pid = make_process(0, false);
	char line[8];

	/* Where this is not permitted the test is skipped now. */
	replace(pid, false);
	nanosleep(&tick, NULL);
	printf("ready %d\n", pid);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		replace(pid, true);
		printf("again\n");
		fflush(stdout);
	}
	kill(pid, SIGKILL);
	return 0;
}
