/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts events into the ring: see trace.h. In the pause, too: nothing here locks or allocates. */
#include "model/trace/trace.h"

#include "base/clock.h"
#include "model/capture.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN_STACK_BYTES = 1 << 16 }; /* sample/blocked.c, stop/child/single_read.c */

void snap_trace(struct snap_trace *trace, pid_t tid, enum snap_trace_kind kind,
		const uint64_t *numbers)
{
	struct snap_trace_event *event;
	uint64_t number;
	size_t i = 0;

	while (trace && i < SNAP_TRACE_TIDS && trace->tids[i] && trace->tids[i] != abs(tid))
		i++;
	if (!trace || i == SNAP_TRACE_TIDS || (i > 0 && !trace->tids[i]))
		return;
	number = __atomic_fetch_add(&trace->next, 1, __ATOMIC_RELAXED);
	event = &trace->events[number % SNAP_TRACE_EVENTS];
	*event = (struct snap_trace_event){ .tid = tid, .kind = kind };
	event->time_ns = snap_clock_ns(CLOCK_MONOTONIC);
	if (numbers)
		memcpy(event->numbers, numbers, sizeof(event->numbers));
	__atomic_store_n(&event->number, number + 1, __ATOMIC_RELEASE);
}

void snap_trace_task(struct snap_trace *trace, pid_t pid, const char *id, size_t count, int end)
{
	snap_trace(trace, -pid, SNAP_TRACE_TASK,
		   (const uint64_t[]){ strtoull(id, NULL, 0), count, (uint64_t)end });
}

void snap_trace_copy(struct snap_trace *trace, const struct snap_thread *copy, uint64_t end,
		     uint64_t most)
{
	uint64_t size = copy->stack_size, start = copy->stack_address;
	const uint64_t numbers[] = { size, start, end > start + size ? end - start : size };
	enum snap_trace_kind cut = copy->stack_unreadable        ? SNAP_TRACE_PAGE
				   : size >= (most & ~15ull)     ? SNAP_TRACE_MAX_STACK
				   : size == UNKNOWN_STACK_BYTES ? SNAP_TRACE_UNKNOWN_END
								 : SNAP_TRACE_MEMORY;

	snap_trace(trace, copy->tid, SNAP_TRACE_TOGETHER + copy->taken, numbers);
	if (copy->stack_unreadable || copy->stack_limited)
		snap_trace(trace, copy->tid, cut, NULL);
}
