/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pause: from the first INTERRUPT to the last DETACH. Nothing here is done once a thread but
 * INTERRUPT, wait, registers, a share of a copy, DETACH; what costs more is for the rare cases.
 *
 * Waits block, each for one thread (waiting for any grows faster than linear), and are ended by a
 * timer: polling under SCHED_FIFO would keep the target from the only processor.
 */
#include "base/clock.h"
#include "stop/child/child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	PRIORITY = 2,         /* above ordinary real-time threads of the lowest level */
	GRACE_NS = 5000000,   /* for threads in D, after all others stand still */
	EXITING_NS = 5000000, /* for threads that exit and cannot be seized any more */
	NAP_NS = 100000,
	DETACH_NS_A_THREAD = 20000, /* kept back from the time for copying and DETACH */
	LEAST_RESERVE_NS = 5000000,
};

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_NOT_YET };

/* Where it is permitted. The policy to go back to; -1: nothing was changed. */
static int raise_priority(void)
{
	struct sched_param parameter = { .sched_priority = PRIORITY };
	int policy = sched_getscheduler(0);

	if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE)
		return -1;
	return sched_setscheduler(0, SCHED_FIFO, &parameter) ? -1 : policy;
}

static void drop_priority(int policy)
{
	struct sched_param parameter = { 0 };

	if (policy >= 0)
		sched_setscheduler(0, policy, &parameter);
}

/* Tells the stops apart: whose it was decides what DETACH hands on. */
static void note_stop(struct snap_tracer *tracer, uint32_t index, int status)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	int event = status >> 16, signal = WSTOPSIG(status);

	tracee->phase = SNAP_TRACEE_STOPPED;
	switch (event) {
	case 0: /* signal-delivery-stop */
		tracee->signal = (int8_t)signal;
		break;
	case PTRACE_EVENT_STOP: /* our INTERRUPT or a birth (SIGTRAP), else a group-stop */
		snap_tracer_thread(tracer, tracee)->group_stopped = signal != SIGTRAP;
		break;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
		snap_tracer_catch_child(tracer, index, event);
		break;
	case PTRACE_EVENT_EXEC:
		snap_tracer_process(tracer, tracee)->execed = true;
		break;
	}
}

static enum wait_result wait_for(struct snap_tracer *tracer, uint32_t index, int options)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	int status;
	long tid = syscall(SYS_wait4, tracee->tid, &status, __WALL | options, NULL);

	if (tid == 0 || (tid < 0 && errno == EINTR))
		return WAIT_NOT_YET;
	/* ECHILD: it has exited unseen, in an exec of another thread. */
	if (tid < 0 || !WIFSTOPPED(status)) {
		snap_tracer_gone(tracer, tracee);
		return WAIT_GONE;
	}
	note_stop(tracer, index, status);
	return WAIT_STOPPED;
}

/* Why a thread does not stop: true when there is no use in waiting for it now. */
static bool is_slow(struct snap_tracer *tracer, uint32_t index)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	int tasks = tracer->task_fds[tracee->process];
	struct snap_stat stat;

	if (tasks < 0 || snap_procfs_task_stat(tasks, tracee->tid, &stat))
		return false;
	if (stat.state == 'D') {
		thread->state = 'D';
		tracee->phase = SNAP_TRACEE_SLOW;
		return true;
	}
	/* A leader that exits before the other threads reports nothing until they are gone. */
	if (stat.state == 'Z') {
		thread->state = 'Z';
		thread->result = SNAP_THREAD_UNTRACED;
		tracee->phase = SNAP_TRACEE_LISTED;
		return true;
	}
	return false;
}

static void wait_out(struct snap_tracer *tracer, uint32_t index)
{
	while (wait_for(tracer, index, tracer->time_is_up ? WNOHANG : 0) == WAIT_NOT_YET) {
		struct snap_tracee *tracee = &tracer->tracees[index];

		if (is_slow(tracer, index))
			return;
		tracer->time_is_up = snap_clock_ns(CLOCK_MONOTONIC) >= tracer->wait_until_ns;
		if (!tracer->time_is_up)
			continue;
		/* What stands still by now counts, nobody is waited for. */
		tracee->phase = SNAP_TRACEE_SLOW;
		snap_tracer_process(tracer, tracee)->timed_out = true;
		return;
	}
}

