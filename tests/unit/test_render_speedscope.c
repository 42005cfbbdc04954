/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* speedscope's format: byte for byte, and samples held against the recording. */
#include "big_recording.h"
#include "recordings.h"
#include "render/render.h"
#include "render/view/profile.h"
#include "render/view/spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

#include <jansson.h>

static char *render(const struct snap_recording *recording, enum snap_state_frames state_frames)
{
	struct snap_options options = { .state_frames = state_frames };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_null(snap_render_speedscope(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), length);
	return text;
}

static json_t *parse(const char *text)
{
	json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(document);
	return document;
}

/* The name of a frame of a sample. */
static const char *frame_of(const json_t *document, const json_t *sample, size_t number)
{
	const json_t *frames = json_object_get(json_object_get(document, "shared"), "frames");
	size_t index = (size_t)json_integer_value(json_array_get(sample, number));

	assert_true(number < json_array_size(sample) && index < json_array_size(frames));
	return json_string_value(json_object_get(json_array_get(frames, index), "name"));
}

static const json_t *profile_named(const json_t *document, const char *name)
{
	const json_t *profiles = json_object_get(document, "profiles");

	for (size_t i = 0; i < json_array_size(profiles); i++) {
		const json_t *profile = json_array_get(profiles, i);

		if (strcmp(json_string_value(json_object_get(profile, "name")), name) == 0)
			return profile;
	}
	fail_msg("no profile %s", name);
	return NULL;
}

/* As many weights as samples, which make the end value; it is returned. */
static int64_t check_profile(const json_t *profile)
{
	const json_t *weights = json_object_get(profile, "weights");
	int64_t sum = 0;

	assert_int_equal(json_array_size(weights),
			 json_array_size(json_object_get(profile, "samples")));
	for (size_t i = 0; i < json_array_size(weights); i++) {
		assert_true(json_integer_value(json_array_get(weights, i)) > 0);
		sum += json_integer_value(json_array_get(weights, i));
	}
	assert_int_equal(json_integer_value(json_object_get(profile, "endValue")), sum);
	return sum;
}

static void check_profiles(const json_t *document)
{
	const json_t *profiles = json_object_get(document, "profiles");

	for (size_t i = 0; i < json_array_size(profiles); i++)
		check_profile(json_array_get(profiles, i));
}

static void check_document(const char *name, const char *text)
{
	json_t *document = parse(text);

	check_profiles(document);
	json_decref(document);
	golden_check(name, text);
}

static void test_documents(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(snap_recording_destroyp) struct snap_recording *snapshot = NULL, *bad = NULL;
	_cleanup_free_ char *text = render(recording, SNAP_STATE_FRAMES_ROOT),
			    *snapshot_text = NULL, *bad_text = NULL;

	check_document("service.speedscope", text);
	assert_null(snap_recording_of_snapshot(&service, &snapshot));
	snapshot_text = render(snapshot, SNAP_STATE_FRAMES_NO);
	check_document("service-snapshot.speedscope", snapshot_text);
	assert_null(snap_recording_of_snapshot(&hostile, &bad));
	bad_text = render(bad, SNAP_STATE_FRAMES_LEAF);
	check_document("hostile.speedscope", bad_text);
}

static void test_nothing_is_a_document(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *empty = snap_recording_new();
	_cleanup_free_ char *text = render(empty, SNAP_STATE_FRAMES_ROOT);
	json_t *document = parse(text);

	assert_int_equal(json_array_size(json_object_get(document, "profiles")), 1);
	json_decref(document);
}

/* The sums have each sample once; those of the processes make that of all. */
static void test_sums_have_all_samples(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render(recording, SNAP_STATE_FRAMES_ROOT);
	json_t *document = parse(text);
	int64_t all = check_profile(profile_named(document, "all threads"));

	assert_int_equal(all, (int64_t)recording->stats.thread_samples * RECORDED_PERIOD);
	assert_int_equal(check_profile(profile_named(document, "orderd[1234]")) +
				 check_profile(profile_named(document, "order-helper[1310]")),
			 all);
	json_decref(document);
}

/* ---- threads along the time ---- */

static void check_sample(const json_t *document, const json_t *sample, struct snap_profile *profile,
			 const struct snap_run *run, enum snap_state_frames state_frames)
{
	const struct snap_lines_of *lines = snap_profile_stack(profile, run->stack);
	size_t count = json_array_size(sample), before = state_frames == SNAP_STATE_FRAMES_ROOT;

	assert_int_equal(count, lines->count + (state_frames != SNAP_STATE_FRAMES_NO));
	for (size_t i = 0; i < lines->count; i++)
		assert_string_equal(frame_of(document, sample, i + before), lines->lines[i].name);
	if (state_frames != SNAP_STATE_FRAMES_NO)
		assert_string_equal(frame_of(document, sample, before ? 0 : count - 1),
				    snap_profile_state(run->state));
}

