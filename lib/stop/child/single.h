/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the two sides of single stops share: a mapping that the parent lays out before the child is
 * made, so pointers inside it hold on both sides. No other file includes this.
 */
#ifndef SNAP_STOP_CHILD_SINGLE_H
#define SNAP_STOP_CHILD_SINGLE_H

#include "base/shared_memory.h"
#include "stop/single.h"

enum snap_slot_phase {
	SNAP_SLOT_OPEN,    /* not ours */
	SNAP_SLOT_SEIZED,  /* ours, running */
	SNAP_SLOT_AWAITED, /* going to stop, or to end */
	SNAP_SLOT_DONE,    /* runs again, or has gone: what came of it is in the pick */
};

/* A pick of the call at hand; the parent copies it in and out. */
struct snap_slot {
	struct snap_pick pick;
	uint32_t phase;  /* enum snap_slot_phase; written by the child */
	int32_t signal;  /* to be handed on at DETACH */
	int64_t stop_ns; /* CLOCK_MONOTONIC: when it was interrupted */
	_Alignas(16) uint8_t registers[SNAP_MAX_REGISTERS];
};

struct snap_channel {
	size_t size;
	/* Futexes that count calls: alike between two calls. */
	uint32_t request; /* the parent's */
	uint32_t done;    /* the child's */
	uint32_t give_up; /* by the parent, in a call: nobody is waited for any more */
	/* by the child: it ends, with a call, which lets stragglers run, or for want of calls */
	uint32_t leaves;
	uint32_t count; /* slots of the call */
	uint64_t max_stack;
	int64_t begin_ns, end_ns; /* first INTERRUPT, last DETACH; 0: none */
	uint8_t *first_stack;
	struct snap_region stacks; /* begins anew with each call */
	struct snap_slot slots[SNAP_SINGLE_MOST];
};

/* single.c: its whole life; `channel` as above. Returns when it should end. */
void snap_single_child(void *channel);

#endif
