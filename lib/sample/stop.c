/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that must be stopped: those that run, and those whose place needs more registers than
 * procfs tells. They are gathered, handed to the tracer (stop/single.h) and shown.
 */
#include "base/clock.h"
#include "base/table.h"
#include "model/arch/registers.h"
#include "model/wait/call.h"
#include "sample/internal.h"
#include "stop/plan/of_thread.h"

#include <errno.h>
#include <string.h>

enum {
	LEAST_PATIENCE_MS = 5, /* a thread that waits for a processor stops when it gets one */
	MOST_PATIENCE_MS = 20,
	PATIENT_TRIES = 3, /* where many threads share few processors, one may just be late */
	FIRST_SKIP_MS = 20,
	LONGEST_SKIP_MS = 100,
	TRACED_MS = 1000, /* how long a process with another tracer is left alone */
	/*
	 * For how long threads are stopped while stacks are read: a worker needs some time to
	 * begin.
	 */
	LEAST_READ_NS = 2000000,
	MOST_READ_NS = 50000000,
	PATIENT_STALLS = 2, /* beyond this time, where there was less than the most */
};

static int64_t stop_timeout_ns(const struct snap_options *options)
{
	const int64_t least = LEAST_PATIENCE_MS * SNAP_NS_PER_MS;
	const int64_t most = MOST_PATIENCE_MS * SNAP_NS_PER_MS;
	int64_t period = 1000000000ll / (options->hz ? options->hz : 1);

	if (options->no_stop)
		return options->stop_timeout_ns;
	return period < least ? least : period < most ? period : most;
}

struct stacksnap_error *snap_sampler_request_stop(struct snap_sampler *sampler,
						  const struct snap_stop_request *request)
{
	/* If nothing is sampled, each is stopped as briefly as possible. */
	size_t most = sampler->options->no_stop ? 1 : SNAP_SINGLE_MOST;

	sampler->requests[sampler->request_count++] = *request;
	return sampler->request_count < most ? NULL : snap_sampler_stop_requested(sampler);
}

/*
 * What was seen of it before the stop, was it the same? Only then the next look, which sees no more
 * than that, may say that it stands where it stood.
 */
static bool is_as_seen_before(const struct snap_stop_request *request,
			      const struct snap_thread *copy)
{
	return request->blocked && copy->stack_address == request->address &&
	       copy->stack_size >= request->size && request->size &&
	       snap_sampler_hash(copy, request->size) == request->thread->stack_hash;
}

/* Where its stack is, for the next time; a new thread's mapping may be unknown. */
static struct stacksnap_error *learn_stack(struct snap_sampler *sampler,
					   struct snap_sampler_thread *thread,
					   const struct snap_thread *copy)
{
	uint64_t sp = copy->stack_address + SNAP_STACK_MARGIN;
	const struct snap_process *facts = &thread->process->facts;
	const struct snap_map *map = snap_process_map(facts, sp);
	struct snap_known_registers known = { 0 };
	struct stacksnap_error *err = NULL;
	bool changed;

	if (!map && copy->stack_size) {
		err = snap_sampler_process_map(sampler, thread->process, &changed);
		map = err ? NULL : snap_process_map(facts, sp);
	}
	if (map) {
		(void)snap_registers_of(SNAP_OWN_ARCH, copy, &known);
		snap_sampler_thread_take_stack(thread, map, known.thread_pointer);
	}
	return err;
}

