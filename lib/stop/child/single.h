/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The channel of single stops: memory of both the child and its parent (stop/single.c), which
 * maps it before it makes the child, so pointers inside it hold on both sides.
 */
#ifndef SNAP_STOP_CHILD_SINGLE_H
#define SNAP_STOP_CHILD_SINGLE_H

#include "base/shared_memory.h"
#include "stop/child/phases.h"
#include "stop/plan/of_thread.h"
#include "stop/single.h"

/* A pick of the call at hand; the parent copies it in and out. */
struct snap_slot {
	struct snap_pick pick;
	/*
	 * enum snap_tracee_phase; written by the child, and what came of the thread is in the pick
	 * before the phase is one that snap_tracee_is_done().
	 */
	uint32_t phase;
	int32_t signal; /* to be handed on at DETACH */
	/* CLOCK_MONOTONIC: when it was interrupted; and the latest time when it had not stopped */
	int64_t stop_ns, ran_ns;
	/* For the worker that reads the stack: what it is given and what it leaves. */
	uint64_t sp;
	struct snap_pick read;
	struct snap_region room, images;
	bool has_plan; /* channel->plans has it */
	_Alignas(16) uint8_t registers[SNAP_MAX_REGISTERS];
};

/* What a worker of the child is given; a list of one item. */
struct snap_single_list {
	uint32_t slot;
	uint8_t mark;
};

struct snap_channel {
	size_t size;
	/* Futexes that count calls: alike between two calls. */
	uint32_t request; /* the parent's */
	uint32_t done;    /* the child's */
	uint32_t ready;   /* a futex, by the child: it will serve calls at once */
	uint32_t give_up; /* by the parent, in a call: nobody is waited for any more */
	int64_t until_ns; /* the same from then on, whether or not he gets a processor */
	/* by the child: it ends, with a call, which lets stragglers run, or for want of calls */
	uint32_t leaves;
	uint32_t dismissed; /* by the parent, with a call: it is to end */
	/* By the child that leaves, at the end of its call: the time, and what it had run for. */
	int64_t left_ns, left_run_ns;
	int procfs_fd; /* the parent's, at the child's beginning */
	/*
	 * By the child: a worker did not return, and may still write here; the channel is not used
	 * for another call.
	 */
	uint32_t spoiled;
	uint32_t count; /* slots of the call */
	uint64_t max_stack;
	int64_t patience_ns; /* for all reading of the call; see snap_single_set_patience() */
	int64_t reading_ns;  /* by the child: how much of it is over */
	struct snap_single_list list;
	int64_t begin_ns, end_ns; /* first INTERRUPT, last DETACH; 0: none */
	uint8_t *first_stack;
	struct snap_region stacks; /* begins anew with each call */
	struct snap_slot slots[SNAP_SINGLE_MOST];
	/* Of those slots that have one, with its image. */
	struct snap_thread_plan plans[SNAP_SINGLE_MOST];
	struct snap_region all_images, images; /* begins anew with each call */
	struct snap_region plan_work;
};

/* In a worker of the child (struct snap_work): reads the stacks of a slot's thread. */
void snap_single_read(void *channel, uint32_t item);
/* In a worker, before the first call: has memory ready. */
void snap_single_get_ready(void *channel, uint32_t item);

/* The child's whole life; `channel` as above. The process should end when it returns. */
void snap_single_child(void *channel);

#endif
