/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's lists: threads by procfs and by SEIZE, read while the target runs. Each read
 * of procfs costs 5-7 us, so a thread gets one (stat) unless more was asked for.
 */
#include "stop/child/child.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum {
	SPARE_THREADS = 64,
	SEIZE_TICK_US = 20000, /* reaping looks at all tracees */
};

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

static bool is_worker(const struct snap_thread *thread)
{
	return thread->flags & (SNAP_PF_KTHREAD | SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER);
}

static void take(struct snap_tracer *tracer, struct snap_tracee *tracee,
		 enum snap_tracee_phase phase)
{
	tracee->phase = (uint8_t)phase;
	snap_tracer_process(tracer, tracee)->seized = true;
	snap_tracer_thread(tracer, tracee)->result = SNAP_THREAD_NOT_STOPPED;
}

/* 0 or an errno. */
static int seize(pid_t tid)
{
	return ptrace(PTRACE_SEIZE, tid, NULL, (void *)SEIZE_OPTIONS) ? errno : 0;
}

/*
 * Refused: it exits just now, or somebody else traces it. Only one of these stays. The state is
 * read again, as what was read before may be old.
 */
static void refused(struct snap_tracer *tracer, struct snap_tracee *tracee, int os_errno)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_status status = { 0 };
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
	/* Born to a thread that we had seized, so it is ours, and is about to stop. */
	if (snap_procfs_task_status(tracer->task_fds[tracee->process], tracee->tid, &status) == 0 &&
	    status.tracer_pid == (pid_t)syscall(SYS_getpid)) {
		take(tracer, tracee, SNAP_TRACEE_AWAITED);
		return;
	}
	/* It counts until the kernel has done with it, which nobody waits for. */
	if (stat.state == 'Z' || stat.state == 'X' || (stat.flags & SNAP_PF_EXITING)) {
		thread->result = SNAP_THREAD_VANISHED;
		return;
	}
	/* In the middle of an exec, a moment ago, nobody may trace it. */
	if (os_errno == EPERM && status.tracer_pid == 0 && !seize(tracee->tid)) {
		take(tracer, tracee, SNAP_TRACEE_SEIZED);
		return;
	}
	if (!process->error)
		process->error = os_errno;
}

void snap_tracer_seize(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	int error;

	if (process->look_only || is_worker(thread))
		return;
	if (thread->state == 'Z' && tracee->tid == process->pid)
		return;
	error = seize(tracee->tid);
	if (error)
		refused(tracer, tracee, error);
	else
		take(tracer, tracee, SNAP_TRACEE_SEIZED);
}

/*
 * A tid that the process has not got: it has exited, or, where numbers were given out again, it
 * is a stranger, who runs on at once.
 */
static void drop_unlisted(struct snap_tracer *tracer, uint32_t process, uint16_t look)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->process != process || tracee->look == look ||
		    tracee->phase == SNAP_TRACEE_GONE)
			continue;
		if (tracee->phase == SNAP_TRACEE_STOPPED)
			ptrace(PTRACE_DETACH, tracee->tid, NULL, (void *)(long)tracee->signal);
		snap_tracer_gone(tracer, tracee);
	}
}

static struct snap_tracee *known(const struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	uint32_t index = tid < SNAP_TRACER_TIDS ? tracer->by_tid[tid] : 0;
	struct snap_tracee *tracee = index ? &tracer->tracees[index - 1] : NULL;

	return tracee && tracee->process == process && tracee->phase != SNAP_TRACEE_GONE ? tracee
											 : NULL;
}

uint32_t snap_tracer_list_again(struct snap_tracer *tracer, uint32_t process)
{
	ssize_t count = snap_procfs_list(tracer->task_fds[process], tracer->tids, SNAP_MAX_THREADS);
	uint16_t look = ++tracer->look;
	uint32_t new = 0;

	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	snap_tracer_set_ticks(true, SNAP_TRACER_TICK_US);
	for (ssize_t i = 0; i < count; i++) {
		struct snap_tracee *tracee = known(tracer, process, tracer->tids[i]);

		if (tracee) {
			tracee->look = look;
			continue;
		}
		tracee = snap_tracer_add(tracer, process, tracer->tids[i]);
		if (!tracee)
			continue;
		tracee->look = look;
		if (!snap_tracer_describe(tracer, tracee)) {
			snap_tracer_gone(tracer, tracee);
			continue;
		}
		snap_tracer_thread(tracer, tracee)->late = tracer->stopping;
		snap_tracer_seize(tracer, tracee);
		new += tracee->phase == SNAP_TRACEE_SEIZED || tracee->phase == SNAP_TRACEE_AWAITED;
	}
	snap_tracer_set_ticks(false, SNAP_TRACER_TICK_US);
	drop_unlisted(tracer, process, look);
	return new;
}

