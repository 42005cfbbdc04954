/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Numbers for byte strings: equal bytes get the same number, from 0 on, in the order in which they
 * came. For formats whose tables refer to each other by index. Knows nothing of what the bytes are.
 */
#pragma once

#include "base/arena.h"
#include "base/table.h"

struct snap_pooled {
	const char *bytes; /* NUL-terminated besides */
	size_t size;
};

/* All zero: empty. */
struct snap_pool {
	struct snap_pooled *entries;
	size_t count;
	/* inside */
	size_t capacity;
	struct snap_hash_table table;
	struct snap_arena arena;
};

void snap_pool_deinit(struct snap_pool *pool);
/* Copies the bytes unless they are there; SIZE_MAX without memory, or when the pool is full. */
size_t snap_pool_add(struct snap_pool *pool, const void *bytes, size_t size);
