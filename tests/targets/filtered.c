/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filter of seccomp(2) that knows no restart_syscall, as the author of a sandbox may forget: filtered poll|sleep|futex. */
#include "victim.h"

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

static void enter(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		victim_cannot("seccomp");
}

NOINLINE static long rest_filtered(const char *how)
{
	struct timespec hour = { .tv_sec = 3600 };
	static int word;

	if (strcmp(how, "poll") == 0)
		return poll(NULL, 0, 3600 * 1000);
	if (strcmp(how, "futex") == 0)
		return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour);
	return nanosleep(&hour, NULL);
}

int main(int argc, char **argv)
{
	long result;

	enter();
	victim_ready("filtered");
	result = rest_filtered(argc > 1 ? argv[1] : "sleep");
	return result != 0;
}