/* The list grows while it is walked: clones and forks of threads on their way to the stop. */
static void wait_all(struct snap_tracer *tracer)
{
	for (; tracer->waited < tracer->count; tracer->waited++) {
		struct snap_tracee *tracee = &tracer->tracees[tracer->waited];

		if (tracee->phase != SNAP_TRACEE_AWAITED)
			continue;
		if (snap_tracer_thread(tracer, tracee)->state == 'D')
			tracee->phase = SNAP_TRACEE_SLOW;
		else
			wait_out(tracer, tracer->waited);
	}
}

static void interrupt(struct snap_tracer *tracer, uint32_t first)
{
	uint32_t process = UINT32_MAX;

	for (uint32_t i = first; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase != SNAP_TRACEE_SEIZED && tracee->phase != SNAP_TRACEE_AWAITED)
			continue;
		if (tracee->process != process) {
			struct snap_traced *traced = snap_tracer_process(tracer, tracee);

			process = tracee->process;
			if (!traced->stop_begin_ns)
				traced->stop_begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
		}
		if (tracee->phase == SNAP_TRACEE_AWAITED)
			continue;
		if (ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) == 0)
			tracee->phase = SNAP_TRACEE_AWAITED;
		/* Its end is ours to take note of, or it stays a zombie as long as we live. */
		else if (wait_for(tracer, i, WNOHANG) == WAIT_NOT_YET)
			snap_tracer_gone(tracer, tracee);
	}
}

/* Threads that the kernel counts: the link count of the directory of threads, less its own two. */
static long count_threads(int tasks)
{
	struct stat status;

	if (tasks < 0 || fstat(tasks, &status) || status.st_nlink < 2)
		return -1;
	return (long)status.st_nlink - 2;
}

/*
 * SIGKILL ends stopped threads too, and one that calls exec waits in D until its tracer, we, has
 * taken note of the end of all others. Where the first still stands, nobody was killed.
 */
static void reap_killed(struct snap_tracer *tracer, uint32_t process)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		bool leader = tracee->tid == tracer->stop->processes[process].pid;

		/* The end of a leader is never told: the other one gets its number. */
		if (tracee->process == process && tracee->phase == SNAP_TRACEE_STOPPED &&
		    wait_for(tracer, i, WNOHANG) != WAIT_GONE && !leader)
			return;
	}
}

/* A thread has gone that was no leader: by exec it is the leader now, and about to stop. */
static void follow_exec(struct snap_tracer *tracer, uint32_t process)
{
	uint32_t index = tracer->by_tid[tracer->stop->processes[process].pid];
	struct snap_tracee *leader = index ? &tracer->tracees[index - 1] : NULL;
	struct snap_stat stat;

	if (!leader || leader->process != process ||
	    snap_procfs_task_stat(tracer->task_fds[process], leader->tid, &stat) ||
	    !strchr("RSD", stat.state))
		return;
	if (leader->phase == SNAP_TRACEE_GONE)
		tracer->present[process]++;
	leader->phase = SNAP_TRACEE_AWAITED;
	snap_tracer_thread(tracer, leader)->result = SNAP_THREAD_NOT_STOPPED;
	wait_out(tracer, index - 1);
}

/* A leader that was a zombie, and alone, may be alive again: another thread took its number. */
static void forget_old_leader(struct snap_tracer *tracer, uint32_t process)
{
	uint32_t index = tracer->by_tid[tracer->stop->processes[process].pid];
	struct snap_tracee *leader = index ? &tracer->tracees[index - 1] : NULL;
	struct snap_stat stat;

	if (tracer->present[process] == 1 && leader && leader->phase == SNAP_TRACEE_LISTED &&
	    snap_tracer_thread(tracer, leader)->state == 'Z' &&
	    snap_procfs_task_stat(tracer->task_fds[process], leader->tid, &stat) == 0 &&
	    stat.state != 'Z' && stat.state != 'X')
		snap_tracer_gone(tracer, leader);
}

