/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Priority: see priority.h. */
#include "base/priority.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	BEST_NICE = -20,
	/* Of a normal thread, since Linux 6.12, without permission; a shorter one comes sooner. */
	SHORT_SLICE_NS = 1000000,
};

static bool set(int32_t nice, uint64_t slice_ns)
{
	struct sched_attr wanted = {
		.size = sizeof(wanted),
		.sched_policy = SCHED_NORMAL,
		.sched_nice = nice,
		.sched_runtime = slice_ns,
	};

	return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

void snap_priority_raise(struct snap_priority *before)
{
	struct sched_attr now = { .size = sizeof(now) };

	*before = (struct snap_priority){ .raised = false };
	if (syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0 ||
	    now.sched_policy != SCHED_NORMAL || now.sched_nice > 0)
		return;
	before->nice = now.sched_nice;
	before->slice_ns = now.sched_runtime;
	before->raised = set(BEST_NICE, now.sched_runtime) || set(now.sched_nice, SHORT_SLICE_NS);
}

void snap_priority_restore(const struct snap_priority *before)
{
	if (before->raised)
		(void)set(before->nice, before->slice_ns);
}
