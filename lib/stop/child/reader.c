/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside a worker of the tracing child: see reader.h. It has one descriptor, the root of procfs, so
 * all is opened by number; that a number still means the same process is asked at the end.
 */
#include "stop/child/reader.h"

#include "base/clock.h"
#include "stop/describe.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum {
	BATCH_BYTES = 4 << 20, /* what one call copies between two signs of life */
	SAMPLE_TEXT = 256,
};

static void give_sign(int64_t *sign)
{
	__atomic_store_n(sign, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
}

/* ---- address spaces ---- */

struct memory {
	pid_t tid;
	int64_t *sign;
};

static size_t read_memory(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	const struct memory *memory = context;
	struct iovec local = { bytes, 0 };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	got = process_vm_readv(memory->tid, &local, 1, ranges, count, 0);
	give_sign(memory->sign);
	return got < 0 ? 0 : (size_t)got;
}

static void note_reached(struct snap_maps_item *item, enum snap_reached reached)
{
	__atomic_store_n(&item->reached, reached, __ATOMIC_RELEASE);
}

/* By a thread: the maps, then the pieces. */
static int read_by(const struct snap_reader *reader, struct snap_maps_item *item, int tasks_fd,
		   pid_t tid, int64_t *sign)
{
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tasks_fd, tid, "maps");
	struct memory memory = { tid, sign };
	const struct snap_space_reader space_reader = {
		.records = &reader->memory->records,
		.maps = reader->maps,
		.buffer = reader->buffer,
		.buffer_size = SNAP_DESCRIBE_BYTES,
		.read = read_memory,
		.context = &memory,
		.taken = &reader->memory->spaces,
		.pool = reader->pool,
		.sign = sign,
	};
	int error = fd < 0 ? fd : snap_space_read_maps(&space_reader, fd, &item->space);

	if (error)
		return error;
	give_sign(sign);
	note_reached(item, SNAP_REACHED_MAPS);
	snap_space_read_pieces(&space_reader, &item->space);
	note_reached(item, SNAP_REACHED_PIECES);
	return 0;
}

/* The stack pointer of a thread that waits in the kernel, 0: it runs, or it cannot be read. */
static uint64_t sample_stack_pointer(const struct snap_reader *reader, int tasks_fd, pid_t tid)
{
	char *text = reader->buffer;
	ssize_t length = snap_procfs_task_read(tasks_fd, tid, "syscall", text, SAMPLE_TEXT);
	/* "NUMBER 0xARGUMENT … 0xSP 0xPC", "-1 0xSP 0xPC", "running" */
	const char *pc = length > 0 ? memrchr(text, ' ', (size_t)length) : NULL;
	const char *sp = pc ? memrchr(text, ' ', (size_t)(pc - text)) : NULL;
	uint64_t value = 0;

	if (!sp || sp[1] != '0' || sp[2] != 'x')
		return 0;
	for (const char *at = sp + 3; at < pc; at++)
		value = value << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return value;
}

static void measure_stacks(const struct snap_maps_list *list, struct snap_maps_item *item,
			   int tasks_fd, int64_t *sign)
{
	const struct snap_reader *reader = list->reader;
	const struct snap_traced *traced = &reader->stop->processes[item->process];
	const struct snap_space *space = &item->space;
	uint64_t most = reader->options->max_stack;

	for (size_t i = list->sample_step / 2; i < traced->thread_count; i += list->sample_step) {
		uint64_t sp = sample_stack_pointer(reader, tasks_fd, traced->threads[i].tid), size;
		size_t map = snap_space_find(space->maps, space->map_count, sp);

		give_sign(sign);
		if (!sp || map == space->map_count || space->maps[map].start > sp)
			continue;
		size = space->maps[map].end - sp;
		item->sample_bytes += size < most ? size : most;
		item->sample_count++;
	}
}

/* The directory of the threads of a process; a negative errno. */
static int open_tasks(const struct snap_reader *reader, const struct snap_traced *traced)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(reader->procfs, traced->pid);

	return fd < 0 ? fd : snap_procfs_open_tasks(fd);
}

