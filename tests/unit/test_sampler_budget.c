/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long processes are made to stand by a sampler: the account of it by numbers, and kernels
 * whose counters of runs do not move.
 */
#include "sampler_bed.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SLEEPERS = 20, SPINNERS = 4, TICKS = 400 };

static const int64_t US = 1000, MS = 1000000, S = 1000000000;

/* ---- the account ---- */

/* Asks all the time; each stop takes so long. How long it stood in so much time. */
static int64_t stood_after(const struct snap_budget_rules *rules, int64_t stop_ns, int64_t length,
			   struct snap_budget *budget)
{
	for (int64_t now = 1; now < length; now += MS)
		if (snap_budget_ask(budget, rules, now))
			snap_budget_spend(budget, 1, stop_ns);
	return budget->stood_ns;
}

static void test_share_is_kept(void **state)
{
	const struct snap_budget_rules rules = { .share = 30000, .horizon_ns = 10 * S };
	const int64_t stops[] = { 20 * US, 100 * US, MS, 20 * MS, 200 * MS };

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(stops); i++) {
		struct snap_budget budget = { 0 };
		int64_t stood = stood_after(&rules, stops[i], 10 * S, &budget);

		/* The first of them nobody could foresee. */
		assert_true(stood <= 300 * MS + stops[i]);
		assert_true(stood >= 200 * MS);
	}
}

/* Few stops take fifty times as long as the others: such a one is expected again. */
static void test_share_is_kept_where_stops_differ(void **state)
{
	const struct snap_budget_rules rules = { .share = 30000, .horizon_ns = 3 * S };

	(void)state;
	for (unsigned each = 2; each <= 6; each++) {
		struct snap_budget budget = { 0 };
		unsigned stops = 0;

		for (int64_t now = 1; now < 3 * S; now += 10 * MS)
			if (snap_budget_ask(&budget, &rules, now))
				snap_budget_spend(&budget, 1, ++stops % each ? MS : 50 * MS);
		assert_true(stops >= each);
		assert_true(budget.stood_ns <= 90 * MS);
	}
}

/* A recording may be ended any time: it keeps the share at each moment, but for the first. */
static void test_share_is_kept_whenever_it_ends(void **state)
{
	const int64_t horizons[] = { 0, 10 * S, 3600 * S };

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(horizons); i++) {
		const struct snap_budget_rules rules = { .share = 30000,
							 .horizon_ns = horizons[i] };
		struct snap_budget budget = { 0 };

		for (int64_t now = 1; now < 3 * S; now += MS) {
			if (snap_budget_ask(&budget, &rules, now))
				snap_budget_spend(&budget, 1, MS / 2);
			assert_true(now < 200 * MS || budget.stood_ns <= now / 100 * 3 + MS / 2);
		}
		assert_true(budget.stood_ns > 70 * MS);
	}
}

/* What comes before the time that counts fills nothing, however long it takes. */
static void test_first_look_has_what_a_bucket_holds_at_first(void **state)
{
	struct snap_budget_rules rules = { .share = 30000, .since_ns = INT64_MAX };
	struct snap_budget budget = { 0 };
	int64_t now = 1;

	(void)state;
	for (; now < 5 * S; now += MS)
		if (snap_budget_ask(&budget, &rules, now))
			snap_budget_spend(&budget, 1, 100 * US);
	assert_true(budget.stood_ns > 5 * MS && budget.stood_ns <= 6 * MS);
	rules.since_ns = now;
	assert_false(snap_budget_ask(&budget, &rules, now));
	for (; now < 6 * S; now += MS)
		if (snap_budget_ask(&budget, &rules, now))
			snap_budget_spend(&budget, 1, 100 * US);
	assert_true(budget.stood_ns > 20 * MS && budget.stood_ns <= 30 * MS);
}

