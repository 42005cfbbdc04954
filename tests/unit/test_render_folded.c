/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Folded stacks, byte for byte and line by line. */
#include "recordings.h"
#include "render/render.h"
#include "task_snapshots.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char *render(const struct snap_recording *recording, unsigned group_by)
{
	struct snap_options options = { .group_by = group_by };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_null(snap_render_folded(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), length);
	return text;
}

static char *render_snapshot(const struct snap_snapshot *snapshot, unsigned group_by)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;

	assert_null(snap_recording_of_snapshot(snapshot, &recording));
	return render(recording, group_by);
}

/* Whether every line is one of the format's, and in order; the sum of their counts. */
static bool well_formed(const char *text, uint64_t *sum_ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *last = NULL, *save = NULL;
	bool good = true;
	regex_t line_regex;

	*sum_ret = 0;
	assert_int_equal(regcomp(&line_regex, "^[^;[:cntrl:]]+(;[^;[:cntrl:]]+)* [0-9]+$",
				 REG_EXTENDED | REG_NOSUB),
			 0);
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *count;

		good = good && regexec(&line_regex, line, 0, NULL, 0) == 0;
		count = strrchr(line, ' ');
		if (!good || !count)
			break;
		*sum_ret += strtoull(count + 1, NULL, 10);
		*count = '\0';
		/* Strictly: no stack stands twice. */
		good = !last || strcmp(last, line) < 0;
		last = line;
	}
	regfree(&line_regex);
	return good;
}

static void test_the_check_refuses_what_is_wrong(void **state _unused_)
{
	static const char *const wrong[] = {
		"a;b\n", "a;b 1\na;b 2\n", "a;;b 1\n", "a;b\t 1\n", "b 1\na 1\n", "a;b -1\n",
	};
	uint64_t sum;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(wrong); i++)
		assert_false(well_formed(wrong[i], &sum));
	assert_true(well_formed("a;b 1\nb c 2\n", &sum));
	assert_int_equal(sum, 3);
}

static void test_snapshot(void **state _unused_)
{
	static const char *const parts[] = {
		/* Twelve threads of twelve names. */
		"orderd[1234];worker-3;clone3;start_thread;worker_main;next_job;std::vector<Job, "
		"std::allocator<Job> >::at(unsigned long)_[i];queue_pop;",
		";flush_journal;fsync;jbd2_log_wait_commit_[k] 1\n",
		";walk;walk;walk;(9488 frames left out);walk;",
		"orderd[1234];io;(not stopped) 1\n",
		"order-helper[1310];order-helper;0x7e0000001234_[j];order-helper+0x5000 1\n",
	};
	_cleanup_free_ char *text = render_snapshot(&service, SNAP_GROUP_STACK);
	uint64_t sum;

	assert_true(well_formed(text, &sum));
	assert_int_equal(sum, 17);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(parts); i++)
		if (!strstr(text, parts[i]))
			fail_msg("%s is not in\n%s", parts[i], text);
}

/* Tasks are counted as threads are; interpreted functions have no file of machine code. */
static void test_tasks(void **state _unused_)
{
	_cleanup_free_ char *text = render_snapshot(&gitea, SNAP_GROUP_STACK);
	_cleanup_free_ char *each = render_snapshot(&gitea, SNAP_GROUP_STACK | SNAP_GROUP_TID);
	uint64_t sum;

	assert_true(well_formed(text, &sum));
	assert_int_equal(sum, gitea.task_count + gitea.thread_count);
	assert_non_null(strstr(text, "gitea[4099];go;runtime.goexit;code.gitea.io/gitea/modules/"
				     "queue.(*Queue).Run;runtime.chanrecv1;runtime.gopark 5\n"));
	assert_non_null(strstr(text, "gitea[4099];MainThread;main;Handler.do_GET;fsync 1\n"));
	assert_true(well_formed(each, &sum));
	assert_non_null(strstr(each, "gitea[4099];go/412;"));
}

