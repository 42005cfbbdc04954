/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Owners: which thread a word of an object means, and how sure that is.
 *
 * In private memory the number means a thread of the same process, in its own numbering. In shared
 * memory it means a thread of a process that maps the same place of the same file. Words can be
 * wrong: a thread that is not found is no owner, and the reason is recorded.
 */
#include "analyze/wait/futex.h"
#include "base/bsearch.h"
#include "base/clock.h"

#include <stdlib.h>

enum {
	OWNER_INCONSISTENT = 0x7fffffff,    /* PTHREAD_MUTEX_INCONSISTENT of glibc */
	OWNER_NOT_RECOVERABLE = 0x7ffffffe, /* PTHREAD_MUTEX_NOTRECOVERABLE */
	MOST_ANCESTORS = 64,
};

/* A process's shared mapping of a file. */
struct snap_wait_mapping {
	uint64_t dev, inode;
	uint64_t start, end; /* in the file */
	size_t process;
};

static uint64_t dev_of(const struct snap_map *map)
{
	return (uint64_t)map->dev_major << 32 | map->dev_minor;
}

SNAP_ORDER(compare_mappings, struct snap_wait_mapping, a, b, snap_compare(a->dev, b->dev),
	   snap_compare(a->inode, b->inode), snap_compare(a->process, b->process),
	   snap_compare(a->start, b->start));

/* Lists the shared mappings of all processes; without memory there are none. */
static void list_mappings(struct snap_wait_analysis *waits)
{
	const struct snap_capture *capture = waits->analysis->capture;
	size_t count = 0;

	waits->has_mappings = true;
	for (size_t i = 0; i < capture->process_count; i++)
		for (size_t k = 0; k < capture->processes[i].map_count; k++)
			count += capture->processes[i].maps[k].shared;
	waits->mappings = snap_arena_new_array(&waits->analysis->scratch, count + 1,
					       struct snap_wait_mapping);
	if (!waits->mappings)
		return;
	for (size_t i = 0; i < capture->process_count; i++) {
		for (size_t k = 0; k < capture->processes[i].map_count; k++) {
			const struct snap_map *map = &capture->processes[i].maps[k];

			if (!map->shared || !map->inode)
				continue;
			waits->mappings[waits->mapping_count++] =
				(struct snap_wait_mapping){ dev_of(map), map->inode, map->offset,
							    map->offset + (map->end - map->start),
							    i };
		}
	}
	qsort(waits->mappings, waits->mapping_count, sizeof(*waits->mappings), compare_mappings);
}

/* The one thread with that number among the processes that share the word; NULL: none, or several. */
static struct snap_waiter *find_sharer(struct snap_futex *futex, uint32_t tid)
{
	struct snap_wait_analysis *waits = futex->waits;
	uint64_t dev = dev_of(futex->map), inode = futex->map->inode;
	uint64_t offset = futex->address - futex->map->start + futex->map->offset;
	const struct snap_wait_mapping *mappings;
	struct snap_waiter *found = NULL;

	if (!waits->has_mappings)
		list_mappings(waits);
	mappings = waits->mappings;
	for (size_t i = snap_first_not(waits->mapping_count, m,
				       mappings[m].dev < dev || (mappings[m].dev == dev &&
								 mappings[m].inode < inode));
	     i < waits->mapping_count && mappings[i].dev == dev && mappings[i].inode == inode;
	     i++) {
		struct snap_waiter *one;

		if (offset < mappings[i].start || offset >= mappings[i].end)
			continue;
		one = snap_waiter_by_ns_tid(waits, mappings[i].process, tid);
		if (one && found && one != found)
			return NULL;
		found = one ? one : found;
	}
	return found;
}

static bool is_alive(const struct snap_waiter *waiter)
{
	char state = waiter->thread->thread->state;

	return state != 'Z' && state != 'X';
}

struct snap_waiter *snap_futex_find_owner(struct snap_futex *futex, uint32_t tid)
{
	struct snap_waiter *owner;

	if (tid == 0 || tid >= OWNER_NOT_RECOVERABLE)
		return NULL;
	owner = futex->is_shared ? find_sharer(futex, tid)
				 : snap_waiter_by_ns_tid(futex->waits, futex->waiter->process, tid);
	return owner && is_alive(owner) ? owner : NULL;
}

/*
 * Whether a thread began after the waiter had begun to wait. A later thread does not get a lock
 * that was waited for before, so its number was another thread's, which has exited. When the waiter
 * ran last is known at least: it may have waited longer.
 */
