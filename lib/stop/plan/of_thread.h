/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of threads (model/memory_plan.h): copies memory with each sample of one thread, within
 * small budgets, in a process that may be lost. The maker of this process has the memory ready, so
 * that nothing is allocated while a thread is stopped. Knows nothing of samples, nor of which
 * threads are stopped.
 */
#pragma once

#include "stop/plan/execute.h"

#include <string.h>

enum {
	SNAP_THREAD_PLAN_RECORDS = 20000,
	SNAP_THREAD_PLAN_BYTES = 1 << 20,
	SNAP_THREAD_PLAN_NS = 4000000,         /* for a thread that is not stopped for it … */
	SNAP_THREAD_PLAN_STOPPED_NS = 2000000, /* … and for one that is */
	SNAP_THREAD_PLAN_ROOM = 2 << 20,       /* of an image with its pieces, at most */
};

/* The input and the result of an execution, in memory that both sides share. */
struct snap_thread_plan {
	struct snap_plan_thread thread;
	struct snap_memory_plan plan;
	struct snap_memory_image image; /* as snap_plan_execute() leaves it */
};

/* An entry of table 0, by registers as in NT_PRSTATUS; `registers` NULL: without them. */
struct snap_plan_thread snap_thread_plan_of(pid_t tid, pid_t ns_tid, const void *registers,
					    size_t size);

/* The size of the work memory, in address space; little of it is touched. */
size_t snap_thread_plan_work(void);

/*
 * Executes the plan on the memory of thread->tid, for `most_ns` from now on at most. The thread is
 * stopped, or the caller checks afterwards that it did not run. The image takes what it needs of
 * the room.
 */
void snap_thread_plan_execute(struct snap_thread_plan *plan, struct snap_region work,
			      int64_t most_ns, struct snap_region *room);

/* Copies the plan, without its unused steps. */
static inline void snap_thread_plan_set(struct snap_thread_plan *to,
					const struct snap_memory_plan *plan)
{
	memcpy(&to->plan, plan,
	       offsetof(struct snap_memory_plan, steps) + plan->step_count * sizeof(*plan->steps));
}

/*
 * Copies a finished image into memory of SNAP_THREAD_PLAN_ROOM bytes; what does not fit is left
 * out.
 */
void snap_thread_plan_keep(const struct snap_memory_image *image, void *room,
			   struct snap_memory_image *ret);
