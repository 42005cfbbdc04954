/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of managed runtimes where nothing is stopped: plans for single threads, which are asked
 * for when a process comes, and the images that came with its threads (capture/join.h).
 * Knows nothing of threads, nor of how they are read.
 */
#pragma once

#include "base/shared_memory.h"
#include "sample/sampler.h"
#include "stop/tracer.h"

struct snap_thread_plans {
	const struct snap_options *options;
	const struct snap_stop_hook *hook; /* NULL: no probe is asked */
	/* By index of the process in the capture. */
	struct snap_planned_process *processes;
	size_t count, capacity;
};

void snap_thread_plans_deinit(struct snap_thread_plans *plans);

/*
 * A process has come, is another program now, or has mapped something: asks for its plan, where it
 * looks as if it had a runtime. CANCELLED, NO_MEMORY.
 */
struct stacksnap_error *snap_thread_plans_ask(struct snap_thread_plans *plans,
					      struct snap_capture *capture, size_t index,
					      struct snap_sampled_process *process) _must_check_;
/*
 * Keeps what came with a copy, NULL: nothing; returns it, in the shared memory. Without memory it
 * is left out: NULL.
 */
const struct snap_memory_image *snap_thread_plans_keep(struct snap_thread_plans *plans,
						       struct snap_shared_memory *shared,
						       size_t index,
						       const struct snap_memory_image *image);
/* What the images of a process's threads share, in the shared memory; NULL: nothing. */
struct snap_memory_image *snap_thread_plans_image(const struct snap_thread_plans *plans,
						  size_t index);
