/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API without a target: errors, usage, empty snapshots, formats, text. */
#include "stacksnap.h"
#include "store/capture/file.h"

#include "base/error.h"
#include "model/capture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- what a snapshot amounts to, of captures that are made by hand ---- */

struct row {
	pid_t pid;
	enum snap_trouble trouble;
	const char *message;
	enum snap_thread_result thread; /* of its only thread */
	bool vanished;
};

static struct snap_capture *capture_of(const struct row *rows, size_t count)
{
	static const uint64_t registers[27]; /* NT_PRSTATUS of x86-64 */
	struct snap_capture *capture = snap_capture_new();

	assert_non_null(capture);
	capture->host =
		(struct snap_host){ .name = "h", .kernel = "k", .arch = "x86_64", .cpus = 1 };
	capture->processes = snap_arena_new_array(&capture->arena, count, struct snap_process);
	capture->process_count = count;
	for (size_t i = 0; i < count; i++) {
		struct snap_process *process = &capture->processes[i];

		*process = (struct snap_process){
			.pid = rows[i].pid,
			.ppid = 1,
			.name = "row",
			.state = 'S',
			.uid = 1000,
			.parent = SIZE_MAX,
			.is_target = i == 0,
			.arch = SNAP_ARCH_X86_64,
			.trouble = rows[i].trouble,
			.trouble_message = rows[i].message,
			.vanished = rows[i].vanished,
		};
		process->threads = snap_arena_new(&capture->arena, struct snap_thread);
		process->thread_count = rows[i].trouble ? 0 : 1;
		process->threads[0] = (struct snap_thread){
			.tid = rows[i].pid,
			.name = "row",
			.state = 'S',
			.cpu = -1,
			.result = rows[i].thread,
			.registers = rows[i].thread == SNAP_THREAD_COPIED ? registers : NULL,
			.registers_size =
				rows[i].thread == SNAP_THREAD_COPIED ? sizeof(registers) : 0,
		};
	}
	return capture;
}

/* As a program would come to it: from a file. */
static struct stacksnap_capture *loaded(struct snap_capture *capture)
{
	struct stacksnap_capture *ret = NULL;
	int fd = memfd_create("capture", 0);
	struct stacksnap_error *err;

	assert_true(fd >= 0);
	assert_null(snap_capture_write(capture, fd));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	err = stacksnap_capture_load(fd, &ret);
	if (err)
		print_message("# %s\n", stacksnap_error_message(err));
	assert_null(err);
	close(fd);
	snap_capture_destroy(capture);
	return ret;
}

static struct stacksnap_snapshot *analyzed(struct stacksnap_options *options,
					   const struct row *rows, size_t count)
{
	struct stacksnap_capture *capture = loaded(capture_of(rows, count));
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err = stacksnap_capture_analyze(capture, options, &snapshot);

	if (err)
		print_message("# %s\n", stacksnap_error_message(err));
	assert_null(err);
	stacksnap_capture_destroy(capture);
	return snapshot;
}

static void test_outcome_nothing(void **state)
{
	const struct row rows[] = {
		{ .pid = 10, .trouble = SNAP_TROUBLE_NO_SUCH_PROCESS, .message = "cannot find 10" },
		{ .pid = 11,
		  .trouble = SNAP_TROUBLE_PERMISSION_DENIED,
		  .message = "cannot trace 11: \x1b[0m" },
	};
	struct stacksnap_snapshot *snapshot = analyzed(*state, rows, 2);
	const char *code, *message;
	pid_t pid;

	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_NOTHING);
	assert_int_equal(stacksnap_snapshot_process_count(snapshot), 2);
	assert_true(stacksnap_snapshot_trouble(snapshot, 0, &code, &message, &pid));
	assert_string_equal(code, "no_such_process");
	assert_string_equal(message, "cannot find 10");
	assert_int_equal(pid, 10);
	assert_true(stacksnap_snapshot_trouble(snapshot, 1, &code, &message, &pid));
	assert_string_equal(code, "permission_denied");
	assert_string_equal(message, "cannot trace 11: \\x1b[0m");
	assert_false(stacksnap_snapshot_trouble(snapshot, 2, &code, &message, &pid));
	stacksnap_snapshot_destroy(snapshot);
}

static void test_outcome_partial(void **state)
{
	const struct row rows[] = {
		{ .pid = 10, .thread = SNAP_THREAD_NOT_STOPPED },
		{ .pid = 11, .trouble = SNAP_TROUBLE_ALREADY_TRACED, .message = "traced by 3" },
	};
	struct stacksnap_snapshot *snapshot = analyzed(*state, rows, 2);

	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_PARTIAL);
	stacksnap_snapshot_destroy(snapshot);
	snapshot = analyzed(*state, rows, 1);
	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_PARTIAL);
	assert_false(stacksnap_snapshot_trouble(snapshot, 0, NULL, NULL, NULL));
	stacksnap_snapshot_destroy(snapshot);
}

