/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads and processes that are born while their tree is being stopped. The kernel makes them
 * tracees and stops them before their first instruction; the stop of their creator gives their tid.
 */
#include "base/clock.h"
#include "stop/child/internal.h"

#include <stdint.h>
#include <sys/ptrace.h>

enum { MOST_NEW_PIDS = 1024 /* that are checked in the pause */ };

static bool is_tracee_known(const struct snap_tracer *tracer, pid_t tid)
{
	uint32_t index = tid > 0 && tid < SNAP_TRACER_TIDS ? tracer->by_tid[tid] : 0;

	return index && tracer->tracees[index - 1].phase != SNAP_TRACEE_GONE;
}

/* A new thread has its creator's name, and waits to run for the first time. */
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
static bool add_born_process(struct snap_tracer *tracer, pid_t pid, uint32_t parent)
{
	struct snap_stop *stop = tracer->stop;
	uint32_t process = stop->process_count;
	const struct snap_traced *from = &stop->processes[parent];
	struct snap_traced new = {
		.pid = pid,
		.proc_fd = -1,
		.index = SIZE_MAX,
		.foreign_namespace = from->foreign_namespace,
		.forked_from = parent,
		.program = from->program,
		.maps = from->maps,
		.map_count = from->map_count,
		.credentials = from->credentials,
		.pieces = from->pieces,
		.piece_count = from->piece_count,
		.stop_begin_ns = snap_clock_ns(CLOCK_MONOTONIC),
	};

	if (!snap_stop_add(stop, &new))
		return false;
	snap_tracer_open_tasks(tracer, process);
	return true;
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
	/* A second listing of the tree may have found it first. */
	if (is_tracee_known(tracer, tid))
		return;
	/* A process that is made by clone() without SIGCHLD is reported as CLONE, too. */
	if (event == PTRACE_EVENT_CLONE && snap_procfs_task_stat(tasks, tid, &stat) == 0)
		add_newborn(tracer, process, tid, creator);
	else if (add_born_process(tracer, tid, process))
		add_newborn(tracer, tracer->stop->process_count - 1, tid, creator);
}

/* The parent of a process in this stop, if the process runs and is not traced; -1: none. */
static int64_t find_parent(const struct snap_tracer *tracer, pid_t pid)
{
	/* A process has a folder below the root, as a thread has below its process. */
	int root = tracer->procfs->root_fd;
	struct snap_status status;
	struct snap_stat stat;
	uint32_t index;

	if (snap_procfs_task_stat(root, pid, &stat) || (stat.flags & SNAP_PF_EXITING) ||
	    stat.ppid <= 0 || stat.ppid >= SNAP_TRACER_TIDS)
		return -1;
	index = tracer->by_tid[stat.ppid];
	/* Threads have a folder there, too; and a traced process was born to a tracee. */
	if (!index || snap_procfs_task_status(root, pid, &status) || status.tgid != pid ||
	    status.tracer_pid)
		return -1;
	return tracer->tracees[index - 1].process;
}

static void add_unseen_child(struct snap_tracer *tracer, pid_t pid, uint32_t parent)
{
	struct snap_stop *stop = tracer->stop;
	uint32_t process = stop->process_count;

	if (!add_born_process(tracer, pid, parent))
		stop->processes[parent].children_missed++;
	else if (tracer->task_fds[process] < 0)
		stop->process_count--; /* it has gone */
	else                           /* by now it may run another program */
		tracer->maps_wanted[process] = true;
}

static void look_for_children(struct snap_tracer *tracer, pid_t first, pid_t last)
{
	for (pid_t pid = first; pid <= last && pid < first + MOST_NEW_PIDS; pid++) {
		int64_t parent = pid < SNAP_TRACER_TIDS && !tracer->by_tid[pid]
					 ? find_parent(tracer, pid)
					 : -1;

		if (parent >= 0)
			add_unseen_child(tracer, pid, (uint32_t)parent);
	}
}

bool snap_tracer_add_unseen_children(struct snap_tracer *tracer)
{
	pid_t first = tracer->first_pid, last = snap_procfs_last_pid(tracer->loadavg_fd);
	uint32_t before = tracer->stop->process_count;

	if (!tracer->options->children || !first || !last || first == last)
		return false;
	tracer->first_pid = last;
	if (first < last) {
		look_for_children(tracer, first + 1, last);
	} else { /* Numbers start again after the last one, which is configurable. */
		look_for_children(tracer, first + 1, first + MOST_NEW_PIDS);
		look_for_children(tracer, 1, last);
	}
	return tracer->stop->process_count > before;
}
