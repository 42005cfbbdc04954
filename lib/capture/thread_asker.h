/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Thread asker: reads what procfs says of a thread and what an exec of its process can hold: its
 * stat (since Linux 6.18), its kernel stack, its system call. A worker reads (base/workers.h),
 * which is left behind if it takes too long. Knows neither the use of the answers, nor which
 * threads are asked again.
 */
#pragma once

#include "base/error.h"
#include "proc/procfs.h"
#include "stop/run_clock.h"

struct snap_thread_asker;

/* To be made early: its workers have the memory that the caller has now. */
struct stacksnap_error *snap_thread_asker_new(struct snap_thread_asker **ret) _must_check_;
/* Waits up to 100 ms for workers that do not end. NULL is allowed. */
void snap_thread_asker_destroy(struct snap_thread_asker *asker);

static inline void snap_thread_asker_destroyp(struct snap_thread_asker **asker)
{
	snap_thread_asker_destroy(*asker);
}

/* All: 0 or a negative errno. ETIMEDOUT: its process had better not be asked again. */
int snap_thread_ask_stat(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			 struct snap_stat *ret);
/* The text is the asker's, and there until the next question. */
int snap_thread_ask_stack(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			  const char **text_ret, size_t *size_ret);
int snap_thread_ask_call(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			 struct snap_syscall_line *ret);
/* The clocks by which threads run: found by the worker, which visits each processor for it. */
int snap_thread_ask_clocks(struct snap_thread_asker *asker, struct snap_run_clocks *ret);
