/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How blocked threads are copied by the reader: located many at once, copied one by one, and once
 * more if they ran meanwhile. What a copy is good for is not known here (tick.c).
 */
#include "sample/internal.h"

#include "stop/plan/of_thread.h"
#include "stop/signal_stack.h"

#include <errno.h>
#include <time.h>

enum {
	TRIES = 3, /* for a thread that runs just when it is copied */
	TRIES_ONLY_TICK = 5,
	NAP_NS = 20000,
	PLAN_PART = 4, /* of a period, for the plan of one process; and twice that for all */
	FIRST_PLANS_NS = 250000000, /* the same in the first tick, which is long, or the only one */
	CONTEXT_PART = 8,           /* of a period, for what lies beside stacks, at … */
	CONTEXT_READ_NS = 3000,     /* … so much a piece of memory, or a link */
	UNKNOWN_STACK = 65536,      /* what is copied where no mapping is known */
	SCAN_BYTES = 1 << 16,       /* of a stack, for a signal frame */
};

/* The thread that is read, for the callbacks of a copy. */
struct question {
	struct snap_sampler *sampler;
	struct snap_sampler_thread *thread;
	struct snap_reader_target target;
	const struct snap_blocked_copy *blocked;
	bool limited; /* where no mapping is known, some of it must do */
	/* + 1: it was located with others, and that is not used up; and what was read with it. */
	unsigned listed, bytes;
	const struct snap_bpf_thread *registers; /* NULL: not known */
	bool context, has_context;               /* what explains its wait is wanted, and there */
};

/* In a tick: reads beside stacks that take a part of its period, about. */
static int64_t context_most(const struct snap_sampler *sampler)
{
	int64_t period = 1000000000 / (sampler->options->hz ? sampler->options->hz : 1);

	/* The first one is long. */
	return sampler->ticks == 1 ? INT64_MAX : period / CONTEXT_PART / CONTEXT_READ_NS;
}

void snap_sampler_begin_context(struct snap_sampler *sampler)
{
	snap_reader_set_context_most(sampler->reader, context_most(sampler));
}

/* How many of these there are in a tick is bounded otherwise. */
static bool is_new(const struct snap_sampler *sampler, const struct snap_sampler_thread *thread)
{
	return snap_sampler_thread_state(sampler, thread) == SNAP_SAMPLER_THREAD_NEW;
}

/*
 * Recordings alone: a single look has a way of its own (copy_wait_bytes.h). One process takes half of
 * what there may be, and perhaps what it takes for a list more.
 */
bool snap_sampler_wants_context(const struct snap_sampler *sampler,
				const struct snap_sampler_thread *thread)
{
	const struct snap_sampler_process *process = thread->process;

	if (sampler->options->explain == SNAP_EXPLAIN_NO || sampler->options->no_stop ||
	    sampler->options->never_stop || process->wait_bytes_stalled)
		return false;
	return is_new(sampler, thread) || process->context_tick != sampler->ticks ||
	       process->context_reads <= context_most(sampler) / 2;
}

bool snap_sampler_keep_context(struct snap_sampler *sampler, struct snap_sampler_process *process,
			       const struct snap_wait_context *context)
{
	struct snap_kept_context *kept = sampler->context;

	if (!context || context->is_left_out)
		return false;
	if (!kept)
		kept = sampler->context = calloc(1, sizeof(*kept));
	if (!kept)
		return false;
	snap_wait_context_keep(context, kept->room, &kept->context);
	kept->image.pieces = kept->context.pieces;
	kept->image.piece_count = kept->context.piece_count;
	if (process->context_tick != sampler->ticks)
		process->context_reads = 0;
	process->context_tick = sampler->ticks;
	process->context_reads += context->reads;
	return true;
}

void snap_sampler_show_context(const struct snap_sampler *sampler,
			       struct snap_sampler_thread *thread)
{
	const struct snap_kept_context *kept = sampler->context;

