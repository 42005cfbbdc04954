/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Single stops: stops threads one or a few at a time, copies them, lets them run; again and again.
 *
 * As in tracer.h the ptracing is done by a child process, so that its death or ours lets everything
 * run; this one stays for as long as a recording goes on, and keeps none of our descriptors open.
 * It reads no memory itself, but has a worker (base/workers.h) do it: a page that nobody serves costs
 * a stack, and holds nobody. After idle seconds it leaves, and is made anew. Nothing is waited for longer than asked; threads
 * that do not stop in time are let go. Not to be called from two threads at once; where the thread
 * that made the child exits, the child ends with it and the next call makes a new one. Knows
 * nothing of trees or of what is in a copy.
 */
#ifndef SNAP_STOP_SINGLE_H
#define SNAP_STOP_SINGLE_H

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_single;

/* A thread to be stopped, and what came of it. */
struct snap_pick {
	/* in */
	pid_t tid;
	/* The mapping of its usual stack; 0: unknown. */
	uint64_t stack_start, stack_end;
	/* What is copied with it, into copy.memory: a plan for single threads; NULL: nothing. */
	const struct snap_memory_plan *plan;
	pid_t ns_tid; /* for the plan */
	/* out; the memory is the tracer's and stays until the next call */
	/*
	 * COPIED: registers and stack; group_stopped; taken is ALONE. Elsewhere than in result and
	 * these nothing is written: names and state stay.
	 */
	struct snap_thread copy;
	enum snap_arch arch;
	/*
	 * Not COPIED: ESRCH it has gone (VANISHED); EPERM somebody else traces it, or it is not
	 * permitted (UNTRACED); ENOEXEC another word size (UNTRACED); ETIMEDOUT (NOT_STOPPED); …
	 */
	int error;
	/*
	 * sp lay outside of the usual stack: there the stack was read up to 64 KiB or a fault, and
	 * the usual one is stack2 if a signal frame says where it was interrupted.
	 */
	bool past_end;
	/*
	 * Reading its stack did not return in time: COPIED, with registers alone. The process had
	 * better be left out, as each such attempt leaves a worker behind. The other threads of the
	 * same call, from then on, have registers alone, too (stack_unreadable).
	 */
	bool stalled;
	int64_t stopped_ns; /* INTERRUPT to DETACH */
	/*
	 * The part of it in which it stood: it comes to its stop when it gets a processor. Without
	 * the time in which the tracer waited for one.
	 */
	int64_t stood_ns;
	int64_t stood_from_ns; /* CLOCK_MONOTONIC */
};

enum { SNAP_SINGLE_MOST = 64 }; /* picks of one call */

struct stacksnap_error *snap_single_create(const struct snap_options *options,
					   struct snap_single **ret) _must_check_;
void snap_single_destroy(struct snap_single *single);

static inline void snap_single_destroyp(struct snap_single **single)
{
	snap_single_destroy(*single);
}

/*
 * For how long the threads of a call stand while the stacks are read, all in all and about; then
 * the thread at hand has stalled. 50 ms before this is called.
 */
void snap_single_set_patience(struct snap_single *single, int64_t patience_ns);

/*
 * For how long the tracing child waited for a processor in the last call, and perhaps those that it
 * had stopped with it; -1: nobody knows.
 */
int64_t snap_single_waited(const struct snap_single *single);

/* The tracing child, which is never a target; 0: there is none just now. */
pid_t snap_single_pid(const struct snap_single *single);

/*
 * Stops `count` threads together (or one by one with count 1), each for as short as can be; all
 * run again when it returns, whatever it returns. *stopped_ns_ret: how long somebody stood, first
 * INTERRUPT to last DETACH. A tracing child that died is made anew once. OS, CANCELLED, INVALID
 * (too many picks).
 */
struct stacksnap_error *snap_single_take(struct snap_single *single, struct snap_pick *picks,
					 size_t count, int64_t timeout_ns,
					 int64_t *stopped_ns_ret) _must_check_;

#endif
