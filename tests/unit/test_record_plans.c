/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of a recording, with a probe that this test plays: who is asked about, for which plans, when,
 * and who has the plan of another one.
 */
#include "api/options.h"
#include "base/clock.h"
#include "record/plans.h"
#include "roles/runtime_probe/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the probe ---- */

/* What it was asked, and what it says. */
static struct played {
	unsigned begun, for_tasks, left;
	bool is_asked, is_of_thread;
	bool is_slow;       /* it has no answer yet */
	bool knows_nothing; /* its answer is that there is no plan */
	size_t process;
	uint32_t steps; /* of its next plan; one more each time */
} probe;

struct stacksnap_error *
snap_runtime_probe_create(const struct snap_options *options _unused_,
			  const struct snap_runtime *const *runtimes _unused_,
			  bool is_of_thread _unused_, struct snap_runtime_probe **ret)
{
	*ret = (struct snap_runtime_probe *)(void *)&probe;
	return NULL;
}

void snap_runtime_probe_destroy(struct snap_runtime_probe *destroyed _unused_)
{
}

bool snap_runtime_probe_begin(struct snap_runtime_probe *of _unused_,
			      const struct snap_capture *capture _unused_, size_t process,
			      bool is_of_thread)
{
	assert_false(probe.is_asked);
	probe.is_asked = true;
	probe.is_of_thread = is_of_thread;
	probe.process = process;
	probe.begun++;
	probe.for_tasks += !is_of_thread;
	return true;
}

struct stacksnap_error *snap_runtime_probe_go_on(struct snap_runtime_probe *of _unused_,
						 int64_t until_ns _unused_,
						 struct snap_memory_plan *plan, bool *found_ret,
						 bool *done_ret)
{
	assert_true(probe.is_asked);
	*done_ret = !probe.is_slow;
	*found_ret = *done_ret && !probe.knows_nothing;
	if (*done_ret)
		probe.is_asked = false;
	if (*found_ret)
		plan->step_count = ++probe.steps;
	return NULL;
}

bool snap_runtime_probe_images(const struct snap_runtime_probe *of _unused_,
			       struct snap_arena *arena _unused_,
			       struct snap_process *process _unused_)
{
	return true;
}

struct stacksnap_error *snap_runtime_probe_complete(struct snap_runtime_probe *of _unused_,
						    struct snap_capture *capture _unused_)
{
	fail();
	return NULL;
}

void snap_runtime_probe_leave(struct snap_runtime_probe *of _unused_)
{
	probe.left++;
	probe.is_asked = false;
}

struct stacksnap_error *
snap_runtime_probe_plan(void *context _unused_, const struct snap_options *options _unused_,
			struct snap_capture *capture _unused_, size_t process _unused_,
			struct snap_memory_plan *plan _unused_, bool *found_ret _unused_)
{
	fail();
	return NULL;
}

/* ---- processes ---- */

enum { PROCESSES = 3 };

struct bed {
	struct snap_options options;
	struct snap_map maps[2];
	struct snap_process facts[PROCESSES];
	struct snap_capture capture;
	struct snap_log log;
	struct snap_plans plans;
	struct snap_planned planned[PROCESSES];
	struct snap_sampled_process sampled[PROCESSES];
};

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	probe = (struct played){ .steps = 0 };
	snap_options_init(&bed->options);
	bed->maps[0] = (struct snap_map){ .start = 0x1000, .end = 0x2000, .execute = true };
	bed->maps[1] = (struct snap_map){ .start = 0x3000, .end = 0x4000, .execute = true };
	for (size_t i = 0; i < PROCESSES; i++) {
		bed->facts[i] = (struct snap_process){ .maps = bed->maps, .map_count = 1 };
		bed->sampled[i] = (struct snap_sampled_process){ .runtimes = SNAP_RUNTIME_GO };
	}
	bed->capture.processes = bed->facts;
	bed->capture.process_count = PROCESSES;
	bed->log.capture = &bed->capture;
	snap_plans_init(&bed->plans, &bed->options, &bed->log, NULL);
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	for (size_t i = 0; i < PROCESSES; i++)
		snap_plans_ended(&bed->plans, &bed->planned[i]);
	assert_null(bed->plans.first);
	assert_null(bed->plans.asked);
	snap_plans_deinit(&bed->plans);
	snap_options_deinit(&bed->options);
	free(bed);
	return 0;
}

static void map(struct bed *bed, uint32_t number, const struct snap_planned *parent, bool exec)
{
	assert_null(snap_plans_mapped(&bed->plans, &bed->planned[number], &bed->sampled[number],
				      number, parent, exec));
}

/* Its turn comes when it has been there for a moment. */
static void work_until_known(struct bed *bed, uint32_t number)
{
	while (!bed->planned[number].is_known || bed->plans.asked)
		assert_null(snap_plans_work(&bed->plans, snap_clock_ns(CLOCK_MONOTONIC) + 1000000));
}

/* ---- tests ---- */

