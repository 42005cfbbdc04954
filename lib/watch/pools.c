/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools of threads, by the pattern of their names: see pools.h. */
#include "watch/pools.h"

#include "base/buffer.h"

#include <ctype.h>
#include <string.h>

enum {
	MOST_POOLS = 1 << 14,
	LEAST_SEEN = 3,    /* how often a place must have been seen to be the usual one */
	LEAST_THREADS = 2, /* of a pool */
	OFTEN = 1 << 20,   /* beyond this all are halved, so that a pool may change its ways */
	/*
	 * Where all of them stand while none is at the usual place may be one lock. Each look counted, that
	 * would be the usual place soon; of so many looks one counts, as work may be waited for elsewhere now.
	 */
	LOOKS_AWAY = 64,
};

void snap_pools_deinit(struct snap_pools *pools)
{
	free(pools->pools);
	snap_hash_table_deinit(&pools->table);
	*pools = (struct snap_pools){ .pools = NULL };
}

void snap_thread_pool_pattern(const char *name, char *out)
{
	size_t length = 0;

	for (; *name && length + 1 < SNAP_MAX_COMM; name++) {
		bool is_digit = isdigit((unsigned char)*name);

		if (is_digit && length && out[length - 1] == '*')
			continue;
		out[length++] = is_digit ? '*' : *name;
	}
	out[length] = '\0';
}

/* Those that were not there in the last look go, before there are too many. */
static struct stacksnap_error *forget_pools(struct snap_pools *pools)
{
	size_t kept = 0;

	for (size_t i = 0; i < pools->count; i++)
		if (pools->pools[i].round + 1 >= pools->round)
			pools->pools[kept++] = pools->pools[i];
	if (kept == pools->count)
		return NULL;
	pools->count = kept;
	snap_hash_table_clear(&pools->table);
	for (size_t i = 0; i < kept; i++) {
		const struct snap_thread_pool *pool = &pools->pools[i];

		SNAP_TRY(snap_no_memory_unless(snap_hash_table_add(
			&pools->table, snap_hash_text(pool->pattern, (uint64_t)pool->pid), i)));
	}
	return NULL;
}

/* NULL in *ret: there are too many. */
static struct stacksnap_error *find_pool(struct snap_pools *pools,
					 const struct snap_sweep_thread *thread,
					 struct snap_thread_pool **ret)
{
	const struct snap_sweep_process *process = thread->process;
	char pattern[SNAP_MAX_COMM];
	struct snap_probe probe;
	uint64_t hash;

	snap_thread_pool_pattern(thread->shown->name, pattern);
	hash = snap_hash_text(pattern, (uint64_t)process->pid);
	probe = snap_hash_table_probe(&pools->table, hash);
	*ret = NULL;
	while (snap_probe_next(&probe)) {
		struct snap_thread_pool *pool = &pools->pools[probe.number];

		if (pool->pid == process->pid && pool->start_ticks == process->start_ticks &&
		    strcmp(pool->pattern, pattern) == 0) {
			*ret = pool;
			return NULL;
		}
	}
	if (pools->count >= MOST_POOLS)
		return NULL;
	if (!snap_reserve_array(pools->pools, pools->capacity, pools->count + 1) ||
	    !snap_hash_table_add(&pools->table, hash, pools->count))
		return snap_error_no_memory();
	*ret = &pools->pools[pools->count++];
	**ret = (struct snap_thread_pool){ .pid = process->pid,
					   .start_ticks = process->start_ticks };
	memcpy((*ret)->pattern, pattern, sizeof(pattern));
	return NULL;
}

static bool is_same_place(const struct snap_sweep_place *a, const struct snap_sweep_place *b)
{
	return a->number == b->number && a->pc == b->pc && a->object == b->object;
}

