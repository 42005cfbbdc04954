/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API without a target: errors, usage, empty snapshots, formats, text. */
#include "stacksnap.h"

#include "base/error.h"
#include "model/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	return stacksnap_options_create((struct stacksnap_options **)state) ? -1 : 0;
}

static int teardown(void **state)
{
	stacksnap_options_destroy(*state);
	return 0;
}

static void set(struct stacksnap_options *options, const char *name, const char *value)
{
	assert_null(stacksnap_options_set(options, name, value));
}

static void test_version(void **state _unused_)
{
	assert_string_equal(stacksnap_version(), SNAP_VERSION);
}

static void test_destroy_takes_null(void **state _unused_)
{
	stacksnap_options_destroy(NULL);
	stacksnap_capture_destroy(NULL);
	stacksnap_snapshot_destroy(NULL);
	stacksnap_error_destroy(NULL);
}

static void test_no_target_is_a_usage_error(void **state)
{
	struct stacksnap_capture *capture = NULL;
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *errors[3];

	errors[0] = stacksnap_capture_take(*state, &capture);
	errors[1] = stacksnap_take(*state, &snapshot);
	errors[2] = stacksnap_list(*state, &snapshot);
	for (int i = 0; i < 3; i++) {
		assert_non_null(errors[i]);
		assert_int_equal(stacksnap_error_code(errors[i]), STACKSNAP_ERROR_INVALID);
		assert_string_equal(stacksnap_error_word(errors[i]), "invalid");
		assert_int_equal(stacksnap_error_errno(errors[i]), 0);
		assert_non_null(strstr(stacksnap_error_message(errors[i]), "no target"));
		stacksnap_error_destroy(errors[i]);
	}
	assert_null(capture);
	assert_null(snapshot);
}

static void test_timeout_can_be_asked(void **state)
{
	assert_int_equal(stacksnap_options_timeout_ms(*state), 11000);
	set(*state, "stop-timeout", "500");
	assert_int_equal(stacksnap_options_timeout_ms(*state), 10500);
	set(*state, "timeout", "70");
	assert_int_equal(stacksnap_options_timeout_ms(*state), 70);
}

static void test_empty_snapshot(void **state)
{
	struct stacksnap_snapshot *snapshot = NULL;
	const char *code, *message;
	pid_t pid = -1, tid = -1;

	assert_null(stacksnap_snapshot_create_empty(
		*state, "not_found", "no process matches '\x1b[31m\xc3\xa9'", &snapshot));
	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_NOTHING);
	assert_int_equal(stacksnap_snapshot_process_count(snapshot), 0);
	assert_int_equal(stacksnap_snapshot_thread_count(snapshot), 0);
	assert_int_equal(stacksnap_snapshot_stack_count(snapshot), 0);
	assert_int_equal(stacksnap_snapshot_stop_duration_ns(snapshot), 0);
	assert_true(stacksnap_snapshot_warning(snapshot, 0, &code, &message, &pid, &tid));
	assert_string_equal(code, "not_found");
	assert_string_equal(message, "no process matches '\\x1b[31m\\xc3\\xa9'");
	assert_int_equal(pid, 0);
	assert_int_equal(tid, 0);
	assert_false(stacksnap_snapshot_warning(snapshot, 1, &code, &message, NULL, NULL));
	assert_false(stacksnap_snapshot_trouble(snapshot, 0, &code, &message, NULL));
	stacksnap_snapshot_destroy(snapshot);

	set(*state, "charset", "utf-8");
	assert_null(stacksnap_snapshot_create_empty(*state, "x", "\x1b\xc3\xa9", &snapshot));
	assert_true(stacksnap_snapshot_warning(snapshot, 0, NULL, &message, NULL, NULL));
	assert_string_equal(message, "\\x1b\xc3\xa9");
	stacksnap_snapshot_destroy(snapshot);
}

static void test_unknown_format(void **state)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;

	assert_null(stacksnap_snapshot_create_empty(*state, "x", "y", &snapshot));
	err = stacksnap_snapshot_render(snapshot, *state, "pdf", stdout);
	assert_non_null(err);
	assert_int_equal(stacksnap_error_code(err), STACKSNAP_ERROR_INVALID);
	stacksnap_error_destroy(err);
	stacksnap_snapshot_destroy(snapshot);
}

static void test_escape(void **state _unused_)
{
	char out[64];

	assert_int_equal(stacksnap_escape("a\\b\x07", 4, 0, out, sizeof(out)), 8);
	assert_string_equal(out, "a\\\\b\\x07");
	stacksnap_escape("\xc3\xa9", 2, 0, out, sizeof(out));
	assert_string_equal(out, "\xc3\xa9");
	stacksnap_escape("\xc3\xa9", 2, 1, out, sizeof(out));
	assert_string_equal(out, "\\xc3\\xa9");
	assert_true(stacksnap_escape("0123456789", 10, 0, out, 4) <= 3);
	assert_string_equal(out, "012");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_version),
		TEST(test_destroy_takes_null),
		TEST(test_no_target_is_a_usage_error),
		TEST(test_timeout_can_be_asked),
		TEST(test_empty_snapshot),
		TEST(test_unknown_format),
		TEST(test_escape),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
