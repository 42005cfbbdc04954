/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Child: the tracing child as its parent (stop/tracer.c) sees it: its input, and the two eventfds
 * for messages while it works. Its results go into struct snap_stop. Knows nothing of how it works.
 */
#pragma once

#include "stop/tracer.h"

struct snap_tracer_task {
	const struct snap_options *options;
	const struct snap_stop_hook *hook;
	struct snap_shared_memory *memory;
	struct snap_stop *stop;
	const struct snap_procfs *procfs;
	struct snap_region scratch; /* the child's own memory: notes on each thread */
	struct snap_region lists;   /* shared with its workers: lists of what they read */
	int ask_fd, answer_fd;      /* eventfds: messages to the parent, answers */
	bool may_probe;             /* the parent can be asked for plans … */
	bool may_follow;            /* … and to copy other stacks that frames lie in */
};

enum {
	/* The child's messages; unread ones add up. */
	SNAP_TRACER_HELP = 1,         /* stop->help is set: describe threads with me */
	SNAP_TRACER_ASK = 1 << 16,    /* has the tree grown? */
	SNAP_TRACER_PROBE = 1 << 18,  /* which memory is to be copied of runtimes? */
	SNAP_TRACER_FOLLOW = 1 << 19, /* copy other stacks that frames lie in */
	SNAP_TRACER_DONE = 1 << 20,   /* nothing more is written to shared memory */
	/* The parent's answers to ASK; GO: also to PROBE and FOLLOW. */
	SNAP_TRACER_GO = 1,
	SNAP_TRACER_PREPARE = 2, /* it has grown, see stop->processes */

	SNAP_TRACER_MANY =
		128, /* threads of a process that are worth sharing between child and parent */
};

/*
 * Lists, seizes, stops, copies and releases. The process must end when this returns: then the
 * kernel releases threads that did not stop in time.
 */
void snap_tracer_child(const struct snap_tracer_task *task);
