/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans for single threads (model/memory_plan.h): what is copied with each sample of one thread,
 * within small budgets, by a process that may be lost over it. Its maker has the memory ready, so
 * that nothing is allocated while somebody stands. Knows nothing of samples, nor of who stands.
 */
#ifndef SNAP_STOP_PLAN_OF_THREAD_H
#define SNAP_STOP_PLAN_OF_THREAD_H

#include "stop/plan/execute.h"

#include <string.h>

enum {
	SNAP_THREAD_PLAN_RECORDS = 20000,
	SNAP_THREAD_PLAN_BYTES = 1 << 20,
	SNAP_THREAD_PLAN_NS = 4000000,         /* of a thread that does not stand for it … */
	SNAP_THREAD_PLAN_STOPPED_NS = 2000000, /* … and of one that does */
	SNAP_THREAD_PLAN_ROOM = 2 << 20,       /* of an image with its pieces, at most */
};

/* What an execution is given and what it leaves, in memory that both sides see. */
struct snap_thread_plan {
	struct snap_plan_thread thread;
	struct snap_memory_plan plan;
	struct snap_memory_image image; /* as snap_plan_execute() leaves it */
};

/* Table 0, by registers as NT_PRSTATUS has them; without any, for no `registers`. */
struct snap_plan_thread snap_thread_plan_of(pid_t tid, pid_t ns_tid, const void *registers,
					    size_t size);

/* Bytes of address space of the memory for notes; little of it is touched. */
size_t snap_thread_plan_work(void);

/*
 * Executes the plan on the memory of thread->tid, which stands still or will be looked at once
 * more, for `most_ns` from now on at most. The image takes what it needs of the room.
 */
void snap_thread_plan_execute(struct snap_thread_plan *plan, struct snap_region work,
			      int64_t most_ns, struct snap_region *room);

/* The plan alone, without what it has no steps for. */
static inline void snap_thread_plan_set(struct snap_thread_plan *to,
					const struct snap_memory_plan *plan)
{
	memcpy(&to->plan, plan,
	       offsetof(struct snap_memory_plan, steps) + plan->step_count * sizeof(*plan->steps));
}

/*
 * A copy of an image that is finished, in memory of SNAP_THREAD_PLAN_ROOM bytes; what does not fit
 * is left out.
 */
void snap_thread_plan_keep(const struct snap_memory_image *image, void *room,
			   struct snap_memory_image *ret);

#endif
