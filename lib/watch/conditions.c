/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One function a condition: see conditions.h. */
#include "watch/conditions.h"

#include "base/buffer.h"
#include "base/text.h"
#include "model/wait/kind.h"
#include "watch/known.h"

#include <string.h>

enum {
	DEADLOCK_LOOKS = 2,
	SPINNING_LOOKS = 5,
	TOP_FRAMES = 5,
	MOST_MEMBERS = 1 << 16, /* of a stuck group that are looked at */
};

/* ---- what is known of a thread ---- */

static uint64_t hash_of_thread(pid_t pid, pid_t tid)
{
	return snap_hash_add((uint64_t)pid, (uint64_t)tid);
}

static void sweep_index_deinit(struct snap_sweep_index *index)
{
	snap_hash_table_deinit(&index->table);
}

static bool sweep_index_init(struct snap_sweep_index *index, const struct snap_sweep *sweep)
{
	index->sweep = sweep;
	for (size_t i = 0; i < sweep->thread_count; i++) {
		const struct snap_sweep_thread *thread = &sweep->threads[i];

		if (thread->shown && thread->process &&
		    !snap_hash_table_add(&index->table,
					 hash_of_thread(thread->process->pid, thread->shown->tid),
					 i))
			return false;
	}
	return true;
}

const struct snap_sweep_thread *snap_sweep_find(const struct snap_sweep_index *index, pid_t pid,
						pid_t tid)
{
	return snap_hash_find_in(&index->table, hash_of_thread(pid, tid), index->sweep->threads,
				 thread, thread->process->pid == pid && thread->shown->tid == tid);
}

bool snap_conditions_looks_again(const struct snap_wait *wait)
{
	return wait->timed || wait->kind == SNAP_WAIT_GIL || wait->kind == SNAP_WAIT_MONITOR;
}

int64_t snap_conditions_age(const struct snap_conditions *conditions,
			    const struct snap_sweep_thread *thread,
			    const struct snap_member *member)
{
	const struct snap_view *view = conditions->view;
	const struct snap_wait *wait = member->wait;
	int64_t now = conditions->sweep->now_ns, since, by_wait, age;

	if (!thread || !wait ||
	    !snap_sweep_is_still(thread, view->taken_ns, snap_view_left_ns(view, member),
				 snap_conditions_looks_again(wait)))
		return -1;
	since = thread->blocked_ns ? thread->blocked_ns : thread->shown->ran_ns;
	/* Each run is progress, even one that ends where it began, unless the thread only polls. */
	if (!snap_conditions_looks_again(wait) && thread->shown->ran_ns > since)
		since = thread->shown->ran_ns;
	by_wait = wait->since_ns < 0 ? 0 : wait->since_ns + now - view->taken_ns;
	age = now - since > by_wait ? now - since : by_wait;
	/* It may have come there since the look began: the snapshot was taken behind that. */
	return age > 0 ? age : 0;
}

const struct snap_node *snap_conditions_node(const struct snap_view *view, pid_t pid)
{
	for (size_t i = 0; i < view->thread_count; i++)
		if (view->threads[i].node->pid == pid)
			return view->threads[i].node;
	return NULL;
}

/* ---- by the view ---- */

/* Whether none of them has gone on since the view. */
static bool deadlock_stands(const struct snap_conditions *conditions,
			    const struct snap_sweep_index *index,
			    const struct snap_deadlock *deadlock)
{
	for (size_t i = 0; i < deadlock->thread_count; i++) {
		const struct snap_wait_link *link = &deadlock->threads[i];
		const struct snap_view_thread *seen =
			snap_view_find(conditions->view, link->pid, link->tid);

		if (!seen ||
		    snap_conditions_age(conditions, snap_sweep_find(index, link->pid, link->tid),
					seen->member) < 0)
			return false;
	}
	return deadlock->thread_count != 0;
}

