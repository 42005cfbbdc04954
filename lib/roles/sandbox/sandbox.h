/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sandbox: takes every right from the calling process that reading bytes does not need.
 *
 * Afterwards the process can compute, map memory that is not executable, read from descriptors that
 * it has or receives, and use its channel. It cannot open, connect, trace, execute, signal others,
 * change its identity, or make memory executable. There is no way back. Knows nothing of what is
 * read.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_sandbox {
	uint64_t data_bytes; /* RLIMIT_DATA; 0: 1 GiB */
	unsigned cpu_s;      /* RLIMIT_CPU; 0: no limit, for a parser that stays */
	int channel;         /* the one descriptor that may be written to */
};

/*
 * Call this before snap_sandbox_enter(): unmaps all memory that this process shares with another
 * one or with a file, except for the `size` bytes at `kept`. A copy of a process has the shared
 * memory of its maker, and could write there. The unmapped memory must not be needed any more. OS,
 * FORMAT: some may be left.
 */
struct stacksnap_error *snap_sandbox_leave_memory(const void *kept, uint64_t size) _must_check_;

/*
 * Enters the sandbox; the process has one thread and never leaves. In this order: not dumpable, no
 * new privileges, no groups and a uid of its own (when root; see rights.c), capability sets empty,
 * rlimits (data, cpu, files, file size 0, core 0, processes 0), Landlock without rules (Linux 5.13;
 * skipped where absent), a seccomp allow-list (refused calls get EPERM). OS, with the step that
 * failed: then the process is not fit for hostile bytes.
 */
struct stacksnap_error *snap_sandbox_enter(const struct snap_sandbox *sandbox) _must_check_;
