/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sink that keeps the copies: see nostop_sink.h. It fills in what a stop would have (struct
 * snap_stop, one entry for each process of the capture, in the same order), so both become a
 * capture in the same way (collect.c). Copies go to the shared mapping, which is handed over to
 * the parser as it is; mappings and texts go to the capture's arena.
 */
#include "capture/nostop_sink.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "stop/plan/of_thread.h"

#include <errno.h>
#include <string.h>

enum {
	MOST_PARTS = 8,  /* one stack gets an eighth of the memory that is left at most … */
	KEPT = 64 << 10, /* … once so much is kept for each thread that comes behind it, … */
	WAIT_PARTS = 16, /* … and such a part of all memory for what explains waits */
	FOLLOW_NS = 100000000, /* for the other stacks of a thread */
	MOST_STALE = 64, /* how often mappings are read again for the sake of a thread's code */
};

/* ---- processes ---- */

struct snap_traced *snap_nostop_traced(const struct snap_nostop *nostop,
				       const struct snap_sampled_process *process)
{
	return process->user ? &nostop->stop->processes[(uintptr_t)process->user - 1] : NULL;
}

bool snap_nostop_add_traced(struct snap_nostop *nostop, size_t index)
{
	const struct snap_process *process = &nostop->capture->processes[index];
	const struct snap_traced traced = {
		.pid = process->pid,
		.proc_fd = -1,
		.start_ticks = process->start_ticks,
		.index = index,
		.look_only = process->trouble != SNAP_TROUBLE_NONE,
		.foreign_namespace = process->ns_pid != 0 && process->ns_pid != process->pid,
	};

	if (!snap_reserve_array_zeroed(nostop->sampled, nostop->sampled_capacity, index + 1) ||
	    !snap_reserve_array_zeroed(nostop->taken, nostop->taken_capacity, index + 1) ||
	    !snap_reserve_array_zeroed(nostop->heard, nostop->heard_capacity, index + 1) ||
	    !snap_reserve_array_zeroed(nostop->silent, nostop->silent_capacity, index + 1) ||
	    !snap_reserve_array_zeroed(nostop->words, nostop->words_capacity, index + 1))
		return false;
	return snap_stop_add(nostop->stop, &traced);
}

/* Name, arguments and so on of a program that discovery did not see at first. */
static struct stacksnap_error *take_facts(struct snap_nostop *nostop,
					  const struct snap_sampled_process *process, size_t index)
{
	struct snap_process *mine = &nostop->capture->processes[index];
	const struct snap_sampled_process *parent = process->parent;
	size_t parent_index = parent && parent->user ? (uintptr_t)parent->user - 1 : SIZE_MAX;
	struct stacksnap_error *err =
		snap_facts_copy(&nostop->capture->arena, process->facts, mine);

	mine->parent = parent_index;
	return err;
}

static struct stacksnap_error *take_maps(struct snap_nostop *nostop,
					 const struct snap_sampled_process *process, size_t index)
{
	struct snap_process *mine = &nostop->capture->processes[index];
	struct snap_traced *traced = &nostop->stop->processes[index];
	const struct snap_process *facts = process->facts;
	const struct snap_space_reader reader = { .records = &nostop->shared->records,
						  .maps = nostop->maps,
						  .taken = &nostop->shared->spaces,
						  .pool = nostop->pool };
	const struct snap_space from = { .maps = facts->maps,
					 .map_count = facts->map_count,
					 .pieces = facts->pieces,
					 .piece_count = facts->piece_count,
					 .cut = facts->maps_cut };
	struct snap_space space = { .maps = NULL };

	/* Its pieces come with new mappings alone. */
	if (nostop->taken[index] == facts->maps && !facts->piece_count)
		return NULL;
	if (facts->map_count && snap_space_keep(&reader, &from, &space) < 0)
		space = (struct snap_space){ .cut = true };
	nostop->taken[index] = facts->maps;
	mine->credentials = traced->credentials = facts->credentials;
	mine->maps = traced->maps = space.maps;
	mine->map_count = traced->map_count = space.map_count;
	mine->maps_cut = traced->maps_cut = space.cut;
	mine->pieces = traced->pieces = space.pieces;
	mine->piece_count = traced->piece_count = space.piece_count;
	return NULL;
}

