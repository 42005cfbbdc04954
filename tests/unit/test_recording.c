/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recordings and what all formats of profiles have in common: model/recording.h, render/view/profile.h. */
#include "recordings.h"
#include "render/render.h"
#include "render/view/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_a_snapshot_is_a_recording_of_one_tick(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	size_t threads = 0;

	assert_null(snap_recording_of_snapshot(&service, &recording));
	assert_int_equal(recording->tick_count, 1);
	assert_int_equal(recording->process_count, 2);
	assert_ptr_equal(recording->processes[0].node, &service_node);
	assert_int_equal(recording->processes[1].parent, 0);
	assert_true(recording->processes[0].parent == SIZE_MAX);
	for (size_t i = 0; i < service_node.stack_count; i++)
		threads += service_node.stacks[i].thread_count;
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		assert_int_equal(track->run_count, 1);
		assert_int_equal(recording->stacks[track->runs[0].stack].process, track->process);
		threads -= track->process == 0;
		if (i && recording->tracks[i - 1].process == track->process)
			assert_true(recording->tracks[i - 1].tid < track->tid);
	}
	assert_int_equal(threads, 0);
}

static void test_a_tick_ends_at_the_next_unless_ticks_were_missed(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();

	assert_non_null(recording);
	assert_int_equal(snap_recording_tick_end(recording, 0), RECORDED_PERIOD);
	assert_int_equal(snap_recording_tick_end(recording, 5), 6 * RECORDED_PERIOD);
	assert_int_equal(snap_recording_tick_end(recording, 6), 9 * RECORDED_PERIOD);
	assert_int_equal(snap_recording_tick_end(recording, 9), 12 * RECORDED_PERIOD);
}

static void test_stacks_are_listed_from_the_root_with_inlined_functions(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(snap_profile_deinit) struct snap_profile profile;
	bool inlined = false;

	assert_null(snap_profile_init(&profile, recording));
	for (size_t i = 0; i < recording->stack_count; i++) {
		const struct snap_lines_of *lines = snap_profile_stack(&profile, i);

		assert_non_null(lines);
		assert_true(lines->count > 0);
		for (size_t k = 0; k < lines->count; k++) {
			assert_non_null(lines->lines[k].name);
			/* An inlined function is called by the one before it, in the same frame. */
			if (lines->lines[k].entry && lines->lines[k].entry->inlined) {
				inlined = true;
				assert_ptr_equal(lines->lines[k].frame, lines->lines[k - 1].frame);
			}
		}
		assert_ptr_equal(snap_profile_stack(&profile, i), lines);
	}
	assert_true(inlined);
	assert_string_equal(snap_profile_process(&profile, 0), "orderd[1234]");
}

static void test_names_are_escaped(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_(snap_profile_deinit) struct snap_profile profile = { 0 };

	assert_null(snap_recording_of_snapshot(&hostile, &recording));
	assert_null(snap_profile_init(&profile, recording));
	for (size_t i = 0; i < recording->stack_count; i++) {
		const struct snap_lines_of *lines = snap_profile_stack(&profile, i);

		for (size_t k = 0; k < lines->count; k++)
			for (const char *at = lines->lines[k].name; *at; at++)
				assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
	}
}

static void test_the_longest_suffix_decides_the_format(void **state _unused_)
{
	assert_string_equal(snap_format_by_path("a.json")->name, "json");
	assert_string_equal(snap_format_by_path("a.txt")->name, "text");
	assert_null(snap_format_by_path("a.html"));
	assert_null(snap_format_by_path(".json"));
	for (const struct snap_format *format = snap_formats; format->name; format++) {
		_cleanup_free_ char *path = NULL;

		if (!format->suffix)
			continue;
		assert_true(asprintf(&path, "x.y%s", format->suffix) > 0);
		assert_ptr_equal(snap_format_by_path(path), format);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_snapshot_is_a_recording_of_one_tick),
		cmocka_unit_test(test_a_tick_ends_at_the_next_unless_ticks_were_missed),
		cmocka_unit_test(test_stacks_are_listed_from_the_root_with_inlined_functions),
		cmocka_unit_test(test_names_are_escaped),
		cmocka_unit_test(test_the_longest_suffix_decides_the_format),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
