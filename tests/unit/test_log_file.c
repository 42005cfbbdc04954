/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs on disk: what is written is read back; what is cut short is what came before; what is
 * damaged is refused, and never does harm; and how large an hour is.
 */
#include "base/buffer.h"
#include "base/table.h"
#include "fine.h"
#include "skip.h"
#include "store/recording/internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static int memory_file(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct snap_log *read_bytes(const uint8_t *bytes, size_t size,
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
static uint8_t *slurp(int fd, size_t *size_ret)
{
	off_t size = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)size + 1);

	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	*size_ret = (size_t)size;
	return bytes;
}

/* ---- a log with a bit of everything ---- */

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

static struct snap_log *make_log(void)
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

static uint32_t stack_of(struct snap_log *log, uint32_t space, uint64_t first, size_t count,
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

static void change_to(struct snap_log *log, uint32_t thread, uint32_t stack, enum snap_state state,
		      int syscall)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = (int16_t)syscall,
					  .state = (uint8_t)state,
					  .taken = SNAP_TAKEN_UNSTOPPED };

	fine(snap_log_change(log, &change));
}

/* Ticks 0 and 1, ended. */
static void begin_story(struct snap_log *log)
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
static void go_on(struct snap_log *log)
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
static void run_managed(struct snap_log *log)
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
static void run_tasks(struct snap_log *log)
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

static uint32_t object_of(struct snap_log *log, uint32_t space, int64_t number, uint64_t argument,
			  bool has_descriptor, const struct snap_memory_image *words)
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

static void stand(struct snap_log *log, uint32_t thread, uint32_t stack, uint32_t object)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = 202,
					  .state = SNAP_STATE_SLEEPING,
					  .object = object };

	fine(snap_log_change(log, &change));
}

/* A lock that changes hands, a socket, a poll; the thread that waits is the child's. */
static void run_waits(struct snap_log *log)
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
	fine(snap_log_hold(log, lock - 1, &words));
	stand(log, 2, stack, object_of(log, 1, 0, 3, true, NULL));
	socket.receive_queue = 2;
	fine(snap_log_add_socket(log, &socket));
	socket = (struct snap_socket){
		.namespace = 3, .inode = 78, .family = SNAP_SOCKET_UNIX, .name = "@x", .peer = 77
	};
	fine(snap_log_add_socket(log, &socket));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 105000000));
	fine(snap_log_hold(log, lock - 1, NULL));
	late = object_of(log, 1, 202, 0x7f0000, false, NULL);
	stand(log, 2, stack, object_of(log, 1, 7, 0x9000, false, &words));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 115000000));
	fine(snap_log_hold(log, lock - 1, &words));
	fine(snap_log_hold(log, late - 1, &words));
	stand(log, 2, stack, late);
	snap_log_end_tick(log, 0);
}

static void explain(struct snap_log *log)
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
static void name_frames(struct snap_log *log, const char *language)
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

/* ---- comparing ---- */

static void same_text(const char *a, const char *b)
{
	if (!a || !b)
		assert_true(a == b);
	else
		assert_string_equal(a, b);
}

static void same_process(const struct snap_process *a, const struct snap_process *b)
{
	assert_int_equal(a->pid, b->pid);
	same_text(a->name, b->name);
	same_text(a->exe, b->exe);
	assert_int_equal(a->args_size, b->args_size);
	assert_memory_equal(a->args, b->args, a->args_size);
	same_text(a->user, b->user);
	same_text(a->cgroup, b->cgroup);
	same_text(a->trouble_message, b->trouble_message);
	assert_int_equal(a->trouble, b->trouble);
	assert_int_equal(a->ancestor_count, b->ancestor_count);
	same_text(a->ancestors[0].name, b->ancestors[0].name);
	assert_true(b->parent == SIZE_MAX);
	/* The last one of each is anonymous: nothing is looked up in it. */
	assert_int_equal(b->map_count, a->map_count - (a->maps[a->map_count - 1].path == NULL));
	for (size_t i = 0; i < b->map_count; i++) {
		assert_int_equal(a->maps[i].start, b->maps[i].start);
		assert_int_equal(a->maps[i].end, b->maps[i].end);
		assert_int_equal(a->maps[i].offset, b->maps[i].offset);
		assert_int_equal(a->maps[i].inode, b->maps[i].inode);
		assert_int_equal(a->maps[i].execute, b->maps[i].execute);
		assert_int_equal(a->maps[i].write, b->maps[i].write);
		same_text(a->maps[i].path, b->maps[i].path);
	}
	assert_int_equal(a->piece_count, b->piece_count);
	for (size_t i = 0; i < a->piece_count; i++) {
		assert_int_equal(a->pieces[i].address, b->pieces[i].address);
		assert_int_equal(a->pieces[i].size, b->pieces[i].size);
		assert_memory_equal(a->pieces[i].data, b->pieces[i].data, a->pieces[i].size);
	}
}

