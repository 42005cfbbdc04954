/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blockers: struct snap_blocker of model/wait/wait.h. From each thread that waits for a lock, the
 * walk goes to the owner, and on to the owner of the lock that this one waits for. It ends at a
 * thread that waits for no lock, or at an owner that will never act. Each thread is visited once,
 * however many wait behind it.
 */
#include "analyze/wait/graph/deadlock.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/wait/kind.h"

#include <stdlib.h>

static const size_t NO_ROOT = SIZE_MAX;

/* An owner that can never release anything: the owner that a wait without a living one means. */
struct absent {
	size_t process; /* of those that wait for it; SIZE_MAX: it was none of theirs */
	pid_t tid;
	enum snap_owner_lack lack;
};

/* That a thread is held up by the root in the end, and the object it waits for itself. */
struct held {
	size_t root;
	uint64_t object;
	bool certain; /* the thread itself waits for it for ever, beyond doubt */
};

struct blocking {
	struct snap_wait_analysis *waits;
	/* Of each waiter: the thread that it waits for, and the end of the chain; NO_ROOT: none. Roots are
	 * numbers of waiters, behind them of processes, behind them of absent owners. */
	size_t *next, *root;
	size_t processes, absentees;
	struct absent *absent;
	size_t absent_count, absent_capacity;
	struct held *held;
	size_t held_count;
};

SNAP_FREES(blocking_deinit, struct blocking, next, root, absent, held);

static bool waits_for_lock(const struct snap_waiter *waiter)
{
	return waiter->wait && snap_wait_kind_is(waiter->wait->kind, SNAP_KIND_LOCK) &&
	       waiter->wait->confidence >= SNAP_WAIT_IS_LIKELY;
}

/* ---- what each waits for ---- */

static bool never_comes(enum snap_owner_lack lack)
{
	return lack == SNAP_OWNER_EXITED || lack == SNAP_OWNER_AT_FORK ||
	       lack == SNAP_OWNER_REFUSED;
}

static bool waits_for_ever(const struct snap_waiter *waiter)
{
	return never_comes(waiter->wait->owner_lack) && !waiter->wait->timed &&
	       waiter->wait->confidence == SNAP_WAIT_IS_CERTAIN;
}

/* There are as many as there are locks of the dead, of which few occur: a list is enough. */
static size_t find_absent(struct blocking *blocking, const struct snap_waiter *waiter)
{
	enum { MOST_ABSENT = 64 };
	/* Of a lock that processes share, it is not known which one it belonged to. */
	const struct snap_wait *wait = waiter->wait;
	bool is_anybodys = wait->owner_lack == SNAP_OWNER_EXITED && !wait->owner.pid;
	struct absent wanted = { is_anybodys ? SIZE_MAX : waiter->process, wait->owner.tid,
				 wait->owner_lack };

	for (size_t i = 0; i < blocking->absent_count; i++) {
		const struct absent *absent = &blocking->absent[i];

		if (absent->process == wanted.process && absent->tid == wanted.tid &&
		    absent->lack == wanted.lack)
			return blocking->absentees + i;
	}
	if (blocking->absent_count == MOST_ABSENT ||
	    !snap_append(blocking->absent, blocking->absent_count, blocking->absent_capacity,
			 wanted))
		return NO_ROOT;
	return blocking->absentees + blocking->absent_count - 1;
}

/* The process that holds a file lock, its thread where there is one alone; several: none. */
static size_t find_holder(const struct blocking *blocking, const struct snap_waiter *waiter)
{
	const struct snap_wait_analysis *waits = blocking->waits;
	const struct snap_wait_set *set;
	size_t process;

	if (waiter->any_set == (size_t)SNAP_NO_SET)
		return NO_ROOT;
	set = &waits->sets[waiter->any_set];
	if (set->count != 1)
		return NO_ROOT;
	process = set->processes[0];
	return waits->first[process + 1] - waits->first[process] == 1
		       ? waits->first[process]
		       : blocking->processes + process;
}

static size_t find_next(struct blocking *blocking, const struct snap_waiter *waiter)
{
	if (!waits_for_lock(waiter) || waiter->is_deadlocked)
		return NO_ROOT;
	if (never_comes(waiter->wait->owner_lack))
		return find_absent(blocking, waiter);
	if (waiter->any_count == 1)
		return waiter->any_of[0];
	if (waiter->owner)
		return (size_t)(waiter->owner - blocking->waits->waiters);
	return find_holder(blocking, waiter);
}

/* ---- the ends of the chains ---- */

enum mark { FRESH, ON_PATH, DONE };

static size_t end_of_chain(const struct blocking *blocking, const unsigned char *marks, size_t at)
{
	if (at >= blocking->processes || blocking->next[at] == NO_ROOT)
		return at;
	/* A circle has no end: its threads are reported as a deadlock, or are not sure. */
	return marks[at] == ON_PATH ? NO_ROOT : blocking->root[at];
}

