/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the thread of a number in the words of an object. It is a thread of the process that lived
 * then. In shared memory it is a thread of one of the processes that map the same place of the same
 * file. See internal.h.
 *
 * Words can be wrong: a thread that is not found is no owner, and the reason is recorded. Knows
 * nothing of the layout of words.
 */
#include "analyze/log/internal.h"
#include "base/bsearch.h"

enum {
	FUTEX_PRIVATE = 0x80,
	MOST_ANCESTORS = 64,
	MOST_SHARERS = 64, /* processes that are looked through */
};

/* ---- when threads lived ---- */

/* Moments are ticks of the log, from 1 on; 0 lies before all of them. */
struct snap_log_life {
	uint32_t process;
	pid_t tid; /* as the process numbers it */
	uint64_t birth, death;
	uint32_t thread;
};

SNAP_ORDER(by_number, struct snap_log_life, a, b, snap_compare(a->process, b->process),
	   snap_compare(a->tid, b->tid), snap_compare(a->birth, b->birth),
	   snap_compare(a->thread, b->thread));

static void note_change(struct snap_log_life *lives, const struct snap_log_change *change,
			uint64_t moment)
{
	struct snap_log_life *life = &lives[change->thread];

	if (change->stack == SNAP_LOG_GONE) {
		life->death = moment;
		return;
	}
	life->death = SNAP_LOG_NO_DEATH;
	if (life->birth > moment)
		life->birth = moment;
}

static bool list_lives(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	struct snap_log_life *lives = snap_arena_new_array(
		&of->analysis.scratch, log->thread_count + 1, struct snap_log_life);
	size_t change = 0, count = 0;

	if (!lives)
		return false;
	for (size_t i = 0; i < log->thread_count; i++) {
		const struct snap_log_thread *thread = &log->threads[i];

		lives[i] = (struct snap_log_life){ thread->process,
						   thread->ns_tid ? thread->ns_tid : thread->tid,
						   UINT64_MAX, SNAP_LOG_NO_DEATH, (uint32_t)i };
	}
	for (size_t i = 0; i < log->before_count; i++)
		note_change(lives, &log->before[i], 0);
	for (size_t tick = 0; tick < log->tick_count; tick++)
		for (; change < log->ticks[tick].change_end - log->first_change; change++)
			note_change(lives, &log->changes[change], tick + 1);
	for (size_t i = 0; i < log->thread_count; i++) {
		bool is_forgotten = lives[i].birth == UINT64_MAX && lives[i].death == 0;

		/* What was never sampled may have been there all the time. */
		if (lives[i].birth == UINT64_MAX)
			lives[i].birth = 0;
		if (!log->threads[i].task && !is_forgotten)
			lives[count++] = lives[i];
	}
	qsort(lives, count, sizeof(*lives), by_number);
	of->lives = lives;
	of->life_count = count;
	return true;
}

/* ---- processes that share memory ---- */

/* A shared mapping of a space, by its place in the file. */
struct snap_log_sharer {
	uint64_t dev, inode, start, end;
	uint32_t process;
};

static uint64_t dev_of(const struct snap_map *map)
{
	return (uint64_t)map->dev_major << 32 | map->dev_minor;
}

static bool is_shared(const struct snap_map *map)
{
	return map->shared && map->inode;
}

SNAP_ORDER(by_file, struct snap_log_sharer, a, b, snap_compare(a->dev, b->dev),
	   snap_compare(a->inode, b->inode), snap_compare(a->process, b->process),
	   snap_compare(a->start, b->start));

static bool list_sharers(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	const struct snap_capture *capture = log->capture;
	size_t count = 0;

	for (size_t i = 0; i < capture->process_count; i++)
		for (size_t k = 0; k < capture->processes[i].map_count; k++)
			count += is_shared(&capture->processes[i].maps[k]);
	of->sharers =
		snap_arena_new_array(&of->analysis.scratch, count + 1, struct snap_log_sharer);
	if (!of->sharers)
		return false;
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->map_count; k++) {
			const struct snap_map *map = &process->maps[k];

			if (is_shared(map) && log->spaces[i].process < log->process_count)
				of->sharers[of->sharer_count++] = (struct snap_log_sharer){
					dev_of(map), map->inode, map->offset,
					map->offset + (map->end - map->start),
					log->spaces[i].process
				};
		}
	}
	qsort(of->sharers, of->sharer_count, sizeof(*of->sharers), by_file);
	return true;
}

bool snap_log_index_owners(struct snap_log_analysis *of)
{
	return list_lives(of) && list_sharers(of);
}

/* Processes that share the memory of a futex, its own among them; none if it is private. */
static size_t find_sharers(const struct snap_log_analysis *of, const struct snap_log_object *object,
			   uint32_t ret[MOST_SHARERS])
{
	const struct snap_process *process = &of->log->capture->processes[object->space];
	uint64_t address = object->call.arguments[0], offset, dev;
	const struct snap_map *map = snap_process_map(process, address);
	const struct snap_log_sharer *all = of->sharers;
	size_t count = 0;

	if (object->call.arguments[1] & FUTEX_PRIVATE || !map || !is_shared(map))
		return 0;
	dev = dev_of(map);
	offset = address - map->start + map->offset;
	for (size_t i = snap_first_not(of->sharer_count, k,
				       all[k].dev != dev ? all[k].dev < dev
							 : all[k].inode < map->inode);
	     i < of->sharer_count && all[i].dev == dev && all[i].inode == map->inode &&
	     count < MOST_SHARERS;
	     i++)
		if (offset >= all[i].start && offset < all[i].end &&
		    !(count && ret[count - 1] == all[i].process))
			ret[count++] = all[i].process;
	return count;
}

