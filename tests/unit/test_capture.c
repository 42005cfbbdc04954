/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stop, on processes that the test forks itself: what is copied is what stands on their stacks,
 * and they run on afterwards, whatever happened. Readiness is a byte in a pipe; nothing sleeps.
 */
#include "api/options.h"
#include "base/shared_memory.h"
#include "capture/capture.h"
#include "capture/collect.h"
#include "patience.h"
#include "proc/procfs.h"
#include "skip.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { THREADS = 5, MARK = 0x5eed, MARKS = 64 };

struct victim {
	pid_t pid;
	int hold; /* closing it ends the victim */
};

/* Stands with a stack that is known: MARKS words with the thread's number, above the frame. */
static void *stand(void *argument)
{
	volatile uint64_t marks[MARKS];
	int *pipes = argument;
	char byte = 'r';

	for (size_t i = 0; i < MARKS; i++)
		marks[i] = MARK;
	while (write(pipes[1], &byte, 1) < 0 && errno == EINTR)
		;
	while (read(pipes[2], &byte, 1) < 0 && errno == EINTR)
		;
	return (void *)(uintptr_t)marks[0];
}

/* Each has a mapping of its own: the C library's may be one with what lies beside it. */
static void stand_with_threads(int *pipes)
{
	const size_t apart = SNAP_MOST_PAGE, size = 4 * apart;
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	for (int i = 1; i < THREADS; i++) {
		char *stack =
			mmap(NULL, size + 2 * apart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (stack == MAP_FAILED ||
		    mprotect(stack + apart, size, PROT_READ | PROT_WRITE) < 0)
			_exit(1);
		pthread_attr_setstack(&attributes, stack + apart, size);
		pthread_create(&thread, &attributes, stand, pipes);
	}
	stand(pipes);
}

/* Forks a process that runs `run`, which writes a byte for each of its `ready` threads. */
static struct victim start(void (*run)(int *pipes), int ready)
{
	int to_test[2], to_victim[2], pipes[3];
	struct victim victim;
	char byte;

	assert_int_equal(pipe2(to_test, O_CLOEXEC), 0);
	assert_int_equal(pipe2(to_victim, O_CLOEXEC), 0);
	victim.pid = fork();
	assert_true(victim.pid >= 0);
	if (victim.pid == 0) {
		close(to_victim[1]);
		close(to_test[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		pipes[1] = to_test[1];
		pipes[2] = to_victim[0];
		run(pipes);
		_exit(0);
	}
	close(to_test[1]);
	close(to_victim[0]);
	victim.hold = to_victim[1];
	for (int i = 0; i < ready; i++)
		assert_int_equal(read(to_test[0], &byte, 1), 1);
	close(to_test[0]);
	return victim;
}

/* After every stop: nobody traces it, and it can still run to its end. */
static void finish(struct victim *victim)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_status status;
	int fd, result;

	assert_null(snap_procfs_open(NULL, &procfs));
	fd = snap_procfs_open_process(&procfs, victim->pid);
	assert_true(fd >= 0);
	assert_int_equal(snap_procfs_status(fd, &status), 0);
	assert_int_equal(status.tracer_pid, 0);
	close(fd);
	close(victim->hold);
	assert_int_equal(waitpid(victim->pid, &result, 0), victim->pid);
	assert_true(WIFEXITED(result));
	assert_int_equal(WEXITSTATUS(result), 0);
}

static struct stacksnap_error *take(const struct victim *victim, struct snap_options *options,
				    struct snap_capture **ret)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim->pid };
	struct stacksnap_error *err;

	options->targets = &target;
	options->target_count = 1;
	err = snap_capture_take(options, NULL, ret);
	options->targets = NULL;
	options->target_count = 0;
	return err;
}

static void skip_where_forbidden(const struct snap_capture *capture)
{
	if (capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED) {
		skip_because(NO_TRACING);
	}
}

static size_t count_marks(const struct snap_thread *thread)
{
	size_t marks = 0;
	uint64_t word;

	for (size_t at = 0; at + sizeof(word) <= thread->stack_size; at += sizeof(word)) {
		memcpy(&word, thread->stack + at, sizeof(word));
		marks += word == MARK;
	}
	return marks;
}

