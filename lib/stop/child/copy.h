/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files that copy registers and stacks of stopped threads share; only they include it. */
#ifndef SNAP_STOP_CHILD_COPY_H
#define SNAP_STOP_CHILD_COPY_H

#include "stop/child/child.h"

/* Where a stack is, and how much of it there is; size 0: nowhere. */
struct snap_want {
	uint64_t address;
	uint64_t size;
};

/* The stack around a stack pointer, in whatever mapping that lies. */
struct snap_want snap_tracer_want(struct snap_tracer *tracer, const struct snap_tracee *tracee,
				  uint64_t sp);

/*
 * A stopped thread's NT_PRSTATUS into SNAP_MAX_REGISTERS bytes. 0 or an errno; ENOEXEC: it is of
 * another architecture or word size.
 */
int snap_tracer_registers(pid_t tid, void *ret, size_t *size_ret, uint64_t *sp_ret,
			  enum snap_arch *arch_ret);

/*
 * signal.c: the stack pointer that a signal handler on an alternate stack interrupted, from
 * the first signal frame in thread->stack that `accepts`. Looks at *budget bytes, which
 * it takes off. 0: there is none.
 */
uint64_t snap_tracer_interrupted_sp(const struct snap_thread *thread, size_t *budget,
				    bool (*accepts)(void *context, uint64_t sp), void *context);

/* The stacks that threads on a signal stack were interrupted on. */
void snap_tracer_copy_interrupted(struct snap_tracer *tracer);

#endif
