/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log by parsers that are killed while they ask for a file: what is left is told, and
 * that something is missing.
 */
#include "api/options.h"
#include "base/clock.h"
#include "files/files.h"
#include "patience.h"
#include "record/recorder.h"
#include "roles/naming.h"
#include "roles/parser.h"
#include "victims.h"

#include <string.h>

static void sleeps(int commands, int answers)
{
	answer(answers, 0);
	command(commands);
}

struct bed {
	struct victim victim;
	struct snap_options options;
	struct snap_recorder *recorder;
	struct snap_log *log;
	struct snap_files *files;
	struct snap_local_broker local;
	bool is_told;           /* to come to an end, when the first one asks */
	unsigned asked, deaths; /* so many of the first parsers are killed */
	unsigned hurries;       /* the request at which it is told to come to an end */
	bool stops;             /* in place of killing */
	_Atomic int64_t asked_ns;
	bool for_file;
};

static bool once(void *context, const struct snap_recorder_status *status)
{
	(void)context;
	return status->stats.ticks < 3;
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	char text[16];

	victim_start(&bed->victim, sleeps);
	wait_answer(&bed->victim);
	snap_options_init(&bed->options);
	snprintf(text, sizeof(text), "%d", (int)bed->victim.pid);
	assert_null(snap_options_set(&bed->options, "pid", text));
	assert_null(snap_recorder_create(&bed->options, &bed->recorder));
	assert_null(snap_recorder_run(bed->recorder, once, NULL));
	bed->log = (struct snap_log *)(uintptr_t)snap_recorder_log(bed->recorder);
	assert_true(bed->log->frame_count > 1);
	assert_int_equal(bed->log->name_count, 0);
	assert_null(snap_files_create(&bed->options, bed->log->capture, &bed->files));
	bed->local = (struct snap_local_broker){ snap_files_finder(bed->files), bed->log->capture };
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_files_destroy(bed->files);
	snap_recorder_destroy(bed->recorder);
	victim_end(&bed->victim);
	snap_options_deinit(&bed->options);
	free(bed);
	return 0;
}

/* The youngest child is the one that asks. */
static void signal_asker(int number)
{
	_cleanup_fclose_ FILE *file = NULL;
	int pid = 0;

	file = fopen("/proc/thread-self/children", "re");
	assert_non_null(file);
	while (fscanf(file, "%d", &pid) == 1)
		;
	assert_true(pid > 0);
	kill(pid, number);
}

/* It is asked to come to an end while it waits for an answer, which it gets when time is up. */
static void be_in_a_hurry(struct bed *bed)
{
	bed->asked_ns = snap_clock_ns(CLOCK_MONOTONIC);
	while (!snap_parser_has_enough(&bed->asked_ns))
		usleep(10000);
}

static struct stacksnap_error *answer_or_kill(void *context,
					      const struct snap_broker_request *request,
					      struct snap_broker_reply *reply)
{
	struct bed *bed = context;
	struct snap_broker broker = snap_local_broker(&bed->local);

	if (bed->is_told && bed->asked == 0)
		bed->asked_ns = snap_clock_ns(CLOCK_MONOTONIC);
	if (bed->asked++ < bed->deaths)
		signal_asker(bed->stops ? SIGSTOP : SIGKILL);
	if (bed->asked == bed->hurries)
		be_in_a_hurry(bed);
	return broker.answer(broker.context, request, reply);
}

static struct stacksnap_error *run(struct bed *bed)
{
	const struct snap_broker broker = { .answer = answer_or_kill, .context = bed };

	const struct snap_naming_limits limits = { .patience_ns = 60000000000,
						   .asked_ns = &bed->asked_ns,
						   .for_file = bed->for_file };

	return snap_naming_run(bed->log, &bed->options, &broker, &limits);
}

static unsigned count_functions(const struct bed *bed)
{
	unsigned count = 0;

	assert_int_equal(bed->log->name_count, bed->log->frame_count);
	for (size_t i = 0; i < bed->log->name_count; i++) {
		const struct snap_frame *frame = &bed->log->names[i];

		assert_true(bed->log->frames[i].name > 0);
		assert_true(frame->module && frame->entry_count > 0);
		count += frame->entries[0].function != NULL;
	}
	return count;
}

static unsigned count_warnings_of(const struct bed *bed, const char *code)
{
	unsigned count = 0;

	for (size_t i = 0; i < bed->log->capture->warning_count; i++)
		count += strcmp(bed->log->capture->warnings[i].code, code) == 0;
	return count;
}

static unsigned count_warnings(const struct bed *bed)
{
	return count_warnings_of(bed, "parser_failed");
}