static void same_names(const struct snap_log *a, const struct snap_log *b)
{
	for (size_t i = 0; i < a->frame_count; i++) {
		const struct snap_frame *x, *y;

		assert_int_equal(a->frames[i].bits, b->frames[i].bits);
		assert_int_equal(a->frames[i].space, b->frames[i].space);
		assert_int_equal(a->frames[i].is_managed, b->frames[i].is_managed);
		assert_int_equal(!a->frames[i].name, !b->frames[i].name);
		if (!a->frames[i].name)
			continue;
		x = &a->names[a->frames[i].name - 1];
		y = &b->names[b->frames[i].name - 1];
		assert_int_equal(x->address, y->address);
		assert_int_equal(x->offset, y->offset);
		assert_int_equal(x->has_offset, y->has_offset);
		assert_int_equal(x->file_offset, y->file_offset);
		same_text(x->module, y->module);
		same_text(x->build_id, y->build_id);
		assert_int_equal(x->entry_count, y->entry_count);
		for (size_t k = 0; k < x->entry_count; k++) {
			same_text(x->entries[k].function, y->entries[k].function);
			same_text(x->entries[k].symbol, y->entries[k].symbol);
			same_text(x->entries[k].file, y->entries[k].file);
			assert_int_equal(x->entries[k].line, y->entries[k].line);
			assert_int_equal(x->entries[k].column, y->entries[k].column);
			assert_int_equal(x->entries[k].inlined, y->entries[k].inlined);
			assert_int_equal(x->entries[k].system, y->entries[k].system);
			same_text(x->entries[k].language, y->entries[k].language);
		}
	}
}

static void same_stacks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->frame_count, b->frame_count);
	assert_int_equal(a->frame_id_count, b->frame_id_count);
	assert_memory_equal(a->frame_ids, b->frame_ids, a->frame_id_count * sizeof(uint32_t));
	assert_int_equal(a->stack_count, b->stack_count);
	for (size_t i = 0; i < a->stack_count; i++) {
		const struct snap_log_stack *x = &a->stacks[i], *y = &b->stacks[i];

		assert_int_equal(x->space, y->space);
		assert_int_equal(x->frame_start, y->frame_start);
		assert_int_equal(x->frame_count, y->frame_count);
		assert_int_equal(x->end, y->end);
		assert_int_equal(x->end_pc, y->end_pc);
		assert_int_equal(x->gap_after, y->gap_after);
		assert_int_equal(x->gap_count, y->gap_count);
		assert_int_equal(x->reason, y->reason);
		assert_int_equal(x->labels, y->labels);
		assert_int_equal(x->shows_all, y->shows_all);
	}
	assert_int_equal(a->label_set_count, b->label_set_count);
	for (size_t i = 0; i < a->label_set_count; i++) {
		assert_int_equal(a->label_sets[i].space, b->label_sets[i].space);
		assert_int_equal(a->label_sets[i].count, b->label_sets[i].count);
		for (size_t k = 0; k < a->label_sets[i].count; k++) {
			same_text(a->label_sets[i].labels[k].key, b->label_sets[i].labels[k].key);
			same_text(a->label_sets[i].labels[k].value,
				  b->label_sets[i].labels[k].value);
		}
	}
	assert_int_equal(a->reason_count, b->reason_count);
	for (size_t i = 0; i < a->reason_count; i++)
		same_text(a->reasons[i], b->reasons[i]);
}

static void same_tasks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->task_count, b->task_count);
	for (size_t i = 0; i < a->task_count; i++) {
		const struct snap_log_task *x = &a->tasks[i], *y = &b->tasks[i];

		same_text(x->id, y->id);
		same_text(x->name, y->name);
		same_text(x->runtime, y->runtime);
		same_text(x->parent, y->parent);
		assert_int_equal(x->labels, y->labels);
		assert_int_equal(x->labels_cut, y->labels_cut);
		assert_int_equal(!x->created_by, !y->created_by);
		if (!x->created_by)
			continue;
		same_text(x->created_by->function, y->created_by->function);
		same_text(x->created_by->file, y->created_by->file);
		assert_int_equal(x->created_by->line, y->created_by->line);
	}
	assert_int_equal(a->call_count, b->call_count);
	for (size_t i = 0; i < a->call_count; i++)
		same_text(a->calls[i].wchan, b->calls[i].wchan);
}

