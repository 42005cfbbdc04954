/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child from its first to its last instruction: see child.h for what it may not
 * do. It ends by _exit and dies with its parent.
 */
#include "stop/child/child.h"

#include "base/spawn.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/* What the timer's signal is for: to end a blocking wait with EINTR. */
static void on_tick(int signal _unused_)
{
}

/*
 * A thread that calls exec waits for the end of all others, and for us to take note of it where we
 * trace them; until then SEIZE of any of them waits for the exec. So what has ended is taken note
 * of here: the call that was interrupted begins anew by itself.
 */
static void on_tick_in_seize(int signal _unused_)
{
	int before = errno;
	siginfo_t info;

	do
		info.si_pid = 0;
	while (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | __WALL, NULL) == 0 &&
	       info.si_pid);
	errno = before;
}

void snap_tracer_set_ticks(bool seizing, long interval_us)
{
	struct sigaction action = { .sa_handler = seizing ? on_tick_in_seize : on_tick };
	struct itimerval timer = { .it_interval.tv_usec = interval_us,
				   .it_value.tv_usec = interval_us };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void set_up_signals(void)
{
	struct sigaction action = { .sa_handler = on_tick };
	sigset_t tick;

	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&tick);
	sigaddset(&tick, SIGALRM);
	/* All others stay blocked as the parent left them: a Ctrl-C is the parent's to handle. */
	sigprocmask(SIG_UNBLOCK, &tick, NULL);
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

static bool lay_out(struct snap_tracer *tracer)
{
	struct snap_region *scratch = &tracer->scratch;

	tracer->capacity = SNAP_MAX_THREADS;
	tracer->tracees = snap_region_new_array(scratch, SNAP_MAX_THREADS, struct snap_tracee);
	tracer->by_tid = snap_region_new_array(scratch, SNAP_TRACER_TIDS, uint32_t);
	tracer->task_fds = snap_region_new_array(scratch, SNAP_MAX_PROCESSES, int);
	tracer->present = snap_region_new_array(scratch, SNAP_MAX_PROCESSES, uint32_t);
	tracer->tids = snap_region_new_array(scratch, SNAP_MAX_THREADS, pid_t);
	tracer->buffer = snap_region_alloc(scratch, SNAP_TRACER_BUFFER);
	return tracer->tracees && tracer->by_tid && tracer->task_fds && tracer->present &&
	       tracer->tids && tracer->buffer && snap_tracer_lay_out_copies(tracer);
}

/* Asks the parent for processes that were born before the SEIZE; false: the channel broke. */
static bool ask_again(int ask_fd, int answer_fd, bool *more_ret)
{
	uint64_t value = SNAP_TRACER_ASK;
	ssize_t got;

	if (write(ask_fd, &value, sizeof(value)) < 0)
		return false;
	do {
		got = read(answer_fd, &value, sizeof(value));
	} while (got < 0 && errno == EINTR);
	*more_ret = value == SNAP_TRACER_PREPARE;
	return got == sizeof(value);
}

void snap_tracer_child(struct snap_tracer *tracer, int ask_fd, int answer_fd)
{
	bool more = true;

	tracer->ask_fd = ask_fd;
	set_up_signals();
	raise_file_limit();
	if (!lay_out(tracer))
		snap_spawn_exit(1);
	for (unsigned round = 0; more && round < SNAP_TRACER_ROUNDS; round++) {
		snap_tracer_prepare(tracer);
		if (!ask_again(ask_fd, answer_fd, &more))
			snap_spawn_exit(1);
	}
	snap_tracer_pause(tracer);
}
