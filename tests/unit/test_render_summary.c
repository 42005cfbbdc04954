/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a recording amounts to, for people and as figures (render/summary.h). */
#include "recordings.h"
#include "render/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Not inlined: gcc 12 takes the text of a memory stream for the pointer that it was stored by. */
static __attribute__((noinline)) char *summary_of(const struct snap_recording *recording,
						  const struct snap_options *options)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_null(snap_render_summary(recording, options, out));
	fclose(out);
	return text;
}

static void test_figures_come_first(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = summary_of(recording, &options);
	const char *begin = "120.0 ms at 83.3 Hz (100 Hz asked): 10 ticks, 2 missed "
			    "(1 as no processor was free, 1 as the look before took too long)\n"
			    "stopped 0.83 % of the time (1.0 ms)\n";

	assert_memory_equal(text, begin, strlen(begin));
	assert_null(strstr(text, "targets have exited"));
	assert_null(strstr(text, "shown:"));
	assert_null(strstr(text, "read without a stop"));
}

/* How samples were taken is for those who ask. */
static void test_more_figures_with_verbose(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .utf8 = true, .verbose = 1 };
	_cleanup_free_ char *text = summary_of(recording, &options);

	assert_non_null(strstr(text,
			       "\nof the samples 87.8 % are of threads that had not run, "
			       "6.1 % were read without a stop, 6.1 % were stopped for it\n"));
}

static void test_the_end_and_the_slice_are_told(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = NULL;

	recording->end = SNAP_END_TARGETS;
	recording->is_slice = true;
	text = summary_of(recording, &options);
	assert_non_null(strstr(text, "\nall targets have exited\n"));
	assert_non_null(strstr(text, "\nshown: 120.0 ms, "));
}

/* The share that a line of the table gives to a function in a state; negative: no such line. */
static double share_of(const char *text, const char *state, const char *function)
{
	for (const char *line = strstr(text, "function\n"); line; line = strchr(line, '\n')) {
		double share;
		char found[16], name[128];

		line++;
		if (sscanf(line, "%lf %% %15s %127[^\n]", &share, found, name) == 3 &&
		    strcmp(found, state) == 0 && strcmp(name, function) == 0)
			return share;
	}
	return -1;
}

/* Two frames in one function, one in the C library below a function of the program's. */
struct bed {
	struct snap_entry entries[4];
	struct snap_frame frames[4];
	const struct snap_frame *lists[3][2];
	struct snap_recorded_stack stacks[3];
	struct snap_run runs[4];
	struct snap_track track;
	struct snap_recording recording;
};

static void set_up_bed(struct bed *bed)
{
	static const char *const functions[] = { "crunch", "crunch", "wait_for_work", "poll" };

	memset(bed, 0, sizeof(*bed));
	for (int i = 0; i < 4; i++) {
		bed->entries[i].function = functions[i];
		bed->frames[i].entries = &bed->entries[i];
		bed->frames[i].entry_count = 1;
	}
	bed->entries[3].system = true;
	for (int i = 0; i < 3; i++) {
		bed->lists[i][0] = &bed->frames[i == 2 ? 3 : i];
		bed->lists[i][1] = &bed->frames[2];
		bed->stacks[i].frames = bed->lists[i];
		bed->stacks[i].frame_count = 2;
	}
	/* 3 + 4 ticks crunching at two places, 1 waiting asleep, 2 waiting on a processor. */
	bed->runs[0] =
		(struct snap_run){ .first = 0, .last = 2, .stack = 0, .state = SNAP_STATE_RUNNING };
	bed->runs[1] =
		(struct snap_run){ .first = 3, .last = 6, .stack = 1, .state = SNAP_STATE_RUNNING };
	bed->runs[2] = (struct snap_run){
		.first = 7, .last = 7, .stack = 2, .state = SNAP_STATE_SLEEPING
	};
	bed->runs[3] =
		(struct snap_run){ .first = 8, .last = 9, .stack = 2, .state = SNAP_STATE_RUNNING };
	bed->track.runs = bed->runs;
	bed->track.run_count = 4;
	bed->recording.tracks = &bed->track;
	bed->recording.track_count = 1;
	bed->recording.stacks = bed->stacks;
	bed->recording.stack_count = 3;
}

static void test_functions_are_ranked_state_by_state(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = NULL;
	struct bed bed;

	set_up_bed(&bed);
	text = summary_of(&bed.recording, &options);
	assert_float_equal(share_of(text, "running", "crunch"), 70, 0.01);
	assert_float_equal(share_of(text, "running", "wait_for_work (in poll)"), 20, 0.01);
	assert_float_equal(share_of(text, "sleeping", "wait_for_work (in poll)"), 10, 0.01);
	assert_float_equal(share_of(text, "sleeping", "crunch"), -1, 0.01);
	assert_true(strstr(text, "crunch") < strstr(text, "wait_for_work"));
}

