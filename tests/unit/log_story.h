/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A log with a bit of everything, told in parts that follow each other, and files of logs in memory.
 */
#pragma once

#include "base/buffer.h"
#include "fine.h"
#include "store/recording/internal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* ---- files ---- */

static inline int memory_file(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static inline struct snap_log *read_bytes(const uint8_t *bytes, size_t size,
					  struct stacksnap_error **err_ret)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = NULL;

	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	*err_ret = snap_log_read(fd, &log);
	return log;
}

/* The bytes so far, malloc'ed. */
static inline uint8_t *slurp(int fd, size_t *size_ret)
{
	off_t size = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)size + 1);

	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	*size_ret = (size_t)size;
	return bytes;
}

/* ---- threads and tasks ---- */

static uint8_t head_page[256] = { 0x7f, 'E', 'L', 'F' };

static struct snap_map maps[] = {
	{ .start = 0x1000,
	  .end = 0x3000,
	  .inode = 7,
	  .read = true,
	  .execute = true,
	  .path = "/bin/prog" },
	{ .start = 0x7f0000000000, .end = 0x7f0000100000, .read = true, .write = true },
};

static struct snap_ancestor ancestors[] = { { 1, "init", 5 } };
static struct snap_piece pieces[] = { { 0x1000, head_page, sizeof(head_page) } };

static struct snap_process facts = {
	.pid = 10,
	.ppid = 1,
	.name = "prog",
	.state = 'S',
	.exe = "/bin/prog",
	.args = "prog\0\0-x",
	.args_size = 9,
	.uid = 1000,
	.user = "me",
	.cgroup = "/a/b",
	.ancestors = ancestors,
	.ancestor_count = 1,
	.is_target = true,
	.parent = SIZE_MAX,
	.arch = SNAP_ARCH_X86_64,
	.maps = maps,
	.map_count = 2,
	.pieces = pieces,
	.piece_count = 1,
};

static inline struct snap_log *make_log(void)
{
	struct snap_host host = { .name = "host",
				  .kernel = "6.1",
				  .arch = "x86_64",
				  .cpus = 4,
				  .ticks_per_second = 100 };
	struct snap_log *log;

	fine(snap_log_create(&host, 1700000000000000000, 10101010, false, &log));
	log->stats = (struct snap_recording_stats){
		.hz_asked = 99, .hz_reached = 98.7, .left_out = 321, .elapsed_ns = 50000001
	};
	return log;
}

static inline uint32_t stack_of(struct snap_log *log, uint32_t space, uint64_t first, size_t count,
				const char *reason)
{
	uint64_t bits[1000];
	struct snap_log_pcs pcs = { .bits = bits, .count = count, .reason = reason };
	uint32_t stack;

	for (size_t i = 0; i < count; i++)
		bits[i] = 0x1000 + (i ? 8 * i : 8 * first);
	if (count)
		bits[0] |= 1ull << 63;
	if (count > 2) {
		bits[1] = snap_pc_found_by((struct snap_pc){ bits[1] }, SNAP_TRUST_SCAN).bits;
		bits[2] = snap_pc_found_by((struct snap_pc){ bits[2] }, SNAP_TRUST_FRAME_POINTER)
				  .bits;
	}
	if (reason) {
		pcs.end = SNAP_UNWIND_NO_CFI;
		pcs.end_pc = 0x1234;
		pcs.gap_after = 1;
		pcs.gap_count = 99;
	}
	fine(snap_log_stack(log, space, &pcs, &stack));
	return stack;
}

static inline void change_to(struct snap_log *log, uint32_t thread, uint32_t stack,
			     enum snap_state state, int syscall)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = (int16_t)syscall,
					  .state = (uint8_t)state,
					  .taken = SNAP_TAKEN_UNSTOPPED };

	fine(snap_log_change(log, &change));
}

/* Ticks 0 and 1, ended. */
static inline void begin_story(struct snap_log *log)
{
	uint32_t process, thread, space;

	fine(snap_log_begin_tick(log, 0));
	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	fine(snap_log_add_thread(log, process, 10, 1, "main", false, &thread));
	fine(snap_log_add_thread(log, process, 12, 2, NULL, true, &thread));
	change_to(log, 0, stack_of(log, space, 1, 5, NULL), SNAP_STATE_RUNNING, -1);
	change_to(log, 1, stack_of(log, space, 2, 0, NULL), SNAP_STATE_SLEEPING, 202);
	snap_log_end_tick(log, 12345);
	fine(snap_log_begin_tick(log, 10101010));
	change_to(log, 0, stack_of(log, space, 3, 600, NULL), SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 0);
}

