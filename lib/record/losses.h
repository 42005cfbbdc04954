/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Losses: what a recording says about samples that are missing, each in a warning that is renewed
 * as more is lost. (What its memory had no room for is memory_limit.h's.) Knows nothing of why.
 */
#pragma once

#include "model/options.h"
#include "roles/unwinder/unwinder.h"
#include "store/log/log.h"

struct snap_losses {
	uint32_t waiting;   /* processes and threads that there was no time for so far */
	uint64_t cut_looks; /* that could not see all tasks */
	uint64_t in_exec;   /* how often a process was not looked at in a tick, for an exec */
	/* What the warnings tell. */
	unsigned reported_parsers;
	uint64_t reported_left_out;
	uint32_t reported_waiting;
	uint64_t reported_task_looks, reported_cut_looks, reported_in_exec;
};

/* Warnings of the log tell what was lost by now. */
void snap_losses_warn(struct snap_losses *losses, const struct snap_options *options,
		      struct snap_log *log, const struct snap_remote_unwinder *unwinder);