/* Each takes long because the others do: a single one may take as long as all did. */
static void test_stops_that_took_long_together(void **state)
{
	const struct snap_budget_rules rules = { .share = 30000 };
	struct snap_budget budget = { 0 };
	unsigned asked = 0;

	(void)state;
	while (asked < 20 && snap_budget_ask(&budget, &rules, 1))
		asked++;
	assert_int_equal(asked, 20);
	snap_budget_spend(&budget, asked, 5 * MS);
	/* There is 1 ms, and 250 us each. */
	assert_false(snap_budget_ask(&budget, &rules, 1));
	assert_false(snap_budget_ask(&budget, &rules, 100 * MS));
	assert_true(snap_budget_ask(&budget, &rules, 400 * MS));
}

/* One that is longer than a full bucket may be made, and no others with it. */
static void test_long_stops_are_made_alone(void **state)
{
	const struct snap_budget_rules rules = { .share = 10000 };
	struct snap_budget budget = { 0 };

	(void)state;
	assert_true(snap_budget_ask(&budget, &rules, 1));
	snap_budget_spend(&budget, 1, 20 * MS);
	assert_false(snap_budget_ask(&budget, &rules, S));
	assert_true(snap_budget_ask(&budget, &rules, 100 * S));
	assert_false(snap_budget_ask(&budget, &rules, 100 * S));
}

static void test_threads_that_stand_together_count_once(void **state)
{
	struct snap_budget budget = { 0 };

	(void)state;
	snap_budget_add(&budget, 100, 10);
	snap_budget_add(&budget, 100, 10);
	snap_budget_add(&budget, 103, 2);
	snap_budget_add(&budget, 108, 10);
	snap_budget_add(&budget, 200, 0);
	snap_budget_add(&budget, 300, 1);
	assert_int_equal(budget.call_ns, 19);
	snap_budget_spend(&budget, 6, budget.call_ns);
	snap_budget_add(&budget, 100, 10);
	assert_int_equal(budget.call_ns, 10);
	assert_int_equal(budget.stood_ns, 19);
}

static void test_room_is_what_is_left(void **state)
{
	const struct snap_budget_rules none = { 0 }, rules = { .share = 30000 };
	struct snap_budget budget = { 0 };

	(void)state;
	assert_int_equal(snap_budget_room(&budget, &none, 1), INT64_MAX);
	assert_int_equal(snap_budget_room(&budget, &rules, 1), 6 * MS);
	snap_budget_spend(&budget, 1, 5 * MS);
	assert_int_equal(snap_budget_room(&budget, &rules, 1), MS);
	snap_budget_spend(&budget, 1, 5 * MS);
	assert_int_equal(snap_budget_room(&budget, &rules, 1), 0);
	assert_int_equal(snap_budget_room(&budget, &rules, 100 * S), 30 * MS);
}

static void test_idle_time_is_not_saved_up(void **state)
{
	const struct snap_budget_rules rules = { .share = 30000 };
	struct snap_budget budget = { 0 };
	int64_t stood = 0;

	(void)state;
	assert_true(snap_budget_ask(&budget, &rules, 1));
	snap_budget_spend(&budget, 1, 50 * US);
	while (snap_budget_ask(&budget, &rules, 1000 * S)) {
		snap_budget_spend(&budget, 1, 50 * US);
		stood += 50 * US;
	}
	assert_true(stood > 25 * MS && stood <= 30 * MS);
}

static void test_what_was_asked_for_counts_before_it_is_over(void **state)
{
	const struct snap_budget_rules rules = { .share = 1000 };
	struct snap_budget budget = { 0 };
	unsigned asked = 0;

	(void)state;
	while (snap_budget_ask(&budget, &rules, 1))
		asked++;
	assert_int_equal(asked, 6); /* 200 us, each 30 */
	snap_budget_spend(&budget, asked, 0);
	assert_true(snap_budget_ask(&budget, &rules, 1));
}

