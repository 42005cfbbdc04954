/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Known processes that run another program than before. Whatever was known of the old one goes;
 * what is read of the new one costs a millisecond, so a process that calls exec all the time is
 * followed for a share of the time only, and ticks in which it was not looked at are counted.
 */
#include "sample/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>

enum {
	/* Of the time, and of what was saved up of it, at most one part in so many is spent … */
	SHARE = 4,        /* on one process */
	SHARE_OF_ALL = 3, /* on all of them */
	SAVED_MS = 40,
};

enum fate {
	FATE_ENDED,
	FATE_LEAVING, /* or its leader is, for another thread that executes a program */
	FATE_ANOTHER, /* it runs another program */
};

bool snap_sampler_process_has_ended(const struct snap_sampler_process *process)
{
	struct pollfd wait = { .fd = process->live.pidfd, .events = POLLIN };

	return wait.fd >= 0 && poll(&wait, 1, 0) != 0;
}

/*
 * When a second thread calls exec, procfs has a moment between two leaders in which there seems to
 * be none. A pidfd knows better; without one procfs is asked another time.
 */
static enum fate seems_ended(struct snap_sampler_process *process)
{
	if (process->live.pidfd >= 0)
		return snap_sampler_process_has_ended(process) ? FATE_ENDED : FATE_LEAVING;
	return process->seemed_ended++ ? FATE_ENDED : FATE_LEAVING;
}

/* Of another program, which one it is. */
static enum fate fate_of(const struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	_cleanup_fd_ int loose = -1;
	int fd = process->live.proc_fd, error;
	struct snap_stat stat;

	if (fd < 0)
		fd = loose = snap_sampler_process_directory(sampler, process);
	error = fd < 0 ? fd : snap_sampler_read_stat(sampler, process, 0, &stat);
	/* Nothing else that fails says that it has ended. */
	if (error)
		return error == -ESRCH || error == -ENOENT ? seems_ended(process) : FATE_LEAVING;
	if (stat.start_ticks != process->facts.start_ticks)
		return FATE_ENDED;
	if (stat.state == 'Z' || stat.state == 'X')
		return stat.threads <= 1 ? seems_ended(process) : FATE_LEAVING;
	process->seemed_ended = 0;
	process->facts.program = stat.program;
	return stat.flags & SNAP_PF_EXITING || !stat.program ? FATE_LEAVING : FATE_ANOTHER;
}

/* What is known of the program that a process runs now; then *old_ret is what was known before. */
static struct stacksnap_error *take_program(struct snap_sampler *sampler,
					    struct snap_sampler_process *process,
					    struct snap_capture *found, struct snap_arena *old_ret)
{
	bool is_target = process->facts.is_target;
	struct stacksnap_error *err = NULL;

	*old_ret = process->arena;
	snap_arena_init(&process->arena);
	process->space = NULL;
	snap_sampler_process_reported(process);
	SNAP_TRY(snap_facts_copy(&process->arena, &found->processes[0], &process->facts));
	process->facts.is_target = is_target;
	snap_sampler_process_drop_live(sampler, &process->live);
	snap_sampler_process_take_live(sampler, &found->live[0], &process->live);
	/* The sink hears of the program before it hears of its mappings. */
	process->announced = false;
	err = snap_sampler_process_open(sampler, process);
	process->announced = true;
	if (err || process->state == SNAP_SAMPLER_PROCESS_GONE ||
	    process->state == SNAP_SAMPLER_PROCESS_LOST)
		return err;
	err = sampler->sink->program(sampler->sink->context, &process->shown, true);
	snap_sampler_process_reported(process);
	return err;
}

