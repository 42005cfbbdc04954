/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A whole process at one instant, between two ticks, and the memory of its runtimes by a plan, as for a
 * snapshot (stop/tracer.h). A stop counts in the share of the time that the process may stand. Knows
 * nothing of tasks.
 */
#include "base/shared_memory.h"
#include "sample/internal.h"
#include "stop/describe.h"
#include "stop/plan/execute.h"
#include "stop/tracer.h"

#include <string.h>

enum {
	STACK_BYTES = 4096, /* of a thread: the readers of the memory need no stacks */
	SPARE = 16,         /* processes that it forks meanwhile */
};

static const int64_t LONGEST_STOP_NS = 100000000, LONGEST_LOOK_NS = 1000000000;

/* What the tracer asks about while the process still runs. */
struct looking {
	struct snap_shared_memory *memory;
	const struct snap_memory_plan *plan;
};

static struct stacksnap_error *set_plan(void *context, struct snap_stop *stop)
{
	const struct looking *looking = context;
	struct snap_memory_plan *kept = snap_region_alloc(&looking->memory->records, sizeof(*kept));

	if (kept)
		*kept = *looking->plan;
	stop->processes[0].plan = kept;
	return NULL;
}

/* Its children are looked at by themselves. */
static struct stacksnap_error *look_for_no_more(void *context _unused_,
						struct snap_stop *stop _unused_, bool *grown_ret)
{
	*grown_ret = false;
	return NULL;
}

void snap_whole_release(struct snap_whole *whole)
{
	int fd = whole->memory ? whole->memory->fd : -1;

	snap_shared_memory_destroy(whole->memory);
	snap_close(&fd);
	*whole = (struct snap_whole){ .stopped_ns = 0 };
}

/* As in stop.c: it stood from the first INTERRUPT to the last DETACH. */
static void account(struct snap_sampler *sampler, struct snap_sampler_process *process,
		    int64_t stopped_ns)
{
	/* Single stops are not expected to take as long. */
	snap_budget_spend(&process->budget, 0, stopped_ns);
	sampler->stood_ns = SNAP_MAX(sampler->stood_ns, process->budget.stood_ns);
}

static int open_bpf_once(struct snap_sampler *sampler, const struct snap_options *options)
{
	if (!sampler->bpf_tried)
		sampler->bpf_fd = snap_tracer_open_bpf(options, NULL);
	sampler->bpf_tried = true;
	return sampler->bpf_fd;
}

static struct stacksnap_error *stop_process(struct snap_sampler *sampler,
					    const struct snap_sampler_process *process,
					    const struct snap_memory_plan *plan,
					    struct snap_shared_memory *memory,
					    struct snap_stop **ret)
{
	struct snap_options options = *sampler->options;
	struct looking looking = { memory, plan };
	const struct snap_stop_again again = { .look = look_for_no_more,
					       .probe = set_plan,
					       .context = &looking };
	const struct snap_traced traced = {
		.pid = process->facts.pid,
		.proc_fd = process->live.proc_fd,
		.start_ticks = process->facts.start_ticks,
		.program = process->program,
		.foreign_namespace =
			process->facts.ns_pid != 0 && process->facts.ns_pid != process->facts.pid,
	};

	options.max_stack = STACK_BYTES;
	options.kernel_stacks = options.wchan = false;
	options.engine = SNAP_ENGINE_AUTO;
	/* Nor what threads wait for. */
	options.explain = SNAP_EXPLAIN_NO;
	/* Beside the time that its memory may take. */
	options.stop_timeout_ns =
		SNAP_MIN(options.stop_timeout_ns, LONGEST_STOP_NS + options.runtime_budget_ns);
	options.timeout_ns = LONGEST_LOOK_NS;
	*ret = snap_stop_new(memory, SPARE);
	if (*ret)
		(*ret)->help.state = SNAP_HELP_CLOSED;
	SNAP_TRY(snap_no_memory_unless(*ret && snap_stop_add(*ret, &traced)));
	(*ret)->bpf_fd = open_bpf_once(sampler, &options);
	return snap_tracer_run(&options, NULL, &again, memory, *ret, &sampler->tracer_fd);
}

static void take_whole(const struct snap_sampler_process *process, const struct snap_stop *stop,
		       struct snap_whole *whole)
{
	const struct snap_traced *traced = &stop->processes[0];
	const uint8_t *begin = (const uint8_t *)whole->memory;

	if (traced->stop_begin_ns && traced->stop_end_ns > traced->stop_begin_ns)
		whole->stopped_ns = traced->stop_end_ns - traced->stop_begin_ns;
	if (traced->execed || traced->vanished || traced->error || !traced->memory ||
	    !stop->settled)
		return;
	snap_plan_finish(traced->memory, begin, begin + whole->memory->size);
	whole->process = process->facts;
	whole->process.threads = traced->threads;
	whole->process.thread_count = traced->thread_count;
	whole->process.memory = traced->memory;
	whole->is_taken = true;
}

/*
 * An exec in the stop was noted, one before it was not: the plan and the mappings are of the
 * program that is known. The next tick finds out, too.
 */
static bool is_known_program(const struct snap_sampler *sampler,
			     struct snap_sampler_process *process)
{
	const struct snap_reader_target target = snap_sampler_reader_target(sampler, process, NULL);
	struct snap_stat stat;

	return snap_sampler_read_stat(sampler, process, target.tid, &stat) == 0 &&
	       stat.program == process->program;
}

struct stacksnap_error *snap_sampler_take_whole(struct snap_sampler *sampler,
						struct snap_sampled_process *shown,
						const struct snap_memory_plan *plan,
						int64_t expected_ns, struct snap_whole *ret)
{
	struct snap_sampler_process *process = (struct snap_sampler_process *)(void *)shown;
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_stop *stop = NULL;
	struct stacksnap_error *err;

	*ret = (struct snap_whole){ .stopped_ns = 0 };
	if (process->state != SNAP_SAMPLER_PROCESS_SAMPLED || now < process->trace_after_ns)
		return NULL;
	/* What takes longer than can be saved up must be possible some time, too. */
	if (expected_ns > snap_budget_most(&sampler->budget) / 2)
		expected_ns = snap_budget_most(&sampler->budget) / 2;
	if (snap_budget_room(&process->budget, &sampler->budget, now) < expected_ns) {
		ret->is_left_out = true;
		return NULL;
	}
	err = snap_shared_memory_create(sampler->options->max_snapshot +
						snap_stop_extra_bytes(sampler->options),
					&ret->memory);
	err = err ?: stop_process(sampler, process, plan, ret->memory, &stop);
	/* Without a tracer there are no looks; the sampler says why. */
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		return NULL;
	}
	if (err)
		return err;
	take_whole(process, stop, ret);
	ret->is_taken &= is_known_program(sampler, process);
	account(sampler, process, ret->stopped_ns);
	return NULL;
}

int64_t snap_sampler_stood_ns(const struct snap_sampler *sampler)
{
	return sampler->stood_ns;
}
