/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a parser leaves is read back first: a process of which something is too large, or refused, loses
 * that, and the others lose nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "fine.h"
#include "roles/analysis.h"
#include "roles/naming.h"
#include "store/log/log.h"
#include "store/snapshot/file.h"

#include <string.h>

enum { LOUD, QUIET, PROCESSES, FRAMES = 100, ROOM = 1 << 16 };

static uint8_t memory[64 * ROOM];

/* A text of 4,000 bytes that no other one is equal to. */
static const char *long_text(struct snap_arena *arena, int number)
{
	return snap_arena_printf(arena, "%04d%03990d", number, 0);
}

/* ---- snapshots ---- */

struct report {
	struct snap_snapshot *snapshot;
	struct snap_node nodes[PROCESSES], *list[PROCESSES];
	struct snap_stack stacks[PROCESSES];
	struct snap_member members[PROCESSES];
	struct snap_wait waits[PROCESSES];
	struct snap_frame frames[PROCESSES][FRAMES];
	struct snap_entry entries[PROCESSES][FRAMES];
	const struct snap_frame *lists[PROCESSES][FRAMES];
};

static void make_report(struct report *made)
{
	memset(made, 0, sizeof(*made));
	made->snapshot = snap_snapshot_new();
	for (int i = 0; i < PROCESSES; i++) {
		made->waits[i] = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);
		made->members[i] = (struct snap_member){ .tid = 10 + i,
							 .name = "thread",
							 .state = SNAP_STATE_SLEEPING,
							 .wait = &made->waits[i] };
		for (int k = 0; k < FRAMES; k++) {
			made->entries[i][k] = (struct snap_entry){ .function = "work" };
			made->frames[i][k] = (struct snap_frame){ .address = 0x1000,
								  .module = "/bin/prog",
								  .entries = &made->entries[i][k],
								  .entry_count = 1 };
			made->lists[i][k] = &made->frames[i][k];
		}
		made->stacks[i] = (struct snap_stack){ .id = "00000000000000aa",
						       .count = 1,
						       .description = "work",
						       .threads = &made->members[i],
						       .thread_count = 1,
						       .wait = &made->waits[i],
						       .frames = made->lists[i],
						       .frame_count = FRAMES };
		made->nodes[i] = (struct snap_node){ .pid = 10 + i,
						     .name = "prog",
						     .thread_count = 1,
						     .stacks = &made->stacks[i],
						     .stack_count = 1 };
		made->list[i] = &made->nodes[i];
	}
	made->snapshot->processes = made->list;
	made->snapshot->root_count = made->snapshot->process_count = PROCESSES;
}

/* Of a process in what the maker reads. */
struct kept {
	bool wait, functions, frames;
};

static void leave(struct report *made, size_t warnings, struct kept loud)
{
	const struct kept expected[PROCESSES] = { loud, { true, true, true } };
	struct snap_parser_job job = { .out = memory, .capacity = ROOM };
	struct snap_snapshot *read = NULL;

	fine(snap_leave_snapshot(made->snapshot, &job));
	fine(snap_snapshot_read(job.out, job.size, &read));
	for (int i = 0; i < PROCESSES; i++) {
		const struct snap_stack *stack = &read->processes[i]->stacks[0];
		bool has_frames = stack->frame_count == FRAMES;

		assert_int_equal(stack->wait && stack->threads[0].wait, expected[i].wait);
		assert_int_equal(has_frames, expected[i].frames);
		assert_int_equal(has_frames && stack->frames[0]->entries[0].function,
				 expected[i].functions);
	}
	assert_int_equal(read->warning_count, warnings);
	assert_int_equal(read->missing.modules, warnings);
	for (size_t i = 0; i < read->warning_count; i++)
		assert_int_equal(read->warnings[i].pid, 10 + LOUD);
	snap_snapshot_destroy(read);
	snap_snapshot_destroy(made->snapshot);
}

static void test_all_fits(void **state _unused_)
{
	struct report made;

	make_report(&made);
	leave(&made, 0, (struct kept){ true, true, true });
}

static void test_a_wait_is_too_large(void **state _unused_)
{
	struct snap_wait_party parties[32] = { { .pid = 0 } };
	struct report made;

	make_report(&made);
	for (int i = 0; i < 32; i++)
		parties[i] =
			(struct snap_wait_party){ .pid = 10 + i,
						  .name = long_text(&made.snapshot->arena, i) };
	made.waits[LOUD].peers = parties;
	made.waits[LOUD].peer_count = made.waits[LOUD].peer_total = 32;
	leave(&made, 1, (struct kept){ false, true, true });
}

static void test_functions_are_too_large(void **state _unused_)
{
	struct report made;

	make_report(&made);
	for (int k = 0; k < FRAMES; k++)
		made.entries[LOUD][k].function = long_text(&made.snapshot->arena, k);
	leave(&made, 2, (struct kept){ false, false, true });
}

static void test_a_function_is_refused(void **state _unused_)
{
	struct report made;

	make_report(&made);
	made.frames[LOUD][7].entry_count = 0;
	leave(&made, 2, (struct kept){ false, false, true });
}

static void test_a_frame_is_refused(void **state _unused_)
{
	struct report made;

	make_report(&made);
	made.frames[LOUD][7].build_id = "no number";
	leave(&made, 3, (struct kept){ false, false, false });
}

