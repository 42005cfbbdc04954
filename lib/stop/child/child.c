/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child from its first to its last instruction: see internal.h for what it must not do.
 * It dies with its parent.
 */
#include "base/clock.h"
#include "stop/child/await.h"
#include "stop/child/internal.h"
#include "stop/describe.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { MOST_ROUNDS = 16 /* in which the tree may have grown */ };

/*
 * A thread that calls exec waits until all other threads have ended, and until we have reaped those
 * of them that we trace, also those that were born to a tracee and that we do not know yet.
 * Meanwhile SEIZE of any of them waits for the exec. So they are reaped here; the kernel then
 * restarts the interrupted SEIZE. Each is asked alone: a wait for any of them would take stops, and
 * with them signals. No listing is under way, as none makes a SEIZE.
 */
static void reap_for_exec(struct snap_tracer *tracer)
{
	uint32_t process = tracer->tracees[tracer->by_tid[tracer->seizing] - 1].process;
	int tasks = tracer->task_fds[process], status;
	struct snap_numbers numbers;
	pid_t tid;

	if (lseek(tasks, 0, SEEK_SET) < 0)
		return;
	snap_numbers_init(&numbers, tasks);
	while (snap_numbers_next(&numbers, &tid) > 0)
		if (tid > 0)
			snap_await_tracee(tid, WNOHANG, &status);
}

/*
 * Whether an exec goes on although everything that it can wait for was reaped. Of several, each
 * gets less time than the one before.
 */
static bool is_seize_late(struct snap_tracer *tracer)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	int64_t patience_ns = snap_tracer_patience(tracer, SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS) /
			      (1 + tracer->seizes_given_up);

	if (!tracer->seizing_since_ns)
		tracer->seizing_since_ns = now;
	return now - tracer->seizing_since_ns > patience_ns ||
	       (tracer->seizes_given_up && snap_tracer_seized_ns(tracer, now) > SNAP_HURRY_NS) ||
	       (tracer->stopping && now > tracer->wait_until_ns);
}

/*
 * The timer's signal ends a blocking wait with EINTR. In a SEIZE that lasts from one tick to the
 * next it reaps what the SEIZE may wait for.
 */
static void on_tick(int signal _unused_, siginfo_t *info _unused_, void *frame)
{
	struct snap_tracer *tracer = snap_ticks_context(frame);
	int before = errno;

	if (!tracer)
		return;
	if (tracer->seizing && tracer->seizing == tracer->seizing_at_tick) {
		reap_for_exec(tracer);
		if (is_seize_late(tracer))
			siglongjmp(tracer->seize_given_up, 1);
	}
	tracer->seizing_at_tick = tracer->seizing;
	errno = before;
}

void snap_tracer_set_ticks(long interval_us)
{
	const struct itimerval interval = { .it_interval.tv_usec = interval_us,
					    .it_value.tv_usec = interval_us };

	setitimer(ITIMER_REAL, &interval, NULL);
}

/* A directory of threads stays open for each process. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static bool lay_out_scratch(struct snap_tracer *tracer)
{
	struct snap_region *scratch = &tracer->scratch;

	tracer->capacity = SNAP_MAX_THREADS;
	tracer->tracees = snap_region_new_array(scratch, SNAP_MAX_THREADS, struct snap_tracee);
	tracer->by_tid = snap_region_new_array(scratch, SNAP_TRACER_TIDS, uint32_t);
	tracer->task_fds = snap_region_new_array(scratch, SNAP_MAX_PROCESSES, int);
	tracer->counted = snap_region_new_array(scratch, SNAP_MAX_PROCESSES, uint32_t);
	tracer->unwatched = snap_region_new_array(scratch, SNAP_MAX_PROCESSES, uint32_t);
	tracer->tids = snap_region_new_array(scratch, SNAP_MAX_THREADS, pid_t);
	tracer->buffer = snap_region_alloc(scratch, SNAP_DESCRIBE_BYTES);
	tracer->ticks_place = snap_region_alloc(scratch, SNAP_TICKS_PLACE);
	return tracer->tracees && tracer->by_tid && tracer->task_fds && tracer->counted &&
	       tracer->unwatched && tracer->tids && tracer->buffer && tracer->ticks_place &&
	       snap_tracer_lay_out_copies(tracer);
}

/* Asks the parent for processes that were born before the SEIZE; false: the channel is broken. */
static bool ask_for_more(const struct snap_tracer_task *task, bool *more_ret)
{
	uint64_t value = SNAP_TRACER_ASK;
	ssize_t got;

	if (write(task->ask_fd, &value, sizeof(value)) < 0)
		return false;
	do {
		got = read(task->answer_fd, &value, sizeof(value));
	} while (got < 0 && errno == EINTR);
	*more_ret = value == SNAP_TRACER_PREPARE;
	return got == sizeof(value);
}

/* Before the first worker is made, as a worker follows us to each processor. */
static void read_tracer_clocks(struct snap_tracer *tracer)
{
	struct snap_run_clocks *clocks;

	if (tracer->options->explain != SNAP_EXPLAIN_ALL)
		return;
	clocks = snap_region_alloc(&tracer->memory->records, sizeof(*clocks));
	if (!clocks)
		return;
	snap_run_clocks_read(tracer->procfs->root_fd, clocks);
	tracer->stop->clocks = clocks;
}

/* Whether SEIZE was blocked, and the seized threads have waited for that long enough. */
static bool is_blocked_long(const struct snap_tracer *tracer)
{
	return tracer->seizes_given_up &&
	       snap_tracer_seized_ns(tracer, snap_clock_ns(CLOCK_MONOTONIC)) >
		       tracer->options->stop_timeout_ns / 2;
}

void snap_tracer_child(const struct snap_tracer_task *task)
{
	struct snap_tracer tracer = {
		.options = task->options,
		.hook = task->hook,
		.memory = task->memory,
		.stop = task->stop,
		.procfs = task->procfs,
		.scratch = task->scratch,
		.lists = task->lists,
		.ask_fd = task->ask_fd,
		.answer_fd = task->answer_fd,
		.may_probe = task->may_probe,
		.may_follow = task->may_follow,
		.bpf = { task->stop->bpf_fd },
	};
	bool more = true;

	tracer.loadavg_fd = snap_procfs_open_file(task->procfs->root_fd, "loadavg");
	raise_file_limit();
	if (!lay_out_scratch(&tracer))
		return;
	read_tracer_clocks(&tracer);
	snap_ticks_set_up(on_tick, tracer.ticks_place, &tracer);
	/* The first worker starts while we list threads. */
	if (snap_workers_init(&tracer.pool, 0, task->procfs->root_fd, 0) ||
	    !snap_workers_prepare(&tracer.pool))
		return;
	for (unsigned round = 0; more && round < MOST_ROUNDS && !is_blocked_long(&tracer);
	     round++) {
		snap_tracer_prepare(&tracer);
		tracer.first_pid = snap_procfs_last_pid(tracer.loadavg_fd);
		if (!ask_for_more(task, &more))
			return;
	}
	snap_tracer_pause(&tracer);
	snap_workers_deinit(&tracer.pool);
}