static void same_change(const struct snap_log_change *a, const struct snap_log_change *b)
{
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->stack, b->stack);
	assert_int_equal(a->syscall, b->syscall);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->taken, b->taken);
	assert_int_equal(a->object, b->object);
}

static void same_objects(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->words_count, b->words_count);
	for (size_t i = 0; i < a->words_count; i++) {
		assert_int_equal(a->words[i].space, b->words[i].space);
		assert_int_equal(a->words[i].piece_count, b->words[i].piece_count);
		assert_true(a->words[i].hash == b->words[i].hash);
	}
	assert_int_equal(a->object_count, b->object_count);
	for (size_t i = 0; i < a->object_count; i++) {
		const struct snap_log_object *x = &a->objects[i], *y = &b->objects[i];

		assert_int_equal(x->space, y->space);
		assert_int_equal(x->call.known, y->call.known);
		assert_int_equal(x->call.number, y->call.number);
		assert_int_equal(x->call.sp, y->call.sp);
		assert_memory_equal(x->call.arguments, y->call.arguments,
				    sizeof(x->call.arguments));
		assert_int_equal(x->is_futex, y->is_futex);
		assert_int_equal(x->words, y->words);
		assert_int_equal(x->descriptor_count, y->descriptor_count);
		for (uint32_t k = 0; k < x->descriptor_count; k++) {
			assert_int_equal(x->descriptors[k].number, y->descriptors[k].number);
			assert_int_equal(x->descriptors[k].kind, y->descriptors[k].kind);
			assert_int_equal(x->descriptors[k].inode, y->descriptors[k].inode);
			assert_int_equal(x->descriptors[k].remaining_ns,
					 y->descriptors[k].remaining_ns);
			same_text(x->descriptors[k].link, y->descriptors[k].link);
		}
		assert_int_equal(snap_log_held(a, (uint32_t)i) != NULL,
				 snap_log_held(b, (uint32_t)i) != NULL);
	}
	assert_int_equal(a->socket_count, b->socket_count);
	for (size_t i = 0; i < a->socket_count; i++) {
		assert_int_equal(a->sockets[i].inode, b->sockets[i].inode);
		assert_int_equal(a->sockets[i].namespace, b->sockets[i].namespace);
		assert_int_equal(a->sockets[i].family, b->sockets[i].family);
		assert_int_equal(a->sockets[i].state, b->sockets[i].state);
		assert_memory_equal(&a->sockets[i].local, &b->sockets[i].local,
				    sizeof(a->sockets[i].local));
		assert_memory_equal(&a->sockets[i].remote, &b->sockets[i].remote,
				    sizeof(a->sockets[i].remote));
		assert_int_equal(a->sockets[i].receive_queue, b->sockets[i].receive_queue);
		assert_int_equal(a->sockets[i].peer, b->sockets[i].peer);
		same_text(a->sockets[i].name, b->sockets[i].name);
	}
}

static void same_waits(const struct snap_log *a, const struct snap_log *b)
{
	same_objects(a, b);
	assert_int_equal(a->explained_count, b->explained_count);
	for (size_t i = 0; i < a->explained_count; i++) {
		const struct snap_wait *x = a->explained[i].wait, *y = b->explained[i].wait;

		assert_int_equal(a->explained[i].stack, b->explained[i].stack);
		assert_int_equal(a->explained[i].object, b->explained[i].object);
		assert_ptr_equal(
			snap_log_explained(b, b->explained[i].stack, b->explained[i].object),
			&b->explained[i]);
		assert_int_equal(x != NULL, y != NULL);
		if (!x)
			continue;
		assert_int_equal(x->confidence, y->confidence);
		assert_int_equal(x->owner_word.address, y->owner_word.address);
		assert_int_equal(x->owner_word.form, y->owner_word.form);
		assert_int_equal(y->value, x->value == INT64_MAX ? INT64_MAX / 4 : x->value);
		if (x->value != INT64_MAX)
			assert_true(snap_wait_same(x, y));
		else
			same_text(x->symbol, y->symbol);
		if (x->peer_count)
			same_text(x->peers[0].name, y->peers[0].name);
	}
}

