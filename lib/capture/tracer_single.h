/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Single stops: stops threads one or a few at a time, copies them, lets them run; again and again.
 *
 * As in tracer.h the ptracing is done by a child process, so that its death or ours lets everything
 * run; this one stays for as long as a recording goes on. It shares our table of descriptors
 * (CLONE_FILES), so descriptors in a pick are good on both sides. Nothing is waited for longer than
 * asked; threads that do not stop in time are let go. Knows nothing of trees or of what is in a
 * copy.
 */
#ifndef SNAP_CAPTURE_TRACER_SINGLE_H
#define SNAP_CAPTURE_TRACER_SINGLE_H

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_single;

/* A thread to be stopped, and what came of it. */
struct snap_pick {
	/* in */
	pid_t tid;
	int mem_fd;         /* its process's memory, for pread; -1: process_vm_readv */
	uint64_t stack_end; /* end of the mapping of its stack; 0 or too small: unknown */
	/* out; the memory is the tracer's and stays until the next call */
	struct snap_thread
		copy; /* result, registers, stack; taken: ALONE. Names, state: untouched */
	enum snap_arch arch;
	int error;     /* errno of SEIZE …; ESRCH: it has gone */
	bool past_end; /* sp lay outside of [0, stack_end): the stack was read up to a limit */
};

enum { SNAP_SINGLE_MOST = 64 }; /* picks of one call */

struct snap_error *snap_single_create(const struct snap_options *options,
				      struct snap_single **ret) _must_check_;
void snap_single_destroy(struct snap_single *single);

/*
 * Stops `count` threads together (or one by one with count 1), each for as short as can be; all
 * run again when it returns, whatever it returns. *stopped_ns_ret: first INTERRUPT to last DETACH.
 * A tracing child that died is made anew once. OS, CANCELLED.
 */
struct snap_error *snap_single_take(struct snap_single *single, struct snap_pick *picks,
				    size_t count, int64_t timeout_ns,
				    int64_t *stopped_ns_ret) _must_check_;

#endif
