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
	REAL_TIME = 1, /* the lowest level */
};

static bool get(struct sched_attr *ret)
{
	*ret = (struct sched_attr){ .size = sizeof(*ret) };
	return syscall(SYS_sched_getattr, 0, ret, sizeof(*ret), 0) == 0;
}

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

static bool set_real_time(void)
{
	struct sched_attr wanted = {
		.size = sizeof(wanted),
		.sched_policy = SCHED_RR,
		.sched_priority = REAL_TIME,
	};

	return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

static bool is_ours(const struct sched_attr *attributes)
{
	return attributes->sched_policy == SCHED_RR && attributes->sched_priority == REAL_TIME;
}

void snap_priority_raise(struct snap_priority *before)
{
	struct sched_attr now;

	*before = (struct snap_priority){ .raised = false };
	if (!get(&now) || now.sched_policy != SCHED_NORMAL || now.sched_nice > 0)
		return;
	before->nice = now.sched_nice;
	before->slice_ns = now.sched_runtime;
	before->raised = set_real_time() || set(BEST_NICE, now.sched_runtime) ||
			 set(now.sched_nice, SHORT_SLICE_NS);
}

void snap_priority_restore(const struct snap_priority *before)
{
	if (before->raised)
		(void)set(before->nice, before->slice_ns);
}

void snap_priority_lower(void)
{
	struct sched_attr now;

	if (get(&now) && is_ours(&now) && !set(BEST_NICE, 0))
		(void)set(now.sched_nice, SHORT_SLICE_NS);
}

struct snap_priority_level snap_priority_level(void)
{
	struct sched_attr now;

	if (!get(&now))
		return (struct snap_priority_level){ .nice = 0 };
	return (struct snap_priority_level){ .nice = now.sched_nice, .real_time = is_ours(&now) };
}

void snap_priority_follow(struct snap_priority_level *before,
			  const struct snap_priority_level *level)
{
	if (level->real_time != before->real_time || level->nice != before->nice)
		(void)(level->real_time ? set_real_time() : set(level->nice, 0));
	*before = *level;
}
