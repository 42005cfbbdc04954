/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that must be stopped: those that run, and those whose place needs more registers than
 * procfs tells. They are gathered, handed to the tracer (stop/single.h) and shown.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	LEAST_PATIENCE_MS = 5, /* a thread that waits for a processor stops when it gets one */
	MOST_PATIENCE_MS = 20,
	PATIENT_TRIES = 3, /* where many threads share few processors, one may just be late */
	FIRST_SKIP_MS = 20,
	LONGEST_SKIP_MS = 100,
	BELIEVED = 3,     /* refusals one after the other */
	TRACED_MS = 1000, /* how long a process that somebody else traces is let be */
};

static int64_t stop_timeout_ns(const struct snap_sampler *sampler)
{
	unsigned hz = sampler->options->hz ? sampler->options->hz : 1;
	int64_t period = 1000000000ll / hz;

	if (period > MOST_PATIENCE_MS * (int64_t)SNAP_NS_PER_MS)
		return MOST_PATIENCE_MS * (int64_t)SNAP_NS_PER_MS;
	return period > LEAST_PATIENCE_MS * (int64_t)SNAP_NS_PER_MS
		       ? period
		       : LEAST_PATIENCE_MS * (int64_t)SNAP_NS_PER_MS;
}

static struct snap_error *miss_thread(struct snap_sampler *sampler,
				      struct snap_sampler_thread *thread)
{
	sampler->tick.missed++;
	return snap_sampler_miss(sampler, thread, SNAP_THREAD_NOT_STOPPED);
}

struct snap_error *snap_sampler_pick(struct snap_sampler *sampler, const struct snap_picked *picked)
{
	const struct snap_sampler_thread *thread = picked->thread;

	if (sampler->now_ns < thread->skip_until_ns ||
	    sampler->now_ns < thread->process->trace_after_ns)
		return miss_thread(sampler, picked->thread);
	sampler->picked[sampler->pick_count++] = *picked;
	return sampler->pick_count < SNAP_SINGLE_MOST ? NULL : snap_sampler_stop(sampler);
}

/*
 * What was seen of it before the stop, was it the same? Only then the next look, which sees no more
 * than that, may say that it stands where it stood.
 */
static bool is_as_seen_before(const struct snap_picked *picked, const struct snap_thread *copy)
{
	return picked->blocked && copy->stack_address == picked->address &&
	       copy->stack_size >= picked->size && picked->size &&
	       snap_hash(copy->stack, picked->size, picked->size) == picked->thread->stack_hash;
}

/* Where its stack is, for the next time; a new thread's mapping may be unknown. */
static struct snap_error *learn_stack(struct snap_sampler *sampler,
				      struct snap_sampler_thread *thread,
				      const struct snap_thread *copy)
{
	uint64_t sp = copy->stack_address + SNAP_STACK_MARGIN;
	const struct snap_process *facts = &thread->process->facts;
	const struct snap_map *map = snap_process_map(facts, sp);
	struct snap_error *err = NULL;
	bool changed;

	if (!map && copy->stack_size) {
		err = snap_sampler_process_map(sampler, thread->process, &changed);
		map = err ? NULL : snap_process_map(facts, sp);
	}
	if (map) {
		thread->stack_start = map->start;
		thread->stack_end = map->end;
	}
	return err;
}

static struct snap_error *take_stopped_copy(struct snap_sampler *sampler,
					    const struct snap_picked *picked,
					    struct snap_pick *pick)
{
	struct snap_sampler_thread *thread = picked->thread;
	struct snap_error *err = learn_stack(sampler, thread, &pick->copy);
	enum snap_verdict verdict;

	if (err || thread->gone)
		return err;
	thread->skip_ns = thread->skip_until_ns = thread->late = 0;
	thread->process->facts.arch = pick->arch;
	thread->process->refusals = 0;
	if (thread->process->facts.trouble != SNAP_TROUBLE_NONE) {
		err = snap_sampler_process_explain(sampler, thread->process, 0);
		if (err)
			return err;
	}
	snap_sampler_thread_describe(thread, &pick->copy);
	if (!is_as_seen_before(picked, &pick->copy))
		thread->stack_hash = 0;
	sampler->tick.alone++;
	err = snap_sampler_show(sampler, thread, &pick->copy, &verdict);
	if (thread->again)
		thread->stack_hash = 0;
	return err;
}

