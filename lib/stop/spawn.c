/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Birth and end of tracing children: see spawn.h. Ending one by SIGKILL is always safe: the
 * kernel lets its tracees run.
 */
#include "stop/spawn.h"

#include "stop/child/child.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	TICK_MS = 20,
	PATIENCE_MS = 1000, /* how long a killed child may take to end before it is left behind */
};

/* Linux 5.5; older headers lack it. */
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

/*
 * A fork without fork(): no exit signal, so no SIGCHLD reaches the program that uses the library,
 * and no handlers of pthread_atfork() run. Older kernels know less: the handlers then stay, but
 * the child blocks all signals. 0 in the child.
 */
static pid_t clone_child(uint64_t flags, int *pidfd)
{
	struct clone_args arguments = {
		.flags = flags | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uintptr_t)pidfd,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid < 0 && errno == EINVAL) {
		arguments.flags = flags | CLONE_PIDFD;
		pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	}
	/* Before Linux 5.3, and where a seccomp filter cannot look into clone3's arguments. */
	if (pid < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL))
		pid = (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD, 0, pidfd, 0, 0);
	return pid;
}

/*
 * Signals are blocked and cancellation is off in the child, as the state of both is inherited: no
 * handler of the program runs in it, and no call that is a cancellation point ends it.
 */
struct snap_error *snap_tracer_spawn(uint64_t flags, void (*run)(void *context, pid_t parent),
				     void *context, pid_t *pid_ret, int *pidfd_ret)
{
	int cancel_state, os_errno, pidfd = -1;
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = clone_child(flags, &pidfd);
	if (pid == 0) {
		run(context, parent);
		for (;;)
			syscall(SYS_exit_group, 1);
	}
	os_errno = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel_state, NULL);
	if (pid < 0)
		return snap_error_os(os_errno, "cannot make a tracing process");
	*pid_ret = pid;
	*pidfd_ret = pidfd;
	return NULL;
}

bool snap_tracer_has_ended(int pidfd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) > 0;
}

void snap_tracer_end(int pidfd, bool kill_it)
{
	int64_t until = snap_tracer_now() + PATIENCE_MS * 1000000ll;
	siginfo_t info;

	if (kill_it)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	while (!snap_tracer_has_ended(pidfd, TICK_MS) && snap_tracer_now() < until)
		;
	syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | __WALL, NULL);
}
