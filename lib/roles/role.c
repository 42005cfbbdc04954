/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Birth, messages and end of roles: see role.h. */
#include "roles/role.h"

#include "stop/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	PATIENCE_MS = 100,
	KEPT_DESCRIPTORS = 8,
	SEND_TIMEOUT_US = 200000, /* for a role that asks and does not listen to answers */
};

struct birth {
	const char *name;
	void (*run)(void *context, int channel);
	void *context;
	int ends[2]; /* the maker's, the role's */
};

static void be_born(void *context, pid_t parent)
{
	struct birth *birth = context;

	close(birth->ends[0]);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, birth->name, 0, 0, 0);
	birth->run(birth->context, birth->ends[1]);
	_exit(0);
}

/*
 * A host with several threads: fork() makes the allocator usable in the child, which no other call
 * does. Signals are blocked, so no handler of the host runs in it.
 */
static struct snap_error *spawn_by_fork(struct birth *birth, struct snap_role *role)
{
	pid_t parent = getpid();
	sigset_t all, before;
	int os_errno;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	role->pid = fork();
	if (role->pid == 0)
		be_born(birth, parent);
	os_errno = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (role->pid < 0)
		return snap_error_os(os_errno, "cannot make a process");
	role->pidfd = (int)syscall(SYS_pidfd_open, role->pid, 0);
	if (role->pidfd >= 0)
		return NULL;
	os_errno = errno;
	kill(role->pid, SIGKILL);
	waitpid(role->pid, NULL, 0);
	return snap_error_os(os_errno, "cannot watch a process");
}

struct snap_error *snap_role_spawn(const char *name, void (*run)(void *context, int channel),
				   void *context, struct snap_role *ret)
{
	struct birth birth = { .name = name, .run = run, .context = context };
	const struct timeval patience = { .tv_usec = SEND_TIMEOUT_US };
	struct snap_role role = SNAP_ROLE_NONE;
	struct snap_error *err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, birth.ends) < 0)
		return snap_error_os(errno, "cannot make a channel to a process");
	(void)setsockopt(birth.ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (__libc_single_threaded)
		err = snap_tracer_spawn(0, be_born, &birth, &role.pid, &role.pidfd);
	else
		err = spawn_by_fork(&birth, &role);
	close(birth.ends[1]);
	role.channel = birth.ends[0];
	if (err) {
		close(role.channel);
		return err;
	}
	*ret = role;
	return NULL;
}

bool snap_role_has_ended(const struct snap_role *role, int timeout_ms)
{
	return snap_tracer_has_ended(role->pidfd, timeout_ms);
}

/* As wait(2) puts it; -1: it runs, or somebody else has waited for it. */
static int reap(int pidfd)
{
	siginfo_t info = { .si_pid = 0 };

	if (syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | __WALL, NULL) < 0 ||
	    info.si_pid == 0)
		return -1;
	return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status & 0x7f;
}

int snap_role_end(struct snap_role *role)
{
	int status = -1;

	if (role->pidfd >= 0) {
		status = reap(role->pidfd);
		if (status < 0) {
			syscall(SYS_pidfd_send_signal, role->pidfd, SIGKILL, NULL, 0);
			snap_role_has_ended(role, PATIENCE_MS);
			reap(role->pidfd);
		}
	}
	snap_close(&role->pidfd);
	snap_close(&role->channel);
	role->pid = 0;
	return status;
}

void snap_role_outlive_thread(void)
{
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

void snap_role_leave_standard_descriptors(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

#ifdef __SANITIZE_ADDRESS__
	enum { LAST = STDOUT_FILENO };
#else
	enum { LAST = STDERR_FILENO };
#endif
	for (int fd = STDIN_FILENO; fd <= LAST; fd++) {
		if (null < 0)
			close(fd);
		else if (null != fd)
			dup2(null, fd);
	}
	if (null > STDERR_FILENO)
		close(null);
}

void snap_role_close_all_but(const int *fds, size_t count)
{
	int sorted[KEPT_DESCRIPTORS];
	unsigned from = STDERR_FILENO + 1;
	size_t kept = 0;

	for (size_t i = 0; i < count && kept < KEPT_DESCRIPTORS; i++) {
		size_t at = kept;

		if (fds[i] < (int)from)
			continue;
		for (; at > 0 && sorted[at - 1] > fds[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = fds[i];
		kept++;
	}
	/* Linux 5.9; before it they stay open, which costs nothing but tidiness. */
	for (size_t i = 0; i < kept; i++) {
		if ((unsigned)sorted[i] > from)
			syscall(SYS_close_range, from, (unsigned)sorted[i] - 1, 0);
		from = (unsigned)sorted[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

/* ---- messages ---- */

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr header;
};

struct snap_error *snap_wire_send(int channel, const void *bytes, size_t size, int fd)
{
	struct iovec data = { (void *)(uintptr_t)bytes, size };
	union control control = { .bytes = "" };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	do
		n = sendmsg(channel, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? snap_error_os(errno, "cannot talk to a process") : NULL;
}

/* The descriptor of a message, -1 if there is none; more than one never fit. */
static int take_descriptor(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

struct snap_error *snap_wire_receive(int channel, void *bytes, size_t room, size_t *size_ret,
				     int *fd_ret)
{
	struct iovec data = { bytes, room };
	union control control;
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	/* Without room for control data the kernel drops descriptors (unix(7)). */
	if (fd_ret) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	do
		n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != ECONNRESET)
		return snap_error_os(errno, "cannot hear from a process");
	if (n > 0 && fd_ret)
		fd = take_descriptor(&message);
	if (n > 0 && message.msg_flags & MSG_TRUNC)
		return snap_error_format(SNAP_ERROR_FORMAT, "a message that is too long");
	*size_ret = n > 0 ? (size_t)n : 0;
	if (fd_ret)
		*fd_ret = snap_take_fd(&fd);
	return NULL;
}

void snap_wire_pack_error(const struct snap_error *error, struct snap_wire_error *ret)
{
	*ret = (struct snap_wire_error){ 0 };
	if (!error)
		return;
	ret->code = (uint32_t)snap_error_code(error) + 1;
	ret->os_errno = snap_error_errno(error);
	snprintf(ret->message, sizeof(ret->message), "%s", snap_error_message(error));
}

struct snap_error *snap_wire_unpack_error(const struct snap_wire_error *error)
{
	int length = (int)strnlen(error->message, sizeof(error->message) - 1);

	if (error->code == 0)
		return NULL;
	if (error->code - 1 == SNAP_ERROR_NO_MEMORY)
		return snap_error_no_memory();
	if (error->code - 1 == SNAP_ERROR_NOT_FOUND && !length)
		return snap_error_not_found();
	if (error->code - 1 == SNAP_ERROR_CANCELLED)
		return snap_error_cancelled();
	if (error->code - 1 == SNAP_ERROR_OS)
		return snap_error_remote(error->os_errno, length, error->message);
	return snap_error_format(error->code > SNAP_ERROR_CRASHED + 1 ? SNAP_ERROR_OTHER
								      : error->code - 1,
				 "%.*s", length, error->message);
}
