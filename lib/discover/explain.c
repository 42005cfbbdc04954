/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why a process may not be traced: see discover.h and explain.h. The kernel returns EPERM for a
 * dozen reasons. This file distinguishes them by the kernel's own checks, in its order
 * (ptrace_attach and __ptrace_may_access in kernel/ptrace.c, then the security modules).
 */
#include "discover/explain.h"

#include "discover/discover.h"
#include "discover/internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>

enum { MAX_REASON = 512, MAX_USER = 64, MAX_TASKS = 1024, MAX_ID_MAP = 4096 };

/* `asker`: for the reads that a process can block; NULL: we make them. */
struct asking {
	const struct snap_procfs *procfs;
	struct snap_asker *asker;
};

static const char get_right[] = "run as root or with the capability CAP_SYS_PTRACE";
/* Inside of containers root usually lacks the capability. */
static const char get_right_root[] = "root lacks the capability CAP_SYS_PTRACE here; in a "
				     "container add SYS_PTRACE";

static const char *remedy(const struct snap_refusal *refusal)
{
	return refusal->own.euid == 0 ? get_right_root : get_right;
}

static bool all_ids_are(uid_t id, uid_t real, uid_t effective, uid_t saved)
{
	return id == real && id == effective && id == saved;
}

static bool same_user(const struct snap_refusal *refusal)
{
	const struct snap_status *target = &refusal->target;

	return all_ids_are(refusal->own.uid, target->uid, target->euid, target->suid);
}

static bool same_group(const struct snap_refusal *refusal)
{
	const struct snap_status *target = &refusal->target;

	return all_ids_are(refusal->own.gid, target->gid, target->egid, target->sgid);
}

static const char *user_words(const char *name, uid_t uid, char text[MAX_USER])
{
	if (name && strlen(name) < MAX_USER / 2)
		snprintf(text, MAX_USER, "user %s", name);
	else
		snprintf(text, MAX_USER, "user %u", (unsigned)uid);
	return text;
}

static void other_user_words(const struct snap_refusal *refusal, char *out, size_t size)
{
	char own[MAX_USER], target[MAX_USER];

	if (refusal->own.uid == refusal->target.uid)
		snprintf(out, size, "it has changed its user ids (set-user-ID); %s",
			 remedy(refusal));
	else
		snprintf(out, size, "it belongs to %s, stacksnap runs as %s; %s",
			 user_words(refusal->target_user, refusal->target.uid, target),
			 user_words(refusal->own_user, refusal->own.uid, own), remedy(refusal));
}

static void security_module_words(const struct snap_refusal *refusal, char *out, size_t size)
{
	if (refusal->own.seccomp)
		snprintf(out, size,
			 "the seccomp filter under which stacksnap runs, or a security "
			 "module, forbids it; in a container add SYS_PTRACE");
	else
		snprintf(out, size,
			 "a security module forbids it, as the kernel log may say, or another "
			 "tracer held it for a moment");
}

void snap_refusal_words(const struct snap_refusal *refusal, char *out, size_t size)
{
	bool all = refusal->own.effective >> CAP_SYS_PTRACE & 1;

	if (refusal->yama == 3)
		snprintf(out, size,
			 "kernel.yama.ptrace_scope is 3: tracing is disabled until a reboot with "
			 "another setting");
	else if (refusal->other_user_ns && all)
		snprintf(out, size,
			 "it is in a user namespace that is not a descendant of stacksnap's; run "
			 "stacksnap in that namespace or in an ancestor of it");
	else if (!all && !same_user(refusal))
		other_user_words(refusal, out, size);
	else if (!all && !same_group(refusal))
		snprintf(out, size, "its group ids differ from those of stacksnap; %s",
			 remedy(refusal));
	else if (!all && refusal->file_owner != (uid_t)-1 &&
		 refusal->file_owner != refusal->target.euid)
		snprintf(out, size,
			 "it is not dumpable, as programs with secrets or extra rights "
			 "are; %s",
			 remedy(refusal));
	else if (!all && refusal->other_user_ns)
		snprintf(out, size, "it is in another user namespace; %s", remedy(refusal));
	else if (!all && refusal->target.permitted & ~refusal->own.permitted)
		snprintf(out, size, "it has capabilities that stacksnap lacks; %s",
			 remedy(refusal));
	else if (!all && refusal->yama > 0)
		snprintf(out, size, "kernel.yama.ptrace_scope is %d; %s%s", refusal->yama,
			 remedy(refusal), refusal->yama == 1 ? ", or set it to 0" : "");
	else
		security_module_words(refusal, out, size);
}

