/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recordings as text and as one JSON document: where threads stood, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"
#include "golden.h"
#include "long_recording.h"
#include "recordings.h"
#include "schema.h"
#include "skip.h"

#include <jansson.h>

enum { BY_DEFAULT = SNAP_GROUP_STACK | SNAP_GROUP_STATE };

typedef struct stacksnap_error *(*recording_renderer)(const struct snap_recording *,
						      const struct snap_options *, FILE *);

/* Not inlined: gcc 12 takes the text of a memory stream for the pointer that it was stored by. */
static __attribute__((noinline)) char *render(recording_renderer renderer,
					      const struct snap_recording *recording,
					      const struct snap_options *options)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(renderer(recording, options, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

static void check_text(const char *name, const struct snap_options *options)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render(snap_render_text_recording, recording, options);

	golden_check(name, text);
}

static void test_text(void **state _unused_)
{
	struct snap_options plain = { .group_by = BY_DEFAULT, .utf8 = true },
			    summary = { .group_by = BY_DEFAULT, .utf8 = true, .summary = true },
			    flat = { .group_by = BY_DEFAULT, .flat = true },
			    stacks = { .group_by = SNAP_GROUP_STACK, .utf8 = true, .width = 100 };

	check_text("recording.txt", &plain);
	check_text("recording-summary.txt", &summary);
	check_text("recording-flat.txt", &flat);
	check_text("recording-stacks.txt", &stacks);
}

/* Who came or went meanwhile; the other was there from the first tick on, whenever that was. */
static void test_life(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .group_by = BY_DEFAULT, .utf8 = true };
	_cleanup_free_ char *text = NULL;

	recording->ticks[0].time_ns = 1;
	recording->processes[1].first = 8;
	recording->processes[1].last = 9;
	recording->processes[1].ended = true;
	text = render(snap_render_text_recording, recording, &options);
	assert_non_null(strstr(text, "in 1 stack · from 0.1 s on · ended after 0.1 s\n"));
	assert_null(strstr(text, "5 stacks · from"));
}

/* What is rare is told in one line, unless all is wanted. */
static void test_rare_stacks(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .group_by = BY_DEFAULT, .utf8 = true },
			    all = { .group_by = BY_DEFAULT, .utf8 = true, .verbose = 1 };
	_cleanup_free_ char *text = NULL, *whole = NULL;

	/* 100,000 ticks of a worker hide the ten of everything else. */
	recording->tick_count = 100000;
	recording->ticks = snap_arena_new_array(&recording->arena, 100000, struct snap_tick);
	for (int i = 0; i < 100000; i++)
		recording->ticks[i].time_ns = i * (int64_t)RECORDED_PERIOD;
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].tid == 1240)
			recording->tracks[i].runs[0].last = 99999;
	text = render(snap_render_text_recording, recording, &options);
	whole = render(snap_render_text_recording, recording, &all);
	assert_non_null(strstr(text, " other stacks (-v)"));
	assert_null(strstr(text, "flush_journal   "));
	assert_null(strstr(whole, " other stacks"));
	assert_non_null(strstr(whole, "flush_journal"));
}

static json_t *parsed(const struct snap_recording *recording, const struct snap_options *options)
{
	_cleanup_free_ char *text = render(snap_render_json_recording, recording, options);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("%s", error.text);
	return root;
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Samples of threads are those of their stack, states too; stacks are sorted. */
static json_int_t check_stacks(const json_t *process)
{
	json_int_t all = 0, before = INT64_MAX;
	json_t *stack, *thread, *child;
	size_t i, k;

	json_array_foreach(json_object_get(process, "stacks"), i, stack)
	{
		json_int_t samples = number_of(stack, "samples"), threads = 0, states = 0;
		const char *word;
		json_t *count;

		json_array_foreach(json_object_get(stack, "threads"), k, thread) threads +=
			number_of(thread, "samples");
		json_object_foreach(json_object_get(stack, "states"), word, count) states +=
			json_integer_value(count);
		assert_int_equal(threads, samples);
		assert_int_equal(states, samples);
		assert_int_equal(number_of(stack, "duration_ns"), samples * RECORDED_PERIOD);
		assert_true(samples <= before);
		before = samples;
		all += samples;
	}
	json_array_foreach(json_object_get(process, "children"), i, child) all +=
		check_stacks(child);
	return all;
}

static void test_sums(void **state _unused_)
{
	static const unsigned group_by[] = { BY_DEFAULT, SNAP_GROUP_STACK, SNAP_GROUP_TID,
					     BY_DEFAULT | SNAP_GROUP_NAME };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(group_by); i++) {
		struct snap_options options = { .group_by = group_by[i] };
		json_t *root = parsed(recording, &options);
		json_t *process = json_array_get(json_object_get(root, "processes"), 0);

		assert_string_equal(json_string_value(json_object_get(root, "schema")),
				    "stacksnap.recording");
		assert_int_equal(number_of(root, "sample_count"), recording->stats.thread_samples);
		assert_int_equal(check_stacks(process), recording->stats.thread_samples);
		assert_int_equal(number_of(root, "thread_count"), 17);
		assert_int_equal(number_of(process, "last_ns"), 11 * RECORDED_PERIOD);
		json_decref(root);
	}
}

