/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A look at a thread that may have moved: what is seen of it, and what is decided (decide.c) done.
 * Where it was when it was last shown is remembered as hashes, so that one that ran and waits where
 * it waited before, with the same bytes on its stack, is not shown again.
 */
#include "base/clock.h"
#include "base/table.h"
#include "sample/internal.h"
#include "stop/describe.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
	READ_AGAIN_MS = 100, /* names of threads that run */
	SELDOM_MS = 200,
	RESTLESS_MS = 20,    /* how long a thread runs that was stopped as it was blocked */
	STILL_MS = 5000,     /* without counters: a blocked thread that shows no trace of a run */
	USUAL_STACK = 65536, /* more than that is not compared: unwinding it is cheaper */
};

/* ---- what the sink gets ---- */

void snap_sampler_thread_describe(const struct snap_sampler_thread *thread,
				  struct snap_thread *copy)
{
	copy->tid = thread->shown.tid;
	copy->ns_tid = thread->shown.ns_tid;
	copy->name = thread->shown.name;
	copy->state = thread->letter;
	copy->cpu = thread->cpu;
	copy->flags = thread->flags;
}

struct stacksnap_error *snap_sampler_show(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread,
					  const struct snap_thread *copy,
					  enum snap_verdict *verdict_ret, bool *stale_ret)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	enum snap_verdict verdict = SNAP_VERDICT_TAKEN;
	struct stacksnap_error *err = NULL;
	bool changed;

	*stale_ret = false;
	/* The copy was made by a number, which another process may have by now. */
	if (snap_sampler_process_has_ended(thread->process)) {
		thread->process->list_due = true;
		*verdict_ret = verdict;
		return NULL;
	}
	snap_trace_copy(sampler->options->trace, copy, thread->stack_end,
			sampler->options->max_stack);
	err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	if (!err && verdict == SNAP_VERDICT_STALE_MAPPINGS) {
		*stale_ret = sampler->now_ns < thread->process->map_after_ns;
		SNAP_TRY(snap_sampler_process_map(sampler, thread->process, &changed));
		verdict = SNAP_VERDICT_TAKEN;
		if (!snap_sampler_thread_gone(sampler, thread))
			err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	}
	if (verdict == SNAP_VERDICT_TAKEN)
		thread->process->shown_tick = sampler->ticks;
	*verdict_ret = verdict;
	return err;
}

uint64_t snap_sampler_hash(const struct snap_thread *copy, size_t size)
{
	uint64_t hash = snap_hash_bytes(copy->stack, size, size);

	for (size_t i = 0; copy->memory && i < copy->memory->piece_count; i++) {
		const struct snap_memory_piece *piece = &copy->memory->pieces[i];

		hash = snap_hash_add(hash, piece->address);
		hash = snap_hash_bytes(piece->bytes, piece->size, hash);
	}
	return hash;
}

/* The sink hears of a thread's state; there is no copy. */
static struct stacksnap_error *tell_result(struct snap_sampler *sampler,
					   struct snap_sampler_thread *thread,
					   enum snap_thread_result result)
{
	struct snap_thread copy = { .result = result };
	enum snap_verdict verdict;

	snap_sampler_thread_describe(thread, &copy);
	thread->registers_hash = thread->stack_hash = 0;
	return sampler->sink->sample(sampler->sink->context, &thread->shown, &copy, &verdict);
}

struct stacksnap_error *snap_sampler_miss(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread)
{
	sampler->tick.missed++;
	snap_trace(sampler->options->trace, thread->shown.tid, SNAP_TRACE_MISSED, NULL);
	thread->reported_letter = 0;
	snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_MOVING);
	return tell_result(sampler, thread, SNAP_THREAD_NOT_STOPPED);
}

/* Where no copy is wanted, or can be had: its state, if the sink has another one. */
static struct stacksnap_error *tell_state(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread, bool is_worker)
{
	char reported = thread->reported_letter;

	sampler->tick.kept++;
	snap_sampler_thread_set(sampler, thread,
				thread->letter == 'R' ? SNAP_SAMPLER_THREAD_MOVING
						      : SNAP_SAMPLER_THREAD_SETTLED);
	thread->reported_letter = thread->letter;
	if (reported == thread->letter)
		return NULL;
	return tell_result(sampler, thread,
			   is_worker ? SNAP_THREAD_UNTRACED : SNAP_THREAD_NOT_STOPPED);
}

