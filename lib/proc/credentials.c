/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The credentials with which a process reads files: see credentials.h. */
#include "proc/credentials.h"

#include "base/reopen.h"

#include <string.h>

/* Its link asks no file system, but waits for an exec since Linux 6.18. */
bool snap_credentials_are_confined(int process_fd)
{
	struct stat its, own;

	return !snap_look(process_fd, "ns/user", &its) ||
	       !snap_look(process_fd, "../self/ns/user", &own) || its.st_ino != own.st_ino ||
	       its.st_dev != own.st_dev;
}

/*
 * The user who runs a setuid or setgid program may have chosen the files that it opens. So that user
 * counts, not the owner of the program. A daemon of root that has put on a user's rights is this user.
 */
void snap_credentials_take(const struct snap_status *status, bool is_confined,
			   struct snap_credentials *ret)
{
	struct snap_credentials credentials = {
		.known = status->uid != (uid_t)-1 && status->gid != (gid_t)-1,
		.uid = status->uid ? status->uid : status->euid,
		.gid = status->gid ? status->gid : status->egid,
		.group_count = status->group_count,
		.is_confined = is_confined,
	};

	memcpy(credentials.groups, status->groups, sizeof(credentials.groups));
	*ret = credentials;
}

void snap_credentials_read(int process_fd, struct snap_credentials *ret)
{
	struct snap_status status;

	*ret = (struct snap_credentials){ .known = false };
	if (process_fd >= 0 && snap_procfs_status(process_fd, &status) == 0)
		snap_credentials_take(&status, snap_credentials_are_confined(process_fd), ret);
}
