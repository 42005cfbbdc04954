/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process under strict seccomp: all it may do is read, write and end. */
#include "victim.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

NOINLINE static void locked_in(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(void)
{
	victim_ready("strict");
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
		victim_cannot("seccomp");
	locked_in();
	syscall(SYS_exit, 0);
}
