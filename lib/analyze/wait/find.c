/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads and processes of the report by their numbers: see waiter.h. */
#include "analyze/wait/waiter.h"

#include "base/bsearch.h"

static uint64_t own_tid(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;

	return (uint64_t)(thread->ns_tid ? thread->ns_tid : thread->tid);
}

static uint64_t hash_in(size_t process, uint64_t key)
{
	return snap_hash_add(snap_hash_mix(process), key);
}

static bool add_join_waiter(struct snap_wait_analysis *waits, size_t i)
{
	const struct snap_waiter *waiter = &waits->waiters[i];
	uint64_t pointer = waiter->call.known ? waiter->call.thread_pointer : 0;

	return snap_hash_table_add(&waits->ns_tids, hash_in(waiter->process, own_tid(waiter)), i) &&
	       (!pointer || snap_hash_table_add(&waits->thread_pointers,
						hash_in(waiter->process, pointer), i)) &&
	       snap_hash_table_add(&waits->tids,
				   snap_hash_mix((uint64_t)waiter->thread->thread->tid), i);
}

struct stacksnap_error *snap_wait_index(struct snap_wait_analysis *waits)
{
	return snap_no_memory_unless(snap_all(waits->waiter_count, i, add_join_waiter(waits, i)));
}

void snap_wait_index_deinit(struct snap_wait_analysis *waits)
{
	snap_hash_table_deinit(&waits->ns_tids);
	snap_hash_table_deinit(&waits->thread_pointers);
	snap_hash_table_deinit(&waits->tids);
}

struct snap_waiter *snap_waiter_by_ns_tid(struct snap_wait_analysis *waits, size_t process,
					  uint64_t ns_tid)
{
	return snap_hash_find_in(&waits->ns_tids, hash_in(process, ns_tid), waits->waiters, waiter,
				 waiter->process == process && own_tid(waiter) == ns_tid);
}

struct snap_waiter *snap_waiter_by_thread_pointer(struct snap_wait_analysis *waits, size_t process,
						  uint64_t pointer)
{
	struct snap_probe probe =
		snap_hash_table_probe(&waits->thread_pointers, hash_in(process, pointer));
	struct snap_waiter *found = NULL;

	while (pointer && snap_probe_next(&probe)) {
		struct snap_waiter *waiter = &waits->waiters[probe.number];

		if (waiter->process != process || waiter->call.thread_pointer != pointer)
			continue;
		if (found)
			return NULL;
		found = waiter;
	}
	return found;
}

struct snap_waiter *snap_waiter_by_tid(struct snap_wait_analysis *waits, pid_t tid)
{
	return snap_hash_find_in(&waits->tids, snap_hash_mix((uint64_t)tid), waits->waiters, at,
				 at->thread->thread->tid == tid);
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

static void join_party(struct snap_wait_analysis *waits, struct snap_wait_party *party)
{
	const struct snap_waiter *waiter = NULL;

	party->name = snap_analysis_text(waits->analysis, party->name);
	if (party->tid > 0 && !party->outside)
		waiter = snap_waiter_by_tid(waits, party->tid);
	if (waiter && snap_waiter_process(waiter)->pid == party->pid)
		party->wait = waiter->wait;
}

void snap_wait_join_parties(struct snap_wait_analysis *waits)
{
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_wait *wait = waits->waiters[i].wait;

		if (!wait)
			continue;
		if (wait->has_owner)
			join_party(waits, &wait->owner);
		for (size_t k = 0; k < wait->holder_count; k++)
			join_party(waits, &wait->holders[k]);
		for (size_t k = 0; k < wait->peer_count; k++)
			join_party(waits, &wait->peers[k]);
		for (size_t k = 0; k < wait->hint_count; k++)
			join_party(waits, &wait->hints[k]);
	}
}
