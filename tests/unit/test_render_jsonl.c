/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JSON Lines: the same documents as JSON, one a tick or an interval, none lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "long_recording.h"
#include "recordings.h"
#include "schema.h"
#include "skip.h"

#include <jansson.h>

static char *render_lines(const struct snap_recording *recording,
			  const struct snap_options *options)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(snap_render_jsonl_recording(recording, options, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

/* Each line as a document, an array to be released. */
static json_t *parse_lines(const char *text)
{
	json_t *all = json_array();

	while (*text) {
		const char *end = strchr(text, '\n');
		json_error_t error;
		json_t *one;

		assert_non_null(end);
		one = json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, &error);
		if (!one)
			fail_msg("%s: %.*s", error.text, (int)(end - text), text);
		json_array_append_new(all, one);
		text = end + 1;
	}
	return all;
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* The same document as JSON, keys in the same order. */
static void check_snapshot(const struct snap_snapshot *snapshot)
{
	struct snap_options options = { 0 };
	_cleanup_free_ char *line = golden_render(snap_render_jsonl, snapshot, &options, NULL),
			    *whole = golden_render(snap_render_json, snapshot, &options, NULL);
	json_t *all = parse_lines(line), *one = json_loads(whole, 0, NULL);
	_cleanup_free_ char *got = json_dumps(json_array_get(all, 0), JSON_COMPACT),
			    *wanted = json_dumps(one, JSON_COMPACT);

	assert_int_equal(json_array_size(all), 1);
	assert_string_equal(got, wanted);
	json_decref(all);
	json_decref(one);
}

static void test_snapshots(void **state _unused_)
{
	struct snap_snapshot flat = flat_service(), trouble = all_troubled(),
			     empty = { .host = TEST_HOST, .time_ns = 1 };

	check_snapshot(&service);
	check_snapshot(&flat);
	check_snapshot(&trouble);
	check_snapshot(&hostile);
	check_snapshot(&empty);
}

static void test_ticks(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render_lines(recording, &options);
	json_t *all = parse_lines(text), *one;
	uint64_t samples = 0;

	assert_int_equal(json_array_size(all), RECORDED_TICKS);
	for (size_t i = 0; i < RECORDED_TICKS; i++) {
		one = json_array_get(all, i);
		samples += (uint64_t)number_of(one, "thread_count");
		assert_string_equal(text_of(one, "schema"), "stacksnap.snapshot");
		assert_int_equal(number_of(one, "stop_duration_ns"), 100000);
		assert_int_equal(number_of(one, "process_count"), 2);
		assert_int_equal(json_array_size(json_object_get(one, "warnings")),
				 i ? 0 : recording->warning_count);
	}
	assert_int_equal(samples, recording->stats.thread_samples);
	assert_string_equal(text_of(json_array_get(all, 0), "time"),
			    "2026-11-23T07:52:18.106000000Z");
	/* Two ticks were missed before it. */
	assert_string_equal(text_of(json_array_get(all, 6), "time"),
			    "2026-11-23T07:52:18.186000000Z");
	json_decref(all);
}

/* The stack of a process's document with this label. */
static json_t *stack_with(const json_t *document, const char *key, const char *value)
{
	json_t *process = json_array_get(json_object_get(document, "processes"), 0), *stack;
	size_t i;

	json_array_foreach(json_object_get(process, "stacks"), i, stack)
	{
		const char *label = text_of(json_object_get(stack, "labels"), key);

		if (label && strcmp(label, value) == 0)
			return stack;
	}
	return NULL;
}

static void test_groups(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render_lines(recording, &options);
	json_t *all = parse_lines(text), *first = json_array_get(all, 0),
	       *third = json_array_get(all, 2), *fourth = json_array_get(all, 3);
	json_t *pool = stack_with(first, "thread_name", "worker-*");

	/* worker-11 is born at the third tick; at the fourth reindex waits where pool do. */
	assert_int_equal(number_of(pool, "count"), 11);
	pool = stack_with(third, "thread_name", "worker-*");
	assert_int_equal(number_of(pool, "count"), 12);
	assert_string_equal(text_of(json_object_get(pool, "labels"), "syscall"), "futex");
	assert_null(stack_with(fourth, "thread_name", "worker-*"));
	pool = stack_with(fourth, "syscall", "futex");
	assert_int_equal(number_of(pool, "count"), 13);
	/* The same group has the same id at all ticks. */
	assert_string_equal(text_of(pool, "id"),
			    text_of(stack_with(first, "syscall", "futex"), "id"));
	/* What ran alone at the fifth tick was in the disk before. */
	assert_non_null(stack_with(fourth, "thread_name", "flusher"));
	assert_string_equal(text_of(json_object_get(stack_with(json_array_get(all, 4),
							       "thread_name", "flusher"),
						    "labels"),
				    "state"),
			    "running");
	json_decref(all);
}

static void test_views(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_TID, .flat = true };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render_lines(recording, &options);
	json_t *all = parse_lines(text), *one, *process;
	size_t i, k;

	json_array_foreach(all, i, one)
	{
		assert_int_equal(json_array_size(json_object_get(one, "processes")), 2);
		assert_int_equal(number_of(one, "stack_count"), number_of(one, "thread_count"));
		json_array_foreach(json_object_get(one, "processes"), k, process)
			assert_null(json_object_get(process, "children"));
	}
	json_decref(all);
}

static void test_interval(void **state _unused_)
{
	/* Ticks are at 0 … 50 and 80 … 110 ms. */
	static const struct {
		int64_t interval;
		size_t documents;
	} cases[] = {
		{ 1, 10 },       { 10000000, 10 },  { 20000000, 5 },      { 30000000, 4 },
		{ 70000000, 2 }, { 1000000000, 1 }, { INT64_MAX / 4, 1 },
	};
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		struct snap_options options = { .interval_ns = cases[i].interval };
		_cleanup_free_ char *text = render_lines(recording, &options);
		json_t *all = parse_lines(text);

		assert_int_equal(json_array_size(all), cases[i].documents);
		json_decref(all);
	}
}

