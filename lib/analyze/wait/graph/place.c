/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the functions that threads are in which others wait for: see wait.h.
 *
 * A thread is in the innermost function that is no system code: a thread that holds a lock "runs in
 * charge_order", not in memcpy and not in the function it was started with.
 */
#include "analyze/wait/graph/deadlock.h"

#include "base/text.h"

#include <string.h>

static bool is_own_entry(const struct snap_entry *entry)
{
	return entry->function && !entry->system && !entry->kernel;
}

/* How the Java machine enters a monitor is the same for all, and none of the program's functions. */
static bool is_of_lock(const struct snap_waiter *waiter, const struct snap_frame *frame)
{
	return waiter->wait && waiter->wait->kind == SNAP_WAIT_MONITOR && frame->module &&
	       strcmp(snap_base_name(frame->module), "libjvm.so") == 0;
}

/* The innermost one in a runtime's language. An interpreter's functions in C are none of the program's. */
static const struct snap_entry *own_managed_entry(const struct snap_raw_thread *thread)
{
	for (size_t run = 0; thread->managed && run < thread->managed->run_count; run++) {
		const struct snap_frame **frames =
			thread->managed_frames + thread->managed->runs[run].first;

		for (size_t i = 0; i < thread->managed->runs[run].count; i++)
			for (size_t k = 0; k < frames[i]->entry_count; k++)
				if (is_own_entry(&frames[i]->entries[k]))
					return &frames[i]->entries[k];
	}
	return NULL;
}

/* NULL: no function of its own is known. */
static const struct snap_entry *own_entry(const struct snap_waiter *waiter)
{
	const struct snap_raw_stack *stack = &waiter->raw->stacks[waiter->thread->stack];
	const struct snap_entry *managed = own_managed_entry(waiter->thread);

	if (managed)
		return managed;
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		if (is_of_lock(waiter, frame))
			continue;
		for (size_t k = 0; k < frame->entry_count; k++)
			if (is_own_entry(&frame->entries[k]))
				return &frame->entries[k];
	}
	return NULL;
}

struct snap_wait_link snap_wait_link_of(struct snap_wait_analysis *waits,
					const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	const struct snap_entry *entry = own_entry(waiter);
	struct snap_wait_link link = {
		.pid = snap_waiter_process(waiter)->pid,
		.tid = thread->tid,
		.name = snap_analysis_text(waits->analysis, thread->name),
		.wait = waiter->wait,
	};

	if (entry) {
		link.function = entry->function;
		link.file = entry->file;
		link.line = entry->line;
	}
	return link;
}

static void place_party(struct snap_wait_analysis *waits, struct snap_wait_party *party)
{
	const struct snap_waiter *waiter = NULL;
	const struct snap_entry *entry;

	if (party->tid > 0 && !party->outside)
		waiter = snap_waiter_by_tid(waits, party->tid);
	if (!waiter || snap_waiter_process(waiter)->pid != party->pid)
		return;
	entry = own_entry(waiter);
	party->function = entry ? entry->function : NULL;
}

void snap_wait_place_parties(struct snap_wait_analysis *waits)
{
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_wait *wait = waits->waiters[i].wait;

		if (!wait)
			continue;
		if (wait->has_owner)
			place_party(waits, &wait->owner);
		for (size_t k = 0; k < wait->holder_count; k++)
			place_party(waits, &wait->holders[k]);
		for (size_t k = 0; k < wait->peer_count; k++)
			place_party(waits, &wait->peers[k]);
		for (size_t k = 0; k < wait->hint_count; k++)
			place_party(waits, &wait->hints[k]);
	}
}

/* ---- groups ---- */

/* The group that each thread is in, found by its tid. */
struct places {
	struct snap_hash_table table;
	struct place {
		pid_t tid;
		const char *stack;
	} * items;
	size_t count;
};

static void places_deinit(struct places *places)
{
	snap_hash_table_deinit(&places->table);
	free(places->items);
}

static const char *find_graph_place(const struct places *places, pid_t tid)
{
	struct snap_probe probe =
		snap_hash_table_probe(&places->table, snap_hash_mix((uint64_t)tid));

	while (snap_probe_next(&probe))
		if (places->items[probe.number].tid == tid)
			return places->items[probe.number].stack;
	return NULL;
}

static size_t count_graph_members(struct snap_node *const *nodes, size_t count)
{
	size_t members = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; nodes[i] && k < nodes[i]->stack_count; k++)
			members += nodes[i]->stacks[k].thread_count;
	return members;
}

static bool list_places(struct snap_node *const *nodes, size_t count, struct places *places)
{
	size_t room = count_graph_members(nodes, count);

	places->items = malloc((room + 1) * sizeof(*places->items));
	if (!places->items || !snap_hash_table_reserve(&places->table, room))
		return false;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; nodes[i] && k < nodes[i]->stack_count; k++) {
			const struct snap_stack *stack = &nodes[i]->stacks[k];

			for (size_t n = 0; n < stack->thread_count; n++) {
				pid_t tid = stack->threads[n].tid;

				places->items[places->count] = (struct place){ tid, stack->id };
				if (!snap_hash_table_add(&places->table,
							 snap_hash_mix((uint64_t)tid),
							 places->count++))
					return false;
			}
		}
	}
	return true;
}

static void place_all(const struct places *places, struct snap_wait_party *parties, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (parties[i].tid > 0 && !parties[i].outside)
			parties[i].stack = find_graph_place(places, parties[i].tid);
}

/*
 * A thousand readers of a pipe with twenty writers each are twenty thousand parties in a report: where
 * there are so many, each wait lists one, and says how many there are.
 */
static void limit_peers(struct snap_analysis *analysis)
{
	enum { MOST_PEERS = 5000 };
	size_t total = 0;

	for (int pass = 0; pass < 2 && (pass == 0 || total > MOST_PEERS); pass++) {
		for (size_t i = 0; i < analysis->capture->process_count; i++) {
			struct snap_raw_process *raw = &analysis->processes[i];

			for (size_t k = 0; k < raw->thread_count; k++) {
				/* They are ours, and lie in the snapshot's arena. */
				struct snap_wait *wait =
					(struct snap_wait *)(uintptr_t)raw->threads[k].wait;

				if (wait && pass == 0)
					total += wait->peer_count;
				else if (wait && wait->peer_count > 1)
					wait->peer_count = 1;
			}
		}
	}
}

struct stacksnap_error *snap_waits_place(struct snap_analysis *analysis,
					 struct snap_node *const *nodes)
{
	_cleanup_(places_deinit) struct places places = { .count = 0 };

	if (!analysis->snapshot->waits.asked)
		return NULL;
	if (!list_places(nodes, analysis->capture->process_count, &places))
		return snap_error_no_memory();
	for (size_t i = 0; i < analysis->capture->process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];

		for (size_t k = 0; k < raw->thread_count; k++) {
			/* They are ours, and lie in the snapshot's arena. */
			struct snap_wait *wait =
				(struct snap_wait *)(uintptr_t)raw->threads[k].wait;

			if (!wait)
				continue;
			if (wait->has_owner)
				place_all(&places, &wait->owner, 1);
			place_all(&places, wait->holders, wait->holder_count);
			place_all(&places, wait->peers, wait->peer_count);
			place_all(&places, wait->hints, wait->hint_count);
		}
	}
	limit_peers(analysis);
	return NULL;
}