static struct stacksnap_error *check_deadlocks(const struct snap_conditions *conditions,
					       const struct snap_sweep_index *index)
{
	const struct snap_waits *waits = &conditions->view->snapshot->waits;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < waits->deadlock_count && !err; i++) {
		const struct snap_deadlock *deadlock = &waits->deadlocks[i];
		pid_t tids[SNAP_DEADLOCK_SHOWN];
		const struct snap_node *node;
		struct snap_sighting sighting;
		uint64_t key = 0;

		if (deadlock->timed || !deadlock_stands(conditions, index, deadlock))
			continue;
		for (size_t k = 0; k < deadlock->thread_count; k++) {
			const struct snap_wait_link *link = &deadlock->threads[k];

			tids[k] = link->tid;
			key = snap_hash_add(key, (uint64_t)link->tid);
			key = snap_hash_add(key, link->wait->address);
		}
		node = snap_conditions_node(conditions->view, deadlock->threads[0].pid);
		sighting = (struct snap_sighting){
			.key = key,
			.sightings = DEADLOCK_LOOKS,
			.evidence = conditions->view->number,
			.alert = { .kind = SNAP_ALERT_DEADLOCK,
				   .pid = deadlock->threads[0].pid,
				   .process = node ? node->name : NULL,
				   .tids = tids,
				   .tid_count = deadlock->thread_count,
				   .count = deadlock->size,
				   .wait = deadlock->threads[0].wait,
				   .deadlock = deadlock,
				   .snapshot = conditions->view->snapshot },
		};
		err = snap_alarms_see(conditions->alarms, &sighting, conditions->sweep->now_ns);
	}
	return err;
}

/* Waits that are never waits for work, by their kind; the functions of the stack decide as well. */
static bool can_be_stuck(const struct snap_wait *wait)
{
	if (wait->kind == SNAP_WAIT_DISK)
		return snap_same_text(wait->variant, "fuse");
	/* A reader may wait for work; a writer or a connecting thread does not. */
	return snap_wait_kind_is(wait->kind, SNAP_KIND_STUCK) ||
	       (snap_wait_kind_is(wait->kind, SNAP_KIND_STUCK_WRITER) &&
		(wait->mode == SNAP_WAIT_WRITE || snap_same_text(wait->variant, "connect")));
}

static uint64_t object_of_wait(pid_t pid, const struct snap_wait *wait)
{
	uint64_t hash = snap_hash_add((uint64_t)pid, (uint64_t)wait->kind);

	hash = snap_hash_add(hash, wait->address);
	hash = snap_hash_add(hash, (uint64_t)wait->fd);
	hash = snap_hash_add(hash, (uint64_t)wait->child);
	return snap_hash_text(wait->remote, snap_hash_text(wait->path, hash));
}

/* All threads that are stuck at one object; the first of them is reported. */
struct stuck {
	uint64_t key;
	size_t first; /* in view->threads */
	int64_t age_ns;
	pid_t tids[SNAP_ALARM_TIDS];
	size_t tid_count;
};

struct stuck_list {
	struct stuck *list;
	size_t count, capacity;
	struct snap_hash_table table;
};

static void stuck_list_deinit(struct stuck_list *list)
{
	free(list->list);
	snap_hash_table_deinit(&list->table);
}

static struct stuck *find_stuck(struct stuck_list *list, uint64_t key, size_t first)
{
	struct snap_probe probe = snap_hash_table_probe(&list->table, key);

	while (snap_probe_next(&probe))
		if (list->list[probe.number].key == key)
			return &list->list[probe.number];
	if (!snap_reserve_array(list->list, list->capacity, list->count + 1) ||
	    !snap_hash_table_add(&list->table, key, list->count))
		return NULL;
	list->list[list->count] = (struct stuck){ .key = key, .first = first };
	return &list->list[list->count++];
}

static struct stacksnap_error *list_stuck(const struct snap_conditions *conditions,
					  const struct snap_sweep_index *index,
					  struct stuck_list *list)
{
	int64_t least = conditions->alarms->rules->of[SNAP_ALERT_STUCK].for_ns;
	const struct snap_view *view = conditions->view;

