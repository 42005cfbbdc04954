/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of troubles, a row each, against what it is to say; and that analysis counts by it.
 */
#include "analyze/analyze.h"
#include "model/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What is true of a process with a trouble: of a target, of another one. */
struct expected {
	const char *word;
	bool target_loss, other_loss;
	bool target_warning, other_warning;
	bool target_recorded, other_recorded;
	enum snap_error_code error;
	bool ended;
};

static const struct expected rows[SNAP_TROUBLE_COUNT] = {
	[SNAP_TROUBLE_NONE] = { "", 0, 0, 0, 0, 0, 0, SNAP_ERROR_OTHER, 0 },
	[SNAP_TROUBLE_NO_SUCH_PROCESS] = { "no_such_process", 1, 1, 1, 1, 1, 1,
					   SNAP_ERROR_NOT_FOUND, 1 },
	[SNAP_TROUBLE_PERMISSION_DENIED] = { "permission_denied", 1, 1, 1, 1, 1, 1,
					     SNAP_ERROR_PERMISSION, 0 },
	[SNAP_TROUBLE_ALREADY_TRACED] = { "already_traced", 1, 1, 1, 1, 1, 1, SNAP_ERROR_PERMISSION,
					  0 },
	[SNAP_TROUBLE_EXITED] = { "exited", 0, 0, 1, 0, 0, 0, SNAP_ERROR_NOT_FOUND, 1 },
	[SNAP_TROUBLE_STOP_TIMEOUT] = { "stop_timeout", 1, 1, 1, 1, 1, 1, SNAP_ERROR_OTHER, 0 },
	[SNAP_TROUBLE_ZOMBIE] = { "zombie", 0, 0, 1, 0, 1, 0, SNAP_ERROR_NOT_FOUND, 1 },
	[SNAP_TROUBLE_KERNEL_THREAD] = { "kernel_thread", 1, 0, 1, 0, 1, 0, SNAP_ERROR_OTHER, 0 },
	[SNAP_TROUBLE_UNSUPPORTED_ARCH] = { "unsupported_arch", 1, 1, 1, 1, 1, 1, SNAP_ERROR_OTHER,
					    0 },
	[SNAP_TROUBLE_INTERNAL] = { "internal", 1, 1, 1, 1, 1, 1, SNAP_ERROR_OTHER, 0 },
	[SNAP_TROUBLE_NOT_RESPONDING] = { "not_responding", 1, 1, 1, 1, 1, 1, SNAP_ERROR_OTHER, 0 },
	[SNAP_TROUBLE_OUT_OF_TIME] = { "out_of_time", 1, 1, 1, 1, 1, 1, SNAP_ERROR_OTHER, 0 },
};

static void test_each_row(void **state _unused_)
{
	for (size_t i = 0; i < SNAP_TROUBLE_COUNT; i++) {
		const struct snap_trouble_row *row = &snap_troubles[i];
		const struct expected *expected = &rows[i];

		assert_string_equal(row->word, expected->word);
		assert_int_equal(snap_trouble_applies(row->loss, true), expected->target_loss);
		assert_int_equal(snap_trouble_applies(row->loss, false), expected->other_loss);
		assert_int_equal(snap_trouble_applies(row->warning, true),
				 expected->target_warning);
		assert_int_equal(snap_trouble_applies(row->warning, false),
				 expected->other_warning);
		assert_int_equal(snap_trouble_applies(row->recording_warning, true),
				 expected->target_recorded);
		assert_int_equal(snap_trouble_applies(row->recording_warning, false),
				 expected->other_recorded);
		assert_int_equal(row->error, expected->error);
		assert_int_equal(row->ended, expected->ended);
	}
}

/* What is missing without a word would be missed in silence. */
static void test_losses_are_told(void **state _unused_)
{
	for (size_t i = 0; i < SNAP_TROUBLE_COUNT; i++) {
		assert_true(snap_troubles[i].warning >= snap_troubles[i].loss);
		assert_true(snap_troubles[i].recording_warning >= snap_troubles[i].loss);
	}
}

static struct stacksnap_error *find_nothing(void *context _unused_,
					    const struct snap_file_request *request _unused_,
					    int *fd_ret _unused_)
{
	return snap_error_not_found();
}

static struct snap_missing missing_of(struct snap_process *process)
{
	const struct snap_file_finder finder = { .find = find_nothing };
	const struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	const struct snap_capture capture = { .processes = process, .process_count = 1 };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	return snapshot->missing;
}

static void test_analysis_counts(void **state _unused_)
{
	for (size_t i = 0; i < SNAP_TROUBLE_COUNT; i++) {
		struct snap_process process = { .pid = 7, .parent = SIZE_MAX, .trouble = i };

		assert_int_equal(missing_of(&process).processes, rows[i].other_loss);
		process.is_target = true;
		assert_int_equal(missing_of(&process).processes, rows[i].target_loss);
		assert_int_equal(missing_of(&process).shown, i == SNAP_TROUBLE_NONE);
	}
}

static void test_threads(void **state _unused_)
{
	struct snap_thread threads[] = {
		{ .tid = 7, .state = 'Z', .result = SNAP_THREAD_UNTRACED },
		{ .tid = 8, .state = 'S', .result = SNAP_THREAD_VANISHED },
		{ .tid = 9, .state = 'S', .result = SNAP_THREAD_UNTRACED, .flags = 0x00200000 },
		{ .tid = 10, .state = 'D', .result = SNAP_THREAD_NOT_STOPPED },
		/* refused, as by a security module */
		{ .tid = 11, .state = 'S', .result = SNAP_THREAD_UNTRACED },
	};
	struct snap_process process = { .pid = 7,
					.parent = SIZE_MAX,
					.threads = threads,
					.thread_count = SNAP_ARRAY_SIZE(threads) };

	assert_int_equal(missing_of(&process).threads, 2);
	for (int end = SNAP_UNWIND_COMPLETE; end <= SNAP_UNWIND_FAILED; end++)
		assert_int_equal(snap_thread_is_missing(end, SNAP_STATE_SLEEPING, false),
				 end == SNAP_UNWIND_NOT_STOPPED);
	assert_false(snap_thread_is_missing(SNAP_UNWIND_NOT_STOPPED, SNAP_STATE_ZOMBIE, false));
	assert_false(snap_thread_is_missing(SNAP_UNWIND_NOT_STOPPED, SNAP_STATE_SLEEPING, true));
}

static void test_warnings(void **state _unused_)
{
	static const char *const names[] = { "module_symbols", "parser_failed",  "parser_lost",
					     "files_held",     "maps_cut",       "memory_limit",
					     "names_late",     "memory_stalled", "thread_refused" };
	static const char *const others[] = { "",
					      "not_one_instant",
					      "report_limited",
					      "perf_map_refused",
					      "tid_given",
					      "facts_missing",
					      "names",
					      "execed",
					      "runtime_unsupported" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++) {
		assert_true(snap_warning_costs_names(names[i]));
		assert_false(snap_warning_costs_names(others[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_row),        cmocka_unit_test(test_losses_are_told),
		cmocka_unit_test(test_analysis_counts), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_warnings),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