static void test_no_limit(void **state)
{
	const struct snap_budget_rules none = { 0 }, whole = { .share = 1000000 };
	struct snap_budget budget = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_true(snap_budget_ask(&budget, i % 2 ? &none : &whole, 1));
		snap_budget_spend(&budget, 1, S);
	}
	assert_int_equal(budget.stood_ns, 100 * S);
}

/* ---- kernels without counters ---- */

static void sleepers(int commands, int answers)
{
	for (int i = 0; i < SLEEPERS; i++)
		start_thread(wait_in_epoll, NULL);
	while (in_position < SLEEPERS)
		sched_yield();
	answer(answers, getpid());
	while (command(commands))
		answer(answers, interrupted);
}

static void open_sleepers(struct bed *bed, struct victim *victim, unsigned dead_counters)
{
	victim_start(victim, sleepers);
	wait_answer(victim);
	wait_until_asleep(victim->pid, 0);
	bed_options(bed, victim->pid);
	bed->options.dead_counters = dead_counters;
	bed_open(bed);
}

/* Nothing proves that they stand where they stood; they are let be all the same. */
static void test_blocked_threads_are_stopped_once(void **state)
{
	struct bed *bed = *state;
	struct victim victim;
	unsigned alone = 0, late = 0;
	int64_t begin;

	open_sleepers(bed, &victim, 2);
	assert_string_equal(snap_sampler_capture(bed->sampler)->warnings[0].code,
			    "no_run_counters");
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	settle(bed);
	for (unsigned i = 0; i < TICKS; i++)
		bed_tick(bed);
	for (size_t i = 0; i < bed->thread_count; i++) {
		assert_true(bed->threads[i].alone > 0);
		alone += bed->threads[i].alone;
		late += bed->threads[i].missed;
	}
	/* Each once; each again for each 20 ms in which a slow machine leaves it running. */
	assert_true(alone <=
		    (SLEEPERS + 1) * (1 + (snap_clock_ns(CLOCK_MONOTONIC) - begin) / (20 * MS)));
	assert_true(alone < TICKS * (SLEEPERS + 1) / 4);
	tell(&victim);
	assert_true(wait_answer(&victim) <= (int)(alone + late));
	victim_end(&victim);
	bed_end(bed);
}

static void test_who_runs_is_seen_without_counters(void **state)
{
	struct bed *bed = *state;
	struct victim victim;
	unsigned before;

	open_sleepers(bed, &victim, 2);
	settle(bed);
	before = bed_thread(bed, victim.pid)->alone;
	/* The leader answers all the time: processor time is what shows it. */
	for (unsigned i = 0; bed_thread(bed, victim.pid)->alone == before; i++) {
		assert_true(i < 1000000);
		tell(&victim);
		wait_answer(&victim);
		if (i % 16 == 0)
			bed_tick(bed);
	}
	victim_end(&victim);
	bed_end(bed);
}

static void test_switches_do_as_well(void **state)
{
	struct bed *bed = *state;
	struct victim victim;

	open_sleepers(bed, &victim, 1);
	assert_int_equal(bed->sampler->guard_kind, SNAP_GUARD_SWITCHES);
	settle(bed);
	for (unsigned i = 0; i < 100; i++) {
		bed_tick(bed);
		assert_int_equal(bed->tick.kept, SLEEPERS + 1);
	}
	for (size_t i = 0; i < bed->thread_count; i++)
		assert_int_equal(bed->threads[i].alone, 0);
	tell(&victim);
	assert_int_equal(wait_answer(&victim), 0);
	victim_end(&victim);
	bed_end(bed);
}

/* ---- the account of real stops ---- */

static void *spin(void *unused)
{
	volatile unsigned long turns = 0;

	for (;;)
		turns = turns + 1;
	return unused;
}

static void spinners(int commands, int answers)
{
	for (int i = 0; i < SPINNERS; i++)
		start_thread(spin, NULL);
	answers_commands(commands, answers);
}