bool snap_log_owners_of(struct snap_log_analysis *of, const struct snap_log_object *object,
			struct snap_log_owners *ret)
{
	uint32_t sharers[MOST_SHARERS];
	size_t count = find_sharers(of, object, sharers);

	*ret = (struct snap_log_owners){ .process = of->log->spaces[object->space].process,
					 .sharer_count = count };
	if (count)
		ret->sharers =
			snap_arena_memdup(&of->analysis.scratch, sharers, count * sizeof(*sharers));
	return !count || ret->sharers;
}

/* ---- the owner ---- */

/*
 * The first one of a process with a number that was born after a moment; life_count: there is none.
 */
static size_t life_after(const struct snap_log_analysis *of, uint32_t process, pid_t tid,
			 uint64_t moment)
{
	const struct snap_log_life *lives = of->lives;

	return snap_first_not(of->life_count, i,
			      lives[i].process != process ? lives[i].process < process
			      : lives[i].tid != tid       ? lives[i].tid < tid
							  : lives[i].birth <= moment);
}

static bool is_of(const struct snap_log_analysis *of, size_t at, uint32_t process, pid_t tid)
{
	return at < of->life_count && of->lives[at].process == process && of->lives[at].tid == tid;
}

/* NULL: no thread of the process has, or had, that number. */
static const struct snap_log_life *life_at(const struct snap_log_analysis *of, uint32_t process,
					   pid_t tid, uint64_t moment)
{
	size_t next = life_after(of, process, tid, moment);

	if (next && is_of(of, next - 1, process, tid))
		return &of->lives[next - 1];
	/* It was sampled a little later. */
	return is_of(of, next, process, tid) ? &of->lives[next] : NULL;
}

/* A fork copies locks that other threads have, and none of those threads. */
static bool was_ancestors(const struct snap_log_analysis *of, uint32_t process, pid_t tid)
{
	const struct snap_log *log = of->log;

	for (int i = 0; i < MOST_ANCESTORS; i++) {
		process = log->processes[process].parent;
		if (process == UINT32_MAX)
			return false;
		if (life_at(of, process, tid, 0))
			return true;
	}
	return false;
}

static bool is_numbered_here(const struct snap_log *log, uint32_t process)
{
	uint32_t space = log->processes[process].space;

	return space != UINT32_MAX && log->capture->processes[space].in_host_namespace;
}

/* The one thread with that number among the processes that share the word; NULL: none, or several. */
static const struct snap_log_life *life_of_sharer(const struct snap_log_analysis *of,
						  const struct snap_log_owners *owners, pid_t tid,
						  uint64_t moment)
{
	const struct snap_log_life *found = NULL;

	for (size_t i = 0; i < owners->sharer_count; i++) {
		const struct snap_log_life *life = life_at(of, owners->sharers[i], tid, moment);

		if (!life || life->death <= moment)
			continue;
		if (found)
			return NULL;
		found = life;
	}
	return found;
}

void snap_log_find_thread(const struct snap_log_analysis *of, uint32_t process, uint64_t moment,
			  struct snap_log_owner *ret)
{
	const struct snap_log_life *lives = of->lives, *first = NULL;
	size_t count = 0;

	for (size_t i = snap_first_not(of->life_count, k, lives[k].process < process);
	     i < of->life_count && lives[i].process == process && count < 2; i++) {
		if (lives[i].birth > moment || lives[i].death <= moment)
			continue;
		first = first ? first : &lives[i];
		count++;
	}
	if (!first)
		return;
	ret->thread = first->thread;
	ret->tid = of->log->threads[first->thread].tid;
	ret->is_any = count > 1;
	if (!ret->is_any && first->death < ret->death)
		ret->death = first->death;
}

struct snap_log_owner snap_log_find_owner(const struct snap_log_analysis *of,
					  const struct snap_log_owners *owners, pid_t tid,
					  uint64_t moment)
{
	const struct snap_log *log = of->log;
	struct snap_log_owner owner = { .thread = UINT32_MAX, .death = SNAP_LOG_NO_DEATH };
	const struct snap_log_life *life = owners->sharer_count
						   ? life_of_sharer(of, owners, tid, moment)
						   : life_at(of, owners->process, tid, moment);

	if (life) {
		owner.tid = log->threads[life->thread].tid;
		owner.lack = life->death > moment ? SNAP_OWNER_KNOWN : SNAP_OWNER_EXITED;
		if (owner.lack == SNAP_OWNER_KNOWN) {
			owner.thread = life->thread;
			owner.death = life->death;
		}
		return owner;
	}
	owner.lack = SNAP_OWNER_NOT_SEEN;
	if (!owners->sharer_count && was_ancestors(of, owners->process, tid))
		owner.lack = SNAP_OWNER_AT_FORK;
	if (is_numbered_here(log, owners->process))
		owner.tid = tid;
	return owner;
}
