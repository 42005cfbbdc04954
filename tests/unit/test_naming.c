/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log by parsers that are killed while they ask for a file: what is left is told, and
 * that something is missing.
 */
#include "api/options.h"
#include "files/files.h"
#include "record/recorder.h"
#include "roles/naming.h"
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
	unsigned asked, deaths; /* so many of the first parsers are killed */
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
static void kill_asker(void)
{
	_cleanup_fclose_ FILE *file = NULL;
	int pid = 0;

	file = fopen("/proc/thread-self/children", "re");
	assert_non_null(file);
	while (fscanf(file, "%d", &pid) == 1)
		;
	assert_true(pid > 0);
	kill(pid, SIGKILL);
}

static struct stacksnap_error *
answer_or_kill(void *context, const struct snap_broker_request *request, int *fd_ret)
{
	struct bed *bed = context;
	struct snap_broker broker = snap_local_broker(&bed->local);

	if (bed->asked++ < bed->deaths)
		kill_asker();
	return broker.answer(broker.context, request, fd_ret);
}

static struct stacksnap_error *run(struct bed *bed)
{
	const struct snap_broker broker = { .answer = answer_or_kill, .context = bed };

	return snap_naming_run(bed->log, &bed->options, &broker, 60000000000);
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

static unsigned count_warnings(const struct bed *bed)
{
	unsigned count = 0;

	for (size_t i = 0; i < bed->log->capture->warning_count; i++)
		count += strcmp(bed->log->capture->warnings[i].code, "parser_failed") == 0;
	return count;
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
		cmocka_unit_test_setup_teardown(test_each_one_is_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_somebody_changed_his_mind, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
