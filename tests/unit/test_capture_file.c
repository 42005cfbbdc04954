/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Capture files: what is written is read back, byte for byte the same when written again, and no
 * byte of a file can be wrong without an error that says so. Captures are made by hand: no process
 * is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/table.h"
#include "capture_bytes.h"
#include "store/capture/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void fill_threads(struct snap_capture *capture, struct snap_process *process)
{
	static const uint64_t pcs[] = { 0x401000, 0x402345, 0x7fff00000000 };
	uint8_t *stack = snap_arena_alloc(&capture->arena, 100000);
	struct snap_thread *threads = snap_arena_new_array(&capture->arena, 2, struct snap_thread);

	for (size_t i = 0; i < 100000; i++)
		stack[i] = (uint8_t)(i * 7);
	threads[0] = (struct snap_thread){
		.tid = 100,
		.ns_tid = 1,
		.name = "main \x1b[31m",
		.state = 'S',
		.cpu = -1,
		.flags = 0x40000040,
		.wchan = "ep_poll",
		.kernel_stack = "[<0>] ep_poll\n",
		.result = SNAP_THREAD_COPIED,
		.group_stopped = true,
		.registers = stack + 3,
		.registers_size = 216,
		.stack_address = 0x7ffc00000f80,
		.stack = stack,
		.stack_size = 100000,
		.stack_limited = true,
		.stack2_address = 0x7f0000001000,
		.stack2 = stack + 16,
		.stack2_size = 4096,
		.reference_pcs = pcs,
		.reference_pc_count = 3,
	};
	threads[1] = (struct snap_thread){
		.tid = 101,
		.name = "flusher",
		.state = 'D',
		.cpu = 3,
		.start_ticks = 98,
		.tracer = 97,
		.runs = 96,
		.result = SNAP_THREAD_NOT_STOPPED,
		.late = true,
		.taken = SNAP_TAKEN_UNSTOPPED,
		.partial = true,
		.stack_unreadable = true,
	};
	process->threads = threads;
	process->thread_count = 2;
	process->threads_missed = 1;
}

static void fill_memory(struct snap_capture *capture, struct snap_process *process)
{
	struct snap_map *maps = snap_arena_new_array(&capture->arena, 3, struct snap_map);
	struct snap_piece *pieces = snap_arena_new_array(&capture->arena, 2, struct snap_piece);
	struct snap_embedded *embedded =
		snap_arena_new_array(&capture->arena, 2, struct snap_embedded);
	uint8_t *bytes = snap_arena_alloc(&capture->arena, 70000);

	memset(bytes, 0x5a, 70000);
	maps[0] = (struct snap_map){ .start = 0x400000,
				     .end = 0x401000,
				     .inode = 77,
				     .dev_major = 8,
				     .dev_minor = 1,
				     .read = true,
				     .execute = true,
				     .deleted = true,
				     .path = "/usr/bin/a b" };
	maps[1] = (struct snap_map){ .start = 0x401000,
				     .end = 0x402000,
				     .offset = 0x1000,
				     .read = true,
				     .write = true,
				     .shared = true };
	maps[2] = (struct snap_map){ .start = 0xffffffffff600000,
				     .end = 0xffffffffff601000,
				     .execute = true,
				     .path = "[vsyscall]" };
	pieces[0] = (struct snap_piece){ 0x400000, bytes, 4096 };
	pieces[1] = (struct snap_piece){ 0x401000, bytes, 17 };
	embedded[0] = (struct snap_embedded){ SNAP_FILE_MODULE, 2, bytes, 70000 };
	embedded[1] = (struct snap_embedded){ .kind = SNAP_FILE_PERF_MAP };
	process->signal = (struct snap_signal){ 11, 1, 7, true, 0x1234 };
	process->maps = maps;
	process->map_count = 3;
	process->pieces = pieces;
	process->piece_count = 2;
	process->embedded = embedded;
	process->embedded_count = 2;
}

