/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The trace: its ring, what of it is shown, and what is not believed of it. */
#include "api/api.h"
#include "model/snapshot.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { THREADS = 4, EACH = 20000, PAST_THE_END = 1000 };

static int setup(void **state)
{
	return stacksnap_options_create((struct stacksnap_options **)state) ? -1 : 0;
}

static int teardown(void **state)
{
	stacksnap_options_destroy(*state);
	return 0;
}

static struct snap_trace *begin(struct stacksnap_options *options)
{
	assert_null(stacksnap_options_set_trace(options, NULL, 0));
	return options->values.trace;
}

/* An event as it is shown. */
struct shown {
	pid_t tid;
	unsigned kind;
	char text[200];
};

static bool next(const struct stacksnap_options *options, unsigned long long *cursor,
		 struct shown *ret)
{
	return stacksnap_options_next_trace(options, cursor, &ret->tid, &ret->kind, ret->text,
					    sizeof(ret->text));
}

static void test_without_one(void **state)
{
	struct stacksnap_options *options = *state;
	unsigned long long cursor = 0;
	struct shown shown;

	assert_null(options->values.trace);
	assert_false(next(options, &cursor, &shown));
	snap_trace(NULL, 1, SNAP_TRACE_LISTED, NULL);
	snap_trace_copy(NULL, &(struct snap_thread){ .tid = 1 }, 0, 0);
}

static void test_events_in_order(void **state)
{
	struct stacksnap_options *options = *state;
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	struct shown shown;

	snap_trace(trace, 11, SNAP_TRACE_LISTED, NULL);
	snap_trace(trace, 12, SNAP_TRACE_RAN, NULL);
	snap_trace(trace, 11, SNAP_TRACE_UNWOUND,
		   (const uint64_t[]){ 3, 0xabc, SNAP_UNWIND_COMPLETE });
	snap_trace(trace, 12, SNAP_TRACE_UNWOUND,
		   (const uint64_t[]){ 7, 0xdef, SNAP_UNWIND_UNREADABLE });
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, 11);
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_LISTED);
	assert_non_null(strstr(shown.text, " ms  listed"));
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, 12);
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_RAN + 1);
	assert_non_null(strstr(shown.text, "  needs a stop of its own, because it ran"));
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_UNWOUND);
	assert_non_null(strstr(shown.text, ": 3 frames, the last one at 0xabc: complete"));
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_UNWOUND + 1);
	assert_non_null(strstr(shown.text, ": 7 frames, the last one at 0xdef: unreadable"));
	assert_false(next(options, &cursor, &shown));
	assert_int_equal(cursor, 4);
}

/* Each kind has words of its own, and fits in a line. */
static void test_words(void **state)
{
	struct stacksnap_options *options = *state;
	const uint64_t numbers[] = { UINT64_MAX, UINT64_MAX, SNAP_UNWIND_NOT_STOPPED };
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	struct shown shown, before = { .text = "" };

	for (unsigned kind = 0; kind < SNAP_TRACE_KIND_COUNT; kind++)
		snap_trace(trace, 1, kind, numbers);
	while (next(options, &cursor, &shown)) {
		assert_true(strlen(shown.text) < sizeof(shown.text) - 1);
		assert_string_not_equal(strstr(shown.text, " ms "), before.text);
		strcpy(before.text, strstr(shown.text, " ms "));
	}
	assert_int_equal(cursor, SNAP_TRACE_KIND_COUNT);
}

static void test_some_threads_alone(void **state)
{
	struct stacksnap_options *options = *state;
	pid_t tids[SNAP_TRACE_TIDS + 1];
	unsigned long long cursor = 0;
	struct stacksnap_error *err;
	struct shown shown;

	for (int i = 0; i <= SNAP_TRACE_TIDS; i++)
		tids[i] = 100 + i;
	err = stacksnap_options_set_trace(options, tids, SNAP_TRACE_TIDS + 1);
	assert_int_equal(stacksnap_error_code(err), STACKSNAP_ERROR_INVALID);
	stacksnap_error_destroy(err);
	assert_null(options->values.trace);
	assert_null(stacksnap_options_set_trace(options, tids, SNAP_TRACE_TIDS));
	assert_null(stacksnap_options_set_trace(options, tids, 2));
	for (pid_t tid = 99; tid < 104; tid++)
		snap_trace(options->values.trace, tid, SNAP_TRACE_LISTED, NULL);
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, 100);
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, 101);
	assert_false(next(options, &cursor, &shown));
}

/* The newest stay, and how many were there before is known. */
static void test_overflow(void **state)
{
	struct stacksnap_options *options = *state;
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	struct shown shown;
	size_t count = 1;

	for (pid_t tid = 1; tid <= SNAP_TRACE_EVENTS + PAST_THE_END; tid++)
		snap_trace(trace, tid, SNAP_TRACE_LISTED, NULL);
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(cursor, PAST_THE_END + 1);
	assert_int_equal(shown.tid, PAST_THE_END + 1);
	while (next(options, &cursor, &shown))
		count++;
	assert_int_equal(count, SNAP_TRACE_EVENTS);
	assert_int_equal(shown.tid, SNAP_TRACE_EVENTS + PAST_THE_END);
}

