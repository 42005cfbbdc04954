/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside a worker of the tracing child: see reader.h. It has one descriptor, the root of procfs, so
 * it opens everything by pid, and checks at the end that the pid still means the same process.
 */
#include "stop/child/reader.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "proc/credentials.h"
#include "stop/describe.h"
#include "stop/other_stacks.h"
#include "stop/plan/candidate.h"
#include "stop/wait_bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum {
	BATCH_BYTES = 4 << 20, /* copied by one call between two signs of life */
};

/* A larger --runtime-memory multiplies the records by its ratio to the usual one, up to a limit. */
static const uint64_t USUAL_MEMORY = 64 << 20, MOST_RECORDS = 16 * SNAP_PLAN_RECORDS;

static void give_sign_until(int64_t *sign, int64_t last_ns)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	__atomic_store_n(sign, now < last_ns ? now : last_ns, __ATOMIC_RELAXED);
}

static void give_sign(int64_t *sign)
{
	give_sign_until(sign, INT64_MAX);
}

/* ---- address spaces ---- */

struct memory {
	pid_t tid;
	int64_t *sign;
	int64_t last_sign_ns; /* 0: no matter when */
};

static size_t read_stop_memory(void *context, uint8_t *bytes, const struct iovec *ranges,
			       size_t count)
{
	const struct memory *memory = context;
	struct iovec local = { bytes, 0 };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	got = process_vm_readv(memory->tid, &local, 1, ranges, count, 0);
	give_sign_until(memory->sign, memory->last_sign_ns ? memory->last_sign_ns : INT64_MAX);
	return got < 0 ? 0 : (size_t)got;
}

static void note_reached(struct snap_maps_item *item, enum snap_reached reached)
{
	__atomic_store_n(&item->reached, reached, __ATOMIC_RELEASE);
}

/* Reads by a thread: the maps, then the pieces. */
static int read_by(const struct snap_stop_reader *reader, struct snap_maps_item *item, int tasks_fd,
		   pid_t tid, int64_t *sign)
{
	_cleanup_fd_ int task_fd = snap_procfs_task_open_file(tasks_fd, tid, ""), fd = -1;
	struct memory memory = { tid, sign, 0 };
	const struct snap_space_reader space_reader = {
		.records = &reader->memory->records,
		.maps = reader->maps,
		.buffer = reader->buffer,
		.buffer_size = SNAP_DESCRIBE_BYTES,
		.read = read_stop_memory,
		.context = &memory,
		.taken = &reader->memory->spaces,
		.pool = reader->pool,
		.sign = sign,
	};
	int error;

	snap_credentials_begin(task_fd, &item->credentials);
	fd = snap_procfs_task_open_file(tasks_fd, tid, "maps");
	error = fd < 0 ? fd : snap_space_read_maps(&space_reader, fd, &item->space);
	if (error)
		return error;
	item->credentials.known = snap_credentials_hold(task_fd, &item->credentials);
	give_sign(sign);
	note_reached(item, SNAP_REACHED_MAPS);
	snap_space_read_pieces(&space_reader, &item->space);
	note_reached(item, SNAP_REACHED_PIECES);
	return 0;
}

/* The stack pointer of a thread that waits in the kernel, 0: it runs, or it cannot be read. */
static uint64_t sample_stack_pointer(int tasks_fd, pid_t tid)
{
	struct snap_syscall_line line;

	return snap_procfs_task_call(tasks_fd, tid, &line) && !line.running ? line.sp : 0;
}

static void measure_stacks(const struct snap_maps_list *list, struct snap_maps_item *item,
			   int tasks_fd, int64_t *sign)
{
	const struct snap_stop_reader *reader = list->reader;
	const struct snap_traced *traced = &reader->stop->processes[item->process];
	const struct snap_space *space = &item->space;
	uint64_t most = reader->options->max_stack;

	for (size_t i = list->sample_step / 2; i < traced->thread_count; i += list->sample_step) {
		uint64_t sp = sample_stack_pointer(tasks_fd, traced->threads[i].tid), size;
		size_t map = snap_space_find(space->maps, space->map_count, sp);

		give_sign(sign);
		if (!sp || map == space->map_count || space->maps[map].start > sp)
			continue;
		size = space->maps[map].end - sp;
		item->sample_bytes += size < most ? size : most;
		item->sample_count++;
	}
}