static struct stacksnap_error *take_stopped_copy(struct snap_sampler *sampler,
						 const struct snap_stop_request *request,
						 struct snap_pick *pick,
						 const struct snap_wait_context *context)
{
	struct snap_sampler_thread *thread = request->thread;
	struct stacksnap_error *err = learn_stack(sampler, thread, &pick->copy);
	enum snap_verdict verdict;
	bool stale;

	if (err || snap_sampler_thread_gone(sampler, thread))
		return err;
	thread->skip_ns = thread->skip_until_ns = thread->late = 0;
	thread->process->facts.arch = pick->arch;
	thread->fs_base =
		snap_thread_plan_of(0, 0, pick->copy.registers, pick->copy.registers_size).fs_base;
	thread->process->refusals = 0;
	if (!pick->copy.stack_unreadable)
		thread->process->stalls = 0;
	if (thread->process->facts.trouble != SNAP_TROUBLE_NONE &&
	    thread->process->facts.trouble != SNAP_TROUBLE_NOT_RESPONDING)
		SNAP_TRY(snap_sampler_process_explain(sampler, thread->process, 0));
	snap_sampler_thread_describe(thread, &pick->copy);
	if (!is_as_seen_before(request, &pick->copy))
		thread->stack_hash = 0;
	sampler->tick.alone++;
	thread->shown.stopped_ns = pick->stopped_ns;
	if (snap_sampler_keep_context(sampler, thread->process, context))
		snap_sampler_show_context(sampler, thread);
	err = snap_sampler_show(sampler, thread, &pick->copy, &verdict, &stale);
	snap_sampler_drop_context(thread);
	if (stale)
		thread->stack_hash = 0;
	thread->shown.stopped_ns = 0;
	return err;
}

static struct stacksnap_error *take_timeout(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread)
{
	const int64_t longest = LONGEST_SKIP_MS * SNAP_NS_PER_MS;

	if (++thread->late < PATIENT_TRIES)
		return snap_sampler_miss(sampler, thread);
	thread->late = PATIENT_TRIES;
	thread->skip_ns = thread->skip_ns ? 2 * thread->skip_ns : FIRST_SKIP_MS * SNAP_NS_PER_MS;
	thread->skip_ns = SNAP_MIN(thread->skip_ns, longest);
	thread->skip_until_ns = sampler->now_ns + thread->skip_ns;
	return snap_sampler_miss(sampler, thread);
}

/* In an only tick another look tells; false: there is none. */
static bool retry_thread(struct snap_sampler *sampler, const struct snap_sampler_thread *thread)
{
	if (sampler->may_retry)
		snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_RETRY);
	return sampler->may_retry;
}

static struct stacksnap_error *take_refusal(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread, int os_errno)
{
	struct snap_sampler_process *process = thread->process;
	bool is_believed = ++process->refusals >= SNAP_SAMPLER_BELIEVED;
	struct stacksnap_error *err;

	if (os_errno == ENOEXEC)
		return snap_sampler_process_refused(sampler, process, os_errno);
	err = snap_sampler_thread_read(sampler, thread);
	if (err || snap_sampler_thread_gone(sampler, thread))
		return err;
	/* One that is exiting is refused, too, and in the middle of an exec it may be. */
	if (!is_believed && retry_thread(sampler, thread))
		return NULL;
	if (thread->flags & SNAP_PF_EXITING)
		return NULL;
	if (!is_believed && !sampler->options->no_stop)
		return snap_sampler_miss(sampler, thread);
	/* Those of its threads that are blocked can still be read. */
	process->trace_after_ns = sampler->now_ns + TRACED_MS * SNAP_NS_PER_MS;
	if (process->facts.trouble == SNAP_TROUBLE_NONE)
		err = snap_sampler_process_explain(sampler, process, os_errno);
	return err ? err : snap_sampler_miss(sampler, thread);
}

/*
 * A process that holds its lock for a moment may be late once; one that blocks its readers for ever
 * costs one reader each time.
 */
static struct stacksnap_error *take_stall(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread)
{
	struct snap_sampler_process *process = thread->process;

	if (++process->stalls < PATIENT_STALLS && sampler->read_ns < MOST_READ_NS)
		return snap_sampler_miss(sampler, thread);
	process->stalls = 0;
	return snap_sampler_process_stalled(sampler, process, "reading its memory");
}

