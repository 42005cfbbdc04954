/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The asker of waits: see asker.h. */
#include "capture/wait/asker.h"

#include "base/clock.h"

#include <sys/mman.h>

enum { PATIENCE_NS = 200000000 };

/* Its first bytes say how much of it is left. */
static void take_memory(struct snap_wait_asker *asker, struct snap_region region, int root_fd)
{
	asker->memory = (void *)region.next;
	region.next += (sizeof(*asker->memory) + 63) & ~(size_t)63;
	asker->memory->region = region;
	asker->memory->root_fd = asker->root_fd = root_fd;
}

static bool borrow(struct snap_wait_asker *asker, struct snap_asker *lender)
{
	struct snap_asker_loan loan;

	if (!lender || !snap_asker_lend(lender, &loan))
		return false;
	asker->pool = loan.pool;
	take_memory(asker, loan.room, loan.root_fd);
	return true;
}

static struct stacksnap_error *make_own(struct snap_wait_asker *asker)
{
	struct stacksnap_error *err = snap_procfs_open(NULL, &asker->procfs);
	struct snap_region region;
	int error;

	SNAP_TRY(err ?: snap_shared_scratch_create(SNAP_ASKER_ROOM, &region));
	asker->own_end = region.end;
	take_memory(asker, region, asker->procfs.root_fd);
	asker->pool = &asker->own_pool;
	error = snap_workers_init(asker->pool, 0, asker->root_fd, 0);
	return error ? snap_error_os(error, "cannot create a process that reads others") : NULL;
}

struct stacksnap_error *snap_wait_asker_new(struct snap_asker *lender, int64_t until_ns,
					    struct snap_wait_asker **ret)
{
	_cleanup_(snap_wait_asker_destroyp) struct snap_wait_asker *asker =
		calloc(1, sizeof(*asker));

	SNAP_TRY(snap_no_memory_unless(asker));
	asker->until_ns = until_ns;
	asker->procfs.root_fd = -1;
	SNAP_TRY(borrow(asker, lender) ? NULL : make_own(asker));
	*ret = snap_take_ptr(asker);
	return NULL;
}

void snap_wait_asker_destroy(struct snap_wait_asker *asker)
{
	if (!asker)
		return;
	snap_workers_deinit(&asker->own_pool);
	if (asker->own_end)
		munmap(asker->memory, (size_t)(asker->own_end - (uint8_t *)asker->memory));
	snap_procfs_close(&asker->procfs);
	free(asker);
}

void *snap_wait_asker_array(struct snap_wait_asker *asker, size_t count, size_t size)
{
	return snap_region_array(&asker->memory->region, count ? count : 1, size);
}

const uint8_t *snap_wait_asker_run(struct snap_wait_asker *asker,
				   void (*run)(void *context, uint32_t item), void *context,
				   size_t count, int64_t until_ns)
{
	uint8_t *marks = snap_wait_asker_new_array(asker, count, uint8_t);
	struct snap_work work = {
		.run = run,
		.context = context,
		.count = (uint32_t)count,
		.marks = marks,
		.patience_ns = PATIENCE_NS,
		.until_ns = until_ns < asker->until_ns ? until_ns : asker->until_ns,
	};

	if (!marks || count > UINT32_MAX || snap_clock_ns(CLOCK_MONOTONIC) >= work.until_ns) {
		asker->was_late = true;
		return NULL;
	}
	if (count && !snap_workers_run(asker->pool, &work))
		asker->was_late = true;
	return marks;
}
