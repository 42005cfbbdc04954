/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The grid of ticks (record/tick_pacer.h) and conditions (record/until.h): numbers in, numbers out. */
#include "record/tick_pacer.h"
#include "record/until.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int64_t MS = 1000000, SECOND = 1000000000;

static void test_every_slot_begins_within_itself(void **state)
{
	static const unsigned rates[] = { 1, 3, 7, 99, 997, 1000, 9973, 10000 };

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct snap_tick_pacer pace = { .hz = rates[i] };
		uint64_t slots[] = {
			0,         1, 2, rates[i] - 1, rates[i], rates[i] + 1, 3600ull * rates[i],
			UINT32_MAX
		};

		for (size_t k = 0; k < sizeof(slots) / sizeof(slots[0]); k++) {
			int64_t begin = snap_tick_pacer_time(&pace, slots[k]);

			assert_int_equal(snap_tick_pacer_slot(&pace, begin), slots[k]);
			if (begin > 0)
				assert_int_equal(snap_tick_pacer_slot(&pace, begin - 1),
						 slots[k] - 1);
		}
		assert_int_equal(snap_tick_pacer_time(&pace, 10ull * rates[i]), 10 * SECOND);
	}
}

static void test_ticks_on_time_miss_nothing(void **state)
{
	struct snap_tick_pacer pace = { .hz = 99 };

	(void)state;
	for (int i = 0; i < 990; i++)
		snap_tick_pacer_take(&pace, snap_tick_pacer_due(&pace) + 50000);
	snap_tick_pacer_finish(&pace, 10 * SECOND);
	assert_int_equal(pace.taken, 990);
	assert_int_equal(pace.missed.slots, 0);
}

static void test_ticks_may_be_left_out(void **state)
{
	struct snap_tick_pacer pace = { .hz = 100 };

	(void)state;
	snap_tick_pacer_take(&pace, 0);
	snap_tick_pacer_leave_out(&pace, 3);
	assert_int_equal(snap_tick_pacer_due(&pace), 40 * MS);
	snap_tick_pacer_take(&pace, 41 * MS);
	assert_int_equal(pace.missed.slots, 3);
	/* Those that would have come after the end are not missed. */
	snap_tick_pacer_leave_out(&pace, 1000);
	snap_tick_pacer_finish(&pace, 100 * MS);
	assert_int_equal(pace.taken + pace.missed.slots, 10);
}

static void test_late_ticks_are_left_out_and_counted(void **state)
{
	struct snap_tick_pacer pace = { .hz = 100 };

	(void)state;
	snap_tick_pacer_take(&pace, 0);
	/* That one took 35 ms: slots 1 and 2 are over, slot 3 is not. */
	assert_true(snap_tick_pacer_due(&pace) < 35 * MS);
	snap_tick_pacer_take(&pace, 35 * MS);
	assert_int_equal(pace.missed.slots, 2);
	assert_int_equal(snap_tick_pacer_due(&pace), 40 * MS);
	snap_tick_pacer_take(&pace, 40 * MS);
	assert_int_equal(pace.missed.slots, 2);
	snap_tick_pacer_finish(&pace, 100 * MS);
	assert_int_equal(pace.taken, 3);
	assert_int_equal(pace.missed.slots, 7);
}

static void test_an_early_end_misses_only_what_had_begun(void **state)
{
	struct snap_tick_pacer pace = { .hz = 10 };

	(void)state;
	snap_tick_pacer_take(&pace, 0);
	snap_tick_pacer_finish(&pace, 99 * MS);
	assert_int_equal(pace.missed.slots, 0);
	snap_tick_pacer_finish(&pace, 100 * MS);
	assert_int_equal(pace.missed.slots, 0);
	snap_tick_pacer_finish(&pace, 101 * MS);
	assert_int_equal(pace.missed.slots, 1);
	snap_tick_pacer_finish(&pace, 101 * MS);
	assert_int_equal(pace.missed.slots, 1);
}

static bool threads_at(struct snap_until_watch *watch, const struct snap_until *until, int64_t time,
		       uint64_t threads)
{
	static const uint64_t none[SNAP_STATE_COUNT];
	struct snap_until_tick tick = { .time_ns = time, .threads = threads, .states = none };

	return snap_until_met(watch, until, &tick);
}

static void test_threads_above_a_limit_tell_once(void **state)
{
	struct snap_until until = { .kind = SNAP_UNTIL_THREADS, .limit = 10 };
	struct snap_until_watch watch = { 0 };

	(void)state;
	assert_false(threads_at(&watch, &until, 0, 10));
	assert_true(threads_at(&watch, &until, 10 * MS, 11));
	assert_false(threads_at(&watch, &until, 20 * MS, 12));
	assert_false(threads_at(&watch, &until, 30 * MS, 10));
	assert_true(threads_at(&watch, &until, 40 * MS, 11));
}

static void test_below_a_limit(void **state)
{
	struct snap_until until = { .kind = SNAP_UNTIL_THREADS, .below = true, .limit = 3 };
	struct snap_until_watch watch = { 0 };

	(void)state;
	assert_false(threads_at(&watch, &until, 0, 3));
	assert_true(threads_at(&watch, &until, 10 * MS, 2));
}