	for (size_t i = 0; i < view->thread_count && list->count < MOST_MEMBERS; i++) {
		const struct snap_view_thread *seen = &view->threads[i];
		const struct snap_wait *wait = seen->member->wait;
		struct stuck *stuck;
		int64_t age;

		if (!wait || !can_be_stuck(wait))
			continue;
		age = snap_conditions_age(
			conditions, snap_sweep_find(index, seen->node->pid, seen->member->tid),
			seen->member);
		if (age < least || seen->member->idle)
			continue;
		stuck = find_stuck(list, object_of_wait(seen->node->pid, wait), i);
		SNAP_TRY(snap_no_memory_unless(stuck));
		if (age > stuck->age_ns)
			stuck->age_ns = age;
		if (stuck->tid_count < SNAP_ALARM_TIDS)
			stuck->tids[stuck->tid_count++] = seen->member->tid;
	}
	return NULL;
}

static struct stacksnap_error *check_stuck(const struct snap_conditions *conditions,
					   const struct snap_sweep_index *index)
{
	_cleanup_(stuck_list_deinit) struct stuck_list list = { .list = NULL };
	struct stacksnap_error *err = list_stuck(conditions, index, &list);

	for (size_t i = 0; i < list.count && !err; i++) {
		const struct stuck *stuck = &list.list[i];
		const struct snap_view_thread *seen = &conditions->view->threads[stuck->first];
		const struct snap_sighting sighting = {
			.key = stuck->key,
			.holds_ns = stuck->age_ns,
			.sightings = 1,
			.alert = { .kind = SNAP_ALERT_STUCK,
				   .pid = seen->node->pid,
				   .process = seen->node->name,
				   .tids = stuck->tids,
				   .tid_count = stuck->tid_count,
				   .name = seen->member->name,
				   .wait = seen->member->wait,
				   .stack = seen->stack,
				   .snapshot = conditions->view->snapshot },
		};

		err = snap_alarms_see(conditions->alarms, &sighting, conditions->sweep->now_ns);
	}
	return err;
}

static bool is_connecting(const struct snap_wait *wait)
{
	return snap_same_text(wait->socket_state, "syn_sent");
}

static bool has_silent_peer(const struct snap_wait *wait)
{
	return wait->kind == SNAP_WAIT_TCP && (wait->send_queue > 0 || is_connecting(wait));
}

/* How long no answer has come: for a connect as long as the call lasts, for a queue it is unknown. */
static int64_t silent_ns(const struct snap_conditions *conditions,
			 const struct snap_sweep_index *index, const struct snap_view_thread *seen)
{
	int64_t age;

	if (!is_connecting(seen->member->wait))
		return 0;
	age = snap_conditions_age(conditions,
				  snap_sweep_find(index, seen->node->pid, seen->member->tid),
				  seen->member);
	return age > 0 ? age : 0;
}

/* A queue that has changed is another thing: its key has the number of bytes. */
static struct stacksnap_error *check_peers(const struct snap_conditions *conditions,
					   const struct snap_sweep_index *index)
{
	const struct snap_view *view = conditions->view;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < view->thread_count && !err; i++) {
		const struct snap_view_thread *seen = &view->threads[i];
		const struct snap_wait *wait = seen->member->wait;
		struct snap_sighting sighting;

		if (!wait || !has_silent_peer(wait))
			continue;
		sighting = (struct snap_sighting){
			.key = snap_hash_add(object_of_wait(seen->node->pid, wait),
					     (uint64_t)wait->send_queue),
			.holds_ns = silent_ns(conditions, index, seen),
			.sightings = 1,
			.alert = { .kind = SNAP_ALERT_PEER,
				   .pid = seen->node->pid,
				   .process = seen->node->name,
				   .tids = &seen->member->tid,
				   .tid_count = 1,
				   .name = seen->member->name,
				   .wait = wait,
				   .stack = seen->stack,
				   .snapshot = view->snapshot },
		};
		err = snap_alarms_see(conditions->alarms, &sighting, conditions->sweep->now_ns);
	}
	return err;
}