static bool is_too_young(const struct snap_futex *futex, const struct snap_waiter *owner)
{
	const struct snap_thread *thread = owner->thread->thread;
	int64_t blocked_ns = futex->waiter->thread->thread->blocked_ns;
	int64_t now_ns = futex->waits->facts->boottime_ns;
	int64_t ticks = futex->waits->analysis->capture->host.ticks_per_second, tick_ns;

	/* No thread is younger than itself, however roughly the times are known. */
	if (owner == futex->waiter || futex->can_be_overtaken || blocked_ns < 0 ||
	    blocked_ns > now_ns || !thread->start_ticks || ticks <= 0)
		return false;
	tick_ns = SNAP_NS_PER_S / ticks;
	if (tick_ns == 0 || thread->start_ticks > (uint64_t)(now_ns / tick_ns))
		return false;
	return thread->start_ticks > (uint64_t)((now_ns - blocked_ns) / tick_ns) + 1;
}

/* The thread has the number of the owner, and cannot be it. */
static void refuse_younger(struct snap_futex *futex, struct snap_wait *wait,
			   const struct snap_waiter *owner)
{
	wait->owner = snap_wait_party_of(owner);
	wait->owner.name = snap_analysis_text(futex->waits->analysis, wait->owner.name);
	wait->owner.wait = NULL;
	wait->owner_lack = SNAP_OWNER_YOUNGER;
}

static size_t root_of(const struct snap_wait_analysis *waits, size_t process)
{
	const struct snap_capture *capture = waits->analysis->capture;

	for (int i = 0; i < MOST_ANCESTORS && capture->processes[process].parent != SIZE_MAX; i++)
		process = capture->processes[process].parent;
	return process;
}

/* Both stood still at one moment: each tree is a stop of its own. */
static bool stood_together(const struct snap_wait_analysis *waits, const struct snap_waiter *a,
			   const struct snap_waiter *b)
{
	return snap_taken_at_once(a->thread->thread->taken) &&
	       snap_taken_at_once(b->thread->thread->taken) &&
	       b->thread->thread->result == SNAP_THREAD_COPIED &&
	       (a->process == b->process ||
		root_of(waits, a->process) == root_of(waits, b->process));
}

/*
 * Without a stop, both stood still at the one moment at which all were confirmed, and the word that names
 * the owner is of this moment. Only these two change it.
 */
static bool were_confirmed(const struct snap_waiter *a, const struct snap_waiter *b)
{
	const struct snap_thread *first = a->thread->thread, *second = b->thread->thread;

	return !snap_taken_at_once(first->taken) && !snap_taken_at_once(second->taken) &&
	       first->result == SNAP_THREAD_COPIED && second->result == SNAP_THREAD_COPIED &&
	       first->confirmed && second->confirmed;
}

void snap_futex_own_if_seen(struct snap_futex *futex, struct snap_wait *wait,
			    struct snap_waiter *owner)
{
	if (owner)
		snap_futex_own(futex, wait, owner);
	else
		wait->owner_lack = SNAP_OWNER_NOT_SEEN;
}

void snap_futex_own(struct snap_futex *futex, struct snap_wait *wait, struct snap_waiter *owner)
{
	/* The word is of another moment than the wait: it goes from hand to hand. */
	if (owner == futex->waiter && !snap_waiter_is_confirmed(owner)) {
		wait->owner_lack = SNAP_OWNER_CHANGING;
		return;
	}
	futex->waiter->owner = owner;
	wait->has_owner = true;
	wait->owner = snap_wait_party_of(owner);
	wait->owner_lack = SNAP_OWNER_KNOWN;
	if (wait->confidence == SNAP_WAIT_IS_CERTAIN &&
	    !stood_together(futex->waits, futex->waiter, owner))
		wait->confidence = SNAP_WAIT_IS_LIKELY;
	if (futex->lacks_stop && were_confirmed(futex->waiter, owner))
		wait->confidence = SNAP_WAIT_IS_CERTAIN;
}

/*
 * A fork copies locks that other threads hold, and none of those threads. NULL: no ancestor of the
 * process has the thread, which is known by its thread pointer, if that is not 0.
 */
static const struct snap_waiter *find_at_fork(struct snap_futex *futex, uint32_t tid,
					      uint64_t pointer)
{
	const struct snap_capture *capture = futex->waits->analysis->capture;
	size_t process = futex->waiter->process;

	for (int i = 0; i < MOST_ANCESTORS; i++) {
		const struct snap_waiter *found;

		process = capture->processes[process].parent;
		if (process == SIZE_MAX)
			return NULL;
		found = pointer ? snap_waiter_by_thread_pointer(futex->waits, process, pointer)
				: snap_waiter_by_ns_tid(futex->waits, process, tid);
		if (found)
			return found;
	}
	return NULL;
}

/*
 * Of a lock that processes share, the owner need not be in the report, nor without a stop: it has
 * ended where the machine was looked through for it.
 */
