/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A log with a limit: what is left out when it is reached, in which order, whose it is, and that
 * nothing grows any more. The log is filled as a hostile program would have it.
 */
#include "fine.h"
#include "log_bytes.h"
#include "record/memory_limit.h"
#include "store/log/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LIMIT = 8 << 20, DEPTH = 200, CODES = 64 };

struct bed {
	struct snap_log *log;
	uint64_t random;
	uint32_t process, space;
};

static uint32_t add_space(struct snap_log *log, pid_t pid, uint32_t *process_ret)
{
	struct snap_process facts = { .pid = pid, .name = "prog", .parent = SIZE_MAX };
	uint32_t space;

	fine(snap_log_add_process(log, pid, 5, UINT32_MAX, UINT32_MAX, true, process_ret));
	fine(snap_log_map_process(log, *process_ret, &facts, NULL, &space));
	return space;
}

static int set_up(void **state)
{
	static struct bed bed;
	struct snap_host host = { .name = "host", .kernel = "6.1", .arch = "x86_64" };

	bed = (struct bed){ .random = 4711 };
	fine(snap_log_create(&host, 1000, 10, false, &bed.log));
	snap_log_set_limit(bed.log, LIMIT);
	bed.space = add_space(bed.log, 10, &bed.process);
	*state = &bed;
	return 0;
}

static int tear_down(void **state)
{
	snap_log_destroy(((struct bed *)*state)->log);
	return 0;
}

static uint64_t next_random(struct bed *bed)
{
	bed->random ^= bed->random << 13;
	bed->random ^= bed->random >> 7;
	bed->random ^= bed->random << 17;
	return bed->random >> 16;
}

/* A stack that nobody has seen; its innermost frames are few. */
static uint32_t new_stack(struct bed *bed, uint32_t space)
{
	uint64_t bits[DEPTH];
	struct snap_log_pcs pcs = { .bits = bits, .count = DEPTH };
	uint32_t stack;

	for (int i = 0; i < DEPTH; i++)
		bits[i] = 0x1000 + next_random(bed) % (i == 0 ? 4 : CODES);
	fine(snap_log_stack(bed->log, space, &pcs, &stack));
	return stack;
}

/* How many of its frames are stored. */
static size_t new_stack_frames(struct bed *bed, uint32_t space)
{
	uint32_t stack = new_stack(bed, space);

	return bed->log->stacks[stack].frame_count;
}

/* Until a stack of the space is stored with so few frames; how many were stored. */
static size_t fill_until(struct bed *bed, uint32_t space, size_t frames)
{
	for (int i = 0; i < 1 << 20; i++)
		if (new_stack_frames(bed, space) <= frames)
			return bed->log->stack_count;
	fail_msg("stacks are never cut to %zu frames", frames);
	return 0;
}

static bool says(const struct bed *bed, const char *words)
{
	const struct snap_capture *capture = bed->log->capture;

	snap_memory_limit_warn(bed->log);
	assert_int_equal(capture->warning_count, 1);
	assert_string_equal(capture->warnings[0].code, "memory_limit");
	return strstr(capture->warnings[0].message, words);
}

/* ---- stacks ---- */

static void test_stacks_are_cut_then_counted(void **state)
{
	struct bed *bed = *state;
	const struct snap_log_stack *other;
	size_t full, few, fewest;
	uint32_t first = new_stack(bed, bed->space), number;
	uint64_t random = bed->random;

	assert_int_equal(bed->log->cuts, 0);
	snap_memory_limit_warn(bed->log);
	assert_int_equal(bed->log->capture->warning_count, 0);
	full = fill_until(bed, bed->space, 16);
	assert_int_equal(bed->log->cuts, SNAP_LOG_CUT_STACKS);
	assert_int_equal(bed->log->stacks[full - 1].frame_count, 16);
	assert_int_equal(bed->log->stacks[full - 1].end, SNAP_UNWIND_LIMIT);
	assert_non_null(
		strstr(bed->log->reasons[bed->log->stacks[full - 1].reason - 1], "memory limit"));
	few = fill_until(bed, bed->space, 4);
	assert_int_equal(bed->log->stacks[few - 1].frame_count, 4);
	fewest = fill_until(bed, bed->space, 0);
	assert_true(full > 100 && few > full && fewest > few);
	/* All that come now are that one, and nothing grows. */
	other = &bed->log->stacks[fewest - 1];
	assert_int_equal(other->frame_count, 0);
	assert_int_equal(other->end, SNAP_UNWIND_LIMIT);
	for (int i = 0; i < 10000; i++)
		new_stack(bed, bed->space);
	assert_int_equal(bed->log->stack_count, fewest);
	assert_true(snap_log_cost(bed->log) < LIMIT / 2);
	assert_true(log_bytes(bed->log) < LIMIT / 2);
	/* What was known is found again, as it was. */
	bed->random = 4711;
	number = new_stack(bed, bed->space);
	assert_int_equal(number, first);
	assert_int_equal(bed->random, random);
	assert_true(says(bed, "innermost frames") && says(bed, "count as one"));
	assert_true(says(bed, "8 MiB, or a part of it: ") && says(bed, "--max-memory"));
}

