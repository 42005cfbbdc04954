/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order of the steps, and the list of waiters that they work on: see wait.h. */
#include "analyze/wait/waiter.h"

static struct stacksnap_error *list_waiters(struct snap_wait_analysis *waits)
{
	struct snap_analysis *analysis = waits->analysis;
	size_t process_count = analysis->capture->process_count, count = 0;

	for (size_t i = 0; i < process_count; i++)
		count += analysis->processes[i].thread_count;
	waits->first = snap_arena_new_array(&analysis->scratch, process_count + 1, size_t);
	waits->waiters = snap_arena_new_array(&analysis->scratch, count + 1, struct snap_waiter);
	if (!waits->first || !waits->waiters)
		return snap_error_no_memory();
	for (size_t i = 0; i < process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];

		waits->first[i] = waits->waiter_count;
		for (size_t k = 0; k < raw->thread_count; k++) {
			struct snap_thread_call call =
				snap_wait_call_of(raw->process->arch, raw->threads[k].thread);

			waits->waiters[waits->waiter_count++] = (struct snap_waiter){
				.raw = raw,
				.thread = &raw->threads[k],
				.process = i,
				.call = call,
				.row = snap_wait_call_row(raw->process->arch,
							  call.known ? call.number : -1),
			};
		}
	}
	waits->first[process_count] = waits->waiter_count;
	return NULL;
}

static struct stacksnap_error *explain_all(struct snap_wait_analysis *waits)
{
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];
		enum snap_wait_call call = waiter->row->call;
		struct stacksnap_error *err;

		if (snap_options_cancelled(waits->analysis->options))
			return snap_error_cancelled();
		if (call == SNAP_CALL_FUTEX || call == SNAP_CALL_FUTEX_WAITV)
			err = snap_wait_explain_futex(waits, waiter);
		else
			err = snap_wait_explain_call(waits, waiter);
		if (err)
			return err;
		waiter->thread->wait = waiter->wait;
	}
	return NULL;
}

struct stacksnap_error *snap_waits_find(struct snap_analysis *analysis)
{
	struct snap_wait_analysis waits = { .analysis = analysis,
					    .facts = analysis->capture->waits };
	struct stacksnap_error *err;

	if (!waits.facts || analysis->options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	analysis->snapshot->waits.asked = true;
	analysis->snapshot->waits.lacks = waits.facts->lacks;
	err = list_waiters(&waits);
	if (!err)
		err = explain_all(&waits);
	if (!err)
		err = snap_wait_find_edges(&waits);
	if (!err)
		err = snap_wait_find_deadlocks(&waits);
	if (!err)
		err = snap_wait_find_blockers(&waits);
	return err ? err : snap_wait_find_contended(&waits);
}