static void say_if_gone(struct snap_futex *futex, struct snap_wait *wait, uint32_t tid)
{
	const struct snap_wait_facts *facts = futex->waits->facts;
	const struct snap_gone_thread *gone = facts->gone;
	pid_t pid = snap_waiter_process(futex->waiter)->pid;
	size_t at =
		snap_first_not(facts->gone_count, i,
			       gone[i].pid != pid ? gone[i].pid < pid : gone[i].tid < (pid_t)tid);

	wait->owner_lack = SNAP_OWNER_NOT_SEEN;
	if (at == facts->gone_count || gone[at].pid != pid || gone[at].tid != (pid_t)tid)
		return;
	wait->owner_lack = SNAP_OWNER_EXITED;
	if (!gone[at].everywhere && wait->confidence == SNAP_WAIT_IS_CERTAIN)
		wait->confidence = SNAP_WAIT_IS_LIKELY;
}

/*
 * The first thread of a child is the copy of the one that forked: it may have had the lock, and release
 * it, as handlers of pthread_atfork() do. Not if it waits for the lock itself.
 */
static bool has_copy_of_owner(const struct snap_futex *futex)
{
	const struct snap_wait_analysis *waits = futex->waits;
	size_t process = futex->waiter->process;

	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++) {
		const struct snap_waiter *one = &waits->waiters[i];

		if (one->thread->thread->tid == snap_waiter_process(one)->pid)
			return !one->call.known || one->row != futex->waiter->row ||
			       one->call.arguments[0] != futex->waiter->call.arguments[0];
	}
	return false;
}

/* Why there is no thread of this number. */
static void say_why(struct snap_futex *futex, struct snap_wait *wait, uint32_t tid)
{
	const struct snap_waiter *at_fork = NULL;

	wait->owner.tid = (pid_t)tid;
	if (futex->is_shared) {
		say_if_gone(futex, wait, tid);
		return;
	}
	wait->owner.pid = snap_waiter_process(futex->waiter)->pid;
	if (!snap_waiter_by_ns_tid(futex->waits, futex->waiter->process, tid))
		at_fork = find_at_fork(futex, tid, 0);
	if (at_fork) {
		wait->owner_lack = SNAP_OWNER_AT_FORK;
		wait->owner.pid = snap_waiter_process(at_fork)->pid;
		wait->owner.name = at_fork->thread->thread->name;
		if (wait->confidence == SNAP_WAIT_IS_CERTAIN && has_copy_of_owner(futex))
			wait->confidence = SNAP_WAIT_IS_LIKELY;
		return;
	}
	if (!snap_taken_at_once(futex->waiter->thread->thread->taken))
		say_if_gone(futex, wait, tid);
	else if (snap_waiter_process(futex->waiter)->threads_missed)
		wait->owner_lack = SNAP_OWNER_NOT_SEEN;
	else
		wait->owner_lack = SNAP_OWNER_EXITED;
}

bool snap_futex_own_by_tid(struct snap_futex *futex, struct snap_wait *wait, uint32_t tid)
{
	struct snap_waiter *owner = snap_futex_find_owner(futex, tid);

	if (owner && is_too_young(futex, owner)) {
		refuse_younger(futex, wait, owner);
		return false;
	}
	if (owner) {
		snap_futex_own(futex, wait, owner);
		return true;
	}
	if (tid == 0)
		wait->owner_lack = SNAP_OWNER_CHANGING;
	else if (tid == OWNER_INCONSISTENT || tid == OWNER_NOT_RECOVERABLE)
		wait->owner_lack = SNAP_OWNER_DIED;
	else if (tid > OWNER_INCONSISTENT)
		wait->owner_lack = SNAP_OWNER_UNREADABLE;
	else
		say_why(futex, wait, tid);
	return false;
}

bool snap_futex_own_by_pointer(struct snap_futex *futex, struct snap_wait *wait, uint64_t pointer)
{
	struct snap_waiter *owner =
		snap_waiter_by_thread_pointer(futex->waits, futex->waiter->process, pointer);

	if (owner && is_alive(owner) && is_too_young(futex, owner))
		refuse_younger(futex, wait, owner);
	else if (owner && is_alive(owner))
		snap_futex_own(futex, wait, owner);
	else
		wait->owner_lack = pointer ? SNAP_OWNER_NOT_SEEN : SNAP_OWNER_CHANGING;
	return wait->owner_lack == SNAP_OWNER_KNOWN;
}

void snap_futex_say_why_gone(struct snap_futex *futex, struct snap_wait *wait, uint64_t pointer)
{
	const struct snap_process *process = snap_waiter_process(futex->waiter);
	const struct snap_waiter *at_fork = find_at_fork(futex, 0, pointer);

	wait->owner_lack = process->threads_missed ? SNAP_OWNER_NOT_SEEN : SNAP_OWNER_EXITED;
	wait->owner.pid = process->pid;
	/* A later thread gets the stack of one that has exited, and so its thread pointer. */
	if (!at_fork || at_fork->thread->thread->start_ticks > process->start_ticks)
		return;
	wait->owner_lack = SNAP_OWNER_AT_FORK;
	wait->owner = snap_wait_party_of(at_fork);
	wait->owner.wait = NULL;
}
