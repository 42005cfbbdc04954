/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads and processes that are born while their tree is on its way to the stop. The kernel makes
 * them ours and stops them before their first instruction; their creator's stop says who they are.
 */
#include "base/clock.h"
#include "stop/child/internal.h"

#include <stdint.h>
#include <sys/ptrace.h>

static bool is_known(const struct snap_tracer *tracer, pid_t tid)
{
	uint32_t index = tid > 0 && tid < SNAP_TRACER_TIDS ? tracer->by_tid[tid] : 0;

	return index && tracer->tracees[index - 1].phase != SNAP_TRACEE_GONE;
}

/* It has its creator's name, and waits to run for the first time. */
static void add_newborn(struct snap_tracer *tracer, uint32_t process, pid_t tid, uint32_t creator)
{
	struct snap_tracee *tracee = snap_tracer_add(tracer, process, tid);
	struct snap_thread *thread;

	if (!tracee)
		return;
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_BORN);
	thread = snap_tracer_thread(tracer, tracee);
	thread->name = snap_tracer_thread(tracer, &tracer->tracees[creator])->name;
	thread->state = 'R';
	thread->late = true;
}

/* A process that was forked, or cloned without CLONE_THREAD: at birth it is like its parent. */
static void add_process(struct snap_tracer *tracer, pid_t pid, uint32_t creator)
{
	struct snap_stop *stop = tracer->stop;
	uint32_t parent = tracer->tracees[creator].process, process = stop->process_count;
	const struct snap_traced *from = &stop->processes[parent];
	struct snap_traced new = {
		.pid = pid,
		.proc_fd = -1,
		.index = SIZE_MAX,
		.foreign_namespace = from->foreign_namespace,
		.forked_from = parent,
		.maps = from->maps,
		.map_count = from->map_count,
		.pieces = from->pieces,
		.piece_count = from->piece_count,
		.stop_begin_ns = snap_clock_ns(CLOCK_MONOTONIC),
	};

	if (!snap_stop_add(stop, &new))
		return;
	snap_tracer_open_tasks(tracer, process);
	add_newborn(tracer, process, pid, creator);
}

void snap_tracer_catch_child(struct snap_tracer *tracer, uint32_t creator, int event)
{
	uint32_t process = tracer->tracees[creator].process;
	int tasks = tracer->task_fds[process];
	unsigned long message = 0;
	struct snap_stat stat;
	pid_t tid;

	if (ptrace(PTRACE_GETEVENTMSG, tracer->tracees[creator].tid, NULL, &message))
		return;
	tid = (pid_t)message;
	/* A second look at the tree may have found it first. */
	if (is_known(tracer, tid))
		return;
	/* CLONE is also what clone() of a process without SIGCHLD is called. */
	if (event == PTRACE_EVENT_CLONE && snap_procfs_task_stat(tasks, tid, &stat) == 0)
		add_newborn(tracer, process, tid, creator);
	else
		add_process(tracer, tid, creator);
}
