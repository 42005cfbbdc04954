/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pause: from the first INTERRUPT to the last DETACH. Each thread costs only INTERRUPT, wait,
 * registers, a share of a copy, and DETACH; anything more is for rare cases.
 *
 * Waits block, each for one thread (waiting for any thread grows faster than linear), and a timer
 * ends them: polling under SCHED_FIFO would keep the target from a single processor.
 */
#include "base/clock.h"
#include "stop/child/await.h"
#include "stop/child/internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	PRIORITY = 2,         /* above ordinary real-time threads of the lowest level */
	GRACE_NS = 5000000,   /* for threads in D, after all others stand still */
	EXITING_NS = 5000000, /* for threads that exit and cannot be seized any more */
	NAP_NS = 100000,
	DETACH_NS_A_THREAD = 20000, /* reserved for copying and DETACH */
	LEAST_RESERVE_NS = 5000000,
	LEAST_PART = 4, /* one part of the time of a stop is always left, however long SEIZE took */
};

struct policy {
	int number; /* -1: nothing was changed */
	struct sched_param parameter;
};

/* Raises the priority if permitted, and if this process has no higher one. Returns the old one. */
static struct policy raise_priority(void)
{
	const struct sched_param first = { .sched_priority = PRIORITY };
	struct policy before = { .number = sched_getscheduler(0) };
	bool is_higher = before.number != SCHED_OTHER && before.number != SCHED_BATCH &&
			 before.number != SCHED_IDLE && before.number != SCHED_RR;

	if (is_higher || sched_getparam(0, &before.parameter) ||
	    before.parameter.sched_priority >= PRIORITY ||
	    sched_setscheduler(0, SCHED_FIFO, &first))
		before.number = -1;
	return before;
}

static void drop_priority(const struct policy *before)
{
	if (before->number >= 0)
		sched_setscheduler(0, before->number, &before->parameter);
}

/* Distinguishes stops: the kind decides which signal DETACH delivers. */
static void note_stop(struct snap_tracer *tracer, uint32_t index, int status)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	int event = status >> 16, signal = WSTOPSIG(status);

	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_STOPPED);
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

enum snap_wait_result snap_tracer_wait(struct snap_tracer *tracer, uint32_t index, int options)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	int status;
	pid_t tid = snap_await_tracee(tracee->tid, options, &status);

	if (tid == 0 || (tid < 0 && errno == EINTR))
		return SNAP_WAITED_NOT_YET;
	/* ECHILD: it has exited, in an exec of another thread; a tick may have reaped it. */
	if (tid < 0 || !WIFSTOPPED(status)) {
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
		return SNAP_WAITED_GONE;
	}
	/* A stop is reported again and again: it is news once. But an exec is one of another thread. */
	if (tracee->phase == SNAP_TRACEE_STOPPED && status >> 16 != PTRACE_EVENT_EXEC)
		return SNAP_WAITED_NOT_YET;
	note_stop(tracer, index, status);
	return SNAP_WAITED_STOPPED;
}

/* The state of a thread that does not stop; 0: unknown. */
static char read_tracee_state(const struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	int tasks = tracer->task_fds[tracee->process];
	struct snap_stat stat;

	return tasks < 0 || snap_procfs_task_stat(tasks, tracee->tid, &stat) ? 0 : stat.state;
}

/* A leader that exits before the other threads: wait(2) reports nothing until they are gone. */
static bool is_ended_leader(const struct snap_tracer *tracer, const struct snap_tracee *tracee,
			    char state)
{
	return state == 'Z' && tracee->tid == snap_tracer_process(tracer, tracee)->pid;
}

static void wait_for_one(struct snap_tracer *tracer, uint32_t index)
{
	struct snap_tracee *tracee = &tracer->tracees[index];

	while (snap_tracer_wait(tracer, index, tracer->time_is_up ? WNOHANG : 0) ==
	       SNAP_WAITED_NOT_YET) {
		char state = read_tracee_state(tracer, tracee);
		int64_t now;

		if (is_ended_leader(tracer, tracee, state)) {
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_ENDED);
			return;
		}
		if (state == 'D') {
			snap_tracer_thread(tracer, tracee)->state = state;
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_DELAYED);
			return;
		}
		now = snap_clock_ns(CLOCK_MONOTONIC);
		tracer->time_is_up = now >= tracer->wait_until_ns;
		if (!tracer->time_is_up)
			continue;
		/* Threads that have stopped by now count; no other is waited for. */
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_DELAYED);
		snap_tracer_process(tracer, tracee)->waited_ns = now - tracer->stop->begin_ns;
		return;
	}
}