static struct stacksnap_error *take_pick(struct snap_sampler *sampler,
					 const struct snap_stop_request *request,
					 struct snap_pick *pick,
					 const struct snap_wait_context *context, bool is_spoiled)
{
	struct snap_sampler_thread *thread = request->thread;

	if (snap_sampler_thread_gone(sampler, thread))
		return NULL;
	if (pick->stalled)
		return take_stall(sampler, thread);
	/* Another thread of the same call has blocked the reader. */
	if (is_spoiled && pick->copy.result == SNAP_THREAD_COPIED && !pick->copy.stack_size)
		return snap_sampler_miss(sampler, thread);
	if (pick->copy.result == SNAP_THREAD_COPIED)
		return take_stopped_copy(sampler, request, pick, context);
	if (pick->copy.result == SNAP_THREAD_VANISHED || pick->error == ESRCH) {
		thread->process->list_due = true;
		retry_thread(sampler, thread);
		return NULL;
	}
	if (pick->error == EPERM || pick->error == EACCES || pick->error == ENOEXEC)
		return take_refusal(sampler, thread, pick->error);
	return take_timeout(sampler, thread);
}

/*
 * If the place of its stack was unknown, the copy may be too short. Now it is known, and there is
 * no next tick.
 */
static struct stacksnap_error *stop_with_known_stack(struct snap_sampler *sampler,
						     const struct snap_sampler_thread *thread,
						     struct snap_pick *pick)
{
	const struct snap_process *facts = &thread->process->facts;
	const struct snap_thread *copy = &pick->copy;
	int64_t before_ns = pick->stopped_ns, stopped_ns;
	const struct snap_map *map = NULL;
	struct stacksnap_error *err;
	uint64_t sp;

	if (copy->result != SNAP_THREAD_COPIED || !pick->past_end || copy->stack2_size)
		return NULL;
	map = snap_sampler_interrupted_stack(facts, copy, &sp);
	if (!map && copy->stack_limited)
		map = snap_process_map(facts, copy->stack_address + SNAP_STACK_MARGIN);
	if (!map || pick->stack_end == snap_process_stack_end(facts, map, thread->fs_base))
		return NULL;
	pick->stack_start = map->start;
	pick->stack_end = snap_process_stack_end(facts, map, thread->fs_base);
	err = snap_single_take(sampler->single, pick, 1, stop_timeout_ns(sampler->options),
			       &stopped_ns);
	if (!err && pick->stopped_ns < before_ns)
		pick->stopped_ns = before_ns;
	return err;
}

/* ---- what explains its wait ---- */

_Static_assert((int)SNAP_SINGLE_MOST <= (int)SNAP_READER_MOST, "all picks are asked for at once");

/* Of each pick the number of its question + 1; 0: none. */
struct context_numbers {
	uint8_t of[SNAP_SINGLE_MOST];
};

/* It was blocked, and was stopped in a call that waits, as its registers tell: it is back there. */
static bool stands_in_call(const struct snap_sampler_thread *thread, struct snap_pick *pick,
			   struct snap_thread_call *ret)
{
	struct snap_thread *copy = &pick->copy;

	if (copy->result != SNAP_THREAD_COPIED || thread->letter == 'R')
		return false;
	/* Some processors' registers do not tell a call without it (model/arch/registers.c). */
	copy->state = thread->letter;
	*ret = snap_wait_call_of(pick->arch, copy);
	return snap_wait_context_is_wanted(pick->arch, ret);
}

/* They run again: it is read at once, of all of them. */
static void read_context(struct snap_sampler *sampler, size_t count, struct context_numbers *ret)
{
	struct snap_reader_caller callers[SNAP_SINGLE_MOST];
	const struct snap_sampler_thread *asked[SNAP_SINGLE_MOST];
	size_t called = 0, late;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < count; i++) {
		struct snap_sampler_thread *thread = sampler->requests[i].thread;
		struct snap_reader_caller *caller = &callers[called];

		if (snap_sampler_thread_gone(sampler, thread) ||
		    !snap_sampler_wants_context(sampler, thread) ||
		    !stands_in_call(thread, &sampler->picks[i], &caller->call))
			continue;
		caller->target = snap_sampler_reader_target(sampler, thread->process, thread);
		asked[called++] = thread;
		ret->of[i] = (uint8_t)called;
	}
	if (!called || !snap_reader_read_context(sampler->reader, callers, called, &late))
		return;
	memset(ret, 0, sizeof(*ret));
	if (late != SIZE_MAX)
		asked[late]->process->wait_bytes_stalled = true;
}