/* What is no process's is refused as it is. */
static void test_the_rest_is_refused(void **state _unused_)
{
	struct snap_parser_job job = { .out = memory, .capacity = ROOM };
	struct stacksnap_error *err;
	struct report made;

	make_report(&made);
	made.snapshot->root_count = PROCESSES - 1;
	made.snapshot->time_ns = INT64_MAX;
	err = snap_leave_snapshot(made.snapshot, &job);
	snap_error_destroy(err);
	assert_non_null(err);
	snap_snapshot_destroy(made.snapshot);
}

/* ---- names of a log ---- */

static struct snap_log *make_log(void)
{
	static struct snap_map map = {
		.start = 0x1000, .end = 1 << 30, .inode = 7, .execute = true, .path = "/bin/prog"
	};
	const struct snap_host host = { .name = "host", .ticks_per_second = 100 };
	struct snap_log *log;

	fine(snap_log_create(&host, 1700000000000000000, 10101010, false, &log));
	fine(snap_log_begin_tick(log, 0));
	for (uint32_t i = 0; i < PROCESSES; i++) {
		struct snap_process facts = {
			.pid = 10 + (pid_t)i, .name = "prog", .maps = &map, .map_count = 1
		};
		struct snap_log_object object = { .call = { .known = true, .number = 202 },
						  .is_futex = true };
		uint64_t bits[FRAMES];
		struct snap_log_pcs pcs = { .bits = bits, .count = FRAMES };
		uint32_t process, stack, number;

		for (int k = 0; k < FRAMES; k++)
			bits[k] = 0x1000 + 8 * (uint64_t)k;
		fine(snap_log_add_process(log, facts.pid, 5, UINT32_MAX, UINT32_MAX, true,
					  &process));
		fine(snap_log_map_process(log, process, &facts, NULL, &object.space));
		assert_int_equal(object.space, i);
		fine(snap_log_stack(log, object.space, &pcs, &stack));
		assert_int_equal(stack, i);
		fine(snap_log_find_object(log, &object, NULL, &number));
		assert_int_equal(number, i + 1);
	}
	snap_log_end_tick(log, 0);
	return log;
}

static void name_all(struct snap_log *log, bool has_long_names)
{
	for (size_t i = 0; i < log->frame_count; i++) {
		struct snap_entry *entry = snap_arena_new(&log->arena, struct snap_entry);

		entry->function = has_long_names && log->frames[i].space == LOUD
					  ? long_text(&log->arena, (int)i)
					  : "work";
		assert_true(
			snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
		log->names[log->name_count++] = (struct snap_frame){ .module = "/bin/prog",
								     .entries = entry,
								     .entry_count = 1 };
		log->frames[i].name = (uint32_t)log->name_count;
	}
	for (uint32_t i = 0; i < PROCESSES; i++) {
		const struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);

		fine(snap_log_explain(log, i, i, &wait));
	}
}

static void leave_names(struct snap_log *log, size_t warnings, struct kept loud)
{
	const struct kept expected[PROCESSES] = { loud, { true, true, true } };
	const struct snap_log_named before = { 0, 0, 0 };
	struct snap_parser_job job = { .out = memory, .capacity = ROOM };
	struct snap_log *other = make_log();

	fine(snap_leave_names(log, &before, &job));
	fine(snap_log_names_read(other, job.out, job.size));
	for (uint32_t i = 0; i < PROCESSES; i++)
		assert_int_equal(snap_log_explained(other, i, i)->wait != NULL, expected[i].wait);
	for (size_t i = 0; i < other->frame_count; i++) {
		const struct snap_frame *name = &other->names[other->frames[i].name - 1];
		uint32_t space = other->frames[i].space;

		assert_int_equal(name->entries[0].function != NULL, expected[space].functions);
		assert_int_equal(name->module != NULL, expected[space].frames);
	}
	assert_int_equal(other->capture->warning_count, warnings);
	for (size_t i = 0; i < warnings; i++)
		assert_int_equal(other->capture->warnings[i].pid, 10 + LOUD);
	snap_log_destroy(other);
	snap_log_destroy(log);
}

static void test_names_fit(void **state _unused_)
{
	struct snap_log *log = make_log();

	name_all(log, false);
	leave_names(log, 0, (struct kept){ true, true, true });
}

static void test_names_are_too_large(void **state _unused_)
{
	struct snap_log *log = make_log();

	name_all(log, true);
	leave_names(log, 2, (struct kept){ false, false, true });
}

static void test_a_name_is_refused(void **state _unused_)
{
	struct snap_log *log = make_log();

	name_all(log, false);
	assert_int_equal(log->frames[7].space, LOUD);
	log->names[7].entry_count = 0;
	leave_names(log, 2, (struct kept){ false, false, true });
	log = make_log();
	name_all(log, false);
	log->names[7].build_id = "no number";
	leave_names(log, 3, (struct kept){ false, false, false });
}

static void test_a_wait_is_refused(void **state _unused_)
{
	struct snap_log *log = make_log();

	name_all(log, false);
	((struct snap_wait *)(uintptr_t)log->explained[LOUD].wait)->kind = SNAP_WAIT_KINDS;
	leave_names(log, 1, (struct kept){ false, true, true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_fits),
		cmocka_unit_test(test_a_wait_is_too_large),
		cmocka_unit_test(test_functions_are_too_large),
		cmocka_unit_test(test_a_function_is_refused),
		cmocka_unit_test(test_a_frame_is_refused),
		cmocka_unit_test(test_the_rest_is_refused),
		cmocka_unit_test(test_names_fit),
		cmocka_unit_test(test_names_are_too_large),
		cmocka_unit_test(test_a_name_is_refused),
		cmocka_unit_test(test_a_wait_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
