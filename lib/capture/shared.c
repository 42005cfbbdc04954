/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory shared by the tracing child and its parent: see shared.h. Everything but the two create
 * functions is called in the child too, so it may use no lock and no allocator.
 */
#include "capture/shared.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
	PAGE = 4096,
	HEADER = PAGE,
	ALIGNMENT = 16,
};

/* Room for the lists of a million threads; address space only. */
static const size_t MOST_RECORDS = (size_t)1 << 31, LEAST_RECORDS = (size_t)1 << 25;

void *snap_region_alloc(struct snap_region *region, size_t size)
{
	uint8_t *start = (uint8_t *)(((uintptr_t)region->next + ALIGNMENT - 1) &
				     ~(uintptr_t)(ALIGNMENT - 1));

	if (start > region->end || size > (size_t)(region->end - start))
		return NULL;
	region->next = start + size;
	return start;
}

void *snap_region_array(struct snap_region *region, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	return snap_region_alloc(region, bytes);
}

char *snap_region_text(struct snap_region *region, const char *text, size_t length)
{
	char *copy = (char *)region->next;

	if (length >= (size_t)(region->end - region->next))
		return NULL;
	memcpy(copy, text, length);
	copy[length] = 0;
	region->next += length + 1;
	return copy;
}

void snap_region_prefault(struct snap_region *region, size_t size)
{
	uint8_t *start = (uint8_t *)((uintptr_t)region->next & ~(uintptr_t)(PAGE - 1));

	if (size > (size_t)(region->end - region->next))
		size = (size_t)(region->end - region->next);
	size += (size_t)(region->next - start);
	if (size == 0 || madvise(start, size, MADV_POPULATE_WRITE) == 0 || errno != EINVAL)
		return;
	/* Writing back what is there keeps what the first page already holds. */
	for (size_t at = 0; at < size; at += PAGE)
		((volatile uint8_t *)start)[at] = start[at];
}

struct snap_error *snap_shared_create(size_t stack_bytes, struct snap_shared **ret)
{
	size_t records = MOST_RECORDS, size;
	void *base = MAP_FAILED;

	stack_bytes = (stack_bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
	/* Where overcommit is off or the address space limited, less must do. */
	for (; records >= LEAST_RECORDS; records /= 2) {
		if (__builtin_add_overflow(HEADER + records, stack_bytes, &size))
			return snap_error_no_memory();
		base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base != MAP_FAILED)
			break;
	}
	if (base == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the stacks");

	struct snap_shared *shared = base;
	uint8_t *bytes = base;

	shared->size = size;
	shared->records = (struct snap_region){ bytes + HEADER, bytes + HEADER + records };
	shared->stacks = (struct snap_region){ bytes + HEADER + records, bytes + size };
	*ret = shared;
	return NULL;
}

void snap_shared_destroy(struct snap_shared *shared)
{
	if (shared)
		munmap(shared, shared->size);
}

struct snap_error *snap_scratch_create(size_t size, struct snap_region *ret)
{
	uint8_t *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the tracing process");
	*ret = (struct snap_region){ base, base + size };
	return NULL;
}