static bool find_roots(struct blocking *blocking)
{
	size_t count = blocking->waits->waiter_count, length;
	_cleanup_free_ unsigned char *marks = calloc(count + 1, sizeof(*marks));
	_cleanup_free_ size_t *path = calloc(count + 1, sizeof(*path));

	if (!marks || !path)
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t at = i, end;

		for (length = 0; at < count && marks[at] == FRESH && blocking->next[at] != NO_ROOT;
		     at = blocking->next[at]) {
			marks[at] = ON_PATH;
			path[length++] = at;
		}
		end = end_of_chain(blocking, marks, at);
		while (length) {
			at = path[--length];
			marks[at] = DONE;
			blocking->root[at] = end;
		}
	}
	return true;
}

/* ---- the list ---- */

static uint64_t object_of_waiter(const struct snap_waiter *waiter)
{
	if (waiter->object)
		return waiter->object;
	return snap_hash_add(snap_hash_add(waiter->wait->kind, waiter->process),
			     waiter->wait->address);
}

SNAP_ORDER(compare_held, struct held, a, b, snap_compare(a->root, b->root),
	   snap_compare(a->object, b->object));

static void list_held(struct blocking *blocking)
{
	const struct snap_wait_analysis *waits = blocking->waits;

	for (size_t i = 0; i < waits->waiter_count; i++) {
		size_t root = blocking->next[i] == NO_ROOT ? NO_ROOT : blocking->root[i];

		if (root == NO_ROOT ||
		    (root < blocking->processes && waits->waiters[root].is_deadlocked))
			continue;
		blocking->held[blocking->held_count++] =
			(struct held){ root, object_of_waiter(&waits->waiters[i]),
				       root >= blocking->absentees &&
					       waits_for_ever(&waits->waiters[i]) };
	}
	qsort(blocking->held, blocking->held_count, sizeof(*blocking->held), compare_held);
}

static struct snap_blocker blocker_of(const struct blocking *blocking, size_t root)
{
	struct snap_wait_analysis *waits = blocking->waits;

	if (root >= blocking->absentees) {
		const struct absent *absent = &blocking->absent[root - blocking->absentees];

		return (struct snap_blocker){
			.pid = absent->process == SIZE_MAX
				       ? 0
				       : waits->analysis->processes[absent->process].process->pid,
			.tid = absent->tid,
			.lack = absent->lack,
		};
	}
	if (root >= blocking->processes) {
		const struct snap_process *process =
			waits->analysis->processes[root - blocking->processes].process;

		return (struct snap_blocker){
			.pid = process->pid,
			.name = snap_analysis_text(waits->analysis, process->name),
			.state = process->state,
		};
	}
	{
		const struct snap_waiter *waiter = &waits->waiters[root];
		struct snap_wait_link link = snap_wait_link_of(waits, waiter);

		return (struct snap_blocker){
			.pid = link.pid,
			.tid = link.tid,
			.name = link.name,
			.function = link.function,
			.wait = link.wait,
			.state = waiter->thread->thread->state,
		};
	}
}

SNAP_ORDER(compare_blockers, struct snap_blocker, a, b, snap_compare(b->blocked, a->blocked),
	   snap_compare(a->pid, b->pid), snap_compare(a->tid, b->tid),
	   snap_compare(a->lack, b->lack));

static size_t count_roots(const struct blocking *blocking)
{
	return snap_sum(blocking->held_count, i,
			i == 0 || blocking->held[i].root != blocking->held[i - 1].root);
}

static struct stacksnap_error *list_blockers(struct blocking *blocking)
{
	struct snap_waits *ret = &blocking->waits->analysis->snapshot->waits;
	size_t count = count_roots(blocking);
	const struct held *held = blocking->held, *end = held + blocking->held_count;

	ret->blockers = snap_arena_new_array(snap_wait_arena(blocking->waits), count + 1,
					     struct snap_blocker);
	SNAP_TRY(snap_no_memory_unless(ret->blockers));
	while (held < end) {
		struct snap_blocker *blocker = &ret->blockers[ret->blocker_count++];
		const struct held *first = held;

		*blocker = blocker_of(blocking, first->root);
		for (; held < end && held->root == first->root; held++) {
			blocker->blocked++;
			blocker->certain |= held->certain;
			blocker->locks += held == first || held->object != held[-1].object;
		}
	}
	qsort(ret->blockers, ret->blocker_count, sizeof(*ret->blockers), compare_blockers);
	if (ret->blocker_count > SNAP_WAIT_LIST)
		ret->blocker_count = SNAP_WAIT_LIST;
	return NULL;
}

struct stacksnap_error *snap_wait_find_blockers(struct snap_wait_analysis *waits)
{
	size_t room = waits->waiter_count + 1;
	_cleanup_(blocking_deinit) struct blocking blocking = {
		.waits = waits,
		.next = calloc(room, sizeof(*blocking.next)),
		.root = calloc(room, sizeof(*blocking.root)),
		.held = calloc(room, sizeof(*blocking.held)),
		.processes = waits->waiter_count,
		.absentees = waits->waiter_count + waits->analysis->capture->process_count,
	};

	SNAP_TRY(snap_no_memory_unless(blocking.next && blocking.root && blocking.held));
	for (size_t i = 0; i < waits->waiter_count; i++)
		blocking.next[i] = find_next(&blocking, &waits->waiters[i]);
	SNAP_TRY(snap_no_memory_unless(find_roots(&blocking)));
	list_held(&blocking);
	return list_blockers(&blocking);
}