/* It needs a stop, but would not stop, or must not just now: what is known of it must do. */
static struct stacksnap_error *show_as_is(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread,
					  struct snap_thread *copy, bool just_now)
{
	enum snap_verdict verdict;

	copy->result = SNAP_THREAD_NOT_STOPPED;
	sampler->tick.missed++;
	snap_sampler_thread_set(sampler, thread,
				just_now ? SNAP_SAMPLER_THREAD_MOVING
					 : SNAP_SAMPLER_THREAD_SETTLED);
	return sampler->sink->sample(sampler->sink->context, &thread->shown, copy, &verdict);
}

/* A blocked thread whose runs are not counted is taken to have stayed there. */
static void set_after_stop(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	bool settles = sampler->guard_kind == SNAP_GUARD_NONE && thread->letter != 'R';

	thread->moved_after_ns = thread->still_after_ns = 0;
	if (settles) {
		thread->moved_after_ns = sampler->now_ns + SELDOM_MS * SNAP_NS_PER_MS;
		thread->still_after_ns = sampler->now_ns + STILL_MS * SNAP_NS_PER_MS;
	}
	snap_sampler_thread_set(sampler, thread,
				settles ? SNAP_SAMPLER_THREAD_SETTLED : SNAP_SAMPLER_THREAD_MOVING);
}

static struct stacksnap_error *request_stop(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread,
					    const struct snap_thread *copy)
{
	struct snap_stop_request request = { .thread = thread };

	set_after_stop(sampler, thread);
	thread->reported_letter = 0;
	if (copy) {
		request.blocked = true;
		request.address = copy->stack_address;
		request.size = copy->stack_size;
	}
	return snap_sampler_request_stop(sampler, &request);
}

/* ---- a look ---- */

/* Descriptors or memory are short: its last stack stays, and that is not known to be right. */
static struct stacksnap_error *cannot_open(struct snap_sampler *sampler,
					   struct snap_sampler_thread *thread, int error)
{
	if (error == -EACCES || error == -EPERM)
		return snap_sampler_process_refused(sampler, thread->process, -error);
	if (snap_procfs_is_gone(error)) {
		thread->process->list_due = true;
		snap_sampler_thread_end(sampler, thread);
		return NULL;
	}
	sampler->tick.missed++;
	return NULL;
}

/* A blocked copy that may not suffice is shown; what else can be had without a stop is added. */
static struct stacksnap_error *show_blocked(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread,
					    const struct snap_blocked_copy *blocked,
					    struct snap_thread *copy,
					    enum snap_verdict *verdict_ret, bool *stale_ret)
{
	struct stacksnap_error *err;

	/* With all registers nothing else is asked for. */
	if (!copy->partial)
		snap_sampler_add_interrupted_stack(sampler, thread, blocked, copy);
	err = snap_sampler_show(sampler, thread, copy, verdict_ret, stale_ret);
	if (err || *verdict_ret != SNAP_VERDICT_NEEDS_REGISTERS || !sampler->options->no_stop ||
	    !snap_sampler_add_interrupted_stack(sampler, thread, blocked, copy))
		return err;
	if (snap_sampler_thread_gone(sampler, thread))
		return NULL;
	return snap_sampler_show(sampler, thread, copy, verdict_ret, stale_ret);
}

/* The stop itself makes a thread run, until it sleeps again. */
static bool is_too_soon(const struct snap_sampler *sampler,
			const struct snap_sampler_thread *thread)
{
	const int64_t ms = SNAP_NS_PER_MS;
	int64_t sooner = thread->letter == 'R' ? (SELDOM_MS - RESTLESS_MS) * ms : 0;

	return thread->moved_after_ns && sampler->now_ns < thread->moved_after_ns - sooner;
}

static enum snap_tick_action decide(const struct snap_sampler *sampler,
				    const struct snap_sampler_thread *thread,
				    struct snap_observation *seen)
{
	const struct snap_tick_rules rules = snap_sampler_rules(sampler);

	seen->letter = thread->letter;
	seen->does_not_stop = seen->is_spared || sampler->now_ns < thread->skip_until_ns ||
			      sampler->now_ns < thread->process->trace_after_ns;
	seen->too_soon = is_too_soon(sampler, thread);
	seen->time_is_up = rules.only_tick && snap_clock_ns(CLOCK_MONOTONIC) >= sampler->until_ns;
	return snap_tick_decide(snap_sampler_thread_state(sampler, thread), seen, &rules);
}

