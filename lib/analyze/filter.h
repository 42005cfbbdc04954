/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filter: which threads and processes are shown.
 *
 * Threads go by --state, --thread, --match, --no-idle and --no-system before they are grouped;
 * processes by --no-system (their children move up) and, when a filter of threads is set, by having
 * threads left. Knows nothing of how anything is printed.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/snapshot.h"

/* What the frames of a stack say for the filters; the same for all its threads. */
struct snap_filter_stack {
	bool matches; /* --match */
	size_t match; /* the innermost frame that does; 0 without --match */
	/* the function that waits for work, or one of system code alone, "": unknown; NULL: not idle */
	const char *idle;
	bool at_root; /* the function that it began with waits itself: see task/task.h */
	const struct snap_frame **frames; /* all of them: gone when the stack has been cut */
	size_t frame_count;
};
struct snap_filter_stack snap_filter_check_stack(const struct snap_options *options,
						 const struct snap_frame **frames, size_t count);

enum snap_filter_need {
	SNAP_FILTER_HAS_LOCK,
	SNAP_FILTER_READS,         /* what a thread writes */
	SNAP_FILTER_WRITES,        /* what a thread reads */
	SNAP_FILTER_HAS_CHILD,     /* that it waits for */
	SNAP_FILTER_MAY_HAVE_LOCK, /* of a process: any of its threads that sleeps */
};

/* Threads that others wait for: they are not idle, wherever they stand. Of a process it is the first one. */
struct snap_filter_owner {
	pid_t pid, tid;
	enum snap_filter_need need;
	pid_t child; /* of one that waits for a child */
};

struct snap_filter_needed {
	struct snap_filter_owner *owners;
	size_t count, capacity;
};

/* Adds those that a wait is for, owners of locks and other ends; NULL: none. False without memory. */
bool snap_filter_needed_add(struct snap_filter_needed *needed, pid_t pid, pid_t tid,
			    const struct snap_wait *wait, const struct snap_frame *const *frames,
			    size_t count);
/*
 * Behind the last one added. Children for which the holders of locks wait are added. False without
 * memory.
 */
bool snap_filter_needed_sort(struct snap_filter_needed *needed);
void snap_filter_needed_deinit(struct snap_filter_needed *needed);

/* How urgent the stacks of a process are. */
void snap_filter_rank(const struct snap_filter_needed *needed, struct snap_node *node);

enum snap_filter_verdict {
	SNAP_FILTER_SHOWS,
	SNAP_FILTER_HIDES,
	SNAP_FILTER_IDLE, /* hidden by --no-idle alone */
};

/* --thread: a part of the name matches, or the whole id. NULL: it has none. */
bool snap_filter_chooses(const regex_t *regex, const char *name, const char *id);

/*
 * Whether a thread of process `pid` waits for work: for --no-idle, --again and --watch. The stack is
 * whole; where it is cut later, and in a document, the answer is the member's `idle`.
 */
bool snap_filter_is_idle(const struct snap_filter_needed *needed, pid_t pid,
			 const struct snap_member *member, const struct snap_filter_stack *stack);

/* Of a thread whose `idle` is known. */
enum snap_filter_verdict snap_filter_check_thread(const struct snap_options *options,
						  const struct snap_member *member,
						  const struct snap_filter_stack *stack);

/*
 * Counts idle threads of a stack that are hidden; `threads` are those. False without memory. Texts
 * are those of the stack, and the interner's.
 */
bool snap_filter_count_idle(struct snap_interner *strings, struct snap_idle *idle, pid_t pid,
			    const struct snap_stack *stack, const struct snap_member *threads,
			    size_t count);

/* --no-system: the process is hidden whatever its threads and children are. */
bool snap_filter_hides_type(const struct snap_options *options, const struct snap_node *node);
/* A filter of threads left nothing to show of the process itself. */
bool snap_filter_is_empty(const struct snap_options *options, const struct snap_node *node);

/* Leaves all threads and tasks; processes are filtered as before. */
void snap_filter_clear(struct snap_options *options);

/*
 * The options' filters and --flat, applied to a snapshot that was read without them; what is
 * missing stays as it was. A flat one stays flat. Threads that are marked as stuck are counted before
 * that. With `regroup` the threads that are left are grouped as the options say. NO_MEMORY.
 */
struct stacksnap_error *snap_filter_snapshot(struct snap_snapshot *snapshot,
					     const struct snap_options *options,
					     bool regroup) _must_check_;
