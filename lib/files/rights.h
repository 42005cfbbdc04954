/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rights: the credentials with which files are opened.
 *
 * What a target named is opened as the target's user, by the kernel's own rules, so nothing is read
 * for him that he could not read himself. Where we may not become him, our own rights count, and
 * those capabilities that pass over owners and modes are put aside. Knows nothing of which file it
 * is.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"

#include <linux/capability.h>
#include <sys/stat.h>

/* Ours, of this thread, to return to. */
struct snap_rights {
	uid_t uid; /* for files (setfsuid(2)) */
	gid_t gid;
	gid_t *groups; /* malloc'ed */
	size_t group_count;
	struct __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3];
	bool is_other; /* not as they were */
};

struct stacksnap_error *snap_rights_init(struct snap_rights *rights) _must_check_;
/* The thread has its own rights again before. */
void snap_rights_deinit(struct snap_rights *rights);

/* Of a process whose credentials are not known: those of no user, in no group. */
struct snap_credentials snap_rights_of(const struct snap_process *process);
/*
 * For what a saved file names: those of its owner, in no group. Not known if others may have written
 * it, too: root's pipes carry what others wrote.
 */
struct snap_credentials snap_rights_of_owner(int fd);

/*
 * From here on the thread opens files as `who`, until snap_rights_return(). False: we may not take
 * on this user; then our own rights count, without CAP_DAC_*, and snap_rights_allow() is to be
 * asked.
 */
bool snap_rights_become(struct snap_rights *rights, const struct snap_credentials *who);
/* Our own, without CAP_DAC_* unless we are root. */
void snap_rights_confine(struct snap_rights *rights);
void snap_rights_return(struct snap_rights *rights);

/* Whether such a file may be read by `who`, as its mode tells. */
bool snap_rights_allow(const struct snap_credentials *who, const struct stat *info);