/* ---- by the sweep ---- */

static const struct snap_view_thread *view_of(const struct snap_conditions *conditions,
					      const struct snap_sweep_thread *thread)
{
	if (!conditions->view->snapshot)
		return NULL;
	return snap_view_find(conditions->view, thread->process->pid, thread->shown->tid);
}

static struct stacksnap_error *check_disk(const struct snap_conditions *conditions)
{
	const struct snap_sweep *sweep = conditions->sweep;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < sweep->thread_count && !err; i++) {
		const struct snap_sweep_thread *thread = &sweep->threads[i];
		const struct snap_view_thread *seen;
		struct snap_sighting sighting;
		int64_t holds_ns, age;

		if (!thread->shown || !thread->process || thread->shown->state != 'D')
			continue;
		seen = view_of(conditions, thread);
		/* The kernel may know that it began before the watch did. */
		holds_ns = sweep->now_ns - thread->shown->ran_ns;
		age = seen ? snap_conditions_age(conditions, thread, seen->member) : -1;
		sighting = (struct snap_sighting){
			.key = hash_of_thread(thread->process->pid, thread->shown->tid),
			.holds_ns = SNAP_MAX(holds_ns, age),
			.sightings = 1,
			.alert = { .kind = SNAP_ALERT_DISK,
				   .pid = thread->process->pid,
				   .process = thread->process->name,
				   .tids = &thread->shown->tid,
				   .tid_count = 1,
				   .name = thread->shown->name,
				   .wait = seen ? seen->member->wait : NULL,
				   .stack = seen ? seen->stack : NULL,
				   .snapshot = conditions->view->snapshot },
		};
		err = snap_alarms_see(conditions->alarms, &sighting, sweep->now_ns);
	}
	return err;
}

/* The functions on top, by name; 0: there are none. */
static uint64_t hash_top(const struct snap_stack *stack)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < stack->frame_count && i < TOP_FRAMES; i++) {
		const struct snap_entry *entry = &stack->frames[i]->entries[0];

		hash = snap_hash_text(entry->symbol ? entry->symbol : entry->function, hash + 1);
	}
	return hash;
}

static struct stacksnap_error *check_spinning(const struct snap_conditions *conditions)
{
	const struct snap_sweep *sweep = conditions->sweep;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < sweep->thread_count && !err; i++) {
		const struct snap_sweep_thread *thread = &sweep->threads[i];
		const struct snap_view_thread *seen;
		struct snap_sighting sighting;

		if (!thread->shown || !thread->process || !thread->busy_ns)
			continue;
		seen = view_of(conditions, thread);
		/* What it did before it was busy says nothing. */
		if (!seen || conditions->view->taken_ns < thread->busy_ns ||
		    !seen->stack->frame_count)
			continue;
		sighting = (struct snap_sighting){
			.key = snap_hash_add(
				hash_of_thread(thread->process->pid, thread->shown->tid),
				hash_top(seen->stack)),
			.holds_ns = sweep->now_ns - thread->busy_ns,
			.sightings = SPINNING_LOOKS,
			.evidence = conditions->view->number,
			.alert = { .kind = SNAP_ALERT_SPINNING,
				   .pid = thread->process->pid,
				   .process = thread->process->name,
				   .tids = &thread->shown->tid,
				   .tid_count = 1,
				   .name = thread->shown->name,
				   .count = thread->percent,
				   .stack = seen->stack,
				   .snapshot = conditions->view->snapshot },
		};
		err = snap_alarms_see(conditions->alarms, &sighting, sweep->now_ns);
	}
	return err;
}