/* Ticks 2 to 4: a library comes, a child is born, a thread gets a name and ends. */
static inline void go_on(struct snap_log *log)
{
	struct snap_map more[] = { maps[0], maps[0], maps[1] };
	struct snap_process now = facts;
	uint32_t process, thread, space;

	more[1].start = 0x5000;
	more[1].end = 0x6000;
	more[1].inode = 8;
	more[1].path = "/lib/plug";
	now.maps = more;
	now.map_count = 3;
	fine(snap_log_begin_tick(log, 20202020));
	fine(snap_log_map_process(log, 0, &now, NULL, &space));
	fine(snap_log_rename_thread(log, 1, "worker"));
	change_to(log, 0, stack_of(log, space, 4, 600, "no unwind information"), SNAP_STATE_DISK,
		  1);
	snap_log_end_tick(log, 7);
	fine(snap_log_begin_tick(log, 30000000));
	now.pid = 44;
	now.trouble = SNAP_TROUBLE_PERMISSION_DENIED;
	now.trouble_message = "not allowed";
	fine(snap_log_add_process(log, 44, 6, 0, UINT32_MAX, false, &process));
	fine(snap_log_map_process(log, process, &now, NULL, &space));
	fine(snap_log_add_thread(log, process, 44, 1, "child", false, &thread));
	change_to(log, thread, stack_of(log, space, 1, 5, NULL), SNAP_STATE_SLEEPING, 0);
	fine(snap_log_end_thread(log, 1));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 40000000));
	snap_log_end_process(log, 0);
	snap_log_end_tick(log, 0);
	log->stats.ticks = 5;
	log->end = SNAP_END_TARGETS;
	snap_capture_warn(log->capture, "perf_map_refused", 10, 0, "it is \x1b[31m odd");
}

/* Tick 5: functions of an interpreter around a machine frame, with labels. */
static inline void run_managed(struct snap_log *log)
{
	struct snap_entry inner[] = { { .function = "inlined", .inlined = true, .language = "go" },
				      { .function = "inner",
					.symbol = "pkg.inner",
					.file = "a.go",
					.line = 7,
					.language = "go" } };
	struct snap_entry outer = { .function = "Klasse.f\xc3\xbc",
				    .file = "/srv/a.py",
				    .line = 12,
				    .column = 3,
				    .system = true,
				    .language = "python" };
	const struct snap_frame frames[] = {
		{ .address = 0x401000, .entries = inner, .entry_count = 2 },
		{ .entries = &outer, .entry_count = 1 },
	};
	const struct snap_log_managed managed[] = { { 0, &frames[0] }, { 2, &frames[1] } };
	const struct snap_label labels[] = { { "request", "/a?b=1" }, { "user", "" } };
	const uint64_t bits[] = { 1, 0x1008, 2, 0x1010 };
	struct snap_log_pcs pcs = { .bits = bits,
				    .count = 4,
				    .managed = managed,
				    .managed_count = 2,
				    .labels = labels,
				    .label_count = 2 };
	uint32_t stack;

	fine(snap_log_begin_tick(log, 45000000));
	fine(snap_log_stack(log, 1, &pcs, &stack));
	change_to(log, 2, stack, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 0);
	pcs.label_count = 1;
	pcs.shows_all = true;
	fine(snap_log_stack(log, 1, &pcs, &stack));
}

