/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cores in a sandbox: a core is as hostile as any file of a target, and has more structure. So a
 * parser reads its headers and notes, and leaves their contents as bytes, which its maker checks.
 * No other process interprets them. Another parser, without rights as well, unpacks a packed core.
 * Knows nothing of what is in stacks.
 */
#pragma once

#include "core/core.h"

/*
 * snap_core_parse() in a sandbox, until `deadline_ns` (CLOCK_MONOTONIC; 0: never). The errors of
 * that; CRASHED, TIMEOUT, CANCELLED, OS. The caller always releases it by snap_core_deinit().
 */
struct stacksnap_error *snap_core_read_in_sandbox(int fd, const struct snap_options *options,
						  int64_t deadline_ns,
						  struct snap_core *ret) _must_check_;

/*
 * Unpacks a file that begins as packed ones do, in a sandbox, into an unnamed file in $TMPDIR
 * (/var/tmp). That file has holes instead of zeros, and takes at most half of the free space.
 * *fd_ret, the caller's, is that file; -1: the file is not packed. A damaged file is unpacked up to
 * the damage; *cut_ret then says why it ends there, and is NULL if it is whole. FORMAT: this build
 * cannot unpack it, or it is damaged from its beginning; OS, TIMEOUT, CANCELLED.
 */
struct stacksnap_error *snap_core_unpack_in_sandbox(int fd, const struct snap_options *options,
						    int64_t deadline_ns, int *fd_ret,
						    const char **cut_ret) _must_check_;