static json_t *stack_of(const json_t *root, const char *state, const char *description)
{
	json_t *process = json_array_get(json_object_get(root, "processes"), 0), *stack;
	size_t i;

	json_array_foreach(json_object_get(process, "stacks"), i, stack)
	{
		json_t *label = json_object_get(json_object_get(stack, "labels"), "state");

		if (strcmp(json_string_value(json_object_get(stack, "description")), description) ==
			    0 &&
		    (state ? label && strcmp(json_string_value(label), state) == 0 : !label))
			return stack;
	}
	fail_msg("no stack of %s", description);
	return NULL;
}

/* The flusher wrote at nine ticks and ran at one. */
static void test_states(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .group_by = BY_DEFAULT },
			    stacks = { .group_by = SNAP_GROUP_STACK };
	json_t *root = parsed(recording, &options), *stack, *figures;

	assert_int_equal(number_of(stack_of(root, "disk", "flusher_main"), "samples"), 9);
	assert_int_equal(number_of(stack_of(root, "running", "flusher_main"), "samples"), 1);
	figures = json_object_get(root, "recording");
	assert_int_equal(number_of(figures, "ticks_missed"), 2);
	assert_string_equal(json_string_value(json_object_get(figures, "end")), "time");
	json_decref(root);
	root = parsed(recording, &stacks);
	stack = stack_of(root, NULL, "flusher_main");
	assert_int_equal(number_of(stack, "samples"), 10);
	assert_int_equal(number_of(json_object_get(stack, "states"), "running"), 1);
	assert_int_equal(number_of(json_object_get(stack, "states"), "disk"), 9);
	json_decref(root);
}

static void test_schema(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service(),
								 *odd = NULL;
	struct snap_options options = { .group_by = BY_DEFAULT }, flat = { .flat = true };
	_cleanup_free_ char *text = NULL, *other = NULL;

	recording->is_slice = true;
	recording->processes[1].ended = true;
	text = render(snap_render_json_recording, recording, &options);
	schema_check("stacksnap-recording.schema.json", text);
	assert_null(snap_recording_of_snapshot(&hostile, &odd));
	odd->period_ns = 1;
	other = render(snap_render_json_recording, odd, &flat);
	schema_check("stacksnap-recording.schema.json", other);
}

static void test_hostile_names(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	struct snap_options options = { .utf8 = true, .verbose = 2 };
	_cleanup_free_ char *text = NULL, *json = NULL;

	assert_null(snap_recording_of_snapshot(&hostile, &recording));
	recording->period_ns = RECORDED_PERIOD;
	text = render(snap_render_text_recording, recording, &options);
	json = render(snap_render_json_recording, recording, &options);
	for (char *p = text; *p; p++)
		*p = *p == '\n' || *p == '\\' ? ' ' : *p;
	for (char *p = json; *p; p++)
		*p = *p == '\n' || *p == '\\' ? ' ' : *p;
	assert_true(snap_escape_is_clean(text, strlen(text), 0));
	assert_true(snap_escape_is_clean(json, strlen(json), 0));
}

/* Nothing was sampled; figures that are none. */
static void test_empty(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = snap_recording_new();
	struct snap_options options = { .group_by = BY_DEFAULT };
	_cleanup_free_ char *text = NULL, *json = NULL;

	recording->period_ns = RECORDED_PERIOD;
	recording->time_ns = 1;
	recording->stats.hz_asked = 0.0 / 0.0;
	recording->stats.hz_reached = 1e300;
	text = render(snap_render_text_recording, recording, &options);
	json = render(snap_render_json_recording, recording, &options);
	assert_non_null(strstr(text, "0 processes"));
	schema_check("stacksnap-recording.schema.json", json);
}

static void test_full_disk(void **state _unused_)
{
	static const recording_renderer renderers[] = { snap_render_text_recording,
							snap_render_json_recording };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { 0 };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(renderers); i++) {
		FILE *full = fopen("/dev/full", "we");
		struct stacksnap_error *err;

		if (!full)
			skip_because(NO_DEV_FULL);
		setvbuf(full, NULL, _IONBF, 0);
		err = renderers[i](recording, &options, full);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
		snap_error_destroy(err);
		fclose(full);
	}
}

/* Told, not judged. */
static void test_cost(void **state _unused_)
{
	static const struct {
		const char *name;
		recording_renderer renderer;
	} formats[] = { { "text", snap_render_text_recording },
			{ "json", snap_render_json_recording } };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = long_recording();
	struct snap_options options = { .group_by = BY_DEFAULT, .utf8 = true };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(formats); i++) {
		double start = long_seconds(), before = long_peak();
		FILE *null = fopen("/dev/null", "we");

		assert_non_null(null);
		assert_null(formats[i].renderer(recording, &options, null));
		fclose(null);
		print_message("%s: 594000 samples in %.2f s, peak of memory %.0f MB, %.0f MB "
			      "before\n",
			      formats[i].name, long_seconds() - start, long_peak(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),          cmocka_unit_test(test_life),
		cmocka_unit_test(test_rare_stacks),   cmocka_unit_test(test_sums),
		cmocka_unit_test(test_states),        cmocka_unit_test(test_schema),
		cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_cost),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
