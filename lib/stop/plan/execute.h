/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Executes a memory plan (model/memory_plan.h): copies what it names of one process.
 *
 * The plan and the memory are both taken for hostile: whatever they say, no more is read than the
 * budget allows, and the clock ends what takes long; what was read by then is kept. Each address is
 * read once, requests are sorted, and those that are near each other are read in one piece. What
 * lies in read-only private mappings of files is left out: whoever has the file reads it there.
 * Allocates nothing and locks nothing, so it may be called in a worker while a process stands
 * still. Knows neither processes nor runtimes: how memory is read is the caller's matter.
 */
#ifndef SNAP_STOP_PLAN_EXECUTE_H
#define SNAP_STOP_PLAN_EXECUTE_H

#include "base/shared_memory.h"
#include "model/capture.h"
#include "model/memory_image.h"

#include <sys/uio.h>

enum {
	SNAP_PLAN_RECORDS = 1000000, /* of all tables, for 64 MiB */
	SNAP_PLAN_PAGE = 4096,
	SNAP_PLAN_CALL_PIECES = 512,
	SNAP_PLAN_CALL_BYTES = 4 << 20,
};

/* The memory of a process. */
struct snap_plan_source {
	/*
	 * Reads ranges into bytes that lie one after the other, up to the first page that cannot be
	 * read; how many bytes that are. At most SNAP_PLAN_CALL_PIECES, SNAP_PLAN_CALL_BYTES.
	 */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	/*
	 * Says of each page from an address on whether it is in memory; false: that is not known.
	 * NULL: HEAP copies nothing.
	 */
	bool (*resident)(void *context, uint64_t address, bool *pages, size_t count);
	void *context;
};

struct snap_plan_budget {
	uint64_t records;
	uint64_t bytes;   /* of the image, below 4 GiB */
	int64_t until_ns; /* CLOCK_MONOTONIC */
};

struct snap_plan_task {
	const struct snap_memory_plan *plan; /* snap_memory_plan_check() holds */
	const struct snap_plan_thread *threads;
	size_t thread_count;
	const struct snap_map *maps; /* sorted; they may be somewhat old */
	size_t map_count;
	struct snap_plan_source source;
	struct snap_plan_budget budget;
	/* snap_plan_work_bytes() of memory of any contents, of which little is touched mostly. */
	struct snap_region work;
};

/* What it takes to execute a plan with these budgets; a multiple of the page size. */
size_t snap_plan_work_bytes(const struct snap_plan_budget *budget);
/* Makes present what a plan touches of that memory whose image takes so many bytes. */
void snap_plan_get_ready(struct snap_region work, const struct snap_plan_budget *budget,
			 uint64_t bytes);

/*
 * Bytes are taken from the beginning of `room`, pieces from its end; an image that is less than
 * whole is valid at any moment, as `piece_count` is set last. Its pieces are in no order, and may
 * overlap, until snap_plan_finish().
 */
void snap_plan_execute(const struct snap_plan_task *task, struct snap_region *room,
		       struct snap_memory_image *image);

/*
 * Sorts the pieces and takes care that they do not overlap; drops those whose bytes do not lie
 * between `begin` and `end`. Not to be done while a process stands still; may allocate.
 */
void snap_plan_finish(struct snap_memory_image *image, const uint8_t *begin, const uint8_t *end);

#endif