/* The list grows meanwhile, by clones and forks of threads before their stop. */
static void wait_for_all(struct snap_tracer *tracer)
{
	for (; tracer->waited < tracer->count; tracer->waited++) {
		struct snap_tracee *tracee = &tracer->tracees[tracer->waited];

		if (tracee->phase != SNAP_TRACEE_AWAITED)
			continue;
		if (snap_tracer_thread(tracer, tracee)->state == 'D')
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_DELAYED);
		else
			wait_for_one(tracer, tracer->waited);
	}
}

static void interrupt_threads(struct snap_tracer *tracer, uint32_t first)
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
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_INTERRUPTED);
		/* We must reap it, or it stays a zombie as long as we live. */
		else if (snap_tracer_wait(tracer, i, WNOHANG) == SNAP_WAITED_NOT_YET)
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	}
}

/* A thread that was no leader has gone: after an exec it is the leader now, and about to stop. */
static void follow_exec(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_tracee *leader = snap_tracer_leader(tracer, process);
	char state = leader ? read_tracee_state(tracer, leader) : 0;

	if (!state || !strchr("RSD", state))
		return;
	snap_tracer_note(tracer, leader, SNAP_TRACEE_ON_EXECED);
	wait_for_one(tracer, (uint32_t)(leader - tracer->tracees));
}

/* Repeats until we know all threads; false: the time is up, or nothing changes. */
static bool catch_up_with_births(struct snap_tracer *tracer)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + EXITING_NS, now;

	for (;;) {
		uint32_t first = tracer->count, seized = 0, unsettled = 0;

		for (uint32_t i = 0; i < tracer->stop->process_count; i++) {
			if (snap_tracer_is_settled(tracer, i))
				continue;
			seized += snap_tracer_settle(tracer, i);
			unsettled++;
		}
		now = snap_clock_ns(CLOCK_MONOTONIC);
		if (!unsettled)
			return true;
		if (now >= tracer->wait_until_ns || (!seized && now > until))
			return false;
		if (seized) {
			interrupt_threads(tracer, first);
			wait_for_all(tracer);
			until = snap_clock_ns(CLOCK_MONOTONIC) + EXITING_NS;
		} else {
			nanosleep(&nap, NULL);
		}
	}
}

/* Waits for one thread while there is time; whether it has stopped or ended. */
static bool wait_for_slow_thread(struct snap_tracer *tracer, uint32_t index)
{
	struct snap_tracee *tracee = &tracer->tracees[index];
	enum snap_wait_result result;
	int options;

	do {
		int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

		/* After that time each is checked once more, without waiting. */
		options =
			now >= tracer->slow_until_ns || now >= tracer->wait_until_ns ? WNOHANG : 0;
		snap_tracer_reap_killed(tracer, tracee->process);
		result = snap_tracer_wait(tracer, index, options);
	} while (result == SNAP_WAITED_NOT_YET && !options);
	if (result == SNAP_WAITED_GONE)
		follow_exec(tracer, tracee->process);
	return result != SNAP_WAITED_NOT_YET;
}

/*
 * Threads in D, and parents inside vfork(), get a little time once all others have stopped. True if
 * one has stopped or ended: it may have made another thread before.
 */
static bool wait_for_slow_ones(struct snap_tracer *tracer)
{
	bool moved = false;

	if (!tracer->slow_until_ns)
		tracer->slow_until_ns = snap_clock_ns(CLOCK_MONOTONIC) + GRACE_NS;
	for (uint32_t i = 0; i < tracer->count; i++)
		if (tracer->tracees[i].phase == SNAP_TRACEE_SLOW)
			moved |= wait_for_slow_thread(tracer, i);
	wait_for_all(tracer);
	return moved;
}

/*
 * Releases all stopped threads. False: the kernel refused a DETACH, so our end must release the
 * thread.
 */
static bool release_threads(struct snap_tracer *tracer)
{
	uint32_t process = UINT32_MAX;
	bool all = true;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase != SNAP_TRACEE_STOPPED)
			continue;
		if (tracee->process != process && process != UINT32_MAX)
			tracer->stop->processes[process].stop_end_ns =
				snap_clock_ns(CLOCK_MONOTONIC);
		process = tracee->process;
		if (ptrace(PTRACE_DETACH, tracee->tid, NULL, (void *)(long)tracee->signal) < 0)
			all = false;
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_RELEASED);
	}
	if (process != UINT32_MAX)
		tracer->stop->processes[process].stop_end_ns = snap_clock_ns(CLOCK_MONOTONIC);
	return all;
}

/* Reads what a thread that did not stop waits for; this does not change while it waits. */
static void explain_slow(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase == SNAP_TRACEE_SLOW && !snap_tracer_thread(tracer, tracee)->wchan)
			snap_tracer_describe(tracer, tracee);
	}
}

