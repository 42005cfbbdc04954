/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a tick does with a thread, case by case: a row says what is known, seen and asked for. */
#include "sample/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Rules, observations and states by short names, so that a row is a line. */
enum rules {
	RECORD,
	CPU_ONLY,
	NO_GUARD,
	CPU_ONLY_NO_GUARD,
	FIRST_LOOK, /* --no-stop, and there is another look */
	LAST_LOOK,
};

enum {
	WORKER = 1,
	HELD_OFF = 2,
	SEEN_LATELY = 4,
	TIME_IS_UP = 8,
	TOO_SOON = 16,
	IS_DUE = 32,
	OVER_BUDGET = 64,
};

enum {
	NEW = SNAP_SAMPLER_THREAD_NEW,
	RETRY = SNAP_SAMPLER_THREAD_RETRY,
	MOVING = SNAP_SAMPLER_THREAD_MOVING,
	SETTLED = SNAP_SAMPLER_THREAD_SETTLED,
};

static const struct snap_tick_rules rules[] = {
	[RECORD] = { 0 },
	[CPU_ONLY] = { .cpu_only = true },
	[NO_GUARD] = { .no_guard = true },
	[CPU_ONLY_NO_GUARD] = { .cpu_only = true, .no_guard = true },
	[FIRST_LOOK] = { .only_tick = true, .may_retry = true },
	[LAST_LOOK] = { .only_tick = true },
};

struct row {
	enum rules rules;
	int state;
	enum snap_sight sight;
	char letter;
	unsigned flags;
	enum snap_tick_action action;
};

