/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The asker of waits: hands lists of questions to workers (base/workers.h), which may be left
 * behind, and has the memory that questions and answers lie in.
 *
 * That memory is handed out and never used again until all of it goes, so a worker that is late
 * spoils no other answer. Workers and memory are those that discovery has left, as a worker takes as
 * long to make and to end as a dozen answers; else a worker of its own is made for the first list.
 * Knows no question.
 */
#pragma once

#include "base/error.h"
#include "base/shared_memory.h"
#include "base/workers.h"
#include "discover/discover.h"
#include "proc/procfs.h"

/* Seen by workers, too. */
struct snap_wait_memory {
	struct snap_region region;
	int root_fd; /* of procfs; all that a worker has open */
};

struct snap_wait_asker {
	struct snap_workers *pool;
	struct snap_wait_memory *memory;
	int root_fd; /* of procfs */
	/* Of its own, where nothing was lent. */
	struct snap_procfs procfs;
	struct snap_workers own_pool;
	uint8_t *own_end; /* of the memory; NULL: it was lent */
	int64_t until_ns;
	bool was_late; /* some item was given up, or there was no more time */
};

/* `lender`: discovery's, which lives longer; or NULL. */
struct stacksnap_error *snap_wait_asker_new(struct snap_asker *lender, int64_t until_ns,
					    struct snap_wait_asker **ret) _must_check_;
/* Waits up to 100 ms for workers of its own that do not end. NULL is allowed. */
void snap_wait_asker_destroy(struct snap_wait_asker *asker);

static inline void snap_wait_asker_destroyp(struct snap_wait_asker **asker)
{
	snap_wait_asker_destroy(*asker);
}

/* Zeroed memory that workers see, too; NULL: used up. */
void *snap_wait_asker_array(struct snap_wait_asker *asker, size_t count, size_t size);

#define snap_wait_asker_new_array(asker, count, type) \
	((type *)snap_wait_asker_array((asker), (count), sizeof(type)))

/*
 * Has run(context, i) called in workers for each i below `count`, until that time at most; context
 * lies in the asker's memory. The marks say which are done (enum snap_item); NULL: none.
 */
const uint8_t *snap_wait_asker_run(struct snap_wait_asker *asker,
				   void (*run)(void *context, uint32_t item), void *context,
				   size_t count, int64_t until_ns);

/* Most bytes of a name of procfs below: "4194304/task/4194304/fdinfo/1048576". */
enum { SNAP_WAIT_NAME = 64 };
