/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A capture without a stop (--no-stop): the first and only tick of the sampler (sample/sampler.h),
 * whose copies are kept.
 *
 * Threads that are blocked are copied as they are; those that run, and those whose copy does not
 * suffice, are stopped one by one for microseconds. What comes of it is the same as of a stop, but
 * for the one instant. Knows nothing of how threads are read or of stacks' meaning: whether a copy
 * suffices is judged by the caller.
 */
#pragma once

#include "capture/capture.h"

/*
 * `hook`: judges the copies; NULL, or without `suffices`: all copies suffice. Trouble of single
 * processes and threads is recorded on them. *execed_ret becomes true where all threads of a
 * process were lost to an exec: it is there, and could be read now. Something here
 * (sample/copy_blocked.h) is to prove that a thread stood still.
 */
struct stacksnap_error *snap_nostop_take(const struct snap_options *options,
					 const struct snap_stop_hook *hook, bool *execed_ret,
					 struct snap_capture **ret) _must_check_;