/* Whatever was known of the old program goes once the sink knows the new one. */
static struct stacksnap_error *renew_process(struct snap_sampler *sampler,
					     struct snap_sampler_process *process)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_arena_deinit) struct snap_arena old;
	struct snap_sampler_space *old_space = process->space;
	struct stacksnap_error *err;

	snap_arena_init(&old);
	SNAP_TRY(snap_no_memory_unless(capture));
	err = snap_discover_one(sampler->options, &process->facts,
				sampler->descriptors > 0 ? sampler->descriptors : 0, sampler->asker,
				capture);
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		process->state = SNAP_SAMPLER_PROCESS_LOST;
		return NULL;
	}
	if (err)
		return err;
	/* Has it? See there. */
	if (capture->processes[0].vanished ||
	    capture->processes[0].trouble == SNAP_TROUBLE_ZOMBIE) {
		process->state = SNAP_SAMPLER_PROCESS_LOST;
		return NULL;
	}
	err = take_program(sampler, process, capture, &old);
	snap_sampler_space_put(sampler, old_space);
	return err;
}

/* ---- how often ---- */

/* Time is saved up while nothing is spent. In an only tick there is little that can be repeated. */
static bool may_spend(const struct snap_sampler *sampler, const struct snap_renewal *renewal,
		      int64_t now)
{
	return sampler->options->no_stop || renewal->paid_ns <= now;
}

static void spend(struct snap_renewal *renewal, int64_t begin, int64_t now, int64_t share)
{
	const int64_t saved = SAVED_MS * SNAP_NS_PER_MS;

	renewal->paid_ns = SNAP_MAX(renewal->paid_ns, begin - saved);
	renewal->paid_ns += (now - begin) * share;
}

/* It was there in these ticks, as another program than was known. */
static void tell_ticks(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	sampler->tick.in_exec += process->ticks_in_exec;
	process->ticks_in_exec = 0;
}

struct stacksnap_error *snap_sampler_renew_one(struct snap_sampler *sampler,
					       struct snap_sampler_process *process)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), now;
	enum fate fate = fate_of(sampler, process);
	struct stacksnap_error *err;

	if (fate == FATE_ENDED)
		process->state = SNAP_SAMPLER_PROCESS_GONE;
	/* That may last. */
	if (fate == FATE_LEAVING)
		spend(&process->renewal, begin, begin + SNAP_NS_PER_MS, SHARE);
	if (fate != FATE_ANOTHER)
		return NULL;
	tell_ticks(sampler, process);
	if (!may_spend(sampler, &process->renewal, begin) ||
	    !may_spend(sampler, &sampler->renewal, begin))
		return NULL;
	err = renew_process(sampler, process);
	now = snap_clock_ns(CLOCK_MONOTONIC);
	spend(&process->renewal, begin, now, SHARE);
	spend(&sampler->renewal, begin, now, SHARE_OF_ALL);
	return err;
}

bool snap_sampler_may_renew(const struct snap_sampler *sampler,
			    const struct snap_sampler_process *process)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	return process->state == SNAP_SAMPLER_PROCESS_LOST &&
	       may_spend(sampler, &process->renewal, now) &&
	       may_spend(sampler, &sampler->renewal, now);
}

struct stacksnap_error *snap_sampler_renew(struct snap_sampler *sampler)
{
	const size_t step = 7919, count = sampler->process_count;
	size_t first = count ? sampler->looks * step % count : 0;
	struct stacksnap_error *err = NULL;

	/* Another one is the first each time, so all have their turn. */
	for (size_t i = 0; i < count && !err; i++) {
		struct snap_sampler_process *process = sampler->processes[(first + i) % count];

		/* What was had of it in this tick would not be any more. */
		if (process->state == SNAP_SAMPLER_PROCESS_LOST &&
		    process->shown_tick != sampler->ticks)
			err = snap_sampler_renew_one(sampler, process);
	}
	return err;
}

bool snap_sampler_is_in_exec(const struct snap_sampler *sampler,
			     const struct snap_sampler_process *process)
{
	if (process->shown_tick == sampler->ticks)
		return false;
	return process->state == SNAP_SAMPLER_PROCESS_LOST ||
	       (process->state == SNAP_SAMPLER_PROCESS_SAMPLED && !process->thread_count);
}

void snap_sampler_count_in_exec(struct snap_sampler *sampler)
{
	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];

		if (snap_sampler_is_in_exec(sampler, process))
			process->ticks_in_exec++;
		else if (process->state == SNAP_SAMPLER_PROCESS_SAMPLED)
			tell_ticks(sampler, process);
	}
}