/* Whether a thread is still traced: only our end releases one that did not stop. */
static bool has_traced(const struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		enum snap_tracee_phase phase = tracer->tracees[i].phase;

		if (phase >= SNAP_TRACEE_SEIZED && phase <= SNAP_TRACEE_STOPPED)
			return true;
	}
	return false;
}

/* If the message is lost, our end says the same. */
static void tell_done(const struct snap_tracer *tracer)
{
	uint64_t message = SNAP_TRACER_DONE;
	ssize_t n = write(tracer->ask_fd, &message, sizeof(message));

	(void)n;
}

static void set_deadlines(struct snap_tracer *tracer, int64_t begin)
{
	int64_t whole = tracer->options->stop_timeout_ns, until = tracer->stop->until_ns;
	int64_t reserve = LEAST_RESERVE_NS + tracer->count * (int64_t)DETACH_NS_A_THREAD;

	if (until && until - begin < whole) {
		whole = until - begin > 2 * LEAST_RESERVE_NS ? until - begin : 2 * LEAST_RESERVE_NS;
		tracer->hurries = true;
	}
	if (tracer->seizes_given_up) {
		int64_t rest = whole - snap_tracer_seized_ns(tracer, begin);

		whole = rest > whole / LEAST_PART ? rest : whole / LEAST_PART;
	}
	if (reserve > whole / 2)
		reserve = whole / 2;
	tracer->wait_until_ns = begin + whole - reserve;
	tracer->copy_until_ns = begin + whole - reserve / 2;
}

/*
 * A thread that rested when the tree was looked at last may have executed another program since, which
 * the kernel has not reported.
 */
static void look_for_other_programs(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->stop->process_count; i++) {
		struct snap_traced *traced = &tracer->stop->processes[i];
		struct snap_stat stat;

		if (!traced->look_only && !traced->unresponsive && tracer->task_fds[i] >= 0 &&
		    snap_procfs_task_stat(tracer->task_fds[i], traced->pid, &stat) == 0)
			traced->execed |= snap_stat_is_other(&stat, traced->program);
	}
}

/* Interrupts what is seized, and waits until nothing of it runs, and nothing new does. */
static void stand_still(struct snap_tracer *tracer)
{
	bool settled;

	tracer->waited = 0;
	interrupt_threads(tracer, 0);
	wait_for_all(tracer);
	do
		settled = catch_up_with_births(tracer);
	while (wait_for_slow_ones(tracer) || snap_tracer_add_unseen_children(tracer));
	if (!settled)
		snap_tracer_note_missed(tracer);
	if (tracer->any_rest || !snap_tracer_stops_all(tracer))
		look_for_other_programs(tracer);
	tracer->stop->still_ns = snap_clock_ns(CLOCK_MONOTONIC);
	tracer->stop->rounds = tracer->round + 1;
}

void snap_tracer_pause(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	struct policy before;
	int64_t begin;
	bool detached;

	set_deadlines(tracer, snap_clock_ns(CLOCK_MONOTONIC));
	if (snap_tracer_may_rest(tracer))
		snap_tracer_copy_rest(tracer);
	before = raise_priority();
	tracer->first = before.number >= 0;
	if (tracer->first)
		snap_workers_follow(&tracer->pool);
	if (snap_tracer_may_rest(tracer))
		snap_tracer_rest_and_copy(tracer);
	else if (!snap_tracer_stops_all(tracer))
		snap_tracer_seize_blocked(tracer);
	tracer->takes_running = true;
	snap_tracer_seize_listed(tracer);
	snap_tracer_set_ticks(SNAP_TRACER_TICK_US);
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	set_deadlines(tracer, begin);
	tracer->stopping = true;
	__atomic_store_n(&stop->begin_ns, begin, __ATOMIC_RELEASE);
	/* What wakes soon is stopped before memory is read, which may take long. */
	do {
		do
			stand_still(tracer);
		while (snap_tracer_has_woken(tracer));
		snap_tracer_copy(tracer);
	} while (snap_tracer_has_woken(tracer));
	snap_tracer_take_late(tracer);
	__atomic_store_n(&stop->settled, true, __ATOMIC_RELEASE);
	/* A stop that had its full time has other reasons for missing parts. */
	if (tracer->hurries && snap_clock_ns(CLOCK_MONOTONIC) >= tracer->wait_until_ns)
		stop->out_of_time = true;
	detached = release_threads(tracer);
	__atomic_store_n(&stop->end_ns, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
	snap_tracer_set_ticks(0);
	/*
	 * The parent goes on now, as our own turn comes after that of all released threads. Not
	 * while a thread is traced: the report could be printed before our end releases it.
	 */
	if (detached && !has_traced(tracer))
		tell_done(tracer);
	drop_priority(&before);
	tracer->first = false;
	explain_slow(tracer);
	snap_tracer_read_slow(tracer);
}