static void check_track(const json_t *document, struct snap_profile *profile,
			const struct snap_timeline *timeline, const struct snap_track *track,
			enum snap_state_frames state_frames)
{
	const json_t *line = profile_named(document, snap_profile_thread(profile, track));
	const json_t *samples = json_object_get(line, "samples");
	const json_t *weights = json_object_get(line, "weights");
	int64_t begin = 0, end = 0;
	size_t at = 0;
	struct snap_spans spans;
	struct snap_span span;

	assert_int_equal(check_profile(line),
			 snap_timeline_tick_end(timeline, timeline->recording->tick_count - 1));
	snap_spans_init(&spans, timeline, track);
	while (snap_spans_next(&spans, &span)) {
		while (end <= span.begin_ns) {
			begin = end;
			end += json_integer_value(json_array_get(weights, at++));
			/* What no span covers has no frames. */
			if (end <= span.begin_ns && begin == span.begin_ns)
				assert_int_equal(json_array_size(json_array_get(samples, at - 1)),
						 0);
		}
		assert_true(begin <= span.begin_ns && span.end_ns <= end);
		check_sample(document, json_array_get(samples, at - 1), profile, span.run,
			     state_frames);
	}
}

static void check_recording(enum snap_state_frames state_frames)
{
	struct big_shape shape = {
		.threads = 5, .ticks = 300, .stay = 3, .lost = 30, .period_ns = 10000000
	};
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = big_recording(&shape);
	_cleanup_free_ char *text = render(recording, state_frames);
	_cleanup_(snap_profile_deinit) struct snap_profile profile;
	_cleanup_(snap_timeline_deinit) struct snap_timeline timeline;
	json_t *document = parse(text);

	assert_null(snap_profile_init(&profile, recording));
	assert_null(snap_timeline_init(&timeline, recording));
	check_profiles(document);
	for (size_t i = 0; i < recording->track_count; i++)
		check_track(document, &profile, &timeline, &recording->tracks[i], state_frames);
	json_decref(document);
}

static void test_threads_stand_as_in_the_recording(void **state _unused_)
{
	for (enum snap_state_frames i = SNAP_STATE_FRAMES_ROOT; i <= SNAP_STATE_FRAMES_NO; i++)
		check_recording(i);
}

static void test_of_very_many_threads_the_busiest_are_written(void **state _unused_)
{
	struct big_shape shape = { .threads = 600, .ticks = 3, .stay = 1, .period_ns = 10000000 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = big_recording(&shape);
	_cleanup_free_ char *text = NULL;
	json_t *document;

	/* All but every sixth never run. */
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			recording->tracks[i].runs[k].state =
				i % 6 ? SNAP_STATE_SLEEPING : SNAP_STATE_RUNNING;
	text = render(recording, SNAP_STATE_FRAMES_ROOT);
	document = parse(text);
	assert_int_equal(json_array_size(json_object_get(document, "profiles")), 2 + 500);
	profile_named(document, "worker-594/1594");
	profile_named(document, "worker-1/1001");
	check_profiles(document);
	json_decref(document);
}

/* A function at two lines is one frame without a line; at one, it has it. */
static void test_a_function_is_one_frame(void **state _unused_)
{
	struct big_shape shape = { .threads = 5, .ticks = 300, .stay = 1, .period_ns = 10000000 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = big_recording(&shape);
	_cleanup_free_ char *text = render(recording, SNAP_STATE_FRAMES_NO);
	json_t *document = parse(text);
	const json_t *frames = json_object_get(json_object_get(document, "shared"), "frames");
	size_t with = 0, without = 0;

	for (size_t i = 0; i < json_array_size(frames); i++) {
		const json_t *frame = json_array_get(frames, i);
		const char *name = json_string_value(json_object_get(frame, "name"));

		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(name, json_string_value(json_object_get(
							      json_array_get(frames, k), "name")));
		if (!json_object_get(frame, "file"))
			continue;
		with += json_object_get(frame, "line") != NULL;
		without += json_object_get(frame, "line") == NULL;
	}
	assert_true(with > 0 && without > 0);
	json_decref(document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_nothing_is_a_document),
		cmocka_unit_test(test_sums_have_all_samples),
		cmocka_unit_test(test_threads_stand_as_in_the_recording),
		cmocka_unit_test(test_of_very_many_threads_the_busiest_are_written),
		cmocka_unit_test(test_a_function_is_one_frame),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