	thread->shown.words = kept->image.piece_count ? &kept->image : NULL;
	thread->shown.descriptors = kept->context.descriptors;
	thread->shown.descriptor_count = kept->context.descriptor_count;
}

static void keep_context(struct question *question, const struct snap_wait_context *context)
{
	if (!question->context)
		return;
	question->context = false;
	question->has_context =
		snap_sampler_keep_context(question->sampler, question->thread->process, context);
}

static int locate_alone(struct question *question, struct snap_syscall_line *ret)
{
	struct snap_reader *reader = question->sampler->reader;
	const struct snap_sampler_thread *thread = question->thread;
	const struct snap_reader_question asked = {
		.target = question->target,
		.start = thread->stack_start,
		.end = thread->stack_end,
		.context =
			question->context && snap_sampler_wants_context(question->sampler, thread),
		.always = is_new(question->sampler, thread),
	};

	return snap_reader_locate(reader, &asked, question->sampler->options->max_stack, ret);
}

static int locate_calls(void *context, struct snap_syscall_line *ret)
{
	struct question *question = context;
	struct snap_reader *reader = question->sampler->reader;
	unsigned listed = question->listed;
	int status = listed ? snap_reader_located(reader, listed - 1, ret) : -ENODATA;

	question->bytes = listed;
	question->listed = 0;
	question->registers = status == 0 ? snap_reader_registers_of(reader, listed - 1) : NULL;
	if (status != -ENODATA) {
		keep_context(question, snap_reader_context_of(reader, listed - 1));
		return status;
	}
	status = locate_alone(question, ret);
	if (status == -ETIMEDOUT && snap_reader_context_was_late(reader)) {
		question->thread->process->wait_bytes_stalled = true;
		status = locate_alone(question, ret);
	}
	keep_context(question, snap_reader_context(reader));
	question->registers = status == 0 ? snap_reader_registers(reader) : NULL;
	return status;
}

static const struct snap_bpf_thread *registers_located(void *context)
{
	const struct question *question = context;

	return question->registers;
}

static int check_switches(void *context, uint64_t switches)
{
	const struct question *question = context;

	return snap_reader_check_switches(question->sampler->reader, &question->target, switches);
}

static ssize_t read_confirmed_stack(void *context, uint64_t address, uint8_t *bytes, size_t size)
{
	const struct question *question = context;
	size_t got;

	if (question->bytes && snap_reader_has_read(question->sampler->reader, question->bytes - 1,
						    address, bytes, size, &got))
		return (ssize_t)got;
	return snap_reader_read(question->sampler->reader, &question->target, address, bytes, size);
}

/*
 * Whether there is time for the plan of a process. A process may have many threads whose memory
 * takes long: it goes without, so that others are sampled.
 */
static bool has_time_for_plan(const struct snap_sampler *sampler,
			      struct snap_sampler_process *process)
{
	const struct snap_options *options = sampler->options;
	int64_t period = 1000000000 / (options->hz ? options->hz : 1);
	int64_t share = sampler->ticks == 1 ? FIRST_PLANS_NS : period / PLAN_PART;

	if (process->plan_tick != sampler->ticks)
		process->plan_ns = 0;
	process->plan_tick = sampler->ticks;
	return process->plan_ns <= share && sampler->plan_ns <= 2 * share;
}

