/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One process of the tree: that it is still the one that was found, the descriptors that keep its
 * files reachable, and its labels. Reads what procfs tells to anybody first, so that a process
 * that may not be traced is labelled at least.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "discover/internal.h"
#include "proc/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

enum {
	NS_PER_S = 1000000000,
	PASSWD_SIZE = 16384,
	MAX_ANCESTORS = 64,
	LIVE_EACH = 4,
	LEAST_READ = 64, /* processes that are read however late it is */
};

/*
 * What cannot be read for want of a resource is missed in the report, and told; what has gone or is
 * not for us is no surprise.
 */
static void note_missing(struct snap_discovery *run, const struct snap_process *process,
			 const char *what, ssize_t status)
{
	if (status >= 0 || snap_procfs_is_gone(status) || status == -EACCES || status == -EPERM)
		return;
	snap_capture_warn(run->capture, "facts_missing", process->pid, 0,
			  "cannot read the %s of process %d: %s", what, (int)process->pid,
			  strerror((int)-status));
}

int snap_discovery_cgroup(struct snap_discovery *run, int process_fd)
{
	_cleanup_fd_ int fd = snap_procfs_open_file(process_fd, "cgroup");
	char buffer[SNAP_MAX_PATH + 256], *line;
	struct snap_lines lines;
	size_t length;
	int more;

	snap_cgroup_init(&run->cgroup);
	if (fd < 0)
		return fd;
	snap_lines_init(&lines, fd, buffer, sizeof(buffer));
	while ((more = snap_lines_next(&lines, &line, &length)) > 0)
		snap_cgroup_line(&run->cgroup, line, length);
	return more;
}

/* A string of the capture; "" is unknown. False without memory. */
static bool keep_text(struct snap_discovery *run, const char **ret, const char *text, size_t length)
{
	*ret = length ? snap_arena_strndup(&run->capture->arena, text, length) : NULL;
	return *ret || !length;
}

static bool read_groups(struct snap_discovery *run, struct snap_process *process, int fd)
{
	const char *unit;
	size_t length;

	int status = snap_discovery_cgroup(run, fd);

	note_missing(run, process, "control group", status);
	if (status != 0)
		return true;
	unit = snap_cgroup_unit(run->cgroup.path, &length);
	return keep_text(run, &process->unit, unit, length) &&
	       keep_text(run, &process->cgroup, run->cgroup.path, strlen(run->cgroup.path)) &&
	       keep_text(run, &process->container, run->cgroup.container,
			 strlen(run->cgroup.container));
}

static bool read_program(struct snap_discovery *run, struct snap_process *process, int fd,
			 const struct snap_answer *answer)
{
	char path[SNAP_MAX_PATH + 16];
	ssize_t length = snap_procfs_link(fd, "exe", path, sizeof(path));
	size_t path_length = length > 0 ? (size_t)length : 0, cut = path_length;

	process->exe_deleted =
		path_length && snap_cut_deleted(path, &cut) && !answer->exe_called_so;
	if (process->exe_deleted)
		path_length = cut;
	note_missing(run, process, "program", length);
	if (!keep_text(run, &process->exe, path, path_length))
		return false;
	note_missing(run, process, "arguments", answer->args_size);
	process->args_size = answer->args_size > 0 ? (size_t)answer->args_size : 0;
	return keep_text(run, &process->args, answer->args, process->args_size);
}

/*
 * The name service may be slow and read files: once a user, and nobody is stopped meanwhile. It has
 * many ways to say that there is no such user (getpwnam(3)), and few that nobody could be asked.
 */
static const char *user_name(struct snap_discovery *run, const struct snap_process *process,
			     uid_t uid)
{
	char buffer[PASSWD_SIZE];
	struct passwd entry, *found = NULL;
	const char *name = NULL;
	int status;

	if (uid == (uid_t)-1)
		return NULL;
	for (size_t i = 0; i < run->user_count; i++)
		if (run->users[i].uid == uid)
			return run->users[i].name;
	status = getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found);
	if (status == EMFILE || status == ENFILE || status == ENOMEM || status == EIO)
		note_missing(run, process, "user's name", -status);
	if (status == 0 && found)
		name = snap_arena_strdup(&run->capture->arena, found->pw_name);
	if (snap_reserve_array(run->users, run->user_capacity, run->user_count + 1))
		run->users[run->user_count++] = (struct snap_user){ uid, name };
	return name;
}

