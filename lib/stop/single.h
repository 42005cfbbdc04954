/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Single stops: stops one thread or a few at a time, copies them, lets them run; again and again.
 *
 * As in tracer.h a child process does the tracing, so that its death or ours lets everything run.
 * This child stays as long as a recording lasts, and keeps none of our descriptors open. It reads
 * no memory itself: a worker (base/workers.h) does, so a page that is never served costs one stack,
 * and blocks no other process. After some idle seconds the child ends, and the next call makes a
 * new one. No call waits longer than requested; threads that do not stop in time are released. Not
 * to be called from two threads at once; the child ends with the thread that made it, and the next
 * call makes a new one. Knows nothing of trees or of what is in a copy.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_single;

/* A thread to be stopped, and the result. */
struct snap_pick {
	/* in */
	pid_t tid;
	/* The mapping of its usual stack; 0: unknown. */
	uint64_t stack_start, stack_end;
	/* A plan for single threads, copied with the thread into copy.memory; NULL: none. */
	const struct snap_memory_plan *plan;
	pid_t ns_tid; /* for the plan */
	/* out; the memory is the tracer's and stays until the next call */
	/*
	 * COPIED: registers and stack; group_stopped; taken is ALONE. Only these and the result are
	 * written: names and state stay.
	 */
	struct snap_thread copy;
	enum snap_arch arch;
	/*
	 * Not COPIED: ESRCH it has gone (VANISHED); EPERM another process traces it, or tracing is
	 * not permitted (UNTRACED); ENOEXEC another word size (UNTRACED); ETIMEDOUT (NOT_STOPPED);
	 * …
	 */
	int error;
	/*
	 * sp was outside of the usual stack. The stack there was read up to 64 KiB or a fault; the
	 * usual one is stack2 if a signal frame says where it was interrupted.
	 */
	bool past_end;
	/*
	 * A read of its stack did not return in time: COPIED, with registers alone. Leave such a
	 * process out, as each attempt leaves a worker behind. The later threads of the same call
	 * have registers alone, too (stack_unreadable).
	 */
	bool stalled;
	int64_t stopped_ns; /* INTERRUPT to DETACH */
	/*
	 * The part of stopped_ns in which the thread really stood: a thread stops only when it gets
	 * a processor. Without the time in which the tracer waited for one.
	 */
	int64_t stood_ns;
	int64_t stood_from_ns; /* CLOCK_MONOTONIC */
};

enum { SNAP_SINGLE_MOST = 64 }; /* picks of one call */

struct stacksnap_error *snap_single_create(const struct snap_options *options,
					   struct snap_single **ret) _must_check_;
void snap_single_destroy(struct snap_single *single);

SNAP_POINTER_GUARD(struct snap_single, snap_single_destroy);

/*
 * The time, about, for which the threads of a call stand in all while their stacks are read; then
 * the current thread has stalled. It is 50 ms until this is called.
 */
void snap_single_set_patience(struct snap_single *single, int64_t patience_ns);

/*
 * How long the tracing child waited for a processor in the last call, perhaps while threads stood;
 * -1: unknown.
 */
int64_t snap_single_waited(const struct snap_single *single);

/* The pid of the tracing child, which is never a target; 0: there is none now. */
pid_t snap_single_pid(const struct snap_single *single);

/*
 * Stops `count` threads together (or one by one with count 1), each as briefly as possible; all run
 * again when it returns, with or without an error. *stopped_ns_ret: first INTERRUPT to last DETACH.
 * A tracing child that died is replaced once. OS, CANCELLED, INVALID (too many picks).
 */
struct stacksnap_error *snap_single_take(struct snap_single *single, struct snap_pick *picks,
					 size_t count, int64_t timeout_ns,
					 int64_t *stopped_ns_ret) _must_check_;