/* What the process's plan for single threads names; the rest of a copy is good without it. */
static int read_more(void *context, const struct snap_syscall_line *line, struct snap_thread *copy)
{
	const struct question *question = context;
	struct snap_sampler_thread *thread = question->thread;
	struct snap_sampler *sampler = question->sampler;
	const struct snap_plan_thread known = {
		.tid = (uint64_t)thread->shown.tid,
		.rip = line->pc,
		.rsp = line->sp,
		.fs_base = question->blocked->fs_base,
		.ns_tid = (uint64_t)thread->shown.ns_tid,
	};
	const struct snap_memory_image *image;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), took;
	int status;

	thread->lacks_plan = !has_time_for_plan(sampler, thread->process);
	if (thread->lacks_plan)
		return 0;
	status = snap_reader_execute(sampler->reader, &question->target, &known,
				     thread->process->shown.plan, &image);
	took = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	thread->process->plan_ns += took;
	sampler->plan_ns += took;
	if (status)
		return status == -ETIMEDOUT || status == -ESTALE ? status : 0;
	if (!sampler->image_room)
		sampler->image_room = malloc(SNAP_THREAD_PLAN_ROOM);
	if (!sampler->image_room)
		return 0;
	snap_thread_plan_keep(image, sampler->image_room, &sampler->image);
	copy->memory = &sampler->image;
	return 0;
}

static uint64_t stack_end(void *context, uint64_t sp)
{
	struct question *question = context;
	struct snap_sampler_thread *thread = question->thread;
	const struct snap_map *map = snap_process_map(&thread->process->facts, sp);
	uint64_t end;

	if (map && map->read) {
		snap_sampler_thread_take_stack(thread, map, question->blocked->fs_base);
		question->target.is_file = thread->stack_is_file;
		return thread->stack_end;
	}
	if (!question->limited || __builtin_add_overflow(sp, UNKNOWN_STACK, &end))
		return 0;
	return end & ~(uint64_t)4095;
}

bool snap_sampler_counts_runs(const struct snap_sampler *sampler)
{
	return sampler->guard_kind != SNAP_GUARD_NONE;
}

/* What it has run is counted as far as it is known. */
int snap_sampler_read_counters(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			       int fd, struct snap_run_counters *ret)
{
	int error = snap_guard_read(sampler->guard_kind, fd, ret);

	if (!error && sampler->guard_kind == SNAP_GUARD_SCHEDSTAT)
		thread->shown.runs = ret->runs;
	if (!error && ret->run_ns > thread->run_ns) {
		sampler->run_ns += ret->run_ns - thread->run_ns;
		thread->run_ns = thread->shown.run_ns = ret->run_ns;
	}
	return error;
}

static enum snap_copy_result copy_once(struct snap_sampler *sampler, struct question *question,
				       struct snap_blocked_copy *blocked, struct snap_thread *copy)
{
	struct snap_sampler_thread *thread = question->thread;
	enum snap_arch arch;
	int error = 0;

	question->listed = thread->listed;
	thread->listed = 0;
	question->context = snap_sampler_wants_context(sampler, thread);
	question->has_context = false;
	if (question->listed)
		blocked->counters = sampler->counters[question->listed - 1];
	else
		error = snap_sampler_read_counters(sampler, thread, blocked->guard_fd,
						   &blocked->counters);
	if (error)
		return snap_procfs_is_gone(error) ? SNAP_COPY_GONE : SNAP_COPY_UNUSABLE;
	return snap_copy_blocked(blocked, copy, &arch);
}

/* Whether another attempt may find it blocked. */
static bool is_worth_another(const struct snap_sampler *sampler,
			     const struct snap_sampler_thread *thread, enum snap_copy_result result)
{
	if (result == SNAP_COPY_MOVED)
		return true;
	if (!sampler->options->no_stop || result != SNAP_COPY_RUNNING || thread->letter == 'R')
		return false;
	/* It was asleep a moment ago, and may soon be again. */
	nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	return true;
}

/*
 * Waits are explained for a single look only; and a process that once kept us waiting is not asked.
 */
static void want_words(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
		       struct snap_blocked_copy *blocked)
{
	snap_sampler_drop_context(thread);
	sampler->context_hash = 0;
	if (!sampler->options->no_stop || sampler->options->explain == SNAP_EXPLAIN_NO ||
	    thread->process->wait_bytes_stalled)
		return;
	if (!sampler->words)
		sampler->words = calloc(1, sizeof(*sampler->words));
	blocked->words = sampler->words;
	if (blocked->words)
		blocked->words->stalled = false;
}