static const struct row rows[] = {
	/* Its counters alone. */
	{ RECORD, SETTLED, SNAP_SIGHT_STILL, 'S', 0, SNAP_TICK_KEEP },
	{ RECORD, SETTLED, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_COPY },
	{ RECORD, MOVING, SNAP_SIGHT_STILL, 'R', 0, SNAP_TICK_COPY },
	{ RECORD, MOVING, SNAP_SIGHT_MOVED, 'R', 0, SNAP_TICK_COPY },
	{ RECORD, NEW, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_COPY },
	{ RECORD, NEW, SNAP_SIGHT_STILL, 'S', 0, SNAP_TICK_COPY },
	{ RECORD, SETTLED, SNAP_SIGHT_GONE, 'S', 0, SNAP_TICK_END },
	{ RECORD, MOVING, SNAP_SIGHT_GONE, 'R', HELD_OFF, SNAP_TICK_END },
	/* A worker of the kernel has no stack of a program. */
	{ RECORD, NEW, SNAP_SIGHT_MOVED, 'S', WORKER, SNAP_TICK_TELL },
	{ RECORD, MOVING, SNAP_SIGHT_STILL, 'R', WORKER, SNAP_TICK_TELL },
	{ RECORD, SETTLED, SNAP_SIGHT_STILL, 'I', WORKER, SNAP_TICK_KEEP },
	{ NO_GUARD, NEW, SNAP_SIGHT_MOVED, 'S', WORKER, SNAP_TICK_TELL },
	{ CPU_ONLY, NEW, SNAP_SIGHT_MOVED, 'R', WORKER, SNAP_TICK_TELL },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_MOVED, 'S', WORKER, SNAP_TICK_TELL },
	/* --mode cpu: one that waits for a processor is copied, one that runs is stopped, of all others the
	 * state is told. */
	{ CPU_ONLY, NEW, SNAP_SIGHT_MOVED, 'R', 0, SNAP_TICK_COPY },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_STILL, 'R', 0, SNAP_TICK_COPY },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_MOVED, 'R', HELD_OFF, SNAP_TICK_COPY },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_QUEUED, 'R', HELD_OFF, SNAP_TICK_SHOW },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_RUNNING, 'R', 0, SNAP_TICK_STOP },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_RUNNING, 'R', HELD_OFF, SNAP_TICK_MISS },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_BLOCKED, 'S', 0, SNAP_TICK_TELL },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_TELL },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_MOVED, 'D', 0, SNAP_TICK_TELL },
	{ CPU_ONLY, SETTLED, SNAP_SIGHT_STILL, 'S', 0, SNAP_TICK_KEEP },
	{ CPU_ONLY_NO_GUARD, NEW, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_TELL },
	{ CPU_ONLY_NO_GUARD, NEW, SNAP_SIGHT_MOVED, 'R', 0, SNAP_TICK_STOP },
	/* Nothing tells that a thread stood still. */
	{ NO_GUARD, NEW, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_STOP },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'R', 0, SNAP_TICK_STOP },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'S', HELD_OFF, SNAP_TICK_MISS },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'D', 0, SNAP_TICK_MISS },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 't', 0, SNAP_TICK_MISS },
	/* So one that is blocked is stopped once, and then seldom. */
	{ NO_GUARD, SETTLED, SNAP_SIGHT_STILL, 'S', 0, SNAP_TICK_KEEP },
	{ NO_GUARD, SETTLED, SNAP_SIGHT_STILL, 'S', IS_DUE, SNAP_TICK_STOP },
	{ NO_GUARD, SETTLED, SNAP_SIGHT_STILL, 'D', IS_DUE, SNAP_TICK_MISS },
	{ NO_GUARD, SETTLED, SNAP_SIGHT_MOVED, 'S', OVER_BUDGET, SNAP_TICK_KEEP },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'S', TOO_SOON, SNAP_TICK_SKIP },
	{ NO_GUARD, MOVING, SNAP_SIGHT_STILL, 'S', TOO_SOON, SNAP_TICK_SKIP },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'R', TOO_SOON, SNAP_TICK_SKIP },
	{ NO_GUARD, NEW, SNAP_SIGHT_MOVED, 'S', OVER_BUDGET, SNAP_TICK_LEAVE_OUT },
	{ NO_GUARD, MOVING, SNAP_SIGHT_MOVED, 'R', OVER_BUDGET, SNAP_TICK_LEAVE_OUT },
	{ RECORD, SETTLED, SNAP_SIGHT_STILL, 'S', IS_DUE, SNAP_TICK_KEEP },
	/* Its process stands for too long already. */
	{ RECORD, MOVING, SNAP_SIGHT_RUNNING, 'R', OVER_BUDGET, SNAP_TICK_LEAVE_OUT },
	{ RECORD, MOVING, SNAP_SIGHT_RUNNING, 'R', OVER_BUDGET | HELD_OFF, SNAP_TICK_MISS },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 'S', OVER_BUDGET, SNAP_TICK_SHOW_AS_IS },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'S', OVER_BUDGET, SNAP_TICK_LEAVE_OUT },
	{ RECORD, MOVING, SNAP_SIGHT_BLOCKED, 'S', OVER_BUDGET, SNAP_TICK_SHOW },
	{ CPU_ONLY, MOVING, SNAP_SIGHT_RUNNING, 'R', OVER_BUDGET, SNAP_TICK_LEAVE_OUT },
	{ RECORD, MOVING, SNAP_SIGHT_QUEUED, 'R', OVER_BUDGET, SNAP_TICK_SHOW },
	/* Blocked, and copied. */
	{ RECORD, MOVING, SNAP_SIGHT_SAME, 'S', 0, SNAP_TICK_KEEP },
	{ RECORD, MOVING, SNAP_SIGHT_BLOCKED, 'S', 0, SNAP_TICK_SHOW },
	{ RECORD, NEW, SNAP_SIGHT_BLOCKED, 'D', 0, SNAP_TICK_SHOW },
	{ RECORD, MOVING, SNAP_SIGHT_BLOCKED, 'S', HELD_OFF, SNAP_TICK_SHOW },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 'S', 0, SNAP_TICK_STOP },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 'S', HELD_OFF, SNAP_TICK_MISS },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 'D', 0, SNAP_TICK_SHOW_AS_IS },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 't', 0, SNAP_TICK_SHOW_AS_IS },
	{ RECORD, MOVING, SNAP_SIGHT_NEEDS_REGISTERS, 'D', HELD_OFF, SNAP_TICK_SHOW_AS_IS },
	/* Not blocked, or not to be read. */
	{ RECORD, NEW, SNAP_SIGHT_RUNNING, 'S', 0, SNAP_TICK_STOP },
	{ RECORD, MOVING, SNAP_SIGHT_RUNNING, 'R', 0, SNAP_TICK_STOP },
	{ RECORD, MOVING, SNAP_SIGHT_RUNNING, 'D', 0, SNAP_TICK_STOP },
	{ RECORD, MOVING, SNAP_SIGHT_RUNNING, 'R', HELD_OFF, SNAP_TICK_MISS },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'S', 0, SNAP_TICK_STOP },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'S', SEEN_LATELY, SNAP_TICK_SKIP },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'S', HELD_OFF, SNAP_TICK_MISS },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'D', 0, SNAP_TICK_MISS },
	{ RECORD, MOVING, SNAP_SIGHT_UNREADABLE, 'D', SEEN_LATELY, SNAP_TICK_SKIP },
	/* An only tick tries a second time before it stops, and then whatever the state is. */
	{ FIRST_LOOK, NEW, SNAP_SIGHT_MOVED, 'S', 0, SNAP_TICK_COPY },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_BLOCKED, 'S', 0, SNAP_TICK_SHOW },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_RUNNING, 'R', 0, SNAP_TICK_RETRY },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_MOVED, 'R', 0, SNAP_TICK_COPY },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_STILL, 'R', 0, SNAP_TICK_COPY },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_RUNNING, 'R', 0, SNAP_TICK_STOP },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_RUNNING, 'R', HELD_OFF, SNAP_TICK_MISS },
	{ LAST_LOOK, NEW, SNAP_SIGHT_RUNNING, 'R', 0, SNAP_TICK_STOP },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_UNREADABLE, 'S', 0, SNAP_TICK_RETRY },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_UNREADABLE, 'S', SEEN_LATELY, SNAP_TICK_STOP },
	{ LAST_LOOK, NEW, SNAP_SIGHT_UNREADABLE, 'D', 0, SNAP_TICK_STOP },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_NEEDS_REGISTERS, 'S', 0, SNAP_TICK_STOP },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_NEEDS_REGISTERS, 'D', 0, SNAP_TICK_STOP },
	{ FIRST_LOOK, NEW, SNAP_SIGHT_NEEDS_REGISTERS, 't', 0, SNAP_TICK_STOP },
	/* Time is up: nothing is begun any more; only an end is still told. */
	{ FIRST_LOOK, NEW, SNAP_SIGHT_MOVED, 'S', TIME_IS_UP, SNAP_TICK_MISS },
	{ FIRST_LOOK, RETRY, SNAP_SIGHT_RUNNING, 'R', TIME_IS_UP, SNAP_TICK_MISS },
	{ LAST_LOOK, NEW, SNAP_SIGHT_NEEDS_REGISTERS, 'S', TIME_IS_UP, SNAP_TICK_MISS },
	{ LAST_LOOK, NEW, SNAP_SIGHT_GONE, 'S', TIME_IS_UP, SNAP_TICK_END },
};

