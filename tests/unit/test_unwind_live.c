/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One capture of a live process, unwound by every engine: the rows, libunwind over the copy, and
 * libunwind-ptrace while the process stood still. All must tell the same addresses of every thread.
 */
#include "analyze/unwind/engine.h"
#include "analyze/unwind/unwind.h"
#include "api/options.h"
#include "capture/capture.h"
#include "files/files.h"
#include "skip.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { THREADS = 12, MAX_PCS = 256 };

static int ready[2];
static volatile int sink = 1;

/* In position: tells so, then waits for ever. */
__attribute__((noinline)) static void wait_for_ever(void)
{
	sink += (int)write(ready[1], "", 1);
	while (sink > 0)
		poll(NULL, 0, -1);
}

__attribute__((noinline)) static void descend(int left)
{
	char room[96];

	memset(room, left, sizeof(room));
	if (left > 0)
		descend(left - 1);
	else
		wait_for_ever();
	sink += room[left % (int)sizeof(room)];
}

static void on_signal(int number)
{
	descend(number % 3);
}

static void *thread_main(void *argument)
{
	int number = (int)(intptr_t)argument;

	if (number % 4 == 3)
		raise(SIGUSR1);
	descend(number * 3);
	return NULL;
}

/* A child with THREADS blocked threads beside its first one; gone when its parent is. */
static pid_t start_child(void)
{
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, on_signal);
		for (intptr_t i = 0; i < THREADS; i++) {
			pthread_t thread;

			if (pthread_create(&thread, NULL, thread_main, (void *)i))
				_exit(1);
		}
		descend(4);
	}
	for (int i = 0; i <= THREADS; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	return pid;
}

struct copy {
	uint64_t pcs[MAX_PCS];
	size_t count;
	enum snap_unwind_end end;
};

static void unwind_all(const struct snap_capture *capture, struct snap_options *options,
		       enum snap_engine engine, struct copy copies[THREADS + 1])
{
	const struct snap_process *process = &capture->processes[0];
	struct snap_arena arena = { 0 };
	struct snap_file_finder finder;
	struct snap_module_set *set;
	struct snap_unwinder *unwinder;
	struct snap_modules *modules;
	struct snap_files *files;

	options->engine = engine;
	assert_null(snap_files_create(options, capture, &files));
	finder = snap_files_finder(files);
	assert_null(snap_module_set_create(&finder, &arena, &set));
	assert_null(snap_modules_create(set, process, &modules));
	assert_null(snap_unwinder_create(set, options, &unwinder));
	assert_null(snap_unwinder_enter(unwinder, process, modules));
	for (size_t i = 0; i < process->thread_count; i++) {
		struct snap_pcs pcs;

		snap_unwind(unwinder, &process->threads[i], &pcs);
		assert_true(pcs.count > 0 && pcs.count <= MAX_PCS);
		memcpy(copies[i].pcs, pcs.pcs, pcs.count * sizeof(*pcs.pcs));
		copies[i].count = pcs.count;
		copies[i].end = pcs.end;
	}
	snap_unwinder_destroy(unwinder);
	snap_module_set_destroy(set);
	snap_files_destroy(files);
	snap_arena_deinit(&arena);
}

static struct snap_capture *take(struct snap_options *options, pid_t pid)
{
	struct snap_stop_hook hook = { .unwind = snap_ptrace_engine_unwind,
				       .context = snap_ptrace_engine_create() };
	struct snap_capture *capture;
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	assert_null(snap_options_set(options, "pid", text));
	assert_null(snap_options_set(options, "engine", "ptrace"));
	assert_null(snap_options_set(options, "max-frames", "0"));
	assert_non_null(hook.context);
	assert_null(snap_capture_take(options, &hook, &capture));
	snap_ptrace_engine_destroy(hook.context);
	return capture;
}

static void test_engines_agree(void **unused)
{
	static struct copy rows[THREADS + 1], libunwind[THREADS + 1], reference[THREADS + 1];
	struct snap_capture *capture;
	struct snap_options options;
	pid_t pid = start_child();

	(void)unused;
	snap_options_init(&options);
	capture = take(&options, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(capture->process_count, 1);
	if (capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED) {
		skip_because(NO_TRACING);
	}
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_NONE);
	assert_int_equal(capture->processes[0].thread_count, THREADS + 1);
	unwind_all(capture, &options, SNAP_ENGINE_AUTO, rows);
	unwind_all(capture, &options, SNAP_ENGINE_LIBUNWIND, libunwind);
	unwind_all(capture, &options, SNAP_ENGINE_PTRACE, reference);
	for (size_t i = 0; i <= THREADS; i++) {
		size_t bytes = rows[i].count * sizeof(rows[i].pcs[0]);

		assert_true(rows[i].count >= 4);
		assert_int_equal(rows[i].end, SNAP_UNWIND_COMPLETE);
		assert_int_equal(rows[i].count, libunwind[i].count);
		assert_memory_equal(rows[i].pcs, libunwind[i].pcs, bytes);
		assert_int_equal(rows[i].count, reference[i].count);
		assert_memory_equal(rows[i].pcs, reference[i].pcs, bytes);
	}
	snap_capture_destroy(capture);
	snap_options_deinit(&options);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engines_agree),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