static void fill_image(struct snap_capture *capture, struct snap_process *process)
{
	static const uint8_t bytes[] = "what a runtime keeps in its memory";
	struct snap_memory_image *image = snap_arena_new(&capture->arena, struct snap_memory_image);
	struct snap_memory_piece *pieces =
		snap_arena_new_array(&capture->arena, 2, struct snap_memory_piece);

	pieces[0] = (struct snap_memory_piece){ 0xc000000000, 10, bytes };
	pieces[1] = (struct snap_memory_piece){ 0xc00000000a, 24, bytes + 10 };
	*image = (struct snap_memory_image){
		.pieces = pieces,
		.piece_count = 2,
		.bytes = 34,
		.taken_ns = 77777,
		.steps = { { 5, 50, SNAP_PLAN_WHOLE }, { 6, 60, SNAP_PLAN_CUT_RECORDS } },
		.step_count = 2,
	};
	process->memory = image;
}

/* What it has of the process's image, inside of a range there and other than there. */
static void fill_image_of_thread(struct snap_capture *capture, struct snap_process *process)
{
	struct snap_memory_image *image = snap_arena_new(&capture->arena, struct snap_memory_image);
	struct snap_memory_piece *pieces =
		snap_arena_new_array(&capture->arena, 2, struct snap_memory_piece);

	pieces[0] = (struct snap_memory_piece){ 0xc000000002, 5, (const uint8_t *)"at a runtime" };
	pieces[1] = (struct snap_memory_piece){ 0xc00000000a, 24,
						(const uint8_t *)"ime kept in its memories" };
	*image = (struct snap_memory_image){
		.pieces = pieces,
		.piece_count = 2,
		.bytes = 29,
		.steps = { { 7, 70, SNAP_PLAN_WHOLE } },
		.step_count = 1,
	};
	process->threads[1].memory = image;
}

/* Every field has a value that its neighbours have not. */
static struct snap_capture *make_capture(void)
{
	struct snap_capture *capture = snap_capture_new();
	struct snap_process *processes;
	struct snap_ancestor *ancestors;

	assert_non_null(capture);
	processes = snap_arena_new_array(&capture->arena, 2, struct snap_process);
	ancestors = snap_arena_new_array(&capture->arena, 1, struct snap_ancestor);
	ancestors[0] = (struct snap_ancestor){ 7, "bash", 12345 };
	processes[0] = (struct snap_process){
		.pid = 100,
		.ppid = 7,
		.pgrp = 6,
		.ns_pid = 1,
		.start_ticks = 99,
		.start_time_ns = -5,
		.name = "a b) R 1",
		.state = 'S',
		.flags = 0x400000,
		.exe = "/usr/bin/a b",
		.exe_deleted = true,
		.args = "a b\0-x\0",
		.args_size = 7,
		.uid = 1000,
		.user = "someone",
		.cgroup = "/system.slice/a.service",
		.unit = "a.service",
		.container = "c0ffee",
		.ancestors = ancestors,
		.ancestor_count = 1,
		.is_namespace_init = true,
		.is_target = true,
		.parent = SIZE_MAX,
		.arch = SNAP_ARCH_X86_64,
		.stop_duration_ns = 4242,
	};
	processes[1] = (struct snap_process){
		.pid = 101,
		.ppid = 100,
		.uid = (uid_t)-1,
		.in_host_namespace = true,
		.trouble = SNAP_TROUBLE_EXITED,
		.trouble_message = "101 exited",
		.vanished = true,
	};
	fill_memory(capture, &processes[0]);
	fill_threads(capture, &processes[0]);
	fill_image(capture, &processes[0]);
	fill_image_of_thread(capture, &processes[0]);
	capture->processes = processes;
	capture->process_count = 2;
	capture->host = (struct snap_host){ "host", "6.1.0", "x86_64", NULL, 2, 1234567890, 100 };
	capture->time_ns = 1700000000123456789;
	capture->duration_ns = 20000000;
	capture->stop_duration_ns = 1000000;
	capture->stop_skew_ns = 500000;
	snap_capture_warn(capture, "thread_not_stopped", 100, 101, "thread 101 did not stop");
	return capture;
}

