/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that hold up others, and still do.
 *
 * A snapshot names the blockers of its instant. A busy lock has one at any instant, and another
 * each time: threads come and go, and no thread is held up for long. So between two snapshots a
 * blocker counts only as long as it cannot have let go: it has not run, or none of its waiters has,
 * because releasing a lock wakes one of them.
 */
#include "base/bsearch.h"
#include "base/cleanup.h"
#include "watch/known.h"

#include <stdlib.h>

enum { MOST_LINKS = 64 /* of a chain of owners that are followed */ };

/* Of those behind a blocker, since the view. */
struct queue {
	int64_t *ages; /* of those that stand */
	size_t standing;
	bool has_moved;               /* a waiter went on, and not merely to check again */
	const struct snap_wait *held; /* of the first that waits for the blocker itself */
};

static bool is_held_by(const struct snap_wait *wait, const struct snap_blocker *blocker)
{
	if (blocker->lack != SNAP_OWNER_KNOWN)
		return wait->owner_lack == blocker->lack && wait->owner.tid == blocker->tid;
	if (blocker->tid)
		return wait->has_owner && wait->owner.pid == blocker->pid &&
		       wait->owner.tid == blocker->tid;
	return snap_any(wait->holder_count, i, wait->holders[i].pid == blocker->pid) ||
	       (wait->has_owner && wait->owner.pid == blocker->pid);
}

/* It waits for the blocker, or for a thread that does. */
static bool is_behind(const struct snap_view *view, const struct snap_view_thread *seen,
		      const struct snap_blocker *blocker)
{
	for (int i = 0; seen && seen->member->wait && i < MOST_LINKS; i++) {
		const struct snap_wait *wait = seen->member->wait;

		if (wait->kind == SNAP_WAIT_THREAD)
			return false;
		if (is_held_by(wait, blocker))
			return true;
		seen = wait->has_owner ? snap_view_find(view, wait->owner.pid, wait->owner.tid)
				       : NULL;
	}
	return false;
}

/* False without memory. */
static bool find_queue(const struct snap_conditions *conditions,
		       const struct snap_sweep_index *index, const struct snap_blocker *blocker,
		       struct queue *queue)
{
	const struct snap_view *view = conditions->view;

	queue->ages = malloc((view->thread_count + 1) * sizeof(*queue->ages));
	for (size_t i = 0; queue->ages && i < view->thread_count; i++) {
		const struct snap_view_thread *seen = &view->threads[i];
		int64_t age;

		if (!is_behind(view, seen, blocker))
			continue;
		if (!queue->held && is_held_by(seen->member->wait, blocker))
			queue->held = seen->member->wait;
		age = snap_conditions_age(
			conditions, snap_sweep_find(index, seen->node->pid, seen->member->tid),
			seen->member);
		if (age >= 0)
			queue->ages[queue->standing++] = age;
		else if (!snap_conditions_looks_again(seen->member->wait))
			queue->has_moved = true;
	}
	return queue->ages != NULL;
}

SNAP_ORDER(compare_ages, int64_t, a, b, snap_compare(*b, *a));

/* For how long at least so many threads have been waiting; 0: unknown. */
static int64_t blocked_for(struct queue *queue, size_t least)
{
	if (!least || queue->standing < least)
		return 0;
	qsort(queue->ages, queue->standing, sizeof(*queue->ages), compare_ages);
	return queue->ages[least - 1];
}

/* A thread that never returns does not run either. */
static bool has_run(const struct snap_conditions *conditions, const struct snap_sweep_index *index,
		    const struct snap_blocker *blocker)
{
	const struct snap_view *view = conditions->view;
	const struct snap_sweep_thread *thread;
	const struct snap_view_thread *seen;

	if (blocker->lack != SNAP_OWNER_KNOWN)
		return false;
	seen = snap_view_find(view, blocker->pid, blocker->tid);
	thread = snap_sweep_find(index, blocker->pid, blocker->tid);
	return !seen || !thread || thread->shown->ran_ns > snap_view_left_ns(view, seen->member);
}

struct stacksnap_error *snap_conditions_check_blockers(const struct snap_conditions *conditions,
						       const struct snap_sweep_index *index)
{
	const struct snap_watch_rule *rule = &conditions->alarms->rules->of[SNAP_ALERT_BLOCKED];
	const struct snap_view *view = conditions->view;
	const struct snap_waits *waits = &view->snapshot->waits;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; rule->on && i < waits->blocker_count && !err; i++) {
		const struct snap_blocker *blocker = &waits->blockers[i];
		const struct snap_view_thread *seen =
			snap_view_find(view, blocker->pid, blocker->tid);
		const struct snap_node *node = snap_conditions_node(view, blocker->pid);
		struct queue queue = { .ages = NULL };
		_cleanup_free_ int64_t *ages = NULL;
		struct snap_sighting sighting;

		if (blocker->blocked < rule->least)
			continue;
		SNAP_TRY(snap_no_memory_unless(find_queue(conditions, index, blocker, &queue)));
		ages = queue.ages;
		if (has_run(conditions, index, blocker) &&
		    (queue.has_moved || queue.standing < rule->least))
			continue;
		sighting = (struct snap_sighting){
			.key = snap_hash_add((uint64_t)blocker->pid, (uint64_t)blocker->tid),
			.holds_ns = blocked_for(&queue, rule->least),
			.sightings = 1,
			.evidence = view->number,
			.alert = { .kind = SNAP_ALERT_BLOCKED,
				   .pid = blocker->pid,
				   .process = node ? node->name : NULL,
				   .tids = &blocker->tid,
				   .tid_count = 1,
				   .name = blocker->name,
				   .count = blocker->blocked,
				   .wait = blocker->wait,
				   .held = queue.held,
				   .function = blocker->function,
				   .stack = seen ? seen->stack : NULL,
				   .snapshot = view->snapshot },
		};
		err = snap_alarms_see(conditions->alarms, &sighting, conditions->sweep->now_ns);
	}
	return err;
}