static void take_blocked_words(const struct question *question,
			       const struct snap_blocked_copy *blocked,
			       enum snap_copy_result result)
{
	struct snap_sampler_thread *thread = question->thread;

	if (blocked->words)
		thread->process->wait_bytes_stalled |= blocked->words->stalled;
	if (result != SNAP_COPY_DONE)
		return;
	if (blocked->words)
		thread->shown.words = &blocked->words->image;
	if (!question->has_context)
		return;
	snap_sampler_show_context(question->sampler, thread);
	question->sampler->context_hash =
		snap_wait_context_hash(&question->sampler->context->context);
}

void snap_sampler_drop_context(struct snap_sampler_thread *thread)
{
	thread->shown.words = NULL;
	thread->shown.descriptors = NULL;
	thread->shown.descriptor_count = 0;
}

/* Tries until it stands still for as long as the copy takes, and knows where its stack ends. */
struct stacksnap_error *snap_sampler_copy_blocked(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  struct snap_blocked_copy *blocked,
						  struct snap_thread *copy,
						  enum snap_copy_result *result_ret)
{
	unsigned tries = sampler->options->no_stop ? TRIES_ONLY_TICK : TRIES;
	struct question question = {
		.sampler = sampler,
		.thread = thread,
		.target = snap_sampler_reader_target(sampler, thread->process, thread),
		.blocked = blocked,
	};
	enum snap_copy_result result;
	bool changed;

	blocked->guard = sampler->guard_kind;
	blocked->source = (struct snap_blocked_source){
		.locate = locate_calls,
		.registers = registers_located,
		.check = check_switches,
		.read = read_confirmed_stack,
		.read_more = thread->process->shown.plan ? read_more : NULL,
		.context = &question,
	};
	blocked->stack_end = stack_end;
	blocked->fs_base = thread->fs_base;
	blocked->context = &question;
	blocked->bytes = sampler->stack;
	blocked->size = sampler->options->max_stack;
	copy->ns_tid = thread->shown.ns_tid;
	want_words(sampler, thread, blocked);
	do {
		result = copy_once(sampler, &question, blocked, copy);
		if (result != SNAP_COPY_UNMAPPED)
			continue;
		SNAP_TRY(snap_sampler_process_map(sampler, thread->process, &changed));
		if (snap_sampler_thread_gone(sampler, thread))
			break;
		question.limited = true;
		result = copy_once(sampler, &question, blocked, copy);
	} while (--tries && is_worth_another(sampler, thread, result));
	take_blocked_words(&question, blocked, result);
	if (result == SNAP_COPY_DONE)
		thread->fs_base = blocked->fs_base;
	*result_ret = result;
	return NULL;
}

/* ---- the stack that a signal handler interrupted ---- */

struct interrupted {
	const struct snap_process *process;
	const struct snap_map *own, *found;
};

static bool is_on_another_stack(void *context, uint64_t sp)
{
	struct interrupted *interrupted = context;
	const struct snap_process *process = interrupted->process;
	const struct snap_map *map = snap_maps_stack(process->maps, process->map_count, sp);

	if (!map || map == interrupted->own || !map->read || !map->write)
		return false;
	interrupted->found = map;
	return true;
}

const struct snap_map *snap_sampler_interrupted_stack(const struct snap_process *process,
						      const struct snap_thread *copy,
						      uint64_t *sp_ret)
{
	struct interrupted interrupted = {
		.process = process,
		.own = snap_process_map(process, copy->stack_address + SNAP_STACK_MARGIN),
	};
	size_t budget = SCAN_BYTES;

	*sp_ret = snap_tracer_interrupted_sp(copy, &budget, is_on_another_stack, &interrupted);
	return *sp_ret ? interrupted.found : NULL;
}

