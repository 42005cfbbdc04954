/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process that traces its child: the child cannot be traced by anybody else. With the argument
 * "stopped" it stops it, too, as a debugger does.
 */
#include "victim.h"

#include <sys/ptrace.h>

int main(int argc, char **argv)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
	if (ptrace(PTRACE_SEIZE, child, 0, 0))
		victim_cannot("ptrace");
	if (argc > 1 && strcmp(argv[1], "stopped") == 0 &&
	    (ptrace(PTRACE_INTERRUPT, child, 0, 0) || waitpid(child, NULL, __WALL) != child))
		victim_cannot("ptrace");
	victim_ready("child=%d", child);
	victim_hold();
}