static void test_round_trip(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	struct bytes first = write_capture(capture), second;
	const struct snap_process *process;
	char text[32];

	assert_null(read_capture(first.data, first.size, &back));
	second = write_capture(back);
	assert_int_equal(first.size, second.size);
	assert_memory_equal(first.data, second.data, first.size);
	assert_null(back->live);
	assert_null(back->host.boot_id);
	assert_string_equal(back->host.kernel, "6.1.0");
	assert_int_equal(back->process_count, 2);
	process = &back->processes[0];
	assert_string_equal(process->name, "a b) R 1");
	assert_memory_equal(process->args, "a b\0-x\0", 7);
	assert_true(process->parent == SIZE_MAX);
	assert_int_equal(process->pgrp, 6);
	assert_int_equal(process->threads[1].start_ticks, 98);
	assert_int_equal(process->threads[1].tracer, 97);
	assert_int_equal(process->threads[1].runs, 96);
	assert_int_equal(process->signal.number, 11);
	assert_int_equal(process->signal.code, 1);
	assert_int_equal(process->signal.tid, 7);
	assert_true(process->signal.has_address);
	assert_int_equal(process->signal.address, 0x1234);
	assert_int_equal(process->uid, 1000);
	assert_int_equal(process->maps[2].end, 0xffffffffff601000);
	assert_string_equal(process->maps[0].path, "/usr/bin/a b");
	assert_int_equal(process->embedded[0].size, 70000);
	assert_int_equal(process->embedded[1].size, 0);
	assert_int_equal(process->threads[0].registers_size, 216);
	assert_int_equal((uintptr_t)process->threads[0].registers % 16, 0);
	assert_memory_equal(process->threads[0].stack, capture->processes[0].threads[0].stack,
			    100000);
	assert_int_equal(process->threads[0].stack2_size, 4096);
	assert_int_equal(process->threads[0].reference_pcs[2], 0x7fff00000000);
	assert_int_equal(process->threads[0].cpu, -1);
	assert_int_equal(process->threads[1].result, SNAP_THREAD_NOT_STOPPED);
	assert_null(process->threads[1].registers);
	assert_int_equal(process->threads[1].taken, SNAP_TAKEN_UNSTOPPED);
	assert_true(process->threads[1].partial);
	assert_false(process->threads[0].partial);
	assert_int_equal(process->memory->taken_ns, 77777);
	assert_int_equal(process->memory->step_count, 2);
	assert_int_equal(process->memory->steps[1].records, 6);
	assert_int_equal(process->memory->steps[1].bytes, 60);
	assert_int_equal(process->memory->steps[1].cut, SNAP_PLAN_CUT_RECORDS);
	assert_int_equal(process->memory->bytes, 34);
	assert_true(snap_memory_image_read(process->memory, 0xc000000005, text, 22));
	assert_memory_equal(text, "a runtime keeps in its", 22);
	assert_null(process->threads[0].memory);
	assert_int_equal(process->threads[1].memory->bytes, 29);
	assert_int_equal(process->threads[1].memory->steps[0].records, 7);
	assert_true(snap_memory_image_read(process->threads[1].memory, 0xc000000002, text, 5));
	assert_memory_equal(text, "at a ", 5);
	assert_ptr_equal(process->threads[1].memory->pieces[0].bytes,
			 process->memory->pieces[0].bytes + 2);
	assert_true(snap_memory_image_read(process->threads[1].memory, 0xc00000000a, text, 24));
	assert_memory_equal(text, "ime kept in its memories", 24);
	assert_false(snap_memory_image_read(process->threads[1].memory, 0xc000000000, text, 1));
	assert_null(back->processes[1].memory);
	assert_int_equal(back->processes[1].parent, 0);
	assert_int_equal(back->processes[1].trouble, SNAP_TROUBLE_EXITED);
	assert_string_equal(back->warnings[0].message, "thread 101 did not stop");
	/* A warning more must be possible. */
	snap_capture_warn(back, "more", 1, 0, "more");
	assert_int_equal(back->warning_count, 2);
	free(first.data);
	free(second.data);
}