static void test_copies(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_options options;
	const struct snap_process *process;

	snap_options_init(&options);
	options.stop_all = true;
	assert_null(take(&victim, &options, &capture));
	finish(&victim);
	skip_where_forbidden(capture);
	assert_int_equal(capture->process_count, 1);
	process = &capture->processes[0];
	assert_int_equal(process->pid, victim.pid);
	assert_int_equal(process->trouble, SNAP_TROUBLE_NONE);
	assert_int_equal(process->thread_count, THREADS);
	assert_int_equal(process->threads_missed, 0);
	assert_true(process->piece_count > 0);
	assert_true(process->stop_duration_ns > 0);
	assert_true(capture->stop_duration_ns >= capture->stop_skew_ns);
	for (size_t i = 0; i < THREADS; i++) {
		const struct snap_thread *thread = &process->threads[i];
		const struct snap_map *map = snap_process_map(process, thread->stack_address);

		assert_true(i == 0 || process->threads[i - 1].tid < thread->tid);
		assert_int_equal(thread->result, SNAP_THREAD_COPIED);
		assert_int_equal(thread->state, 'S');
		assert_non_null(thread->name);
		assert_non_null(map);
		/* Several stacks may lie in one mapping: see stop/own_stack.h. */
		assert_true(thread->stack_address + thread->stack_size <= map->end);
		assert_int_equal((thread->stack_address + thread->stack_size) % 4096, 0);
		assert_false(thread->stack_limited || thread->stack_unreadable);
		assert_int_equal(count_marks(thread) / MARKS, 1);
	}
	snap_options_deinit(&options);
}

/* ---- stacks in one mapping ---- */

enum { SHARED_STACK = 1 << 18, GUARD_INSTALL = 102 /* MADV_GUARD_INSTALL of Linux 6.13 */ };

/* As glibc 2.42 makes them: what parts stacks is a hole in the mapping that they share. */
static uint8_t *map_stacks(void)
{
	uint8_t *area = mmap(NULL, THREADS * SHARED_STACK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < THREADS && area != MAP_FAILED; i++)
		if (madvise(area + i * SHARED_STACK, 4096, GUARD_INSTALL))
			return NULL;
	return area == MAP_FAILED ? NULL : area;
}

static void stand_with_shared_stacks(int *pipes)
{
	uint8_t *area = map_stacks();
	pthread_attr_t attributes;
	pthread_t thread;

	for (int i = 1; area && i < THREADS; i++) {
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, area + (i - 1) * SHARED_STACK, SHARED_STACK);
		pthread_create(&thread, &attributes, stand, pipes);
	}
	stand(pipes);
}

static void test_stacks_in_one_mapping(void **state _unused_)
{
	uint8_t *area = map_stacks();
	struct snap_options options;
	struct victim victim;

	if (!area)
		skip_because("kernel: it has no guard pages within mappings");
	munmap(area, THREADS * SHARED_STACK);
	victim = start(stand_with_shared_stacks, THREADS);
	snap_options_init(&options);
	for (int no_stop = 0; no_stop < 2; no_stop++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;

		options.no_stop = no_stop;
		assert_null(take(&victim, &options, &capture));
		skip_where_forbidden(capture);
		assert_int_equal(capture->processes[0].thread_count, THREADS);
		for (size_t i = 1; i < THREADS; i++) {
			const struct snap_thread *thread = &capture->processes[0].threads[i];

			assert_int_equal(thread->result, SNAP_THREAD_COPIED);
			assert_false(thread->stack_limited);
			/* Without a stop its thread pointer is found on x86-64 alone. */
			if (!no_stop || capture->processes[0].arch == SNAP_ARCH_X86_64)
				assert_false(thread->stack_unreadable);
			assert_true(thread->stack_size < SHARED_STACK);
			assert_int_equal(count_marks(thread) / MARKS, 1);
		}
	}
	finish(&victim);
	snap_options_deinit(&options);
}

static void test_limits(void **state _unused_)
{
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_options options;

	snap_options_init(&options);
	for (int round = 0; round < 2; round++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		uint64_t most = round ? 4096 / THREADS : 320;

		options.max_stack = round ? 1 << 20 : 320;
		options.max_snapshot = round ? 4096 : 1 << 20;
		assert_null(take(&victim, &options, &capture));
		skip_where_forbidden(capture);
		for (size_t i = 0; i < THREADS; i++) {
			const struct snap_thread *thread = &capture->processes[0].threads[i];

			assert_true(thread->stack_size > 0 && thread->stack_size <= most);
			assert_true(thread->stack_limited);
			assert_false(thread->stack_unreadable);
		}
	}
	finish(&victim);
	snap_options_deinit(&options);
}

