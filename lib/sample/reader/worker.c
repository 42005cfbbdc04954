/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reader, in a worker. It has no descriptor but procfs, so it opens what it needs by number;
 * the memory of processes it keeps open, some of them. The caller, which holds files of the thread,
 * ensures that a number still means the same process; that it is the same program is looked at when
 * its memory is opened.
 */
#include "sample/reader/area.h"

#include "base/clock.h"
#include "model/arch/registers.h"
#include "proc/touch.h"
#include "proc/wait/fdinfo.h"
#include "stop/plan/candidate.h"
#include "stop/wait_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	LINES = 1 << 16,
	SYSCALL_TEXT = 256,
	PATH = 64,
};

static int open_task_file(const struct snap_reading_area *area, const char *name)
{
	char path[PATH];

	snprintf(path, sizeof(path), "%d/task/%d/%s", (int)area->target.pid, (int)area->target.tid,
		 name);
	return snap_procfs_open_file(area->root_fd, path);
}

/* Whether the thread runs the program that is meant; one that exits, or is in an exec, has none. */
static bool is_same_program(const struct snap_reading_area *area, bool may_be_none)
{
	_cleanup_fd_ int fd = open_task_file(area, "");
	struct snap_stat stat;

	if (!area->target.program)
		return true;
	return fd >= 0 && snap_procfs_stat(fd, &stat) == 0 &&
	       (stat.program == area->target.program || (may_be_none && !stat.program));
}

/* The descriptor stays the worker's; a negative errno. */
static int open_memory(struct snap_reading_area *area)
{
	struct snap_reading_kept *kept =
		&area->kept[(unsigned)area->target.pid % SNAP_READING_KEPT];
	int fd;

	if (kept->fd && kept->pid == area->target.pid && kept->program == area->target.program)
		return kept->fd - 1;
	fd = open_task_file(area, "mem");
	if (fd < 0)
		return fd;
	if (!is_same_program(area, true)) {
		close(fd);
		return -ESTALE;
	}
	if (kept->fd)
		close(kept->fd - 1);
	*kept = (struct snap_reading_kept){ area->target.pid, area->target.program, fd + 1 };
	return fd;
}

static size_t touch_range(const struct snap_reading_area *area, uint64_t address, size_t size)
{
	_cleanup_fd_ int fd = open_task_file(area, "pagemap");

	return snap_memory_touch(fd, area->target.tid, address, size);
}

/* Of a file, only what can be read without a sleep that nothing ends. */
static ssize_t read_sampled_memory(struct snap_reading_area *area, uint64_t address, void *bytes,
				   size_t size)
{
	int fd = open_memory(area);
	ssize_t got;

	if (fd < 0)
		return fd;
	if (area->target.is_file && size) {
		size = touch_range(area, address, size);
		if (!size)
			return -EFAULT;
	}
	got = pread(fd, bytes, size, (off_t)address);
	return got < 0 ? -errno : got;
}

/* 0: that memory has gone. Its number may be another process's, of the same program, by now. */
static ssize_t read_sampled_bytes(struct snap_reading_area *area, uint64_t address, void *bytes,
				  size_t size)
{
	struct snap_reading_kept *kept =
		&area->kept[(unsigned)area->target.pid % SNAP_READING_KEPT];
	ssize_t got = read_sampled_memory(area, address, bytes, size);

	if (got || !size)
		return got;
	close(kept->fd - 1);
	kept->fd = 0;
	got = read_sampled_memory(area, address, bytes, size);
	return got ? got : -ESTALE;
}

void snap_reading_stat(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	_cleanup_fd_ int fd = area->target.tid ? open_task_file(area, "") : -1;

	if (area->target.tid)
		area->status = fd < 0 ? fd : snap_procfs_stat(fd, &area->stat);
	else
		area->status = snap_procfs_task_stat(area->root_fd, area->target.pid, &area->stat);
}

void snap_reading_try(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	int fd = open_memory(area);

	area->status = fd < 0 ? fd : 0;
}

void snap_reading_bytes(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	struct snap_reading_location *location = &area->location;
	ssize_t got = read_sampled_bytes(area, location->address, area->bytes, location->asked);

	area->status = got < 0 ? (int)got : 0;
	location->got = got > 0 ? (size_t)got : 0;
}

static void read_usual_stack(struct snap_reading_area *area, struct snap_reading_location *location,
			     uint8_t *bytes)
{
	uint64_t sp = location->line.sp, from = (sp - SNAP_STACK_MARGIN) & ~15ull, size;
	const struct snap_reader_question *question = &location->question;
	ssize_t got;

	if (sp < question->start || sp >= question->end || sp < SNAP_STACK_MARGIN + 16)
		return;
	size = question->end - from;
	size = size < location->most ? size : location->most;
	got = read_sampled_bytes(area, from, bytes, size);
	if (got == -ESTALE)
		location->status = -ESTALE;
	if (got <= 0)
		return;
	location->address = from;
	location->asked = size;
	location->got = (size_t)got;
}

