/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Judge: decides whether the copy of a thread that was not stopped suffices to unwind it
 * (--no-stop).
 *
 * It connects two stages: the capture asks through a callback while it reads, and the unwinder of a
 * parser answers. It keeps opened files from thread to thread. Knows nothing of how threads are
 * read.
 */
#ifndef SNAP_ROLES_UNWINDER_JUDGE_H
#define SNAP_ROLES_UNWINDER_JUDGE_H

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_judge;

struct stacksnap_error *snap_judge_create(const struct snap_options *options,
					  struct snap_judge **ret) _must_check_;
void snap_judge_destroy(struct snap_judge *judge);

static inline void snap_judge_destroyp(struct snap_judge **judge)
{
	snap_judge_destroy(*judge);
}

/* As struct snap_stop_hook's `suffices`; false without memory. */
bool snap_judge_suffices(void *judge, const struct snap_capture *capture, size_t process,
			 const struct snap_thread *copy);

#endif