static void read_status(struct snap_discovery *run, struct snap_process *process, int fd)
{
	struct snap_status status;
	int result = snap_procfs_status(fd, &status);

	process->uid = (uid_t)-1;
	note_missing(run, process, "owner", result);
	if (result != 0)
		return;
	process->uid = status.uid;
	process->user = user_name(run, process, status.uid);
	snap_credentials_take(fd, &status, &process->credentials);
	process->ns_pid = status.ns_pid;
	process->is_namespace_init = status.ns_pid == 1;
	process->in_host_namespace = status.ns_depth == 1;
}

/* ESRCH if it is gone, also if its number belongs to another process by now. */
static int read_stat(struct snap_discovery *run, struct snap_process *process, int fd,
		     struct snap_stat *stat)
{
	const struct snap_host *host = &run->capture->host;
	uint64_t tick_ns = (uint64_t)(NS_PER_S / host->ticks_per_second), since_boot;
	int status = snap_procfs_stat(fd, stat);
	size_t length;

	if (status != 0)
		return status;
	if (stat->start_ticks != process->start_ticks)
		return -ESRCH;
	length = strlen(stat->name);
	process->state = stat->state;
	process->flags = stat->flags;
	if (length && strcmp(process->name ? process->name : "", stat->name) != 0)
		process->name = snap_arena_strndup(&run->capture->arena, stat->name, length);
	if (!__builtin_mul_overflow(stat->start_ticks, tick_ns, &since_boot) &&
	    since_boot < INT64_MAX / 2)
		process->start_time_ns = host->boot_time_ns + (int64_t)since_boot;
	return 0;
}

static struct stacksnap_error *keep_ancestors(struct snap_discovery *run,
					      struct snap_process *process,
					      const struct snap_ancestor *ancestors, size_t count)
{
	if (!count)
		return NULL;
	process->ancestors =
		snap_arena_memdup(&run->capture->arena, ancestors, count * sizeof(*ancestors));
	if (!process->ancestors)
		return snap_error_no_memory();
	process->ancestor_count = count;
	return NULL;
}

/* A parent in the tree has been read already: it and what is above it, in the same cgroup. */
static struct stacksnap_error *inherit_ancestors(struct snap_discovery *run,
						 struct snap_process *process)
{
	const struct snap_process *parent = &run->capture->processes[process->parent];
	struct snap_ancestor ancestors[MAX_ANCESTORS];
	size_t count = parent->ancestor_count;

	if (!parent->cgroup || strcmp(parent->cgroup, process->cgroup) != 0)
		return NULL;
	if (count > MAX_ANCESTORS - 1)
		count = MAX_ANCESTORS - 1;
	ancestors[0] = (struct snap_ancestor){ parent->pid, parent->name, parent->start_ticks };
	for (size_t i = 0; i < count; i++)
		ancestors[i + 1] = parent->ancestors[i];
	return keep_ancestors(run, process, ancestors, count + 1);
}

static bool same_cgroup(struct snap_discovery *run, pid_t pid, const char *cgroup)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(run->procfs, pid);

	return fd >= 0 && snap_discovery_cgroup(run, fd) == 0 &&
	       strcmp(run->cgroup.path, cgroup) == 0;
}

static struct stacksnap_error *read_ancestors(struct snap_discovery *run,
					      struct snap_process *process)
{
	struct snap_ancestor ancestors[MAX_ANCESTORS];
	uint64_t youngest = process->start_ticks;
	pid_t pid = process->ppid;
	size_t count = 0;

	if (!process->cgroup)
		return NULL;
	if (process->parent != SIZE_MAX)
		return inherit_ancestors(run, process);
	while (pid > 0 && count < MAX_ANCESTORS) {
		struct snap_seen *seen;
		struct stacksnap_error *err;
		const char *name;

		err = snap_seen_add(&run->table, pid, &seen);
		if (err)
			return err;
		if (!seen || seen->blank || seen->stat.start_ticks > youngest ||
		    !same_cgroup(run, pid, process->cgroup))
			break;
		name = snap_arena_strdup(&run->capture->arena, seen->stat.name);
		if (!name)
			return snap_error_no_memory();
		youngest = seen->stat.start_ticks;
		ancestors[count++] = (struct snap_ancestor){ pid, name, youngest };
		pid = seen->stat.ppid == pid ? 0 : seen->stat.ppid;
	}
	return keep_ancestors(run, process, ancestors, count);
}

/* It is there, or was a moment ago: nobody may take it for one that has exited. */
static void mark_unread(struct snap_discovery *run, struct snap_process *process, int error)
{
	bool denied = error == EACCES || error == EPERM;

	snap_process_set_trouble(run->capture, process,
				 denied ? SNAP_TROUBLE_PERMISSION_DENIED : SNAP_TROUBLE_INTERNAL,
				 "cannot read process %d: %s", (int)process->pid, strerror(error));
}