static struct stacksnap_error *see_pool(const struct snap_conditions *conditions,
					const struct snap_thread_pool *pool,
					enum snap_alert_kind kind, int64_t holds_ns)
{
	const struct snap_sighting sighting = {
		.key = snap_hash_text(pool->pattern, (uint64_t)pool->pid),
		.holds_ns = holds_ns,
		.sightings = 1,
		.alert = { .kind = kind,
			   .pid = pool->pid,
			   .process = pool->process->name,
			   .tids = pool->tids,
			   .tid_count = pool->tid_count,
			   .name = pool->pattern,
			   .count = pool->threads,
			   .before = kind == SNAP_ALERT_GROWTH ? pool->numbers[0] : 0,
			   .snapshot = conditions->view->snapshot },
	};

	return snap_alarms_see(conditions->alarms, &sighting, conditions->sweep->now_ns);
}

static struct stacksnap_error *check_pools(const struct snap_conditions *conditions)
{
	const struct snap_pools *pools = conditions->pools;
	unsigned percent = conditions->alarms->rules->of[SNAP_ALERT_GROWTH].least;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < pools->count && !err; i++) {
		const struct snap_thread_pool *pool = &pools->pools[i];

		if (pool->round != pools->round)
			continue;
		if (pool->away_ns)
			err = see_pool(conditions, pool, SNAP_ALERT_POOL,
				       conditions->sweep->now_ns - pool->away_ns);
		if (!err && snap_thread_pool_grows(pool, percent))
			err = see_pool(conditions, pool, SNAP_ALERT_GROWTH, 0);
	}
	return err;
}

struct stacksnap_error *snap_conditions_check(const struct snap_conditions *conditions)
{
	_cleanup_(sweep_index_deinit) struct snap_sweep_index index = { .sweep = NULL };
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(sweep_index_init(&index, conditions->sweep)));
	if (conditions->view->snapshot) {
		err = check_deadlocks(conditions, &index);
		err = err ?: snap_conditions_check_blockers(conditions, &index);
		err = err ?: check_stuck(conditions, &index);
		err = err ?: check_peers(conditions, &index);
	}
	err = err ?: check_disk(conditions);
	err = err ?: check_spinning(conditions);
	return err ? err : check_pools(conditions);
}

/* ---- is another snapshot needed ---- */

/* It came to where it waits after the last snapshot, and has not moved since the last look. */
static bool is_new_wait(const struct snap_conditions *conditions,
			const struct snap_sweep_thread *thread)
{
	const struct snap_sweep *sweep = conditions->sweep;

	return thread->is_blocked && thread->blocked_ns > conditions->view->taken_ns &&
	       thread->blocked_ns < sweep->now_ns && thread->shown->ran_ns < sweep->now_ns &&
	       sweep->last_ns;
}

static bool is_busy_unseen(const struct snap_conditions *conditions,
			   const struct snap_sweep_thread *thread)
{
	const struct snap_watch_rule *rule = &conditions->alarms->rules->of[SNAP_ALERT_SPINNING];

	return rule->on && thread->busy_ns &&
	       conditions->sweep->now_ns - thread->busy_ns >= rule->for_ns / 2 &&
	       conditions->view->taken_ns < thread->busy_ns;
}

bool snap_conditions_need_view(const struct snap_conditions *conditions)
{
	const struct snap_sweep *sweep = conditions->sweep;

	/* One that is asked for an answer has no later look in which it would see what it missed. */
	if (!conditions->view->snapshot || conditions->options->watch_once ||
	    snap_alarms_lack_evidence(conditions->alarms) ||
	    snap_alarms_hold(conditions->alarms, SNAP_ALERT_BLOCKED) ||
	    snap_alarms_hold(conditions->alarms, SNAP_ALERT_PEER))
		return true;
	for (size_t i = 0; i < sweep->thread_count; i++) {
		const struct snap_sweep_thread *thread = &sweep->threads[i];

		if (thread->shown && thread->process &&
		    (is_new_wait(conditions, thread) || is_busy_unseen(conditions, thread)))
			return true;
	}
	return false;
}
