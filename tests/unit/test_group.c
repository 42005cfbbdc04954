/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Grouping: what is the same place, in which order it comes, and what its id depends on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "raw_process.h"

static void test_same_place_at_other_addresses(void **state _unused_)
{
	struct raw_process made;
	struct snap_frame_record *main_frame, *call, *other_call;
	const struct snap_node *node;

	raw_init(&made);
	main_frame = raw_frame(&made, 0x1000, "main", 10, false);
	call = raw_frame(&made, 0x2000, "work", 20, false);
	other_call = raw_frame(&made, 0x2008, "work", 20, false);
	RAW_STACK(&made, call, main_frame);
	RAW_STACK(&made, other_call, main_frame);
	RAW_STACK(&made, raw_frame(&made, 0x2010, "work", 21, false), main_frame);
	raw_thread(&made, 1, "a", 'S', 0);
	raw_thread(&made, 2, "a", 'S', 1);
	raw_thread(&made, 3, "a", 'S', 2);
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 2);
	assert_int_equal(node->stacks[0].count, 2);
	assert_int_equal(node->stacks[0].thread_count, 2);
	assert_int_equal(node->stacks[0].threads[0].tid, 1);
	assert_int_equal(node->stacks[0].threads[1].tid, 2);
	assert_ptr_equal(node->stacks[0].frames[0], &call->frame);
	assert_string_equal(node->stacks[0].description, "main");
	raw_deinit(&made);
}

static void test_state_parts_and_order_is_total(void **state _unused_)
{
	struct raw_process made;
	const struct snap_node *node;

	raw_init(&made);
	RAW_STACK(&made, raw_frame(&made, 0x1000, "a", 1, false));
	RAW_STACK(&made, raw_frame(&made, 0x1010, "b", 1, false));
	raw_thread(&made, 1, "t", 'R', 0);
	raw_thread(&made, 2, "t", 'S', 0);
	raw_thread(&made, 3, "t", 'S', 1);
	raw_thread(&made, 4, "t", 'S', 1);
	raw_thread(&made, 5, "t", 'D', 1);
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 4);
	assert_int_equal(node->stacks[0].count, 2);
	for (size_t i = 2; i < node->stack_count; i++)
		assert_true(strcmp(node->stacks[i - 1].id, node->stacks[i].id) < 0);
	made.options.group_by = SNAP_GROUP_STACK;
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 2);
	assert_int_equal(node->stacks[0].count, 3);
	assert_null(raw_label(&node->stacks[0], "state"));
	raw_deinit(&made);
}

/* Two processes with the same file at other addresses: what ASLR and a restart do. */
static void test_id_survives_aslr(void **state _unused_)
{
	char ids[2][17];

	for (int run = 0; run < 2; run++) {
		uint64_t base = run ? 0x7f1200000000 : 0x555500000000;
		struct raw_process made;
		struct snap_frame_record *nameless;

		raw_init(&made);
		nameless = raw_frame(&made, base + 0x5000, NULL, 0, false);
		RAW_STACK(&made, nameless, raw_frame(&made, base + 0x100, "main", 3, false));
		raw_thread(&made, 100 + run, "t", 'S', 0);
		strcpy(ids[run], raw_group(&made)->stacks[0].id);
		raw_deinit(&made);
	}
	assert_string_equal(ids[0], ids[1]);
	assert_int_equal(strspn(ids[0], "0123456789abcdef"), 16);
}

static void test_nameless_places_differ_by_file_and_offset(void **state _unused_)
{
	struct raw_process made;

	raw_init(&made);
	RAW_STACK(&made, raw_frame(&made, 0x15000, NULL, 0, false));
	RAW_STACK(&made, raw_frame(&made, 0x15004, NULL, 0, false));
	RAW_STACK(&made, raw_frame(&made, 0x15000, NULL, 0, false));
	made.records[2].frame.build_id = "ffff";
	for (size_t i = 0; i < 3; i++)
		raw_thread(&made, (pid_t)i + 1, "t", 'S', i);
	assert_int_equal(raw_group(&made)->stack_count, 3);
	assert_string_equal(made.node.stacks[0].description, "(unknown)");
	raw_deinit(&made);
}