static void mark_vanished(struct snap_discovery *run, struct snap_process *process)
{
	process->vanished = true;
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_EXITED,
				 "process %d exited while it was read", (int)process->pid);
}

static void mark_silent(struct snap_discovery *run, struct snap_process *process,
			enum snap_ask_stage stage)
{
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_NOT_RESPONDING,
				 "process %d does not respond: %s took longer than %d ms",
				 (int)process->pid,
				 stage == SNAP_ASK_PROGRAM ? "looking for the file of its program"
							   : "reading its arguments",
				 snap_asker_patience_ms(run->asker));
}

/* A leader that has exited before its threads is a zombie too, but its process lives. */
static bool has_left(const struct snap_stat *stat)
{
	return (stat->state == 'Z' || stat->state == 'X') && stat->threads > 1;
}

static bool is_zombie(const struct snap_stat *stat)
{
	return (stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1;
}

bool snap_process_explain_state(struct snap_capture *capture, struct snap_process *process,
				const struct snap_stat *stat)
{
	int pid = (int)process->pid;

	if (is_zombie(stat))
		snap_process_set_trouble(
			capture, process, SNAP_TROUBLE_ZOMBIE,
			"process %d has exited and its parent %d has not reaped it yet (zombie)",
			pid, (int)stat->ppid);
	else if (stat->flags & SNAP_PF_KTHREAD)
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_KERNEL_THREAD,
					 "%d is a kernel thread and has no user stacks", pid);
	else
		return false;
	return true;
}

static bool has_exited(int pidfd)
{
	struct pollfd wait = { .fd = pidfd, .events = POLLIN };

	return poll(&wait, 1, 0) > 0;
}

/* Opened once and kept: through these the files of a process are found when it has gone. */
static void keep_live(struct snap_discovery *run, struct snap_live *live, bool whole, int fd,
		      int files_fd)
{
	int from = files_fd < 0 ? fd : files_fd;

	live->proc_fd = fd;
	live->files_fd = files_fd;
	run->live_budget -= 1 + (files_fd >= 0);
	if (!whole)
		return;
	live->root_fd = openat(from, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	live->exe_fd = openat(from, "exe", O_PATH | O_CLOEXEC);
	run->live_budget -= LIVE_EACH - 1;
	run->whole_budget -= LIVE_EACH;
}

/* `files_fd`: a thread that the leader left behind tells what the leader cannot any more, or -1. */
static struct stacksnap_error *read_labels(struct snap_discovery *run, struct snap_process *process,
					   int fd, int files_fd, const struct snap_answer *answer)
{
	int from = files_fd < 0 ? fd : files_fd;

	read_status(run, process, fd);
	if (!read_groups(run, process, from))
		return snap_error_no_memory();
	if (!(process->flags & SNAP_PF_KTHREAD) && !read_program(run, process, from, answer))
		return snap_error_no_memory();
	return read_ancestors(run, process);
}

/*
 * Identity: the scan saw a start time, then the pidfd and the directory are opened, then the start
 * time is read through the directory. If both are equal, all of these are the same process.
 */
static struct stacksnap_error *read_process(struct snap_discovery *run,
					    struct snap_process *process, struct snap_live *live,
					    const struct snap_answer *answer)
{
	bool whole = run->procfs->live && run->whole_budget >= LIVE_EACH;
	_cleanup_fd_ int fd = -1, files_fd = -1;
	struct snap_stat stat;
	struct stacksnap_error *err;
	char state = 0;
	int status;

	if (whole)
		live->pidfd = pidfd_open(process->pid, 0);
	fd = snap_procfs_open_process(run->procfs, process->pid);
	status = fd < 0 ? fd : read_stat(run, process, fd, &stat);
	if (status == -EMFILE || status == -ENFILE || status == -ENOMEM)
		return snap_error_os(-status, "cannot read process %d", (int)process->pid);
	if (status != 0) {
		snap_close(&live->pidfd);
		if (snap_procfs_is_gone(status))
			mark_vanished(run, process);
		else
			mark_unread(run, process, -status);
		return NULL;
	}
	if (has_left(&stat))
		files_fd = snap_procfs_open_survivor(run->procfs, fd, &state);
	err = read_labels(run, process, fd, files_fd, answer);
	if (err)
		return err;
	/* What cannot be read now is still as it was read before. */
	if ((live->pidfd < 0 || has_exited(live->pidfd)) &&
	    snap_procfs_is_gone(read_stat(run, process, fd, &stat)))
		mark_vanished(run, process);
	else if (!snap_process_explain_state(run->capture, process, &stat) &&
		 answer->kind == SNAP_ANSWER_LATE)
		mark_silent(run, process, answer->stage);
	/* A process is in the state of its leader, or of who is left of it. */
	if (files_fd >= 0 && process->trouble == SNAP_TROUBLE_NONE)
		process->state = state;
	if (run->live_budget <= 0 || process->trouble != SNAP_TROUBLE_NONE)
		snap_close(&live->pidfd);
	else
		keep_live(run, live, whole, snap_take_fd(&fd), snap_take_fd(&files_fd));
	return NULL;
}

static bool take_known(struct snap_discovery *run, struct snap_process *process)
{
	const struct snap_process *known =
		snap_discovery_known(run, process->pid, process->start_ticks);
	size_t parent = process->parent;
	pid_t ppid = process->ppid;

	if (!known)
		return false;
	*process = *known;
	process->parent = parent;
	process->ppid = ppid;
	return true;
}

static bool is_to_be_asked(const struct snap_discovery *run, const struct snap_process *process)
{
	return process->trouble == SNAP_TROUBLE_NONE && !(process->flags & SNAP_PF_KTHREAD) &&
	       !snap_discovery_known(run, process->pid, process->start_ticks);
}

static struct stacksnap_error *need_asker(struct snap_discovery *run)
{
	struct stacksnap_error *err = NULL;

	if (!run->asker) {
		err = snap_asker_new_on(run->procfs, 0, &run->asker);
		run->owns_asker = !err;
	}
	return err;
}

/* From now on; 0: there is no hurry. */
static int64_t facts_until(const struct snap_discovery *run)
{
	return run->facts_ns ? snap_clock_ns(CLOCK_MONOTONIC) + run->facts_ns : 0;
}

static void mark_out_of_time(struct snap_discovery *run, struct snap_process *process)
{
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_OUT_OF_TIME,
				 "process %d was not looked at: there are too many for the time of "
				 "the run (see --timeout)",
				 (int)process->pid);
}

