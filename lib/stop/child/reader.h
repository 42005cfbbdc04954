/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reader: the work of workers (base/workers.h) for the tracing child.
 *
 * A process that has seized threads never reads their memory, nor a file that they can block. A
 * page that is never served, or a lock of a thread that waits for one, would block the process, and
 * with it all seized threads. So it makes lists, and workers read them. All lists and results are
 * in shared memory and are used once, as a late worker may still write there. Knows neither phases
 * nor ptrace.
 */
#pragma once

#include "base/workers.h"
#include "proc/address_space.h"
#include "stop/plan/execute.h"
#include "stop/tracer.h"

enum { SNAP_STOP_READER_VECTORS = 1024 /* UIO_MAXIOV */ };

/*
 * Shared by all lists. It is made before the first worker; each worker has its own copy of the
 * buffers.
 */
struct snap_stop_reader {
	const struct snap_options *options;
	const struct snap_procfs *procfs;
	struct snap_shared_memory *memory;
	struct snap_stop *stop;
	struct snap_space_pool *pool; /* shared by all workers; NULL: there was no room for one */
	struct snap_map *maps;        /* SNAP_MAX_MAPS */
	char *buffer;                 /* SNAP_DESCRIBE_BYTES */
	struct iovec *vectors;        /* SNAP_STOP_READER_VECTORS */
	struct snap_region *work;     /* for plans; made by each worker that needs it */
};

/* How far the reading of an address space has come; each reached part is complete. */
enum snap_reached {
	SNAP_REACHED_NOTHING, /* no worker has begun */
	SNAP_REACHED_BEGIN,
	SNAP_REACHED_MAPS,
	SNAP_REACHED_PIECES,
};

/* The maps of a process, and the first pages of its modules. */
struct snap_maps_item {
	uint32_t process; /* in stop->processes */
	pid_t tid;        /* a thread that lives; 0: any of its threads */
	/* out */
	uint32_t reached; /* enum snap_reached */
	int32_t error;    /* negative errno: there are none; ESRCH: it has gone */
	struct snap_space space;
	struct snap_credentials credentials;
	unsigned runtimes; /* bits of enum snap_runtime_kind that it may have */
	/* The number of measured stacks, and their bytes. */
	uint32_t sample_count;
	uint64_t sample_bytes;
};

struct snap_maps_list {
	const struct snap_stop_reader *reader;
	struct snap_maps_item *items;
	int64_t *signs;
	uint32_t sample_step; /* every so many threads a stack is measured; 0: none */
	bool may_probe;       /* find out which runtimes it may have */
};

/* A stack to be copied, or other memory. */
struct snap_want {
	uint64_t address, size;
	uint8_t *bytes; /* the destination; those of an item are consecutive */
	uint64_t got;   /* out: up to the first that cannot be read */
	uint32_t tracee;
	bool is_file;  /* pages of a file, which a program may have to serve */
	bool is_words; /* memory that explains waits, not a stack; in items of its own */
};

/* The stacks of one process, or its words. */
struct snap_copy_item {
	uint32_t process;
	pid_t tid; /* a live thread of it */
	uint32_t first, count;
	uint32_t before; /* the item of the same process that comes first; UINT32_MAX: none */
	/* out */
	uint32_t begun, ended;
	uint32_t done; /* wants that are complete, from the first on, even if the item is late */
};

struct snap_copy_list {
	const struct snap_stop_reader *reader;
	struct snap_copy_item *items;
	struct snap_want *wants;
	int64_t *signs;
	/*
	 * Copy one by one, by /proc/TID/mem: there userfaultfd blocks no reader. But it is slow,
	 * and no signal ends the read of a file's page that is not served (proc/touch.h).
	 */
	bool careful;
};

/* Memory to make present, as a worker will write to it. */
struct snap_ready_list {
	const struct snap_stop_reader *reader;
	struct snap_region stacks, lists;
	uint64_t plan_bytes; /* also the worker's own, for a plan that copies so much; 0: none */
};

/* The memory of a managed runtime. */
struct snap_plan_list {
	const struct snap_stop_reader *reader;
	uint32_t process;
	pid_t tid; /* a stopped thread of it */
	struct snap_plan_task task;
	struct snap_region room;
	int64_t sign;
	int64_t last_sign_ns; /* no sign of life is later than that */
	/* out; valid at any moment */
	struct snap_memory_image image;
};

/* Kernel stacks or calls of processes; the results go into the threads. */
struct snap_kernel_list {
	const struct snap_stop_reader *reader;
	const uint32_t *processes;
	int64_t *signs;
	bool slow_alone; /* only of threads that did not stop; calls are read of these only */
};

/* Which threads of a process go on in other stacks, into their `lead`. */
struct snap_lead_list {
	const struct snap_stop_reader *reader;
	int64_t *signs;   /* by process, as the items are */
	int64_t until_ns; /* then no thread is looked at any more */
};

/* For struct snap_work: `context` is the list. */
void snap_stop_reader_read_maps(void *list, uint32_t item);
void snap_stop_reader_copy(void *list, uint32_t item);
void snap_stop_reader_get_ready(void *list, uint32_t item);
void snap_stop_reader_read_kernel_stacks(void *list, uint32_t item);
void snap_stop_reader_read_calls(void *list, uint32_t item);
void snap_stop_reader_find_leads(void *list, uint32_t item);
void snap_stop_reader_execute_plan(void *list, uint32_t item);

/* The budget of a plan, without its time. */
struct snap_plan_budget snap_stop_reader_plan_budget(const struct snap_options *options);
