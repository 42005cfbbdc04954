/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Space pool: bytes that several address spaces have, kept once.
 *
 * Forked processes have the same mappings, and most processes the same libraries: a thousand of them
 * need not take a thousand times the memory. Bytes are kept in a region of the caller's, and found
 * again by their contents. Several processes may use a pool in shared memory at once, and any
 * of them may end or be left behind at any moment: nothing is locked. Knows nothing of what the
 * bytes mean.
 */
#pragma once

#include "base/shared_memory.h"

enum { SNAP_SPACE_POOL_SLOTS = 1 << 15 }; /* bytes that come when all are taken are not shared */

/* All zero: empty. */
struct snap_space_pool {
	struct snap_space_pool_entry *slots[SNAP_SPACE_POOL_SLOTS];
};

/* Bytes that are there already; NULL: they are not. Aligned for any type. */
const void *snap_space_pool_find(const struct snap_space_pool *pool, const void *bytes,
				 size_t size);
/* Keeps bytes, which are not there, in the region; NULL: it is used up. Without a pool: a copy. */
const void *snap_space_pool_add(struct snap_space_pool *pool, struct snap_region *region,
				const void *bytes, size_t size);
