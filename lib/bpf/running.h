/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Running: user registers and stacks of threads that are on a processor, by perf_event_open(2): an event for
 * each processor samples whatever runs there, at a rate. Nothing is stopped, and a thread notices no more
 * than an interrupt. Registers are those with which it entered the kernel, if it is there.
 *
 * Permitted with CAP_PERFMON, or where kernel.perf_event_paranoid is 0 or less. Samples of all processes
 * come, so the caller takes those of its own. Knows nothing of mappings, nor of what a stack means.
 */
#pragma once

#include "model/capture.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_running;

/* The newest sample of a thread; valid until the next call of snap_running_drain() or _close(). */
struct snap_running_sample {
	pid_t tid;       /* in the caller's pid namespace */
	int64_t time_ns; /* CLOCK_MONOTONIC */
	_Alignas(16)
		uint8_t registers[SNAP_MAX_REGISTERS]; /* without the thread pointer and the call */
	uint64_t sp;
	const uint8_t *stack; /* from sp on */
	uint32_t stack_size;  /* bytes: 0 where its page was not there */
	bool stack_is_cut;    /* there was no room for more */
};

/* `hz`: samples a second of each processor. 0 or a negative errno: EACCES, EPERM not permitted. */
int snap_running_open(unsigned hz, struct snap_running **ret);
void snap_running_close(struct snap_running *running);

/* From now on as much of a stack is kept as a record has room for. */
void snap_running_deepen(struct snap_running *running);

/* Takes what has come since the last call. */
void snap_running_drain(struct snap_running *running);

/* A sample of a thread that is newer than `after_ns`, each once; NULL: there is none. */
const struct snap_running_sample *snap_running_take(struct snap_running *running, pid_t tid,
						    int64_t after_ns);
