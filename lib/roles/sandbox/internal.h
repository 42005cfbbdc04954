/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of the sandbox that are more than a few lines each: see sandbox.h for their order. Each
 * takes something from the calling process for good, and knows nothing of the others.
 */
#ifndef SNAP_ROLES_SANDBOX_INTERNAL_H
#define SNAP_ROLES_SANDBOX_INTERNAL_H

#include "roles/sandbox/sandbox.h"

/* A build that reports on stderr what it found, wherever that leads, must be able to. */
#if defined(__SANITIZE_ADDRESS__)
#define SNAP_SANDBOX_REPORTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SNAP_SANDBOX_REPORTS 1
#endif
#endif
#ifndef SNAP_SANDBOX_REPORTS
#define SNAP_SANDBOX_REPORTS 0
#endif

/* Nobody may look into it or gain rights by it; uid, groups and capabilities of nobody. OS. */
struct stacksnap_error *snap_sandbox_drop_rights(uid_t uid) _must_check_;

/* No file may be reached by a name. Nothing where the kernel has no Landlock. OS. */
struct stacksnap_error *snap_sandbox_close_files(void) _must_check_;

/*
 * The system calls that remain. Writes go to `channel` alone, signals to the process itself. A call
 * that is not on the list returns EPERM; one by another ABI than the process's own kills. OS.
 */
struct stacksnap_error *snap_sandbox_limit_calls(int channel) _must_check_;

/*
 * In place of newfstatat(), by which glibc's fstat() of 2.33 and later works: it could look at any
 * path, and a filter cannot tell. So it traps, and what asks about a descriptor is answered by the
 * old call.
 */
struct stacksnap_error *snap_sandbox_answer_stat(void) _must_check_;

#endif
