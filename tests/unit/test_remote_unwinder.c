/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The remote unwinder: tells what a local one tells, address for address, and survives each kind of
 * parser that one can think of: dead, late, hostile.
 */
#include "base/clock.h"
#include "skip.h"
#include "store/capture/file.h"
#include "unwinder_bed.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { COPIES = 300 };

static void assert_all_told(struct bed *bed)
{
	const struct snap_process *process = &bed->capture->processes[0];

	for (size_t i = 0; i < process->thread_count; i++) {
		struct snap_thread thread = process->threads[i];

		assert_told(bed, 0, &thread);
		thread.partial = true;
		assert_told(bed, 0, &thread);
		thread.stack_size /= 2;
		thread.stack_unreadable = true;
		assert_told(bed, 0, &thread);
		thread.result = SNAP_THREAD_NOT_STOPPED;
		assert_told(bed, 0, &thread);
	}
}

static void test_it_tells_what_a_local_one_tells(void **state)
{
	struct bed *bed = *state;

	assert_all_told(bed);
	bed_close(bed);
	bed->options.max_frames = 0;
	bed_open(bed);
	assert_all_told(bed);
	bed_close(bed);
	bed->options.max_frames = 7;
	bed_open(bed);
	assert_all_told(bed);
	bed_close(bed);
	bed->options.engine = SNAP_ENGINE_LIBUNWIND;
	bed_open(bed);
	assert_all_told(bed);
	assert_int_equal(losses(bed), 0);
}

static void test_also_of_a_capture_from_a_file(void **state)
{
	struct bed *bed = *state;
	int fd = memfd_create("capture", MFD_CLOEXEC);

	assert_null(snap_capture_write(bed->capture, fd));
	bed_close(bed);
	snap_capture_destroy(bed->capture);
	lseek(fd, 0, SEEK_SET);
	assert_null(snap_capture_read(fd, &bed->capture));
	close(fd);
	bed->processes = bed->capture->processes;
	bed->process_count = bed->capture->process_count;
	bed_open(bed);
	assert_all_told(bed);
	assert_int_equal(losses(bed), 0);
}

/* ---- many processes, which come and go ---- */

/* The process stands in the capture under many numbers. */
static struct snap_process *multiply(struct bed *bed)
{
	struct snap_process *copies = calloc(COPIES, sizeof(*copies));

	for (size_t i = 0; i < COPIES; i++)
		copies[i] = bed->processes[0];
	bed_close(bed);
	bed->capture->processes = copies;
	bed->capture->process_count = COPIES;
	for (size_t i = 0; bed->capture->live && i < bed->process_count; i++)
		snap_live_close(&bed->capture->live[i]);
	free(snap_take_ptr(bed->capture->live));
	bed_open(bed);
	return copies;
}

static void test_many_processes(void **state)
{
	struct bed *bed = *state;
	_cleanup_free_ struct snap_process *copies = multiply(bed);
	pid_t parser = 0;

	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 0; i < COPIES; i++) {
			assert_told(bed, i, &copies[0].threads[i % (DEPTHS + 1)]);
			parser = parser ? parser : bed->unwinder->role.pid;
		}
	assert_int_equal(bed->unwinder->role.pid, parser);
	assert_int_equal(losses(bed), 0);
}

static void test_another_process_under_an_old_number(void **state)
{
	struct bed *bed = *state;
	_cleanup_free_ struct snap_process *copies = multiply(bed);
	const struct snap_thread *thread = &copies[0].threads[2];
	struct snap_pcs pcs;

	assert_told(bed, 1, thread);
	/* Without mappings there is nothing to unwind by. */
	copies[1].map_count = 0;
	assert_told(bed, 1, thread);
	snap_remote_unwinder_leave(bed->unwinder, 1);
	assert_null(snap_remote_unwind(bed->unwinder, 1, &copies[1], thread, &pcs));
	assert_int_equal(pcs.count, 1);
	assert_true(pcs.stale_mappings);
	copies[1].map_count = copies[0].map_count;
	assert_null(snap_remote_unwind(bed->unwinder, 1, &copies[1], thread, &pcs));
	assert_int_equal(pcs.count, 1);
	snap_remote_unwinder_reset(bed->unwinder);
	assert_told(bed, 1, thread);
	assert_told(bed, 0, thread);
}

/* -1: we may not know. */
static int count_descriptors(pid_t pid)
{
	char path[64];
	int count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static long data_kb(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[256];
	long found = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "VmData: %ld", &found);
	assert_true(found >= 0);
	return found;
}