/*
 * The same, once more if a stop is decided on and its process has been stopped for too long
 * already.
 */
static enum snap_tick_action decide_within_budget(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  struct snap_observation *seen)
{
	enum snap_tick_action action = decide(sampler, thread, seen);

	thread->shown.left_out = false;
	if (action != SNAP_TICK_STOP || snap_budget_ask(&thread->process->budget, &sampler->budget,
							snap_clock_ns(CLOCK_MONOTONIC)))
		return action;
	seen->over_budget = true;
	action = decide(sampler, thread, seen);
	if (action == SNAP_TICK_LEAVE_OUT || action == SNAP_TICK_SHOW_AS_IS) {
		sampler->tick.left_out++;
		sampler->left_out = true;
		thread->shown.left_out = true;
		snap_trace(sampler->options->trace, thread->shown.tid, SNAP_TRACE_LEFT_OUT, NULL);
	}
	return action;
}

/* The sink has what is right of it, or what has to do, and need only know that it ran. */
static void tell_stayed(const struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	const struct snap_sampler_sink *sink = sampler->sink;

	if (sink->stayed && thread->shown.ran_ns == sampler->now_ns)
		sink->stayed(sink->context, &thread->shown);
}

/* Does what is decided; `copy`: one of it as it is blocked, NULL: there is none. */
static struct stacksnap_error *act_on_thread(struct snap_sampler *sampler,
					     struct snap_sampler_thread *thread,
					     struct snap_observation *seen,
					     struct snap_thread *copy)
{
	thread->shown.spared = seen->is_spared;
	switch (decide_within_budget(sampler, thread, seen)) {
	case SNAP_TICK_KEEP:
		sampler->tick.kept++;
		snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_SETTLED);
		tell_stayed(sampler, thread);
		return NULL;
	case SNAP_TICK_TELL:
		return tell_state(sampler, thread, seen->is_worker);
	case SNAP_TICK_SHOW_AS_IS:
		return show_as_is(sampler, thread, copy, seen->over_budget);
	case SNAP_TICK_STOP:
		snap_trace(sampler->options->trace, thread->shown.tid,
			   seen->sight == SNAP_SIGHT_RUNNING ? SNAP_TRACE_RAN
							     : SNAP_TRACE_NOT_ENOUGH,
			   NULL);
		return request_stop(sampler, thread, copy);
	case SNAP_TICK_RETRY:
		snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_RETRY);
		return NULL;
	case SNAP_TICK_MISS:
		thread->shown.untried = seen->time_is_up;
		return snap_sampler_miss(sampler, thread);
	case SNAP_TICK_LEAVE_OUT:
		return snap_sampler_miss(sampler, thread);
	case SNAP_TICK_SKIP:
		sampler->tick.missed++;
		tell_stayed(sampler, thread);
		return NULL;
	case SNAP_TICK_END:
		return cannot_open(sampler, thread, -ESRCH);
	case SNAP_TICK_COPY:
	case SNAP_TICK_SHOW:
		break;
	}
	return NULL;
}

/* What was not read this time is taken to be unchanged. */
static bool is_same_context(const struct snap_sampler_thread *thread, uint64_t hash)
{
	return hash == 0 || hash == thread->context_hash;
}

static struct stacksnap_error *look_at_running(struct snap_sampler *sampler,
					       struct snap_sampler_thread *thread,
					       struct snap_observation *seen)
{
	struct stacksnap_error *err = NULL;
	bool shown;

	seen->sight = SNAP_SIGHT_RUNNING;
	if (decide(sampler, thread, seen) != SNAP_TICK_RETRY) {
		if (sampler->now_ns - thread->read_ns > READ_AGAIN_MS * SNAP_NS_PER_MS)
			err = snap_sampler_thread_read(sampler, thread);
		if (err || snap_sampler_thread_gone(sampler, thread))
			return err;
		snap_sampler_thread_set_letter(sampler, thread, 'R');
		sampler->tick.running++;
		err = snap_sampler_show_running(sampler, thread, &shown);
		if (err || shown || snap_sampler_thread_gone(sampler, thread))
			return err;
	}
	return act_on_thread(sampler, thread, seen, NULL);
}