/* What keeps it from being read; none: another tracer had it, and has it no more. */
static struct stacksnap_error *take_trouble(struct snap_nostop *nostop,
					    const struct snap_process *facts, size_t index)
{
	struct snap_process *mine = &nostop->capture->processes[index];

	if (mine->trouble == facts->trouble)
		return NULL;
	mine->trouble = facts->trouble;
	mine->trouble_message = NULL;
	if (!facts->trouble_message)
		return NULL;
	mine->trouble_message = snap_arena_strdup(&nostop->capture->arena, facts->trouble_message);
	return mine->trouble_message ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *on_nostop_mapped(void *context, struct snap_sampled_process *process)
{
	struct snap_nostop *nostop = context;
	size_t index;

	if (!process->user)
		return NULL;
	index = (uintptr_t)process->user - 1;
	SNAP_TRY(take_trouble(nostop, process->facts, index));
	SNAP_TRY(take_maps(nostop, process, index));
	return snap_thread_plans_ask(&nostop->plans, nostop->capture, index, process);
}

static struct stacksnap_error *on_nostop_program(void *context,
						 struct snap_sampled_process *process, bool exec)
{
	struct snap_nostop *nostop = context;
	struct snap_capture *capture = nostop->capture;
	size_t index = process->user ? (uintptr_t)process->user - 1 : process->index;
	struct stacksnap_error *err = NULL;

	if (index == SIZE_MAX) {
		index = capture->process_count;
		SNAP_TRY(snap_no_memory_unless(snap_capture_append(capture)));
		err = take_facts(nostop, process, index);
		if (!err && !snap_nostop_add_traced(nostop, index))
			capture->process_count--; /* there are too many */
	} else if (exec) {
		err = take_facts(nostop, process, index);
		nostop->stop->processes[index].thread_count = 0;
		nostop->stop->processes[index].words = NULL;
		nostop->words[index] = (struct snap_nostop_wait_bytes){ 0 };
		nostop->taken[index] = NULL;
	}
	if (err || index >= nostop->stop->process_count)
		return err;
	process->user = (void *)(uintptr_t)(index + 1);
	nostop->sampled[index] = process;
	nostop->heard[index] = true;
	capture->live[index] = *process->live;
	return on_nostop_mapped(context, process);
}

void snap_nostop_take_live(struct snap_nostop *nostop, size_t index)
{
	struct snap_live *live = nostop->sampled[index]->live;

	nostop->capture->live[index] = *live;
	*live = (struct snap_live){ -1, -1, -1, -1, -1 };
	nostop->sampled[index] = NULL;
}

static void on_nostop_ended(void *context, struct snap_sampled_process *process)
{
	if (process->user)
		snap_nostop_take_live(context, (uintptr_t)process->user - 1);
}

/* ---- threads ---- */

static bool reserve_threads(struct snap_nostop *nostop, struct snap_traced *traced, size_t wanted)
{
	struct snap_thread *threads;

	if (wanted <= traced->thread_capacity)
		return true;
	wanted += wanted - 1;
	threads = snap_region_new_array(&nostop->shared->records, wanted, struct snap_thread);
	if (!threads)
		return false;
	if (traced->thread_count)
		memcpy(threads, traced->threads, traced->thread_count * sizeof(*threads));
	traced->threads = threads;
	traced->thread_capacity = wanted;
	return true;
}

struct snap_thread *snap_nostop_add_thread(struct snap_nostop *nostop, struct snap_traced *traced,
					   pid_t tid)
{
	struct snap_thread *thread;

	if (!reserve_threads(nostop, traced, traced->thread_count + 1))
		return NULL;
	thread = &traced->threads[traced->thread_count++];
	*thread = (struct snap_thread){ .tid = tid,
					.ns_tid = traced->foreign_namespace ? 0 : tid,
					.cpu = -1,
					.blocked_ns = -1,
					.result = SNAP_THREAD_UNTRACED };
	return thread;
}

/* Of a process that did not answer nothing is asked again. */
static void read_kernel_stack(struct snap_nostop *nostop, const struct snap_traced *traced,
			      struct snap_thread *mine)
{
	const char *text;
	size_t size;
	int status;

	mine->kernel_stack = NULL;
	if (!nostop->options->kernel_stacks || !nostop->asker || nostop->silent[traced->index])
		return;
	status = snap_thread_ask_stack(nostop->asker, traced->pid, mine->tid, &text, &size);
	if (status == -ETIMEDOUT)
		nostop->silent[traced->index] = true;
	if (status == 0 && size)
		mine->kernel_stack = snap_region_text(&nostop->shared->records, text, size);
}

/* What it waits for: as long as it does, so before a stop. */
static void describe_wait(struct snap_nostop *nostop, const struct snap_sampled_thread *thread,
			  const struct snap_traced *traced, struct snap_thread *mine)
{
	const struct snap_describer describer =
		snap_nostop_describer(nostop, traced, thread->process->tasks_fd);

	snap_describe_wchan(&describer, mine);
	if (mine->state)
		snap_describe_blocked(&describer, mine);
	snap_describe_start(&describer, mine);
	read_kernel_stack(nostop, traced, mine);
}

static struct stacksnap_error *on_nostop_renamed(void *context, struct snap_sampled_thread *thread)
{
	struct snap_nostop *nostop = context;
	struct snap_traced *traced = snap_nostop_traced(nostop, thread->process);

	if (traced)
		traced->threads[thread->user].name = snap_region_text(
			&nostop->shared->records, thread->name, strlen(thread->name));
	return NULL;
}

static struct stacksnap_error *on_nostop_born(void *context, struct snap_sampled_thread *thread)
{
	struct snap_nostop *nostop = context;
	struct snap_traced *traced = snap_nostop_traced(nostop, thread->process);
	struct snap_thread *mine =
		traced ? snap_nostop_add_thread(nostop, traced, thread->tid) : NULL;

	if (traced && !mine)
		return snap_error_no_memory();
	if (!mine)
		return NULL;
	thread->user = (uint32_t)(mine - traced->threads);
	mine->ns_tid = thread->ns_tid;
	/* Others were read by then. */
	mine->late = traced->threads[0].state != 0;
	nostop->left++;
	if (nostop->options->wchan || nostop->options->kernel_stacks)
		describe_wait(nostop, thread, traced, mine);
	return on_nostop_renamed(context, thread);
}

static struct stacksnap_error *on_nostop_died(void *context, struct snap_sampled_thread *thread)
{
	struct snap_nostop *nostop = context;
	struct snap_traced *traced = snap_nostop_traced(nostop, thread->process);
	struct snap_thread *mine = traced ? &traced->threads[thread->user] : NULL;

	if (!mine)
		return NULL;
	nostop->left -= mine->state == 0;
	if (mine->result != SNAP_THREAD_COPIED)
		mine->result = SNAP_THREAD_VANISHED;
	return NULL;
}

/*
 * How much of a stack may be kept. Where memory gets scarce each thread gets its part: processes
 * with many large stacks would else take that of the others.
 */
static size_t part_of_memory(const struct snap_nostop *nostop)
{
	size_t room = snap_region_room(&nostop->shared->stacks), others = nostop->left * KEPT,
	       waits = nostop->options->max_snapshot / WAIT_PARTS, fair, spare;

	room -= waits < room ? waits : room;
	fair = room / (nostop->left + 1);
	spare = others < room ? (room - others) / MOST_PARTS : 0;
	return (fair > spare ? fair : spare) & ~(size_t)15;
}

static const uint8_t *keep_stack(struct snap_nostop *nostop, const uint8_t *bytes, size_t *size)
{
	size_t most = part_of_memory(nostop);
	uint8_t *kept;

	if (*size > most) {
		*size = most;
		nostop->stop->limited = true;
	}
	kept = snap_region_alloc(&nostop->shared->stacks, *size);
	if (kept)
		memcpy(kept, bytes, *size);
	return kept;
}

static struct stacksnap_error *keep_copy(struct snap_nostop *nostop, const struct snap_thread *copy,
					 struct snap_thread *ret)
{
	void *registers = snap_region_alloc(&nostop->shared->records, copy->registers_size);

	SNAP_TRY(snap_no_memory_unless(registers));
	ret->result = copy->result;
	ret->taken = copy->taken;
	ret->partial = copy->partial;
	ret->call = copy->call;
	ret->group_stopped = copy->group_stopped;
	ret->registers = memcpy(registers, copy->registers, copy->registers_size);
	ret->registers_size = copy->registers_size;
	ret->stack_address = copy->stack_address;
	ret->stack_size = copy->stack_size;
	ret->stack_unreadable = copy->stack_unreadable;
	ret->stack = keep_stack(nostop, copy->stack, &ret->stack_size);
	ret->stack_limited = copy->stack_limited || ret->stack_size < copy->stack_size;
	if (ret->stack_size < copy->stack_size)
		snap_trace(nostop->options->trace, ret->tid, SNAP_TRACE_MEMORY, NULL);
	ret->stack2_address = copy->stack2_address;
	ret->stack2_size = copy->stack2_size;
	if (copy->stack2_size)
		ret->stack2 = keep_stack(nostop, copy->stack2, &ret->stack2_size);
	return ret->stack ? NULL : snap_error_no_memory();
}

static bool is_judged_good(const struct snap_nostop *nostop, const struct snap_traced *traced,
			   const struct snap_thread *copy)
{
	return !nostop->hook || !copy->partial ||
	       nostop->hook->suffices(nostop->hook->context, nostop->capture, traced->index, copy);
}

/*
 * It runs code that was mapped since, as that of a library in a program that has just begun. They
 * are not read again and again.
 */
static bool has_stale_maps(struct snap_nostop *nostop, const struct snap_sampled_thread *thread,
			   const struct snap_thread *copy)
{
	const struct snap_plan_thread known =
		snap_thread_plan_of(0, 0, copy->registers, copy->registers_size);

	if (nostop->stale == thread || nostop->stale_count >= MOST_STALE ||
	    snap_process_map(thread->process->facts, known.rip))
		return false;
	nostop->stale = thread;
	nostop->stale_count++;
	return true;
}

/* Adds other stacks that its frames lie in, if it has not run until they were copied. */
static void follow_unstopped(const struct snap_nostop *nostop, const struct snap_traced *traced,
			     const struct snap_sampled_thread *thread, struct snap_thread *copy)
{
	const struct snap_thread before = *copy;
	uint64_t runs;

	if (!nostop->hook || !nostop->hook->follow || copy->taken != SNAP_TAKEN_UNSTOPPED ||
	    copy->state == 'R')
		return;
	nostop->hook->follow(nostop->hook->context, nostop->capture, traced->index, copy,
			     nostop->shared, snap_clock_ns(CLOCK_MONOTONIC) + FOLLOW_NS);
	if (copy->memory == before.memory)
		return;
	if (!snap_procfs_task_runs(thread->process->tasks_fd, thread->tid, &runs) ||
	    runs != thread->runs)
		*copy = before;
}

static struct stacksnap_error *on_nostop_sample(void *context, struct snap_sampled_thread *thread,
						const struct snap_thread *copy,
						enum snap_verdict *verdict_ret)
{
	struct snap_nostop *nostop = context;
	struct snap_traced *traced = snap_nostop_traced(nostop, thread->process);
	struct snap_thread *mine = traced ? &traced->threads[thread->user] : NULL;
	struct snap_thread followed = *copy;

	*verdict_ret = SNAP_VERDICT_TAKEN;
	if (!mine)
		return NULL;
	nostop->left -= mine->state == 0;
	mine->state = copy->state;
	mine->cpu = copy->cpu;
	mine->flags = copy->flags;
	/* A stop makes it run: as of before that. */
	if (!thread->stopped_ns || !mine->runs)
		mine->runs = thread->runs;
	if (!thread->stopped_ns)
		describe_wait(nostop, thread, traced, mine);
	if (copy->result != SNAP_THREAD_COPIED) {
		mine->result = copy->result;
		mine->untried = thread->untried;
		mine->spared = thread->spared;
		return NULL;
	}
	/* Whether or not it is stopped for its registers: a stop reads no futex bytes. */
	if (copy->taken == SNAP_TAKEN_UNSTOPPED && thread->words)
		snap_nostop_keep_wait_bytes(nostop, traced, thread->words);
	if (has_stale_maps(nostop, thread, copy)) {
		*verdict_ret = SNAP_VERDICT_STALE_MAPPINGS;
		return NULL;
	}
	follow_unstopped(nostop, traced, thread, &followed);
	if (!is_judged_good(nostop, traced, &followed)) {
		*verdict_ret = SNAP_VERDICT_NEEDS_REGISTERS;
		return NULL;
	}
	traced->seized = true;
	traced->arch = thread->process->facts->arch;
	if (thread->stopped_ns > traced->alone_ns)
		traced->alone_ns = thread->stopped_ns;
	mine->memory =
		snap_thread_plans_keep(&nostop->plans, nostop->shared, traced->index, copy->memory);
	mine->memory = mine->memory ?: followed.memory;
	return keep_copy(nostop, &followed, mine);
}

struct snap_sampler_sink snap_nostop_sink(struct snap_nostop *nostop)
{
	return (struct snap_sampler_sink){
		.context = nostop,
		.program = on_nostop_program,
		.mapped = on_nostop_mapped,
		.ended = on_nostop_ended,
		.born = on_nostop_born,
		.renamed = on_nostop_renamed,
		.died = on_nostop_died,
		.sample = on_nostop_sample,
	};
}
