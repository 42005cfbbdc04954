/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reports of recordings whose stacks are many and long: what formats print of them is bounded. */
#include "api/options.h"
#include "render/render.h"
#include "render/view/limit/limit.h"
#include "render/view/recorded/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FUNCTIONS = 64, THREADS = 20, STACKS = 4000, FRAMES = 200, TICKS = STACKS / THREADS };

/* Each thread is in another stack at each tick. */
struct bed {
	struct snap_options options;
	struct snap_recording recording;
	struct snap_frame functions[FUNCTIONS];
	struct snap_entry entries[FUNCTIONS];
	struct snap_recorded_stack stacks[STACKS];
	const struct snap_frame *frames[STACKS][FRAMES];
	struct snap_tick ticks[TICKS];
	struct snap_track tracks[THREADS];
	struct snap_run runs[THREADS][TICKS];
	struct snap_node node;
	struct snap_recorded_process process;
	char name[4000];
};

static void make_frames(struct bed *bed)
{
	unsigned random = 1;

	for (int i = 0; i < FUNCTIONS; i++) {
		bed->entries[i] = (struct snap_entry){ .function = "some_function_or_other",
						       .file = "/src/some/file.c",
						       .line = 1 };
		bed->functions[i] = (struct snap_frame){ .address = 0x1000 + (uint64_t)i,
							 .module = "/usr/bin/program",
							 .entries = &bed->entries[i],
							 .entry_count = 1 };
	}
	for (int i = 0; i < STACKS; i++) {
		for (int k = 0; k < FRAMES; k++) {
			random = random * 1103515245 + 12345;
			bed->frames[i][k] = &bed->functions[random >> 16 & (FUNCTIONS - 1)];
		}
		bed->stacks[i] = (struct snap_recorded_stack){ .description = "main",
							       .frames = bed->frames[i],
							       .frame_count = FRAMES };
		snprintf(bed->stacks[i].id, sizeof(bed->stacks[i].id), "%016x", i + 1);
	}
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	snap_options_init(&bed->options);
	make_frames(bed);
	bed->node = (struct snap_node){ .pid = 10, .name = "program", .description = "program" };
	bed->process = (struct snap_recorded_process){ .node = &bed->node,
						       .parent = SIZE_MAX,
						       .last = TICKS - 1 };
	for (uint32_t i = 0; i < TICKS; i++)
		bed->ticks[i].time_ns = 10000000ll * i;
	for (uint32_t t = 0; t < THREADS; t++) {
		for (uint32_t i = 0; i < TICKS; i++)
			bed->runs[t][i] = (struct snap_run){ .first = i,
							     .last = i,
							     .stack = t * TICKS + i,
							     .state = SNAP_STATE_RUNNING };
		bed->tracks[t] = (struct snap_track){ .tid = 10 + (pid_t)t,
						      .name = "worker",
						      .runs = bed->runs[t],
						      .run_count = TICKS };
	}
	bed->recording = (struct snap_recording){ .period_ns = 10000000,
						  .duration_ns = 10000000ll * TICKS,
						  .ticks = bed->ticks,
						  .tick_count = TICKS,
						  .processes = &bed->process,
						  .process_count = 1,
						  .tracks = bed->tracks,
						  .track_count = THREADS,
						  .stacks = bed->stacks,
						  .stack_count = STACKS };
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_options_deinit(&bed->options);
	free(bed);
	return 0;
}

static size_t size_as(const struct bed *bed, const char *format)
{
	FILE *out = tmpfile();
	struct stacksnap_error *err;
	long size;

	err = snap_render_recording(snap_format_by_name(format), &bed->recording, &bed->options,
				    out);
	if (err)
		fail_msg("%s: %s", format, snap_error_message(err));
	size = ftell(out);
	fclose(out);
	return (size_t)size;
}

static void test_each_format_is_bounded(void **state)
{
	struct bed *bed = *state;

	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (size_as(bed, format->name) > 100 << 20)
			fail_msg("%s prints %zu bytes", format->name, size_as(bed, format->name));
}

static void test_it_is_told(void **state)
{
	struct bed *bed = *state;
	struct snap_limited limited;
	size_t most = 0;

	assert_null(
		snap_limited_init(&limited, &bed->recording, &bed->options, SNAP_FRAMES_IN_GROUPS));
	assert_int_equal(limited.recording.warning_count, 1);
	assert_string_equal(limited.recording.warnings[0].code, "report_limited");
	for (int i = 0; i < STACKS; i++) {
		const struct snap_recorded_stack *stack = &limited.recording.stacks[i];

		if (stack->frame_count > most)
			most = stack->frame_count;
		assert_int_equal(stack->frame_count + stack->gap_count, FRAMES);
		assert_ptr_equal(stack->frames[0], bed->frames[i][0]);
		assert_ptr_equal(stack->frames[stack->frame_count - 1], bed->frames[i][FRAMES - 1]);
		assert_string_equal(stack->id, bed->stacks[i].id);
	}
	assert_in_range(most, 10, FRAMES - 1);
	/* The recording is as it was. */
	assert_int_equal(bed->recording.warning_count, 0);
	assert_int_equal(bed->stacks[0].frame_count, FRAMES);
	snap_limited_deinit(&limited);
}