static void test_a_condition_must_hold_without_a_break(void **state)
{
	struct snap_until until = { .kind = SNAP_UNTIL_STATE,
				    .states = 1u << SNAP_STATE_DISK | 1u << SNAP_STATE_STOPPED,
				    .for_ns = 5 * SECOND };
	struct snap_until_watch watch = { 0 };
	uint64_t states[SNAP_STATE_COUNT] = { [SNAP_STATE_RUNNING] = 7 };
	struct snap_until_tick tick = { .threads = 7, .states = states };
	int met = -1;

	(void)state;
	for (int i = 0; i < 100; i++) {
		tick.time_ns = i * 100 * MS;
		/* In disk wait from 1 s to 4.9 s, then, after a break, stopped from 5 s on. */
		states[SNAP_STATE_DISK] = i >= 10 && i < 49;
		states[SNAP_STATE_STOPPED] = i >= 50;
		if (snap_until_met(&watch, &until, &tick)) {
			assert_int_equal(met, -1);
			met = i;
		}
	}
	assert_int_equal(met, -1);
	tick.time_ns = 10 * SECOND;
	assert_true(snap_until_met(&watch, &until, &tick));
}

static void test_processor_time_within_a_window(void **state)
{
	struct snap_until until = { .kind = SNAP_UNTIL_CPU, .limit = 50 };
	struct snap_until_watch watch = { 0 };
	static const uint64_t none[SNAP_STATE_COUNT];
	struct snap_until_tick tick = { .states = none, .run_ns = SECOND };
	int met = -1;

	(void)state;
	/* 30 % for three seconds, then 80 %: the window passes 50 % after 0.4 s of that. */
	for (int i = 0; i <= 600; i++) {
		tick.time_ns = i * 10 * MS;
		tick.run_ns += i <= 300 ? 3 * MS : 8 * MS;
		if (snap_until_met(&watch, &until, &tick) && met < 0)
			met = i;
	}
	assert_in_range(met, 338, 350);
}

static void test_processor_time_says_nothing_before_its_window_is_full(void **state)
{
	struct snap_until until = { .kind = SNAP_UNTIL_CPU, .below = true, .limit = 5 };
	struct snap_until_watch watch = { 0 };
	static const uint64_t none[SNAP_STATE_COUNT];
	struct snap_until_tick tick = { .states = none, .run_ns = SECOND };

	(void)state;
	for (int i = 0; i < 100; i++) {
		tick.time_ns = i * 10 * MS;
		assert_false(snap_until_met(&watch, &until, &tick));
	}
	tick.time_ns = SECOND;
	assert_true(snap_until_met(&watch, &until, &tick));
	/* Where nobody counts processor time nothing is ever met. */
	tick.run_ns = 0;
	tick.time_ns = 5 * SECOND;
	assert_false(snap_until_met(&watch, &until, &tick));
}

/* Slots that began while the tick before was at work; slots that nobody began though he could; by choice. */
static void test_why_they_were_missed(void **state _unused_)
{
	struct snap_tick_pacer pace = { .hz = 100 };

	snap_tick_pacer_take(&pace, 0);
	snap_tick_pacer_done(&pace, 35 * MS);
	snap_tick_pacer_take(&pace, 61 * MS);
	assert_int_equal(pace.missed.slots, 5);
	assert_int_equal(pace.missed.late, 2);
	snap_tick_pacer_done(&pace, 62 * MS);
	snap_tick_pacer_take(&pace, 90 * MS);
	assert_int_equal(pace.missed.slots, 7);
	assert_int_equal(pace.missed.late, 4);
	snap_tick_pacer_leave_out(&pace, 2);
	snap_tick_pacer_done(&pace, 91 * MS);
	snap_tick_pacer_take(&pace, 120 * MS);
	assert_int_equal(pace.missed.slots, 9);
	assert_int_equal(pace.missed.late, 4);
	assert_int_equal(pace.missed.left_out, 2);
	/* It ends while what was left out has not come yet. */
	snap_tick_pacer_leave_out(&pace, 5);
	snap_tick_pacer_done(&pace, 121 * MS);
	snap_tick_pacer_finish(&pace, 140 * MS);
	assert_int_equal(pace.missed.left_out, 3);
	assert_int_equal(pace.missed.late, 4);
	assert_int_equal(pace.taken + pace.missed.slots, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_why_they_were_missed),
		cmocka_unit_test(test_every_slot_begins_within_itself),
		cmocka_unit_test(test_ticks_on_time_miss_nothing),
		cmocka_unit_test(test_ticks_may_be_left_out),
		cmocka_unit_test(test_late_ticks_are_left_out_and_counted),
		cmocka_unit_test(test_an_early_end_misses_only_what_had_begun),
		cmocka_unit_test(test_threads_above_a_limit_tell_once),
		cmocka_unit_test(test_below_a_limit),
		cmocka_unit_test(test_a_condition_must_hold_without_a_break),
		cmocka_unit_test(test_processor_time_within_a_window),
		cmocka_unit_test(test_processor_time_says_nothing_before_its_window_is_full),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
