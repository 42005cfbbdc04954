/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reader: what workers (base/workers.h) do for the tracing child.
 *
 * Whoever has seized threads reads no memory of theirs and no file that can sleep by their will: a
 * page that nobody serves, or a lock that a thread holds in such a wait, would hold him, and with
 * him all that he has seized. So he lists what is to be read and has workers read it. All lists,
 * and what comes of them, lie in shared memory, are used once, and never again: who is late may
 * still write there. Knows neither phases nor ptrace.
 */
#ifndef SNAP_STOP_CHILD_READER_H
#define SNAP_STOP_CHILD_READER_H

#include "base/workers.h"
#include "proc/address_space.h"
#include "stop/plan/execute.h"
#include "stop/tracer.h"

enum { SNAP_READER_VECTORS = 1024 /* UIO_MAXIOV */ };

/* What every list is given. Made before the first worker; its buffers are each worker's own. */
struct snap_reader {
	const struct snap_options *options;
	const struct snap_procfs *procfs;
	struct snap_shared_memory *memory;
	struct snap_stop *stop;
	struct snap_space_pool *pool; /* shared by all; NULL: there is no room for one */
	struct snap_map *maps;        /* SNAP_MAX_MAPS */
	char *buffer;                 /* SNAP_DESCRIBE_BYTES */
	struct iovec *vectors;        /* SNAP_READER_VECTORS */
	struct snap_region *work;     /* for plans; a worker that needs it makes it */
};

/* How far the reading of an address space has come; what is reached is whole. */
enum snap_reached {
	SNAP_REACHED_NOTHING, /* nobody has begun */
	SNAP_REACHED_BEGIN,
	SNAP_REACHED_MAPS,
	SNAP_REACHED_PIECES,
};

/* The maps of a process, and the first pages of its modules. */
struct snap_maps_item {
	uint32_t process; /* in stop->processes */
	pid_t tid;        /* which lives; 0: whichever of its threads does */
	/* out */
	uint32_t reached; /* enum snap_reached */
	int32_t error;    /* negative errno: there are none; ESRCH: it has gone */
	struct snap_space space;
	unsigned runtimes; /* bits of enum snap_runtime_kind that it may have */
	/* Stacks that were measured, and their bytes together. */
	uint32_t sample_count;
	uint64_t sample_bytes;
};

struct snap_maps_list {
	const struct snap_reader *reader;
	struct snap_maps_item *items;
	int64_t *signs;
	uint32_t sample_step; /* each such thread's stack is measured; 0: none is */
	bool may_scout;       /* it is of interest which runtimes there may be */
};

/* A stack to be copied, or other memory. */
struct snap_want {
	uint64_t address;
	uint64_t size;
	uint8_t *bytes; /* where to; those of an item lie one after the other */
	uint64_t got;   /* out: up to the first that cannot be read */
	uint32_t tracee;
	bool is_file; /* pages of a file, which somebody may have to serve */
	bool is_words; /* no stack, but memory that explains waits; they stand in items of their own */
};

/* Stacks of one process, or its words. */
struct snap_copy_item {
	uint32_t process;
	pid_t tid; /* a live thread of it */
	uint32_t first, count;
	uint32_t before; /* the item of the same process that comes first; UINT32_MAX: none */
	/* out */
	uint32_t begun, ended;
	uint32_t done; /* wants from the first on, which are whole even if the item is late */
};

struct snap_copy_list {
	const struct snap_reader *reader;
	struct snap_copy_item *items;
	struct snap_want *wants;
	int64_t *signs;
	/*
	 * One by one, by the file of the memory: there userfaultfd holds nobody, but it is slow, and
	 * where a page of a file is not served no signal ends it (proc/touch.h).
	 */
	bool careful;
};

/* Memory that a worker is about to write to, made present. */
struct snap_ready_list {
	const struct snap_reader *reader;
	struct snap_region stacks, lists;
	uint64_t plan_bytes; /* and its own, for a plan that copies so much; 0: there is none */
};

/* The memory of a managed runtime. */
struct snap_plan_list {
	const struct snap_reader *reader;
	uint32_t process;
	pid_t tid; /* a thread of it that stands still */
	struct snap_plan_task task;
	struct snap_region room;
	int64_t sign;
	int64_t last_sign_ns; /* no sign says that it got on later than that */
	/* out; valid at any moment */
	struct snap_memory_image image;
};

/* Kernel stacks or calls of processes; what is read goes to the threads themselves. */
struct snap_kernel_list {
	const struct snap_reader *reader;
	const uint32_t *processes;
	int64_t *signs;
	bool slow_alone; /* those that did not stop; calls are of such alone */
};

/* For struct snap_work: `context` is the list. */
void snap_reader_read_maps(void *list, uint32_t item);
void snap_reader_copy(void *list, uint32_t item);
void snap_reader_get_ready(void *list, uint32_t item);
void snap_reader_read_kernel_stacks(void *list, uint32_t item);
void snap_reader_read_calls(void *list, uint32_t item);
void snap_reader_execute_plan(void *list, uint32_t item);

/* The budget of a plan, but for its time. */
struct snap_plan_budget snap_reader_plan_budget(const struct snap_options *options);

#endif