/* One that the parent has no descriptor for is looked up, and must be the one that was meant. */
void snap_tracer_open_tasks(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	_cleanup_fd_ int found = -1;
	struct snap_stat stat;
	int fd = traced->proc_fd, error;

	tracer->task_fds[process] = -ESRCH;
	if (fd < 0) {
		fd = found = snap_procfs_open_process(tracer->procfs, traced->pid);
		error = fd < 0 ? 0 : snap_procfs_stat(fd, &stat);
		if (error) {
			tracer->task_fds[process] = error;
			return;
		}
		if (fd >= 0 && !traced->start_ticks)
			traced->start_ticks = stat.start_ticks;
		if (fd >= 0 && stat.start_ticks != traced->start_ticks)
			return;
	}
	tracer->task_fds[process] = fd < 0 ? fd : snap_procfs_open_tasks(fd);
}

/* Threads and their states, all before the first SEIZE: reading is the slow part. */
static void list(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	ssize_t count;
	int tasks;

	snap_tracer_open_tasks(tracer, process);
	tasks = tracer->task_fds[process];
	count = tasks < 0 ? tasks : snap_procfs_list(tasks, tracer->tids, SNAP_MAX_THREADS);
	if (count <= 0) {
		traced->vanished = count == 0 || snap_procfs_is_gone(count);
		if (!traced->vanished)
			traced->error = (int)-count;
		return;
	}
	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	if (!reserve(tracer, traced, (size_t)count))
		return;
	for (ssize_t i = 0; i < count; i++)
		snap_tracer_add(tracer, process, tracer->tids[i]);
}

static void read_memory(struct snap_tracer *tracer, uint32_t process, uint32_t first)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	int error = -ESRCH;

	if (traced->look_only || traced->vanished || traced->error)
		return;
	/* A leader that has exited has no memory; the threads that it left behind have. */
	for (uint32_t i = first; i < tracer->count && error == -ESRCH; i++)
		error = snap_tracer_read_maps(tracer, process, tracer->tracees[i].tid);
	/* Only the readable have maps; whether it can be traced, SEIZE will tell as well. */
	if (error == -EACCES || error == -EPERM)
		traced->error = -error;
}

/* What can be listed quickly, for all, before what takes long is read. */
static void read_lists(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;

	for (uint32_t i = tracer->prepared; i < stop->process_count; i++) {
		uint32_t first = tracer->count;

		list(tracer, i);
		read_memory(tracer, i, first);
	}
}

void snap_tracer_prepare(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	uint32_t first = tracer->count;
	uint64_t stack_bytes;

	read_lists(tracer);
	stack_bytes = snap_tracer_expect(tracer);
	stop->help.stack_bytes = stack_bytes;
	for (uint32_t i = tracer->prepared; i < stop->process_count; i++)
		snap_tracer_describe_all(tracer, i);
	tracer->prepared = stop->process_count;
	snap_tracer_reserve_copies(tracer, stack_bytes);
	snap_tracer_set_ticks(true, SEIZE_TICK_US);
	for (uint32_t i = first; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];
		const struct snap_traced *process = snap_tracer_process(tracer, tracee);

		if (tracee->phase == SNAP_TRACEE_LISTED &&
		    snap_tracer_thread(tracer, tracee)->result == SNAP_THREAD_VANISHED)
			snap_tracer_gone(tracer, tracee);
		/* Who may not trace the first thread will not try ten thousand. */
		else if (tracee->phase == SNAP_TRACEE_LISTED &&
			 (process->seized || !process->error))
			snap_tracer_seize(tracer, tracee);
	}
	snap_tracer_set_ticks(false, 0);
}
