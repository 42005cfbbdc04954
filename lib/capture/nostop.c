/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sink that keeps the copies: see nostop.h. It fills in what a stop would have (struct
 * snap_stop, one entry for each process of the capture, in the same order), so both become a
 * capture in the same way (collect.c). Copies go to the shared mapping, which is handed over to
 * the parser as it is; mappings and texts go to the capture's arena.
 */
#include "capture/nostop.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "capture/collect.h"
#include "capture/thread_plans.h"
#include "discover/discover.h"
#include "proc/address_space.h"
#include "sample/sampler.h"
#include "stop/describe.h"

#include <errno.h>
#include <string.h>

enum {
	SPARE_PROCESSES = 1024, /* found meanwhile, beyond those that discover listed */
	MOST_PARTS = 8,         /* one stack gets an eighth of the memory that is left at most */
};

struct nostop {
	const struct snap_options *options;
	const struct snap_stop_hook *hook; /* NULL, or with `suffices` */
	struct snap_capture *capture;      /* the sampler's, until the end */
	struct snap_shared_memory *shared;
	struct snap_thread_plans plans;
	struct snap_stop *stop;
	/* By process: as the sampler has it, NULL: it has ended, or was never there. */
	struct snap_sampled_process **sampled;
	size_t sampled_capacity;
	size_t left;  /* threads that were not heard of yet */
	char *buffer; /* SNAP_DESCRIBE_BYTES bytes, for texts */
	pid_t *tids;  /* a listing */
	size_t tid_capacity;
	/* Mappings: once for all processes that have the same, as far as there is room. */
	struct snap_space_pool *pool;
	struct snap_map *maps;         /* SNAP_MAX_MAPS, while they are copied */
	const struct snap_map **taken; /* by process: the sampler's, as they were copied */
	bool *heard;                   /* by process: the sampler had time for it */
	size_t taken_capacity, heard_capacity;
};

/* What the sampler keeps open is the sampler's until its end, though the judge uses it. */
static void nostop_deinit(struct nostop *nostop)
{
	for (size_t i = 0; nostop->stop && i < nostop->stop->process_count; i++)
		if (nostop->sampled[i])
			nostop->capture->live[i] = (struct snap_live){ -1, -1, -1, -1, -1 };
	snap_thread_plans_deinit(&nostop->plans);
	free(nostop->sampled);
	free(nostop->buffer);
	free(nostop->tids);
	free(nostop->maps);
	free(nostop->taken);
	free(nostop->heard);
}

/* ---- processes ---- */

static struct snap_traced *traced_of(const struct nostop *nostop,
				     const struct snap_sampled_process *process)
{
	return process->user ? &nostop->stop->processes[(uintptr_t)process->user - 1] : NULL;
}

/* The entry of a process in the stop, with the same index as in the capture. */
static bool add_traced(struct nostop *nostop, size_t index)
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
	    !snap_reserve_array_zeroed(nostop->heard, nostop->heard_capacity, index + 1))
		return false;
	return snap_stop_add(nostop->stop, &traced);
}

