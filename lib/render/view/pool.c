/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See pool.h. */
#include "render/view/pool.h"

#include "base/buffer.h"

#include <string.h>

void snap_pool_deinit(struct snap_pool *pool)
{
	free(pool->entries);
	snap_hash_table_deinit(&pool->table);
	snap_arena_deinit(&pool->arena);
	*pool = (struct snap_pool){ 0 };
}

size_t snap_pool_add(struct snap_pool *pool, const void *bytes, size_t size)
{
	uint64_t hash = snap_hash_bytes(bytes, size, 0);
	struct snap_probe probe = snap_hash_table_probe(&pool->table, hash);
	const char *copy;

	while (snap_probe_next(&probe)) {
		const struct snap_pooled *old = &pool->entries[probe.number];

		if (old->size == size && (size == 0 || memcmp(old->bytes, bytes, size) == 0))
			return probe.number;
	}
	copy = snap_arena_strndup(&pool->arena, size ? bytes : "", size);
	if (!copy || !snap_reserve_array(pool->entries, pool->capacity, pool->count + 1) ||
	    !snap_hash_table_add(&pool->table, hash, pool->count))
		return SIZE_MAX;
	pool->entries[pool->count] = (struct snap_pooled){ copy, size };
	return pool->count++;
}