/* All that are new, in one list: many that do not respond cost the time of one. */
static struct stacksnap_error *ask_new_processes(struct snap_discovery *run)
{
	const struct snap_capture *capture = run->capture;
	size_t count = 0;

	for (size_t i = run->facts_count; i < capture->process_count; i++) {
		struct stacksnap_error *err;

		if (!is_to_be_asked(run, &capture->processes[i]))
			continue;
		err = count ? NULL : need_asker(run);
		if (err)
			return err;
		if (!count++)
			snap_asker_begin(run->asker, capture->process_count - run->facts_count);
		snap_asker_add(run->asker, capture->processes[i].pid);
	}
	if (count)
		snap_asker_run(run->asker, run->ask_ns, facts_until(run));
	return NULL;
}

static void warn_not_asked(struct snap_discovery *run, size_t count)
{
	if (count)
		snap_capture_warn(run->capture, "facts_missing", 0, 0,
				  "cannot read the arguments of %zu processes in time", count);
}

/* Nobody had time to ask it, and somebody will. */
static bool will_be_asked_later(const struct snap_discovery *run, const struct snap_answer *answer)
{
	return answer->kind == SNAP_ANSWER_NOT_ASKED && run->known && run->known->facts_ns;
}

struct stacksnap_error *snap_discovery_facts(struct snap_discovery *run)
{
	struct snap_capture *capture = run->capture;
	size_t asked = 0, not_asked = 0, read = 0;
	struct stacksnap_error *err;
	int64_t until_ns;

	err = ask_new_processes(run);
	if (err)
		return err;
	until_ns = facts_until(run);
	for (; run->facts_count < capture->process_count; run->facts_count++) {
		struct snap_process *process = &capture->processes[run->facts_count];
		struct snap_answer answer = { .kind = SNAP_ANSWER_GIVEN };

		if (snap_options_cancelled(run->options))
			return snap_error_cancelled();
		if (is_to_be_asked(run, process))
			answer = snap_asker_answer(run->asker, asked++);
		if (process->trouble != SNAP_TROUBLE_NONE || take_known(run, process))
			continue;
		if (until_ns && read++ >= LEAST_READ &&
		    (snap_clock_ns(CLOCK_MONOTONIC) >= until_ns ||
		     will_be_asked_later(run, &answer))) {
			mark_out_of_time(run, process);
			continue;
		}
		not_asked += answer.kind == SNAP_ANSWER_NOT_ASKED;
		err = read_process(run, process, &capture->live[run->facts_count], &answer);
		if (err)
			return err;
	}
	warn_not_asked(run, not_asked);
	return NULL;
}