/* Looks for threads that nobody told us of; true when some process is not settled yet. */
static bool is_unsettled(struct snap_tracer *tracer, bool *grown)
{
	struct snap_stop *stop = tracer->stop;
	bool unsettled = false;

	for (uint32_t i = 0; i < stop->process_count; i++) {
		struct snap_traced *process = &stop->processes[i];
		long threads;

		if (process->look_only || (process->error && !process->seized))
			continue;
		forget_old_leader(tracer, i);
		threads = count_threads(tracer->task_fds[i]);
		process->threads_missed = 0;
		if (threads < 0 || (uint32_t)threads == tracer->present[i])
			continue;
		reap_killed(tracer, i);
		if (snap_tracer_list_again(tracer, i))
			*grown = true;
		unsettled = true;
		threads = count_threads(tracer->task_fds[i]);
		if (threads > (long)tracer->present[i])
			process->threads_missed = (size_t)threads - tracer->present[i];
	}
	return unsettled;
}

/* Done when every process has as many threads as stand still. */
static void catch_up(struct snap_tracer *tracer)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + EXITING_NS;
	uint32_t first = tracer->count;
	bool grown = false;

	while (is_unsettled(tracer, &grown) &&
	       snap_clock_ns(CLOCK_MONOTONIC) < tracer->wait_until_ns) {
		if (grown) {
			interrupt(tracer, first);
			wait_all(tracer);
			first = tracer->count;
			grown = false;
			until = snap_clock_ns(CLOCK_MONOTONIC) + EXITING_NS;
			continue;
		}
		if (snap_clock_ns(CLOCK_MONOTONIC) > until)
			return;
		nanosleep(&nap, NULL);
	}
}

/* Threads in D, and parents inside vfork(), get a little time when all others stand still. */
static void wait_slow(struct snap_tracer *tracer)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + GRACE_NS;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		enum wait_result result;
		int options = 0;

		if (tracee->phase != SNAP_TRACEE_SLOW)
			continue;
		do {
			/* Past the time each is asked once more, without waiting. */
			reap_killed(tracer, tracee->process);
			if (snap_clock_ns(CLOCK_MONOTONIC) >= until ||
			    snap_clock_ns(CLOCK_MONOTONIC) >= tracer->wait_until_ns)
				options = WNOHANG;
			result = wait_for(tracer, i, options);
		} while (result == WAIT_NOT_YET && !options);
		if (result == WAIT_GONE)
			follow_exec(tracer, tracee->process);
	}
	wait_all(tracer);
}

static void release(struct snap_tracer *tracer)
{
	uint32_t process = UINT32_MAX;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase != SNAP_TRACEE_STOPPED)
			continue;
		if (tracee->process != process && process != UINT32_MAX)
			tracer->stop->processes[process].stop_end_ns =
				snap_clock_ns(CLOCK_MONOTONIC);
		process = tracee->process;
		ptrace(PTRACE_DETACH, tracee->tid, NULL, (void *)(long)tracee->signal);
		tracee->phase = SNAP_TRACEE_RELEASED;
	}
	if (process != UINT32_MAX)
		tracer->stop->processes[process].stop_end_ns = snap_clock_ns(CLOCK_MONOTONIC);
}

/* What a thread waits for that did not stop; while it waits, this does not change. */
static void explain_slow(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase == SNAP_TRACEE_SLOW && !snap_tracer_thread(tracer, tracee)->wchan)
			snap_tracer_describe(tracer, tracee);
	}
}

static void set_deadlines(struct snap_tracer *tracer, int64_t begin)
{
	int64_t whole = tracer->options->stop_timeout_ns;
	int64_t reserve = LEAST_RESERVE_NS + tracer->count * (int64_t)DETACH_NS_A_THREAD;

	if (reserve > whole / 2)
		reserve = whole / 2;
	tracer->wait_until_ns = begin + whole - reserve;
	tracer->copy_until_ns = begin + whole - reserve / 2;
}

void snap_tracer_pause(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	int64_t begin;
	int policy;

	snap_tracer_set_ticks(false, SNAP_TRACER_TICK_US);
	policy = raise_priority();
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	set_deadlines(tracer, begin);
	tracer->stopping = true;
	__atomic_store_n(&stop->begin_ns, begin, __ATOMIC_RELEASE);
	interrupt(tracer, 0);
	wait_all(tracer);
	catch_up(tracer);
	wait_slow(tracer);
	stop->still_ns = snap_clock_ns(CLOCK_MONOTONIC);
	snap_tracer_copy(tracer);
	release(tracer);
	__atomic_store_n(&stop->end_ns, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
	snap_tracer_set_ticks(false, 0);
	drop_priority(policy);
	explain_slow(tracer);
}