static const struct snap_wait_context *
context_of(const struct snap_sampler *sampler, const struct context_numbers *numbers, size_t index)
{
	unsigned number = numbers->of[index];

	return number ? snap_reader_context_called(sampler->reader, number - 1) : NULL;
}

/* ---- for how long it stands ---- */

/*
 * Ends the account of a process for a call. Threads of it that stood together count once, which the
 * time until the last of them was let go bounds. What the tracer waited may have been theirs to
 * wait.
 */
static void account_process(struct snap_sampler *sampler, struct snap_sampler_process *process,
			    int64_t waited_ns)
{
	int64_t stood = process->budget.call_ns + waited_ns;

	stood = stood < process->call_most_ns ? stood : process->call_most_ns;
	snap_budget_spend(&process->budget, process->call_stops, stood);
	if (process->stood_tick != sampler->ticks)
		process->tick_ns = 0;
	process->stood_tick = sampler->ticks;
	process->tick_ns += stood;
	process->call_stops = 0;
	process->call_most_ns = 0;
	sampler->tick.stopped_ns = SNAP_MAX(sampler->tick.stopped_ns, process->tick_ns);
	sampler->stood_ns = SNAP_MAX(sampler->stood_ns, process->budget.stood_ns);
}

/* By when they stood. */
static void order_picks(const struct snap_pick *picks, size_t count, uint8_t *order)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = i;

		for (; at && picks[order[at - 1]].stood_from_ns > picks[i].stood_from_ns; at--)
			order[at] = order[at - 1];
		order[at] = (uint8_t)i;
	}
}

/*
 * From its INTERRUPT to its DETACH; a thread that was not released may have been stopped until the
 * end of the call.
 */
static int64_t longest_stand(const struct snap_pick *pick, int64_t call_ns)
{
	if (pick->copy.result != SNAP_THREAD_COPIED)
		return pick->copy.result == SNAP_THREAD_UNTRACED ? pick->stopped_ns : call_ns;
	return pick->stopped_ns < call_ns ? pick->stopped_ns : call_ns;
}

/*
 * `call_ns`: from the first INTERRUPT to the last DETACH; `waited_ns`: how long the tracer waited
 * for a processor meanwhile.
 */
static void account_call(struct snap_sampler *sampler, size_t count, int64_t call_ns,
			 int64_t waited_ns)
{
	uint8_t order[SNAP_SINGLE_MOST];

	order_picks(sampler->picks, count, order);
	for (size_t i = 0; i < count; i++) {
		struct snap_sampler_process *process = sampler->requests[i].thread->process;

		int64_t most = longest_stand(&sampler->picks[i], call_ns);

		process->call_stops++;
		process->call_most_ns = SNAP_MAX(process->call_most_ns, most);
	}
	for (size_t i = 0; i < count; i++) {
		const struct snap_pick *pick = &sampler->picks[order[i]];

		snap_budget_add(&sampler->requests[order[i]].thread->process->budget,
				pick->stood_from_ns, pick->stood_ns);
	}
	for (size_t i = 0; i < count; i++)
		if (sampler->requests[i].thread->process->call_stops)
			account_process(sampler, sampler->requests[i].thread->process, waited_ns);
}

/*
 * For how long the threads of a call may stand while their stacks are read: those that stand
 * already wait for the others, so the process that has the least time left says.
 */
