/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a stop returns to its caller when there is no tracer to be had, or nobody wants it any more. */
#include "stop/tracer.h"

#include "api/options.h"
#include "base/clock.h"
#include "skip.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { MANY = 80, SET_UP_FAILED = 100, NO_ERROR = 101, OTHER_ERRNO = 102 };

static const int64_t HOUR_NS = 3600000000000;

static struct stacksnap_error *grow_not(void *context _unused_, struct snap_stop *stop _unused_,
					bool *grown_ret)
{
	*grown_ret = false;
	return NULL;
}

/*
 * A stop of processes that sleep, into `traced`, the pointers of which are void. The error is the
 * caller's. `prepare_until_ns`: as in struct snap_stop.
 */
static struct stacksnap_error *stop_until(volatile int *cancel, int64_t prepare_until_ns,
					  struct snap_traced *traced, uint32_t count)
{
	const struct snap_stop_again again = { .look = grow_not };
	struct snap_shared_memory *memory;
	struct snap_options options;
	struct stacksnap_error *err;
	struct snap_stop *stop;
	int tracer_fd = -1;

	snap_options_init(&options);
	options.cancel = cancel;
	assert_null(snap_shared_memory_create(8 << 20, &memory));
	stop = snap_stop_new(memory, count);
	assert_non_null(stop);
	for (uint32_t i = 0; i < count; i++)
		assert_true(snap_stop_add(stop, &traced[i]));
	stop->prepare_until_ns = prepare_until_ns;
	err = snap_tracer_run(&options, NULL, &again, memory, stop, &tracer_fd);
	snap_tracer_end(&tracer_fd);
	memcpy(traced, stop->processes, count * sizeof(*traced));
	snap_shared_memory_destroy(memory);
	snap_options_deinit(&options);
	return err;
}

static struct stacksnap_error *stop_a_process(volatile int *cancel, pid_t pid)
{
	struct snap_traced traced = { .pid = pid, .proc_fd = -1 };

	return stop_until(cancel, 0, &traced, 1);
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_cancelled(void **state _unused_)
{
	pid_t pid = start_sleeper();
	volatile int cancel = 1;
	struct stacksnap_error *err = stop_a_process(&cancel, pid);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
	end_sleeper(pid);
}

/* No process can be made here any more. */
static bool refuse_processes(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = SNAP_ARRAY_SIZE(code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* No file can be opened here any more. */
static bool refuse_files(void)
{
	const struct rlimit none = { 0, 0 };

	return setrlimit(RLIMIT_NOFILE, &none) == 0;
}

/* The errno that the caller is told of, from a process in which something is refused. */
static void expect_errno(bool (*refuse)(void), int expected)
{
	pid_t target = start_sleeper(), pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct stacksnap_error *err;

		if (!refuse())
			_exit(SET_UP_FAILED);
		err = stop_a_process(NULL, target);
		if (!err)
			_exit(NO_ERROR);
		_exit(snap_error_code(err) == SNAP_ERROR_OS ? snap_error_errno(err) : OTHER_ERRNO);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	end_sleeper(target);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SET_UP_FAILED)
		skip_because("kernel: no filter of system calls");
	assert_int_equal(WEXITSTATUS(status), expected);
}

static void test_no_process_can_be_made(void **state _unused_)
{
	expect_errno(refuse_processes, EAGAIN);
}

static void test_no_file_can_be_opened(void **state _unused_)
{
	expect_errno(refuse_files, EMFILE);
}

/*
 * Of many some are stopped however late it is; the others are left as they are, and said to be left
 * out. Where there is no hurry nobody is.
 */
static void test_no_time_before_the_stop(void **state _unused_)
{
	struct snap_traced traced[MANY];
	pid_t pids[MANY];

	for (size_t i = 0; i < MANY; i++)
		pids[i] = start_sleeper();
	for (unsigned hurry = 0; hurry < 2; hurry++) {
		for (size_t i = 0; i < MANY; i++)
			traced[i] = (struct snap_traced){ .pid = pids[i], .proc_fd = -1 };
		assert_null(stop_until(NULL, hurry, traced, MANY));
		for (size_t i = 0; i < MANY; i++) {
			assert_false(traced[i].left_out && traced[i].seized);
			assert_false(traced[i].error || traced[i].vanished);
			assert_int_equal(traced[i].stop_begin_ns != 0, traced[i].seized);
		}
		assert_int_equal(traced[MANY - 1].left_out, hurry);
	}
	for (size_t i = 0; i < MANY; i++)
		end_sleeper(pids[i]);
}

/* Less time is left than a stop may take: that is said where it was up, not where it was enough. */
static void test_less_time_than_a_stop_may_take(void **state _unused_)
{
	const struct snap_stop_again again = { .look = grow_not };
	struct snap_traced traced = { .pid = start_sleeper(), .proc_fd = -1 };
	struct snap_shared_memory *memory;
	struct snap_options options;
	struct snap_stop *stop;
	int tracer_fd = -1;

	snap_options_init(&options);
	options.stop_timeout_ns = HOUR_NS;
	assert_null(snap_shared_memory_create(8 << 20, &memory));
	stop = snap_stop_new(memory, 1);
	assert_non_null(stop);
	assert_true(snap_stop_add(stop, &traced));
	stop->until_ns = snap_clock_ns(CLOCK_MONOTONIC) + HOUR_NS / 2;
	assert_null(snap_tracer_run(&options, NULL, &again, memory, stop, &tracer_fd));
	snap_tracer_end(&tracer_fd);
	assert_true(stop->processes[0].seized);
	assert_true(stop->end_ns != 0);
	assert_false(stop->out_of_time);
	end_sleeper(traced.pid);
	snap_shared_memory_destroy(memory);
	snap_options_deinit(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_no_process_can_be_made),
		cmocka_unit_test(test_no_file_can_be_opened),
		cmocka_unit_test(test_no_time_before_the_stop),
		cmocka_unit_test(test_less_time_than_a_stop_may_take),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