/* What exited, zombies and kernel threads are worth a word only to who named them. */
static void test_outcome_whole(void **state)
{
	const struct row rows[] = {
		{ .pid = 10, .thread = SNAP_THREAD_COPIED },
		{ .pid = 11, .trouble = SNAP_TROUBLE_EXITED, .message = "gone", .vanished = true },
		{ .pid = 12, .trouble = SNAP_TROUBLE_ZOMBIE, .message = "a zombie" },
		{ .pid = 13, .trouble = SNAP_TROUBLE_KERNEL_THREAD, .message = "a kernel thread" },
	};
	struct stacksnap_snapshot *snapshot = analyzed(*state, rows, 4);
	const char *code;
	pid_t pid;

	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_WHOLE);
	assert_false(stacksnap_snapshot_trouble(snapshot, 0, NULL, NULL, NULL));
	stacksnap_snapshot_destroy(snapshot);
	set(*state, "pid", "12");
	snapshot = analyzed(*state, rows, 4);
	assert_true(stacksnap_snapshot_trouble(snapshot, 0, &code, NULL, &pid));
	assert_string_equal(code, "zombie");
	assert_int_equal(pid, 12);
	assert_false(stacksnap_snapshot_trouble(snapshot, 1, NULL, NULL, NULL));
	stacksnap_snapshot_destroy(snapshot);
}

/* A tree as deep as there are processes: nothing may recurse on it. */
static void test_deep_tree(void **state)
{
	enum { DEPTH = 20000 };
	struct row *rows = calloc(DEPTH, sizeof(*rows));
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_capture *kept;
	struct snap_capture *capture;

	assert_non_null(rows);
	for (int i = 0; i < DEPTH; i++)
		rows[i] = (struct row){ .pid = 100 + i, .thread = SNAP_THREAD_COPIED };
	capture = capture_of(rows, DEPTH);
	for (size_t i = 1; i < DEPTH; i++) {
		capture->processes[i].parent = i - 1;
		capture->processes[i].ppid = capture->processes[i - 1].pid;
	}
	kept = loaded(capture);
	/* An emulated machine needs some seconds. */
	set(*state, "timeout", "120000");
	assert_null(stacksnap_capture_analyze(kept, *state, &snapshot));
	assert_int_equal(stacksnap_snapshot_process_count(snapshot), DEPTH);
	assert_int_equal(stacksnap_snapshot_outcome(snapshot), STACKSNAP_OUTCOME_WHOLE);
	stacksnap_snapshot_destroy(snapshot);
	stacksnap_capture_destroy(kept);
	free(rows);
}

/* What a caller knows that was compiled before the last figures were added. */
struct older_stats {
	double hz_asked, hz_reached;
	unsigned long long ticks;
};

struct older_status {
	long long elapsed_ns, remaining_ns;
	unsigned long long threads;
	const struct older_stats *stats;
	int condition;
};

struct older_caller {
	unsigned long long ticks;
	unsigned char behind[64]; /* nobody writes there */
};

static int count_as_before(void *context, const struct stacksnap_recorder_status *status)
{
	const struct older_status *seen = (const void *)status;
	struct older_caller *caller = context;

	assert_true(seen->elapsed_ns >= 0);
	assert_int_equal(seen->threads, 1);
	assert_int_equal(seen->condition, 0);
	assert_true(seen->stats->hz_asked > 99 && seen->stats->hz_asked < 101);
	caller->ticks = seen->stats->ticks;
	return caller->ticks < 3;
}

/* Whatever is added to these structs later, nothing is written over the end of an older one. */
static void test_caller_that_knows_fewer_figures(void **state)
{
	struct older_caller caller = { .ticks = 0 };
	static const unsigned char nothing[sizeof(caller.behind)];
	struct stacksnap_recorder *recorder = NULL;
	struct stacksnap_recording *recording = NULL;
	const struct older_stats *stats;
	pid_t child = fork();
	char pid[16];

	while (child == 0)
		pause();
	snprintf(pid, sizeof(pid), "%d", (int)child);
	assert_null(stacksnap_options_set(*state, "pid", pid));
	assert_null(stacksnap_options_set(*state, "hz", "100"));
	assert_null(stacksnap_recorder_create(*state, &recorder));
	assert_null(stacksnap_recorder_run(recorder, count_as_before, &caller));
	assert_int_equal(caller.ticks, 3);
	assert_memory_equal(caller.behind, nothing, sizeof(nothing));
	assert_null(stacksnap_recorder_slice(recorder, *state, &recording));
	stats = (const void *)stacksnap_recording_get_stats(recording);
	assert_int_equal(stats->ticks, 3);
	/* One pointer for all who ask. */
	assert_ptr_equal(stats, stacksnap_recording_get_stats(recording));
	stacksnap_recording_destroy(recording);
	stacksnap_recorder_destroy(recorder);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
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
		TEST(test_outcome_nothing),
		TEST(test_outcome_partial),
		TEST(test_outcome_whole),
		TEST(test_deep_tree),
		TEST(test_caller_that_knows_fewer_figures),
		TEST(test_escape),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