static void test_one_process_costs_no_other(void **state)
{
	struct bed *bed = *state;
	uint32_t process, space = add_space(bed->log, 11, &process);

	fill_until(bed, bed->space, 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(new_stack_frames(bed, space), DEPTH);
	assert_true(snap_log_has_room_for_thread(bed->log, process));
	assert_false(snap_log_has_room_for_thread(bed->log, bed->process));
	assert_true(snap_log_has_room_for_process(bed->log));
}

static void test_many_processes_end_at_half(void **state)
{
	struct bed *bed = *state;

	for (pid_t pid = 100; pid < 400; pid++) {
		uint32_t process, space = add_space(bed->log, pid, &process);

		for (int i = 0; i < 100; i++)
			new_stack(bed, space);
	}
	assert_true(bed->log->cuts & SNAP_LOG_CUT_ALL);
	/* Each has one for all the others. */
	assert_true(bed->log->index->things < LIMIT / 2 + 300 * 2048);
}

/* ---- what threads wait for ---- */

enum { FUTEX = 202 };

static uint32_t new_object(struct bed *bed, uint32_t space, const struct snap_memory_image *words)
{
	const struct snap_log_object object = {
		.space = space,
		.call = { .known = true, .number = FUTEX, .arguments = { next_random(bed) } },
		.is_futex = true,
	};
	uint32_t number;

	fine(snap_log_find_object(bed->log, &object, words, &number));
	return number;
}

static void test_what_is_waited_for_has_its_part(void **state)
{
	struct bed *bed = *state;
	uint32_t process, space = add_space(bed->log, 11, &process), known, number, stack;
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);
	uint64_t word = 0, random = bed->random;
	struct snap_memory_piece piece = { 0x5000, sizeof(word), (void *)&word };
	const struct snap_memory_image words = { .pieces = &piece, .piece_count = 1 };
	const struct snap_socket socket = { .inode = 7 };
	size_t objects, bytes;

	fine(snap_log_begin_tick(bed->log, 5));
	known = new_object(bed, bed->space, &words);
	for (number = known; number;) {
		word++;
		number = new_object(bed, bed->space, &words);
		assert_true(bed->log->object_count < 1 << 16);
	}
	assert_int_equal(bed->log->cuts, SNAP_LOG_CUT_OBJECTS);
	objects = bed->log->object_count;
	assert_true(objects > 1000);
	assert_true(snap_log_cost(bed->log) < LIMIT / 2);
	bytes = log_bytes(bed->log);
	assert_true(bytes < LIMIT / 2);
	for (int i = 0; i < 10000; i++) {
		word++;
		assert_int_equal(new_object(bed, bed->space, &words), 0);
	}
	assert_int_equal(log_bytes(bed->log), bytes);
	/* Words that there is no room for are not known. */
	number = new_object(bed, space, NULL);
	assert_int_equal(number, objects + 1);
	piece.address = bed->log->objects[known - 1].call.arguments[0];
	assert_non_null(snap_log_owner_bytes(bed->log, known - 1));
	fine(snap_log_set_owner(bed->log, known - 1, &words));
	assert_null(snap_log_owner_bytes(bed->log, known - 1));
	/* What was known is found again; others, and stacks, have room. */
	bed->random = random;
	assert_int_equal(new_object(bed, bed->space, &words), known);
	stack = new_stack(bed, bed->space);
	assert_int_equal(bed->log->stacks[stack].frame_count, DEPTH);
	fine(snap_log_add_socket(bed->log, &socket));
	assert_int_equal(bed->log->socket_count, 1);
	/* What waits mean has a part more, and pairs that are refused are not asked for again. */
	for (uint32_t i = 0; i < objects; i++)
		fine(snap_log_explain(bed->log, stack, i, &wait));
	assert_int_equal(bed->log->explained_count, objects);
	assert_non_null(bed->log->explained[0].wait);
	assert_null(bed->log->explained[objects - 1].wait);
	assert_true(snap_log_cost(bed->log) < LIMIT / 2);
	snap_log_end_tick(bed->log, 0);
	assert_true(says(bed, "what some threads wait for"));
}