static void *add_many(void *argument)
{
	for (int i = 0; i < EACH; i++)
		snap_trace(argument, (pid_t)pthread_self() | 1, SNAP_TRACE_LISTED, NULL);
	return NULL;
}

/* Of threads, and of another process. */
static void test_many_writers(void **state)
{
	struct stacksnap_options *options = *state;
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	pthread_t threads[THREADS];
	struct shown shown;
	pid_t child = fork();

	if (child == 0) {
		add_many(trace);
		_exit(0);
	}
	assert_true(child > 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, trace), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (int i = 0; i < (THREADS + 1) * EACH; i++)
		assert_true(next(options, &cursor, &shown));
	assert_false(next(options, &cursor, &shown));
}

/* They have the tid of their process, negative, which asks for them, too. */
static void test_tasks(void **state)
{
	struct stacksnap_options *options = *state;
	unsigned long long cursor = 0;
	struct snap_trace *trace;
	struct shown shown;
	pid_t pid = 40;

	assert_null(stacksnap_options_set_trace(options, &pid, 1));
	trace = options->values.trace;
	snap_trace_task(NULL, 40, "1", 1, SNAP_UNWIND_COMPLETE);
	snap_trace_task(trace, 41, "1", 1, SNAP_UNWIND_COMPLETE);
	snap_trace_task(trace, 40, "18", 5, SNAP_UNWIND_COMPLETE);
	snap_trace_task(trace, 40, "0x7f0012345678", 2, SNAP_UNWIND_LIMIT);
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, -40);
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_TASK);
	assert_non_null(strstr(shown.text, " ms  task 18: 5 frames: complete"));
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.kind, 2 * SNAP_TRACE_TASK + 1);
	assert_non_null(strstr(shown.text, " ms  task 0x7f0012345678: 2 frames: limit"));
	assert_false(next(options, &cursor, &shown));
}

/* A role that was taken over writes what it likes. */
static void test_hostile_content(void **state)
{
	struct stacksnap_options *options = *state;
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	struct shown shown;

	for (unsigned i = 0; i < 6; i++)
		snap_trace(trace, 1, SNAP_TRACE_UNWOUND, (const uint64_t[]){ 0, 0, 0 });
	trace->events[0].kind = SNAP_TRACE_KIND_COUNT;
	trace->events[1].kind = UINT32_MAX;
	trace->events[2].numbers[2] = SNAP_UNWIND_COUNT;
	trace->events[3].number = 0;
	trace->events[4].number = 4;
	trace->events[5].tid = INT32_MIN;
	trace->events[5].time_ns = INT64_MAX;
	trace->begin_ns = INT64_MIN;
	trace->events[5].numbers[0] = trace->events[5].numbers[1] = UINT64_MAX;
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.tid, INT32_MIN);
	assert_non_null(strstr(shown.text, "18446744073709551615 frames"));
	assert_false(next(options, &cursor, &shown));

	/* As if there were many more: each place has another number. */
	trace->next = UINT64_MAX;
	cursor = 0;
	assert_false(next(options, &cursor, &shown));
	memset(trace, 0xff, sizeof(*trace));
	cursor = 0;
	assert_false(next(options, &cursor, &shown));
	memset(trace->tids, 1, sizeof(trace->tids));
	snap_trace(trace, 5, SNAP_TRACE_LISTED, NULL);
}

static unsigned cause_of(struct stacksnap_options *options, const struct snap_thread *copy,
			 uint64_t most)
{
	struct snap_trace *trace = begin(options);
	unsigned long long cursor = 0;
	struct shown shown;

	snap_trace_copy(trace, copy, copy->stack_address + 100000, most);
	assert_true(next(options, &cursor, &shown));
	assert_int_equal(shown.kind, 2 * (SNAP_TRACE_TOGETHER + copy->taken));
	assert_int_equal(shown.tid, copy->tid);
	assert_non_null(strstr(shown.text, copy->taken == SNAP_TAKEN_UNSTOPPED
						   ? "copied without a stop: "
						   : "copied in that stop: "));
	return next(options, &cursor, &shown) ? shown.kind / 2 : 0;
}

static void test_causes_of_cut_copies(void **state)
{
	struct snap_thread copy = { .tid = 7, .stack_address = 0x7000, .stack_size = 100000 };

	assert_int_equal(cause_of(*state, &copy, 1 << 20), 0);
	copy.taken = SNAP_TAKEN_UNSTOPPED;
	assert_int_equal(cause_of(*state, &copy, 1 << 20), 0);
	copy.stack_limited = true;
	copy.stack_size = 65536;
	assert_int_equal(cause_of(*state, &copy, 1 << 20), SNAP_TRACE_UNKNOWN_END);
	assert_int_equal(cause_of(*state, &copy, 65544), SNAP_TRACE_MAX_STACK);
	copy.stack_size = 8192;
	assert_int_equal(cause_of(*state, &copy, 1 << 20), SNAP_TRACE_MEMORY);
	copy.stack_unreadable = true;
	assert_int_equal(cause_of(*state, &copy, 1 << 20), SNAP_TRACE_PAGE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_without_one),
		TEST(test_events_in_order),
		TEST(test_words),
		TEST(test_some_threads_alone),
		TEST(test_tasks),
		TEST(test_overflow),
		TEST(test_many_writers),
		TEST(test_hostile_content),
		TEST(test_causes_of_cut_copies),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