/* A task that waits, runs, and waits for something else; and one that says little of itself. */
static inline void run_tasks(struct snap_log *log)
{
	const struct snap_entry by = { .function = "main.main", .file = "main.go", .line = 7 };
	const struct snap_label labels[] = { { "request", "/a" }, { "user", "" } };
	const struct snap_log_task tasks[] = {
		{ .id = "18",
		  .name = "w-1",
		  .runtime = "go",
		  .parent = "1",
		  .created_by = &by,
		  .labels_cut = true },
		{ .id = "0x7f00", .runtime = "cpython" },
	};
	uint32_t first, second, stack = stack_of(log, 1, 3, 4, NULL);
	int16_t wait, other;

	fine(snap_log_begin_tick(log, 55000000));
	fine(snap_log_add_task(log, log->spaces[1].process, 1, &tasks[0], labels, 2, &first));
	fine(snap_log_add_task(log, log->spaces[1].process, 1, &tasks[1], NULL, 0, &second));
	fine(snap_log_wait(log, "chan receive", &wait));
	fine(snap_log_wait(log, NULL, &other));
	assert_int_equal(other, -1);
	change_to(log, first, stack, (enum snap_state)SNAP_TASK_WAITING, wait);
	change_to(log, second, stack, (enum snap_state)SNAP_TASK_RUNNABLE, -1);
	snap_log_end_tick(log, 1000);
	fine(snap_log_begin_tick(log, 65000000));
	change_to(log, first, SNAP_LOG_GONE, SNAP_STATE_UNKNOWN, -1);
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 75000000));
	fine(snap_log_wait(log, "select", &other));
	assert_int_not_equal(other, wait);
	change_to(log, first, stack, (enum snap_state)SNAP_TASK_WAITING, other);
	snap_log_end_tick(log, 0);
	log->stats.task_looks = 3;
	log->stats.task_looks_left_out = 2;
}

/* ---- what threads wait for ---- */

static inline uint32_t object_of(struct snap_log *log, uint32_t space, int64_t number,
				 uint64_t argument, bool has_descriptor,
				 const struct snap_memory_image *words)
{
	struct snap_descriptor descriptor = { .number = (int32_t)argument,
					      .kind = SNAP_DESCRIPTOR_SOCKET,
					      .link = "socket:[77]",
					      .inode = 77 };
	const struct snap_log_object object = {
		.space = space,
		.call = { .known = true,
			  .number = number,
			  .arguments = { argument, (uint64_t)-100 },
			  .sp = argument == 0x7f0000 ? argument : 0x1234 },
		.is_futex = number == 202,
		.descriptors = &descriptor,
		.descriptor_count = has_descriptor,
	};
	uint32_t ret;

	fine(snap_log_find_object(log, &object, words, &ret));
	return ret;
}

static inline void stand(struct snap_log *log, uint32_t thread, uint32_t stack, uint32_t object)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = 202,
					  .state = SNAP_STATE_SLEEPING,
					  .object = object };

	fine(snap_log_change(log, &change));
}

/* A lock that changes hands, a socket, a poll; the thread that waits is the child's. */
static inline void run_waits(struct snap_log *log)
{
	uint8_t bytes[64] = { 1, 0, 0, 0, 2 };
	struct snap_memory_piece scattered[] = { { 0x5000, 40, bytes }, { 0x9000, 8, bytes } };
	const struct snap_memory_image words = { .pieces = scattered, .piece_count = 2 };
	struct snap_socket socket = { .namespace = 3,
				      .inode = 77,
				      .family = SNAP_SOCKET_TCP4,
				      .state = 1,
				      .local = { { 127, 0, 0, 1 }, 80 },
				      .remote = { { 10 }, 5555 },
				      .receive_queue = 1 };
	uint32_t lock, late, stack = stack_of(log, 1, 7, 4, NULL);

	fine(snap_log_begin_tick(log, 85000000));
	lock = object_of(log, 1, 202, 0x5000, false, &words);
	stand(log, 2, stack, lock);
	fine(snap_log_add_socket(log, &socket));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 95000000));
	bytes[8] = 44;
	fine(snap_log_set_owner(log, lock - 1, &words));
	stand(log, 2, stack, object_of(log, 1, 0, 3, true, NULL));
	socket.receive_queue = 2;
	fine(snap_log_add_socket(log, &socket));
	socket = (struct snap_socket){
		.namespace = 3, .inode = 78, .family = SNAP_SOCKET_UNIX, .name = "@x", .peer = 77
	};
	fine(snap_log_add_socket(log, &socket));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 105000000));
	fine(snap_log_set_owner(log, lock - 1, NULL));
	late = object_of(log, 1, 202, 0x7f0000, false, NULL);
	stand(log, 2, stack, object_of(log, 1, 7, 0x9000, false, &words));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 115000000));
	fine(snap_log_set_owner(log, lock - 1, &words));
	fine(snap_log_set_owner(log, late - 1, &words));
	stand(log, 2, stack, late);
	snap_log_end_tick(log, 0);
}