/* It was blocked, and its copy is believed. */
static struct stacksnap_error *look_at_copy(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread,
					    struct snap_observation *seen,
					    const struct snap_blocked_copy *blocked,
					    struct snap_thread *copy)
{
	uint64_t registers_hash =
		snap_hash_bytes(copy->registers, copy->registers_size, copy->stack_address);
	bool has_same_registers = thread->registers_hash == registers_hash, stale;
	/* In an only tick there is nothing to compare it with. */
	bool is_usual = (copy->stack_size <= USUAL_STACK || thread->needs_stop) &&
			!sampler->options->no_stop && !sampler->options->cpu_only &&
			!blocked->queued;
	uint64_t stack_hash = is_usual ? snap_sampler_hash(copy, copy->stack_size) : 0;
	uint64_t context_hash = sampler->context_hash;
	char before = thread->letter;
	enum snap_verdict verdict;
	struct stacksnap_error *err = NULL;

	/* In an only tick it has just been read, when it was born. */
	if (!sampler->options->no_stop || before == 'R')
		err = snap_sampler_thread_read(sampler, thread);
	else if (!snap_sampler_copy_is_of_program(sampler, thread) &&
		 !snap_sampler_thread_gone(sampler, thread))
		return look_at_running(sampler, thread, seen);
	if (err || snap_sampler_thread_gone(sampler, thread))
		return err;
	/* Woken since: then it was not in R. */
	if (blocked->queued || thread->letter == 'R')
		snap_sampler_thread_set_letter(sampler, thread, blocked->queued ? 'R' : 'S');
	sampler->tick.running += blocked->queued;
	snap_sampler_thread_describe(thread, copy);
	seen->is_spared = copy->partial && copy->call.known &&
			  snap_stop_is_harmful(sampler->options, thread->process->shown.tasks_fd,
					       thread->shown.tid, copy->call.number, true);
	seen->sight = blocked->queued ? SNAP_SIGHT_QUEUED : SNAP_SIGHT_BLOCKED;
	if (stack_hash && thread->stack_hash == stack_hash && has_same_registers &&
	    is_same_context(thread, context_hash) && before == thread->letter)
		seen->sight = SNAP_SIGHT_SAME;
	else if (thread->needs_stop && has_same_registers && copy->partial)
		seen->sight = SNAP_SIGHT_NEEDS_REGISTERS;
	if (decide(sampler, thread, seen) == SNAP_TICK_SHOW) {
		err = show_blocked(sampler, thread, blocked, copy, &verdict, &stale);
		/* Its process may be let be, or another one, by now. */
		if (err || snap_sampler_thread_gone(sampler, thread))
			return err;
		thread->needs_stop = verdict == SNAP_VERDICT_NEEDS_REGISTERS;
		/* The next tick has time for what is missing. */
		stale |= thread->process->shown.plan && thread->lacks_plan;
		/* It may run at any moment. */
		stale |= blocked->queued;
		if (!thread->needs_stop) {
			thread->registers_hash = registers_hash;
			thread->stack_hash = stale ? 0 : stack_hash;
			thread->context_hash = context_hash;
			thread->reported_letter = 0;
			snap_sampler_thread_set(sampler, thread,
						stale ? SNAP_SAMPLER_THREAD_MOVING
						      : SNAP_SAMPLER_THREAD_SETTLED);
			sampler->tick.unstopped++;
			return NULL;
		}
		seen->sight = SNAP_SIGHT_NEEDS_REGISTERS;
	}
	if (seen->sight == SNAP_SIGHT_NEEDS_REGISTERS) {
		thread->registers_hash = registers_hash;
		thread->stack_hash = stack_hash;
		thread->context_hash = context_hash;
	}
	return act_on_thread(sampler, thread, seen, copy);
}

/* Its stack cannot be read, now or ever. */
static struct stacksnap_error *look_at_unreadable(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  struct snap_observation *seen)
{
	enum snap_tick_action action;

	seen->sight = SNAP_SIGHT_UNREADABLE;
	seen->seen_lately = sampler->now_ns < thread->seldom_after_ns;
	action = decide(sampler, thread, seen);
	if (action != SNAP_TICK_SKIP && action != SNAP_TICK_RETRY) {
		struct stacksnap_error *err = snap_sampler_thread_read(sampler, thread);

		if (err || snap_sampler_thread_gone(sampler, thread))
			return err;
		sampler->tick.running += thread->letter == 'R';
		thread->seldom_after_ns = sampler->now_ns + SELDOM_MS * SNAP_NS_PER_MS;
	}
	return act_on_thread(sampler, thread, seen, NULL);
}

