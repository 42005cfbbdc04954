/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Birth, messages and end of roles: see role.h. */
#include "roles/role.h"

#include "base/clock.h"
#include "base/priority.h"
#include "base/spawn.h"
#include "proc/procfs.h"
#include "proc/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum {
	PATIENCE_MS = 100,
	HELD_MS = 20, /* for a role that sleeps by then where SIGKILL does not wake it */
	KEPT_DESCRIPTORS = 8,
	TICK_MS = 20,             /* how often the cancel flag and the clock are looked at */
	SEND_TIMEOUT_US = 200000, /* for a role that asks and does not listen to answers */
};

struct birth {
	void (*run)(void *context, int channel);
	void *context;
	int ends[2]; /* the maker's, the role's */
};

static void run_role(void *context)
{
	struct birth *birth = context;

	close(birth->ends[0]);
	snap_priority_lower();
	birth->run(birth->context, birth->ends[1]);
}

struct stacksnap_error *snap_role_spawn(const char *name, void (*run)(void *context, int channel),
					void *context, struct snap_role *ret)
{
	struct birth birth = { .run = run, .context = context };
	const struct timeval patience = { .tv_usec = SEND_TIMEOUT_US };
	struct snap_role role = SNAP_ROLE_NONE;
	struct stacksnap_error *err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, birth.ends) < 0)
		return snap_error_os(errno, "cannot create a channel to a process");
	(void)setsockopt(birth.ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	err = snap_spawn(SNAP_SPAWN_ALLOCATES, name, run_role, &birth, &role.pid, &role.pidfd);
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
	return snap_spawn_has_ended(role->pidfd, timeout_ms);
}

int snap_role_end(struct snap_role *role)
{
	int status = role->pidfd >= 0 ? snap_spawn_end(role->pidfd, 0, HELD_MS) : -1;

	if (role->pidfd >= 0 && !snap_role_has_ended(role, 0) && !snap_procfs_is_blocked(role->pid))
		snap_spawn_end(role->pidfd, 0, PATIENCE_MS - HELD_MS);
	snap_close(&role->pidfd);
	snap_close(&role->channel);
	role->pid = 0;
	return status;
}

void snap_role_outlive_thread(void)
{
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

/*
 * This gives up rights, which the kernel never refuses. Slices exist since Linux 6.12; older
 * kernels ignore them.
 */
void snap_role_leave_priority(uint64_t slice_ns)
{
	struct sched_attr now = { .size = sizeof(now) };
	struct sched_attr plain = { .size = sizeof(plain),
				    .sched_policy = SCHED_NORMAL,
				    .sched_runtime = slice_ns };

	if (syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0)
		return;
	if (now.sched_policy == SCHED_BATCH || now.sched_policy == SCHED_IDLE)
		return;
	if (now.sched_policy == SCHED_NORMAL && now.sched_nice > 0)
		plain.sched_nice = now.sched_nice;
	(void)syscall(SYS_sched_setattr, 0, &plain, 0);
}

void snap_role_come_first(int nice)
{
	struct snap_procfs procfs;

	if (getpriority(PRIO_PROCESS, 0) > 0)
		return;
	(void)setpriority(PRIO_PROCESS, 0, nice);
	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return;
	snap_session_begin(procfs.root_fd, nice);
	snap_procfs_close(&procfs);
}

void snap_role_put_back(const struct snap_role *role)
{
	struct snap_procfs procfs;

	if (getpriority(PRIO_PROCESS, (id_t)role->pid) < 0)
		(void)setpriority(PRIO_PROCESS, (id_t)role->pid, 0);
	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return;
	snap_session_set_nice(procfs.root_fd, role->pid, 0);
	snap_procfs_close(&procfs);
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
	/* Linux 5.9; on older kernels they stay open, which does no harm. */
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

struct stacksnap_error *snap_wire_send(int channel, const void *bytes, size_t size, int fd)
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
	return n < 0 ? snap_error_os(errno, "cannot send to a process") : NULL;
}

/* The descriptor of a message, -1 if there is none; the buffer has room for one only. */
static int take_descriptor(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

struct stacksnap_error *snap_wire_receive(int channel, void *bytes, size_t room, size_t *size_ret,
					  int *fd_ret)
{
	struct iovec data = { bytes, room };
	union control control;
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	_cleanup_fd_ int fd = -1;
	int resets = 0;
	ssize_t n;

	/* Without room for control data the kernel drops descriptors (unix(7)). */
	if (fd_ret) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	/*
	 * That the other end has closed, with a message unread, is said before its last message is
	 * handed out (net/unix/af_unix.c, unix_release_sock()), and only once.
	 */
	do {
		n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (n < 0 && errno != ECONNRESET)
		return snap_error_os(errno, "cannot receive from a process");
	if (n > 0 && fd_ret)
		fd = take_descriptor(&message);
	if (n > 0 && message.msg_flags & MSG_TRUNC)
		return snap_error_format(SNAP_ERROR_FORMAT, "the message is too long");
	*size_ret = n > 0 ? (size_t)n : 0;
	if (fd_ret)
		*fd_ret = snap_take_fd(&fd);
	return NULL;
}

struct stacksnap_error *snap_role_receive(int channel, const struct snap_options *options,
					  int64_t deadline_ns, void *bytes, size_t size,
					  int *fd_ret)
{
	struct pollfd event = { .fd = channel, .events = POLLIN };
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;
	size_t got;

	for (int ready = 0; ready <= 0; ready = poll(&event, 1, TICK_MS)) {
		if (ready < 0 && (errno != EINTR || !options))
			return snap_error_os(errno, "cannot wait for a process");
		if (options && snap_options_cancelled(options))
			return snap_error_cancelled();
		if (deadline_ns && snap_clock_ns(CLOCK_MONOTONIC) > deadline_ns)
			return snap_error_format(SNAP_ERROR_TIMEOUT, "out of time");
	}
	err = snap_wire_receive(channel, bytes, size, &got, fd_ret ? &fd : NULL);
	if (!err && got != size)
		err = snap_error_format(SNAP_ERROR_CRASHED, "no answer");
	if (!err && fd_ret)
		*fd_ret = snap_take_fd(&fd);
	return err;
}

void snap_wire_pack_error(const struct stacksnap_error *error, struct snap_wire_error *ret)
{
	*ret = (struct snap_wire_error){ 0 };
	if (!error)
		return;
	ret->code = (uint32_t)snap_error_code(error) + 1;
	ret->os_errno = snap_error_errno(error);
	if (snap_error_says_more(error))
		snprintf(ret->message, sizeof(ret->message), "%s", snap_error_message(error));
}

struct stacksnap_error *snap_wire_unpack_error(const struct snap_wire_error *error)
{
	int length = (int)strnlen(error->message, sizeof(error->message) - 1);

	if (error->code == 0)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(error->code - 1 != SNAP_ERROR_NO_MEMORY));
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