/* Threads that run while they wait: once, once more, before each tick, and not any more. */
static inline void run_wakes(struct snap_log *log)
{
	static const bool runs[] = { true, false, true, true, false };
	int64_t time = log->ticks[log->tick_count - 1].time_ns;

	log->wakes_end = UINT64_MAX;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(runs); i++) {
		fine(snap_log_begin_tick(log, time += 10000000));
		if (runs[i])
			snap_log_ran(log, 2);
		snap_log_end_tick(log, 0);
	}
	assert_int_equal(log->wake_count, 4);
	log->wakes_end = snap_log_tick_at(log);
}

static inline void explain(struct snap_log *log)
{
	struct snap_wait_party server = {
		.pid = 12, .name = "server", .state = 'S', .outside = true
	};
	int32_t fds[] = { 3, 5 };
	uint32_t kinds[] = { SNAP_DESCRIPTOR_SOCKET, SNAP_DESCRIPTOR_TTY };
	struct snap_wait mutex = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);
	struct snap_wait tcp = snap_wait_init(SNAP_WAIT_TCP, SNAP_WAIT_IS_CERTAIN);
	struct snap_wait poll = snap_wait_init(SNAP_WAIT_POLL, SNAP_WAIT_IS_GUESS);
	const struct snap_wait *waits[] = { &mutex, &tcp, NULL, &poll };

	mutex.address = 0x5000;
	mutex.symbol = "lock";
	mutex.module = "/bin/prog";
	mutex.variant = "robust";
	mutex.owner_word = (struct snap_owner_word){ 0x5008, SNAP_OWNER_FORM_TID };
	mutex.waiters = 0;
	mutex.value = INT64_MAX;
	mutex.call = "futex";
	tcp.fd = 3;
	tcp.path = "socket:[77]";
	tcp.local = "127.0.0.1:80";
	tcp.recv_queue = 7;
	tcp.mode = SNAP_WAIT_READ;
	tcp.peers = &server;
	tcp.peer_count = tcp.peer_total = 1;
	tcp.child = -7;
	tcp.owner_lack = SNAP_OWNER_NOT_KEPT;
	poll.timed = true;
	poll.fd_count = 2;
	poll.fds = fds;
	poll.fd_kinds = kinds;
	poll.fds_count = 2;
	poll.kinds_watched[SNAP_DESCRIPTOR_SOCKET] = 1;
	poll.listen_address = "tcp 127.0.0.1:80";
	for (uint32_t i = 0; i < log->object_count; i++)
		fine(snap_log_explain(log, (uint32_t)log->stack_count - 1, i, waits[i % 4]));
}

/* Formats before 4 tell the language of managed frames alone. */
static inline void name_frames(struct snap_log *log, const char *language)
{
	for (size_t i = 0; i < log->frame_count; i += 2) {
		struct snap_entry *entries =
			snap_arena_new_array(&log->arena, 2, struct snap_entry);
		struct snap_frame frame = { .address = snap_pc_address(
						    (struct snap_pc){ log->frames[i].bits }),
					    .offset = 0x10 + i,
					    .has_offset = i % 4 == 0,
					    .file_offset = i,
					    .module = "/bin/prog",
					    .build_id = i ? "abcd" : NULL,
					    .entries = entries,
					    .entry_count = 1 + i / 2 % 2 };

		if (log->frames[i].is_managed)
			continue;
		entries[0] = (struct snap_entry){ .function = "f()",
						  .symbol = "_f",
						  .file = "a.c",
						  .line = 4,
						  .column = 2,
						  .inlined = true };
		entries[1].system = true;
		entries[1].language = language;
		if (frame.offset != 0 && !frame.has_offset)
			frame.offset = 0;
		assert_true(
			snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
		log->names[log->name_count++] = frame;
		log->frames[i].name = (uint32_t)log->name_count;
	}
}

/* ---- all of it ---- */

/* All that comes after the first two ticks. */
static inline void tell_rest(struct snap_log *log)
{
	go_on(log);
	run_managed(log);
	run_tasks(log);
	run_waits(log);
	run_wakes(log);
	name_frames(log, "go");
	explain(log);
	log->stats.ticks_late = 4;
	log->stats.ticks_left_out = 1;
}

static inline uint8_t *story_bytes(size_t *size_ret, size_t *first_flush_ret)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	uint8_t *bytes;

	log->explains = true;
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	*first_flush_ret = (size_t)lseek(fd, 0, SEEK_CUR);
	tell_rest(log);
	fine(snap_log_writer_finish(writer, log));
	bytes = slurp(fd, size_ret);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
	return bytes;
}
