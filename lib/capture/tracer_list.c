/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's lists: threads by procfs and by SEIZE, read while the target runs. Each read
 * of procfs costs 5-7 us, so a thread gets one (stat) unless more was asked for.
 */
#include "capture/tracer_child.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>

enum { SPARE_THREADS = 64, LONGEST_KERNEL_STACK = 8192, LONGEST_WCHAN = 128 };

/* New threads, forks and execs stop at once and are ours; nothing that dies with the tracer. */
static const long SEIZE_OPTIONS =
	PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;

/* Room for one more thread of a process: the records move to twice the room. */
static bool reserve(struct snap_tracer *tracer, struct snap_traced *process, size_t wanted)
{
	struct snap_thread *threads;

	if (wanted <= process->thread_capacity)
		return true;
	wanted += wanted / 4 + SPARE_THREADS;
	threads = snap_region_new_array(&tracer->shared->records, wanted, struct snap_thread);
	if (!threads)
		return false;
	if (process->thread_count)
		memcpy(threads, process->threads, process->thread_count * sizeof(*threads));
	process->threads = threads;
	process->thread_capacity = wanted;
	return true;
}

struct snap_tracee *snap_tracer_add(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_tracee *tracee;

	if (tid <= 0 || tid >= SNAP_TRACER_TIDS || tracer->count == tracer->capacity)
		return NULL;
	/* One that has gone and is listed again exits slowly, or its tid was given out again. */
	if (tracer->by_tid[tid] &&
	    tracer->tracees[tracer->by_tid[tid] - 1].phase != SNAP_TRACEE_GONE)
		return NULL;
	if (!reserve(tracer, traced, traced->thread_count + 1))
		return NULL;
	tracee = &tracer->tracees[tracer->count++];
	*tracee = (struct snap_tracee){ .tid = tid,
					.process = process,
					.thread = (uint32_t)traced->thread_count };
	traced->threads[traced->thread_count] = (struct snap_thread){
		.tid = tid,
		.ns_tid = traced->foreign_namespace ? 0 : tid,
		.cpu = -1,
		.result = SNAP_THREAD_UNTRACED,
	};
	traced->thread_count++;
	tracer->by_tid[tid] = tracer->count;
	tracer->present[process]++;
	return tracee;
}

void snap_tracer_gone(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	if (tracee->phase == SNAP_TRACEE_GONE)
		return;
	tracee->phase = SNAP_TRACEE_GONE;
	tracer->present[tracee->process]--;
	snap_tracer_thread(tracer, tracee)->result = SNAP_THREAD_VANISHED;
}

static const char *read_text(struct snap_tracer *tracer, struct snap_tracee *tracee,
			     const char *name, size_t most)
{
	ssize_t length = snap_procfs_task_read(tracer->task_fds[tracee->process], tracee->tid, name,
					       tracer->buffer, most);

	/* "0": the thread waits for nothing. */
	if (length <= 0 || (length == 1 && tracer->buffer[0] == '0'))
		return NULL;
	return snap_region_text(&tracer->shared->records, tracer->buffer, (size_t)length);
}

bool snap_tracer_describe(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	int tasks = tracer->task_fds[tracee->process];
	const struct snap_options *options = tracer->options;
	struct snap_status status;
	struct snap_stat stat;
	int result = snap_procfs_task_stat(tasks, tracee->tid, &stat);

	if (result == -ESRCH || result == -ENOENT)
		return false;
	if (result)
		return true;
	thread->name = snap_region_text(&tracer->shared->records, stat.name, strlen(stat.name));
	thread->state = stat.state;
	thread->cpu = stat.cpu;
	thread->flags = stat.flags;
	if (stat.state == 'D' || options->wchan || options->kernel_stacks)
		thread->wchan = read_text(tracer, tracee, "wchan", LONGEST_WCHAN);
	if (options->kernel_stacks)
		thread->kernel_stack = read_text(tracer, tracee, "stack", LONGEST_KERNEL_STACK);
	if (process->foreign_namespace && snap_procfs_task_status(tasks, tracee->tid, &status) == 0)
		thread->ns_tid = status.ns_pid;
	return true;
}

static bool is_worker(const struct snap_thread *thread)
{
	return thread->flags & (SNAP_PF_KTHREAD | SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER);
}

