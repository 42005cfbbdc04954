/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of a capture without a stop share (nostop.h): nostop.c, its beginning and its end;
 * nostop_sink.c, what the sampler tells of processes and threads in between.
 */
#pragma once

#include "capture/thread_asker.h"
#include "capture/thread_plans.h"
#include "proc/address_space.h"
#include "sample/sampler.h"
#include "stop/describe.h"

struct snap_nostop {
	const struct snap_options *options;
	const struct snap_stop_hook *hook; /* NULL, or with `suffices` */
	struct snap_capture *capture;      /* the sampler's, until the end */
	struct snap_shared_memory *shared;
	struct snap_thread_plans plans;
	struct snap_stop *stop;
	/* By process: as the sampler has it, NULL: it has ended, or was never there. */
	struct snap_sampled_process **sampled;
	size_t sampled_capacity;
	size_t left; /* threads that were not heard of yet */
	/* Whose code was in no mapping, the last one; and how many there were. */
	const struct snap_sampled_thread *stale;
	unsigned stale_count;
	char *buffer; /* SNAP_DESCRIBE_BYTES bytes, for texts */
	pid_t *tids;  /* a listing */
	size_t tid_capacity;
	/* Mappings: once for all processes that have the same, as far as there is room. */
	struct snap_space_pool *pool;
	struct snap_map *maps;         /* SNAP_MAX_MAPS, while they are copied */
	const struct snap_map **taken; /* by process: the sampler's, as they were copied */
	bool *heard;                   /* by process: the sampler had time for it */
	size_t taken_capacity, heard_capacity;
	/* By process: memory that explains waits, as struct snap_traced has it, with more room. */
	struct snap_nostop_wait_bytes {
		size_t capacity; /* of its pieces */
	} * words;
	size_t words_capacity;
	struct snap_run_clocks
		*clocks; /* NULL: the times since when threads wait are not asked for */
	struct snap_thread_asker *asker; /* NULL: nothing was asked yet */
	bool *silent;                    /* by process: it did not answer */
	size_t silent_capacity;
};

/* What the sampler calls. */
struct snap_sampler_sink snap_nostop_sink(struct snap_nostop *nostop);

/* The entry of a process in the stop, with the same index as in the capture. */
bool snap_nostop_add_traced(struct snap_nostop *nostop, size_t index);
/* One more thread of it, of which nothing else is known; NULL without memory. */
struct snap_thread *snap_nostop_add_thread(struct snap_nostop *nostop, struct snap_traced *traced,
					   pid_t tid);
/*
 * Memory that explains waits of one of its threads; what there is no room for is left out. Sorted
 * when the process is collected.
 */
void snap_nostop_keep_wait_bytes(struct snap_nostop *nostop, struct snap_traced *traced,
				 const struct snap_memory_image *words);
/* Which threads stood in their calls at one common instant, and the futex bytes of it. */
struct stacksnap_error *snap_nostop_confirm(struct snap_nostop *nostop,
					    struct snap_sampler *sampler) _must_check_;
/* The entry of a process that the sampler tells of; NULL: it has none. */
struct snap_traced *snap_nostop_traced(const struct snap_nostop *nostop,
				       const struct snap_sampled_process *process);
/* The descriptors are the capture's from now on. */
void snap_nostop_take_live(struct snap_nostop *nostop, size_t index);

static inline struct snap_describer snap_nostop_describer(const struct snap_nostop *nostop,
							  const struct snap_traced *traced,
							  int tasks_fd)
{
	return (struct snap_describer){ .options = nostop->options,
					.records = &nostop->shared->records,
					.tasks_fd = tasks_fd,
					.foreign_namespace = traced->foreign_namespace,
					.clocks = nostop->clocks,
					.buffer = nostop->buffer };
}