/* An exec and an end: who is not there is not in the document, children move up. */
static void test_processes_come_and_go(void **state _unused_)
{
	struct snap_options options = { 0 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *all, *late;

	recording->processes[0].last = 4;
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].process == 0)
			for (size_t k = 0; k < recording->tracks[i].run_count; k++)
				if (recording->tracks[i].runs[k].last > 4)
					recording->tracks[i].run_count = k;
	_cleanup_free_ char *text = render_lines(recording, &options);
	all = parse_lines(text);
	late = json_array_get(all, 9);
	assert_int_equal(number_of(late, "process_count"), 1);
	assert_int_equal(number_of(json_array_get(json_object_get(late, "processes"), 0), "pid"),
			 1310);
	assert_int_equal(number_of(json_array_get(all, 0), "process_count"), 2);
	json_decref(all);
}

static void test_hostile_names(void **state _unused_)
{
	struct snap_options options = { 0 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	json_t *all;

	assert_null(snap_recording_of_snapshot(&hostile, &recording));
	_cleanup_free_ char *text = render_lines(recording, &options);
	all = parse_lines(text);
	assert_int_equal(json_array_size(all), 1);
	assert_null(strchr(text, '\033'));
	json_decref(all);
}

static void test_schema(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render_lines(recording, &options);

	schema_check("stacksnap-snapshot.schema.json", text);
}

static void test_full_disk(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { 0 };
	FILE *full = fopen("/dev/full", "we");
	struct stacksnap_error *err;

	if (!full)
		skip_because(NO_DEV_FULL);
	setvbuf(full, NULL, _IONBF, 0);
	err = snap_render_jsonl_recording(recording, &options, full);
	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	snap_error_destroy(err);
	fclose(full);
}

static void test_cancel(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	volatile int cancel = 1;
	struct snap_options options = { .cancel = &cancel };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct stacksnap_error *err = snap_render_jsonl_recording(recording, &options, out);

	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
	fclose(out);
	free(text);
}

/* Told, not judged: how fast it is, and how much memory it takes. */
static void test_speed(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = long_recording();
	FILE *null = fopen("/dev/null", "we");
	double start = long_seconds(), before = long_peak(), seconds, megabytes;
	_cleanup_free_ char *text = NULL;

	assert_non_null(null);
	assert_null(snap_render_jsonl_recording(recording, &options, null));
	fclose(null);
	seconds = long_seconds() - start;
	print_message("peak of memory %.0f MB, %.0f MB before\n", long_peak(), before);
	recording->tick_count = 100;
	text = render_lines(recording, &options);
	megabytes = (double)strlen(text) * LONG_TICKS / 100 / 1e6;
	print_message("%d documents, %.0f MB in %.2f s: %.0f MB/s\n", LONG_TICKS, megabytes,
		      seconds, megabytes / seconds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshots),     cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_groups),        cmocka_unit_test(test_views),
		cmocka_unit_test(test_interval),      cmocka_unit_test(test_processes_come_and_go),
		cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_schema),
		cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_speed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
