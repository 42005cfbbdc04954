/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long an opener is waited for: by what it does, in a table; and openers that do nothing else. */
#include "base/clock.h"
#include "roles/file_opener/file_opener.h"
#include "roles/file_opener/patience.h"
#include "roles/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t MS = 1000000;

/* ---- by a table ---- */

enum { TICK = 20, FAR = 100000 };

/* After how many milliseconds one is given up that is seen like this all of the time. */
static int64_t given_up_after(const struct snap_patience *patience, struct snap_patience_look look,
			      int64_t tick_ms, bool runs)
{
	struct snap_patience_wait wait;

	snap_patience_begin(&wait, 0, 2000 * MS);
	for (int64_t ms = tick_ms; ms < FAR; ms += tick_ms) {
		look.now_ns = ms * MS;
		look.runs += runs;
		if (snap_patience_is_over(patience, &wait, &look))
			return ms;
	}
	return FAR;
}

static void test_first_file(void **state _unused_)
{
	const struct snap_patience none = { .losses = 0 };
	const struct snap_patience_look asleep = { .state = 'S', .runs = 7 };
	const struct snap_patience_look disk = { .state = 'D' }, busy = { .state = 'R' };
	const struct snap_patience_look served = { .state = 'D', .is_served = true };
	const struct snap_patience_look unknown = { .state = 0 };

	assert_in_range(given_up_after(&none, asleep, TICK, false), 300, 340);
	assert_in_range(given_up_after(&none, served, TICK, false), 300, 340);
	assert_int_equal(given_up_after(&none, disk, TICK, false), 2000);
	assert_int_equal(given_up_after(&none, busy, TICK, false), 2000);
	assert_int_equal(given_up_after(&none, unknown, TICK, false), 2000);
	/* A file system in user space that is slow, but answers. */
	assert_int_equal(given_up_after(&none, asleep, TICK, true), 2000);
	/* Who looks gets no processor himself: a look counts as one, however late it comes. */
	assert_in_range(given_up_after(&none, asleep, 180, false), 8 * 180, 2000);
}

static void test_after_losses(void **state _unused_)
{
	const struct snap_patience_look asleep = { .state = 'S' }, disk = { .state = 'D' };
	const struct snap_patience_look busy = { .state = 'R' };
	struct snap_patience patience = { .losses = 1 };
	int64_t all = 0;

	assert_in_range(given_up_after(&patience, asleep, TICK, false), 140, 180);
	assert_int_equal(given_up_after(&patience, disk, TICK, false), 300);
	assert_int_equal(given_up_after(&patience, busy, TICK, false), 2000);
	patience.losses = 15;
	assert_in_range(given_up_after(&patience, asleep, TICK, false), 40, 80);
	for (patience.losses = 0; patience.losses < 16; patience.losses++)
		all += given_up_after(&patience, asleep, TICK, false);
	assert_in_range(all, 500, 1700);
}

/* One that answers each time just before it would be given up uses patience up, too. */
static void test_slow_answers(void **state _unused_)
{
	struct snap_patience patience = { .losses = 0 };
	struct snap_patience_look look = { .state = 'S' };
	struct snap_patience_wait wait;

	snap_patience_begin(&wait, 0, 2000 * MS);
	for (int64_t ms = TICK; ms <= 1900; ms += TICK) {
		look.now_ns = ms * MS;
		look.runs += ms % 200 == 0;
		assert_false(snap_patience_is_over(&patience, &wait, &look));
	}
	snap_patience_end(&patience, &wait);
	assert_in_range(given_up_after(&patience, look, TICK, false), 40, 80);
}

/* ---- openers that answer nobody ---- */

static void sleep_for_ever(void *context _unused_, int channel)
{
	struct {
		char bytes[SNAP_WIRE_BYTES];
	} message;
	size_t size = 1;

	while (size && !snap_error_ignore(
			       snap_wire_receive(channel, &message, sizeof(message), &size, NULL)))
		;
}

static void compute_for_ever(void *context _unused_, int channel _unused_)
{
	nice(19);
	for (volatile unsigned i = 0;; i = i + 1)
		;
}

struct makes {
	struct snap_role role;
	void (*run)(void *context, int channel);
	unsigned made;
};

static int make(void *context, int64_t until_ns _unused_, pid_t *pid_ret)
{
	struct makes *makes = context;

	assert_null(snap_role_spawn("opener", makes->run, NULL, &makes->role));
	makes->made++;
	*pid_ret = makes->role.pid;
	return dup(makes->role.channel);
}

static void lose(void *context)
{
	snap_role_end(&((struct makes *)context)->role);
}

/* How long so many files take, each of another process, with openers that do this. */
static int64_t time_of_files(void (*run)(void *context, int channel), unsigned files,
			     int64_t until_ns)
{
	struct makes makes = { .role = SNAP_ROLE_NONE, .run = run };
	const struct snap_file_opener_source source = { make, lose, &makes };
	const struct snap_options options = { .cancel = NULL };
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_file_opener *opener = NULL;
	struct snap_broker broker;

	assert_null(snap_file_opener_create(&source, &opener));
	snap_file_opener_set_options(opener, &options, 0);
	broker = snap_file_opener_broker(opener);
	for (unsigned i = 0; i < files; i++) {
		struct snap_broker_request request = { .process = i };
		struct snap_broker_reply reply = SNAP_BROKER_REPLY(-1);

		reply.until_ns = until_ns;
		assert_true(snap_error_is(broker.answer(broker.context, &request, &reply),
					  SNAP_ERROR_NOT_FOUND));
	}
	assert_int_equal(makes.made, files);
	assert_int_equal(snap_file_opener_losses(opener), files);
	snap_file_opener_destroy(opener);
	snap_role_end(&makes.role);
	return snap_clock_ns(CLOCK_MONOTONIC) - begin;
}

static void test_openers_that_sleep(void **state _unused_)
{
	int64_t ns = 0;

	/* Where the machine is busy this takes longer. */
	for (int tries = 0; tries < 5; tries++) {
		ns = time_of_files(sleep_for_ever, 6, 0);
		if (ns < 1700 * MS)
			break;
	}
	assert_true(ns < 1700 * MS);
	assert_true(ns > 600 * MS);
}

static void test_openers_that_run(void **state _unused_)
{
	assert_true(time_of_files(compute_for_ever, 1, 0) > 1950 * MS);
}

/* Whoever wanted the file has given up by then. */
static void test_nobody_waits(void **state _unused_)
{
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + 50 * MS, ns = 0;

	for (int tries = 0; tries < 5; tries++) {
		ns = time_of_files(compute_for_ever, 1, until_ns);
		if (ns < 1500 * MS)
			break;
	}
	assert_true(ns < 1500 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_file),       cmocka_unit_test(test_after_losses),
		cmocka_unit_test(test_slow_answers),     cmocka_unit_test(test_openers_that_sleep),
		cmocka_unit_test(test_openers_that_run), cmocka_unit_test(test_nobody_waits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