/* Name, arguments and so on of a program that discovery did not see at first. */
static struct stacksnap_error *take_facts(struct nostop *nostop,
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

static struct stacksnap_error *take_maps(struct nostop *nostop,
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
	mine->maps = traced->maps = space.maps;
	mine->map_count = traced->map_count = space.map_count;
	mine->maps_cut = traced->maps_cut = space.cut;
	mine->pieces = traced->pieces = space.pieces;
	mine->piece_count = traced->piece_count = space.piece_count;
	return NULL;
}

/* What keeps it from being read; none: somebody else traced it, and does no more. */
static struct stacksnap_error *take_trouble(struct nostop *nostop, const struct snap_process *facts,
					    size_t index)
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

static struct stacksnap_error *on_mapped(void *context, struct snap_sampled_process *process)
{
	struct nostop *nostop = context;
	struct stacksnap_error *err;
	size_t index;

	if (!process->user)
		return NULL;
	index = (uintptr_t)process->user - 1;
	err = take_trouble(nostop, process->facts, index);
	if (!err)
		err = take_maps(nostop, process, index);
	return err ? err : snap_thread_plans_ask(&nostop->plans, nostop->capture, index, process);
}

static struct stacksnap_error *on_program(void *context, struct snap_sampled_process *process,
					  bool exec)
{
	struct nostop *nostop = context;
	struct snap_capture *capture = nostop->capture;
	size_t index = process->user ? (uintptr_t)process->user - 1 : process->index;
	struct stacksnap_error *err = NULL;

	if (index == SIZE_MAX) {
		index = capture->process_count;
		if (!snap_capture_append(capture))
			return snap_error_no_memory();
		err = take_facts(nostop, process, index);
		if (!err && !add_traced(nostop, index))
			capture->process_count--; /* there are too many */
	} else if (exec) {
		err = take_facts(nostop, process, index);
		nostop->stop->processes[index].thread_count = 0;
		nostop->taken[index] = NULL;
	}
	if (err || index >= nostop->stop->process_count)
		return err;
	process->user = (void *)(uintptr_t)(index + 1);
	nostop->sampled[index] = process;
	nostop->heard[index] = true;
	capture->live[index] = *process->live;
	return on_mapped(context, process);
}

/* The descriptors are the capture's from now on. */
static void take_live(struct nostop *nostop, size_t index)
{
	struct snap_live *live = nostop->sampled[index]->live;

	nostop->capture->live[index] = *live;
	*live = (struct snap_live){ -1, -1, -1, -1, -1 };
	nostop->sampled[index] = NULL;
}

static void on_ended(void *context, struct snap_sampled_process *process)
{
	if (process->user)
		take_live(context, (uintptr_t)process->user - 1);
}

/* ---- threads ---- */

static bool reserve_threads(struct nostop *nostop, struct snap_traced *traced, size_t wanted)
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

static struct snap_thread *add_thread(struct nostop *nostop, struct snap_traced *traced, pid_t tid)
{
	struct snap_thread *thread;

	if (!reserve_threads(nostop, traced, traced->thread_count + 1))
		return NULL;
	thread = &traced->threads[traced->thread_count++];
	*thread = (struct snap_thread){ .tid = tid,
					.ns_tid = traced->foreign_namespace ? 0 : tid,
					.cpu = -1,
					.result = SNAP_THREAD_UNTRACED };
	return thread;
}

static struct snap_describer describer_of(const struct nostop *nostop,
					  const struct snap_traced *traced, int tasks_fd)
{
	return (struct snap_describer){ .options = nostop->options,
					.records = &nostop->shared->records,
					.tasks_fd = tasks_fd,
					.foreign_namespace = traced->foreign_namespace,
					.buffer = nostop->buffer };
}

/* What it waits for: as long as it does, so before a stop. */
static void describe_wait(struct nostop *nostop, const struct snap_sampled_thread *thread,
			  const struct snap_traced *traced, struct snap_thread *mine)
{
	const struct snap_describer describer =
		describer_of(nostop, traced, thread->process->tasks_fd);

	snap_describe_wait(&describer, mine);
}

static struct stacksnap_error *on_renamed(void *context, struct snap_sampled_thread *thread)
{
	struct nostop *nostop = context;
	struct snap_traced *traced = traced_of(nostop, thread->process);

	if (traced)
		traced->threads[thread->user].name = snap_region_text(
			&nostop->shared->records, thread->name, strlen(thread->name));
	return NULL;
}

static struct stacksnap_error *on_born(void *context, struct snap_sampled_thread *thread)
{
	struct nostop *nostop = context;
	struct snap_traced *traced = traced_of(nostop, thread->process);
	struct snap_thread *mine = traced ? add_thread(nostop, traced, thread->tid) : NULL;

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
	return on_renamed(context, thread);
}

static struct stacksnap_error *on_died(void *context, struct snap_sampled_thread *thread)
{
	struct nostop *nostop = context;
	struct snap_traced *traced = traced_of(nostop, thread->process);
	struct snap_thread *mine = traced ? &traced->threads[thread->user] : NULL;

	if (!mine)
		return NULL;
	nostop->left -= mine->state == 0;
	if (mine->result != SNAP_THREAD_COPIED)
		mine->result = SNAP_THREAD_VANISHED;
	return NULL;
}

/*
 * How much of a stack may be kept: where memory gets scarce each gets its part, and one large stack
 * an eighth of it, as most are small.
 */
static size_t part_of_memory(const struct nostop *nostop)
{
	size_t parts = nostop->left + 1 < MOST_PARTS ? nostop->left + 1 : MOST_PARTS;

	return snap_region_room(&nostop->shared->stacks) / parts & ~(size_t)15;
}

static const uint8_t *keep_stack(struct nostop *nostop, const uint8_t *bytes, size_t *size)
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

static struct stacksnap_error *keep_copy(struct nostop *nostop, const struct snap_thread *copy,
					 struct snap_thread *ret)
{
	void *registers = snap_region_alloc(&nostop->shared->records, copy->registers_size);

	if (!registers)
		return snap_error_no_memory();
	ret->result = copy->result;
	ret->taken = copy->taken;
	ret->partial = copy->partial;
	ret->group_stopped = copy->group_stopped;
	ret->registers = memcpy(registers, copy->registers, copy->registers_size);
	ret->registers_size = copy->registers_size;
	ret->stack_address = copy->stack_address;
	ret->stack_size = copy->stack_size;
	ret->stack_unreadable = copy->stack_unreadable;
	ret->stack = keep_stack(nostop, copy->stack, &ret->stack_size);
	ret->stack_limited = copy->stack_limited || ret->stack_size < copy->stack_size;
	ret->stack2_address = copy->stack2_address;
	ret->stack2_size = copy->stack2_size;
	if (copy->stack2_size)
		ret->stack2 = keep_stack(nostop, copy->stack2, &ret->stack2_size);
	return ret->stack ? NULL : snap_error_no_memory();
}

static bool is_judged_good(const struct nostop *nostop, const struct snap_traced *traced,
			   const struct snap_thread *copy)
{
	return !nostop->hook || !copy->partial ||
	       nostop->hook->suffices(nostop->hook->context, nostop->capture, traced->index, copy);
}

static struct stacksnap_error *on_sample(void *context, struct snap_sampled_thread *thread,
					 const struct snap_thread *copy,
					 enum snap_verdict *verdict_ret)
{
	struct nostop *nostop = context;
	struct snap_traced *traced = traced_of(nostop, thread->process);
	struct snap_thread *mine = traced ? &traced->threads[thread->user] : NULL;

	*verdict_ret = SNAP_VERDICT_TAKEN;
	if (!mine)
		return NULL;
	nostop->left -= mine->state == 0;
	mine->state = copy->state;
	mine->cpu = copy->cpu;
	mine->flags = copy->flags;
	if (!thread->stopped_ns)
		describe_wait(nostop, thread, traced, mine);
	if (copy->result != SNAP_THREAD_COPIED) {
		mine->result = copy->result;
		traced->timed_out |= copy->result == SNAP_THREAD_NOT_STOPPED;
		return NULL;
	}
	if (!is_judged_good(nostop, traced, copy)) {
		*verdict_ret = SNAP_VERDICT_NEEDS_REGISTERS;
		return NULL;
	}
	traced->seized = true;
	traced->arch = thread->process->facts->arch;
	if (thread->stopped_ns > traced->alone_ns)
		traced->alone_ns = thread->stopped_ns;
	snap_thread_plans_keep(&nostop->plans, nostop->shared, traced->index, copy->memory);
	return keep_copy(nostop, copy, mine);
}

/* ---- what the sampler does not tell of ---- */

static struct snap_thread *find_thread(const struct snap_traced *traced, pid_t tid)
{
	for (size_t i = 0; i < traced->thread_count; i++)
		if (traced->threads[i].tid == tid)
			return &traced->threads[i];
	return NULL;
}

/* Nothing but the name and the state of a thread is known. */
static struct stacksnap_error *add_unread_thread(struct nostop *nostop, struct snap_traced *traced,
						 int tasks_fd, pid_t tid)
{
	const struct snap_describer describer = describer_of(nostop, traced, tasks_fd);
	struct snap_thread *thread = add_thread(nostop, traced, tid);

	if (!thread)
		return snap_error_no_memory();
	snap_describe(&describer, thread);
	return NULL;
}

static struct stacksnap_error *add_unread_threads(struct nostop *nostop, struct snap_traced *traced,
						  int tasks_fd)
{
	ssize_t count = snap_procfs_list(tasks_fd, nostop->tids, 0);
	struct stacksnap_error *err = NULL;

	if (count <= 0)
		return NULL;
	if (!snap_reserve_array(nostop->tids, nostop->tid_capacity, (size_t)count))
		return snap_error_no_memory();
	count = snap_procfs_list(tasks_fd, nostop->tids, (size_t)count);
	/* What was known of them was given up with the process. */
	traced->thread_count = 0;
	for (ssize_t i = 0; i < count && i < (ssize_t)nostop->tid_capacity && !err; i++)
		err = add_unread_thread(nostop, traced, tasks_fd, nostop->tids[i]);
	return err;
}

/* A leader that has exited before its threads; the sampler knows of threads that run alone. */
static struct stacksnap_error *add_zombie_leader(struct nostop *nostop, struct snap_traced *traced,
						 int tasks_fd)
{
	struct stacksnap_error *err;

	if (find_thread(traced, traced->pid))
		return NULL;
	err = add_unread_thread(nostop, traced, tasks_fd, traced->pid);
	if (!err && traced->threads[traced->thread_count - 1].state != 'Z')
		traced->thread_count--;
	return err;
}

/* Threads whose files could not be opened, or that were born at the very end. */
static void describe_unheard_threads(struct nostop *nostop, struct snap_traced *traced,
				     int tasks_fd)
{
	const struct snap_describer describer = describer_of(nostop, traced, tasks_fd);

	for (size_t i = 0; i < traced->thread_count; i++) {
		struct snap_thread *thread = &traced->threads[i];

		if (thread->state || thread->result != SNAP_THREAD_UNTRACED)
			continue;
		thread->result = SNAP_THREAD_NOT_STOPPED;
		snap_describe(&describer, thread);
	}
}

/*
 * Where some threads could be copied, trouble is theirs alone; but of a process that does not
 * respond none is shown, as most were not asked.
 */
static void settle_trouble(struct snap_process *process, struct snap_traced *traced)
{
	if (!traced->seized || process->trouble == SNAP_TROUBLE_NONE ||
	    process->trouble == SNAP_TROUBLE_NOT_RESPONDING)
		return;
	if (process->trouble == SNAP_TROUBLE_PERMISSION_DENIED ||
	    process->trouble == SNAP_TROUBLE_ALREADY_TRACED)
		traced->error = EPERM;
	process->trouble = SNAP_TROUBLE_NONE;
	process->trouble_message = NULL;
}

static struct stacksnap_error *complete_process(struct nostop *nostop, size_t index)
{
	struct snap_process *process = &nostop->capture->processes[index];
	struct snap_traced *traced = &nostop->stop->processes[index];
	_cleanup_fd_ int opened = -1, tasks_fd = -1;
	int fd = nostop->capture->live[index].proc_fd;
	struct stacksnap_error *err;

	settle_trouble(process, traced);
	if (!nostop->heard[index] && process->trouble == SNAP_TROUBLE_NONE && !process->vanished)
		snap_process_set_trouble(nostop->capture, process, SNAP_TROUBLE_STOP_TIMEOUT,
					 "%d could not be read in time (see --timeout)",
					 (int)process->pid);
	if (snap_troubles[process->trouble].ended || !nostop->heard[index])
		return NULL;
	if (fd < 0)
		fd = opened = snap_discover_open(process);
	tasks_fd = fd < 0 ? -1 : snap_procfs_open_tasks(fd);
	if (tasks_fd < 0)
		return NULL;
	if (process->trouble != SNAP_TROUBLE_NONE)
		return add_unread_threads(nostop, traced, tasks_fd);
	err = add_zombie_leader(nostop, traced, tasks_fd);
	describe_unheard_threads(nostop, traced, tasks_fd);
	return err;
}

/* ---- the whole ---- */

static struct stacksnap_error *prepare(struct nostop *nostop)
{
	struct snap_capture *capture = nostop->capture;
	struct stacksnap_error *err =
		snap_shared_memory_create(nostop->options->max_snapshot, &nostop->shared);

	if (err)
		return err;
	capture->shared = nostop->shared;
	capture->shared_size = nostop->shared->size;
	capture->shared_fd = nostop->shared->fd;
	nostop->stop =
		snap_stop_new(nostop->shared, (uint32_t)capture->process_count + SPARE_PROCESSES);
	nostop->buffer = malloc(SNAP_DESCRIBE_BYTES);
	nostop->pool = snap_region_alloc(&nostop->shared->records, sizeof(*nostop->pool));
	/* Address space: there are few mappings, mostly. */
	nostop->maps = malloc(SNAP_MAX_MAPS * sizeof(*nostop->maps));
	if (!nostop->stop || !nostop->buffer || !nostop->maps)
		return snap_error_no_memory();
	for (size_t i = 0; i < capture->process_count; i++)
		if (!add_traced(nostop, i))
			return snap_error_no_memory();
	return NULL;
}

static struct stacksnap_error *finish(struct nostop *nostop)
{
	for (size_t i = 0; i < nostop->capture->process_count; i++) {
		struct stacksnap_error *err;

		if (nostop->sampled[i])
			take_live(nostop, i);
		nostop->stop->processes[i].memory = snap_thread_plans_image(&nostop->plans, i);
		err = complete_process(nostop, i);
		if (err)
			return err;
	}
	return snap_capture_collect(nostop->options, nostop->capture, nostop->stop);
}

struct stacksnap_error *snap_nostop_take(const struct snap_options *options,
					 const struct snap_stop_hook *hook, bool *execed_ret,
					 struct snap_capture **ret)
{
	_cleanup_(snap_sampler_destroyp) struct snap_sampler *sampler = NULL;
	_cleanup_(nostop_deinit) struct nostop nostop = {
		.options = options,
		.hook = hook && hook->suffices ? hook : NULL,
		.plans = { .options = options, .hook = hook },
	};
	const struct snap_sampler_sink sink = { &nostop, on_program, on_mapped, on_ended,
						on_born, on_renamed, on_died,   on_sample };
	struct snap_sampler_tick tick;
	struct stacksnap_error *err = snap_sampler_create(options, &sink, &sampler);

	if (err)
		return err;
	nostop.capture = snap_sampler_capture(sampler);
	err = prepare(&nostop);
	if (err)
		return err;
	nostop.capture->time_ns = snap_clock_ns(CLOCK_REALTIME);
	err = snap_sampler_tick(sampler, &tick);
	if (!err)
		err = finish(&nostop);
	if (err)
		return err;
	for (uint32_t i = 0; i < nostop.stop->process_count; i++)
		*execed_ret |= nostop.stop->processes[i].execed;
	*ret = snap_sampler_take_capture(sampler);
	return NULL;
}