static void test_each_case(void **state)
{
	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		const struct snap_observation seen = {
			.sight = row->sight,
			.letter = row->letter,
			.is_worker = row->flags & WORKER,
			.does_not_stop = row->flags & HELD_OFF,
			.seen_lately = row->flags & SEEN_LATELY,
			.time_is_up = row->flags & TIME_IS_UP,
			.too_soon = row->flags & TOO_SOON,
			.is_due = row->flags & IS_DUE,
			.over_budget = row->flags & OVER_BUDGET,
		};
		enum snap_tick_action action = snap_tick_decide(
			(enum snap_sampler_thread_state)row->state, &seen, &rules[row->rules]);

		if (action != row->action)
			fail_msg("row %zu: action %d instead of %d", i, (int)action,
				 (int)row->action);
	}
}

/* Whatever is seen, a thread whose state allows no stop is not stopped by a recording. */
static void test_no_stop_that_cannot_end(void **state)
{
	(void)state;
	for (unsigned from = NEW; from <= SETTLED; from++) {
		for (unsigned sight = SNAP_SIGHT_STILL; sight <= SNAP_SIGHT_GONE; sight++) {
			struct snap_observation seen = { .sight = (enum snap_sight)sight,
							 .letter = 'D' };

			/* Who is found running is in that state no more. */
			if (sight == SNAP_SIGHT_RUNNING)
				continue;
			for (enum rules of = RECORD; of <= CPU_ONLY_NO_GUARD; of++)
				assert_int_not_equal(
					snap_tick_decide((enum snap_sampler_thread_state)from,
							 &seen, &rules[of]),
					SNAP_TICK_STOP);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_case),
		cmocka_unit_test(test_no_stop_that_cannot_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
