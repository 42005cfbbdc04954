/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Execute: executes a memory plan (model/memory_plan.h): copies the memory of one process that it
 * names.
 *
 * The plan and the memory are both hostile. No more is read than the budget allows, and the clock
 * ends what takes long; the bytes read by then are kept. Each address is read once. Requests are
 * sorted, and near ones are read in one piece. Read-only private mappings of files are left out, as
 * the file has these bytes. It allocates nothing and locks nothing, so a worker may call it while a
 * process is stopped. Knows neither processes nor runtimes: the caller reads the memory.
 */
#pragma once

#include "base/bytes.h"
#include "base/shared_memory.h"
#include "model/capture.h"
#include "model/memory_image.h"

#include <sys/uio.h>

enum {
	SNAP_PLAN_RECORDS = 1000000, /* of all tables, for 64 MiB */
	SNAP_PLAN_CALL_PIECES = 512,
	SNAP_PLAN_CALL_BYTES = 4 << 20,
};

/* The memory of a process. */
struct snap_plan_source {
	/*
	 * Reads ranges into consecutive bytes, up to the first page that cannot be read, and
	 * returns their number. At most SNAP_PLAN_CALL_PIECES, SNAP_PLAN_CALL_BYTES.
	 */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
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
	const struct snap_map *maps; /* sorted; they may be slightly out of date */
	size_t map_count;
	struct snap_plan_source source;
	struct snap_plan_budget budget;
	/* snap_plan_work_bytes() of memory with any contents; mostly little of it is touched. */
	struct snap_region work;
};

/* The size of the work memory for a budget; a multiple of the page size. */
size_t snap_plan_work_bytes(const struct snap_plan_budget *budget);
/* Makes the work memory present that a plan touches whose image takes so many bytes. */
void snap_plan_get_ready(struct snap_region work, const struct snap_plan_budget *budget,
			 uint64_t bytes);

/*
 * Takes bytes from the beginning of `room`, and pieces from its end. An incomplete image is valid
 * at any moment, as `piece_count` is set last. Its pieces are in no order, and may overlap, until
 * snap_plan_finish().
 */
void snap_plan_execute(const struct snap_plan_task *task, struct snap_region *room,
		       struct snap_memory_image *image);

/*
 * Sorts the pieces, removes overlaps, and drops pieces whose bytes are not between `begin` and
 * `end`. May allocate, so do not call it while a process is stopped.
 */
void snap_plan_finish(struct snap_memory_image *image, const uint8_t *begin, const uint8_t *end);