/* The managed runtimes that the process may have: a hint, which costs very little. */
static unsigned find_stop_runtimes(const struct snap_stop_reader *reader,
				   const struct snap_maps_item *item, int64_t *sign)
{
	const struct snap_options *options = reader->options;
	struct memory memory = { reader->stop->processes[item->process].pid, sign, 0 };
	const struct snap_runtime_candidate candidate = {
		.space = &item->space,
		.wanted = options->runtimes,
		.buffer = (uint8_t *)reader->buffer,
		.buffer_size = SNAP_DESCRIBE_BYTES,
		.read = read_stop_memory,
		.context = &memory,
	};

	return options->runtimes_given ? options->runtimes : snap_plan_candidates(&candidate);
}

/* The directory of the threads of a process; a negative errno. */
static int open_stop_tasks(const struct snap_stop_reader *reader, const struct snap_traced *traced)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(reader->procfs, traced->pid);

	return fd < 0 ? fd : snap_procfs_open_tasks(fd);
}

/* -ESRCH: the pid belongs to another process by now. */
static int check_identity(const struct snap_stop_reader *reader, const struct snap_traced *traced)
{
	struct snap_stat stat;
	int error = snap_procfs_task_stat(reader->procfs->root_fd, traced->pid, &stat);

	if (!error && traced->start_ticks && stat.start_ticks != traced->start_ticks)
		error = -ESRCH;
	return error;
}

void snap_stop_reader_read_maps(void *context, uint32_t index)
{
	const struct snap_maps_list *list = context;
	const struct snap_stop_reader *reader = list->reader;
	struct snap_maps_item *item = &list->items[index];
	const struct snap_traced *traced = &reader->stop->processes[item->process];
	_cleanup_fd_ int tasks_fd = open_stop_tasks(reader, traced);
	int error = tasks_fd < 0 ? tasks_fd : -ESRCH;

	note_reached(item, SNAP_REACHED_BEGIN);
	if (tasks_fd >= 0 && item->tid)
		error = read_by(reader, item, tasks_fd, item->tid, &list->signs[index]);
	/* A leader that has exited has no memory; the threads that it left behind have. */
	for (size_t i = 0; tasks_fd >= 0 && error == -ESRCH && i < traced->thread_count; i++)
		error = read_by(reader, item, tasks_fd, traced->threads[i].tid,
				&list->signs[index]);
	if (!error && list->may_probe)
		item->runtimes = find_stop_runtimes(reader, item, &list->signs[index]);
	if (!error && list->sample_step)
		measure_stacks(list, item, tasks_fd, &list->signs[index]);
	item->error = error ? error : check_identity(reader, traced);
}

/* ---- stacks ---- */

static size_t read_want(const struct snap_copy_item *item, const struct snap_want *want, int mem_fd)
{
	struct iovec local = { want->bytes, want->size };
	struct iovec remote = { (void *)(uintptr_t)want->address, want->size };
	ssize_t got = mem_fd >= 0 ? pread(mem_fd, want->bytes, want->size, (off_t)want->address)
				  : process_vm_readv(item->tid, &local, 1, &remote, 1, 0);

	return got > 0 ? (size_t)got : 0;
}