/* The place where they were seen most often; NULL: none often enough. */
static const struct snap_sweep_place *usual_place(const struct snap_thread_pool *pool)
{
	size_t best = 0;

	for (size_t i = 1; i < SNAP_THREAD_POOL_PLACES; i++)
		if (pool->places[i].seen > pool->places[best].seen)
			best = i;
	return pool->places[best].seen >= LEAST_SEEN ? &pool->places[best].place : NULL;
}

/* A new place takes that of the least usual one, once that was outlived by it. */
static void note_place(struct snap_thread_pool *pool, const struct snap_sweep_place *place)
{
	size_t least = 0;

	for (size_t i = 0; i < SNAP_THREAD_POOL_PLACES; i++) {
		if (pool->places[i].seen && is_same_place(&pool->places[i].place, place)) {
			pool->places[i].seen++;
			if (pool->places[i].seen > OFTEN)
				for (size_t k = 0; k < SNAP_THREAD_POOL_PLACES; k++)
					pool->places[k].seen /= 2;
			return;
		}
		if (pool->places[i].seen < pool->places[least].seen)
			least = i;
	}
	if (pool->places[least].seen > 1) {
		pool->places[least].seen--;
		return;
	}
	pool->places[least].place = *place;
	pool->places[least].seen = 1;
}

static void add_number(struct snap_thread_pool *pool)
{
	if (pool->number_count == SNAP_THREAD_POOL_LOOKS) {
		memmove(pool->numbers, pool->numbers + 1,
			(SNAP_THREAD_POOL_LOOKS - 1) * sizeof(*pool->numbers));
		pool->number_count--;
	}
	pool->numbers[pool->number_count++] = (uint32_t)pool->threads;
}

static void add_pool_thread(struct snap_pools *pools, struct snap_thread_pool *pool,
			    const struct snap_sweep_thread *thread)
{
	const struct snap_sweep_place *usual = usual_place(pool);

	if (pool->round != pools->round) {
		pool->round = pools->round;
		pool->threads = pool->waiting = pool->tid_count = 0;
	}
	pool->process = thread->process;
	pool->threads++;
	if (pool->tid_count < SNAP_THREAD_POOL_TIDS)
		pool->tids[pool->tid_count++] = thread->shown->tid;
	if (!thread->is_blocked)
		return;
	pool->waiting += usual && is_same_place(usual, &thread->place);
	if (!pool->away_ns || pools->round % LOOKS_AWAY == 0)
		note_place(pool, &thread->place);
}

static void finish_look(struct snap_pools *pools, const struct snap_sweep *sweep)
{
	for (size_t i = 0; i < pools->count; i++) {
		struct snap_thread_pool *pool = &pools->pools[i];

		if (pool->round != pools->round)
			continue;
		add_number(pool);
		if (pool->waiting || pool->threads < LEAST_THREADS || !usual_place(pool))
			pool->away_ns = 0;
		else if (!pool->away_ns)
			pool->away_ns = sweep->now_ns;
	}
}

struct stacksnap_error *snap_pools_look(struct snap_pools *pools, const struct snap_sweep *sweep)
{
	struct stacksnap_error *err;

	pools->round++;
	err = forget_pools(pools);
	for (size_t i = 0; i < sweep->thread_count && !err; i++) {
		const struct snap_sweep_thread *thread = &sweep->threads[i];
		struct snap_thread_pool *pool;

		if (!thread->shown || !thread->process)
			continue;
		err = find_pool(pools, thread, &pool);
		if (!err && pool)
			add_pool_thread(pools, pool, thread);
	}
	if (!err)
		finish_look(pools, sweep);
	return err;
}

bool snap_thread_pool_grows(const struct snap_thread_pool *pool, unsigned percent)
{
	uint64_t first = pool->numbers[0], last = pool->numbers[SNAP_THREAD_POOL_LOOKS - 1];

	if (pool->number_count < SNAP_THREAD_POOL_LOOKS)
		return false;
	for (size_t i = 1; i < SNAP_THREAD_POOL_LOOKS; i++)
		if (pool->numbers[i] <= pool->numbers[i - 1])
			return false;
	return last * 100 >= first * (100 + percent);
}