/* Copies that stack, too; the thread must still not have run. */
bool snap_sampler_add_interrupted_stack(struct snap_sampler *sampler,
					const struct snap_sampler_thread *thread,
					const struct snap_blocked_copy *blocked,
					struct snap_thread *copy)
{
	const struct snap_process *process = &thread->process->facts;
	const struct snap_reader_target target =
		snap_sampler_reader_target(sampler, thread->process, thread);
	struct snap_run_counters counters;
	const struct snap_map *map =
		snap_process_map(process, copy->stack_address + SNAP_STACK_MARGIN);
	uint64_t sp, start, size;
	ssize_t got;

	if (map && !copy->partial &&
	    snap_is_usual_stack(map, blocked->fs_base, copy->tid == process->pid))
		return false;
	map = snap_sampler_interrupted_stack(process, copy, &sp);
	if (!map)
		return false;
	if (!sampler->stack2)
		sampler->stack2 = malloc(sampler->stack_size);
	start = sp < map->start + SNAP_STACK_MARGIN ? map->start
						    : (sp - SNAP_STACK_MARGIN) & ~15ull;
	size = snap_process_stack_end(process, map, blocked->fs_base) - start;
	size = size < blocked->size ? size : blocked->size;
	if (!sampler->stack2)
		return false;
	got = snap_reader_read(sampler->reader, &target, start, sampler->stack2, size);
	if (got <= 0 || snap_guard_read(blocked->guard, blocked->guard_fd, &counters))
		return false;
	if (blocked->queued
		    ? snap_reader_check_switches(sampler->reader, &target, blocked->switches) != 0
		    : !snap_run_counters_equal(&counters, &blocked->counters))
		return false;
	copy->stack2_address = start;
	copy->stack2 = sampler->stack2;
	copy->stack2_size = (size_t)got;
	return true;
}

/* ---- many at once ---- */

/* Whether it will be copied as it is blocked, as far as is known; its counters as they are now. */
static bool prepare_question(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			     size_t index)
{
	const struct snap_observation seen = { .sight = SNAP_SIGHT_MOVED,
					       .is_worker = snap_sampler_thread_is_worker(thread) };
	const struct snap_tick_rules rules = snap_sampler_rules(sampler);
	int fd;

	thread->listed = 0;
	if (snap_sampler_thread_gone(sampler, thread) ||
	    snap_tick_decide(snap_sampler_thread_state(sampler, thread), &seen, &rules) !=
		    SNAP_TICK_COPY)
		return false;
	snap_sampler_process_check(sampler, thread);
	fd = sampler->guards[thread->guard].guard_fd;
	if (snap_sampler_thread_gone(sampler, thread) || fd < 0 ||
	    snap_sampler_read_counters(sampler, thread, fd, &sampler->counters[index]))
		return false;
	sampler->questions[index] = (struct snap_reader_question){
		.target = snap_sampler_reader_target(sampler, thread->process, thread),
		.start = thread->stack_start,
		.end = thread->stack_end,
		.context = snap_sampler_wants_context(sampler, thread),
		.always = is_new(sampler, thread),
	};
	return true;
}

struct stacksnap_error *snap_sampler_read_ahead(struct snap_sampler *sampler,
						struct snap_sampler_thread *const *threads,
						size_t count)
{
	struct snap_sampler_thread *asked[SNAP_READER_MOST];
	size_t listed = 0, late = SIZE_MAX;
	int status = -ENODATA;

	for (size_t i = 0; i < count; i++) {
		if (!prepare_question(sampler, threads[i], listed))
			continue;
		asked[listed] = threads[i];
		threads[i]->listed = (unsigned)++listed;
	}
	if (listed > 1)
		status = snap_reader_locate_all(sampler->reader, sampler->questions, listed, &late);
	for (size_t i = 0; i < listed && status; i++)
		asked[i]->listed = 0;
	if (late == SIZE_MAX)
		return NULL;
	/* Its stack can be had. */
	if (snap_reader_context_was_late(sampler->reader)) {
		asked[late]->process->wait_bytes_stalled = true;
		return NULL;
	}
	return snap_sampler_process_stalled(sampler, asked[late]->process, "reading its memory");
}
