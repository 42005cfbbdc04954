/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The order in which files are named: a process whose files take long does not keep the names of
 * others. Files are asked for as a real analysis asks; how long each takes is made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "fine.h"
#include "model/arch/registers.h"
#include "skip.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOW_FILES = 3, QUICK_FILES = 2, FILES = SLOW_FILES + QUICK_FILES, SLOW_MS = 150 };

/* Of which process a debug file was asked for, one letter each; b: of both. */
struct order {
	const struct snap_capture *capture;
	char asked[FILES + 1];
	int enough_after; /* files; then time is up */
	bool is_shared;   /* the second process has the second file of the first, too */
	volatile int enough;
};

/* All modules are this program without its symbols; no debug file is found, in a slow process after a while. */
static struct stacksnap_error *find_slowly(void *context, const struct snap_file_request *request,
					   int *fd_ret)
{
	const struct timespec slow = { .tv_nsec = SLOW_MS * 1000000 };
	struct order *order = context;
	bool is_first = request->process == &order->capture->processes[0];
	bool is_of_both = is_first && order->is_shared && request->map == 1;
	size_t asked = strlen(order->asked);

	if (request->kind == SNAP_FILE_MODULE && request->attempt == 0) {
		*fd_ret = open(getenv("UNWIND_STRIPPED"), O_RDONLY | O_CLOEXEC);
		assert_true(*fd_ret >= 0);
		return NULL;
	}
	if (request->kind == SNAP_FILE_DEBUG && asked < FILES) {
		order->asked[asked] = is_of_both ? 'b' : is_first ? 's' : 'q';
		order->enough = (int)asked + 1 == order->enough_after;
		if (is_first && !is_of_both)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &slow, NULL);
	}
	return snap_error_not_found();
}

/* Threads of two processes, each in a file of its own; the slow process comes first. */
static struct snap_snapshot *name_all(struct order *order)
{
	struct snap_process processes[2] = { { .pid = 100, .uid = 1000, .parent = SIZE_MAX },
					     { .pid = 200, .uid = 1001, .parent = SIZE_MAX } };
	struct snap_capture capture = { .processes = processes, .process_count = 2 };
	const struct snap_options options = { .symbols = true,
					      .pcs_only = true,
					      .enough = &order->enough };
	const struct snap_file_finder finder = { .find = find_slowly, .context = order };
	struct snap_x86_64_registers registers[FILES] = { 0 };
	struct snap_thread threads[FILES] = { 0 };
	struct snap_snapshot *snapshot = NULL;
	static const char *const paths[FILES] = { "/a.so", "/b.so", "/c.so", "/d.so", "/e.so" };
	struct snap_map maps[FILES] = { 0 };

	for (size_t i = 0; i < FILES; i++) {
		maps[i] = (struct snap_map){ .start = (i + 1) << 24,
					     .end = (i + 2) << 24,
					     .offset = 0x1000,
					     .inode = i + 1,
					     .dev_major = SNAP_NO_DEVICE,
					     .read = true,
					     .execute = true,
					     .path = paths[i] };
		registers[i].rip = maps[i].start + 0x10;
		threads[i] = (struct snap_thread){ .tid = 100 + (pid_t)i,
						   .name = "t",
						   .state = 'S',
						   .registers = &registers[i],
						   .registers_size = sizeof(registers[i]) };
	}
	for (size_t i = 0; i < 2; i++) {
		size_t first = i ? SLOW_FILES : 0;

		processes[i].name = processes[i].exe = "p";
		processes[i].arch = SNAP_ARCH_X86_64;
		processes[i].maps = maps + first;
		processes[i].threads = threads + first;
		processes[i].map_count = processes[i].thread_count = i ? QUICK_FILES : SLOW_FILES;
	}
	if (order->is_shared) {
		maps[SLOW_FILES].inode = maps[1].inode;
		maps[SLOW_FILES].path = maps[1].path;
	}
	order->capture = &capture;
	snap_arena_init(&capture.arena);
	fine(snap_analyze(&capture, &options, &finder, &snapshot));
	snap_arena_deinit(&capture.arena);
	return snapshot;
}

static void test_slow_files_wait_for_others(void **state _unused_)
{
	struct order order = { .enough_after = 0 };

	snap_snapshot_destroy(name_all(&order));
	assert_string_equal(order.asked, "sqqss");
}

/* A file that two processes have mapped is named as soon as one of them has a turn. */
static void test_file_of_both(void **state _unused_)
{
	struct order order = { .enough_after = 0, .is_shared = true };

	snap_snapshot_destroy(name_all(&order));
	assert_string_equal(order.asked, "sbqs");
}

/* What is left when time is up is said. */
static void test_time_is_up(void **state _unused_)
{
	struct order order = { .enough_after = 3 };
	struct snap_snapshot *snapshot = name_all(&order);

	assert_string_equal(order.asked, "sqq");
	assert_int_equal(snapshot->warning_count, 1);
	assert_string_equal(snapshot->warnings[0].message,
			    "cannot read all symbols of 2 files: there was too little time");
	snap_snapshot_destroy(snapshot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_files_wait_for_others),
		cmocka_unit_test(test_file_of_both),
		cmocka_unit_test(test_time_is_up),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
