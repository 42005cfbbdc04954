/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Do we know all threads of a process? Threads are born untraced (CLONE_UNTRACED, or by a thread
 * that was not seized yet) and vanish untraced while we list and seize. Every running thread must
 * be found, or the report must say that it was not.
 *
 * One fstat() gives the kernel's number of threads of a process. That number alone proves nothing:
 * it is the same if a thread that we could not seize has vanished and another one was born. So
 *
 *	1. read the number of threads; it must be the number of those that we count;
 *	2. then look at each of these that can vanish unseen: as it is there now, it was there in 1.
 *
 * All others that we count are tracees: a tracee stays in the kernel's number until we reap it. So
 * the kernel's number consists of known threads alone.
 */
#include "stop/child/internal.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

enum look { LOOK_THERE, LOOK_VANISHED, LOOK_UNKNOWN };

/* A leader that has exited is alive again when another thread has taken its tid, by exec. */
static enum look look_at_tracee(const struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	struct snap_stat stat;
	int error = snap_procfs_task_stat(tracer->task_fds[tracee->process], tracee->tid, &stat);

	if (error)
		return snap_procfs_is_gone(error) ? LOOK_VANISHED : LOOK_UNKNOWN;
	if (tracee->phase == SNAP_TRACEE_EXITING && stat.state != 'Z' && stat.state != 'X' &&
	    !(stat.flags & SNAP_PF_EXITING))
		return LOOK_VANISHED;
	return LOOK_THERE;
}

static bool is_unwatched(const struct snap_tracee *tracee, uint32_t process)
{
	return tracee->process == process && snap_tracee_is_unwatched(tracee->phase);
}

bool snap_tracer_is_settled(const struct snap_tracer *tracer, uint32_t process)
{
	const struct snap_traced *traced = &tracer->stop->processes[process];
	uint32_t unwatched = tracer->unwatched[process];
	size_t threads;

	if (traced->look_only || traced->left_out || (traced->error && !traced->seized))
		return true;
	if (traced->has_foreign)
		return false;
	if (snap_procfs_thread_count(tracer->task_fds[process], &threads))
		return true; /* the number cannot be read */
	if (threads != tracer->counted[process])
		return false;
	for (uint32_t i = 0; unwatched && i < tracer->count; i++) {
		if (!is_unwatched(&tracer->tracees[i], process))
			continue;
		if (look_at_tracee(tracer, &tracer->tracees[i]) != LOOK_THERE)
			return false;
		unwatched--;
	}
	return true;
}

static void drop_vanished(struct snap_tracer *tracer, uint32_t process)
{
	for (uint32_t i = 0; tracer->unwatched[process] && i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (is_unwatched(tracee, process) &&
		    look_at_tracee(tracer, tracee) == LOOK_VANISHED)
			snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	}
}

/*
 * SIGKILL ends stopped threads too, and a thread that calls exec waits in D until its tracer, we,
 * has reaped all others. If the first one is still stopped, none was killed.
 */
void snap_tracer_reap_killed(struct snap_tracer *tracer, uint32_t process)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		bool leader = tracee->tid == tracer->stop->processes[process].pid;

		/*
		 * wait(2) never reports the end of a leader in an exec: the thread that calls exec
		 * takes over its tid.
		 */
		if (tracee->process == process && tracee->phase == SNAP_TRACEE_STOPPED &&
		    snap_tracer_wait(tracer, i, WNOHANG) != SNAP_WAITED_GONE && !leader)
			return;
	}
}

/*
 * Drops threads that a listing does not have. They have ended; or their tid was used again, and we
 * have seized a foreign thread, which is released at once. But the kernel ends a listing early if
 * the thread at its position exits, so each is checked by its tid, too.
 */
static void drop_unlisted(struct snap_tracer *tracer, uint32_t process, uint16_t look)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->process != process || tracee->look == look ||
		    tracee->phase == SNAP_TRACEE_GONE ||
		    look_at_tracee(tracer, tracee) != LOOK_VANISHED)
			continue;
		if (tracee->phase == SNAP_TRACEE_STOPPED)
			ptrace(PTRACE_DETACH, tracee->tid, NULL, (void *)(long)tracee->signal);
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	}
}

static struct snap_tracee *find_counted(const struct snap_tracer *tracer, uint32_t process,
					pid_t tid)
{
	uint32_t index = tid < SNAP_TRACER_TIDS ? tracer->by_tid[tid] : 0;
	struct snap_tracee *tracee = index ? &tracer->tracees[index - 1] : NULL;

	return tracee && tracee->process == process && snap_tracee_is_counted(tracee->phase)
		       ? tracee
		       : NULL;
}

/* Seizes a thread that only the new listing has; whether it is a tracee now, or rests. */
static bool seize_late(struct snap_tracer *tracer, uint32_t process, pid_t tid, uint16_t look)
{
	struct snap_tracee *tracee = snap_tracer_add(tracer, process, tid);

	if (!tracee)
		return false;
	tracee->look = look;
	/* The leader again: another thread, which we did not trace, has its tid, by exec. */
	if (tid == tracer->stop->processes[process].pid)
		tracer->stop->processes[process].execed = true;
	if (!snap_tracer_describe(tracer, tracee)) {
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
		return false;
	}
	snap_tracer_thread(tracer, tracee)->late = tracer->stopping;
	if (snap_tracer_rest_late(tracer, tracee))
		return true;
	snap_tracer_seize(tracer, tracee);
	return tracee->phase == SNAP_TRACEE_SEIZED || tracee->phase == SNAP_TRACEE_AWAITED;
}

uint32_t snap_tracer_settle(struct snap_tracer *tracer, uint32_t process)
{
	uint16_t look = ++tracer->look;
	uint32_t seized = 0;
	ssize_t count;

	/* What is seized from here on is looked up by the next listing. */
	tracer->stop->processes[process].has_foreign = false;
	drop_vanished(tracer, process);
	snap_tracer_reap_killed(tracer, process);
	count = snap_procfs_list(tracer->task_fds[process], tracer->tids, SNAP_MAX_THREADS);
	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	for (ssize_t i = 0; i < count; i++) {
		struct snap_tracee *tracee = find_counted(tracer, process, tracer->tids[i]);

		if (tracee)
			tracee->look = look;
		else
			seized += seize_late(tracer, process, tracer->tids[i], look);
	}
	drop_unlisted(tracer, process, look);
	return seized;
}

void snap_tracer_note_missed(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->stop->process_count; i++) {
		uint32_t counted = tracer->counted[i];
		size_t threads = 0;

		if (snap_tracer_is_settled(tracer, i))
			continue;
		snap_procfs_thread_count(tracer->task_fds[i], &threads);
		/* If the numbers do not say how many, it is one at least. */
		tracer->stop->processes[i].threads_missed =
			threads > counted ? threads - counted : 1;
	}
}
