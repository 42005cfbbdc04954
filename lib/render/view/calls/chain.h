/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Chain: the functions of a program on a stack, from its innermost own one outwards, for one line.
 *
 * What all groups begin or end with, or several that wait in the same call, tells none of them from
 * another. It is left out, but one function of each is kept. Knows nothing of lines.
 */
#pragma once

#include "render/view/calls/functions.h"

/* All zero but for the options of `functions`: no stack is known. */
struct snap_chains {
	struct snap_call_functions functions;
	struct snap_shared *shared; /* inside */
	size_t shared_count, capacity;
};

struct snap_link {
	const struct snap_frame *frame;
	uint32_t entry;
	uint32_t function; /* by number; one that calls itself is there once */
};

void snap_chains_deinit(struct snap_chains *chains);

/* First all stacks: `frame` and `entry` are the own function. False without memory. */
bool snap_chains_add(struct snap_chains *chains, const struct snap_stack *stack,
		     const struct snap_frame *frame, size_t entry) _must_check_;
/* Then what is left of each, malloc'ed, innermost first; at least one. NULL without memory. */
struct snap_link *snap_chains_of(struct snap_chains *chains, const struct snap_stack *stack,
				 const struct snap_frame *frame, size_t entry, size_t *count_ret);