static int read_yama(const struct snap_procfs *procfs)
{
	char text[16];
	ssize_t length =
		snap_procfs_system_read(procfs, "sys/kernel/yama/ptrace_scope", text, sizeof(text));

	return length > 0 && text[0] >= '0' && text[0] <= '3' ? text[0] - '0' : -1;
}

/*
 * For a process that may not be traced the link ns/user cannot be read, but the map of its users
 * can. A namespace that maps every user to itself looks like ours: then another rule is named.
 */
static bool is_other_user_ns(const struct snap_procfs *procfs, int process_fd)
{
	_cleanup_fd_ int own_fd = snap_procfs_open_process(procfs, snap_procfs_self(procfs));
	char own[MAX_ID_MAP], target[MAX_ID_MAP];

	if (own_fd < 0 || snap_procfs_read(own_fd, "uid_map", own, sizeof(own)) < 0 ||
	    snap_procfs_read(process_fd, "uid_map", target, sizeof(target)) < 0)
		return false;
	return strcmp(own, target) != 0;
}

static const char *user_of(uid_t uid, char *buffer, size_t size)
{
	struct passwd entry, *found = NULL;

	return getpwuid_r(uid, &entry, buffer, size, &found) == 0 && found ? found->pw_name : NULL;
}

static void explain_refusal(const struct snap_procfs *procfs, int process_fd,
			    const struct snap_status *target, bool has_left,
			    char reason[MAX_REASON])
{
	struct snap_refusal refusal = { .target = *target, .file_owner = (uid_t)-1 };
	char own_buffer[2048], target_buffer[2048], state;
	_cleanup_fd_ int files_fd =
		has_left ? snap_procfs_open_survivor(procfs, process_fd, &state) : -1;

	snap_status_init(&refusal.own);
	if (snap_procfs_task_status(procfs->root_fd, snap_procfs_self(procfs), &refusal.own) != 0)
		refusal.own.uid = getuid();
	/* The files of a leader that has exited belong to root, dumpable or not. */
	if (snap_procfs_owner(files_fd < 0 ? process_fd : files_fd, "stat", &refusal.file_owner))
		refusal.file_owner = (uid_t)-1;
	refusal.own_user = user_of(refusal.own.uid, own_buffer, sizeof(own_buffer));
	refusal.target_user = user_of(target->uid, target_buffer, sizeof(target_buffer));
	refusal.yama = read_yama(procfs);
	refusal.other_user_ns = is_other_user_ns(procfs, process_fd);
	snap_refusal_words(&refusal, reason, MAX_REASON);
}

static int read_refused_stat(const struct asking *asking, pid_t pid, struct snap_stat *ret)
{
	return asking->asker ? snap_asker_stat(asking->asker, pid, ret)
			     : snap_procfs_task_stat(asking->procfs->root_fd, pid, ret);
}

/* Whether the tracer is the tracing child of this run. */
static bool is_own_tracer(const struct asking *asking, pid_t tracer)
{
	struct snap_stat stat;
	pid_t self = snap_procfs_self(asking->procfs);

	return tracer == self || (read_refused_stat(asking, tracer, &stat) == 0 &&
				  stat.ppid == self && stat.exit_signal == 0);
}

