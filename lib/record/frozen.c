/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Control groups that are frozen: their threads do not run, and so are not sampled again. Once a
 * second each process is asked for, and its threads that sleep stand as frozen until it is thawed.
 */
#include "record/log_sink.h"

#include "base/clock.h"
#include "capture/wait/resolve.h"

enum {
	ASK_NS = 1000000000,
	MOST_AT_ONCE = 16, /* processes in a tick */
};

/* Sleeping threads become frozen ones, or the other way. */
static struct stacksnap_error *change_states(struct snap_log_sink *sink,
					     const struct snap_log_sink_process *process)
{
	enum snap_state from = process->frozen ? SNAP_STATE_SLEEPING : SNAP_STATE_FROZEN;
	enum snap_state to = process->frozen ? SNAP_STATE_FROZEN : SNAP_STATE_SLEEPING;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < sink->thread_count && !err; i++) {
		struct snap_log_sink_thread *thread = &sink->threads[i];
		struct snap_log_change change;

		if (!thread->live || thread->number == UINT32_MAX || thread->state != from ||
		    sink->log->threads[thread->number].process != process->number)
			continue;
		change = *snap_log_standing(sink->log, thread->number);
		change.state = (uint8_t)to;
		sink->states[from]--;
		sink->states[to]++;
		thread->state = to;
		err = snap_log_change(sink->log, &change);
	}
	return err;
}

struct stacksnap_error *snap_log_sink_look_at_frozen(struct snap_log_sink *sink)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	struct stacksnap_error *err = NULL;
	int left = MOST_AT_ONCE;

	for (struct snap_log_sink_process *p = sink->processes; p && left && !err; p = p->next) {
		bool before = p->frozen;

		if (p->number == UINT32_MAX || p->space == UINT32_MAX || p->frozen_due_ns > now)
			continue;
		left--;
		p->frozen_due_ns = now + ASK_NS;
		p->frozen = snap_capture_is_frozen(sink->log->capture->processes[p->space].cgroup);
		if (p->frozen != before)
			err = change_states(sink, p);
	}
	return err;
}
