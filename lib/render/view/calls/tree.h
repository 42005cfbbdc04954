/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The call tree: many stacks as one tree of functions, with how often each was passed.
 *
 * From the outermost functions inwards, or in reverse from the innermost ones outwards. Each node
 * counts threads and tasks, of a recording samples. Where a stack is not whole, its outermost
 * function is not taken for the first one: a node stands there that tells how it ended; and so for
 * frames that were left out. Knows nothing of formats.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"
#include "render/view/calls/functions.h"

/* A function below others. Behind it, up to `end`, stand all that are below it. */
struct snap_call_node {
	const struct snap_frame *frame; /* of the first stack that has it; NULL: no function */
	uint64_t count;                 /* equals `own` and the counts of its children */
	uint64_t own;                   /* of stacks that have nothing further down */
	uint64_t left_out;              /* GAP: frames; 0: not the same number in all stacks */
	uint32_t entry;                 /* of the frame */
	uint32_t end;
	uint32_t depth; /* 0: it stands on top */
	enum snap_call_kind kind;
	enum snap_unwind_end unwind; /* END: how; a whole one is in doubt in another way */
	enum snap_trust trust;       /* the least of all stacks */
	bool inlined;                /* in all stacks */
	bool lines_differ;           /* from stack to stack, or files do */
};

/* A stack that ends at a node: the innermost function, in reverse the outermost one. */
struct snap_call_end {
	size_t node;
	size_t number; /* of the stack, as it came */
	const struct snap_stack *stack;
};

struct snap_call_tree {
	const struct snap_options *options;
	/* Each before those below it; side by side by count down, then by name, then by place. */
	struct snap_call_node *nodes;
	size_t node_count;
	struct snap_call_end *ends; /* by node, then as the stacks came */
	size_t end_count;
	uint64_t count; /* of all */
};

/*
 * All stacks of a process, those of tasks, too, and a list of stacks. False without memory.
 * Released by snap_call_tree_deinit() in any case.
 */
bool snap_call_tree_init(struct snap_call_tree *tree, const struct snap_node *node,
			 const struct snap_options *options) _must_check_;
bool snap_call_tree_init_of(struct snap_call_tree *tree, const struct snap_stack *stacks,
			    size_t count, const struct snap_options *options) _must_check_;
void snap_call_tree_deinit(struct snap_call_tree *tree);

/* The entry that represents a node of a function; NULL: of another kind. */
static inline const struct snap_entry *snap_call_entry(const struct snap_call_node *node)
{
	return node->frame ? &node->frame->entries[node->entry] : NULL;
}
