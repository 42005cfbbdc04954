/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The labels of one process: control group, program and arguments, user, ancestors. Every user may
 * read these files, and no process can block the reads; a worker has made those that a process can
 * block.
 */
#include "base/buffer.h"
#include "discover/internal.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_SIZE = 16384, MAX_ANCESTORS = 64 };

/*
 * Warns of a fact that is missing for want of a resource. A process that has gone, or that may not
 * be read, is no surprise.
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

/*
 * Whether all folders of a path are of root or the caller: one that was given to another user
 * (Delegate= in systemd.resource-control(5)) belongs to that user. The kernel answers from its memory.
 */
static bool is_containers_place_safe(const char *place)
{
	char path[SNAP_MAX_PATH + 64];
	bool is_unified = place[1] == '/';
	size_t root;
	struct stat folder;

	for (int i = 0; i <= is_unified; i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s",
			 is_unified && !i ? "/unified" : "", place + is_unified);
		root = strlen(path) - strlen(strchr(place + 1, '/') ?: "");
		for (; stat(path, &folder) == 0; *strrchr(path, '/') = '\0')
			if (folder.st_uid != 0 && folder.st_uid != geteuid())
				return false;
			else if (strlen(path) <= root)
				return true;
	}
	return !strstr(place, "/user@");
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
	if (run->cgroup.container[0] && run->procfs->live &&
	    !is_containers_place_safe(run->cgroup.place))
		snap_cgroup_name_owner(&run->cgroup);
	return more;
}

/* A string of the capture; "" is unknown. False without memory. */
static bool keep_label_text(struct snap_discovery *run, const char **ret, const char *text,
			    size_t length)
{
	*ret = length ? snap_arena_strndup(&run->capture->arena, text, length) : NULL;
	return *ret || !length;
}

/* By the time namespace of its children, which is another one between unshare(2) and execve(2). */
static bool has_other_clocks(struct snap_discovery *run, int fd)
{
	char text[sizeof(run->clocks)];

	if (!run->clocks[0] && snap_procfs_read(run->procfs->root_fd, "self/timens_offsets",
						run->clocks, sizeof(run->clocks)) <= 0)
		return false;
	return snap_procfs_read(fd, "timens_offsets", text, sizeof(text)) > 0 &&
	       strcmp(text, run->clocks) != 0;
}

bool snap_discovery_read_groups(struct snap_discovery *run, struct snap_process *process, int fd)
{
	const char *unit;
	size_t length;

	int status = snap_discovery_cgroup(run, fd);

	note_missing(run, process, "control group", status);
	if (status != 0)
		return true;
	unit = snap_cgroup_unit(run->cgroup.path, &length);
	process->has_other_clocks = has_other_clocks(run, fd);
	return keep_label_text(run, &process->unit, unit, length) &&
	       keep_label_text(run, &process->cgroup, run->cgroup.path, strlen(run->cgroup.path)) &&
	       keep_label_text(run, &process->container, run->cgroup.container,
			       strlen(run->cgroup.container));
}

bool snap_discovery_keep_program(struct snap_discovery *run, struct snap_process *process,
				 const struct snap_answer *answer)
{
	size_t length = answer->exe_size > 0 ? (size_t)answer->exe_size : 0, cut = length;

	process->exe_deleted =
		length && snap_cut_deleted(answer->exe, &cut) && !answer->exe_called_so;
	if (process->exe_deleted)
		length = cut;
	note_missing(run, process, "program", answer->exe_size);
	if (!keep_label_text(run, &process->exe, answer->exe, length))
		return false;
	note_missing(run, process, "arguments", answer->args_size);
	process->args_size = answer->args_size > 0 ? (size_t)answer->args_size : 0;
	return keep_label_text(run, &process->args, answer->args, process->args_size);
}

/*
 * The name service may be slow and read files: it is asked once for each user, while no process is
 * stopped. Many errors mean that there is no such user (getpwnam(3)), and few that the service
 * could not be asked.
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

void snap_discovery_read_owner(struct snap_discovery *run, struct snap_process *process, int fd)
{
	struct snap_status status;
	int result = snap_procfs_status(fd, &status);

	process->uid = (uid_t)-1;
	note_missing(run, process, "owner", result);
	if (result != 0)
		return;
	process->uid = status.uid;
	process->user = user_name(run, process, status.uid);
	process->ns_pid = status.ns_pid;
	process->is_namespace_init = status.ns_pid == 1;
	process->in_host_namespace = status.ns_depth == 1;
}

static struct stacksnap_error *keep_ancestors(struct snap_discovery *run,
					      struct snap_process *process,
					      const struct snap_ancestor *ancestors, size_t count)
{
	if (!count)
		return NULL;
	process->ancestors =
		snap_arena_memdup(&run->capture->arena, ancestors, count * sizeof(*ancestors));
	SNAP_TRY(snap_no_memory_unless(process->ancestors));
	process->ancestor_count = count;
	return NULL;
}

/*
 * Takes ancestors from a parent in the tree, which has been read already, if it is in the same
 * cgroup.
 */
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

struct stacksnap_error *snap_discovery_read_ancestors(struct snap_discovery *run,
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
		const char *name;

		SNAP_TRY(snap_seen_add(&run->table, pid, &seen));
		if (!seen || seen->blank || seen->stat.start_ticks > youngest ||
		    !same_cgroup(run, pid, process->cgroup))
			break;
		name = snap_arena_strdup(&run->capture->arena, seen->stat.name);
		SNAP_TRY(snap_no_memory_unless(name));
		youngest = seen->stat.start_ticks;
		ancestors[count++] = (struct snap_ancestor){ pid, name, youngest };
		pid = seen->stat.ppid == pid ? 0 : seen->stat.ppid;
	}
	return keep_ancestors(run, process, ancestors, count);
}