static void test_both_plans_come_at_once(void **state)
{
	struct bed *bed = *state;
	struct snap_planned *planned = &bed->planned[0];

	map(bed, 0, NULL, false);
	assert_int_equal(probe.begun, 2);
	assert_int_equal(probe.for_tasks, 1);
	assert_true(planned->is_known);
	assert_int_equal(planned->plan->step_count, 1);
	assert_int_equal(planned->task_plan->step_count, 2);
	assert_ptr_equal(bed->sampled[0].plan, planned->plan);
	/* Another program has neither, until it was asked about. */
	probe.is_slow = true;
	map(bed, 0, NULL, true);
	assert_null(planned->plan);
	assert_null(planned->task_plan);
	assert_null(bed->sampled[0].plan);
	assert_true(planned->waits);
}

static void test_who_has_no_tasks_is_asked_once(void **state)
{
	struct bed *bed = *state;

	bed->sampled[0].runtimes = SNAP_RUNTIME_PHP;
	map(bed, 0, NULL, false);
	assert_non_null(bed->planned[0].plan);
	bed->options.task_millihertz = 0;
	map(bed, 1, NULL, false);
	assert_non_null(bed->planned[1].plan);
	bed->options.task_millihertz = 1000;
	bed->options.cpu_only = true;
	map(bed, 2, NULL, false);
	assert_non_null(bed->planned[2].plan);
	assert_int_equal(probe.begun, 3);
	assert_int_equal(probe.for_tasks, 0);
}

static void test_where_there_is_no_runtime_nothing_is_asked_twice(void **state)
{
	struct bed *bed = *state;

	probe.knows_nothing = true;
	map(bed, 0, NULL, false);
	assert_int_equal(probe.begun, 1);
	assert_true(bed->planned[0].is_known);
	assert_null(bed->planned[0].plan);
	bed->sampled[1].runtimes = 0;
	map(bed, 1, NULL, false);
	assert_int_equal(probe.begun, 1);
	assert_false(bed->planned[1].waits);
}

static void test_a_child_has_what_its_parent_has(void **state)
{
	struct bed *bed = *state;

	map(bed, 0, NULL, false);
	map(bed, 1, &bed->planned[0], false);
	assert_int_equal(probe.begun, 2);
	assert_int_equal(bed->planned[1].plan->step_count, 1);
	assert_int_equal(bed->planned[1].task_plan->step_count, 2);
	assert_ptr_not_equal(bed->planned[1].task_plan, bed->planned[0].task_plan);
	/* Not where it has mapped more. */
	bed->facts[2].map_count = 2;
	map(bed, 2, &bed->planned[0], false);
	assert_int_equal(probe.begun, 4);
	assert_int_equal(bed->planned[2].plan->step_count, 3);
}

static void test_late_answers_come_between_ticks(void **state)
{
	struct bed *bed = *state;

	probe.is_slow = true;
	map(bed, 0, NULL, false);
	assert_int_equal(probe.left, 1);
	assert_true(bed->planned[0].waits);
	assert_false(bed->planned[0].is_known);
	probe.is_slow = false;
	work_until_known(bed, 0);
	assert_int_equal(bed->planned[0].plan->step_count, 1);
	assert_int_equal(bed->planned[0].task_plan->step_count, 2);
	assert_false(bed->planned[0].waits);
	/* Who comes later waits for its turn. */
	map(bed, 1, NULL, false);
	assert_true(bed->planned[1].waits);
	work_until_known(bed, 1);
	assert_int_equal(bed->planned[1].task_plan->step_count, 4);
	assert_int_equal(probe.process, 1);
}

static void test_a_pause_begins_anew(void **state)
{
	struct bed *bed = *state;

	assert_null(snap_plans_work(&bed->plans, 0));
	map(bed, 0, NULL, false);
	probe.is_slow = true;
	while (!bed->plans.asked)
		assert_null(snap_plans_work(&bed->plans, snap_clock_ns(CLOCK_MONOTONIC) + 1000000));
	snap_plans_pause(&bed->plans);
	assert_null(bed->plans.asked);
	assert_false(probe.is_asked);
	assert_true(bed->planned[0].waits);
	probe.is_slow = false;
	work_until_known(bed, 0);
	assert_non_null(bed->planned[0].task_plan);
	/* Its end, while it is asked about. */
	map(bed, 1, NULL, false);
	probe.is_slow = true;
	while (!bed->plans.asked)
		assert_null(snap_plans_work(&bed->plans, snap_clock_ns(CLOCK_MONOTONIC) + 1000000));
	snap_plans_ended(&bed->plans, &bed->planned[1]);
	assert_null(bed->plans.asked);
	assert_null(bed->plans.first);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_both_plans_come_at_once),
		with_bed(test_who_has_no_tasks_is_asked_once),
		with_bed(test_where_there_is_no_runtime_nothing_is_asked_twice),
		with_bed(test_a_child_has_what_its_parent_has),
		with_bed(test_late_answers_come_between_ticks),
		with_bed(test_a_pause_begins_anew),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