/* A foreign tracer of any of the threads; 0: there is none. */
static pid_t find_tracer(const struct asking *asking, int process_fd)
{
	_cleanup_fd_ int tasks_fd = snap_procfs_open_tasks(process_fd);
	pid_t tids[MAX_TASKS];
	ssize_t count = tasks_fd < 0 ? 0 : snap_procfs_list(tasks_fd, tids, MAX_TASKS);

	for (ssize_t i = 0; i < count && i < MAX_TASKS; i++) {
		struct snap_status status;

		if (snap_procfs_task_status(tasks_fd, tids[i], &status) == 0 &&
		    status.tracer_pid > 0 && !is_own_tracer(asking, status.tracer_pid))
			return status.tracer_pid;
	}
	return 0;
}

static void explain_tracer(struct snap_capture *capture, struct snap_process *process,
			   const struct asking *asking, pid_t tracer)
{
	struct snap_stat stat = { .name = "" };
	int status = read_refused_stat(asking, tracer, &stat);

	snap_process_set_trouble(
		capture, process, SNAP_TROUBLE_ALREADY_TRACED,
		"cannot trace %d: already traced by %d%s%s%s; end that tracer first",
		(int)process->pid, (int)tracer, status == 0 ? " (" : "", stat.name,
		status == 0 ? ")" : "");
}

static void explain_exit(struct snap_capture *capture, struct snap_process *process)
{
	process->vanished = true;
	snap_process_set_trouble(capture, process, SNAP_TROUBLE_EXITED,
				 "process %d exited before it could be stopped", (int)process->pid);
}

static void explain_silence(struct snap_capture *capture, struct snap_process *process)
{
	snap_process_set_trouble(capture, process, SNAP_TROUBLE_NOT_RESPONDING,
				 "process %d does not respond: reading its state took too long",
				 (int)process->pid);
}

static void explain_with(struct snap_capture *capture, struct snap_process *process, int os_errno,
			 const struct asking *asking)
{
	const struct snap_procfs *procfs = asking->procfs;
	_cleanup_fd_ int fd = snap_procfs_open_process(procfs, process->pid);
	char reason[MAX_REASON], text[128];
	struct snap_status status;
	int error = fd < 0 ? fd : 0;
	struct snap_stat stat;
	pid_t tracer;

	if (!error)
		error = read_refused_stat(asking, process->pid, &stat);
	if (error == -ETIMEDOUT) {
		explain_silence(capture, process);
		return;
	}
	if (error || stat.start_ticks != process->start_ticks ||
	    snap_procfs_status(fd, &status) != 0) {
		explain_exit(capture, process);
		return;
	}
	if (snap_process_explain_state(capture, process, &stat))
		return;
	tracer = find_tracer(asking, fd);
	if (tracer) {
		explain_tracer(capture, process, asking, tracer);
		return;
	}
	/* The kernel returns EPERM also for a process that has begun to exit. */
	if (os_errno == ESRCH || (stat.flags & SNAP_PF_EXITING && stat.threads <= 1)) {
		explain_exit(capture, process);
		return;
	}
	if (os_errno == EPERM || os_errno == EACCES) {
		explain_refusal(procfs, fd, &status, stat.state == 'Z', reason);
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_PERMISSION_DENIED,
					 "cannot trace %d: %s (%s)", (int)process->pid,
					 strerror_r(os_errno, text, sizeof(text)), reason);
		return;
	}
	snap_process_set_trouble(capture, process, SNAP_TROUBLE_INTERNAL, "cannot trace %d: %s",
				 (int)process->pid, strerror_r(os_errno, text, sizeof(text)));
}

void snap_discover_explain(struct snap_capture *capture, struct snap_process *process,
			   struct snap_asker *asker, int os_errno)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct stacksnap_error *err = snap_procfs_open(NULL, &procfs);
	const struct asking asking = { &procfs, asker };

	if (!err) {
		explain_with(capture, process, os_errno, &asking);
		return;
	}
	snap_process_set_trouble(capture, process, SNAP_TROUBLE_INTERNAL, "cannot trace %d: %s",
				 (int)process->pid, snap_error_message(err));
	snap_error_destroy(err);
}