static ssize_t read_context(void *context, uint64_t address, uint8_t *bytes, size_t size)
{
	return read_sampled_bytes(context, address, bytes, size);
}

/* Of the thread: each may have descriptors of its own. */
static ssize_t read_sampled_link(void *context, int32_t number, char *text, size_t size)
{
	const struct snap_reading_area *area = context;
	char path[PATH];

	snprintf(path, sizeof(path), "%d/task/%d/fd/%d", (int)area->target.pid,
		 (int)area->target.tid, (int)number);
	return snap_procfs_link(area->root_fd, path, text, size);
}

/* Each has its share of the room, however much those before it took. */
static int locate_context(struct snap_reading_area *area, const struct snap_thread_call *call,
			  bool always, struct snap_wait_context *ret)
{
	const struct snap_wait_context_source source = { read_context, read_sampled_link, area };
	struct snap_region *all = &area->context_room, room = *all;
	int error;

	if (area->context_left <= 0 && !always) {
		*ret = (struct snap_wait_context){ .is_left_out = true };
		return 0;
	}
	if (snap_region_room(&room) > SNAP_WAIT_CONTEXT_ROOM)
		room.end = room.next + SNAP_WAIT_CONTEXT_ROOM;
	__atomic_store_n(&area->at_context, 1, __ATOMIC_RELEASE);
	error = snap_wait_context_read(&source, SNAP_OWN_ARCH, call, &room, ret);
	__atomic_store_n(&area->at_context, 0, __ATOMIC_RELEASE);
	all->next = room.next;
	area->context_left -= ret->reads;
	return error;
}

static void locate_call(struct snap_reading_area *area, struct snap_reading_location *location)
{
	const struct snap_thread_call call = snap_call_of_line(&location->line, 0);

	/* A 32-bit thread has its stack there, and its calls have other numbers. */
	if (location->line.running || location->line.sp <= UINT32_MAX)
		return;
	if (locate_context(area, &call, location->question.always, &location->context) == -ESTALE)
		location->status = -ESTALE;
}

static int open_bpf(struct snap_reading_area *area)
{
	if (!area->bpf_tried)
		area->bpf_status =
			snap_procfs_is_own(area->root_fd) ? snap_bpf_open(&area->bpf) : -ENOTSUP;
	area->bpf_tried = true;
	return area->bpf_status;
}

/* False: it is on a processor, or nothing is known in this way. */
static bool locate_by_bpf(struct snap_reading_area *area, struct snap_reading_location *location)
{
	struct snap_bpf_thread *thread = &location->registers;
	struct snap_known_registers known;

	if (!area->wants_bpf || open_bpf(area) ||
	    snap_bpf_read(&area->bpf, area->target.tid, thread) ||
	    !snap_registers_read(SNAP_OWN_ARCH, thread->registers, thread->registers_size, 'S',
				 &known)) {
		thread->registers_size = 0;
		return false;
	}
	location->line = (struct snap_syscall_line){
		.running = thread->queued,
		.number = thread->call,
		.sp = known.sp,
		.pc = thread->call >= 0 ? known.call_pc : known.pc,
	};
	if (thread->call >= 0)
		memcpy(location->line.arguments, known.arguments, sizeof(known.arguments));
	return true;
}

static int locate_by_procfs(const struct snap_reading_area *area, struct snap_syscall_line *ret)
{
	_cleanup_fd_ int fd = open_task_file(area, "syscall");
	char text[SYSCALL_TEXT];
	ssize_t length = fd < 0 ? fd : snap_procfs_reread(fd, text, sizeof(text));

	if (length < 0)
		return (int)length;
	return snap_parse_syscall(text, (size_t)length, ret) ? 0 : -EBADMSG;
}

static void locate_for_sampler(struct snap_reading_area *area,
			       struct snap_reading_location *location, uint8_t *bytes)
{
	area->target = location->question.target;
	location->status = 0;
	if (!locate_by_bpf(area, location))
		location->status = locate_by_procfs(area, &location->line);
	if (!location->status && (!location->line.running || location->registers.registers_size))
		read_usual_stack(area, location, bytes);
	if (!location->status && location->question.context)
		locate_call(area, location);
}

void snap_reading_location(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;

	locate_for_sampler(area, &area->location, area->bytes);
	area->status = area->location.status;
}

void snap_reading_open_bpf(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;

	area->status = open_bpf(area);
}

void snap_reading_switches(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	struct snap_bpf_thread thread;

	area->status = open_bpf(area);
	if (!area->status)
		area->status = snap_bpf_read(&area->bpf, area->target.tid, &thread);
	if (!area->status && thread.switches != area->switches)
		area->status = -EAGAIN;
}