static void leave_often(struct bed *bed, const struct snap_thread *thread, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		snap_remote_unwinder_leave(bed->unwinder, i % COPIES);
		snap_remote_unwinder_tidy(bed->unwinder);
		assert_told(bed, i % COPIES, thread);
	}
}

/*
 * What was left is kept up to a limit, so there is more of it at first; after that nothing grows,
 * on neither side.
 */
static void test_nothing_grows_with_those_that_leave(void **state)
{
	struct bed *bed = *state;
	_cleanup_free_ struct snap_process *copies = multiply(bed);
	const struct snap_thread *thread = &copies[0].threads[2];
	int own, theirs;
	long before;
	pid_t parser;

	leave_often(bed, thread, COPIES);
	parser = bed->unwinder->role.pid;
	snap_remote_unwinder_reset(bed->unwinder);
	/* As much as is kept at most, and what the C library keeps of it. */
	leave_often(bed, thread, 250);
	own = count_descriptors(getpid());
	theirs = count_descriptors(parser);
	before = data_kb(parser);
	for (unsigned i = 0; i < 4; i++) {
		leave_often(bed, thread, 250);
		/* More numbers at once than a call can tell. */
		for (uint32_t k = 0; k < COPIES; k++)
			snap_remote_unwinder_leave(bed->unwinder, k);
	}
	snap_remote_unwinder_reset(bed->unwinder);
	leave_often(bed, thread, 10);
	assert_int_equal(count_descriptors(getpid()), own);
	assert_int_equal(bed->unwinder->role.pid, parser);
	assert_int_equal(count_descriptors(parser), theirs);
#ifndef __SANITIZE_ADDRESS__
	assert_true(data_kb(parser) < before + 4096);
#endif
	assert_int_equal(losses(bed), 0);
}

/* What was left and is not needed is given up when there is much of it. */
static void test_it_is_tidied(void **state)
{
	struct bed *bed = *state;
	const struct snap_thread *thread = &bed->processes[0].threads[1];

	assert_told(bed, 0, thread);
	/* Of none that was left nothing is kept, whatever it says. */
	atomic_store(&bed->unwinder->exchange->left_bytes, 1ull << 40);
	snap_remote_unwinder_tidy(bed->unwinder);
	assert_true(bed->unwinder->processes[0].is_entered);
	snap_remote_unwinder_leave(bed->unwinder, 0);
	assert_told(bed, 0, thread);
	assert_true(bed->unwinder->processes[0].is_entered);
	atomic_store(&bed->unwinder->exchange->left_bytes, 1ull << 40);
	snap_remote_unwinder_tidy(bed->unwinder);
	assert_false(bed->unwinder->processes[0].is_entered);
	assert_told(bed, 0, thread);
	assert_int_equal(atomic_load(&bed->unwinder->exchange->left_bytes), 0);
}

/* ---- parsers that end ---- */

static void assert_pc_alone(struct bed *bed, const char *why)
{
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	struct snap_pcs wanted, got;
	const char *told = NULL;

	snap_unwind(bed->own, thread, &wanted);
	assert_null(snap_remote_unwind(bed->unwinder, 0, &bed->processes[0], thread, &got));
	assert_int_equal(got.count, 1);
	assert_int_equal(got.pcs[0].bits, wanted.pcs[0].bits);
	assert_int_equal(got.end, SNAP_UNWIND_FAILED);
	assert_non_null(got.reason);
	assert_false(got.needs_register || got.stale_mappings);
	snap_remote_unwinder_losses(bed->unwinder, &told);
	assert_non_null(told);
	assert_string_equal(told, why);
}

static void end_parser(struct bed *bed, int number)
{
	const struct snap_role *role = &bed->unwinder->role;

	assert_true(role->pid > 0);
	kill(role->pid, number);
	if (number == SIGKILL)
		assert_true(snap_role_has_ended(role, 10000));
}

static void test_one_that_was_killed(void **state)
{
	struct bed *bed = *state;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	const bool lost[] = { true, false, true, false, true, false, true, true, false };
	struct snap_trace *trace = calloc(1, sizeof(*trace));

	assert_told(bed, 0, thread);
	assert_non_null(trace);
	bed->options.trace = trace;
	for (unsigned i = 1; i <= 4; i++) {
		end_parser(bed, SIGKILL);
		assert_pc_alone(bed, "the parser was killed by signal 9");
		assert_int_equal(losses(bed), i);
		if (i < 4)
			assert_told(bed, 0, thread);
	}
	/* That was often enough for this process. */
	assert_pc_alone(bed, "the parser was killed by signal 9");
	assert_int_equal(losses(bed), 4);
	assert_int_equal(bed->unwinder->role.pidfd, -1);
	snap_remote_unwinder_leave(bed->unwinder, 0);
	assert_told(bed, 0, thread);
	bed->options.trace = NULL;
	assert_int_equal(trace->next, sizeof(lost) / sizeof(lost[0]));
	for (unsigned i = 0; i < trace->next; i++)
		assert_int_equal(trace->events[i].kind,
				 lost[i] ? SNAP_TRACE_LOST : SNAP_TRACE_UNWOUND);
	free(trace);
}