static void test_ends_and_gaps_part(void **state _unused_)
{
	struct raw_process made;
	struct snap_frame_record *frame;

	raw_init(&made);
	frame = raw_frame(&made, 0x1000, "f", 1, false);
	for (size_t i = 0; i < 3; i++) {
		RAW_STACK(&made, frame);
		raw_thread(&made, (pid_t)i + 1, "t", 'S', i);
	}
	made.stacks[1].end = SNAP_UNWIND_NO_CFI;
	made.stacks[1].detail = "app+0x1: no unwind information";
	made.stacks[2].gap_count = 7;
	assert_int_equal(raw_group(&made)->stack_count, 3);
	raw_deinit(&made);
}

/* Equal frames are one stack with one id, and the one that was found with the least trust is shown. */
static void test_trust_is_no_part_of_the_id(void **state _unused_)
{
	struct raw_process made;
	struct snap_frame_record *certain, *scanned, *top;
	char id[17];

	raw_init(&made);
	top = raw_frame(&made, 0x1000, "f", 1, false);
	certain = raw_frame(&made, 0x2000, "g", 2, false);
	scanned = raw_frame(&made, 0x2000, "g", 2, false);
	scanned->frame.trust = SNAP_TRUST_SCAN;
	RAW_STACK(&made, top, certain);
	RAW_STACK(&made, top, scanned);
	made.stacks[1].end = SNAP_UNWIND_SCANNED;
	made.stacks[1].doubt = snap_frames_doubt(made.stacks[1].frames, made.stacks[1].frame_count);
	assert_true(made.stacks[1].doubt > 0);
	raw_thread(&made, 1, "t", 'S', 0);
	memcpy(id, raw_group(&made)->stacks[0].id, sizeof(id));
	assert_int_equal(made.node.stacks[0].unwind, SNAP_UNWIND_COMPLETE);
	raw_thread(&made, 2, "t", 'S', 1);
	raw_thread(&made, 3, "t", 'S', 0);
	assert_int_equal(raw_group(&made)->stack_count, 1);
	assert_string_equal(made.node.stacks[0].id, id);
	assert_int_equal(made.node.stacks[0].count, 3);
	assert_int_equal(made.node.stacks[0].unwind, SNAP_UNWIND_SCANNED);
	assert_ptr_equal(made.node.stacks[0].frames[1], &scanned->frame);
	raw_deinit(&made);
}

static void test_per_thread(void **state _unused_)
{
	struct raw_process made;

	raw_init(&made);
	RAW_STACK(&made, raw_frame(&made, 0x1000, "f", 1, false));
	for (pid_t tid = 1; tid <= 5; tid++)
		raw_thread(&made, tid, "t", 'S', 0);
	made.options.group_by |= SNAP_GROUP_TID;
	assert_int_equal(raw_group(&made)->stack_count, 5);
	raw_deinit(&made);
}

/* Without the stack in --group-by only what the threads have in common is printed. */
static void test_without_stack(void **state _unused_)
{
	struct raw_process made;
	struct snap_frame_record *main_frame, *loop;
	const struct snap_node *node;

	raw_init(&made);
	main_frame = raw_frame(&made, 0x1000, "main", 1, false);
	loop = raw_frame(&made, 0x1010, "loop", 2, false);
	RAW_STACK(&made, raw_frame(&made, 0x1020, "a", 3, false), loop, main_frame);
	RAW_STACK(&made, loop, main_frame);
	raw_thread(&made, 1, "w-1", 'S', 0);
	raw_thread(&made, 2, "w-2", 'R', 1);
	raw_thread(&made, 3, "other", 'R', 1);
	made.options.group_by = SNAP_GROUP_NAME;
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 2);
	assert_int_equal(node->stacks[0].count, 2);
	assert_string_equal(raw_label(&node->stacks[0], "thread_name"), "w-*");
	assert_int_equal(node->stacks[0].frame_count, 2);
	assert_ptr_equal(node->stacks[0].frames[0], &loop->frame);
	assert_non_null(node->stacks[0].unwind_detail);
	assert_int_equal(node->stacks[1].frame_count, 2);
	assert_null(node->stacks[1].unwind_detail);
	raw_deinit(&made);
}