/* The innermost frame is bed->frames[3], below it bed->frames[2]. */
static void check_own(struct bed *bed, const char *leaf_module, const char *leaf_file,
		      const char *expected)
{
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = NULL;

	bed->frames[3].module = leaf_module;
	bed->entries[3].file = leaf_file;
	text = summary_of(&bed->recording, &options);
	if (share_of(text, "sleeping", expected) < 0)
		fail_msg("no %s in\n%s", expected, text);
}

/* C code that serves a language is like the C library: the function that it works for is named. */
static void test_functions_of_a_language_are_named(void **state _unused_)
{
	static const char *const serving[] = {
		"/usr/bin/python3.11",
		"/usr/sbin/php-fpm8.2 (deleted)",
		"/opt/python/lib/libpython3.11.so.1.0",
		"/usr/lib/x86_64-linux-gnu/libpq.so.5",
		"/srv/venv/lib/python3.11/site-packages/numpy.libs/libblas.so",
		"/srv/app/fast.cpython-311-x86_64-linux-gnu.so",
		"/opt/php/lib/php/extensions/redis.so",
		NULL,
	};
	struct bed bed;

	set_up_bed(&bed);
	bed.entries[3].system = false;
	bed.entries[3].function = "pysleep";
	check_own(&bed, "/usr/bin/python3.11", NULL, "pysleep");
	bed.entries[2].language = "python";
	bed.entries[2].file = "/srv/app.py";
	for (size_t i = 0; i < sizeof(serving) / sizeof(serving[0]); i++)
		check_own(&bed, serving[i], NULL, "wait_for_work (in pysleep)");
	/* A program's own in C, and one that runs the interpreter for others. */
	check_own(&bed, "/srv/app/libfast.so", NULL, "pysleep");
	check_own(&bed, "/usr/sbin/uwsgi", NULL, "pysleep");
	/* A function that no file has, and one of a library where there is nothing else. */
	bed.entries[3].language = "python";
	check_own(&bed, NULL, NULL, "wait_for_work (in pysleep)");
	check_own(&bed, NULL, "/srv/app.py", "pysleep");
	bed.entries[3].language = NULL;
	bed.entries[2].system = true;
	check_own(&bed, "/usr/bin/python3.11", NULL, "wait_for_work (in pysleep)");
	/* Go's are machine code: what they call is a program's own. */
	bed.entries[2].system = false;
	bed.entries[2].language = "go";
	check_own(&bed, "/usr/lib/libfast.so", NULL, "pysleep");
}

static void test_names_are_safe_and_fit(void **state _unused_)
{
	struct snap_options options = { .width = 60 };
	_cleanup_free_ char *text = NULL;
	struct bed bed;

	set_up_bed(&bed);
	bed.entries[0].function = "evil\033[2J\xc3\xa9";
	bed.entries[1].function =
		"std::map<std::string, std::vector<std::pair<int, std::string>>>::find(key)";
	text = summary_of(&bed.recording, &options);
	assert_non_null(strstr(text, "evil\\x1b[2J\\xc3\\xa9\n"));
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || (*p >= ' ' && *p <= '~'));
	for (const char *line = strstr(text, "function\n"); line; line = strchr(line + 1, '\n'))
		assert_true(strcspn(line + 1, "\n") <= 60);
	assert_non_null(strstr(text, "::find"));
}

static void test_nothing_recorded_is_no_table(void **state _unused_)
{
	struct snap_recording recording = { .period_ns = 1, .end = SNAP_END_PERMISSION };
	struct snap_options options = { 0 };
	_cleanup_free_ char *text = summary_of(&recording, &options);

	assert_non_null(strstr(text, "reading the targets is no longer permitted\n"));
	assert_null(strstr(text, "function"));
}

static void test_figures_as_json(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = NULL, *want = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int length;

	recording->end = SNAP_END_ASKED;
	assert_null(snap_render_stats(recording, out));
	fclose(out);
	length = asprintf(&want,
			  "{\"hz_asked\":100,\"hz_reached\":83.333,\"ticks\":10,\"ticks_missed\":2,"
			  "\"duration_ns\":120000000,\"stopped_ns\":1000000,"
			  "\"stopped_percent\":0.8333,\"threads\":%zu,\"thread_samples\":%zu,"
			  "\"stacks\":%zu,\"kept\":%zu,\"unstopped\":10,\"alone\":10,"
			  "\"left_out\":0,\"ticks_late\":1,\"mode\":\"wall\",\"end\":\"asked\"}\n",
			  recording->track_count, (size_t)recording->stats.thread_samples,
			  recording->stack_count, (size_t)recording->stats.kept);
	assert_true(length > 0);
	assert_string_equal(text, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures_come_first),
		cmocka_unit_test(test_more_figures_with_verbose),
		cmocka_unit_test(test_the_end_and_the_slice_are_told),
		cmocka_unit_test(test_functions_are_ranked_state_by_state),
		cmocka_unit_test(test_functions_of_a_language_are_named),
		cmocka_unit_test(test_names_are_safe_and_fit),
		cmocka_unit_test(test_nothing_recorded_is_no_table),
		cmocka_unit_test(test_figures_as_json),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