static void test_empty(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	struct bytes bytes = write_capture(capture);

	assert_null(read_capture(bytes.data, bytes.size, &back));
	assert_int_equal(back->process_count, 0);
	free(bytes.data);
}

/* Nothing but mappings without a path, or threads that nobody could look at: the least of each. */
static void test_many_of_the_least(void **state _unused_)
{
	enum { MANY = 2000 };
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_process *processes =
		snap_arena_new_array(&capture->arena, 2, struct snap_process);

	processes[0] = (struct snap_process){ .pid = 1, .parent = SIZE_MAX };
	processes[0].maps = snap_arena_new_array(&capture->arena, MANY, struct snap_map);
	processes[0].map_count = MANY;
	processes[1] = (struct snap_process){ .pid = 2, .parent = SIZE_MAX };
	processes[1].threads = snap_arena_new_array(&capture->arena, MANY, struct snap_thread);
	processes[1].thread_count = MANY;
	for (size_t i = 0; i < MANY; i++) {
		processes[0].maps[i] = (struct snap_map){ .start = i << 12, .end = (i + 1) << 12 };
		processes[1].threads[i] =
			(struct snap_thread){ .tid = (pid_t)i + 1, .result = SNAP_THREAD_UNTRACED };
	}
	capture->processes = processes;
	for (capture->process_count = 1; capture->process_count <= 2; capture->process_count++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
		struct bytes bytes = write_capture(capture);

		assert_null(read_capture(bytes.data, bytes.size, &back));
		free(bytes.data);
	}
	capture->process_count = 2;
}

static void test_foreign(void **state _unused_)
{
	static const char text[] = "this is not one of ours, whatever it may be";

	refuse("", 0, "not a capture");
	refuse(text, sizeof(text), "not a capture");
	refuse("\x89snapca", 7, "not a capture");
}

static void test_truncated(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct bytes bytes = write_capture(capture);

	for (size_t size = 8; size < bytes.size; size += size < 3000 ? 1 : 977)
		refuse(bytes.data, size, "truncated");
	refuse(bytes.data, bytes.size - 1, "truncated");
	bytes.data[bytes.size] = 0;
	refuse(bytes.data, bytes.size + 1, "trailing data");
	free(bytes.data);
}

/* There is one format, and a message for a file of any other. */
static void test_other_version(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct bytes bytes = write_capture(capture);

	assert_int_equal(bytes.data[8], 1);
	bytes.data[8] = 2;
	refuse(bytes.data, bytes.size, "format 2; this stacksnap reads format 1");
	bytes.data[8] = 0;
	refuse(bytes.data, bytes.size, "format 0; this stacksnap reads format 1");
	free(bytes.data);
}

/* What must hold of an image, whoever has written it. */
static void test_images_that_make_no_sense(void **state _unused_)
{
	for (unsigned how = 0; how < 5; how++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
		struct snap_memory_image *image = capture->processes[0].memory;
		struct bytes bytes;

		switch (how) {
		case 0:
			image->pieces[1].address--;
			break;
		case 1:
			image->pieces[1].address = UINT64_MAX;
			break;
		case 2:
			image->pieces[0].size = 0;
			break;
		case 3:
			image->steps[0].cut = SNAP_PLAN_CUT_RECORDS + 1;
			break;
		case 4:
			image->step_count = SNAP_PLAN_MOST_STEPS;
			break;
		}
		bytes = write_capture(capture);
		if (how == 4) {
			_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;

			assert_null(read_capture(bytes.data, bytes.size, &back));
		} else {
			refuse(bytes.data, bytes.size, how == 3 ? "cut" : "image");
		}
		free(bytes.data);
	}
}

