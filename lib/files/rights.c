/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The credentials with which files are opened: see rights.h.
 *
 * All by system calls: the functions of the C library change the rights of every thread.
 */
#include "files/rights.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what this thread has ---- */

static struct __user_cap_header_struct own_header(void)
{
	return (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
}

/* An id that is none changes nothing, and the call returns what was. */
static uid_t current_uid(void)
{
	return (uid_t)syscall(SYS_setfsuid, (uid_t)-1);
}

static gid_t current_gid(void)
{
	return (gid_t)syscall(SYS_setfsgid, (gid_t)-1);
}

static bool take_uid(uid_t uid)
{
	syscall(SYS_setfsuid, uid);
	return current_uid() == uid;
}

static bool take_gid(gid_t gid)
{
	syscall(SYS_setfsgid, gid);
	return current_gid() == gid;
}

static bool take_capabilities(const struct __user_cap_data_struct *capabilities)
{
	struct __user_cap_header_struct header = own_header();

	return syscall(SYS_capset, &header, capabilities) == 0;
}

struct stacksnap_error *snap_rights_init(struct snap_rights *rights)
{
	struct __user_cap_header_struct header = own_header();
	struct snap_rights own = { .uid = current_uid(), .gid = current_gid() };
	int count = getgroups(0, NULL);

	if (count < 0 || syscall(SYS_capget, &header, own.capabilities) != 0)
		return snap_error_os(errno, "cannot read the rights of this process");
	own.groups = calloc((size_t)count + 1, sizeof(*own.groups));
	SNAP_TRY(snap_no_memory_unless(own.groups));
	count = getgroups(count, own.groups);
	own.group_count = count > 0 ? (size_t)count : 0;
	*rights = own;
	return NULL;
}

void snap_rights_deinit(struct snap_rights *rights)
{
	free(rights->groups);
	*rights = (struct snap_rights){ .uid = (uid_t)-1 };
}

/* ---- others ---- */

struct snap_credentials snap_rights_of(const struct snap_process *process)
{
	struct snap_credentials who = process->credentials;

	if (!who.known)
		who = (struct snap_credentials){ .is_confined = true,
						 .uid = SNAP_OVERFLOW_ID,
						 .gid = SNAP_OVERFLOW_ID };
	return who;
}

struct snap_credentials snap_rights_of_owner(int fd)
{
	struct stat info;
	mode_t others;

	if (fstat(fd, &info) < 0 || (!S_ISREG(info.st_mode) && info.st_uid == 0))
		return (struct snap_credentials){ .known = false };
	/* A group of the user's own has the user's number. The mode of a socket says nothing. */
	others = info.st_gid == info.st_uid ? S_IWOTH : S_IWGRP | S_IWOTH;
	return (struct snap_credentials){
		.known = S_ISSOCK(info.st_mode) || !(info.st_mode & others),
		.uid = info.st_uid,
		.gid = SNAP_OVERFLOW_ID,
	};
}

/* Those by which owners and modes do not count. */
static void put_capabilities_aside(const struct snap_rights *rights)
{
	struct __user_cap_data_struct left[_LINUX_CAPABILITY_U32S_3];

	memcpy(left, rights->capabilities, sizeof(left));
	left[0].effective &= ~((1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH));
	/* Dropping what one has is never refused. */
	take_capabilities(left);
}

/* The kernel treats another file-system user as another user, and clears PDEATHSIG. */
static bool change_user(const struct snap_credentials *who)
{
	int signal = 0;
	bool fine;

	prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
	fine = syscall(SYS_setgroups, who->group_count, who->groups) == 0 && take_gid(who->gid) &&
	       take_uid(who->uid);
	prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
	return fine;
}

static bool is_root(const struct snap_credentials *who)
{
	return who->uid == 0 && !who->is_confined;
}

bool snap_rights_become(struct snap_rights *rights, const struct snap_credentials *who)
{
	if (rights->uid == 0 && is_root(who))
		return true;
	rights->is_other = true;
	/* A user's own processes: a user may not change groups. */
	if (rights->uid != 0 && rights->uid == who->uid) {
		put_capabilities_aside(rights);
		return true;
	}
	if (!change_user(who)) {
		snap_rights_return(rights);
		rights->is_other = true;
		put_capabilities_aside(rights);
		return false;
	}
	put_capabilities_aside(rights);
	return true;
}

void snap_rights_confine(struct snap_rights *rights)
{
	if (rights->uid == 0)
		return;
	rights->is_other = true;
	put_capabilities_aside(rights);
}

void snap_rights_return(struct snap_rights *rights)
{
	int signal = 0;

	if (!rights->is_other)
		return;
	rights->is_other = false;
	prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
	if (current_uid() != rights->uid)
		take_uid(rights->uid);
	if (current_gid() != rights->gid)
		take_gid(rights->gid);
	/* Where it may not be set it was not changed. */
	syscall(SYS_setgroups, rights->group_count, rights->groups);
	take_capabilities(rights->capabilities);
	prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
}

bool snap_rights_allow(const struct snap_credentials *who, const struct stat *info)
{
	bool is_member = who->gid == info->st_gid;

	for (size_t i = 0; i < who->group_count; i++)
		is_member = is_member || who->groups[i] == info->st_gid;
	if (is_root(who))
		return true;
	if (info->st_uid == who->uid)
		return info->st_mode & S_IRUSR;
	return info->st_mode & (is_member ? S_IRGRP : S_IROTH);
}
