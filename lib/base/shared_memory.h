/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that the tracing child fills and its parent reads: one mapping, shared between the two.
 *
 * Laid out by the parent before the clone, so both see it at the same address and pointers inside
 * it hold on both sides. Only address space is reserved; pages come when they are touched. Nothing
 * here locks or allocates: room is taken atomically. Knows nothing of what is stored.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A run of memory that is handed out from its beginning and never taken back. */
struct snap_region {
	uint8_t *next, *end;
};

static inline size_t snap_region_room(const struct snap_region *region)
{
	uint8_t *next = __atomic_load_n(&region->next, __ATOMIC_RELAXED);

	return next < region->end ? (size_t)(region->end - next) : 0;
}

/* `size` zeroed bytes (pages come zeroed and are used once), aligned to 16; NULL: used up. */
void *snap_region_alloc(struct snap_region *region, size_t size);
/* Room for `count` things of `size` bytes; NULL also when the product overflows. */
void *snap_region_array(struct snap_region *region, size_t count, size_t size);
/* A NUL-terminated copy of `length` bytes; NULL: used up. */
char *snap_region_text(struct snap_region *region, const char *text, size_t length);
/* Has the kernel put pages behind the next `size` bytes, so that writing them costs no fault. */
void snap_region_prefault(struct snap_region *region, size_t size);

#define snap_region_new_array(region, count, type) \
	((type *)snap_region_array((region), (count), sizeof(type)))

/* The whole mapping; this struct is its first page. */
struct snap_shared_memory {
	size_t size;
	int fd; /* memfd behind it, for another process to map; -1: there is none */
	struct snap_region records; /* lists, names, maps, registers */
	struct snap_region stacks;  /* copied stack bytes */
	uint64_t spaces;            /* bytes of records that address spaces took */
	uint64_t plans_ns; /* time that plans of memory took, while processes stood still */
};

/*
 * Reserves the mapping; `stack_bytes` is the size of the region for stacks. The descriptor stays
 * when the mapping goes.
 */
struct stacksnap_error *snap_shared_memory_create(size_t stack_bytes,
						  struct snap_shared_memory **ret) _must_check_;
void snap_shared_memory_destroy(struct snap_shared_memory *shared);

/* Memory of one process alone that costs nothing until touched; for the tracing child's notes. */
struct stacksnap_error *snap_scratch_create(size_t size, struct snap_region *ret) _must_check_;
/* The same, shared with those that are made from now on: what the tracing child has others read. */
struct stacksnap_error *snap_shared_scratch_create(size_t size,
						   struct snap_region *ret) _must_check_;
