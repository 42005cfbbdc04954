/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of blocked threads without a stop, on processes that the test forks: the same bytes as a
 * stop sees, never of a thread that runs or ran; and on recorded trees, where nothing proves it.
 */
#include "reading.h"
#include "sample/copy_blocked.h"
#include "skip.h"

#include "capture/capture.h"

#include "victims.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { ROOM = 1 << 20 };

struct opened {
	struct snap_blocked_copy blocked;
	struct reading reading;
	struct snap_capture *stopped; /* the maps, and what a stop has seen */
};

static uint64_t stack_end(void *context, uint64_t sp)
{
	const struct opened *opened = context;
	const struct snap_map *map = snap_process_map(&opened->stopped->processes[0], sp);

	return map ? map->end : 0;
}

static void blocked(int commands, int answers)
{
	answer(answers, 1);
	while (command(commands))
		answer(answers, 1);
}

static void spinning(int commands, int answers)
{
	answer(answers, 1);
	for (struct pollfd end = { .fd = commands }; poll(&end, 1, 0) == 0;)
		;
}

/* What an ordinary snapshot sees of it now. */
static void stop_victim(struct opened *opened, const struct victim *victim)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim->pid };
	struct snap_options options = { .max_stack = ROOM,
					.max_snapshot = 1 << 24,
					.stop_timeout_ns = 5000000000,
					.timeout_ns = 10000000000,
					.targets = &target,
					.target_count = 1 };

	snap_capture_destroy(opened->stopped);
	assert_null(snap_capture_take(&options, NULL, &opened->stopped));
}

static struct opened *open_victim(const struct victim *victim, enum snap_guard_kind guard)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct opened *opened = calloc(1, sizeof(*opened));
	_cleanup_fd_ int process = -1;

	assert_non_null(opened);
	assert_null(snap_procfs_open(NULL, &procfs));
	stop_victim(opened, victim);
	if (opened->stopped->processes[0].trouble) {
		skip_because(NO_TRACING);
	}
	process = snap_procfs_open_process(&procfs, victim->pid);
	opened->blocked = (struct snap_blocked_copy){
		.guard = guard,
		.guard_fd = snap_procfs_open_file(process, snap_guard_file(guard)),
		.source = reading_source(&opened->reading),
		.stack_end = stack_end,
		.context = opened,
		.bytes = malloc(ROOM),
		.size = ROOM,
	};
	assert_true(opened->blocked.guard_fd >= 0);
	assert_null(snap_reader_new(&procfs, ROOM, &opened->reading.reader));
	opened->reading.target =
		(struct snap_reader_target){ .pid = victim->pid, .tid = victim->pid };
	return opened;
}

static void close_opened(struct opened *opened)
{
	snap_close(&opened->blocked.guard_fd);
	snap_reader_destroy(opened->reading.reader);
	free(opened->blocked.bytes);
	snap_capture_destroy(opened->stopped);
	free(opened);
}

static void read_counters(struct opened *opened)
{
	assert_int_equal(snap_guard_read(opened->blocked.guard, opened->blocked.guard_fd,
					 &opened->blocked.counters),
			 0);
}

static enum snap_copy_result copy_blocked(struct opened *opened, struct snap_thread *copy)
{
	enum snap_arch arch;

	return snap_copy_blocked(&opened->blocked, copy, &arch);
}

static void wait_until_blocked(struct opened *opened)
{
	struct snap_thread copy = { 0 };

	do
		read_counters(opened);
	while (copy_blocked(opened, &copy) != SNAP_COPY_DONE);
}

static void check_blocked(enum snap_guard_kind guard)
{
	struct victim victim;
	struct opened *opened;
	const struct snap_thread *stopped;
	struct snap_thread copy = { .tid = 7, .state = 'S' };

	victim_start(&victim, blocked);
	wait_answer(&victim);
	opened = open_victim(&victim, guard);
	wait_until_blocked(opened);
	/* Only now does it stand where it will be read. */
	stop_victim(opened, &victim);
	wait_until_blocked(opened);
	stopped = &opened->stopped->processes[0].threads[0];
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_DONE);
	assert_int_equal(copy.tid, 7);
	assert_int_equal(copy.state, 'S');
	assert_int_equal(copy.taken, SNAP_TAKEN_UNSTOPPED);
	assert_true(copy.partial);
	assert_int_equal(copy.registers_size, stopped->registers_size);
	assert_int_equal(copy.stack_address, stopped->stack_address);
	assert_int_equal(copy.stack_size, stopped->stack_size);
	assert_memory_equal(copy.stack, stopped->stack, stopped->stack_size);
	assert_false(copy.stack_limited);
	assert_false(copy.stack_unreadable);
	/* Less room: the inner part. */
	opened->blocked.size = 512;
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_DONE);
	assert_int_equal(copy.stack_size, 512);
	assert_true(copy.stack_limited);
	/* It runs, and blocks again: what was read before is not believed. */
	tell(&victim);
	wait_answer(&victim);
	while (copy_blocked(opened, &copy) == SNAP_COPY_RUNNING)
		;
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_MOVED);
	wait_until_blocked(opened);
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_DONE);
	victim_end(&victim);
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_GONE);
	close_opened(opened);
}

