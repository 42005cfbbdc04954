/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads and processes of the report by their numbers: see waiter.h. */
#include "analyze/wait/waiter.h"

#include "base/bsearch.h"

struct snap_waiter *snap_waiter_by_ns_tid(struct snap_wait_analysis *waits, size_t process,
					  uint64_t ns_tid)
{
	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++) {
		const struct snap_thread *thread = waits->waiters[i].thread->thread;

		if ((uint64_t)(thread->ns_tid ? thread->ns_tid : thread->tid) == ns_tid)
			return &waits->waiters[i];
	}
	return NULL;
}

struct snap_waiter *snap_waiter_by_thread_pointer(struct snap_wait_analysis *waits, size_t process,
						  uint64_t pointer)
{
	for (size_t i = waits->first[process]; pointer && i < waits->first[process + 1]; i++)
		if (waits->waiters[i].call.known &&
		    waits->waiters[i].call.thread_pointer == pointer)
			return &waits->waiters[i];
	return NULL;
}

size_t snap_wait_process_by_pid(const struct snap_wait_analysis *waits, pid_t pid)
{
	const struct snap_capture *capture = waits->analysis->capture;
	size_t at = snap_first_not(capture->process_count, i,
				   capture->processes[waits->by_pid[i]].pid < pid);

	if (at == capture->process_count || capture->processes[waits->by_pid[at]].pid != pid)
		return SIZE_MAX;
	return waits->by_pid[at];
}

struct snap_wait_party snap_wait_party_of(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;

	return (struct snap_wait_party){
		.pid = snap_waiter_process(waiter)->pid,
		.tid = thread->tid,
		.name = thread->name,
		.state = thread->state,
		.wait = waiter->wait,
	};
}