/* As long as we wait for a processor, so does the caller, which may have a higher priority. */
static void follow_caller(struct snap_reading_area *area)
{
	snap_priority_follow(&area->own_level, &area->level);
}

static void begin_item(struct snap_reading_area *area, uint32_t item)
{
	__atomic_store_n(&area->list_at, item, __ATOMIC_RELEASE);
	__atomic_store_n(&area->list_sign_ns, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
}

void snap_reading_list(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;

	follow_caller(area);
	for (uint32_t i = 0; i < area->list_count; i++) {
		begin_item(area, i);
		locate_for_sampler(area, &area->list[i],
				   area->list_bytes + (size_t)i * SNAP_READING_LIST_STACK);
	}
	area->status = 0;
}

void snap_reading_callers(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;

	follow_caller(area);
	for (uint32_t i = 0; i < area->caller_count; i++) {
		begin_item(area, i);
		area->target = area->callers[i].target;
		locate_context(area, &area->callers[i].call, false, &area->called[i]);
	}
	area->status = 0;
}

/* Nothing is mapped there; else it has gone, or may not be read. */
static bool is_unreadable(ssize_t error)
{
	return error == -EIO || error == -EFAULT || error == -EINVAL;
}

void snap_reading_pieces(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	uint8_t *bytes = area->bytes;

	area->status = 0;
	for (uint32_t i = 0; i < area->piece_count && !area->status; i++) {
		struct snap_reading_piece *piece = &area->pieces[i];
		ssize_t got = read_sampled_bytes(area, piece->address, bytes, piece->size);

		piece->got = got > 0 ? (uint32_t)got : 0;
		bytes += piece->size;
		if (got < 0 && !is_unreadable(got))
			area->status = (int)got;
	}
}

static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		ssize_t got = read_sampled_bytes(context, (uintptr_t)ranges[i].iov_base,
						 bytes + total, ranges[i].iov_len);

		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return total;
}

void snap_reading_plan(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	struct snap_region room = area->plan_room;
	int fd = open_memory(area);

	area->status = fd < 0 ? fd : 0;
	if (fd >= 0)
		snap_thread_plan_execute(&area->plan, area->plan_work, SNAP_THREAD_PLAN_NS, &room);
}

static void find_sampled_runtimes(struct snap_reading_area *area,
				  const struct snap_space_reader *reader)
{
	const struct snap_runtime_candidate candidate = {
		.space = &area->about.space,
		.wanted = area->wanted,
		.buffer = (uint8_t *)reader->buffer,
		.buffer_size = LINES,
		.read = read_ranges,
		.context = area,
	};

	area->about.runtimes = snap_plan_candidates(&candidate);
}

static void read_network(struct snap_reading_area *area, int task_fd)
{
	char text[PATH];
	ssize_t length = snap_procfs_link(task_fd, "ns/net", text, sizeof(text));

	if (length > 0)
		snap_parse_namespace(text, (size_t)length, &area->about.net_namespace);
}

void snap_reading_space(void *memory, uint32_t item _unused_)
{
	struct snap_reading_area *area = memory;
	_cleanup_fd_ int task_fd = open_task_file(area, ""), fd = -1;
	struct snap_credentials credentials;
	struct snap_space_reader reader = { .records = &area->records,
					    .buffer_size = LINES,
					    .read = read_ranges,
					    .context = area,
					    .taken = &area->taken };
	int error = open_memory(area);

	area->records = (struct snap_region){ area->bytes, area->bytes + SNAP_READING_SPACE_BYTES };
	area->about = (struct snap_reader_space){ .runtimes = 0 };
	snap_credentials_begin(task_fd, &credentials);
	fd = error < 0 ? -1 : open_task_file(area, "maps");
	area->status = error < 0 ? error : fd < 0 ? fd : 0;
	if (area->status)
		return;
	reader.buffer = snap_region_alloc(&area->records, LINES);
	reader.maps = snap_region_new_array(&area->records, SNAP_MAX_MAPS, struct snap_map);
	if (!reader.buffer || !reader.maps)
		area->status = -ENOMEM;
	else
		area->status = snap_space_read_maps(&reader, fd, &area->about.space);
	credentials.known = snap_credentials_hold(task_fd, &credentials);
	area->about.credentials = credentials;
	read_network(area, task_fd);
	/* Its memory may have been open for long: the mappings are not known to be of the same. */
	if (!area->status && !is_same_program(area, false))
		area->status = -ESTALE;
	if (area->status)
		return;
	area->target.is_file = true; /* first pages of modules */
	snap_space_read_pieces(&reader, &area->about.space);
	if (area->wanted)
		find_sampled_runtimes(area, &reader);
}
