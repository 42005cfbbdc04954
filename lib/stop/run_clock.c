/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When threads ran last: see run_clock.h. */
#include "stop/run_clock.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/procfs.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

enum {
	SCHED_TEXT = 512, /* the field is in one of the first lines */
	PATH = 32,
	MOST_NS = 100000000,
	NAP_NS = 1000,
};

_Static_assert((int)SNAP_RUN_CLOCKS <= (int)CPU_SETSIZE, "a set has them all");

/*
 * How far the clock of the current processor is ahead, at least; we must have been scheduled just
 * now.
 */
static int64_t read_here(int root_fd)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	_cleanup_fd_ int fd = snap_procfs_open_file(root_fd, "thread-self/sched");
	char text[SCHED_TEXT];
	uint64_t ran_ns;
	ssize_t length;

	/* Without a sleep the kernel would give the time of the last tick. */
	nanosleep(&nap, NULL);
	length = fd < 0 ? fd : snap_procfs_reread(fd, text, sizeof(text));
	if (length <= 0 || !snap_parse_exec_start(text, (size_t)length, &ran_ns))
		return INT64_MIN;
	return (int64_t)ran_ns - snap_clock_ns(CLOCK_MONOTONIC);
}

void snap_run_clocks_read(int root_fd, struct snap_run_clocks *ret)
{
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + MOST_NS;
	cpu_set_t allowed, one;
	bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;

	for (int i = 0; i < SNAP_RUN_CLOCKS; i++) {
		ret->ahead_ns[i] = INT64_MIN;
		if (!known || !CPU_ISSET(i, &allowed) || snap_clock_ns(CLOCK_MONOTONIC) > until_ns)
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		if (sched_setaffinity(0, sizeof(one), &one) == 0)
			ret->ahead_ns[i] = read_here(root_fd);
	}
	if (known)
		sched_setaffinity(0, sizeof(allowed), &allowed);
}

int64_t snap_run_clocks_blocked(const struct snap_run_clocks *clocks, int tasks_fd, pid_t tid,
				int cpu)
{
	char text[SCHED_TEXT];
	int64_t now_ns, ahead_ns;
	uint64_t ran_ns;
	ssize_t length;

	if (cpu < 0 || cpu >= SNAP_RUN_CLOCKS || clocks->ahead_ns[cpu] == INT64_MIN)
		return -1;
	ahead_ns = clocks->ahead_ns[cpu];
	now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	length = snap_procfs_task_read(tasks_fd, tid, "sched", text, sizeof(text));
	if (length <= 0 || !snap_parse_exec_start(text, (size_t)length, &ran_ns) || !ran_ns)
		return -1;
	return now_ns + ahead_ns > (int64_t)ran_ns ? now_ns + ahead_ns - (int64_t)ran_ns : 0;
}
