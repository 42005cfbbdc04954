/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports of recordings with names of kilobytes, or with very many stacks: the bytes that each
 * format prints are bounded, names included, and what was left out is told.
 */
#include "api/options.h"
#include "render/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	MIB = 1 << 20,
	LIMIT = 64 * MIB,
	MARGIN = MIB, /* heads, threads, processes */
	TICK = 64 << 10,
};

/* One thread, in another stack at each tick. */
struct bed {
	struct snap_arena arena;
	struct snap_options options;
	struct snap_recording recording;
	struct snap_track track;
	struct snap_node node;
	struct snap_recorded_process process;
	unsigned random;
};

static unsigned next_random(struct bed *bed)
{
	bed->random = bed->random * 1103515245 + 12345;
	return bed->random >> 12;
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	snap_arena_init(&bed->arena);
	snap_options_init(&bed->options);
	bed->node = (struct snap_node){ .pid = 10, .name = "program", .description = "program" };
	bed->process = (struct snap_recorded_process){ .node = &bed->node, .parent = SIZE_MAX };
	bed->track = (struct snap_track){ .tid = 10, .name = "worker" };
	bed->recording = (struct snap_recording){ .period_ns = 10000000,
						  .processes = &bed->process,
						  .process_count = 1,
						  .tracks = &bed->track,
						  .track_count = 1 };
	bed->random = 1;
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_options_deinit(&bed->options);
	snap_arena_deinit(&bed->arena);
	free(bed);
	return 0;
}

/* Frames whose names differ, of `length` bytes that repeat `text`. */
static const struct snap_frame **make_frames(struct bed *bed, size_t count, const char *text,
					     size_t length)
{
	const struct snap_frame **frames =
		snap_arena_new_array(&bed->arena, count, const struct snap_frame *);

	for (size_t i = 0; i < count; i++) {
		struct snap_frame *frame = snap_arena_new(&bed->arena, struct snap_frame);
		char *name = snap_arena_alloc(&bed->arena, length + 16);
		int n = sprintf(name, "f%06zu", i);

		for (; (size_t)n < length; n++)
			name[n] = text[(size_t)n % strlen(text)];
		name[n] = '\0';
		frame->entries = snap_arena_new(&bed->arena, struct snap_entry);
		*frame->entries = (struct snap_entry){ .function = name, .symbol = name };
		frame->entry_count = 1;
		frame->module = "/usr/lib/library.so";
		frame->address = 0x10000 + 16 * i;
		frame->offset = 16 * i;
		frame->has_offset = true;
		frames[i] = frame;
	}
	return frames;
}

/* Stacks of random frames: the first for as many ticks, each for one less, at least for one. */
static void make_stacks(struct bed *bed, size_t count, size_t depth, size_t first_ticks,
			const struct snap_frame **frames, size_t frame_count)
{
	struct snap_recording *recording = &bed->recording;
	uint32_t tick = 0;

	recording->stacks = snap_arena_new_array(&bed->arena, count, struct snap_recorded_stack);
	recording->stack_count = count;
	bed->track.runs = snap_arena_new_array(&bed->arena, count, struct snap_run);
	bed->track.run_count = count;
	for (size_t i = 0; i < count; i++) {
		struct snap_recorded_stack *stack = &recording->stacks[i];
		uint32_t ticks = i < first_ticks ? (uint32_t)(first_ticks - i) : 1;
		size_t own = depth > 2 ? depth / 2 + next_random(bed) % (depth / 2) : depth;

		*stack = (struct snap_recorded_stack){ .description = "main", .frame_count = own };
		stack->frames = snap_arena_new_array(&bed->arena, own, const struct snap_frame *);
		for (size_t k = 0; k < own; k++)
			stack->frames[k] = frames[next_random(bed) % frame_count];
		sprintf(stack->id, "%016zx", i + 1);
		bed->track.runs[i] = (struct snap_run){ .first = tick,
							.last = tick + ticks - 1,
							.stack = (uint32_t)i,
							.state = SNAP_STATE_RUNNING };
		tick += ticks;
	}
	recording->tick_count = tick;
	recording->ticks = snap_arena_new_array(&bed->arena, tick, struct snap_tick);
	for (uint32_t i = 0; i < tick; i++)
		recording->ticks[i].time_ns = recording->period_ns * i;
	recording->duration_ns = recording->period_ns * tick;
	bed->process.last = tick - 1;
}

/* Counts what is written, and keeps nothing. */
static ssize_t count_bytes(void *context, const char *bytes, size_t size)
{
	(void)bytes;
	*(size_t *)context += size;
	return (ssize_t)size;
}

/* The bytes of the report; *warning_ret is the caller's. */
static size_t size_as(const struct bed *bed, const char *name, char **warning_ret)
{
	size_t size = 0;
	FILE *out = fopencookie(&size, "w", (cookie_io_functions_t){ .write = count_bytes });
	struct stacksnap_error *err = snap_render_recording_telling(
		snap_format_by_name(name), &bed->recording, &bed->options, out, warning_ret);

	if (err)
		fail_msg("%s: %s", name, snap_error_message(err));
	fclose(out);
	return size;
}

/* Returns whether something was left out. */
static bool is_bounded(const struct bed *bed, const char *name)
{
	size_t most = LIMIT + MARGIN, size;
	char *warning = NULL;
	bool told;

	if (strcmp(name, "jsonl") == 0)
		most += bed->recording.tick_count * (size_t)TICK;
	/* The report as text, and tables beside it. */
	if (strcmp(name, "html") == 0)
		most += LIMIT;
	size = size_as(bed, name, &warning);
	if (size > most)
		fail_msg("%s: %zu bytes: %s", name, size, warning ? warning : "");
	told = warning;
	if (warning)
		assert_non_null(strstr(warning, "the report would be larger than"));
	free(warning);
	return told;
}

