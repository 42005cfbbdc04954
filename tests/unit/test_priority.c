/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who comes first, what its children have of that, and that all is as before in the end. */
#include "base/cleanup.h"
#include "base/priority.h"
#include "skip.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What it says that runs in a child, so that nothing is left of it. */
static bool in_child(bool (*run)(void))
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool may_come_first(void)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_RR, &lowest) == 0;
}

static bool is_lowered(void)
{
	snap_priority_lower();
	return sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == -20;
}

static void test_it_comes_first_until_it_is_restored(void **state _unused_)
{
	struct snap_priority before;
	struct sched_param now;

	if (!in_child(may_come_first))
		skip_because("kernel: real-time priority is not permitted");
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 0), 0);
	snap_priority_raise(&before);
	assert_int_equal(sched_getscheduler(0), SCHED_RR);
	assert_int_equal(sched_getparam(0, &now), 0);
	assert_int_equal(now.sched_priority, 1);
	assert_true(snap_priority_level().real_time);
	assert_true(in_child(is_lowered));
	snap_priority_restore(&before);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), 0);
	assert_false(snap_priority_level().real_time);
}

static bool stays_nice(void)
{
	struct snap_priority before;

	if (setpriority(PRIO_PROCESS, 0, 19))
		return false;
	snap_priority_raise(&before);
	if (sched_getscheduler(0) != SCHED_OTHER)
		return false;
	snap_priority_restore(&before);
	return sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 19;
}

static bool stays_a_batch(void)
{
	const struct sched_param none = { .sched_priority = 0 };
	struct snap_priority before;

	if (sched_setscheduler(0, SCHED_BATCH, &none))
		return false;
	snap_priority_raise(&before);
	if (sched_getscheduler(0) != SCHED_BATCH)
		return false;
	snap_priority_restore(&before);
	return sched_getscheduler(0) == SCHED_BATCH;
}

static void test_who_was_put_back_stays_so(void **state _unused_)
{
	assert_true(in_child(stays_nice));
	assert_true(in_child(stays_a_batch));
}

static bool follows(void)
{
	struct snap_priority_level own = { .nice = 0 }, first = { .real_time = true };
	struct snap_priority_level last = { .nice = 3 };

	snap_priority_follow(&own, &first);
	if (sched_getscheduler(0) != SCHED_RR || !own.real_time)
		return false;
	snap_priority_follow(&own, &last);
	return sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 3;
}

static void test_who_works_for_another_follows(void **state _unused_)
{
	if (!in_child(may_come_first))
		skip_because("kernel: real-time priority is not permitted");
	assert_true(in_child(follows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_comes_first_until_it_is_restored),
		cmocka_unit_test(test_who_was_put_back_stays_so),
		cmocka_unit_test(test_who_works_for_another_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