static int64_t reading_time(struct snap_sampler *sampler, size_t count)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), most = MOST_READ_NS;

	for (size_t i = 0; i < count; i++) {
		struct snap_sampler_process *process = sampler->requests[i].thread->process;
		int64_t room = snap_budget_room(&process->budget, &sampler->budget, now);

		most = room < most ? room : most;
	}
	return most > LEAST_READ_NS ? most : LEAST_READ_NS;
}

static struct stacksnap_error *stop_threads(struct snap_sampler *sampler, size_t count)
{
	int64_t stopped_ns = 0, waited_ns, begin;
	struct stacksnap_error *err = NULL;

	if (!sampler->single)
		err = snap_single_create(sampler->options, &sampler->single);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		const struct snap_sampler_thread *thread = sampler->requests[i].thread;

		sampler->picks[i] = (struct snap_pick){ .tid = thread->shown.tid,
							.stack_start = thread->stack_start,
							.stack_end = thread->stack_end,
							.ns_tid = thread->shown.ns_tid,
							.plan = thread->process->shown.plan };
	}
	sampler->read_ns = reading_time(sampler, count);
	snap_single_set_patience(sampler->single, sampler->read_ns);
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_single_take(sampler->single, sampler->picks, count,
			       stop_timeout_ns(sampler->options), &stopped_ns);
	waited_ns = err ? -1 : snap_single_waited(sampler->single);
	/* Of a failed one no more is known. */
	if (err)
		stopped_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	account_call(sampler, count, stopped_ns, waited_ns < 0 ? stopped_ns : waited_ns);
	if (!err && sampler->options->no_stop)
		err = stop_with_known_stack(sampler, sampler->requests[0].thread,
					    &sampler->picks[0]);
	return err;
}

/* Without a tracer those that are blocked can still be looked at. */
static void warn_cannot_stop(struct snap_sampler *sampler, const struct stacksnap_error *err)
{
	if (!sampler->warned)
		snap_capture_warn(sampler->capture, "cannot_stop", 0, 0, "%s",
				  snap_error_message(err));
	sampler->warned = true;
}

/* If the kernel does not name the stopped thread, it is none that we know. */
static bool is_of_another_program(struct snap_sampler *sampler, size_t index)
{
	struct snap_sampler_thread *thread = sampler->requests[index].thread;

	return sampler->picks[index].copy.result == SNAP_THREAD_COPIED &&
	       !snap_sampler_thread_gone(sampler, thread) &&
	       !snap_sampler_copy_is_of_program(sampler, thread);
}

static struct stacksnap_error *take_other_program(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread)
{
	if (snap_sampler_thread_gone(sampler, thread) || retry_thread(sampler, thread))
		return NULL;
	return snap_sampler_miss(sampler, thread);
}

struct stacksnap_error *snap_sampler_stop_requested(struct snap_sampler *sampler)
{
	size_t count = sampler->request_count;
	bool failed = false, is_spoiled = false, is_other[SNAP_SINGLE_MOST] = { false };
	struct context_numbers numbers = { 0 };
	struct stacksnap_error *err;

	sampler->request_count = 0;
	err = count ? stop_threads(sampler, count) : NULL;
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		warn_cannot_stop(sampler, err);
		snap_error_destroy(err);
		err = NULL;
		failed = true;
	}
	for (size_t i = 0; i < count && !failed && !err; i++) {
		is_spoiled |= sampler->picks[i].stalled;
		is_other[i] = is_of_another_program(sampler, i);
	}
	if (!failed && !err)
		read_context(sampler, count, &numbers);
	for (size_t i = 0; !err && i < count; i++) {
		if (!failed && is_other[i])
			err = take_other_program(sampler, sampler->requests[i].thread);
		else if (!failed)
			err = take_pick(sampler, &sampler->requests[i], &sampler->picks[i],
					context_of(sampler, &numbers, i), is_spoiled);
		else if (!snap_sampler_thread_gone(sampler, sampler->requests[i].thread))
			err = take_timeout(sampler, sampler->requests[i].thread);
	}
	return err;
}