/* Two long paths in turns take room once, in the file and in memory. */
static void test_paths_that_come_again(void **state _unused_)
{
	enum { COUNT = 1000, LENGTH = 4000 };
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	struct snap_process *process = snap_capture_append(capture);
	char paths[2][LENGTH + 1];
	struct bytes bytes;

	process->pid = 100;
	process->parent = SIZE_MAX;
	process->maps = snap_arena_new_array(&capture->arena, COUNT, struct snap_map);
	process->map_count = COUNT;
	for (size_t i = 0; i < COUNT; i++) {
		memset(paths[i % 2], (int)('a' + i % 2), LENGTH);
		paths[i % 2][LENGTH] = '\0';
		process->maps[i] = (struct snap_map){ .start = (i + 1) << 12,
						      .end = (i + 2) << 12,
						      .path = i % 10 ? paths[i % 2] : NULL };
	}
	bytes = write_capture(capture);
	assert_true(bytes.size < 3 * LENGTH + COUNT * 64);
	assert_null(read_capture(bytes.data, bytes.size, &back));
	free(bytes.data);
	process = &back->processes[0];
	for (size_t i = 0; i < COUNT; i++) {
		if (i % 10 == 0)
			assert_null(process->maps[i].path);
		else
			assert_ptr_equal(process->maps[i].path, process->maps[2 - i % 2].path);
	}
	for (size_t i = 2; i % 10; i++)
		assert_string_equal(process->maps[i].path, paths[i % 2]);
}

static void test_any_byte_wrong(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct bytes bytes = write_capture(capture);

	for (size_t i = 0; i < bytes.size; i += i < 4000 ? 1 : 997) {
		bytes.data[i] ^= 0x41;
		refuse(bytes.data, bytes.size, "");
		bytes.data[i] ^= 0x41;
	}
	free(bytes.data);
}

/* Wrong values behind a right checksum: an error or a capture, that can be written; no crash. */
static void test_wrong_values(void **state _unused_)
{
	static const uint8_t values[] = { 0x00, 0x01, 0xff };
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct bytes bytes = write_capture(capture);
	size_t read = 0, refused = 0;

	for (size_t i = 48; i < bytes.size; i += i < 2000 ? 1 : 4999) {
		for (size_t k = 0; k < sizeof(values); k++) {
			_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
			uint8_t before = bytes.data[i];
			struct stacksnap_error *err;
			struct bytes again;

			bytes.data[i] = values[k];
			sign(&bytes, i);
			err = read_capture(bytes.data, bytes.size, &back);
			if (err) {
				assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
				refused++;
			} else {
				again = write_capture(back);
				assert_int_equal(again.size, bytes.size);
				assert_memory_equal(again.data, bytes.data, bytes.size);
				free(again.data);
				read++;
			}
			snap_error_destroy(err);
			bytes.data[i] = before;
			sign(&bytes, i);
		}
	}
	assert_true(read > 100);
	assert_true(refused > 100);
	free(bytes.data);
}

static void test_inconsistent(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct snap_process *process = &capture->processes[0];
	struct bytes bytes;

	process->parent = 1;
	bytes = write_capture(capture);
	refuse(bytes.data, bytes.size, "before its parent");
	free(bytes.data);
	process->parent = SIZE_MAX;
	process->threads[1].tid = 100;
	bytes = write_capture(capture);
	refuse(bytes.data, bytes.size, "threads not sorted");
	free(bytes.data);
	process->threads[1].tid = 101;
	process->maps[1].start = 0x400800;
	bytes = write_capture(capture);
	refuse(bytes.data, bytes.size, "mappings not sorted");
	free(bytes.data);
	process->maps[1].start = 0x401000;
	process->embedded[0].map = 3;
	bytes = write_capture(capture);
	refuse(bytes.data, bytes.size, "file without a mapping");
	free(bytes.data);
}

static void test_cannot_write(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stacksnap_error *err;

	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	err = snap_capture_write(capture, fd);
	assert_non_null(err);
	assert_int_equal(snap_error_errno(err), EPERM);
	snap_error_destroy(err);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_many_of_the_least),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_images_that_make_no_sense),
		cmocka_unit_test(test_paths_that_come_again),
		cmocka_unit_test(test_any_byte_wrong),
		cmocka_unit_test(test_wrong_values),
		cmocka_unit_test(test_inconsistent),
		cmocka_unit_test(test_cannot_write),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