/* Nobody is stopped, and the bytes are the same. */
static void test_copies_without_a_stop(void **state _unused_)
{
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_options options;

	snap_options_init(&options);
	options.no_stop = options.no_bpf = options.force_stop = true;
	for (int round = 0; round < 3; round++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		const struct snap_process *process;

		/* Whole, with too little for one, and with too little for all. */
		options.max_stack = round == 1 ? 320 : 1 << 20;
		options.max_snapshot = round == 2 ? 4096 : 1 << 20;
		assert_null(take(&victim, &options, &capture));
		skip_where_forbidden(capture);
		process = &capture->processes[0];
		assert_int_equal(process->thread_count, THREADS);
		assert_int_equal(process->stop_duration_ns, 0);
		assert_true(process->piece_count > 0);
		for (size_t i = 0; i < THREADS; i++) {
			const struct snap_thread *thread = &process->threads[i];

			assert_int_equal(thread->result, SNAP_THREAD_COPIED);
			assert_int_equal(thread->taken, SNAP_TAKEN_UNSTOPPED);
			assert_true(thread->partial);
			assert_int_equal(thread->state, 'S');
			assert_int_equal(thread->stack_limited, round > 0);
			assert_true(thread->stack_size > 0);
			if (round == 0)
				assert_int_equal(count_marks(thread) / MARKS, 1);
		}
	}
	finish(&victim);
	snap_options_deinit(&options);
}

static bool never_suffices(void *context, const struct snap_capture *capture, size_t process,
			   const struct snap_thread *copy)
{
	int *asked = context;

	assert_non_null(snap_process_map(&capture->processes[process], copy->stack_address));
	(*asked)++;
	return false;
}

/* Where no copy suffices all are stopped, one by one. */
static void test_copies_alone(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim.pid };
	int asked = 0;
	struct snap_stop_hook hook = { .suffices = never_suffices, .context = &asked };
	struct snap_options options;

	snap_options_init(&options);
	options.no_stop = options.no_bpf = options.force_stop = true;
	options.targets = &target;
	options.target_count = 1;
	assert_null(snap_capture_take(&options, &hook, &capture));
	options.targets = NULL;
	options.target_count = 0;
	finish(&victim);
	skip_where_forbidden(capture);
	assert_true(asked >= THREADS);
	assert_int_equal(capture->processes[0].thread_count, THREADS);
	for (size_t i = 0; i < THREADS; i++) {
		const struct snap_thread *thread = &capture->processes[0].threads[i];

		assert_int_equal(thread->result, SNAP_THREAD_COPIED);
		assert_int_equal(thread->taken, SNAP_TAKEN_ALONE);
		assert_false(thread->partial);
		assert_int_equal(count_marks(thread) / MARKS, 1);
	}
	assert_true(capture->stop_duration_ns > 0);
	assert_int_equal(capture->processes[0].stop_duration_ns, capture->stop_duration_ns);
	assert_int_equal(capture->warning_count, 1);
	assert_string_equal(capture->warnings[0].code, "not_one_instant");
	snap_options_deinit(&options);
}

static void test_group_stop(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_options options;
	int status;

	snap_options_init(&options);
	kill(victim.pid, SIGSTOP);
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	assert_true(WIFSTOPPED(status));
	assert_null(take(&victim, &options, &capture));
	/* It is stopped as before, and nobody was told of anything. */
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED | WCONTINUED | WNOHANG), 0);
	kill(victim.pid, SIGCONT);
	assert_int_equal(waitpid(victim.pid, &status, WCONTINUED), victim.pid);
	finish(&victim);
	skip_where_forbidden(capture);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(capture->processes[0].threads[i].result, SNAP_THREAD_COPIED);
		assert_int_equal(capture->processes[0].threads[i].state, 'T');
		assert_true(capture->processes[0].threads[i].group_stopped);
	}
	snap_options_deinit(&options);
}

/* Every thread starts its successor and ends; the first one holds the process. */
static void *relay(void *argument)
{
	pthread_t next;

	if (pthread_create(&next, NULL, relay, argument) == 0)
		pthread_detach(next);
	return NULL;
}

