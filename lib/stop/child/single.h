/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Single: the channel of single stops, memory that the child shares with its parent
 * (stop/single.c). The parent maps it before it makes the child, so pointers inside it are valid on
 * both sides. Knows nothing of why a thread is stopped.
 */
#pragma once

#include "base/shared_memory.h"
#include "stop/child/phases.h"
#include "stop/plan/of_thread.h"
#include "stop/single.h"

/* A pick of the current call; the parent copies it in and out. */
struct snap_slot {
	struct snap_pick pick;
	/*
	 * enum snap_tracee_phase; written by the child. The pick has the result before the phase is
	 * one of snap_tracee_is_done().
	 */
	uint32_t phase;
	int32_t signal; /* to be delivered at DETACH */
	/* CLOCK_MONOTONIC: the INTERRUPT; and the last time when it had not stopped */
	int64_t stop_ns, ran_ns;
	/* Input and result of the worker that reads the stack. */
	uint64_t sp;
	struct snap_pick read;
	struct snap_region room, images;
	bool has_plan; /* channel->plans has it */
	_Alignas(16) uint8_t registers[SNAP_MAX_REGISTERS];
};

/* The work list of the child's worker, with one item. */
struct snap_single_list {
	uint32_t slot;
	uint8_t mark;
};

struct snap_channel {
	size_t size;
	/* Futexes that count calls: equal between two calls. */
	uint32_t request; /* written by the parent */
	uint32_t done;    /* written by the child */
	uint32_t ready;   /* a futex, by the child: it is ready to serve calls */
	uint32_t give_up; /* by the parent, during a call: stop waiting for threads */
	int64_t until_ns; /* the same from that time on, even if the parent gets no processor */
	/* by the child: it ends, with a call, which releases late threads, or without calls */
	uint32_t leaves;
	uint32_t dismissed; /* by the parent, with a call: the child is to end */
	/* By a child that ends with a call: the time then, and its processor time. */
	int64_t left_ns, left_run_ns;
	int procfs_fd; /* the parent's, at the child's beginning */
	/*
	 * By the child: a worker did not return, and may still write here, so the channel serves no
	 * other call.
	 */
	uint32_t spoiled;
	uint32_t count; /* slots of the call */
	uint64_t max_stack;
	int64_t patience_ns; /* for all reading of the call; see snap_single_set_patience() */
	int64_t reading_ns;  /* by the child: the time used of it */
	struct snap_single_list list;
	int64_t begin_ns, end_ns; /* first INTERRUPT, last DETACH; 0: none */
	uint8_t *first_stack;
	struct snap_region stacks; /* begins anew with each call */
	struct snap_slot slots[SNAP_SINGLE_MOST];
	/* The plans of the slots that have one, with their images. */
	struct snap_thread_plan plans[SNAP_SINGLE_MOST];
	struct snap_region all_images, images; /* begins anew with each call */
	struct snap_region plan_work;
};

/* In a worker of the child (struct snap_work): reads the stacks of a slot's thread. */
void snap_single_read(void *channel, uint32_t item);
/* In a worker, before the first call: has memory ready. */
void snap_single_get_ready(void *channel, uint32_t item);

/* Runs the child; `channel` as above. The process should end when this returns. */
void snap_single_child(void *channel);
