/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order of the steps, and the list of waiters that they work on: see wait.h. */
#include "analyze/wait/futex.h"

#include "analyze/classify.h"
#include "analyze/label.h"
#include "analyze/unwind/in_call.h"
#include "base/bsearch.h"
#include "base/text.h"
#include "model/wait/kind.h"

static int compare_pids(const void *left, const void *right, void *processes)
{
	const struct snap_process *all = processes;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return snap_compare(all[a].pid, all[b].pid) ?: snap_compare(a, b);
}

static bool sort_processes(struct snap_wait_analysis *waits)
{
	const struct snap_capture *capture = waits->analysis->capture;
	size_t count = capture->process_count;

	waits->by_pid = snap_arena_new_array(&waits->analysis->scratch, count + 1, size_t);
	if (!waits->by_pid)
		return false;
	for (size_t i = 0; i < count; i++)
		waits->by_pid[i] = i;
	qsort_r(waits->by_pid, count, sizeof(size_t), compare_pids, capture->processes);
	return true;
}

static struct snap_waiter new_waiter(struct snap_wait_analysis *waits, size_t process,
				     const struct snap_wait_stacks *stacks,
				     struct snap_raw_thread *thread)
{
	struct snap_raw_process *raw = &waits->analysis->processes[process];
	struct snap_waiter waiter = {
		.raw = raw,
		.thread = thread,
		.stacks = stacks,
		.process = process,
		.any_set = (size_t)SNAP_NO_SET,
	};
	struct snap_thread_call call = snap_wait_call_of(raw->process->arch, thread->thread);

	if (!snap_is_in_call(raw->process, raw->modules, thread->thread))
		call.number = -1;
	call = snap_wait_restarted(waits, &waiter, call);
	waiter.call = call;
	waiter.number = snap_wait_call_common(raw->process->arch, call.known ? call.number : -1);
	waiter.row = snap_wait_call_row(raw->process->arch, call.known ? call.number : -1);
	return waiter;
}

/* Threads of a pool have one stack: what its names say is found out once. */
static bool make_stack_names(struct snap_wait_analysis *waits)
{
	struct snap_analysis *analysis = waits->analysis;
	size_t count = analysis->capture->process_count;

	waits->static_musl = snap_arena_new_array(&analysis->scratch, count + 1, enum snap_answer);
	waits->stack_names =
		snap_arena_new_array(&analysis->scratch, count + 1, struct snap_wait_stack_names *);
	for (size_t i = 0; waits->stack_names && waits->static_musl && i < count; i++) {
		waits->stack_names[i] = snap_arena_new_array(&analysis->scratch,
							     analysis->processes[i].stack_count + 1,
							     struct snap_wait_stack_names);
		if (!waits->stack_names[i])
			return false;
	}
	return waits->stack_names && waits->static_musl;
}

static struct stacksnap_error *list_waiters(struct snap_wait_analysis *waits)
{
	struct snap_analysis *analysis = waits->analysis;
	size_t process_count = analysis->capture->process_count;
	size_t count = snap_sum(process_count, i, analysis->processes[i].thread_count);

	waits->first = snap_arena_new_array(&analysis->scratch, process_count + 1, size_t);
	waits->waiters = snap_arena_new_array(&analysis->scratch, count + 1, struct snap_waiter);
	waits->sets = snap_arena_new_array(&analysis->scratch, count + 1, struct snap_wait_set);
	SNAP_TRY(snap_no_memory_unless(waits->first && waits->waiters && waits->sets &&
				       sort_processes(waits) && make_stack_names(waits)));
	for (size_t i = 0; i < process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];
		const struct snap_wait_stacks *stacks = snap_wait_stacks_of(analysis, raw->process);

		SNAP_TRY(snap_no_memory_unless(stacks));
		waits->first[i] = waits->waiter_count;
		for (size_t k = 0; k < raw->thread_count; k++)
			waits->waiters[waits->waiter_count++] =
				new_waiter(waits, i, stacks, &raw->threads[k]);
	}
	waits->first[process_count] = waits->waiter_count;
	return NULL;
}

/* What a thread in futex(2) waits for; where that is not known, what its state tells. */
static struct stacksnap_error *explain_waiter(struct snap_wait_analysis *waits,
					      struct snap_waiter *waiter)
{
	struct snap_analysis *analysis = waits->analysis;
	struct stacksnap_error *err = NULL;

	if (waiter->row->kind == SNAP_WAIT_FUTEX)
		err = snap_wait_explain_futex(waits, waiter);
	if (!err && !waiter->wait)
		err = snap_wait_explain_call(waits, waiter);
	if (err || !waiter->wait || !waiter->call.known || waiter->call.number < 0)
		return err;
	waiter->wait->call = snap_label_syscall(&analysis->strings, waiter->raw->process->arch,
						(int)waiter->call.number,
						&waiter->raw->stacks[waiter->thread->stack]);
	return waiter->wait->call ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *explain_all(struct snap_wait_analysis *waits)
{
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];

