/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is left out when a parser is lost over the memory of a process: its runtimes alone. The
 * other ways down are in test_parsers.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "roles/fallback.h"
#include "roles/sandbox/sandbox.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TRIES = 16 };

/* What the tries did without, as they were asked: files, and processes whose runtimes were read. */
struct tries {
	size_t count;
	struct {
		size_t runtimes, effort;
	} each[MOST_TRIES];
};

struct hostile {
	uint64_t first, count; /* numbers of processes, plus 1: reading their runtimes ends it */
	uint64_t file_id;      /* of what was looked at before */
	bool is_slow;
};

/* The parser shares nothing with its maker but its result: what it has to say is asked for. */
static struct stacksnap_error *count_try(void *context, const struct snap_broker_request *request,
					 struct snap_broker_reply *reply _unused_)
{
	struct tries *tries = context;

	assert_true(tries->count < MOST_TRIES);
	tries->each[tries->count].runtimes = request->map;
	tries->each[tries->count++].effort = request->process;
	return snap_error_not_found();
}

static void tell(const struct snap_parser_job *job, enum snap_effort effort)
{
	struct snap_broker_request request = {
		.process = effort,
		.map = job->refusals ? (uint32_t)job->refusals->runtime_count : 0,
	};
	struct snap_broker_answer answer;
	size_t size;

	if (snap_error_ignore(snap_wire_send(job->channel, &request, sizeof(request), -1)) ||
	    snap_error_ignore(
		    snap_wire_receive(job->channel, &answer, sizeof(answer), &size, NULL)))
		_exit(9);
}

static bool is_read(const struct snap_parser_job *job, uint64_t process)
{
	for (size_t i = 0; job->refusals && i < job->refusals->runtime_count; i++)
		if (job->refusals->runtimes[i] == process)
			return false;
	return true;
}

static struct stacksnap_error *read_runtimes(void *context, enum snap_effort effort,
					     struct snap_parser_job *job)
{
	const struct hostile *hostile = context;

	tell(job, effort);
	*job->file_id = hostile->file_id;
	for (uint64_t i = 1; i < 20 && effort == SNAP_EFFORT_ALL; i++) {
		if (!is_read(job, i))
			continue;
		*job->runtimes_of = i;
		if (i >= hostile->first && i < hostile->first + hostile->count) {
			while (hostile->is_slow)
				pause();
			abort();
		}
		*job->runtimes_of = 0;
	}
	job->size = 1;
	return NULL;
}

static struct stacksnap_error *take_nothing(void *context _unused_, const uint8_t *bytes,
					    uint64_t size)
{
	munmap((void *)(uintptr_t)bytes, size);
	return NULL;
}

static enum snap_effort climb_down(const struct hostile *hostile, int64_t time_ns,
				   struct tries *tries)
{
	struct snap_options options = { .cancel = NULL };
	struct snap_fallback fallback = {
		.work = read_runtimes,
		.take = take_nothing,
		.context = (void *)(uintptr_t)hostile,
		.options = &options,
		.broker = { .answer = count_try, .context = tries },
		.inputs = { -1, -1 },
		.deadline_ns = time_ns ? snap_clock_ns(CLOCK_MONOTONIC) + time_ns : 0,
	};

	*tries = (struct tries){ .count = 0 };
	assert_null(snap_fallback_run(&fallback, NULL));
	snap_error_destroy(fallback.reason);
	return fallback.effort;
}

static void test_runtimes_of_one_process(void **state _unused_)
{
	const struct hostile one = { .first = 3, .count = 1, .file_id = 7 };
	const struct hostile some = { .first = 3, .count = 5 };
	const struct hostile none = { .first = 30, .count = 1 };
	struct tries tries;

	assert_int_equal(climb_down(&none, 0, &tries), SNAP_EFFORT_ALL);
	assert_int_equal(tries.count, 1);
	assert_int_equal(climb_down(&one, 0, &tries), SNAP_EFFORT_ALL);
	assert_int_equal(tries.count, 2);
	assert_int_equal(tries.each[0].runtimes, 0);
	assert_int_equal(tries.each[1].runtimes, 1);
	assert_int_equal(climb_down(&some, 0, &tries), SNAP_EFFORT_ALL);
	assert_int_equal(tries.count, 6);
	assert_int_equal(tries.each[5].runtimes, 5);
}

/* Who brings many such processes gets less, and the others with him, but soon. */
static void test_many_such_processes(void **state _unused_)
{
	const struct hostile many = { .first = 1, .count = 19 };
	struct tries tries;

	assert_int_equal(climb_down(&many, 0, &tries), SNAP_EFFORT_NO_SYMBOLS);
	assert_in_range(tries.count, 3, 10);
}

/* A parser that is held there costs time, which is not spent a second time on a file of it. */
static void test_late_over_memory(void **state _unused_)
{
	const struct hostile slow = { .first = 3, .count = 1, .file_id = 7, .is_slow = true };
	struct tries tries;

	assert_int_equal(climb_down(&slow, 4000000000, &tries), SNAP_EFFORT_ALL);
	assert_int_equal(tries.count, 2);
	assert_int_equal(tries.each[1].runtimes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runtimes_of_one_process),
		cmocka_unit_test(test_many_such_processes),
		cmocka_unit_test(test_late_over_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
