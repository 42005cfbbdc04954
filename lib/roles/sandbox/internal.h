/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The larger parts of the sandbox: see sandbox.h for their order. Each takes rights from the
 * calling process for good, and knows nothing of the others.
 */
#pragma once

#include "roles/sandbox/sandbox.h"

/* A build with sanitizers must be able to report on stderr. */
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

/*
 * No process may look into it or gain rights by it; no groups, no capabilities, a uid that no other
 * process has. OS.
 */
struct stacksnap_error *snap_sandbox_drop_rights(void) _must_check_;

/* No file may be reached by a name. Does nothing if the kernel has no Landlock. OS. */
struct stacksnap_error *snap_sandbox_close_files(void) _must_check_;

/*
 * Limits the system calls. Writes go to `channel` alone, signals to the process itself. A call that
 * is not on the list returns EPERM; a call by another ABI kills the process. OS.
 */
struct stacksnap_error *snap_sandbox_limit_calls(int channel) _must_check_;

/*
 * Replaces newfstatat(), which fstat() of glibc 2.33 and later uses. It could reach any path, and a
 * filter cannot see the path. So the call traps, and the handler answers for descriptors by the old
 * call.
 */
struct stacksnap_error *snap_sandbox_answer_stat(void) _must_check_;
