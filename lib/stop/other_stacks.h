/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Other stacks: whether the frames of a copied thread may go on in a stack that was not copied.
 *
 * Code that switches stacks keeps the old stack pointer on the new stack, or in a register. So a word
 * that leads to writable memory with a return address is a hint. It costs a few reads; CFI, which this
 * does not know, says then where the frames are.
 */
#pragma once

#include "model/capture.h"

#include <sys/uio.h>

enum { SNAP_LEADS_KNOWN = 32 };

/* A look at the threads of one process. */
struct snap_lead_search {
	const struct snap_map *maps;
	size_t map_count;
	/* As struct snap_space_reader has it. */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	void *context;
	/* Threads at the same place of stacks of the same size are alike. */
	struct snap_known_lead {
		uint64_t pc, size;
		bool leads;
	} known[SNAP_LEADS_KNOWN];
	unsigned next;
};

bool snap_stack_leads_on(struct snap_lead_search *search, const struct snap_thread *thread);