/*
 * Refused: it exits just now, or somebody else traces it. Only one of these stays. The state is
 * read again, as what was read before may be old.
 */
static void refused(struct snap_tracer *tracer, struct snap_tracee *tracee, int os_errno)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_stat stat;

	if (os_errno == ESRCH ||
	    snap_procfs_task_stat(tracer->task_fds[tracee->process], tracee->tid, &stat)) {
		snap_tracer_gone(tracer, tracee);
		return;
	}
	if (stat.state == 'Z' && tracee->tid == process->pid) {
		thread->state = 'Z';
		return;
	}
	if (stat.state == 'Z' || stat.state == 'X' || (stat.flags & SNAP_PF_EXITING)) {
		snap_tracer_gone(tracer, tracee);
		return;
	}
	if (!process->error)
		process->error = os_errno;
}

void snap_tracer_seize(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);

	if (process->look_only || is_worker(thread))
		return;
	if (thread->state == 'Z' && tracee->tid == process->pid)
		return;
	if (ptrace(PTRACE_SEIZE, tracee->tid, NULL, (void *)SEIZE_OPTIONS)) {
		refused(tracer, tracee, errno);
		return;
	}
	tracee->phase = SNAP_TRACEE_SEIZED;
	process->seized = true;
	thread->result = SNAP_THREAD_NOT_STOPPED;
}

uint32_t snap_tracer_list_again(struct snap_tracer *tracer, uint32_t process)
{
	ssize_t count = snap_procfs_list(tracer->task_fds[process], tracer->tids, SNAP_MAX_THREADS);
	uint32_t new = 0;

	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	for (ssize_t i = 0; i < count; i++) {
		struct snap_tracee *tracee = snap_tracer_add(tracer, process, tracer->tids[i]);

		if (!tracee)
			continue;
		if (!snap_tracer_describe(tracer, tracee)) {
			snap_tracer_gone(tracer, tracee);
			continue;
		}
		snap_tracer_thread(tracer, tracee)->late = tracer->stopping;
		snap_tracer_seize(tracer, tracee);
		new += tracee->phase == SNAP_TRACEE_SEIZED;
	}
	return new;
}

/* Threads and their states, all before the first SEIZE: reading is the slow part. */
static void list(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	int tasks = snap_procfs_open_tasks(traced->proc_fd);
	ssize_t count;

	tracer->task_fds[process] = tasks;
	count = tasks < 0 ? tasks : snap_procfs_list(tasks, tracer->tids, SNAP_MAX_THREADS);
	if (count <= 0) {
		traced->vanished = count == 0 || count == -ESRCH || count == -ENOENT;
		if (!traced->vanished)
			traced->error = (int)-count;
		return;
	}
	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	if (!reserve(tracer, traced, (size_t)count))
		return;
	for (ssize_t i = 0; i < count; i++) {
		struct snap_tracee *tracee = snap_tracer_add(tracer, process, tracer->tids[i]);

		if (tracee && !snap_tracer_describe(tracer, tracee))
			snap_tracer_gone(tracer, tracee);
	}
}

static void read_process(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	uint32_t first = tracer->count;
	int error;

	list(tracer, process);
	if (traced->look_only || traced->vanished || traced->error)
		return;
	error = snap_tracer_read_maps(tracer, process);
	/* Only the readable have maps; whether it can be traced, SEIZE will tell as well. */
	if (error == -EACCES || error == -EPERM) {
		traced->error = -error;
		return;
	}
	for (uint32_t i = first; i < tracer->count; i++) {
		if (tracer->tracees[i].phase == SNAP_TRACEE_GONE)
			continue;
		snap_tracer_read_pieces(tracer, process, tracer->tracees[i].tid);
		if (traced->piece_count)
			break;
	}
}

void snap_tracer_prepare(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	uint32_t first = tracer->count;

	for (uint32_t i = tracer->prepared; i < stop->process_count; i++)
		read_process(tracer, i);
	tracer->prepared = stop->process_count;
	snap_tracer_reserve_copies(tracer);
	for (uint32_t i = first; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		const struct snap_traced *process = snap_tracer_process(tracer, tracee);

		/* Who may not trace the first thread will not try ten thousand. */
		if (tracee->phase == SNAP_TRACEE_LISTED && (process->seized || !process->error))
			snap_tracer_seize(tracer, tracee);
	}
}
