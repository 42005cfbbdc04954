/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Describe: reads what procfs says of a thread while it runs: name, state, processor, flags. At 5-7
 * us a read this is the longest part of a snapshot of many threads. So the tracing child and its
 * parent share the work, and take threads in turns; nothing here allocates or locks. Knows nothing
 * of ptrace, nor of stacks and registers.
 */
#pragma once

#include "stop/run_clock.h"
#include "stop/tracer.h"

/* How a thread is read, and where its texts go. */
struct snap_describer {
	const struct snap_options *options;
	struct snap_region *records;
	int tasks_fd;
	bool foreign_namespace; /* its tids differ inside: ns_tid is read, too */
	const struct snap_run_clocks
		*clocks; /* for how long it has not run is read, too; NULL: it is not */
	char *buffer;    /* SNAP_DESCRIBE_BYTES bytes */
};

enum { SNAP_DESCRIBE_BYTES = 1 << 16 };

enum snap_help_state {
	SNAP_HELP_NONE,   /* the parent may take part */
	SNAP_HELP_BUSY,   /* it does; the child waits until it is done */
	SNAP_HELP_CLOSED, /* it has taken part, or came too late */
};

/*
 * Fills in one thread, except for its kernel stack; false when it has gone, and its result is then
 * VANISHED. A target cannot block these reads.
 */
bool snap_describe(const struct snap_describer *describer, struct snap_thread *thread);

/* The same for a thread whose stat the caller has read. */
void snap_describe_known(const struct snap_describer *describer, struct snap_thread *thread,
			 const struct snap_stat *stat);

/* Fills in only the function that the thread waits in, if its state and the options ask for it. */
void snap_describe_wchan(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in how long it has not run, if that is asked for and it waits. */
void snap_describe_blocked(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in how often it had run, if options need it to see whether it runs again. */
void snap_describe_runs(const struct snap_describer *describer, struct snap_thread *thread);

/*
 * Whether a stop of a thread in this call would change what the program sees: the call would end with
 * EINTR, or with a part of its bytes, which --stop-all permits. Or, as its process may have a filter of
 * seccomp(2), would go on as restart_syscall(2), which a filter that does not know it answers by SIGKILL.
 * --force-stop permits both. `tasks_fd`: of its process, or procfs itself. `call`: -1 is none.
 */
bool snap_stop_is_harmful(const struct snap_options *options, int tasks_fd, pid_t tid, int64_t call,
			  bool may_have_filter);

/* Fills in when it began, if how long it has not run is asked for, and that is not known yet. */
void snap_describe_start(const struct snap_describer *describer, struct snap_thread *thread);

/* Whether its kernel stack is wanted: in state D nothing else says what holds it up. */
static inline bool snap_wants_kernel_stack(const struct snap_options *options,
					   const struct snap_thread *thread)
{
	return options->kernel_stacks || thread->state == 'D';
}

/* Fills in only the kernel stack, if it is wanted. An exec of the process can block this read. */
void snap_describe_kernel_stack(const struct snap_describer *describer, struct snap_thread *thread);

/* Fills in those threads of help->process that the other side has not begun with. */
void snap_describe_in_turns(const struct snap_describer *describer, struct snap_help *help,
			    struct snap_traced *process);

/* For the parent: whether it may still take part; and the end of its part. */
bool snap_help_begin(struct snap_help *help);
void snap_help_end(struct snap_help *help);
/* For the child: ends the help, and waits for a parent that takes part. */
void snap_help_close(struct snap_help *help);
