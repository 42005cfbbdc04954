/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Diff: the changes between two snapshots of the same programs, `before` and `after`. A recording can
 * take the place of a snapshot.
 *
 * A plain value in one arena that borrows stacks, processes and threads of both, which must outlive
 * it. It deliberately knows nothing of files, nor how the two were taken. Texts are raw bytes as
 * in a snapshot, but those of warnings, which are our own.
 *
 * The size of a group is counted in thousandths of a thread: in a snapshot these are whole threads, in
 * a recording the average.
 */
#pragma once

#include "model/snapshot.h"

enum {
	SNAP_DIFF_THREAD = 1000,  /* a whole thread of a group */
	SNAP_DIFF_WHOLE = 100000, /* all samples, of which functions have shares */
	SNAP_DIFF_PIDS = 8,       /* of a group that are listed */
};

enum snap_change {
	SNAP_CHANGE_APPEARED,
	SNAP_CHANGE_GREW,
	SNAP_CHANGE_SHRANK,
	SNAP_CHANGE_WENT,
	SNAP_CHANGE_COUNT,
};

/* The groups of one id, of all processes together: a service that began anew has the same ones. */
struct snap_diff_group {
	enum snap_change change;
	uint64_t before, after; /* thousandths of threads or tasks */
	/* One of its stacks, and the process: of `after`, or of `before` for a group that went. */
	const struct snap_stack *stack;
	const struct snap_node *node;
	/* Whose they are, there: the first ones, in the order of the tree. */
	pid_t pids[SNAP_DIFF_PIDS];
	size_t pid_count, process_count;
};

struct snap_diff_process {
	bool came; /* else it went */
	const struct snap_node *node;
};

/* A thread that is blocked in the same stack in both, and did not run in between. */
struct snap_diff_stuck {
	const struct snap_node *node;
	const struct snap_stack *stack;
	const struct snap_member *thread; /* all three of `after` */
};

/* A function of a recording, and how much of the samples it had; parts of SNAP_DIFF_WHOLE. */
struct snap_diff_function {
	const char *name, *module; /* module NULL: unknown */
	bool running;           /* of the samples of threads that ran; else of those that did not */
	bool guessed;           /* a frame of it is in doubt */
	uint32_t before, after; /* it was somewhere in the stack */
	uint32_t before_self, after_self; /* it was the innermost one */
};

/* The facts of one of the two. */
struct snap_diff_side {
	struct snap_host host;
	int64_t time_ns, duration_ns;
	size_t process_count, thread_count, task_count, stack_count;
	uint64_t ticks, samples; /* of a recording; 0: a snapshot */
};

struct snap_diff {
	struct snap_arena arena;
	struct snap_diff_side before, after;
	bool same_boot;                      /* pid and start identify a process in both */
	struct snap_diff_group *groups;      /* by change, the largest first, then by id */
	size_t group_count, same_count;      /* same: that did not change */
	struct snap_diff_process *processes; /* by change, then in the order of the trees */
	size_t process_count;
	struct snap_diff_stuck *stuck; /* groups of `after` one by one */
	size_t stuck_count;
	struct snap_diff_function *functions; /* those of running threads first, most moved first */
	size_t function_count;
	struct snap_warning *warnings;
	size_t warning_count;
};

struct snap_diff *snap_diff_new(void);
void snap_diff_destroy(struct snap_diff *diff);

SNAP_POINTER_GUARD(struct snap_diff, snap_diff_destroy);

/* Adds a warning; without memory it is lost. */
void snap_diff_warn(struct snap_diff *diff, const char *code, const char *format, ...)
	_printf_(3, 4);

/* Whether anything changed; threads that are stuck did not. */
bool snap_diff_differs(const struct snap_diff *diff);

const char *snap_change_word(enum snap_change change); /* "appeared", "grew", "shrank", "went" */