		SNAP_TRY(snap_options_check(waits->analysis->options));
		SNAP_TRY(explain_waiter(waits, waiter));
		waiter->thread->wait = waiter->wait;
	}
	return NULL;
}

static struct stacksnap_error *explain_listed(struct snap_wait_analysis *waits)
{
	SNAP_TRY(list_waiters(waits));
	SNAP_TRY(snap_wait_index(waits));
	return explain_all(waits);
}

static struct stacksnap_error *find_objects(struct snap_wait_analysis *waits)
{
	SNAP_TRY(explain_listed(waits));
	return snap_wait_name_data(waits);
}

/* A lock that a thread waits for has an owner, even one that cannot be named: the search ends there. */
static unsigned owner_lacks(const struct snap_wait_analysis *waits)
{
	unsigned lacks = 0;

	for (size_t i = 0; i < waits->waiter_count; i++) {
		const struct snap_wait *wait = waits->waiters[i].wait;
		const struct snap_raw_stack *stack = snap_waiter_stack(&waits->waiters[i]);

		/* Its locks keep no owner; what waits for one may be in a circle. */
		if (wait && snap_same_text(wait->variant, "python"))
			lacks |= SNAP_LACK_PYTHON_LOCKS;
		if (stack && !(wait && wait->has_owner) &&
		    (snap_classify_takes_own_lock(stack->frames, stack->frame_count) ||
		     (wait && wait->kind == SNAP_WAIT_CONDITION &&
		      snap_classify_handles_row(stack->frames, stack->frame_count))))
			lacks |= SNAP_LACK_OWNERS;
		if (wait && snap_wait_kind_is(wait->kind, SNAP_KIND_LOCK) && !wait->has_owner &&
		    !wait->holder_count &&
		    (wait->owner_lack == SNAP_OWNER_NOT_KEPT ||
		     wait->owner_lack == SNAP_OWNER_UNREADABLE ||
		     wait->owner_lack == SNAP_OWNER_NOT_SEEN ||
		     wait->owner_lack == SNAP_OWNER_YOUNGER))
			lacks |= SNAP_LACK_OWNERS;
		/* What it waits for is known by the functions that called the kernel. */
		if (waits->waiters[i].thread->thread->stack_limited &&
		    (!wait || wait->kind == SNAP_WAIT_FUTEX))
			lacks |= SNAP_LACK_CUT;
	}
	return lacks;
}

static struct stacksnap_error *find_waits(struct snap_wait_analysis *waits)
{
	struct stacksnap_error *err;

	SNAP_TRY(explain_listed(waits));
	SNAP_TRY(snap_wait_find_runners(waits));
	SNAP_TRY(snap_wait_name_data(waits));
	SNAP_TRY(snap_wait_find_hints(waits));
	snap_wait_join_parties(waits);
	snap_wait_place_parties(waits);
	err = snap_wait_find_edges(waits);
	err = err ?: snap_wait_find_deadlocks(waits);
	err = err ?: snap_wait_find_blockers(waits);
	waits->analysis->snapshot->waits.lacks |= owner_lacks(waits);
	return err ? err : snap_wait_find_contended(waits);
}

static struct stacksnap_error *
run_wait_step(struct snap_wait_analysis *waits,
	      struct stacksnap_error *(*work)(struct snap_wait_analysis *))
{
	struct stacksnap_error *err;

	waits->lookup = snap_wait_lookup_create();
	SNAP_TRY(snap_no_memory_unless(waits->lookup));
	err = work(waits);
	snap_wait_callees_deinit(waits);
	snap_wait_index_deinit(waits);
	snap_wait_lookup_destroy(waits->lookup);
	return err;
}

/* Locks of runtimes that no part of the analysis knows. */
static unsigned runtime_lacks(const struct snap_analysis *analysis)
{
	unsigned lacks = 0;

	for (size_t i = 0; i < analysis->capture->process_count; i++)
		for (size_t k = 0; k < analysis->processes[i].runtime_count; k++)
			lacks |= analysis->processes[i].runtimes[k]->lacks;
	return lacks;
}

struct stacksnap_error *snap_waits_find(struct snap_analysis *analysis)
{
	struct snap_wait_analysis waits = { .analysis = analysis,
					    .facts = analysis->capture->waits,
					    .has_times = true };

	if (!waits.facts || analysis->options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	analysis->snapshot->waits.asked = true;
	analysis->snapshot->waits.lacks = waits.facts->lacks | runtime_lacks(analysis);
	return run_wait_step(&waits, find_waits);
}

struct stacksnap_error *snap_waits_explain(struct snap_analysis *analysis)
{
	struct snap_wait_analysis waits = { .analysis = analysis,
					    .facts = analysis->capture->waits };

	return run_wait_step(&waits, find_objects);
}