static void test_description(void **state _unused_)
{
	struct raw_process made;
	struct snap_frame_record *wait, *start;
	const struct snap_node *node;

	raw_init(&made);
	wait = raw_frame(&made, 0x1000, "poll", 0, true);
	start = raw_frame(&made, 0x2000, "start_thread", 0, true);
	RAW_STACK(&made, wait, raw_frame(&made, 0x10, "inner", 1, false),
		  raw_frame(&made, 0x20, "thread_function", 1, false), start);
	RAW_STACK(&made, wait, raw_frame(&made, 0x2010, "timer_helper_thread", 0, true), start);
	RAW_STACK(&made, start);
	raw_thread(&made, 1, "t", 'S', 0);
	raw_thread(&made, 2, "t", 'R', 1);
	raw_thread(&made, 3, "t", 'D', 2);
	node = raw_group(&made);
	for (size_t i = 0; i < 3; i++) {
		const struct snap_stack *stack = &node->stacks[i];
		const char *const expected[] = { "thread_function", "timer_helper_thread",
						 "(unknown)" };

		assert_string_equal(stack->description, expected[stack->threads[0].tid - 1]);
	}
	raw_deinit(&made);
}

static struct snap_frame_record *managed_frame(struct raw_process *made, uint64_t address,
					       const char *function, const char *file)
{
	bool library = file && strstr(file, "/lib/python3.11/");
	struct snap_frame_record *record = raw_frame(made, address, function, 1, library);
	struct snap_entry *entry = &made->entries[made->record_count - 1];

	entry->language = "python";
	entry->file = file;
	return record;
}

/* Of a program that an interpreter runs: neither what starts it nor the C code that it calls. */
static void test_description_of_managed_frames(void **state _unused_)
{
	static const char *const expected[] = { "answers", "<module>", "_worker", "uwsgi_request" };
	const char *library = "/usr/lib/python3.11/threading.py";
	struct snap_frame_record *wait, *sleep, *module, *bootstrap;
	const struct snap_node *node;
	struct raw_process made;

	raw_init(&made);
	wait = raw_frame(&made, 0x1000, "clock_nanosleep", 0, true);
	sleep = raw_frame(&made, 0x10, "pysleep", 1, false);
	module = managed_frame(&made, 0x20, "<module>", "/srv/app.py");
	bootstrap = managed_frame(&made, 0x30, "_bootstrap", library);
	RAW_STACK(&made, wait, sleep, managed_frame(&made, 0x40, "query", "/srv/app.py"),
		  managed_frame(&made, 0x50, "answers", "/srv/app.py"), module);
	RAW_STACK(&made, wait, sleep, module);
	RAW_STACK(&made, wait, sleep,
		  managed_frame(&made, 0x60, "_worker", "/usr/lib/python3.11/concurrent/thread.py"),
		  managed_frame(&made, 0x70, "Thread.run", library), bootstrap);
	/* Who runs the interpreter for a part of its work is the one that was called first. */
	RAW_STACK(&made, wait, module, raw_frame(&made, 0x80, "uwsgi_request", 1, false));
	for (pid_t tid = 1; tid <= 4; tid++)
		raw_thread(&made, tid, "t", 'S', (size_t)tid - 1);
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(node->stacks[i].description,
				    expected[node->stacks[i].threads[0].tid - 1]);
	raw_deinit(&made);
}

static void test_not_stopped(void **state _unused_)
{
	struct raw_process made;
	struct snap_thread *thread;
	const struct snap_node *node;

	raw_init(&made);
	made.raw.stack_count = 1;
	made.stacks[0] =
		(struct snap_raw_stack){ .frames = made.frames[0], .end = SNAP_UNWIND_NOT_STOPPED };
	thread = raw_thread(&made, 1, "io", 'D', 0);
	thread->result = SNAP_THREAD_NOT_STOPPED;
	thread->wchan = "folio_wait_bit";
	node = raw_group(&made);
	assert_int_equal(node->stack_count, 1);
	assert_int_equal(node->stacks[0].frame_count, 0);
	assert_string_equal(node->stacks[0].unwind_detail, "state disk, wchan folio_wait_bit");
	assert_string_equal(node->stacks[0].description, "(unknown)");
	raw_deinit(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_place_at_other_addresses),
		cmocka_unit_test(test_state_parts_and_order_is_total),
		cmocka_unit_test(test_id_survives_aslr),
		cmocka_unit_test(test_nameless_places_differ_by_file_and_offset),
		cmocka_unit_test(test_ends_and_gaps_part),
		cmocka_unit_test(test_trust_is_no_part_of_the_id),
		cmocka_unit_test(test_per_thread),
		cmocka_unit_test(test_without_stack),
		cmocka_unit_test(test_description),
		cmocka_unit_test(test_description_of_managed_frames),
		cmocka_unit_test(test_not_stopped),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
