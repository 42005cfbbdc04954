/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process that traces its child: the child cannot be traced by anybody else. */
#include "victim.h"

#include <sys/ptrace.h>

int main(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
	if (ptrace(PTRACE_SEIZE, child, 0, 0))
		victim_cannot("ptrace");
	victim_ready("child=%d", child);
	victim_hold();
}