/* Whether what was read by its number is the process that was meant. */
static bool is_still_there(const struct snap_reader *reader, const struct snap_traced *traced)
{
	struct snap_stat stat;

	return snap_procfs_task_stat(reader->procfs->root_fd, traced->pid, &stat) == 0 &&
	       (!traced->start_ticks || stat.start_ticks == traced->start_ticks);
}

void snap_reader_read_maps(void *context, uint32_t index)
{
	const struct snap_maps_list *list = context;
	const struct snap_reader *reader = list->reader;
	struct snap_maps_item *item = &list->items[index];
	const struct snap_traced *traced = &reader->stop->processes[item->process];
	_cleanup_fd_ int tasks_fd = open_tasks(reader, traced);
	int error = tasks_fd < 0 ? tasks_fd : -ESRCH;

	if (tasks_fd >= 0 && item->tid)
		error = read_by(reader, item, tasks_fd, item->tid, &list->signs[index]);
	/* A leader that has exited has no memory; the threads that it left behind have. */
	for (size_t i = 0; tasks_fd >= 0 && error == -ESRCH && i < traced->thread_count; i++)
		error = read_by(reader, item, tasks_fd, traced->threads[i].tid,
				&list->signs[index]);
	if (!error && list->sample_step)
		measure_stacks(list, item, tasks_fd, &list->signs[index]);
	item->error = error || is_still_there(reader, traced) ? error : -ESRCH;
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

/* A call ends at its first fault: what lies behind it is read one by one. */
static void copy_batch(const struct snap_copy_list *list, struct snap_copy_item *item)
{
	struct snap_want *wants = &list->wants[item->first + item->done];
	struct iovec *remote = list->reader->vectors;
	struct iovec local = { wants->bytes, 0 };
	uint32_t count = 0, left = item->count - item->done;
	size_t at = 0, copied;
	ssize_t got;

	for (; count < left && count < SNAP_READER_VECTORS; count++) {
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
	const struct snap_reader *reader = list->reader;
	_cleanup_fd_ int tasks_fd = open_tasks(reader, &reader->stop->processes[item->process]);
	_cleanup_fd_ int mem_fd =
		tasks_fd < 0 ? -1 : snap_procfs_task_open_file(tasks_fd, item->tid, "mem");

	while (mem_fd >= 0 && item->done < item->count) {
		struct snap_want *want = &list->wants[item->first + item->done];

		want->got = read_want(item, want, mem_fd);
		__atomic_store_n(&item->done, item->done + 1, __ATOMIC_RELEASE);
		give_sign(sign);
	}
}

/* Where the first part of a process holds another worker, the second would hold this one. */
static bool is_held(const struct snap_copy_list *list, const struct snap_copy_item *item)
{
	const struct snap_copy_item *before;

	if (item->before == UINT32_MAX)
		return false;
	before = &list->items[item->before];
	return __atomic_load_n(&before->begun, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&before->ended, __ATOMIC_ACQUIRE);
}

void snap_reader_copy(void *context, uint32_t index)
{
	const struct snap_copy_list *list = context;
	struct snap_copy_item *item = &list->items[index];

	if (is_held(list, item))
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

/* Page tables are each process's own. */
void snap_reader_get_ready(void *context, uint32_t index _unused_)
{
	struct snap_ready_list *list = context;

	snap_region_prefault(&list->stacks, snap_region_room(&list->stacks));
	snap_region_prefault(&list->lists, snap_region_room(&list->lists));
	memset(list->reader->vectors, 0, SNAP_READER_VECTORS * sizeof(struct iovec));
}

/* ---- kernel stacks ---- */

void snap_reader_read_kernel_stacks(void *context, uint32_t index)
{
	const struct snap_kernel_list *list = context;
	const struct snap_reader *reader = list->reader;
	struct snap_traced *traced = &reader->stop->processes[list->processes[index]];
	_cleanup_fd_ int tasks_fd = open_tasks(reader, traced);
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