static struct snap_error *take_timeout(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread)
{
	const int64_t longest = LONGEST_SKIP_MS * (int64_t)SNAP_NS_PER_MS;

	if (++thread->late < PATIENT_TRIES)
		return miss_thread(sampler, thread);
	thread->late = PATIENT_TRIES;
	thread->skip_ns =
		thread->skip_ns ? 2 * thread->skip_ns : FIRST_SKIP_MS * (int64_t)SNAP_NS_PER_MS;
	if (thread->skip_ns > longest)
		thread->skip_ns = longest;
	thread->skip_until_ns = sampler->now_ns + thread->skip_ns;
	return miss_thread(sampler, thread);
}

static struct snap_error *take_refusal(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread, int os_errno)
{
	struct snap_sampler_process *process = thread->process;

	struct snap_error *err;

	if (os_errno == ENOEXEC)
		return snap_sampler_process_refused(sampler, process, os_errno);
	/* One that is exiting is refused, too. */
	err = snap_sampler_thread_read(sampler, thread);
	if (err || thread->gone || (thread->flags & SNAP_PF_EXITING))
		return err;
	/* In the middle of an exec it may be refused once. */
	if (++process->refusals < BELIEVED)
		return miss_thread(sampler, thread);
	/* Those of its threads that are blocked can still be read. */
	process->trace_after_ns = sampler->now_ns + TRACED_MS * (int64_t)SNAP_NS_PER_MS;
	if (process->facts.trouble == SNAP_TROUBLE_NONE)
		err = snap_sampler_process_explain(sampler, process, os_errno);
	return err ? err : miss_thread(sampler, thread);
}

static struct snap_error *take_pick(struct snap_sampler *sampler, const struct snap_picked *picked,
				    struct snap_pick *pick)
{
	struct snap_sampler_thread *thread = picked->thread;

	if (thread->gone)
		return NULL;
	if (pick->copy.result == SNAP_THREAD_COPIED)
		return take_stopped_copy(sampler, picked, pick);
	if (pick->copy.result == SNAP_THREAD_VANISHED || pick->error == ESRCH) {
		thread->process->list_due = true;
		return NULL;
	}
	if (pick->error == EPERM || pick->error == EACCES || pick->error == ENOEXEC)
		return take_refusal(sampler, thread, pick->error);
	return take_timeout(sampler, thread);
}

static struct snap_error *stop_picked_threads(struct snap_sampler *sampler, size_t count)
{
	int64_t stopped_ns = 0;
	struct snap_error *err = NULL;

	if (!sampler->single)
		err = snap_single_create(sampler->options, &sampler->single);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		const struct snap_sampler_thread *thread = sampler->picked[i].thread;

		sampler->picks[i] = (struct snap_pick){ .tid = thread->shown.tid,
							.mem_fd = thread->process->mem_fd,
							.stack_start = thread->stack_start,
							.stack_end = thread->stack_end };
	}
	err = snap_single_take(sampler->single, sampler->picks, count, stop_timeout_ns(sampler),
			       &stopped_ns);
	sampler->tick.stopped_ns += stopped_ns;
	return err;
}

/* Without a tracer those that are blocked can still be looked at. */
static void warn_cannot_stop(struct snap_sampler *sampler, const struct snap_error *err)
{
	if (!sampler->warned)
		snap_capture_warn(sampler->capture, "cannot_stop", 0, 0, "%s",
				  snap_error_message(err));
	sampler->warned = true;
}

struct snap_error *snap_sampler_stop(struct snap_sampler *sampler)
{
	size_t count = sampler->pick_count;
	bool failed = false;
	struct snap_error *err;

	sampler->pick_count = 0;
	err = count ? stop_picked_threads(sampler, count) : NULL;
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		warn_cannot_stop(sampler, err);
		snap_error_destroy(err);
		err = NULL;
		failed = true;
	}
	for (size_t i = 0; !err && i < count; i++) {
		if (!failed)
			err = take_pick(sampler, &sampler->picked[i], &sampler->picks[i]);
		else if (!sampler->picked[i].thread->gone)
			err = take_timeout(sampler, sampler->picked[i].thread);
	}
	return err;
}