/* A call ends at its first fault: the rest is read one by one. */
static void copy_batch(const struct snap_copy_list *list, struct snap_copy_item *item)
{
	struct snap_want *wants = &list->wants[item->first + item->done];
	struct iovec *remote = list->reader->vectors;
	struct iovec local = { wants->bytes, 0 };
	uint32_t count = 0, left = item->count - item->done;
	size_t at = 0, copied;
	ssize_t got;

	for (; count < left && count < SNAP_STOP_READER_VECTORS; count++) {
		if (count && local.iov_len + wants[count].size > BATCH_BYTES)
			break;
		remote[count] = (struct iovec){ (void *)(uintptr_t)wants[count].address,
						wants[count].size };
		local.iov_len += wants[count].size;
	}
	got = process_vm_readv(item->tid, &local, 1, remote, count, 0);
	copied = got > 0 ? (size_t)got : 0;
	for (uint32_t i = 0; i < count; i++) {
		at += wants[i].size;
		wants[i].got = copied >= at ? wants[i].size : read_want(item, &wants[i], -1);
		__atomic_store_n(&item->done, item->done + 1, __ATOMIC_RELEASE);
	}
}

static void copy_carefully(const struct snap_copy_list *list, struct snap_copy_item *item,
			   int64_t *sign)
{
	const struct snap_stop_reader *reader = list->reader;
	_cleanup_fd_ int tasks_fd =
		open_stop_tasks(reader, &reader->stop->processes[item->process]);
	_cleanup_fd_ int mem_fd =
		tasks_fd < 0 ? -1 : snap_procfs_task_open_file(tasks_fd, item->tid, "mem");

	while (mem_fd >= 0 && item->done < item->count) {
		struct snap_want *want = &list->wants[item->first + item->done];

		want->got = read_want(item, want, want->is_file ? -1 : mem_fd);
		__atomic_store_n(&item->done, item->done + 1, __ATOMIC_RELEASE);
		give_sign(sign);
	}
}

/*
 * Whether another worker is still at an earlier item of the process: if that is blocked, this one
 * would be, too.
 */