static void test_blocked_thread_by_schedstat(void **state _unused_)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };

	assert_null(snap_procfs_open(NULL, &procfs));
	if (snap_guard_find(&procfs) != SNAP_GUARD_SCHEDSTAT) {
		skip_because("kernel: no schedstat");
	}
	check_blocked(SNAP_GUARD_SCHEDSTAT);
}

static void test_blocked_thread_by_switches(void **state _unused_)
{
	check_blocked(SNAP_GUARD_SWITCHES);
}

static void test_running_thread(void **state _unused_)
{
	struct snap_thread copy = { 0 };
	struct victim victim;
	struct opened *opened;

	victim_start(&victim, spinning);
	wait_answer(&victim);
	opened = open_victim(&victim, SNAP_GUARD_SWITCHES);
	for (int i = 0; i < 1000; i++) {
		read_counters(opened);
		assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_RUNNING);
	}
	assert_int_equal(copy.result, 0);
	victim_end(&victim);
	close_opened(opened);
}

static void test_unknown_mapping(void **state _unused_)
{
	struct snap_thread copy = { 0 };
	struct victim victim;
	struct opened *opened;

	victim_start(&victim, blocked);
	wait_answer(&victim);
	opened = open_victim(&victim, SNAP_GUARD_SWITCHES);
	wait_until_blocked(opened);
	opened->stopped->processes[0].map_count = 0;
	assert_int_equal(copy_blocked(opened, &copy), SNAP_COPY_UNMAPPED);
	victim_end(&victim);
	close_opened(opened);
}

static void put(const char *root, const char *name, const char *text)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static enum snap_guard_kind guard_of(const char *schedstat, const char *status)
{
	static const char *const names[] = { "thread-self/schedstat", "thread-self/status",
					     "thread-self", "" };
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	char root[] = "/tmp/stacksnap-copy-XXXXXX", path[4096];
	enum snap_guard_kind guard;

	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/thread-self", root);
	assert_int_equal(mkdir(path, 0700), 0);
	if (schedstat)
		put(root, "thread-self/schedstat", schedstat);
	if (status)
		put(root, "thread-self/status", status);
	assert_null(snap_procfs_open(root, &procfs));
	guard = snap_guard_find(&procfs);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		remove(path);
	}
	return guard;
}

static void test_which_guard_holds(void **state _unused_)
{
	static const char moved[] = "Name:\tx\nvoluntary_ctxt_switches:\t3\n"
				    "nonvoluntary_ctxt_switches:\t0\n";
	static const char unmoved[] = "Name:\tx\nvoluntary_ctxt_switches:\t0\n"
				      "nonvoluntary_ctxt_switches:\t0\n";

	assert_int_equal(guard_of("123 4 5\n", moved), SNAP_GUARD_SCHEDSTAT);
	assert_int_equal(guard_of("0 0 0\n", moved), SNAP_GUARD_SWITCHES);
	assert_int_equal(guard_of(NULL, moved), SNAP_GUARD_SWITCHES);
	assert_int_equal(guard_of("nonsense\n", moved), SNAP_GUARD_SWITCHES);
	assert_int_equal(guard_of("0 0 0\n", unmoved), SNAP_GUARD_NONE);
	assert_int_equal(guard_of(NULL, "Name:\tx\n"), SNAP_GUARD_NONE);
	assert_int_equal(guard_of(NULL, NULL), SNAP_GUARD_NONE);
}

static void test_texts(void **state _unused_)
{
	static const char *const none[] = { "",
					    "run",
					    "-",
					    "-1",
					    "-1 0x1",
					    "-1 1 2",
					    "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7",
					    "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0xfffffffffffffffff",
					    "99999999999 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8" };
	static const char in_call[] = "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00000000 0x7f0000000001\n";
	static const char in_none[] = "-1 0x7ffd00000000 0x7f0000000001\n";
	struct snap_syscall_line line;
	uint64_t numbers[3];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(none); i++)
		assert_false(snap_parse_syscall(none[i], strlen(none[i]), &line));
	for (size_t i = 0; i < strlen(in_call) - 18; i++)
		assert_false(snap_parse_syscall(in_call, i, &line));
	assert_true(snap_parse_syscall(in_call, strlen(in_call), &line));
	assert_int_equal(line.number, 7);
	assert_int_equal(line.arguments[5], 6);
	assert_int_equal(line.sp, 0x7ffd00000000);
	assert_int_equal(line.pc, 0x7f0000000001);
	assert_true(snap_parse_syscall(in_none, strlen(in_none), &line));
	assert_int_equal(line.number, -1);
	assert_int_equal(line.pc, 0x7f0000000001);
	assert_true(snap_parse_syscall("running\n", 8, &line));
	assert_true(line.running);
	assert_true(snap_parse_schedstat("1 22 333\n", 9, numbers));
	assert_int_equal(numbers[2], 333);
	assert_false(snap_parse_schedstat("1 22\n", 5, numbers));
	assert_false(snap_parse_schedstat("99999999999999999999 1 1", 24, numbers));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_which_guard_holds),
		cmocka_unit_test(test_blocked_thread_by_schedstat),
		cmocka_unit_test(test_blocked_thread_by_switches),
		cmocka_unit_test(test_running_thread),
		cmocka_unit_test(test_unknown_mapping),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