static void test_many_processes_share_what_is_waited_for(void **state)
{
	struct bed *bed = *state;

	for (pid_t pid = 100; pid < 400; pid++) {
		uint32_t process, space = add_space(bed->log, pid, &process);

		for (int i = 0; i < 100; i++)
			new_object(bed, space, NULL);
	}
	assert_true(bed->log->cuts & SNAP_LOG_CUT_OBJECTS);
	assert_true(bed->log->index->waits < LIMIT / 8 + 1024);
	assert_true(bed->log->index->waits > LIMIT / 9);
}

/* ---- whose it is ---- */

static void test_a_program_inherits_what_was_used(void **state)
{
	struct bed *bed = *state;
	struct snap_process facts = { .pid = 10, .name = "next", .parent = SIZE_MAX };
	uint32_t process, space;

	fill_until(bed, bed->space, 0);
	fine(snap_log_add_process(bed->log, 10, 5, UINT32_MAX, bed->process, true, &process));
	fine(snap_log_map_process(bed->log, process, &facts, NULL, &space));
	assert_int_equal(new_stack_frames(bed, space), 0);
}

static void test_a_very_long_stack(void **state)
{
	enum { MANY = 60000 };
	struct bed *bed = *state;
	uint64_t *bits = calloc(MANY, sizeof(*bits));
	struct snap_log_pcs pcs = { .bits = bits, .count = MANY, .gap_after = 2, .gap_count = 7 };
	uint32_t stack;

	for (size_t i = 0; i < MANY; i++)
		bits[i] = 0x1000 + 16 * i;
	fine(snap_log_stack(bed->log, bed->space, &pcs, &stack));
	free(bits);
	assert_int_equal(bed->log->stacks[stack].frame_count, 16);
	assert_int_equal(bed->log->stacks[stack].gap_count, 7);
	assert_int_equal(bed->log->frame_count, 16);
}

static void test_without_a_limit(void **state)
{
	struct bed *bed = *state;
	struct snap_host host = { .name = "host" };

	snap_log_destroy(bed->log);
	fine(snap_log_create(&host, 1000, 10, false, &bed->log));
	bed->space = add_space(bed->log, 10, &bed->process);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(new_stack(bed, bed->space), i);
	assert_int_equal(bed->log->cuts, 0);
	assert_int_equal(snap_log_ticks_to_leave_out(bed->log), 0);
	assert_false(snap_log_is_full(bed->log) || snap_log_ring_is_tight(bed->log));
}

/* ---- processes, threads ---- */

static void test_threads_end_at_a_number(void **state)
{
	struct bed *bed = *state;
	size_t count = 0;
	uint32_t thread;

	for (; snap_log_has_room_for_thread(bed->log, bed->process); count++)
		fine(snap_log_add_thread(bed->log, bed->process, (pid_t)count, 1, "t", false,
					 &thread));
	assert_true(count > 1000 && count < LIMIT / 2 / 200);
	fine(snap_log_rename_thread(bed->log, thread, "other"));
	assert_string_equal(bed->log->threads[thread].name, "other");
}

static void test_names_end_at_a_number(void **state)
{
	struct bed *bed = *state;
	uint32_t thread;
	int count = 0;

	fine(snap_log_add_thread(bed->log, bed->process, 1, 1, "t", false, &thread));
	for (; snap_log_has_room_for_thread(bed->log, bed->process); count++) {
		char name[16];

		snprintf(name, sizeof(name), "%x", (unsigned)count);
		fine(snap_log_rename_thread(bed->log, thread, name));
	}
	assert_true(count > 1000);
	assert_true(bed->log->arena.total < LIMIT / 2);
}

static void test_processes_end_at_a_number(void **state)
{
	struct bed *bed = *state;
	pid_t pid = 100;
	uint32_t process;

	for (; snap_log_has_room_for_process(bed->log); pid++)
		add_space(bed->log, pid, &process);
	assert_true(pid > 200);
	assert_true(log_bytes(bed->log) < LIMIT / 2);
}

