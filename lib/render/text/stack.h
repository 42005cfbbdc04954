/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stack in the text report: its title, its frames, how it ended.
 *
 * What is shown of a frame is made once for all stacks that share it. Knows nothing of processes;
 * text.c puts stacks into the tree.
 */
#pragma once

#include "model/snapshot.h"
#include "render/text/frame.h"
#include "render/view/calls/chain.h"

struct snap_text_stacks {
	struct snap_sheet *lines;
	const struct snap_options *options;
	struct snap_folders folders;
	struct snap_chains chains;       /* of --summary */
	struct snap_pointer_table shown; /* struct snap_frame -> struct snap_shown_frame */
	size_t count_width;              /* of the widest count of the process */
	int64_t monotonic_ns;            /* as of struct snap_snapshot */
	uint64_t samples;                /* of a recording as a whole; 0: a snapshot */
	size_t samples_width;            /* of the most samples of a stack */
	size_t name_width;               /* columns for a name; 0: as wide as it is */
	bool has_guessed;                /* a frame was marked as not found by CFI */
};

void snap_text_stacks_deinit(struct snap_text_stacks *stacks);
/* Forgets what was made of frames, which are a process's own. */
void snap_text_stacks_clear(struct snap_text_stacks *stacks);
/* Before the first line: looks at what all stacks that will be shown have in common. */
void snap_text_stacks_survey(struct snap_text_stacks *stacks, const struct snap_stack *stack);

/* Whose a stack is, where it stands by itself. */
struct snap_text_owner {
	const struct snap_node *node;       /* NULL: of several processes */
	const struct snap_logical *logical; /* NULL: it is of none */
};

/* Whether each function of a call tree has a line, and so a place of its own. */
static inline bool snap_text_tree_is_wide(const struct snap_options *options)
{
	return options->verbose || options->show_module || options->show_build_id;
}

/*
 * "62 × worker-*   sleeping in futex" with the threads on the right. The line has been begun, the
 * mark of the tree is in it. `owner` is NULL in a tree.
 */
void snap_text_stack_title(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			   const struct snap_text_owner *owner);
/* The part of the line with names and state alone: "worker-*   sleeping in futex". */
void snap_text_stack_who(struct snap_text_stacks *stacks, const struct snap_stack *stack);
/* Parts of it: "sleeping in futex"; the threads on the right, which end the line. */
void snap_text_stack_state(struct snap_text_stacks *stacks, const struct snap_stack *stack);
void snap_text_stack_members(struct snap_text_stacks *stacks, const struct snap_stack *stack);
/* What all its threads wait for, malloc'ed; NULL: different things, or nothing to name. */
char *snap_text_stack_object(const struct snap_text_stacks *stacks, const struct snap_stack *stack);
/* "sleeping in futex" of threads, whatever runtime they have. */
void snap_text_state(struct snap_sheet *lines, const struct snap_stack *stack);
/* The frames, and the line that says how the stack ended, if it was early. */
void snap_text_stack_frames(struct snap_text_stacks *stacks, const struct snap_stack *stack);
/* "72.0 %  118 samples × " of `all`; `width` is that of the largest number. */
void snap_text_share(struct snap_sheet *lines, uint64_t samples, uint64_t all, size_t width);

/* How threads were read where not all of them were stopped together (--no-stop). */
struct snap_text_reads {
	size_t unstopped, alone, confirmed, all;
};

/* Adds those of a stack; threads that could not be read at all count as neither. */
void snap_text_count_reads(const struct snap_stack *stack, struct snap_text_reads *reads);

/* Functions that call each other in turn have one line; of more than one three rounds are few. */
enum { SNAP_LONGEST_CYCLE = 3 };
static inline size_t snap_least_times(size_t length)
{
	return length == 1 ? 2 : 3;
}

enum { SNAP_MOST_RANGES = 8 };

/*
 * "tids 1240-1301, 1310, +4" of a sorted list of numbers, one each `stride` bytes; `max` ranges of
 * them at most.
 */
void snap_text_ranges(const char *noun, const pid_t *first, size_t stride, size_t count, size_t max,
		      char *out, size_t size);

/*
 * Goes through what follows the head twice or more, as line.h has it: `put` writes all of it each time.
 * Behind it stand the lines of what marks mean and of what was left out.
 */
void snap_text_stacks_put_measured(struct snap_text_stacks *stacks, void (*put)(void *context),
				   void *context);
/* The line that tells what the mark means, if it was used. */
void snap_text_stacks_note(struct snap_text_stacks *stacks);
/* --summary: all of a stack in one line. */
void snap_text_stack_summary(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			     const struct snap_text_owner *owner);
