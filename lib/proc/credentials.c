/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The credentials with which a process reads files: see credentials.h. */
#include "proc/credentials.h"

#include "base/reopen.h"

#include <linux/capability.h>
#include <string.h>

/* Root without them, as in a container, may read what the modes of files permit it. */
static const uint64_t passes_modes = 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH;

/* Its link asks no file system, but waits for an exec since Linux 6.18. */
static bool is_in_other_user_namespace(int task_fd)
{
	struct stat its, own;

	if (!snap_look(task_fd, "ns/user", &its) ||
	    (!snap_look(task_fd, "../self/ns/user", &own) &&
	     !snap_look(task_fd, "../../../self/ns/user", &own)))
		return true;
	return its.st_ino != own.st_ino || its.st_dev != own.st_dev;
}

/*
 * The user who runs a setuid or setgid program may have chosen the files that it opens. So that user
 * counts, not the owner of the program. A daemon of root that has put on a user's rights is this user.
 */
static struct snap_credentials credentials_now(int task_fd)
{
	struct snap_credentials now = { .known = false };
	struct snap_status status;

	if (snap_procfs_status(task_fd, &status) || status.uid == (uid_t)-1 ||
	    status.gid == (gid_t)-1)
		return now;
	now.known = true;
	now.uid = status.uid ? status.uid : status.euid;
	now.gid = status.gid ? status.gid : status.egid;
	now.group_count = status.group_count;
	memcpy(now.groups, status.groups, status.group_count * sizeof(*now.groups));
	now.is_confined = !(status.effective & passes_modes) || is_in_other_user_namespace(task_fd);
	return now;
}

/* 0: it has none, or is in the middle of an exec. */
static uint64_t program_now(int task_fd)
{
	struct snap_stat stat;

	return snap_procfs_stat(task_fd, &stat) == 0 ? stat.program : 0;
}

void snap_credentials_begin(int task_fd, struct snap_credentials *ret)
{
	uint64_t program = program_now(task_fd);

	*ret = credentials_now(task_fd);
	ret->program = program;
}

bool snap_credentials_hold(int task_fd, const struct snap_credentials *credentials)
{
	const struct snap_credentials now = credentials_now(task_fd);

	return credentials->known && now.known && now.uid == credentials->uid &&
	       now.gid == credentials->gid && now.is_confined == credentials->is_confined &&
	       now.group_count == credentials->group_count &&
	       memcmp(now.groups, credentials->groups, now.group_count * sizeof(*now.groups)) ==
		       0 &&
	       credentials->program && program_now(task_fd) == credentials->program;
}
