/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sink of a sampler that never stops: see sweep.h. */
#include "watch/sweep.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "model/wait/call.h"

#include <string.h>

enum {
	STACK_BYTES = 4096, /* of each, to tell whether it is the same */
	IDLE_PERCENT = 2,   /* below that a wait with a timeout is still the same wait */
};

/* ---- processes ---- */

static void set_name(struct snap_sweep_process *process, const struct snap_process *facts)
{
	process->pid = facts->pid;
	process->start_ticks = facts->start_ticks;
	snprintf(process->name, sizeof(process->name), "%s", facts->name ? facts->name : "");
}

static struct snap_sweep_process *add_watched_process(struct snap_sweep *sweep)
{
	struct snap_sweep_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->next = sweep->processes;
	if (process->next)
		process->next->previous = process;
	sweep->processes = process;
	return process;
}

static void remove_process(struct snap_sweep *sweep, struct snap_sweep_process *process)
{
	if (process->next)
		process->next->previous = process->previous;
	if (process->previous)
		process->previous->next = process->next;
	else
		sweep->processes = process->next;
	free(process);
}

static struct stacksnap_error *on_watched_program(void *context,
						  struct snap_sampled_process *process, bool exec)
{
	(void)exec;
	if (!process->user)
		process->user = add_watched_process(context);
	SNAP_TRY(snap_no_memory_unless(process->user));
	set_name(process->user, process->facts);
	return NULL;
}

static struct stacksnap_error *on_watched_mapped(void *context,
						 struct snap_sampled_process *process)
{
	(void)context;
	if (process->user)
		set_name(process->user, process->facts);
	return NULL;
}

static void on_watched_ended(void *context, struct snap_sampled_process *process)
{
	if (process->user)
		remove_process(context, process->user);
	process->user = NULL;
}

/* ---- threads ---- */

static struct stacksnap_error *on_watched_born(void *context, struct snap_sampled_thread *thread)
{
	struct snap_sweep *sweep = context;
	size_t at = sweep->thread_count;

	if (sweep->free_count) {
		at = sweep->free[--sweep->free_count];
	} else {
		/* All of them may be free one day. */
		if (!snap_reserve_array(sweep->threads, sweep->thread_capacity, at + 1) ||
		    !snap_reserve_array(sweep->free, sweep->free_capacity, at + 1))
			return snap_error_no_memory();
		sweep->thread_count++;
	}
	thread->user = (uint32_t)at;
	sweep->threads[at] = (struct snap_sweep_thread){
		.shown = thread,
		.process = thread->process->user,
		.changed_ns = snap_clock_ns(CLOCK_MONOTONIC),
	};
	return NULL;
}

static struct stacksnap_error *on_watched_renamed(void *context, struct snap_sampled_thread *thread)
{
	(void)context;
	(void)thread;
	return NULL;
}

static struct stacksnap_error *on_watched_died(void *context, struct snap_sampled_thread *thread)
{
	struct snap_sweep *sweep = context;

	sweep->threads[thread->user] = (struct snap_sweep_thread){ .shown = NULL };
	sweep->free[sweep->free_count++] = thread->user;
	return NULL;
}

static struct stacksnap_error *on_watched_sample(void *context, struct snap_sampled_thread *thread,
						 const struct snap_thread *copy,
						 enum snap_verdict *verdict_ret)
{
	struct snap_sweep *sweep = context;
	struct snap_sweep_thread *known = &sweep->threads[thread->user];
	enum snap_arch arch = thread->process->facts->arch;
	struct snap_thread_call call = { .known = false };
	struct snap_sweep_place place;

	*verdict_ret = SNAP_VERDICT_TAKEN;
	if (copy->result == SNAP_THREAD_COPIED)
		call = snap_wait_call_of(arch, copy);
	known->changed_ns = snap_clock_ns(CLOCK_MONOTONIC);
	place = (struct snap_sweep_place){ .number = call.number,
					   .pc = call.pc,
					   .object = call.arguments[0] };
	if (call.known && known->is_blocked && memcmp(&place, &known->place, sizeof(place)) == 0)
		return NULL;
	known->is_blocked = call.known;
	known->place = call.known ? place : (struct snap_sweep_place){ .number = 0 };
	known->blocked_ns = known->changed_ns;
	return NULL;
}

/* ---- looks ---- */

struct stacksnap_error *snap_sweep_init(struct snap_sweep *sweep,
					const struct snap_options *options, unsigned busy_percent)
{
	*sweep = (struct snap_sweep){ .options = *options, .busy_percent = busy_percent };
	sweep->options.never_stop = true;
	sweep->options.no_stop = false;
	sweep->options.cpu_only = false;
	sweep->options.runtimes = 0;
	sweep->options.hz = 1;
	sweep->options.max_stack = STACK_BYTES;
	sweep->sink = (struct snap_sampler_sink){
		.context = sweep,
		.program = on_watched_program,
		.mapped = on_watched_mapped,
		.ended = on_watched_ended,
		.born = on_watched_born,
		.renamed = on_watched_renamed,
		.died = on_watched_died,
		.sample = on_watched_sample,
	};
	return snap_sampler_create(&sweep->options, &sweep->sink, &sweep->sampler);
}

void snap_sweep_deinit(struct snap_sweep *sweep)
{
	snap_sampler_destroy(sweep->sampler);
	while (sweep->processes)
		remove_process(sweep, sweep->processes);
	free(sweep->threads);
	free(sweep->free);
}

static void measure_threads(struct snap_sweep *sweep)
{
	int64_t passed = sweep->last_ns ? sweep->now_ns - sweep->last_ns : 0;

	for (size_t i = 0; i < sweep->thread_count; i++) {
		struct snap_sweep_thread *thread = &sweep->threads[i];
		uint64_t used;

		if (!thread->shown)
			continue;
		used = thread->shown->run_ns - thread->run_ns;
		/* The first number is of its whole life. */
		thread->percent = thread->run_ns && passed > 0
					  ? (unsigned)(used * 100 / (uint64_t)passed)
					  : 0;
		thread->run_ns = thread->shown->run_ns;
		if (thread->percent < sweep->busy_percent)
			thread->busy_ns = 0;
		else if (!thread->busy_ns)
			thread->busy_ns = sweep->last_ns;
	}
}

struct stacksnap_error *snap_sweep_run(struct snap_sweep *sweep)
{
	struct snap_sampler_tick tick;

	SNAP_TRY(snap_sampler_tick(sweep->sampler, &tick));
	sweep->last_ns = sweep->now_ns;
	sweep->now_ns = tick.begin_ns;
	sweep->no_targets = tick.no_targets;
	sweep->refused = tick.refused;
	measure_threads(sweep);
	return NULL;
}

bool snap_sweep_is_still(const struct snap_sweep_thread *thread, int64_t since_ns, int64_t left_ns,
			 bool looks_again)
{
	if (!thread->shown)
		return false;
	if (thread->shown->ran_ns <= since_ns)
		return true;
	if (!thread->is_blocked || thread->blocked_ns > since_ns)
		return false;
	return thread->shown->ran_ns <= left_ns || (looks_again && thread->percent < IDLE_PERCENT);
}
