/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of runtimes, and their results for a process of a capture.
 *
 * They read the memory that the stop has copied: the image of the plan, the stacks, the pieces, and
 * the files of read-only mappings. Knows each runtime only by its row in the table.
 */
#pragma once

#include "analyze/runtime/runtime.h"

struct snap_analysis;
struct snap_raw_process;

/* All of them, NULL behind the last one. */
extern const struct snap_runtime *const snap_runtimes[];

/*
 * Fills raw->runtimes by analysis->runtimes; none without an image of memory. One that is not
 * understood is a warning. The modules of the process are known. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_runtimes_read(struct snap_analysis *analysis,
					   struct snap_raw_process *raw) _must_check_;

/*
 * What one runtime makes of a process that has its memory, which is where `of` reads then; else as
 * its read(). NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_runtime_read_process(const struct snap_runtime *runtime,
						  const struct snap_runtime_process *of,
						  struct snap_runtime_result **ret) _must_check_;