static void same_ticks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->tick_count, b->tick_count);
	assert_int_equal(a->first_tick, b->first_tick);
	for (size_t i = 0; i < a->tick_count; i++) {
		assert_int_equal(a->ticks[i].time_ns, b->ticks[i].time_ns);
		assert_int_equal(a->ticks[i].stopped_ns, b->ticks[i].stopped_ns);
		assert_int_equal(a->ticks[i].change_end - a->first_change,
				 b->ticks[i].change_end - b->first_change);
		assert_int_equal(a->ticks[i].hold_end - a->first_hold,
				 b->ticks[i].hold_end - b->first_hold);
	}
	assert_int_equal(a->change_count, b->change_count);
	for (size_t i = 0; i < a->change_count; i++)
		same_change(&a->changes[i], &b->changes[i]);
	assert_int_equal(a->before_count, b->before_count);
	for (size_t i = 0; i < a->before_count; i++)
		same_change(&a->before[i], &b->before[i]);
	assert_int_equal(a->hold_count, b->hold_count);
	if (a->hold_count)
		assert_memory_equal(a->holds, b->holds, a->hold_count * sizeof(*a->holds));
	for (size_t i = 0; i < a->object_count; i++)
		assert_int_equal(i < a->held_before_count ? a->held_before[i] : 0,
				 i < b->held_before_count ? b->held_before[i] : 0);
}

static void same_logs(const struct snap_log *a, const struct snap_log *b)
{
	same_text(a->capture->host.name, b->capture->host.name);
	same_text(a->capture->host.boot_id, b->capture->host.boot_id);
	assert_int_equal(a->capture->host.cpus, b->capture->host.cpus);
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->period_ns, b->period_ns);
	assert_int_equal(a->end, b->end);
	assert_memory_equal(&a->stats, &b->stats, sizeof(a->stats));
	assert_int_equal(a->process_count, b->process_count);
	for (size_t i = 0; i < a->process_count; i++) {
		assert_int_equal(a->processes[i].pid, b->processes[i].pid);
		assert_int_equal(a->processes[i].parent, b->processes[i].parent);
		assert_int_equal(a->processes[i].space, b->processes[i].space);
		assert_int_equal(a->processes[i].first_tick, b->processes[i].first_tick);
		assert_true(a->processes[i].last_tick == b->processes[i].last_tick);
		assert_int_equal(a->processes[i].execed, b->processes[i].execed);
		assert_int_equal(a->processes[i].is_target, b->processes[i].is_target);
	}
	assert_int_equal(a->capture->process_count, b->capture->process_count);
	for (size_t i = 0; i < a->capture->process_count; i++) {
		assert_int_equal(a->spaces[i].process, b->spaces[i].process);
		same_process(&a->capture->processes[i], &b->capture->processes[i]);
	}
	assert_int_equal(a->thread_count, b->thread_count);
	for (size_t i = 0; i < a->thread_count; i++) {
		assert_int_equal(a->threads[i].process, b->threads[i].process);
		assert_int_equal(a->threads[i].tid, b->threads[i].tid);
		assert_int_equal(a->threads[i].ns_tid, b->threads[i].ns_tid);
		assert_int_equal(a->threads[i].kernel, b->threads[i].kernel);
		same_text(a->threads[i].name, b->threads[i].name);
		assert_int_equal(a->threads[i].task, b->threads[i].task);
	}
	same_tasks(a, b);
	same_stacks(a, b);
	same_names(a, b);
	same_waits(a, b);
	same_ticks(a, b);
	assert_int_equal(a->capture->warning_count, b->capture->warning_count);
	for (size_t i = 0; i < a->capture->warning_count; i++)
		same_text(a->capture->warnings[i].message, b->capture->warnings[i].message);
}

/* ---- round trips ---- */

