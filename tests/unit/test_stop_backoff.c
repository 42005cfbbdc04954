/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a capture waits for in all, however many processes make it wait, and who comes last. */
#include "capture/stop_backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const int64_t MS = 1000000, S = 1000000000;

static void test_shares_of_the_time(void **state _unused_)
{
	struct snap_stop_backoff pace;

	snap_stop_backoff_begin(&pace, 5 * S, 10 * S);
	assert_true(pace.no_retry_ns > 5 * S);
	assert_true(pace.no_retry_ns < pace.no_tree_ns);
	assert_true(pace.no_tree_ns < pace.no_stop_ns);
	assert_true(pace.no_stop_ns < 14 * S);
	/* Nothing is left: no tree is begun. */
	snap_stop_backoff_begin(&pace, 5 * S, -S);
	assert_true(pace.no_tree_ns < 5 * S);
}

/* Each costs what is left of the patience for one; all together they stay below two seconds. */
static void test_many_stalls_cost_little(void **state _unused_)
{
	struct snap_stop_backoff pace;
	int64_t all = 0;

	snap_stop_backoff_begin(&pace, 0, 11 * S);
	assert_int_equal(snap_stop_backoff_patience(&pace, 7), 100);
	for (unsigned i = 0; i < 70; i++) {
		uint32_t patience = snap_stop_backoff_patience(&pace, 7);
		int64_t each = 150 * MS * patience / 100;

		assert_in_range(patience, SNAP_STOP_BACKOFF_LEAST, 100);
		snap_stop_backoff_lose(&pace, each);
		all += each;
	}
	assert_int_equal(snap_stop_backoff_patience(&pace, 7), SNAP_STOP_BACKOFF_LEAST);
	assert_true(all < 2 * S);
	snap_stop_backoff_blame(&pace, 8, S);
	assert_int_equal(snap_stop_backoff_patience(&pace, 8), SNAP_STOP_BACKOFF_LEAST_OF_ALL);
	assert_int_equal(snap_stop_backoff_patience(&pace, 7), SNAP_STOP_BACKOFF_LEAST);
	snap_stop_backoff_again(&pace);
	assert_int_equal(snap_stop_backoff_patience(&pace, 7), 100);
}

static void test_users_who_cost_much_come_last(void **state _unused_)
{
	struct snap_stop_backoff pace;

	snap_stop_backoff_begin(&pace, 0, 11 * S);
	assert_false(snap_stop_backoff_is_last(&pace, 1000));
	snap_stop_backoff_blame(&pace, 1000, 150 * MS);
	assert_false(snap_stop_backoff_is_last(&pace, 1000));
	snap_stop_backoff_blame(&pace, 1001, 150 * MS);
	snap_stop_backoff_blame(&pace, 1000, 150 * MS);
	assert_true(snap_stop_backoff_is_last(&pace, 1000));
	assert_false(snap_stop_backoff_is_last(&pace, 1001));
	assert_int_equal(snap_stop_backoff_patience(&pace, 7), 100);
	snap_stop_backoff_blame(&pace, (uid_t)-1, S);
	assert_false(snap_stop_backoff_is_last(&pace, (uid_t)-1));
	/* More users than it can remember. */
	for (uid_t uid = 0; uid < 2 * SNAP_STOP_BACKOFF_USERS; uid++)
		snap_stop_backoff_blame(&pace, uid, S);
	assert_true(snap_stop_backoff_is_last(&pace, 0));
	assert_false(snap_stop_backoff_is_last(&pace, 2 * SNAP_STOP_BACKOFF_USERS - 1));
	snap_stop_backoff_again(&pace);
	assert_false(snap_stop_backoff_is_last(&pace, 0));
}

/* Less than is left when no more trees are begun, and some for each one that is begun late. */
static void test_time_before_a_stop(void **state _unused_)
{
	struct snap_stop_backoff pace;

	snap_stop_backoff_begin(&pace, 5 * S, 10 * S);
	assert_in_range(snap_stop_backoff_prepare_until_ns(&pace, 5 * S), 8 * S,
			pace.no_tree_ns - S);
	assert_true(snap_stop_backoff_prepare_until_ns(&pace, pace.no_stop_ns) > pace.no_stop_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_of_the_time),
		cmocka_unit_test(test_many_stalls_cost_little),
		cmocka_unit_test(test_users_who_cost_much_come_last),
		cmocka_unit_test(test_time_before_a_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