static bool is_item_held(const struct snap_copy_list *list, const struct snap_copy_item *item)
{
	while (item->before != UINT32_MAX) {
		item = &list->items[item->before];
		if (__atomic_load_n(&item->begun, __ATOMIC_ACQUIRE) &&
		    !__atomic_load_n(&item->ended, __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

void snap_stop_reader_copy(void *context, uint32_t index)
{
	const struct snap_copy_list *list = context;
	struct snap_copy_item *item = &list->items[index];

	if (is_item_held(list, item))
		return;
	__atomic_store_n(&item->begun, 1, __ATOMIC_RELEASE);
	if (list->careful)
		copy_carefully(list, item, &list->signs[index]);
	while (!list->careful && item->done < item->count) {
		copy_batch(list, item);
		give_sign(&list->signs[index]);
	}
	__atomic_store_n(&item->ended, 1, __ATOMIC_RELEASE);
}

struct snap_plan_budget snap_stop_reader_plan_budget(const struct snap_options *options)
{
	uint64_t times = options->runtime_memory / USUAL_MEMORY;
	uint64_t records = SNAP_PLAN_RECORDS * (times ? times : 1);

	return (struct snap_plan_budget){
		.records = records < MOST_RECORDS ? records : MOST_RECORDS,
		.bytes = options->runtime_memory,
	};
}

/* Memory of this worker alone; a plan touches only what it needs. */
static bool make_work(const struct snap_stop_reader *reader)
{
	struct snap_plan_budget budget = snap_stop_reader_plan_budget(reader->options);
	size_t size = snap_plan_work_bytes(&budget);
	void *memory;

	if (reader->work->next)
		return true;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	*reader->work = (struct snap_region){ memory, (uint8_t *)memory + size };
	return true;
}

/* Each process has page tables of its own, so the worker makes its memory present itself. */
void snap_stop_reader_get_ready(void *context, uint32_t index _unused_)
{
	struct snap_ready_list *list = context;

	snap_region_prefault(&list->stacks, snap_region_room(&list->stacks));
	snap_region_prefault(&list->lists, snap_region_room(&list->lists));
	memset(list->reader->vectors, 0, SNAP_STOP_READER_VECTORS * sizeof(struct iovec));
	if (list->plan_bytes && make_work(list->reader)) {
		struct snap_plan_budget budget =
			snap_stop_reader_plan_budget(list->reader->options);

		snap_plan_get_ready(*list->reader->work, &budget, list->plan_bytes);
	}
}

/* ---- other stacks ---- */

void snap_stop_reader_find_leads(void *context, uint32_t index)
{
	const struct snap_lead_list *list = context;
	struct snap_traced *traced = &list->reader->stop->processes[index];
	struct memory memory = { traced->pid, &list->signs[index], 0 };
	struct snap_lead_search search = { .maps = traced->maps,
					   .map_count = traced->map_count,
					   .read = read_stop_memory,
					   .context = &memory };

	for (size_t i = 0; i < traced->thread_count; i++) {
		struct snap_thread *thread = &traced->threads[i];

		if (thread->result != SNAP_THREAD_COPIED || thread->lead)
			continue;
		memory.tid = thread->tid;
		thread->lead = snap_clock_ns(CLOCK_MONOTONIC) < list->until_ns &&
					       snap_stack_leads_on(&search, thread)
				       ? SNAP_LEAD_ON
				       : SNAP_LEAD_NONE;
	}
}

/* ---- kernel stacks ---- */

void snap_stop_reader_read_kernel_stacks(void *context, uint32_t index)
{
	const struct snap_kernel_list *list = context;
	const struct snap_stop_reader *reader = list->reader;
	struct snap_traced *traced = &reader->stop->processes[list->processes[index]];
	_cleanup_fd_ int tasks_fd = open_stop_tasks(reader, traced);
	struct snap_describer describer = { .options = reader->options,
					    .records = &reader->memory->records,
					    .tasks_fd = tasks_fd,
					    .buffer = reader->buffer };

	for (size_t i = 0; tasks_fd >= 0 && i < traced->thread_count; i++) {
		struct snap_thread *thread = &traced->threads[i];

		if (list->slow_alone && thread->result != SNAP_THREAD_NOT_STOPPED)
			continue;
		snap_describe_kernel_stack(&describer, thread);
		give_sign(&list->signs[index]);
	}
}

/* The call of a thread that did not stop, from the kernel; the thread may be in none. */
static void read_stop_call(int tasks_fd, struct snap_thread *thread)
{
	struct snap_syscall_line line;

	if (snap_procfs_task_call(tasks_fd, thread->tid, &line))
		thread->call = snap_call_of_line(&line, 0);
}

void snap_stop_reader_read_calls(void *context, uint32_t index)
{
	const struct snap_kernel_list *list = context;
	struct snap_traced *traced = &list->reader->stop->processes[list->processes[index]];
	_cleanup_fd_ int tasks_fd = open_stop_tasks(list->reader, traced);

	for (size_t i = 0; tasks_fd >= 0 && i < traced->thread_count; i++) {
		if (traced->threads[i].result != SNAP_THREAD_NOT_STOPPED)
			continue;
		read_stop_call(tasks_fd, &traced->threads[i]);
		give_sign(&list->signs[index]);
	}
}

/* ---- memory of runtimes ---- */

/*
 * The plan is for this process, whose threads are stopped, so its pid cannot have been used again.
 * The plan was checked when it came, and is checked again.
 */
void snap_stop_reader_execute_plan(void *context, uint32_t index _unused_)
{
	struct snap_plan_list *list = context;
	const struct snap_stop_reader *reader = list->reader;
	struct snap_plan_task task = list->task;
	struct memory memory = { list->tid, &list->sign, list->last_sign_ns };

	if (!snap_memory_plan_check(task.plan) || !make_work(reader))
		return;
	task.work = *reader->work;
	task.source = (struct snap_plan_source){ .read = read_stop_memory, .context = &memory };
	snap_plan_execute(&task, &list->room, &list->image);
}