static void test_written_at_once(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log(), *back;

	begin_story(log);
	go_on(log);
	run_managed(log);
	run_tasks(log);
	run_waits(log);
	name_frames(log, "go");
	explain(log);
	fine(snap_log_write(log, fd));
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	same_logs(log, back);
	assert_true(back->capture->live == NULL);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* What has been read can be written again, byte for byte the same. */
static void test_written_again(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file(), again_fd = memory_file();
	struct snap_log *log = make_log(), *back;
	_cleanup_free_ uint8_t *bytes = NULL, *again = NULL;
	size_t size, again_size;

	begin_story(log);
	go_on(log);
	run_managed(log);
	run_tasks(log);
	run_waits(log);
	name_frames(log, "go");
	explain(log);
	fine(snap_log_write(log, fd));
	bytes = slurp(fd, &size);
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	fine(snap_log_write(back, again_fd));
	again = slurp(again_fd, &again_size);
	assert_int_equal(size, again_size);
	assert_memory_equal(bytes, again, size);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

static void test_written_as_it_grows(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	_cleanup_free_ uint8_t *bytes = NULL;
	struct snap_log *log = make_log(), *back;
	struct snap_log_writer *writer;
	struct stacksnap_error *err;
	struct snap_memory_piece piece = { 0x5000, 4, (uint8_t *)"\1\2\3" };
	const struct snap_memory_image words = { .pieces = &piece, .piece_count = 1 };
	const struct snap_socket socket = { .namespace = 3, .inode = 77, .receive_queue = 9 };
	size_t size;

	fine(snap_log_writer_create(log, fd, &writer));
	fine(snap_log_writer_flush(writer, log));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	/* Somebody reads meanwhile. */
	bytes = slurp(fd, &size);
	back = read_bytes(bytes, size, &err);
	assert_null(err);
	assert_int_equal(back->tick_count, 2);
	assert_int_equal(back->end, SNAP_END_UNFINISHED);
	assert_int_equal(back->stats.hz_asked, 99);
	same_ticks(log, back);
	snap_log_destroy(back);
	go_on(log);
	run_managed(log);
	/* A tick that is not over is not written. */
	fine(snap_log_begin_tick(log, 50000000));
	change_to(log, 0, 0, SNAP_STATE_RUNNING, -1);
	fine(snap_log_writer_flush(writer, log));
	change_to(log, 2, SNAP_LOG_GONE, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 3);
	run_waits(log);
	/* Nor are its holds. */
	fine(snap_log_begin_tick(log, 125000000));
	fine(snap_log_hold(log, 0, NULL));
	stand(log, 2, snap_log_standing(log, 2)->stack, 0);
	fine(snap_log_writer_flush(writer, log));
	fine(snap_log_hold(log, 0, &words));
	stand(log, 2, snap_log_standing(log, 2)->stack, 1);
	snap_log_end_tick(log, 0);
	fine(snap_log_writer_flush(writer, log));
	/* A socket is another by now. */
	fine(snap_log_begin_tick(log, 135000000));
	fine(snap_log_add_socket(log, &socket));
	snap_log_end_tick(log, 0);
	name_frames(log, "go");
	explain(log);
	fine(snap_log_writer_finish(writer, log));
	snap_log_writer_destroy(writer);
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	same_logs(log, back);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* Who reads the mappings again and again makes no large file. */
static void test_the_same_mappings_again(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_map now[2] = { maps[0], maps[1] };
	struct snap_process again = facts;
	struct snap_log_writer *writer;
	uint32_t space;
	off_t size, end;

	again.maps = now;
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	size = lseek(fd, 0, SEEK_CUR);
	fine(snap_log_writer_flush(writer, log));
	size = lseek(fd, 0, SEEK_CUR) - size;
	end = lseek(fd, 0, SEEK_CUR);
	/* The heap has grown. */
	now[1].end += 0x1000;
	fine(snap_log_map_process(log, 0, &again, NULL, &space));
	assert_int_equal(log->capture->processes[space].maps[1].end, now[1].end);
	fine(snap_log_writer_flush(writer, log));
	assert_int_equal(lseek(fd, 0, SEEK_CUR) - end, size);
	end += size;
	/* There is code now. */
	now[1].execute = true;
	fine(snap_log_map_process(log, 0, &again, NULL, &space));
	fine(snap_log_writer_flush(writer, log));
	assert_true(lseek(fd, 0, SEEK_CUR) - end > size);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

static void test_ring(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log(), *back;
	bool renumbered;

	begin_story(log);
	go_on(log);
	run_managed(log);
	run_waits(log);
	fine(snap_log_forget(log, 105000000, &renumbered));
	assert_int_equal(log->tick_count, 2);
	assert_int_equal(log->held_before_count, 4);
	assert_int_not_equal(log->held_before[0], 0);
	fine(snap_log_write(log, fd));
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	assert_int_equal(back->first_tick, 8);
	assert_int_equal(back->before[0].stack, log->before[0].stack);
	same_ticks(log, back);
	same_waits(log, back);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* ---- bad files ---- */

static uint8_t *story_bytes(size_t *size_ret, size_t *first_flush_ret)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	uint8_t *bytes;

	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	*first_flush_ret = (size_t)lseek(fd, 0, SEEK_CUR);
	go_on(log);
	run_managed(log);
	run_tasks(log);
	run_waits(log);
	name_frames(log, "go");
	explain(log);
	fine(snap_log_writer_finish(writer, log));
	bytes = slurp(fd, size_ret);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
	return bytes;
}

/*
 * Who reads files of earlier versions reads these bytes: where they change, the version of the
 * format goes up, and a file of the old one is kept to be read here.
 */
static void test_bytes_stay(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	assert_int_equal(snap_hash_bytes(bytes, size, 0), 0xe7cbac2f877a2cce);
}

static struct snap_log *read_fixture(const char *name)
{
	struct snap_log *log;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/tests/unit/fixtures/%s", getenv("STACKSNAP_SOURCE"), name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	fine(snap_log_read(fd, &log));
	close(fd);
	return log;
}

/* The same story, as format 1 had it: what its statistics lack is 0; as formats 2 to 4 had it. */
static void test_earlier_formats(void **state _unused_)
{
	struct snap_log *log = make_log(), *old;

	begin_story(log);
	go_on(log);
	run_managed(log);
	run_tasks(log);
	name_frames(log, "go");
	old = read_fixture("format-4.snaprec");
	same_logs(log, old);
	snap_log_destroy(old);
	snap_log_destroy(log);
	log = make_log();
	begin_story(log);
	go_on(log);
	run_managed(log);
	name_frames(log, NULL);
	old = read_fixture("format-3.snaprec");
	same_logs(log, old);
	snap_log_destroy(old);
	snap_log_destroy(log);
	log = make_log();
	begin_story(log);
	go_on(log);
	name_frames(log, NULL);
	old = read_fixture("format-2.snaprec");
	same_logs(log, old);
	snap_log_destroy(old);
	log->stats.left_out = 0;
	log->stats.elapsed_ns = 0;
	old = read_fixture("format-1.snaprec");
	same_logs(log, old);
	snap_log_destroy(old);
	snap_log_destroy(log);
}

static void test_cut_off_anywhere(void **state _unused_)
{
	size_t size, first_flush, whole = 0;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	for (size_t cut = 0; cut < size; cut++) {
		struct stacksnap_error *err;
		struct snap_log *log = read_bytes(bytes, cut, &err);

		if (err) {
			/* Not even its head is there. */
			assert_true(cut < first_flush && whole == 0);
			assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
			snap_error_destroy(err);
			continue;
		}
		whole++;
		assert_int_equal(log->end, SNAP_END_UNFINISHED);
		assert_true(log->tick_count == 0 || log->tick_count == 2 || log->tick_count == 13);
		assert_int_equal(log->tick_count >= 2, cut >= first_flush);
		snap_log_destroy(log);
	}
	assert_true(whole > 100);
}

static void test_flipped_anywhere(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	for (size_t at = 0; at < size; at++) {
		struct stacksnap_error *err;

		bytes[at] ^= 1 << at % 8;
		assert_null(read_bytes(bytes, size, &err));
		assert_non_null(err);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
		snap_error_destroy(err);
		bytes[at] ^= 1 << at % 8;
	}
}

/* Makes all checksums right again, so that what is inside is looked at. */
static void mend(uint8_t *bytes, size_t size)
{
	size_t at = SNAP_LOG_MAGIC_SIZE;

	while (at + sizeof(struct snap_log_chunk) <= size) {
		struct snap_log_chunk chunk;
		uint64_t length;

		memcpy(&chunk, bytes + at, sizeof(chunk));
		length = le64toh(chunk.length);
		if (length > size - at - sizeof(chunk))
			return;
		chunk = snap_log_chunk_make(le32toh(chunk.type), le32toh(chunk.sequence),
					    bytes + at + sizeof(chunk), length);
		memcpy(bytes + at, &chunk, sizeof(chunk));
		at += sizeof(chunk) + length;
	}
}

static void test_hostile_values(void **state _unused_)
{
	static const uint8_t values[] = { 0, 1, 127, 128, 255 };
	size_t size, first_flush, fine_count = 0;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush), *bad = malloc(size);
	unsigned random = 1;

	for (size_t round = 0; round < 20000; round++) {
		struct stacksnap_error *err;
		struct snap_log *log;

		memcpy(bad, bytes, size);
		for (unsigned k = 0; k <= round % 3; k++) {
			random = random * 1103515245u + 12345u;
			bad[SNAP_LOG_MAGIC_SIZE + (random >> 8) % (size - SNAP_LOG_MAGIC_SIZE)] =
				values[(random >> 4) % sizeof(values)];
		}
		mend(bad, size);
		log = read_bytes(bad, size, &err);
		if (log) {
			_cleanup_fd_ int fd = memory_file();

			/* What was believed holds together. */
			fine(snap_log_write(log, fd));
			fine_count++;
		}
		snap_log_destroy(log);
		snap_error_destroy(err);
	}
	assert_true(fine_count > 0);
}

static void expect_refused(uint8_t *bytes, size_t size, const char *message)
{
	struct stacksnap_error *err;

	assert_null(read_bytes(bytes, size, &err));
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	assert_non_null(strstr(snap_error_message(err), message));
	snap_error_destroy(err);
}

static void test_what_is_said(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	expect_refused(bytes, 0, "this is not a recording");
	expect_refused(bytes, 12, "truncated");
	expect_refused(bytes, 60, "truncated");
	expect_refused((uint8_t *)"{\"schema\": 1}    ", 16, "this is not a recording");
	bytes[first_flush - 1] ^= 1;
	expect_refused(bytes, size, "checksum mismatch");
	bytes[first_flush - 1] ^= 1;
	bytes[8] = 6;
	expect_refused(bytes, size, "newer stacksnap (format 6, this one reads up to 5)");
	bytes[8] = 5;
	assert_true(snap_log_is_recording(bytes, size));
	assert_false(snap_log_is_recording(bytes, 7));
}

/* ---- waits that do not hold together ---- */

static void foreign_object(struct snap_log *log)
{
	log->changes[0].object = 1;
}

static void no_object(struct snap_log *log)
{
	log->changes[log->change_count - 1].object = (uint32_t)log->object_count + 1;
}

static void foreign_words(struct snap_log *log)
{
	log->words[0].space = 0;
}

static void touching_words(struct snap_log *log)
{
	log->words[0].pieces[1].address =
		log->words[0].pieces[0].address + log->words[0].pieces[0].size;
}

static void wrapping_words(struct snap_log *log)
{
	log->words[0].pieces[1].address = UINT64_MAX - 3;
}

static void endless_words(struct snap_log *log)
{
	static uint8_t many[SNAP_LOG_MAX_OBJECT_WORDS];

	log->words[0].pieces[1].bytes = many;
	log->words[0].pieces[1].size = sizeof(many);
}

static void own_stack_of_no_futex(struct snap_log *log)
{
	log->objects[1].call.sp = 1;
}

static void unknown_descriptor(struct snap_log *log)
{
	log->objects[1].descriptors[0].kind = SNAP_DESCRIPTOR_KINDS;
}

static void hold_of_a_poll(struct snap_log *log)
{
	log->holds[0].object = 1;
}

static void two_holds(struct snap_log *log)
{
	log->holds[log->hold_count - 1] = log->holds[log->hold_count - 2];
}

static void hold_without_words(struct snap_log *log)
{
	log->holds[0].words = (uint32_t)log->words_count + 1;
}

static void one_socket_twice(struct snap_log *log)
{
	log->sockets[1].inode = log->sockets[0].inode;
}

static void unknown_family(struct snap_log *log)
{
	log->sockets[0].family = SNAP_SOCKET_FAMILIES;
}

static void explained_twice(struct snap_log *log)
{
	log->explained[1] = log->explained[0];
}

static void explained_of_two_processes(struct snap_log *log)
{
	log->explained[0].stack = 0;
}

static struct snap_wait *wait_of(struct snap_log *log, size_t index)
{
	return (struct snap_wait *)(uintptr_t)log->explained[index].wait;
}

static void unknown_kind(struct snap_log *log)
{
	wait_of(log, 0)->kind = SNAP_WAIT_KINDS;
}

static void unknown_form(struct snap_log *log)
{
	wait_of(log, 0)->owner_word.form = SNAP_OWNER_FORMS;
}

static void odd_state(struct snap_log *log)
{
	wait_of(log, 1)->peers[0].state = '[';
}

static void odd_descriptor(struct snap_log *log)
{
	wait_of(log, 1)->fd = -2;
}

static void odd_kind_of_descriptor(struct snap_log *log)
{
	*(uint32_t *)(uintptr_t)wait_of(log, 3)->fd_kinds = SNAP_DESCRIPTOR_KINDS;
}

static void test_waits_hold_together(void **state _unused_)
{
	static const struct {
		void (*spoil)(struct snap_log *log);
		const char *message;
	} cases[] = {
		{ foreign_object, "object of another process" },
		{ no_object, "invalid reference to an object" },
		{ foreign_words, "invalid reference to words" },
		{ touching_words, "invalid address of words" },
		{ wrapping_words, "invalid address of words" },
		{ endless_words, "invalid address of words" },
		{ own_stack_of_no_futex, "invalid flags of an object" },
		{ unknown_descriptor, "unknown kind of a descriptor" },
		{ hold_of_a_poll, "hold of what nobody has" },
		{ two_holds, "two holds of an object" },
		{ hold_without_words, "invalid reference to words" },
		{ one_socket_twice, "invalid reference to a socket" },
		{ unknown_family, "unknown family" },
		{ explained_twice, "explained twice" },
		{ explained_of_two_processes, "object of another process" },
		{ unknown_kind, "unknown kind of a wait" },
		{ unknown_form, "unknown form of an owner" },
		{ odd_state, "invalid thread state" },
		{ odd_descriptor, "invalid descriptor in a wait" },
		{ odd_kind_of_descriptor, "unknown kind of a descriptor" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = memory_file();
		_cleanup_free_ uint8_t *bytes = NULL;
		struct snap_log *log = make_log();
		size_t size;

		begin_story(log);
		go_on(log);
		run_waits(log);
		explain(log);
		cases[i].spoil(log);
		fine(snap_log_write(log, fd));
		bytes = slurp(fd, &size);
		expect_refused(bytes, size, cases[i].message);
		snap_log_destroy(log);
	}
}

static void test_disk_full(void **state _unused_)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL, *again = NULL;
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	_cleanup_fd_ int fd = memory_file(), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	_cleanup_fd_ int kept = dup(fd);

	if (full < 0)
		skip_because(NO_DEV_FULL);
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	assert_int_equal(dup2(full, fd), fd);
	err = snap_log_writer_flush(writer, log);
	assert_int_equal(snap_error_errno(err), ENOSPC);
	/* Behind half a chunk nothing could be read. */
	assert_int_equal(dup2(kept, fd), fd);
	again = snap_log_writer_flush(writer, log);
	assert_non_null(again);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

/* ---- size ---- */

enum { THREADS = 1000, RATE = 99, SECONDS = 60, WAYS = 4, MOST_OF_AN_HOUR = 100 << 20 };

static void sample_second(struct snap_log *log, uint32_t space, int second, unsigned *random)
{
	for (int tick = 0; tick < RATE; tick++) {
		fine(snap_log_begin_tick(log,
					 (second * RATE + tick) * 10101010ll + *random % 5000));
		for (uint32_t thread = 0; thread < THREADS; thread++) {
			bool runs = thread < 2;

			*random = *random * 1103515245u + 12345u;
			if (!runs && thread % RATE != (uint32_t)tick)
				continue;
			/* Who runs is mostly somewhere where he has not been before. */
			change_to(log, thread,
				  stack_of(log, space,
					   runs ? 1000 + (*random >> 8) % 5000
						: 10 + (thread + (unsigned)second) % WAYS,
					   30, NULL),
				  runs ? SNAP_STATE_RUNNING : SNAP_STATE_SLEEPING, runs ? -1 : 202);
		}
		snap_log_end_tick(log, 90000 + *random % 50000);
	}
}

static void test_hour_of_a_thousand_threads(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	uint32_t process, space, thread;
	unsigned random = 5;

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	for (int i = 0; i < THREADS; i++)
		fine(snap_log_add_thread(log, process, 100 + i, 100 + i, "worker", false, &thread));
	fine(snap_log_writer_create(log, fd, &writer));
	for (int second = 0; second < SECONDS; second++) {
		sample_second(log, space, second, &random);
		fine(snap_log_writer_flush(writer, log));
	}
	fine(snap_log_writer_finish(writer, log));
	assert_true(log->change_count > 60 * THREADS);
	assert_true(lseek(fd, 0, SEEK_CUR) * (3600 / SECONDS) < MOST_OF_AN_HOUR);
	print_message("an hour takes %ld MB\n", (long)lseek(fd, 0, SEEK_CUR) * 60 / 1000000);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_at_once),
		cmocka_unit_test(test_written_again),
		cmocka_unit_test(test_written_as_it_grows),
		cmocka_unit_test(test_the_same_mappings_again),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_bytes_stay),
		cmocka_unit_test(test_earlier_formats),
		cmocka_unit_test(test_cut_off_anywhere),
		cmocka_unit_test(test_flipped_anywhere),
		cmocka_unit_test(test_hostile_values),
		cmocka_unit_test(test_what_is_said),
		cmocka_unit_test(test_waits_hold_together),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_hour_of_a_thousand_threads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
