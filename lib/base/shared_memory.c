/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory shared by the tracing child and its parent: see shared_memory.h. Everything but the two
 * create functions is called in the child too, so it may use no lock and no allocator.
 */
#include "base/shared_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
	HEADER = SNAP_PAGE,
	ALIGNMENT = 16,
};

/* Room for the lists of a million threads; address space only. */
static const size_t MOST_RECORDS = (size_t)1 << 31, LEAST_RECORDS = (size_t)1 << 25;

/* Atomic, as both processes may be filling the lists; past the end it stays past the end. */
void *snap_region_alloc(struct snap_region *region, size_t size)
{
	size_t rounded = snap_round_up(size, ALIGNMENT);
	uint8_t *start;

	if (rounded < size || rounded > snap_region_room(region))
		return NULL;
	start = __atomic_fetch_add(&region->next, rounded, __ATOMIC_RELAXED);
	return start <= region->end && rounded <= (size_t)(region->end - start) ? start : NULL;
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
	char *copy = length < SIZE_MAX ? snap_region_alloc(region, length + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = 0;
	return copy;
}

void snap_region_prefault(struct snap_region *region, size_t size)
{
	uint8_t *next = __atomic_load_n(&region->next, __ATOMIC_RELAXED);
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint8_t *start = (uint8_t *)((uintptr_t)next & ~(page - 1));

	if (size > snap_region_room(region))
		size = snap_region_room(region);
	size += (size_t)(next - start);
	if (size == 0 || madvise(start, size, MADV_POPULATE_WRITE) == 0 || errno != EINVAL)
		return;
	/* A write that changes nothing, even when the other process writes there just now. */
	for (size_t at = 0; at < size; at += page)
		__atomic_fetch_or(&start[at], 0, __ATOMIC_RELAXED);
}

/*
 * A file in memory of this size, -1: none. Where files may not be so large (RLIMIT_FSIZE, which
 * means these, too) a signal would say so.
 */
static int make_memory_file(size_t size)
{
	struct rlimit limit;
	int fd;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur < size)
		return -1;
	fd = memfd_create("stacksnap-arena", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0)
		snap_close(&fd);
	return fd;
}

static void *map_memory(size_t size, int *fd_ret)
{
	void *base = MAP_FAILED;
	int fd = make_memory_file(size);

	if (fd >= 0)
		base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED) {
		snap_close(&fd);
		base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	*fd_ret = fd;
	return base;
}

struct stacksnap_error *snap_shared_memory_create(size_t stack_bytes,
						  struct snap_shared_memory **ret)
{
	size_t records = MOST_RECORDS, size;
	void *base = MAP_FAILED;
	int fd = -1;

	stack_bytes = snap_round_up(stack_bytes, SNAP_PAGE);
	/* Where overcommit is off or the address space limited, less must do. */
	for (; records >= LEAST_RECORDS; records /= 2) {
		if (__builtin_add_overflow(HEADER + records, stack_bytes, &size))
			return snap_error_no_memory();
		base = map_memory(size, &fd);
		if (base != MAP_FAILED)
			break;
	}
	if (base == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the stacks");

	struct snap_shared_memory *shared = base;
	uint8_t *bytes = base;

	shared->size = size;
	shared->fd = fd;
	shared->records = (struct snap_region){ bytes + HEADER, bytes + HEADER + records };
	shared->stacks = (struct snap_region){ bytes + HEADER + records, bytes + size };
	*ret = shared;
	return NULL;
}

void snap_shared_memory_destroy(struct snap_shared_memory *shared)
{
	if (!shared)
		return;
	if (shared->fd >= 0)
		close(shared->fd);
	munmap(shared, shared->size);
}

static struct stacksnap_error *create_scratch(size_t size, int sharing, struct snap_region *ret)
{
	uint8_t *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the tracing process");
	*ret = (struct snap_region){ base, base + size };
	return NULL;
}

struct stacksnap_error *snap_scratch_create(size_t size, struct snap_region *ret)
{
	return create_scratch(size, MAP_PRIVATE, ret);
}

struct stacksnap_error *snap_shared_scratch_create(size_t size, struct snap_region *ret)
{
	return create_scratch(size, MAP_SHARED, ret);
}