/* It had nothing to do for long: nobody's loss. */
static void test_one_that_left(void **state)
{
	struct bed *bed = *state;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	pid_t before;

	assert_told(bed, 0, thread);
	before = bed->unwinder->role.pid;
	bed->unwinder->answered_ns -= 10000000000;
	atomic_store(&bed->unwinder->exchange->has_left, 1);
	assert_told(bed, 0, thread);
	assert_int_not_equal(bed->unwinder->role.pid, before);
	/* It goes just when it is called. */
	end_parser(bed, SIGSTOP);
	bed->unwinder->processes[0].is_entered = true;
	assert_int_equal(losses(bed), 0);
	kill(bed->unwinder->role.pid, SIGCONT);
	assert_told(bed, 0, thread);
}

static void *unwind_one(void *context)
{
	struct bed *bed = context;

	assert_told(bed, 0, &bed->processes[0].threads[2]);
	return NULL;
}

/* The kernel ends a role with the thread that made it. */
static void test_its_makers_thread_has_ended(void **state)
{
	struct bed *bed = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, unwind_one, bed), 0);
	pthread_join(thread, NULL);
	assert_true(snap_role_has_ended(&bed->unwinder->role, 10000));
	unwind_one(bed);
	assert_int_equal(losses(bed), 0);
}

/* Stopped, it uses no time at all. */
static void test_one_that_does_not_answer(void **state)
{
	struct bed *bed = *state;
	volatile int cancel = 0;

	assert_told(bed, 0, &bed->processes[0].threads[2]);
	end_parser(bed, SIGSTOP);
	assert_pc_alone(bed, "the parser took too long over a stack");
	assert_told(bed, 0, &bed->processes[0].threads[2]);
	end_parser(bed, SIGSTOP);
	bed->options.cancel = &cancel;
	cancel = 1;
	for (;;) {
		struct snap_pcs pcs;
		_cleanup_(snap_error_destroyp) struct stacksnap_error *err = snap_remote_unwind(
			bed->unwinder, 0, &bed->processes[0], &bed->processes[0].threads[2], &pcs);

		assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
		break;
	}
	bed->options.cancel = NULL;
	assert_int_equal(losses(bed), 1);
}

/* No stack is waited for that long once somebody waits for the end. */
static void test_told_to_end(void **state)
{
	struct bed *bed = *state;
	_Atomic int64_t asked_ns = 0;
	struct snap_pcs pcs;

	snap_remote_unwinder_heed(bed->unwinder, &asked_ns);
	assert_told(bed, 0, &bed->processes[0].threads[2]);
	end_parser(bed, SIGSTOP);
	asked_ns = snap_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < 2; i++) {
		_cleanup_(snap_error_destroyp) struct stacksnap_error *err = snap_remote_unwind(
			bed->unwinder, 0, &bed->processes[0], &bed->processes[0].threads[2], &pcs);

		assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
		assert_int_equal(losses(bed), 0);
	}
	asked_ns = 0;
	assert_told(bed, 0, &bed->processes[0].threads[2]);
}

/* ---- parsers in the hands of somebody else ---- */

static void wait_for_call(struct snap_exchange *exchange)
{
	while (atomic_load(&exchange->calls) == 0)
		usleep(100);
}

static void say_done(struct snap_exchange *exchange)
{
	atomic_store(&exchange->done, atomic_load(&exchange->calls));
	atomic_fetch_add(&exchange->events, 1);
	for (;;)
		pause();
}

static void loops(void *context, int channel _unused_)
{
	wait_for_call(context);
	for (volatile unsigned i = 0;; i = i + 1)
		;
}

