/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of a stack in the text report, see ../stack.h; for its own files only. Each is one noun: head,
 * frames, summary.
 */
#pragma once

#include "render/text/stack.h"

/* The count or share of a stack, whose it is, and what its threads do; the line goes on. */
void snap_text_stack_head(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			  const struct snap_text_owner *owner);
/* Made once for all stacks; NULL without memory. */
const struct snap_shown_frame *snap_text_shown_frame(struct snap_text_stacks *stacks,
						     const struct snap_frame *frame);
/* The mark of a frame that was not found by CFI; NULL: it needs none. */
const char *snap_text_mark_guessed(struct snap_text_stacks *stacks, bool guessed);
/* The innermost function that is not system code, else the innermost of all; NULL: no frames. */
const struct snap_frame *snap_text_own_frame(const struct snap_stack *stack, size_t *entry_ret);