/* As the outermost function, where it is asked for; a key of ours is found, too. */
static void test_labels_on_request(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_free_ char *text = NULL;
	const char *keys[] = { "process-type", "state", "request_uri" };
	struct snap_options options = { .group_by = SNAP_GROUP_STACK,
					.group_labels = keys,
					.group_label_count = 3 };
	size_t size = 0;
	uint64_t sum;
	FILE *out = open_memstream(&text, &size);

	assert_null(snap_recording_of_snapshot(&gitea, &recording));
	assert_non_null(out);
	assert_null(snap_render_folded(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_true(well_formed(text, &sum));
	assert_int_equal(sum, gitea.task_count + gitea.thread_count);
	assert_non_null(strstr(text, "gitea[4099];go;process-type=request;label.state=open;"
				     "runtime.goexit;"));
	assert_non_null(strstr(text, "gitea[4099];MainThread;request_uri=/a\\x1bb;main;"));
	assert_null(strstr(text, "state=waiting"));
}

static void test_recording_counts_samples(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render(recording, SNAP_GROUP_STACK), *again = NULL;
	uint64_t sum;

	assert_true(well_formed(text, &sum));
	assert_int_equal(sum, recording->stats.thread_samples);
	/* Asleep for five ticks and five more, awake for one: states do not part it. */
	assert_non_null(strstr(text, "jbd2_log_wait_commit_[k] 10\n"));
	again = render(recording, SNAP_GROUP_STACK);
	assert_string_equal(text, again);
}

static void test_threads_are_told_apart_on_request(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *together = NULL, *apart = NULL;
	uint64_t sum;

	for (size_t i = 0; i < recording->track_count; i++)
		recording->tracks[i].name = "same";
	together = render(recording, SNAP_GROUP_STACK);
	apart = render(recording, SNAP_GROUP_STACK | SNAP_GROUP_TID);
	assert_null(strstr(together, "same/"));
	assert_non_null(strstr(apart, "orderd[1234];same/1303;"));
	assert_true(well_formed(together, &sum));
	assert_true(well_formed(apart, &sum));
	assert_int_equal(sum, recording->stats.thread_samples);
	assert_true(strlen(apart) > strlen(together));
}

static void test_hostile_names_stay_in_their_line(void **state _unused_)
{
	_cleanup_free_ char *text = render_snapshot(&hostile, SNAP_GROUP_STACK);
	uint64_t sum;

	assert_true(well_formed(text, &sum));
	assert_int_equal(sum, 1);
	assert_non_null(strstr(text, "\\x1b[31m\\x0a\\xe2\\x80\\xae\\\\x\\xff"));
}

/* Separators and spaces in names, no name at all. */
static void test_separators_in_names(void **state _unused_)
{
	static struct snap_entry entries[] = { { .function = ";a;;b c;" }, { .symbol = "" } };
	static const struct snap_frame frame = { .address = 16,
						 .entries = entries,
						 .entry_count = 2 };
	static const struct snap_frame *frames[] = { &frame };
	static struct snap_member members[] = { { .tid = 7, .name = "" },
						{ .tid = 8, .name = "x;y 1" } };
	static struct snap_stack stack = { .count = 2,
					   .threads = members,
					   .thread_count = 2,
					   .frames = frames,
					   .frame_count = 1 };
	static struct snap_node node = {
		.pid = 7, .name = ";", .stacks = &stack, .stack_count = 1
	};
	static struct snap_node *roots[] = { &node };
	const struct snap_snapshot snapshot = { .processes = roots, .root_count = 1 };
	_cleanup_free_ char *text = render_snapshot(&snapshot, SNAP_GROUP_STACK);

	assert_string_equal(text, "\\x3b[7];?;0x10_[j];\\x3ba\\x3b\\x3bb c\\x3b_[j] 1\n"
				  "\\x3b[7];x\\x3by 1;0x10_[j];\\x3ba\\x3b\\x3bb c\\x3b_[j] 1\n");
}

/* The same function at two addresses is one line. */
static void test_stacks_of_equal_names_are_one_line(void **state _unused_)
{
	static struct snap_entry entries[] = { { .function = "f" } };
	static const struct snap_frame one = {
		.address = 16, .module = "/m", .entries = entries, .entry_count = 1
	};
	static const struct snap_frame other = {
		.address = 32, .module = "/m", .entries = entries, .entry_count = 1
	};
	static const struct snap_frame *frames[][1] = { { &one }, { &other } };
	static struct snap_member members[] = { { .tid = 7, .name = "t" },
						{ .tid = 8, .name = "t" } };
	static struct snap_stack stacks[2];
	static struct snap_node node = {
		.pid = 7, .name = "n", .stacks = stacks, .stack_count = 2
	};
	static struct snap_node *roots[] = { &node };
	const struct snap_snapshot snapshot = { .processes = roots, .root_count = 1 };
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < 2; i++)
		stacks[i] = (struct snap_stack){ .count = 1,
						 .threads = &members[i],
						 .thread_count = 1,
						 .frames = frames[i],
						 .frame_count = 1 };
	text = render_snapshot(&snapshot, SNAP_GROUP_STACK);
	assert_string_equal(text, "n[7];t;f 2\n");
}

static void test_nothing_is_no_line(void **state _unused_)
{
	const struct snap_snapshot troubled_only = all_troubled();
	_cleanup_free_ char *text = render_snapshot(&troubled_only, SNAP_GROUP_STACK);

	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_check_refuses_what_is_wrong),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_labels_on_request),
		cmocka_unit_test(test_recording_counts_samples),
		cmocka_unit_test(test_threads_are_told_apart_on_request),
		cmocka_unit_test(test_hostile_names_stay_in_their_line),
		cmocka_unit_test(test_separators_in_names),
		cmocka_unit_test(test_stacks_of_equal_names_are_one_line),
		cmocka_unit_test(test_nothing_is_no_line),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
