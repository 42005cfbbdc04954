/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open addressing, at most half full: see pool.h. */
#include "render/view/pool.h"

#include <stdbool.h>
#include <string.h>

enum { FIRST_SLOTS = 256 };

void snap_pool_deinit(struct snap_pool *pool)
{
	free(pool->entries);
	free(pool->slots);
	snap_arena_deinit(&pool->arena);
	*pool = (struct snap_pool){ 0 };
}

static bool rehash(struct snap_pool *pool)
{
	size_t slot_count = pool->slot_count ? pool->slot_count * 2 : FIRST_SLOTS, k;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < pool->count; i++) {
		k = pool->entries[i].hash & (slot_count - 1);
		while (slots[k])
			k = (k + 1) & (slot_count - 1);
		slots[k] = (uint32_t)(i + 1);
	}
	free(pool->slots);
	pool->slots = slots;
	pool->slot_count = slot_count;
	return true;
}

size_t snap_pool_add(struct snap_pool *pool, const void *bytes, size_t size)
{
	uint64_t hash = snap_hash(bytes, size, 0);
	const char *copy;
	size_t k;

	if (pool->count * 2 >= pool->slot_count && !rehash(pool))
		return SIZE_MAX;
	for (k = hash & (pool->slot_count - 1); pool->slots[k];
	     k = (k + 1) & (pool->slot_count - 1)) {
		const struct snap_pooled *old = &pool->entries[pool->slots[k] - 1];

		if (old->hash == hash && old->size == size &&
		    (size == 0 || memcmp(old->bytes, bytes, size) == 0))
			return pool->slots[k] - 1;
	}
	if (pool->count == SNAP_POOL_MAX ||
	    !snap_grow_array(pool->entries, pool->capacity, pool->count))
		return SIZE_MAX;
	copy = snap_arena_strndup(&pool->arena, size ? bytes : "", size);
	if (!copy)
		return SIZE_MAX;
	pool->entries[pool->count] = (struct snap_pooled){ copy, size, hash };
	pool->slots[k] = (uint32_t)++pool->count;
	return pool->count - 1;
}
