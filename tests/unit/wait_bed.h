/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures of threads that wait, made by hand: processes, calls, descriptors, memory; and the
 * analysis of their waits alone, without stacks and names. One bed at a time.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analysis.h"
#include "analyze/wait/wait.h"
#include "base/buffer.h"
#include "fine.h"

enum {
	BED_PROCESSES = 8,
	BED_LIST = 64,
	BED_MEMORY = 0x100000, /* where bed_bytes() begins */
};

struct bed {
	struct snap_arena arena;
	struct snap_options options;
	struct snap_file_finder finder;
	struct snap_capture capture;
	struct snap_wait_facts facts;
	struct snap_analysis analysis;
	uint64_t next_address;
	bool found;
};

static inline void bed_init(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_arena_init(&bed->arena);
	bed->options.children = true;
	bed->capture.waits = &bed->facts;
	bed->capture.processes =
		snap_arena_new_array(&bed->arena, BED_PROCESSES, struct snap_process);
	bed->facts.sockets = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_socket);
	bed->facts.locks = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_file_lock);
	bed->facts.peers = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_file_peer);
	bed->facts.outsiders = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_outsider);
	bed->facts.queues = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_ipc_queue);
	bed->facts.monotonic_ns = 1000000000000;
	bed->facts.realtime_ns = 5000000000000;
	bed->facts.boottime_ns = 2000000000000;
	bed->next_address = BED_MEMORY;
}

static inline void bed_deinit(struct bed *bed)
{
	if (bed->found)
		snap_analysis_deinit(&bed->analysis);
	snap_arena_deinit(&bed->arena);
}

/* They must come sorted by pid, parents first. */
static inline struct snap_process *bed_process(struct bed *bed, pid_t pid, pid_t ppid)
{
	struct snap_process *process = &bed->capture.processes[bed->capture.process_count++];

	*process = (struct snap_process){
		.pid = pid,
		.ppid = ppid,
		.ns_pid = pid,
		.name = "program",
		.state = 'S',
		.in_host_namespace = true,
		.arch = SNAP_ARCH_X86_64,
		.threads = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_thread),
		.words = snap_arena_new(&bed->arena, struct snap_memory_image),
		.descriptors = snap_arena_new_array(&bed->arena, BED_LIST, struct snap_descriptor),
		.net_namespace = 1,
	};
	process->words->pieces =
		snap_arena_new_array(&bed->arena, BED_LIST, struct snap_memory_piece);
	return process;
}

/* A thread asleep in a call. */
static inline struct snap_thread *bed_thread(struct snap_process *process, pid_t tid,
					     int64_t number, uint64_t a, uint64_t b, uint64_t c,
					     uint64_t d)
{
	struct snap_thread *thread = &process->threads[process->thread_count++];

	*thread = (struct snap_thread){
		.tid = tid,
		.ns_tid = tid,
		.name = "thread",
		.state = 'S',
		.call = { .known = true, .number = number, .arguments = { a, b, c, d } },
		.blocked_ns = -1,
		.call_confirmed = true,
	};
	return thread;
}

/* Bytes in the memory of a process; where they are. */
static inline uint64_t bed_bytes(struct bed *bed, struct snap_process *process, const void *bytes,
				 size_t size)
{
	uint64_t address = bed->next_address;

	process->words->pieces[process->words->piece_count++] = (struct snap_memory_piece){
		.address = address,
		.size = size,
		.bytes = snap_arena_memdup(&bed->arena, bytes, size),
	};
	bed->next_address += (size + 4095) / 4096 * 4096;
	return address;
}

static inline struct snap_descriptor *bed_descriptor(struct snap_process *process, int32_t number,
						     enum snap_descriptor_kind kind,
						     const char *link, uint64_t inode)
{
	struct snap_descriptor *descriptor = &process->descriptors[process->descriptor_count++];

	*descriptor = (struct snap_descriptor){ .number = number,
						.kind = kind,
						.readable = true,
						.writable = true,
						.link = link,
						.inode = inode,
						.remaining_ns = -1 };
	return descriptor;
}

/* They must come sorted by kind, inode and pid. */
static inline void bed_end(struct bed *bed, pid_t pid, enum snap_descriptor_kind kind,
			   uint64_t inode, bool readable, bool writable)
{
	bed->facts.peers[bed->facts.peer_count++] =
		(struct snap_file_peer){ pid, kind, inode, readable, writable };
}

/* Finds all waits; each thread has a stack without frames. */
static inline void bed_find(struct bed *bed)
{
	fine(snap_analysis_init(&bed->analysis, &bed->capture, &bed->options, &bed->finder));
	bed->found = true;
	for (size_t i = 0; i < bed->capture.process_count; i++) {
		struct snap_raw_process *raw = &bed->analysis.processes[i];
		size_t count = raw->process->thread_count;

		raw->stacks = calloc(1, sizeof(*raw->stacks));
		raw->stack_count = 1;
		raw->threads = snap_arena_new_array(&bed->analysis.scratch, count + 1,
						    struct snap_raw_thread);
		for (size_t k = 0; k < count; k++)
			raw->threads[raw->thread_count++].thread = &raw->process->threads[k];
	}
	fine(snap_waits_find(&bed->analysis));
}

/* What a thread waits for; NULL: nothing. */
static inline const struct snap_wait *bed_wait(const struct bed *bed, pid_t tid)
{
	for (size_t i = 0; i < bed->capture.process_count; i++)
		for (size_t k = 0; k < bed->analysis.processes[i].thread_count; k++)
			if (bed->analysis.processes[i].threads[k].thread->tid == tid)
				return bed->analysis.processes[i].threads[k].wait;
	fail_msg("no thread %d", tid);
	return NULL;
}