static const char *const by_name[] = { "text", "json", "jsonl", "folded", "chrome" };
static const char *const in_tables[] = { "pprof", "speedscope", "firefox", "firefox-gz", "html" };

static void check_all(const struct bed *bed)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(by_name); i++)
		if (!is_bounded(bed, by_name[i]))
			fail_msg("%s: nothing is told", by_name[i]);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(in_tables); i++)
		is_bounded(bed, in_tables[i]);
}

static void test_long_names(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 300, 200, 0, make_frames(bed, 60, "x", 4000), 60);
	check_all(bed);
}

/* Four, and with JSON five, bytes for each. */
static void test_names_that_are_escaped(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 100, 200, 0, make_frames(bed, 60, "\x01;\"\\\xff", 4000), 60);
	check_all(bed);
	bed->options.verbose = true;
	assert_true(is_bounded(bed, "text"));
	bed->options.summary = true;
	is_bounded(bed, "text");
}

/* Averages say nothing: a few frames are all of it, at one end of the stacks. */
static void test_uneven_names(void **state)
{
	struct bed *bed = *state;
	const struct snap_frame **large = make_frames(bed, 60, "x", 4000),
				**small = make_frames(bed, 60, "y", 8);

	make_stacks(bed, 800, 400, 0, small, 60);
	for (size_t i = 0; i < bed->recording.stack_count; i++)
		for (size_t k = 0; k < 40; k++)
			bed->recording.stacks[i].frames[k] = large[(i * 7 + k) % 60];
	check_all(bed);
}

/* So many that names in tables alone are too much. */
static void test_many_long_names(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 300, 200, 0, make_frames(bed, 12000, "x", 4000), 12000);
	check_all(bed);
	assert_true(is_bounded(bed, "firefox"));
	assert_true(is_bounded(bed, "speedscope"));
}

/* Numbers of frames, again and again. */
static void test_long_stacks_of_numbers(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 2500, 5000, 0, make_frames(bed, 60, "x", 8), 60);
	assert_true(is_bounded(bed, "speedscope"));
	assert_true(is_bounded(bed, "pprof"));
	assert_true(is_bounded(bed, "firefox"));
	assert_true(is_bounded(bed, "chrome"));
}

/* So many stacks that not even their innermost frames fit: those with few samples are one. */
static void test_rare_stacks_are_left_out(void **state)
{
	struct bed *bed = *state;
	struct snap_limited limited;
	const struct snap_recorded_stack *stacks;
	size_t kept = 0;

	make_stacks(bed, 40000, 12, 40, make_frames(bed, 60, "x", 800), 60);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(by_name); i++)
		if (strcmp(by_name[i], "text") != 0 && strcmp(by_name[i], "jsonl") != 0)
			assert_true(is_bounded(bed, by_name[i]));
	bed->options.verbose = true;
	assert_true(is_bounded(bed, "text"));
	assert_null(
		snap_limited_init(&limited, &bed->recording, &bed->options, SNAP_FRAMES_IN_GROUPS));
	stacks = limited.recording.stacks;
	assert_non_null(strstr(limited.warning, "rare stacks are left out"));
	/* The most frequent ones are there, with their innermost frame and a gap. */
	for (size_t i = 0; i < 40; i++) {
		assert_in_range(stacks[i].frame_count, 1, 12);
		assert_string_equal(stacks[i].id, bed->recording.stacks[i].id);
		assert_memory_equal(stacks[i].frames[0]->entries[0].function,
				    bed->recording.stacks[i].frames[0]->entries[0].function, 200);
		assert_int_equal(stacks[i].frame_count + stacks[i].gap_count,
				 bed->recording.stacks[i].frame_count);
	}
	for (size_t i = 0; i < bed->recording.stack_count; i++)
		kept += stacks[i].frame_count > 0;
	assert_in_range(kept, 1000, bed->recording.stack_count - 1000);
	snap_limited_deinit(&limited);
}

/* What fits is left as it is, also beside the limit. */
static void test_nothing_is_cut_below(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 100, 60, 0, make_frames(bed, 60, "x", 4000), 60);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(in_tables); i++)
		assert_false(is_bounded(bed, in_tables[i]));
	assert_false(is_bounded(bed, "text"));
	assert_false(is_bounded(bed, "folded"));
	assert_false(is_bounded(bed, "json"));
	assert_false(is_bounded(bed, "chrome"));
}

/* -n: all that was asked for. */
static void test_who_asks_gets_all(void **state)
{
	struct bed *bed = *state;

	make_stacks(bed, 200, 200, 0, make_frames(bed, 60, "x", 4000), 60);
	assert_true(is_bounded(bed, "folded"));
	bed->options.frames_given = true;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(by_name); i++) {
		char *warning = NULL;
		size_t size = size_as(bed, by_name[i], &warning);

		if (size < LIMIT + MARGIN || warning)
			fail_msg("%s: %zu bytes", by_name[i], size);
	}
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_long_names),
		with_bed(test_names_that_are_escaped),
		with_bed(test_uneven_names),
		with_bed(test_many_long_names),
		with_bed(test_long_stacks_of_numbers),
		with_bed(test_rare_stacks_are_left_out),
		with_bed(test_nothing_is_cut_below),
		with_bed(test_who_asks_gets_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
