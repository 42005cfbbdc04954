/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Landlock without rules: every access that the kernel knows how to handle is refused.
 *
 * The second lock behind the list of system calls: it is the kernel's own view of files, and also
 * holds for a call that is added to that list one day. Knows nothing of which calls there are.
 */
#include "roles/sandbox/internal.h"

#include <errno.h>
#include <sys/syscall.h>

/* Linux 5.13; the numbers are the same on all architectures. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

enum { CREATE_RULESET_VERSION = 1, KNOWN_VERSIONS = 6 };

/*
 * struct landlock_ruleset_attr of version 6; an older kernel accepts zeros in the fields that it
 * does not know.
 */
struct ruleset {
	uint64_t files;  /* handled_access_fs */
	uint64_t net;    /* handled_access_net: version 4 */
	uint64_t scoped; /* version 6 */
};

/* landlock(7): 13 rights in the beginning, then refer, truncate, TCP, ioctl, scopes. */
static const struct ruleset EVERYTHING[KNOWN_VERSIONS] = {
	{ 0x1fff, 0, 0 }, { 0x3fff, 0, 0 }, { 0x7fff, 0, 0 },
	{ 0x7fff, 3, 0 }, { 0xffff, 3, 0 }, { 0xffff, 3, 3 },
};

struct stacksnap_error *snap_sandbox_close_files(void)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	_cleanup_fd_ int ruleset = -1;

	/* Not built in, switched off at boot, or hidden by the filter of a container. */
	if (version < 1)
		return NULL;
	version = SNAP_MIN(version, KNOWN_VERSIONS);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &EVERYTHING[version - 1],
			       sizeof(EVERYTHING[0]), 0);
	if (ruleset < 0)
		return snap_error_os(errno, "cannot create a Landlock ruleset");
	/* E2BIG: the process is in 16 rulesets already, the most that the kernel allows. */
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 && errno != E2BIG)
		return snap_error_os(errno, "cannot enter a Landlock ruleset");
	return NULL;
}