static void aborts(void *context, int channel _unused_)
{
	wait_for_call(context);
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void exits(void *context, int channel _unused_)
{
	wait_for_call(context);
	_exit(7);
}

static void pretends_to_leave(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	atomic_store(&exchange->has_left, 1);
	for (;;)
		pause();
}

static void tells_too_much(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	exchange->answer.count = exchange->most_pcs + 1;
	/* Whoever believes these is led astray, too. */
	exchange->most_pcs = UINT64_MAX;
	exchange->pcs = (struct snap_pc *)16;
	say_done(exchange);
}

static void has_another_end(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	exchange->answer.end = SNAP_UNWIND_COUNT;
	memcpy(exchange->answer.reason, "so", 3);
	say_done(exchange);
}

static void has_a_gap_outside(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	exchange->answer.count = 2;
	exchange->answer.gap_after = 2;
	exchange->answer.gap_count = 1;
	say_done(exchange);
}

static void has_an_endless_reason(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	exchange->answer.end = SNAP_UNWIND_FAILED;
	memset(exchange->answer.reason, 'x', sizeof(exchange->answer.reason));
	say_done(exchange);
}

static void writes_to_the_terminal(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	exchange->answer.end = SNAP_UNWIND_FAILED;
	memcpy(exchange->answer.reason, "\033[2J", 5);
	say_done(exchange);
}

static void asks_nothing(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	for (;;)
		atomic_fetch_add(&exchange->asked, 1);
}

static void asks_nonsense(void *context, int channel)
{
	struct snap_exchange *exchange = context;
	char bytes[100] = "";

	wait_for_call(exchange);
	if (send(channel, bytes, sizeof(bytes), 0) != sizeof(bytes))
		_exit(8);
	atomic_fetch_add(&exchange->asked, 1);
	for (;;)
		pause();
}

static void asks_for_ever(void *context, int channel)
{
	const struct snap_broker_request request = { .kind = SNAP_FILE_MODULE, .map = 0 };
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	for (;;) {
		atomic_fetch_add(&exchange->asked, 1);
		if (send(channel, &request, sizeof(request), 0) < 0)
			_exit(8);
	}
}

/* Of one that asks and listens there are many answers. */
static void asks_and_listens_for_ever(void *context, int channel)
{
	const struct snap_broker_request request = { .kind = SNAP_FILE_MODULE, .map = UINT32_MAX };
	struct snap_exchange *exchange = context;
	char bytes[SNAP_WIRE_BYTES];

	wait_for_call(exchange);
	for (;;) {
		atomic_fetch_add(&exchange->asked, 1);
		if (send(channel, &request, sizeof(request), 0) < 0 ||
		    recv(channel, bytes, sizeof(bytes), 0) < 0)
			_exit(8);
	}
}

/* There is news all the time, but no answer. */
static void announces_without_end(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	for (;;)
		atomic_fetch_add(&exchange->events, 1);
}

/* Nobody had been waiting for long: it is no leaving in good order. */
static void leaves_in_a_call(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	wait_for_call(exchange);
	atomic_store(&exchange->has_left, 1);
	_exit(0);
}

/* Each costs one stack: the next parser is as good as any. */
static void test_hostile_parsers(void **state)
{
	static const char nonsense[] = "the parser gave an invalid answer";
	static const char late[] = "the parser took too long over a stack";
	static const char early[] = "the parser exited early";
	static const struct {
		void (*run)(void *context, int channel);
		const char *why;
	} kinds[] = {
		{ loops, late },
		{ aborts, "the parser was killed by signal 6" },
		{ exits, "the parser exited with status 7" },
		{ tells_too_much, nonsense },
		{ has_another_end, nonsense },
		{ has_a_gap_outside, nonsense },
		{ has_an_endless_reason, nonsense },
		{ writes_to_the_terminal, nonsense },
		{ asks_nothing, late },
		{ asks_nonsense, early },
		{ asks_for_ever, early },
		{ asks_and_listens_for_ever, late },
		{ pretends_to_leave, late },
		{ announces_without_end, late },
		{ leaves_in_a_call, early },
	};
	struct bed *bed = *state;

	assert_told(bed, 0, &bed->processes[0].threads[2]);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(kinds); i++) {
		struct snap_remote_unwinder *unwinder = bed->unwinder;

		snap_remote_end_parser(unwinder);
		/* They are many, and not of this process's making. */
		snap_remote_unwinder_leave(unwinder, 0);
		unwinder->users[0].losses = 0;
		assert_null(snap_remote_renew_exchange(unwinder));
		assert_null(snap_role_spawn("hostile", kinds[i].run, unwinder->exchange,
					    &unwinder->role));
		assert_pc_alone(bed, kinds[i].why);
		assert_int_equal(losses(bed), i + 1);
		assert_told(bed, 0, &bed->processes[0].threads[2]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_tells_what_a_local_one_tells, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_also_of_a_capture_from_a_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_many_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_another_process_under_an_old_number, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_grows_with_those_that_leave, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_it_is_tidied, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_was_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_its_makers_thread_has_ended, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_does_not_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_told_to_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hostile_parsers, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