static void test_who_asks_gets_all(void **state)
{
	struct bed *bed = *state;
	struct snap_limited limited;

	bed->options.frames_given = true;
	assert_null(
		snap_limited_init(&limited, &bed->recording, &bed->options, SNAP_FRAMES_IN_TICKS));
	assert_ptr_equal(limited.recording.stacks, bed->recording.stacks);
	assert_int_equal(limited.recording.warning_count, 0);
	snap_limited_deinit(&limited);
}

static void test_few_stacks_stay(void **state)
{
	struct bed *bed = *state;
	struct snap_limited limited;

	/* All threads in one stack all the time: it is printed once a group, once a tick. */
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < TICKS; i++)
			bed->runs[t][i].stack = 0;
	bed->recording.stack_count = 1;
	for (int use = SNAP_FRAMES_AS_NUMBERS; use <= SNAP_FRAMES_IN_CHANGES; use++) {
		assert_null(snap_limited_init(&limited, &bed->recording, &bed->options, use));
		assert_ptr_equal(limited.recording.stacks, bed->recording.stacks);
		snap_limited_deinit(&limited);
	}
}

static void test_long_names_are_cut(void **state)
{
	struct bed *bed = *state;
	struct snap_limited limited;

	memset(bed->name, 'n', sizeof(bed->name) - 1);
	for (int i = 0; i < FUNCTIONS; i++)
		bed->entries[i].function = bed->entries[i].symbol = bed->name;
	assert_null(
		snap_limited_init(&limited, &bed->recording, &bed->options, SNAP_FRAMES_IN_GROUPS));
	assert_int_equal(strlen(limited.recording.stacks[0].frames[0]->entries[0].function), 259);
	assert_non_null(strstr(limited.recording.warnings[0].message, "names to 256 bytes"));
	snap_limited_deinit(&limited);
	assert_true(size_as(bed, "json") < 100 << 20);
	assert_true(size_as(bed, "jsonl") < 100 << 20);
}

/* What programs write is as long as they like: it counts as names do, in each format that prints it. */
static void test_long_labels_are_cut(void **state)
{
	struct bed *bed = *state;
	struct snap_label labels[8];
	struct snap_limited limited;
	char keys[8][8];

	memset(bed->name, 'v', sizeof(bed->name) - 1);
	for (int i = 0; i < 8; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%d", i);
		labels[i] = (struct snap_label){ keys[i], bed->name };
	}
	for (int i = 0; i < STACKS; i++) {
		bed->stacks[i].frame_count = 1;
		bed->stacks[i].labels = labels;
		bed->stacks[i].label_count = 8;
	}
	assert_true(STACKS * 8 * (sizeof(bed->name) - 1) > 100 << 20);
	assert_null(
		snap_limited_init(&limited, &bed->recording, &bed->options, SNAP_FRAMES_IN_GROUPS));
	assert_int_equal(strlen(limited.recording.stacks[0].labels[7].value), 259);
	assert_string_equal(limited.recording.stacks[0].labels[7].key, "key7");
	assert_int_equal(strlen(labels[7].value), sizeof(bed->name) - 1);
	snap_limited_deinit(&limited);
	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (strcmp(format->name, "snaprec") != 0 && size_as(bed, format->name) > 100 << 20)
			fail_msg("%s prints %zu bytes", format->name, size_as(bed, format->name));
}

/* Hundreds of threads in thousands of stacks: groups count all, and list some. */
static void test_pairs_are_bounded(void **state)
{
	struct bed *bed = *state;
	struct snap_recorded_groups groups;
	size_t listed = 0, all = 0;

	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < TICKS; i++)
			bed->runs[t][i].stack = (uint32_t)i;
	bed->options.max_memory = 500 << 10;
	assert_null(snap_recorded_groups_init(&groups, &bed->recording, &bed->options));
	assert_int_equal(groups.samples, THREADS * TICKS);
	assert_int_equal(groups.snapshot.stack_count, TICKS);
	for (size_t i = 0; i < TICKS; i++) {
		const struct snap_stack *stack = &groups.snapshot.processes[0]->stacks[i];

		assert_int_equal(stack->count, THREADS);
		assert_int_equal(stack->samples, THREADS);
		assert_in_range(stack->thread_count, 1, THREADS);
		listed += stack->thread_count;
		all += stack->count;
	}
	assert_int_equal(all, THREADS * TICKS);
	assert_int_equal(listed, 500);
	assert_int_equal(groups.snapshot.warning_count, 1);
	assert_string_equal(groups.snapshot.warnings[0].code, "report_limited");
	snap_recorded_groups_deinit(&groups);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_each_format_is_bounded), with_bed(test_it_is_told),
		with_bed(test_who_asks_gets_all),      with_bed(test_few_stacks_stay),
		with_bed(test_long_names_are_cut),     with_bed(test_pairs_are_bounded),
		with_bed(test_long_labels_are_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
