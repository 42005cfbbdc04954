/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What procfs says of a thread while it runs: name, state, processor, flags. At 5-7 us a read this
 * is the longest part of a snapshot of many threads, so the parent of the tracing child reads with
 * it: both take some threads in turns. So nothing here allocates or locks. Knows nothing of ptrace,
 * nor of stacks and registers.
 */
#ifndef SNAP_STOP_DESCRIBE_H
#define SNAP_STOP_DESCRIBE_H

#include "stop/run_clock.h"
#include "stop/tracer.h"

/* Where the texts of a thread come from and go to. */
struct snap_describer {
	const struct snap_options *options;
	struct snap_region *records;
	int tasks_fd;
	bool foreign_namespace; /* its tids differ inside: ns_tid is read, too */
	const struct snap_run_clocks
		*clocks; /* since when it waits is read, too; NULL: it is not */
	char *buffer;    /* SNAP_DESCRIBE_BYTES bytes */
};

enum { SNAP_DESCRIBE_BYTES = 1 << 16 };

enum snap_help_state {
	SNAP_HELP_NONE,   /* the parent may take part */
	SNAP_HELP_BUSY,   /* it does; the child waits until it is done */
	SNAP_HELP_CLOSED, /* it did, or came too late */
};

/*
 * Fills in one thread but for its kernel stack; false, and its result is VANISHED, when it has
 * gone. None of what is read here can sleep by the thread's will.
 */
bool snap_describe(const struct snap_describer *describer, struct snap_thread *thread);

/* The same where its stat was read by somebody else. */
void snap_describe_known(const struct snap_describer *describer, struct snap_thread *thread,
			 const struct snap_stat *stat);

/* Fills in the function that the thread waits in alone, by its state and as options ask for. */
void snap_describe_wchan(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in how long it has not run, if that is asked for and it waits. */
void snap_describe_blocked(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in how often it had run, if somebody will ask whether it did since then. */
void snap_describe_runs(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in when it began, if how long it has not run is asked for, and that is not known yet. */
void snap_describe_start(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in the kernel stack alone. Sleeps as long as an exec of the process does. */
void snap_describe_kernel_stack(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in those threads of help->process that the other side has not begun with. */
void snap_describe_in_turns(const struct snap_describer *describer, struct snap_help *help,
			    struct snap_traced *process);

/* The parent: whether it still may take part; and that it has done its part. */
bool snap_help_begin(struct snap_help *help);
void snap_help_end(struct snap_help *help);
/* The child: no help is wanted any more; waits for a parent that takes part. */
void snap_help_close(struct snap_help *help);

#endif