static void stand_context_relay(int *pipes)
{
	relay(pipes);
	stand(pipes);
}

static void test_born_meanwhile(void **state _unused_)
{
	struct victim victim = start(stand_context_relay, 1);
	struct snap_options options;

	snap_options_init(&options);
	/* Whose time is up has the thread that runs not copied, but not stopped. */
	options.stop_timeout_ns = with_patience(options.stop_timeout_ns);
	options.timeout_ns = with_patience(options.timeout_ns);
	for (int i = 0; i < 20; i++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		const struct snap_process *process;
		size_t copied = 0;

		assert_null(take(&victim, &options, &capture));
		skip_where_forbidden(capture);
		process = &capture->processes[0];
		for (size_t k = 0; k < process->thread_count; k++)
			copied += process->threads[k].result == SNAP_THREAD_COPIED;
		/* There is always one that runs, and it is here, or is said to be missed. */
		assert_true(copied + process->threads_missed >= 2);
	}
	finish(&victim);
	snap_options_deinit(&options);
}

static int *signal_pipes;

static void on_signal(int number _unused_)
{
	char byte = 'r';

	while (write(signal_pipes[1], &byte, 1) < 0 && errno == EINTR)
		;
	while (read(signal_pipes[2], &byte, 1) < 0 && errno == EINTR)
		;
}

/* The marks are on the usual stack, the handler is on its own. */
static void stand_on_signal_stack(int *pipes)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = 1 << 16 };
	volatile uint64_t marks[MARKS];

	signal_pipes = pipes;
	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	for (size_t i = 0; i < MARKS; i++)
		marks[i] = MARK;
	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1) ||
	    marks[0] != MARK)
		_exit(1);
}

static void test_interrupted_stack(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_on_signal_stack, 1);
	struct snap_thread *thread, second;
	struct snap_options options;

	snap_options_init(&options);
	assert_null(take(&victim, &options, &capture));
	finish(&victim);
	skip_where_forbidden(capture);
	if (capture->processes[0].arch != SNAP_ARCH_X86_64)
		skip_because("arch: written for x86-64");
	thread = &capture->processes[0].threads[0];
	assert_int_equal(count_marks(thread), 0);
	second = (struct snap_thread){ .stack = thread->stack2, .stack_size = thread->stack2_size };
	assert_int_equal(count_marks(&second) / MARKS, 1);
	snap_options_deinit(&options);
}

static void stand_in_tree(int *pipes)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		stand_with_threads(pipes);
		_exit(0);
	}
	stand_with_threads(pipes);
}

static void test_tree_in_one_stop(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_in_tree, 2 * THREADS);
	struct snap_options options;

	snap_options_init(&options);
	assert_null(take(&victim, &options, &capture));
	finish(&victim);
	skip_where_forbidden(capture);
	assert_int_equal(capture->process_count, 2);
	assert_int_equal(capture->processes[1].parent, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(capture->processes[i].thread_count, THREADS);
		assert_true(capture->processes[i].stop_duration_ns <= capture->stop_duration_ns);
		assert_int_equal(count_marks(&capture->processes[i].threads[0]) / MARKS, 1);
	}
	snap_options_deinit(&options);
}

static pid_t traced_by_other;

/* Another tracer; 'r' once it has seized the process, 'n' if it may not. */
static void trace_other(int *pipes)
{
	char byte = ptrace(PTRACE_SEIZE, traced_by_other, NULL, NULL) ? 'n' : 'r';

	if (write(pipes[1], &byte, 1) == 1)
		while (read(pipes[2], &byte, 1) < 0 && errno == EINTR)
			;
}

static void test_already_traced(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim = start(stand_with_threads, THREADS), tracer;
	struct snap_options options;

	traced_by_other = victim.pid;
	tracer = start(trace_other, 1);
	snap_options_init(&options);
	options.stop_all = true;
	assert_null(take(&victim, &options, &capture));
	finish(&tracer);
	finish(&victim);
	if (capture->processes[0].trouble != SNAP_TROUBLE_PERMISSION_DENIED) {
		assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_ALREADY_TRACED);
		assert_non_null(strstr(capture->processes[0].trouble_message, "already traced"));
	}
	snap_options_deinit(&options);
}