/* With counters of each kind, and without: ticks without a pause between them would stop it always. */
static void test_no_process_stands_for_longer(void **state)
{
	const uint32_t share = 10000;
	struct bed *bed = *state;
	struct victim victim;

	for (unsigned dead = 0; dead <= 2; dead++) {
		int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), passed, longest = 0;
		uint64_t left_out = 0, alone = 0;

		victim_start(&victim, spinners);
		wait_answer(&victim);
		bed_options(bed, victim.pid);
		bed->options.dead_counters = dead;
		bed->options.max_stopped = share;
		bed_open(bed);
		do {
			int64_t before = bed->tick.stood_ns;

			bed_tick(bed);
			left_out += bed->tick.left_out;
			alone += bed->tick.alone;
			assert_int_equal(bed->tick.stood_ns - before, bed->tick.stopped_ns);
			/* Nor does one stop, while its stack is read. */
			assert_true(bed->sampler->read_ns <= 10 * MS);
			if (bed->tick.stopped_ns > longest)
				longest = bed->tick.stopped_ns;
			passed = snap_clock_ns(CLOCK_MONOTONIC) - begin;
		} while (passed < S || !left_out || !alone);
		/* At the end it may have one stop too many, and has what it began with. */
		assert_true(bed->tick.stood_ns <= passed / 100 + 2 * MS + longest);
		assert_true(bed->tick.stood_ns > 0);
		victim_end(&victim);
		bed_end(bed);
	}
}

/* A look that begins with others each time leaves nobody out for ever. */
static void test_all_have_their_turn(void **state)
{
	struct bed *bed = *state;
	struct victim victim;

	victim_start(&victim, spinners);
	wait_answer(&victim);
	bed_options(bed, victim.pid);
	bed->options.max_stopped = 10000;
	bed_open(bed);
	bed_tick(bed);
	for (size_t i = 0; i < bed->thread_count; i++)
		bed_until(bed, bed->threads[i].copies > 0);
	victim_end(&victim);
	bed_end(bed);
}

/* --no-stop asks each thread once: no share of a time would make sense. */
static void test_an_only_tick_has_no_budget(void **state)
{
	struct bed *bed = *state;
	struct victim victim;

	victim_start(&victim, spinners);
	wait_answer(&victim);
	bed_options(bed, victim.pid);
	bed->options.max_stopped = 1000;
	bed->options.no_stop = true;
	bed->options.timeout_ns = 60 * S;
	bed->options.stop_timeout_ns = 10 * S;
	bed_open(bed);
	bed_tick(bed);
	assert_int_equal(bed->tick.left_out, 0);
	assert_true(bed->tick.alone >= SPINNERS);
	victim_end(&victim);
	bed_end(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_share_is_kept),
		cmocka_unit_test(test_share_is_kept_where_stops_differ),
		cmocka_unit_test(test_share_is_kept_whenever_it_ends),
		cmocka_unit_test(test_first_look_has_what_a_bucket_holds_at_first),
		cmocka_unit_test(test_stops_that_took_long_together),
		cmocka_unit_test(test_long_stops_are_made_alone),
		cmocka_unit_test(test_threads_that_stand_together_count_once),
		cmocka_unit_test(test_room_is_what_is_left),
		cmocka_unit_test(test_idle_time_is_not_saved_up),
		cmocka_unit_test(test_what_was_asked_for_counts_before_it_is_over),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test_setup_teardown(test_blocked_threads_are_stopped_once, give_bed,
						take_bed),
		cmocka_unit_test_setup_teardown(test_who_runs_is_seen_without_counters, give_bed,
						take_bed),
		cmocka_unit_test_setup_teardown(test_switches_do_as_well, give_bed, take_bed),
		cmocka_unit_test_setup_teardown(test_no_process_stands_for_longer, give_bed,
						take_bed),
		cmocka_unit_test_setup_teardown(test_all_have_their_turn, give_bed, take_bed),
		cmocka_unit_test_setup_teardown(test_an_only_tick_has_no_budget, give_bed,
						take_bed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
