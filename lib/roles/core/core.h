/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cores in a sandbox: a core is as hostile as any file of a target, and more of it is structure. So
 * a parser reads its headers and notes, and leaves what they say as bytes that are checked; nobody
 * else looks at them. Packed ones are unpacked by another one, which has no rights either.
 */
#ifndef SNAP_ROLES_CORE_CORE_H
#define SNAP_ROLES_CORE_CORE_H

#include "core/core.h"

/*
 * snap_core_parse() in a sandbox, until `deadline_ns` (CLOCK_MONOTONIC; 0: never). The errors of
 * that; CRASHED, TIMEOUT, CANCELLED, OS. To be released by snap_core_deinit() in any case.
 */
struct stacksnap_error *snap_core_read_in_sandbox(int fd, const struct snap_options *options,
						  int64_t deadline_ns,
						  struct snap_core *ret) _must_check_;

/*
 * Where the file begins as packed ones do: unpacks it, in a sandbox, into an unnamed file in
 * $TMPDIR (/var/tmp), which has holes where there are zeros and takes half of what is free there at
 * most. *fd_ret, the caller's, is that file; -1: it is not packed. What there is of a damaged file
 * is there; *cut_ret, NULL if it is whole, says why that is not all. FORMAT: this build cannot unpack
 * it, or it is damaged from its beginning; OS, TIMEOUT, CANCELLED.
 */
struct stacksnap_error *snap_core_unpack_in_sandbox(int fd, const struct snap_options *options,
						    int64_t deadline_ns, int *fd_ret,
						    const char **cut_ret) _must_check_;

#endif
