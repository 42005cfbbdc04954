/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Firefox Profiler's format: tables that hold together, samples and markers none of which is
 * lost, and what it costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "long_recording.h"
#include "recordings.h"
#include "skip.h"
#include "task_snapshots.h"

#include <jansson.h>
#include <math.h>
#include <zlib.h>

static char *render(const struct snap_recording *recording, bool gz, size_t *size)
{
	struct snap_options options = { 0 };
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	assert_non_null(out);
	assert_null(gz ? snap_render_recording(snap_format_by_name("firefox-gz"), recording,
					       &options, out)
		       : snap_render_firefox(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

static json_t *render_parsed(const struct snap_recording *recording)
{
	size_t size;
	_cleanup_free_ char *text = render(recording, false, &size);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("%s at %d", error.text, error.position);
	return root;
}

static json_t *of_snapshot(const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;

	assert_null(snap_recording_of_snapshot(snapshot, &recording));
	return render_parsed(recording);
}

static json_int_t length_of(const json_t *table)
{
	return json_integer_value(json_object_get(table, "length"));
}

static json_t *cell(const json_t *table, const char *column, json_int_t row)
{
	json_t *cells = json_object_get(table, column);

	assert_true(json_is_array(cells));
	assert_true(row >= 0 && (size_t)row < json_array_size(cells));
	return json_array_get(cells, (size_t)row);
}

static json_int_t number_at(const json_t *table, const char *column, json_int_t row)
{
	json_t *value = cell(table, column, row);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

/* All columns of a table have its length. */
static void check_columns(const json_t *table, const char *name)
{
	const char *key;
	json_t *column;

	assert_true(json_is_object(table));
	json_object_foreach((json_t *)table, key, column)
	{
		if (!json_is_array(column))
			continue;
		if ((json_int_t)json_array_size(column) != length_of(table))
			fail_msg("%s.%s has %zu rows of %d", name, key, json_array_size(column),
				 (int)length_of(table));
	}
}

/* Numbers of a column lie in [least, end), or are null if they may be. */
static void check_range(const json_t *table, const char *column, json_int_t least, json_int_t end,
			bool null)
{
	for (json_int_t i = 0; i < length_of(table); i++) {
		json_t *value = cell(table, column, i);
		json_int_t number = json_integer_value(value);

		if (null && json_is_null(value))
			continue;
		if (!json_is_integer(value) || number < least || number >= end)
			fail_msg("%s[%d] is %d, not of [%d, %d)", column, (int)i, (int)number,
				 (int)least, (int)end);
	}
}

static void check_tables(const json_t *root)
{
	static const char *const names[] = { "frameTable",         "funcTable", "stackTable",
					     "nativeSymbols",      "sources",   "resourceTable",
					     "sourceLocationTable" };
	json_t *shared = json_object_get(root, "shared"),
	       *frames = json_object_get(shared, "frameTable"),
	       *funcs = json_object_get(shared, "funcTable"),
	       *stacks = json_object_get(shared, "stackTable"),
	       *resources = json_object_get(shared, "resourceTable"),
	       *sources = json_object_get(shared, "sources"),
	       *strings = json_object_get(shared, "stringArray");
	json_int_t string_count = (json_int_t)json_array_size(strings);

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++)
		check_columns(json_object_get(shared, names[i]), names[i]);
	check_range(frames, "func", 0, length_of(funcs), false);
	check_range(frames, "category", 0, 10, false);
	check_range(frames, "address", -1, (json_int_t)1 << 32, false);
	check_range(frames, "line", 1, (json_int_t)1 << 32, true);
	check_range(funcs, "name", 0, string_count, false);
	check_range(funcs, "resource", -1, length_of(resources), false);
	check_range(funcs, "source", 0, length_of(sources), true);
	check_range(resources, "name", 0, string_count, false);
	check_range(resources, "lib", 0, (json_int_t)json_array_size(json_object_get(root, "libs")),
		    false);
	check_range(sources, "filename", 0, string_count, false);
	check_range(stacks, "frame", 0, length_of(frames), false);
	for (json_int_t i = 0; i < length_of(stacks); i++) {
		json_int_t offset = number_at(stacks, "prefixOffset", i);

		assert_true(offset >= 0 && offset <= i);
	}
}

static void check_thread(const json_t *root, const json_t *thread)
{
	json_t *samples = json_object_get(thread, "samples"),
	       *markers = json_object_get(thread, "markers"),
	       *shared = json_object_get(root, "shared");
	json_int_t strings = (json_int_t)json_array_size(json_object_get(shared, "stringArray"));

	check_columns(samples, "samples");
	check_columns(markers, "markers");
	check_range(samples, "stack", 0, length_of(json_object_get(shared, "stackTable")), true);
	check_range(markers, "name", 0, strings, false);
	check_range(markers, "category", 0, 10, false);
	for (json_int_t i = 0; i < length_of(samples); i++) {
		assert_true(json_number_value(cell(samples, "timeDeltas", i)) >= 0);
		assert_true(number_at(samples, "threadCPUDelta", i) >= 0);
		/* Who is not there weighs nothing. */
		assert_int_equal(number_at(samples, "weight", i) == 0,
				 json_is_null(cell(samples, "stack", i)));
	}
	for (json_int_t i = 0; i < length_of(markers); i++) {
		json_t *end = cell(markers, "endTime", i);

		assert_true(json_is_null(end)
				    ? number_at(markers, "phase", i) == 0
				    : json_number_value(end) >=
					      json_number_value(cell(markers, "startTime", i)));
	}
	assert_true(json_is_string(json_object_get(thread, "pid")));
	assert_true(json_is_string(json_object_get(thread, "tid")));
}

static void check_profile(const json_t *root)
{
	json_t *meta = json_object_get(root, "meta"), *thread;
	size_t i;

	assert_int_equal(json_integer_value(json_object_get(meta, "version")), 24);
	assert_int_equal(json_integer_value(json_object_get(meta, "preprocessedProfileVersion")),
			 66);
	assert_true(json_is_true(json_object_get(meta, "symbolicated")));
	assert_true(json_number_value(json_object_get(meta, "interval")) > 0);
	check_tables(root);
	json_array_foreach(json_object_get(root, "threads"), i, thread) check_thread(root, thread);
}

static json_t *thread_of(const json_t *root, const char *tid)
{
	json_t *thread;
	size_t i;

	json_array_foreach(json_object_get(root, "threads"), i,
			   thread) if (strcmp(json_string_value(json_object_get(thread, "tid")),
					      tid) == 0) return thread;
	fail_msg("no thread %s", tid);
	return NULL;
}

/* The function of a stack's leaf, and its category. */
static const char *leaf(const json_t *root, json_int_t stack, json_int_t *category_ret)
{
	json_t *shared = json_object_get(root, "shared"),
	       *frames = json_object_get(shared, "frameTable");
	json_int_t frame = number_at(json_object_get(shared, "stackTable"), "frame", stack);
	json_int_t func = number_at(frames, "func", frame);

	if (category_ret)
		*category_ret = number_at(frames, "category", frame);
	return json_string_value(json_array_get(
		json_object_get(shared, "stringArray"),
		(size_t)number_at(json_object_get(shared, "funcTable"), "name", func)));
}

static void test_snapshots(void **state _unused_)
{
	struct snap_snapshot trouble = all_troubled(), empty = { .host = TEST_HOST, .time_ns = 1 };
	const struct snap_snapshot *all[] = { &service, &hostile, &trouble, &empty };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(all); i++) {
		json_t *root = of_snapshot(all[i]);

		check_profile(root);
		json_decref(root);
	}
}

static void test_threads_and_stacks(void **state _unused_)
{
	json_t *root = of_snapshot(&service), *worker = thread_of(root, "1241"),
	       *flusher = thread_of(root, "1302"), *shared = json_object_get(root, "shared"),
	       *stacks = json_object_get(shared, "stackTable");
	json_int_t row, category, depth = 0;

	assert_int_equal(json_array_size(json_object_get(root, "threads")), 17);
	assert_string_equal(json_string_value(json_object_get(worker, "pid")), "1234");
	assert_string_equal(json_string_value(json_object_get(worker, "processName")), "orderd");
	assert_true(json_is_false(json_object_get(worker, "isMainThread")));
	assert_true(json_is_true(json_object_get(thread_of(root, "1234"), "isMainThread")));
	row = number_at(json_object_get(worker, "samples"), "stack", 0);
	assert_string_equal(leaf(root, row, &category), "__futex_abstimed_wait_common");
	assert_int_equal(category, 1); /* Idle */
	/* Seven machine frames, of which one has an inlined function. */
	for (json_int_t at = row, offset = -1; offset != 0; at -= offset, depth++)
		offset = number_at(stacks, "prefixOffset", at);
	assert_int_equal(depth, 8);
	row = number_at(json_object_get(flusher, "samples"), "stack", 0);
	assert_string_equal(leaf(root, row, &category), "jbd2_log_wait_commit");
	assert_int_equal(category, 6); /* Disk */
	row = number_at(json_object_get(thread_of(root, "1310"), "samples"), "stack", 0);
	assert_string_equal(leaf(root, row, &category), "order-helper+0x5000");
	assert_int_equal(category, 2); /* User */
	json_decref(root);
}

static void test_libraries(void **state _unused_)
{
	json_t *root = of_snapshot(&service), *lib, *libs = json_object_get(root, "libs");
	bool found = false;
	size_t i;

	json_array_foreach(libs, i, lib)
	{
		const char *id = json_string_value(json_object_get(lib, "codeId"));

		if (!id || strcmp(id, LIBC_ID) != 0)
			continue;
		found = true;
		assert_string_equal(json_string_value(json_object_get(lib, "breakpadId")),
				    "67452301AB89EFCD0123456789ABCDEF0");
		assert_string_equal(json_string_value(json_object_get(lib, "name")), "libc.so.6");
	}
	assert_true(found);
	json_decref(root);
	root = of_snapshot(&hostile);
	/* A short one is padded. */
	lib = json_array_get(json_object_get(root, "libs"), 0);
	assert_string_equal(json_string_value(json_object_get(lib, "breakpadId")),
			    "000000AA0000000000000000000000000");
	json_decref(root);
}

/* Each sample once; a thread that goes ends with an empty one. */
static void test_samples(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root = render_parsed(recording), *samples, *thread;
	uint64_t weight = 0;
	double at = 0;
	size_t i;

	check_profile(root);
	json_array_foreach(json_object_get(root, "threads"), i, thread)
	{
		samples = json_object_get(thread, "samples");
		for (json_int_t k = 0; k < length_of(samples); k++)
			weight += (uint64_t)number_at(samples, "weight", k);
	}
	assert_int_equal(weight, recording->stats.thread_samples);
	/* There at ticks 2, 3, 6 and 7: at 20, 30, 80 and 90 ms. */
	samples = json_object_get(thread_of(root, "1265"), "samples");
	assert_int_equal(length_of(samples), 6);
	at = json_number_value(cell(samples, "timeDeltas", 0));
	assert_true(fabs(at - 20) < 1e-6);
	assert_true(json_is_null(cell(samples, "stack", 2)));
	assert_true(json_is_null(cell(samples, "stack", 5)));
	/* The two missed ticks in the middle of a run are a gap. */
	samples = json_object_get(thread_of(root, "1240"), "samples");
	assert_int_equal(length_of(samples), RECORDED_TICKS + 1);
	assert_true(json_is_null(cell(samples, "stack", 6)));
	assert_true(fabs(json_number_value(cell(samples, "timeDeltas", 7)) - 20) < 1e-6);
	json_decref(root);
}

static void test_processor_time(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root = render_parsed(recording);
	json_t *samples = json_object_get(thread_of(root, "1303"), "samples");
	json_int_t used = 0;

	/* It ran at three ticks, slept at four, ran at three; a gap is nobody's time. */
	for (json_int_t i = 0; i < length_of(samples); i++)
		used += number_at(samples, "threadCPUDelta", i);
	assert_int_equal(used, 6 * RECORDED_PERIOD / 1000);
	json_decref(root);
}

static void test_markers(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root = render_parsed(recording), *markers, *data;

	/* disk, running, disk until ticks were missed, disk. */
	markers = json_object_get(thread_of(root, "1302"), "markers");
	assert_int_equal(length_of(markers), 4);
	data = cell(markers, "data", 0);
	assert_string_equal(json_string_value(json_object_get(data, "state")), "disk");
	assert_string_equal(json_string_value(json_object_get(data, "syscall")), "fsync");
	assert_true(fabs(json_number_value(cell(markers, "endTime", 0)) - 40) < 1e-6);
	/* The first thread has the stops, too. */
	markers = json_object_get(json_array_get(json_object_get(root, "threads"), 0), "markers");
	data = cell(markers, "data", length_of(markers) - 1);
	assert_string_equal(json_string_value(json_object_get(data, "type")), "Stop");
	json_decref(root);
}

/* The marker of that type with that name, from `row` on. */
static json_int_t find_marker(const json_t *root, const json_t *markers, const char *type,
			      const char *name, json_int_t row)
{
	json_t *strings = json_object_get(json_object_get(root, "shared"), "stringArray");

	for (; row < length_of(markers); row++) {
		json_t *data = cell(markers, "data", row);
		size_t number = (size_t)number_at(markers, "name", row);

		if (strcmp(json_string_value(json_object_get(data, "type")), type) == 0 &&
		    strcmp(json_string_value(json_array_get(strings, number)), name) == 0)
			return row;
	}
	return -1;
}

static const char *label_value(const json_t *markers, json_int_t row)
{
	assert_true(row >= 0);
	return json_string_value(json_object_get(cell(markers, "data", row), "value"));
}

/* A label is a marker for as long as it stays, whatever other ones do meanwhile. */
static void test_labels(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_label before[] = { { "request_uri", "/a" }, { "task", "load" } },
			  after[] = { { "task", "load" } };
	const struct snap_track *track = recording->tracks;
	json_t *root, *markers;
	json_int_t row;

	while (track->tid != 1302)
		track++;
	/* On a disk, then it ran; later without. */
	recording->stacks[track->runs[0].stack].labels = before;
	recording->stacks[track->runs[0].stack].label_count = 2;
	track->runs[1].stack = 0;
	recording->stacks[0].labels = after;
	recording->stacks[0].label_count = 1;
	root = render_parsed(recording);
	check_profile(root);
	markers = json_object_get(thread_of(root, "1302"), "markers");
	row = find_marker(root, markers, "Label", "request_uri", 0);
	assert_string_equal(label_value(markers, row), "/a");
	assert_true(fabs(json_number_value(cell(markers, "endTime", row)) - 40) < 1e-6);
	row = find_marker(root, markers, "Label", "request_uri", row + 1);
	assert_true(fabs(json_number_value(cell(markers, "startTime", row)) - 50) < 1e-6);
	/* All the time until ticks were missed, then again. */
	row = find_marker(root, markers, "Label", "task", 0);
	assert_string_equal(label_value(markers, row), "load");
	assert_true(fabs(json_number_value(cell(markers, "endTime", row)) - 60) < 1e-6);
	row = find_marker(root, markers, "Label", "task", row + 1);
	assert_int_equal(find_marker(root, markers, "Label", "task", row + 1), -1);
	json_decref(root);
}

static json_int_t category_of(const json_t *root, const char *function)
{
	json_t *shared = json_object_get(root, "shared"),
	       *frames = json_object_get(shared, "frameTable"),
	       *funcs = json_object_get(shared, "funcTable"),
	       *strings = json_object_get(shared, "stringArray");

	for (json_int_t i = 0; i < length_of(frames); i++) {
		json_int_t name = number_at(funcs, "name", number_at(frames, "func", i));

		if (strcmp(json_string_value(json_array_get(strings, (size_t)name)), function) == 0)
			return number_at(frames, "category", i);
	}
	fail_msg("no frame of %s", function);
	return -1;
}

/* Functions have the category of their language; a task is a thread with its own labels. */
static void test_tasks_and_languages(void **state _unused_)
{
	json_t *root = of_snapshot(&gitea), *thread, *markers,
	       *categories = json_object_get(json_object_get(root, "meta"), "categories");
	const char *const wanted[][2] = {
		{ "code.gitea.io/gitea/modules/git.WalkReferences", "Go" },
		{ "Handler.do_GET", "Python" },
		{ "runtime.goexit", "System" },
	};
	bool found = false;
	size_t i;

	check_profile(root);
	for (i = 0; i < SNAP_ARRAY_SIZE(wanted); i++) {
		json_t *category =
			json_array_get(categories, (size_t)category_of(root, wanted[i][0]));

		assert_string_equal(json_string_value(json_object_get(category, "name")),
				    wanted[i][1]);
	}
	json_array_foreach(json_object_get(root, "threads"), i, thread)
	{
		if (strcmp(json_string_value(json_object_get(thread, "name")), "go/412") != 0)
			continue;
		found = true;
		markers = json_object_get(thread, "markers");
		assert_string_equal(label_value(markers, find_marker(root, markers, "Label",
								     "process-description", 0)),
				    "GET: /me/repo");
	}
	assert_true(found);
	json_decref(root);
}

static void test_counters(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root = render_parsed(recording), *counters = json_object_get(root, "counters"),
	       *samples = json_object_get(json_array_get(counters, 0), "samples");

	assert_int_equal(json_array_size(counters), 1);
	check_columns(samples, "counter");
	assert_int_equal(length_of(samples), RECORDED_TICKS);
	assert_int_equal(number_at(samples, "count", 3), 100);
	json_decref(root);
}

/* A process that went on as another program is two processes to the reader. */
static void test_exec(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root;

	recording->processes[1].node->pid = 1234;
	root = render_parsed(recording);
	recording->processes[1].node->pid = 1310;
	assert_string_equal(json_string_value(json_object_get(thread_of(root, "1310.2"), "pid")),
			    "1234.2");
	json_decref(root);
}

static void test_hostile_names(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;

	assert_null(snap_recording_of_snapshot(&hostile, &recording));
	text = render(recording, false, &size);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\xff'));
	assert_non_null(strstr(text, "\\\\x1b[31m"));
}

static void test_compressed(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	size_t plain_size, size;
	_cleanup_free_ char *plain = render(recording, false, &plain_size),
			    *packed = render(recording, true, &size),
			    *unpacked = malloc(plain_size + 1);
	z_stream stream = { .next_in = (Bytef *)packed,
			    .avail_in = (uInt)size,
			    .next_out = (Bytef *)unpacked,
			    .avail_out = (uInt)plain_size + 1 };

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.total_out, plain_size);
	assert_memory_equal(plain, unpacked, plain_size);
	inflateEnd(&stream);
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
	err = snap_render_firefox(recording, &options, full);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	snap_error_destroy(err);
	clearerr(full);
	err = snap_render_recording(snap_format_by_name("firefox-gz"), recording, &options, full);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	snap_error_destroy(err);
	fclose(full);
}

/* Told, not judged. */
static void test_cost(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = long_recording();
	double before = long_peak(), start = long_seconds(), plain;
	struct snap_options options = { 0 };
	FILE *null = fopen("/dev/null", "we");

	assert_non_null(null);
	assert_null(snap_render_firefox(recording, &options, null));
	plain = long_seconds() - start;
	print_message("594000 samples in %.2f s, peak of memory %.0f MB, %.0f MB before\n", plain,
		      long_peak(), before);
	start = long_seconds();
	assert_null(snap_render_recording(snap_format_by_name("firefox-gz"), recording, &options,
					  null));
	print_message("compressed in %.2f s\n", long_seconds() - start);
	fclose(null);
}

/* So many samples that runs are drawn by their ends: nothing is lost of their weight. */
static void test_many_samples(void **state _unused_)
{
	enum { TICKS = 2500000 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	json_t *root, *samples;
	json_int_t weight = 0;

	recording->tick_count = TICKS;
	recording->ticks = snap_arena_new_array(&recording->arena, TICKS, struct snap_tick);
	for (int i = 0; i < TICKS; i++)
		recording->ticks[i].time_ns = i * (int64_t)RECORDED_PERIOD;
	recording->tracks[0].runs[0].first = 0;
	recording->tracks[0].runs[0].last = TICKS - 1;
	recording->track_count = 1;
	recording->tracks[0].run_count = 1;
	root = render_parsed(recording);
	check_profile(root);
	samples = json_object_get(json_array_get(json_object_get(root, "threads"), 0), "samples");
	assert_int_equal(length_of(samples), 2);
	for (json_int_t i = 0; i < 2; i++)
		weight += number_at(samples, "weight", i);
	assert_int_equal(weight, TICKS);
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshots),
		cmocka_unit_test(test_threads_and_stacks),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_processor_time),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_many_samples),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_tasks_and_languages),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