/* The file of a thread that a look needs; one that is not kept is closed after it. */
struct files {
	int guard_fd, loose_guard_fd;
};

static void files_close(struct files *files)
{
	snap_close(&files->loose_guard_fd);
}

static int open_files(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
		      struct files *files)
{
	struct snap_sampler_guard *guard = &sampler->guards[thread->guard];

	files->guard_fd = snap_sampler_thread_open(
		sampler, thread, snap_guard_file(sampler->guard_kind), &guard->guard_fd);
	if (files->guard_fd < 0)
		return files->guard_fd;
	if (guard->guard_fd < 0)
		files->loose_guard_fd = files->guard_fd;
	return 0;
}

static struct stacksnap_error *look_at_blocked(struct snap_sampler *sampler,
					       struct snap_sampler_thread *thread,
					       struct snap_observation *seen)
{
	enum snap_copy_result result = SNAP_COPY_UNUSABLE;
	struct snap_blocked_copy blocked = { 0 };
	struct snap_thread copy = { 0 };
	_cleanup_(files_close) struct files files = { -1, -1 };
	int error = open_files(sampler, thread, &files);
	struct stacksnap_error *err;

	if (error)
		return cannot_open(sampler, thread, error);
	blocked.guard_fd = files.guard_fd;
	err = snap_sampler_copy_blocked(sampler, thread, &blocked, &copy, &result);
	/* Its process may be let be by now. */
	if (err || snap_sampler_thread_gone(sampler, thread))
		return err;
	if (result >= SNAP_COPY_MOVED)
		snap_trace(sampler->options->trace, thread->shown.tid,
			   result == SNAP_COPY_MOVED ? SNAP_TRACE_MOVED : SNAP_TRACE_UNREADABLE,
			   NULL);
	switch (result) {
	case SNAP_COPY_DONE:
		err = look_at_copy(sampler, thread, seen, &blocked, &copy);
		snap_sampler_drop_context(thread);
		return err;
	case SNAP_COPY_RUNNING:
	case SNAP_COPY_MOVED:
		return look_at_running(sampler, thread, seen);
	case SNAP_COPY_UNMAPPED:
	case SNAP_COPY_UNUSABLE:
		return look_at_unreadable(sampler, thread, seen);
	case SNAP_COPY_REFUSED:
		return snap_sampler_process_refused(sampler, thread->process, EACCES);
	case SNAP_COPY_STALLED:
		return snap_sampler_process_stalled(sampler, thread->process, "reading its memory");
	case SNAP_COPY_STALE:
		snap_sampler_process_lose(sampler, thread->process);
		return NULL;
	case SNAP_COPY_GONE:
		break;
	}
	return cannot_open(sampler, thread, -ESRCH);
}

/* What it has run is counted where no copy is wanted, too. */
static void count_run_time(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	int *kept = &sampler->guards[thread->guard].guard_fd;
	int fd = snap_sampler_thread_open(sampler, thread, snap_guard_file(sampler->guard_kind),
					  kept);
	struct snap_run_counters counters;

	if (fd >= 0)
		snap_sampler_read_counters(sampler, thread, fd, &counters);
	if (fd != *kept)
		snap_close(&fd);
}

struct stacksnap_error *snap_sampler_tick_thread(struct snap_sampler *sampler,
						 struct snap_sampler_thread *thread)
{
	struct snap_observation seen = { .sight = SNAP_SIGHT_MOVED,
					 .is_worker = snap_sampler_thread_is_worker(thread) };
	struct stacksnap_error *err;

	snap_sampler_process_check(sampler, thread);
	if (snap_sampler_thread_gone(sampler, thread))
		return NULL;
	if (decide(sampler, thread, &seen) == SNAP_TICK_COPY)
		return look_at_blocked(sampler, thread, &seen);
	if (sampler->options->cpu_only && !seen.is_worker)
		count_run_time(sampler, thread);
	/* Nothing else says what it does. */
	err = snap_sampler_thread_read(sampler, thread);
	if (err || snap_sampler_thread_gone(sampler, thread))
		return err;
	if (decide(sampler, thread, &seen) == SNAP_TICK_COPY)
		return look_at_blocked(sampler, thread, &seen);
	sampler->tick.running += thread->letter == 'R';
	return act_on_thread(sampler, thread, &seen, NULL);
}
