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

/* Equal waits of a process are one, and who has what they are for is a hold. */
static void test_waits_of_a_snapshot(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	struct snap_wait mutex = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
	struct snap_wait orphan = mutex, far, nap = snap_wait_init(SNAP_WAIT_SLEEP, 3);
	struct snap_member members[] = {
		{ .tid = 105, .name = "e", .wait = &nap },
		{ .tid = 104, .name = "d" },
		{ .tid = 103, .name = "c", .wait = &mutex },
		{ .tid = 102, .name = "b", .wait = &orphan },
		{ .tid = 101, .name = "a", .wait = &mutex },
	};
	struct snap_member others[] = { { .tid = 201, .name = "f", .wait = &far },
					{ .tid = 202, .name = "g", .wait = &mutex } };
	struct snap_stack stacks[] = {
		{ .count = 5, .threads = members, .thread_count = SNAP_ARRAY_SIZE(members) },
		{ .count = 2, .threads = others, .thread_count = SNAP_ARRAY_SIZE(others) },
	};
	struct snap_node nodes[] = { { .pid = 200, .stacks = &stacks[1], .stack_count = 1 },
				     { .pid = 100, .stacks = &stacks[0], .stack_count = 1 } };
	struct snap_node *roots[] = { &nodes[0], &nodes[1] };
	struct snap_snapshot snapshot = { .processes = roots,
					  .root_count = 2,
					  .waits.asked = true };

	mutex.address = 0x200;
	mutex.has_owner = true;
	mutex.owner = (struct snap_wait_party){ .pid = 100, .tid = 104 };
	mutex.owner_lack = SNAP_OWNER_KNOWN;
	far = mutex;
	far.address = 0x100;
	far.owner.outside = true;
	far.owner.pid = 300;
	far.owner.tid = 301;
	orphan.address = 0x100;
	orphan.owner_lack = SNAP_OWNER_EXITED;
	orphan.owner.tid = 99;
	nap.owner_lack = SNAP_OWNER_NOT_KEPT;
	assert_null(snap_recording_of_snapshot(&snapshot, &recording));
	assert_true(recording->explains);
	/* By process, kind and object. */
	assert_int_equal(recording->wait_count, 5);
	assert_int_equal(recording->waits[0].process, 0);
	assert_int_equal(recording->waits[0].wait->address, 0x100);
	assert_int_equal(recording->waits[0].owners[0].track, SIZE_MAX);
	assert_int_equal(recording->waits[0].owners[0].tid, 301);
	/* Its owner is of another process. */
	assert_int_equal(recording->waits[1].process, 0);
	assert_int_equal(recording->waits[1].owner_count, 1);
	assert_int_equal(recording->waits[1].owners[0].lack, SNAP_OWNER_KNOWN);
	assert_int_equal(recording->tracks[recording->waits[1].owners[0].track].tid, 104);
	assert_false(recording->waits[1].wait->has_owner);
	assert_int_equal(recording->waits[1].wait->owner.tid, 0);
	assert_int_equal(recording->waits[2].owners[0].lack, SNAP_OWNER_EXITED);
	assert_int_equal(recording->waits[2].owners[0].tid, 99);
	assert_int_equal(recording->waits[2].owners[0].track, SIZE_MAX);
	assert_int_equal(recording->waits[3].wait->address, 0x200);
	assert_int_equal(recording->waits[4].wait->kind, SNAP_WAIT_SLEEP);
	assert_int_equal(recording->waits[4].owner_count, 0);
	assert_int_equal(recording->waits[4].wait->owner_lack, SNAP_OWNER_NOT_KEPT);
	/* 201, 202, then 101 … 105 */
	assert_int_equal(recording->tracks[0].runs[0].wait, 1);
	assert_int_equal(recording->tracks[1].runs[0].wait, 2);
	assert_int_equal(recording->tracks[2].runs[0].wait, 4);
	assert_int_equal(recording->tracks[3].runs[0].wait, 3);
	assert_int_equal(recording->tracks[4].runs[0].wait, 4);
	assert_int_equal(recording->tracks[5].runs[0].wait, 0);
	assert_int_equal(recording->tracks[6].runs[0].wait, 5);
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
	assert_null(snap_format_by_path("a.htm"));
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
		cmocka_unit_test(test_waits_of_a_snapshot),
		cmocka_unit_test(test_a_tick_ends_at_the_next_unless_ticks_were_missed),
		cmocka_unit_test(test_stacks_are_listed_from_the_root_with_inlined_functions),
		cmocka_unit_test(test_names_are_escaped),
		cmocka_unit_test(test_the_longest_suffix_decides_the_format),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