static void test_cancelled(void **state _unused_)
{
	struct victim victim = start(stand_with_threads, THREADS);
	struct snap_capture *capture = NULL;
	struct snap_options options;
	volatile int cancel = 1;
	struct stacksnap_error *err;

	snap_options_init(&options);
	options.cancel = &cancel;
	err = take(&victim, &options, &capture);
	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	assert_null(capture);
	finish(&victim);
	snap_options_deinit(&options);
}

/* A capture of a real process comes back from its file as it was. */
static void test_file_of_real_capture(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL, *back = NULL;
	struct victim victim = start(stand_in_tree, 2 * THREADS);
	int fd[2] = { memfd_create("one", MFD_CLOEXEC), memfd_create("two", MFD_CLOEXEC) };
	struct snap_options options;
	off_t size[2];
	void *bytes[2];

	snap_options_init(&options);
	assert_null(take(&victim, &options, &capture));
	finish(&victim);
	assert_null(snap_capture_write(capture, fd[0]));
	lseek(fd[0], 0, SEEK_SET);
	assert_null(snap_capture_read(fd[0], &back));
	assert_null(snap_capture_write(back, fd[1]));
	for (int i = 0; i < 2; i++) {
		size[i] = lseek(fd[i], 0, SEEK_END);
		bytes[i] = mmap(NULL, (size_t)size[i], PROT_READ, MAP_PRIVATE, fd[i], 0);
		assert_true(bytes[i] != MAP_FAILED);
		close(fd[i]);
	}
	assert_int_equal(size[0], size[1]);
	assert_memory_equal(bytes[0], bytes[1], (size_t)size[0]);
	munmap(bytes[0], (size_t)size[0]);
	munmap(bytes[1], (size_t)size[1]);
	snap_options_deinit(&options);
}

static void test_regions(void **state _unused_)
{
	struct snap_shared_memory *shared;
	struct snap_region small;
	uint8_t *one, *two;
	char *text;

	assert_null(snap_shared_memory_create(10000, &shared));
	one = snap_region_alloc(&shared->records, 5);
	two = snap_region_alloc(&shared->records, 5);
	assert_int_equal((uintptr_t)one % 16, 0);
	assert_int_equal(two - one, 16);
	text = snap_region_text(&shared->records, "abc", 2);
	assert_string_equal(text, "ab");
	assert_null(snap_region_array(&shared->records, SIZE_MAX / 2, 3));
	assert_null(snap_region_alloc(&shared->records, SIZE_MAX));
	snap_region_prefault(&shared->records, 100000);
	assert_string_equal(text, "ab");
	small = (struct snap_region){ shared->stacks.next, shared->stacks.next + 64 };
	assert_non_null(snap_region_alloc(&small, 60));
	assert_null(snap_region_alloc(&small, 1));
	assert_int_equal(snap_region_room(&small), 0);
	assert_true(snap_region_room(&shared->stacks) >= 10000);
	snap_shared_memory_destroy(shared);
	snap_shared_memory_destroy(NULL);
}

/* Killed in the middle of its list: one thread of who knows how many is no whole process. */
static void test_tracer_that_ended_early(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_thread listed = { .tid = 1234, .result = SNAP_THREAD_UNTRACED };
	struct snap_traced traced = { .pid = 1234, .threads = &listed, .thread_count = 1 };
	struct snap_stop stop = { .processes = &traced, .process_count = 1, .killed = true };
	struct snap_options options = { .children = true };

	capture->processes = snap_arena_new_array(&capture->arena, 1, struct snap_process);
	assert_non_null(capture->processes);
	capture->process_count = 1;
	capture->processes[0].pid = 1234;
	assert_null(snap_capture_collect(&options, capture, &stop));
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_INTERNAL);
	assert_non_null(strstr(capture->processes[0].trouble_message, "1234"));
	assert_false(capture->processes[0].vanished);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_stacks_in_one_mapping),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_copies_without_a_stop),
		cmocka_unit_test(test_copies_alone),
		cmocka_unit_test(test_group_stop),
		cmocka_unit_test(test_born_meanwhile),
		cmocka_unit_test(test_interrupted_stack),
		cmocka_unit_test(test_tree_in_one_stop),
		cmocka_unit_test(test_already_traced),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_file_of_real_capture),
		cmocka_unit_test(test_tracer_that_ended_early),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