static void test_all_is_well(void **state)
{
	struct bed *bed = *state;
	size_t names;

	assert_null(run(bed));
	assert_true(bed->asked > 0);
	assert_int_not_equal(count_functions(bed), 0);
	assert_int_equal(count_warnings(bed), 0);
	/* What has names is not asked for again. */
	bed->asked = 0;
	names = bed->log->name_count;
	assert_null(run(bed));
	assert_int_equal(bed->asked, 0);
	assert_int_equal(bed->log->name_count, names);
}

/* The file that it asked for is not shown to the next one; the others are. */
static void test_a_parser_is_killed(void **state)
{
	struct bed *bed = *state;

	bed->deaths = 1;
	assert_null(run(bed));
	assert_true(bed->asked > 1);
	assert_int_not_equal(count_functions(bed), 0);
	assert_true(count_functions(bed) < bed->log->name_count);
	assert_int_equal(count_warnings(bed), 1);
}

/* Who is asked to come to an end has time for another one, which is late on a busy machine alone. */
static void test_one_is_killed_in_a_hurry(void **state)
{
	struct bed *bed = *state;

	bed->deaths = 1;
	bed->is_told = true;
	assert_null(run(bed));
	assert_true(count_functions(bed) > 0 || count_warnings_of(bed, "names_late") > 0);
	assert_int_equal(count_warnings(bed), 1);
}

static void test_each_one_is_killed(void **state)
{
	struct bed *bed = *state;

	bed->deaths = UINT32_MAX;
	assert_null(run(bed));
	assert_int_equal(count_functions(bed), 0);
	assert_int_equal(count_warnings(bed), 1);
	for (size_t i = 0; i < bed->log->name_count; i++)
		assert_true(bed->log->names[i].has_offset);
}

/* Nobody looks for names any more; where frames lie is told, but not to a file, which may be named. */
static void test_there_is_no_time(void **state)
{
	struct bed *bed = *state;
	/* A recording on a busy machine may have some of its own. */
	size_t warnings = bed->log->capture->warning_count;

	bed->asked_ns = 1;
	bed->for_file = true;
	assert_null(run(bed));
	assert_int_equal(bed->asked, 0);
	assert_int_equal(bed->log->name_count, 0);
	assert_int_equal(bed->log->capture->warning_count, warnings);
	bed->for_file = false;
	assert_null(run(bed));
	assert_int_equal(bed->asked, 0);
	assert_int_equal(count_functions(bed), 0);
	assert_int_equal(count_warnings(bed), 0);
	assert_int_equal(count_warnings_of(bed, "names_late"), 1);
	/* Nobody has looked for a file, so none is missing. */
	assert_int_equal(count_warnings_of(bed, "module_symbols"), 0);
}

static void test_a_file_is_named_later(void **state)
{
	struct bed *bed = *state;

	bed->asked_ns = 1;
	bed->for_file = true;
	assert_null(run(bed));
	bed->asked_ns = 0;
	bed->for_file = false;
	assert_null(run(bed));
	assert_int_not_equal(count_functions(bed), 0);
	assert_int_equal(bed->log->capture->warning_count, 0);
}

static void assert_hurried(struct bed *bed)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);

	assert_null(run(bed));
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) - begin_ns < with_patience(15000000000));
	assert_true(bed->asked_ns > 0);
	assert_int_equal(count_warnings(bed), 0);
	assert_int_equal(count_warnings_of(bed, "names_late"), 1);
	for (size_t i = 0; i < bed->log->name_count; i++)
		assert_true(bed->log->names[i].has_offset);
}

/* What it has is kept: it ends by itself. */
static void test_time_is_up(void **state)
{
	struct bed *bed = *state;

	bed->hurries = 1;
	assert_hurried(bed);
	/* On a busy machine it may have asked once more before it hears of it. */
	assert_true(bed->asked > 0);
}

/* It does not hear that time is up. */
static void test_time_is_up_for_one_that_stands(void **state)
{
	struct bed *bed = *state;

	bed->hurries = bed->deaths = 1;
	bed->stops = true;
	assert_hurried(bed);
	assert_int_equal(count_functions(bed), 0);
}

static void test_somebody_changed_his_mind(void **state)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;
	struct bed *bed = *state;
	volatile int cancel = 1;

	bed->options.cancel = &cancel;
	err = run(bed);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	assert_int_equal(bed->log->name_count, 0);
	assert_int_equal(count_warnings(bed), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_is_well, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_parser_is_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_is_killed_in_a_hurry, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_each_one_is_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_there_is_no_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_is_named_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_time_is_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_time_is_up_for_one_that_stands, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_somebody_changed_his_mind, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
