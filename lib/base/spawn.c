/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How children are made and ended: see spawn.h. */
#include "base/spawn.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MOST_DESCRIPTORS = 1 << 16 /* that are closed one by one, before Linux 5.9 */ };

/* Linux 5.5; older headers lack it. */
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

/*
 * A fork without fork(): with no exit signal the program that uses the library gets no SIGCHLD, and
 * no handlers of pthread_atfork() run. Older kernels know fewer flags: then the signal handlers
 * stay, but the child blocks all signals. Returns 0 in the child.
 */
static pid_t clone_child(int *pidfd)
{
	struct clone_args arguments = {
		.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uintptr_t)pidfd,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid < 0 && errno == EINVAL) {
		arguments.flags = CLONE_PIDFD;
		pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	}
	/* Before Linux 5.3, and where a seccomp filter cannot look into clone3's arguments. */
	if (pid < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL))
		pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD, 0, pidfd, 0, 0);
	return pid;
}

static pid_t fork_child(int *pidfd)
{
	pid_t pid = fork();
	int os_errno;

	if (pid <= 0)
		return pid;
	*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (*pidfd >= 0)
		return pid;
	os_errno = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	errno = os_errno;
	return -1;
}

static bool close_until(unsigned from, int kept)
{
	return kept < 0 || (unsigned)kept <= from ||
	       syscall(SYS_close_range, from, (unsigned)kept - 1, 0) == 0;
}

void snap_spawn_close_all_but_two(int kept, int other)
{
	int low = kept < other ? kept : other, high = kept < other ? other : kept;
	struct rlimit limit = { .rlim_cur = 0 };

	if (close_until(0, low) && close_until((unsigned)(low + 1), high) &&
	    syscall(SYS_close_range, (unsigned)(high + 1), ~0u, 0) == 0)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 0; fd < MOST_DESCRIPTORS && (rlim_t)fd < limit.rlim_cur; fd++)
		if (fd != kept && fd != other)
			close(fd);
}

void snap_spawn_close_all_but(int kept)
{
	snap_spawn_close_all_but_two(kept, -1);
}

_Noreturn void snap_spawn_exit(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/* Signals are blocked and cancellation is off in the child, as it inherits both states. */
int snap_spawn_child(unsigned flags, const char *name, void (*run)(void *context), void *context,
		     pid_t *pid_ret, int *pidfd_ret)
{
	int cancel_state, os_errno, pidfd = -1;
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if ((flags & SNAP_SPAWN_ALLOCATES) && !__libc_single_threaded)
		pid = fork_child(&pidfd);
	else
		pid = clone_child(&pidfd);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		/* It may have ended before the line above. */
		if (getppid() != parent)
			snap_spawn_exit(1);
		prctl(PR_SET_NAME, name, 0, 0, 0);
		run(context);
		snap_spawn_exit(0);
	}
	os_errno = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel_state, NULL);
	if (pid < 0)
		return os_errno;
	*pid_ret = pid;
	*pidfd_ret = pidfd;
	return 0;
}

struct stacksnap_error *snap_spawn(unsigned flags, const char *name, void (*run)(void *context),
				   void *context, pid_t *pid_ret, int *pidfd_ret)
{
	int os_errno = snap_spawn_child(flags, name, run, context, pid_ret, pidfd_ret);

	return os_errno ? snap_error_os(os_errno, "cannot create a process") : NULL;
}

bool snap_spawn_has_ended(int pidfd, int timeout_ms)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + timeout_ms * SNAP_NS_PER_MS;
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		int ready = poll(&poll_fd, 1, timeout_ms);
		int64_t left;

		if (ready >= 0 || errno != EINTR)
			return ready > 0;
		left = until - snap_clock_ns(CLOCK_MONOTONIC);
		timeout_ms = left > 0 ? (int)(left / 1000000) : 0;
	}
}

/* The status as wait(2) has it; -1: it runs, or other code has waited for it. */
static int reap(int pidfd)
{
	siginfo_t info = { .si_pid = 0 };

	if (syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | __WALL, NULL) < 0 ||
	    info.si_pid == 0)
		return -1;
	return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status & 0x7f;
}

int snap_spawn_end(int pidfd, int grace_ms, int patience_ms)
{
	int status = -1;

	if (snap_spawn_has_ended(pidfd, grace_ms))
		status = reap(pidfd);
	if (status < 0) {
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		snap_spawn_has_ended(pidfd, patience_ms);
		reap(pidfd);
	}
	return status;
}