static void test_a_process_that_maps_all_the_time(void **state)
{
	struct bed *bed = *state;
	uint32_t other, process = bed->process, space, rounds = 0;

	add_space(bed->log, 11, &other);
	for (; snap_log_has_room_for_maps(bed->log, process); rounds++) {
		char path[200];
		struct snap_map map = { .start = 0x1000,
					.end = 0x2000,
					.inode = 7 + rounds,
					.read = true,
					.execute = true,
					.path = path };
		struct snap_process facts = {
			.pid = 10, .name = "prog", .parent = SIZE_MAX, .maps = &map, .map_count = 1
		};

		snprintf(path, sizeof(path), "/%0180u", rounds);
		fine(snap_log_map_process(bed->log, process, &facts, NULL, &space));
	}
	assert_true(rounds > 10);
	assert_true(snap_log_has_room_for_maps(bed->log, other));
	assert_true(log_bytes(bed->log) < LIMIT / 4);
}

/* ---- ticks ---- */

static void take_tick(struct bed *bed, uint32_t thread, int64_t time, uint32_t stack)
{
	struct snap_log_change change = { .thread = thread, .stack = stack, .syscall = -1 };

	fine(snap_log_begin_tick(bed->log, time));
	fine(snap_log_change(bed->log, &change));
	snap_log_end_tick(bed->log, 0);
}

static void test_ticks_become_rare(void **state)
{
	struct bed *bed = *state;
	uint32_t thread, a = new_stack(bed, bed->space), b = new_stack(bed, bed->space);
	unsigned out = 0, taken = 0;
	uint64_t time = 0;

	fine(snap_log_add_thread(bed->log, bed->process, 1, 1, "t", false, &thread));
	for (; !snap_log_is_full(bed->log); taken++) {
		unsigned now = snap_log_ticks_to_leave_out(bed->log);

		assert_true(now == out || now == 2 * out + 1);
		if (out == 0 && now) {
			assert_true(snap_log_cost(bed->log) > LIMIT / 4 * 3);
			assert_int_equal(bed->log->cuts, SNAP_LOG_CUT_TICKS);
			time = taken;
		}
		out = now;
		time += now;
		take_tick(bed, thread, taken, taken % 2 ? a : b);
	}
	assert_int_equal(out, 1023);
	assert_true(log_bytes(bed->log) < LIMIT);
	assert_false(bed->log->cuts & SNAP_LOG_CUT_END);
	assert_true(snap_memory_limit_ends(bed->log));
	assert_true(says(bed, "ticks were left out") && says(bed, "ended early"));
	assert_true(says(bed, "8 MiB: "));
	/* It lasts several times as long as it would have. */
	assert_true(time > 3 * (uint64_t)taken);
}

/* ---- a ring ---- */

static void test_a_ring_forgets_sooner(void **state)
{
	struct bed *bed = *state;
	uint64_t most = 0;
	uint32_t thread;
	int halves = 0;

	fine(snap_log_add_thread(bed->log, bed->process, 1, 1, "t", false, &thread));
	for (int tick = 0; tick < 20000; tick++) {
		bool renumbered = false;
		uint32_t stack = new_stack(bed, bed->space);

		assert_int_equal(bed->log->stacks[stack].frame_count, DEPTH);
		take_tick(bed, thread, tick, stack);
		if (snap_log_cost(bed->log) > most)
			most = snap_log_cost(bed->log);
		if (!snap_log_ring_is_tight(bed->log))
			continue;
		fine(snap_log_forget_half(bed->log, &renumbered));
		assert_true(renumbered);
		assert_false(snap_log_ring_is_tight(bed->log));
		bed->process = snap_log_moved_process(bed->log, bed->process);
		bed->space = snap_log_moved_space(bed->log, bed->space);
		thread = snap_log_moved_thread(bed->log, thread);
		halves++;
	}
	assert_true(halves > 10);
	assert_true(most < LIMIT);
	assert_int_equal(bed->log->cuts, SNAP_LOG_CUT_RING);
	assert_true(says(bed, "less time"));
	assert_int_equal(snap_log_standing(bed->log, thread)->stack,
			 bed->log->changes[bed->log->change_count - 1].stack);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_what_is_waited_for_has_its_part),
		with_bed(test_many_processes_share_what_is_waited_for),
		with_bed(test_stacks_are_cut_then_counted),
		with_bed(test_one_process_costs_no_other),
		with_bed(test_many_processes_end_at_half),
		with_bed(test_a_program_inherits_what_was_used),
		with_bed(test_a_very_long_stack),
		with_bed(test_without_a_limit),
		with_bed(test_threads_end_at_a_number),
		with_bed(test_names_end_at_a_number),
		with_bed(test_processes_end_at_a_number),
		with_bed(test_a_process_that_maps_all_the_time),
		with_bed(test_ticks_become_rare),
		with_bed(test_a_ring_forgets_sooner),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
