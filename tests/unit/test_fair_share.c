/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who gets what of a limit: nobody loses by what others need, whoever they are and however many. */
#include "analyze/fair_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 2000 };

static uint64_t taken(const struct snap_claim *claims, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += claims[i].bytes < claims[i].share ? claims[i].bytes : claims[i].share;
	return bytes;
}

static void test_all_fit(void **state)
{
	struct snap_claim claims[] = { { .bytes = 40 }, { .bytes = 60, .uid = 7 } };

	(void)state;
	assert_int_equal(snap_fair_shares(claims, 2, 100), 0);
	assert_true(claims[0].share == UINT64_MAX && claims[1].share == UINT64_MAX);
	assert_int_equal(snap_fair_shares(claims, 0, 0), 0);
	assert_int_equal(snap_fair_shares(claims, 2, 99), 1);
	assert_true(taken(claims, 2) <= 99);
}

/* Of one user, in any order: who needs little keeps it. */
static void test_of_one_user(void **state)
{
	struct snap_claim claims[] = {
		{ .bytes = 1000 }, { .bytes = 10 }, { .bytes = 500 }, { .bytes = 0 }
	};

	(void)state;
	assert_int_equal(snap_fair_shares(claims, 4, 210), 1);
	assert_int_equal(claims[0].share, 100);
	assert_true(claims[1].share == UINT64_MAX);
	assert_int_equal(claims[2].share, 100);
	assert_true(claims[3].share == UINT64_MAX);
}

/* A thousand processes of one user leave to another one, and to root, what these need. */
static void test_many_of_one_user(void **state)
{
	static struct snap_claim claims[MANY + 2];

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		claims[i] = (struct snap_claim){ .bytes = 100, .uid = 1000 };
	claims[MANY] = (struct snap_claim){ .bytes = 9000, .uid = 33 };
	claims[MANY + 1] = (struct snap_claim){ .bytes = 500 };
	assert_int_equal(snap_fair_shares(claims, MANY + 2, 30000), 1);
	assert_true(claims[MANY].share == UINT64_MAX);
	assert_true(claims[MANY + 1].share == UINT64_MAX);
	assert_in_range(claims[0].share, 10, 11);
	assert_true(taken(claims, MANY + 2) <= 30000);
	/* What he needs beyond his share he does not get, either. */
	claims[MANY].bytes = 16000;
	assert_int_equal(snap_fair_shares(claims, MANY + 2, 30000), 1);
	assert_int_equal(claims[MANY].share, 14750);
	assert_true(taken(claims, MANY + 2) <= 30000);
}

/* Root of a container is root: its processes share what the container gets. */
static void test_containers_of_one_user(void **state)
{
	static struct snap_claim claims[MANY + 2];

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		claims[i] = (struct snap_claim){ .bytes = 100, .container = i % 2 ? "aa" : "bb" };
	claims[MANY] = (struct snap_claim){ .bytes = 9000 };
	claims[MANY + 1] = (struct snap_claim){ .bytes = 9000, .container = "cc" };
	assert_int_equal(snap_fair_shares(claims, MANY + 2, 38000), 1);
	assert_true(claims[MANY].share == UINT64_MAX);
	assert_true(claims[MANY + 1].share == UINT64_MAX);
	assert_int_equal(claims[0].share, 10);
	assert_int_equal(claims[1].share, 10);
	assert_true(taken(claims, MANY + 2) <= 38000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_fit),
		cmocka_unit_test(test_of_one_user),
		cmocka_unit_test(test_many_of_one_user),
		cmocka_unit_test(test_containers_of_one_user),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
