/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits for tracees: see await.h. A tracer must not use wrappers of the C library, see internal.h. */
#include "stop/child/await.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t snap_await_tracee(pid_t tid, int options, int *status_ret)
{
	siginfo_t info = { .si_pid = 0 };

	if (syscall(SYS_waitid, P_PID, tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL | options,
		    NULL))
		return -1;
	if (info.si_pid == 0)
		return 0;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return (pid_t)syscall(SYS_wait4, tid, status_ret, __WALL | WNOHANG, NULL);
	/* As wait4() writes it: the signal, and above it the event (ptrace(2)). */
	*status_ret = W_STOPCODE(info.si_status);
	return tid;
}
