/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads: user registers and counters of a thread that is on no processor, from the kernel itself, or
 * why they cannot be had. Nothing is stopped, and the thread does not notice.
 *
 * A BPF program (threads.bpf.c) reads them from the thread's task_struct. While a thread is on no
 * processor its user registers lie where it entered the kernel, all of them: whether it sleeps in a
 * call, waits for a processor, or cannot be stopped at all. To be used by a process that parses
 * nothing of a target. Knows nothing of stacks, processes or procfs. Allocates nothing, takes no lock.
 */
#pragma once

#include "model/capture.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A program that the kernel holds. */
struct snap_bpf {
	int program_fd;
};

/* A thread at one moment, at which it was on no processor. */
struct snap_bpf_thread {
	/*
	 * Counts whenever it leaves a processor. Another read with the same number: it has not run
	 * in between.
	 */
	uint64_t switches;
	/*
	 * Waits for a processor. If not, it sleeps: a run must begin with a wake-up, which the kernel's
	 * other counters do not miss.
	 */
	bool queued;
	int64_t call; /* the system call that it is in; -1: none */
	/* As a capture keeps them (model/arch/registers.h), as they would be in a stop. */
	uint32_t registers_size;
	_Alignas(16) uint8_t registers[SNAP_MAX_REGISTERS];
};

/*
 * 0 or a negative errno: ENOSYS not built in, EPERM not permitted, ENOTSUP or another one: not by
 * this kernel (it takes Linux 6.1, and BTF).
 */
int snap_bpf_open(struct snap_bpf *ret);
void snap_bpf_close(struct snap_bpf *bpf);

/* What a walk calls for each thread; `error`: 0 or EAGAIN, as of snap_bpf_read(). */
typedef void snap_bpf_take(void *context, pid_t tid, int error,
			   const struct snap_bpf_thread *thread);

/*
 * All threads of a process, by its number in the caller's pid namespace. 0 or a negative errno. A thread
 * that ends meanwhile may end the walk before its time (next_thread() of the kernel).
 */
int snap_bpf_walk(const struct snap_bpf *bpf, pid_t pid, snap_bpf_take *take, void *context);

/*
 * A thread by its number in the caller's pid namespace. 0 or a negative errno: EAGAIN it is, or was,
 * on a processor, or has not quite gone to sleep; ESRCH there is none.
 */
int snap_bpf_read(const struct snap_bpf *bpf, pid_t tid, struct snap_bpf_thread *ret);
