/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pool: see space_pool.h. A table of pointers that are only ever set, each after its bytes are
 * whole. Two processes that add the same bytes at once may both keep them.
 */
#include "proc/space_pool.h"

#include "base/table.h"

#include <string.h>

enum { TRIES = 16 }; /* slots in a row that an entry may be in */

struct snap_space_pool_entry {
	uint64_t hash, size;
	uint8_t bytes[];
};

const void *snap_space_pool_find(const struct snap_space_pool *pool, const void *bytes, size_t size)
{
	uint64_t hash = snap_hash_bytes(bytes, size, size);

	for (unsigned i = 0; pool && i < TRIES; i++) {
		const struct snap_space_pool_entry *entry = __atomic_load_n(
			&pool->slots[(hash + i) % SNAP_SPACE_POOL_SLOTS], __ATOMIC_ACQUIRE);

		if (!entry)
			break;
		if (entry->hash == hash && entry->size == size &&
		    memcmp(entry->bytes, bytes, size) == 0)
			return entry->bytes;
	}
	return NULL;
}

const void *snap_space_pool_add(struct snap_space_pool *pool, struct snap_region *region,
				const void *bytes, size_t size)
{
	struct snap_space_pool_entry *entry = snap_region_alloc(region, sizeof(*entry) + size);

	if (!entry)
		return NULL;
	entry->hash = snap_hash_bytes(bytes, size, size);
	entry->size = size;
	memcpy(entry->bytes, bytes, size);
	for (unsigned i = 0; pool && i < TRIES; i++) {
		struct snap_space_pool_entry *none = NULL;

		if (__atomic_compare_exchange_n(
			    &pool->slots[(entry->hash + i) % SNAP_SPACE_POOL_SLOTS], &none, entry,
			    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	}
	return entry->bytes;
}
