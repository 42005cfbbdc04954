/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A watch without time: alarms, pools and conditions on what a sweep and a snapshot would say. */
#include "api/parse.h"
#include "watch/conditions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const int64_t S = 1000000000;

/* ---- what is told ---- */

/* An alert's lists and texts are there only while it is told. */
struct told {
	struct snap_alert last;
	pid_t tids[SNAP_ALARM_TIDS];
	char name[SNAP_MAX_COMM];
	size_t raised, over;
};

static bool note(void *context, const struct snap_alert *alert)
{
	struct told *told = context;

	assert_true(alert->tid_count <= SNAP_ALARM_TIDS);
	for (size_t i = 0; i < alert->tid_count; i++)
		told->tids[i] = alert->tids[i];
	snprintf(told->name, sizeof(told->name), "%s", alert->name ? alert->name : "");
	told->last = (struct snap_alert){ .kind = alert->kind,
					  .over = alert->over,
					  .tids = told->tids,
					  .tid_count = alert->tid_count,
					  .name = told->name,
					  .count = alert->count,
					  .before = alert->before };
	told->raised += !alert->over;
	told->over += alert->over;
	return true;
}

struct bed {
	struct snap_watch_rules rules;
	struct told told;
	struct snap_alarms alarms;
	struct snap_sweep sweep;
	struct snap_pools pools;
	struct snap_view view;
	struct snap_options options;
	struct snap_conditions conditions;
	struct snap_sweep_process process;
	struct snap_sweep_thread threads[16];
	struct snap_sampled_thread shown[16];
	char names[16][SNAP_MAX_COMM];
};

static void bed_init(struct bed *bed, size_t threads)
{
	*bed = (struct bed){ .rules = snap_watch_default_rules() };
	bed->alarms =
		(struct snap_alarms){ .rules = &bed->rules, .tell = note, .context = &bed->told };
	bed->process = (struct snap_sweep_process){ .pid = 100, .start_ticks = 7 };
	snprintf(bed->process.name, sizeof(bed->process.name), "orderd");
	for (size_t i = 0; i < threads; i++) {
		snprintf(bed->names[i], sizeof(bed->names[i]), "worker-%zu", i);
		bed->shown[i] = (struct snap_sampled_thread){ .tid = 101 + (pid_t)i,
							      .name = bed->names[i],
							      .state = 'S' };
		bed->threads[i] = (struct snap_sweep_thread){
			.shown = &bed->shown[i],
			.process = &bed->process,
			.is_blocked = true,
			.place = { .number = 202, .pc = 0x1000, .object = 0x2000 },
		};
	}
	bed->sweep = (struct snap_sweep){ .threads = bed->threads, .thread_count = threads };
	bed->conditions = (struct snap_conditions){ .options = &bed->options,
						    .sweep = &bed->sweep,
						    .pools = &bed->pools,
						    .view = &bed->view,
						    .alarms = &bed->alarms };
}

static void bed_deinit(struct bed *bed)
{
	snap_alarms_deinit(&bed->alarms);
	snap_pools_deinit(&bed->pools);
	snap_view_deinit(&bed->view);
}

/* A look at a moment, in seconds. */
static void look_at(struct bed *bed, int64_t second)
{
	bed->sweep.last_ns = bed->sweep.now_ns;
	bed->sweep.now_ns = second * S;
	assert_null(snap_pools_look(&bed->pools, &bed->sweep));
	snap_alarms_begin(&bed->alarms);
	assert_null(snap_conditions_check(&bed->conditions));
	snap_alarms_end(&bed->alarms, bed->sweep.now_ns);
}

/* ---- a snapshot of these threads ---- */

static struct snap_wait *set_wait(struct snap_wait *wait, enum snap_wait_kind kind,
				  uint64_t address)
{
	*wait = (struct snap_wait){ .kind = kind,
				    .confidence = SNAP_WAIT_IS_CERTAIN,
				    .address = address,
				    .fd = -1,
				    .since_ns = -1 };
	return wait;
}

/* One process with one stack, in which each of the threads waits for what `waits` says. */
static struct snap_snapshot *make_snapshot(const struct bed *bed, struct snap_wait **waits)
{
	struct snap_snapshot *snapshot = snap_snapshot_new();
	struct snap_arena *arena = &snapshot->arena;
	size_t count = bed->sweep.thread_count;
	struct snap_member *members = snap_arena_new_array(arena, count, struct snap_member);
	struct snap_stack *stack = snap_arena_new(arena, struct snap_stack);
	struct snap_node *node = snap_arena_new(arena, struct snap_node);

	assert_true(members && stack && node);
	for (size_t i = 0; i < count; i++)
		members[i] = (struct snap_member){ .tid = bed->shown[i].tid,
						   .name = bed->names[i],
						   .taken = SNAP_TAKEN_UNSTOPPED,
						   .wait = waits[i] };
	*stack = (struct snap_stack){ .count = count,
				      .threads = members,
				      .thread_count = count,
				      .description = "charge_order" };
	*node = (struct snap_node){
		.pid = 100, .name = "orderd", .stacks = stack, .stack_count = 1
	};
	snapshot->processes = snap_arena_new_array(arena, 1, struct snap_node *);
	assert_non_null(snapshot->processes);
	snapshot->processes[0] = node;
	snapshot->root_count = 1;
	return snapshot;
}

static void take_view(struct bed *bed, struct snap_snapshot *snapshot, int64_t second)
{
	assert_null(snap_view_set(&bed->view, snapshot, second * S + 1));
}

static struct snap_snapshot *make_deadlock(const struct bed *bed, struct snap_wait *waits)
{
	struct snap_wait *of[2] = { set_wait(&waits[0], SNAP_WAIT_MUTEX, 0x2000),
				    set_wait(&waits[1], SNAP_WAIT_MUTEX, 0x3000) };
	struct snap_snapshot *snapshot = make_snapshot(bed, of);
	struct snap_wait_link *links =
		snap_arena_new_array(&snapshot->arena, 2, struct snap_wait_link);
	struct snap_deadlock *deadlock = snap_arena_new(&snapshot->arena, struct snap_deadlock);

	assert_true(links && deadlock);
	for (size_t i = 0; i < 2; i++)
		links[i] = (struct snap_wait_link){
			.pid = 100, .tid = bed->shown[i].tid, .name = bed->names[i], .wait = of[i]
		};
	*deadlock = (struct snap_deadlock){
		.certain = true, .until_ns = -1, .threads = links, .thread_count = 2, .size = 2
	};
	snapshot->waits =
		(struct snap_waits){ .asked = true, .deadlocks = deadlock, .deadlock_count = 1 };
	return snapshot;
}

/* ---- tests ---- */

static void test_deadlock_is_told_when_a_second_snapshot_has_it(void **state)
{
	struct snap_wait waits[2], again[2];
	struct bed bed;

	(void)state;
	bed_init(&bed, 2);
	assert_true(snap_conditions_need_view(&bed.conditions));
	take_view(&bed, make_deadlock(&bed, waits), 0);
	look_at(&bed, 1);
	assert_int_equal(bed.told.raised, 0);
	assert_true(snap_conditions_need_view(&bed.conditions));
	/* The same snapshot proves nothing more. */
	look_at(&bed, 2);
	assert_int_equal(bed.told.raised, 0);
	take_view(&bed, make_deadlock(&bed, again), 2);
	look_at(&bed, 3);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_DEADLOCK);
	assert_int_equal(bed.told.last.tid_count, 2);
	look_at(&bed, 4);
	assert_int_equal(bed.told.raised, 1);
	assert_false(snap_conditions_need_view(&bed.conditions));
	bed_deinit(&bed);
}

static void test_deadlock_whose_thread_runs_is_none(void **state)
{
	struct snap_wait waits[2], again[2];
	struct bed bed;

	(void)state;
	bed_init(&bed, 2);
	take_view(&bed, make_deadlock(&bed, waits), 0);
	look_at(&bed, 1);
	bed.shown[1].ran_ns = 2 * S;
	bed.threads[1].run_ns = bed.shown[1].run_ns;
	look_at(&bed, 2);
	take_view(&bed, make_deadlock(&bed, again), 2);
	bed.shown[1].ran_ns = 3 * S;
	look_at(&bed, 3);
	assert_int_equal(bed.told.raised, 0);
	bed_deinit(&bed);
}

/* Where a snapshot needs registers it stops the thread, which is no progress. */
static void test_who_was_stopped_for_the_snapshot_has_not_gone_on(void **state)
{
	struct snap_wait waits[2], again[2];
	struct snap_snapshot *snapshot;
	struct bed bed;

	(void)state;
	bed_init(&bed, 2);
	for (int64_t second = 0; second < 4; second += 2) {
		snapshot = make_deadlock(&bed, second ? again : waits);
		for (size_t i = 0; i < 2; i++) {
			snapshot->processes[0]->stacks[0].threads[i].taken = SNAP_TAKEN_ALONE;
			bed.shown[i].ran_ns = (second + 1) * S;
		}
		take_view(&bed, snapshot, second);
		bed.view.settled_ns = (second + 1) * S;
		look_at(&bed, second + 1);
	}
	assert_int_equal(bed.told.raised, 1);
	bed.shown[1].ran_ns = 4 * S;
	look_at(&bed, 4);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

static void test_stuck_counts_what_the_wait_itself_says(void **state)
{
	struct snap_wait wait, other;
	struct snap_wait *waits[2] = { set_wait(&wait, SNAP_WAIT_MUTEX, 0x2000),
				       set_wait(&other, SNAP_WAIT_CONDITION, 0x4000) };
	struct bed bed;

	(void)state;
	wait.since_ns = 55 * S;
	other.since_ns = 7000 * S;
	bed_init(&bed, 2);
	bed.threads[0].blocked_ns = bed.threads[1].blocked_ns = 1;
	take_view(&bed, make_snapshot(&bed, waits), 0);
	look_at(&bed, 2);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 6);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_STUCK);
	assert_int_equal(bed.told.last.tid_count, 1);
	assert_int_equal(bed.told.last.tids[0], 101);
	/* It goes on. */
	bed.shown[0].ran_ns = 7 * S;
	look_at(&bed, 7);
	assert_int_equal(bed.told.over, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_STUCK);
	bed_deinit(&bed);
}

static void test_blocked_needs_so_many_for_so_long(void **state)
{
	struct snap_wait waits[4], *of[4];
	struct snap_blocker blocker = { .pid = 100, .tid = 555, .name = "holder", .blocked = 3 };
	struct snap_snapshot *snapshot;
	struct bed bed;

	(void)state;
	bed_init(&bed, 4);
	for (size_t i = 0; i < 4; i++) {
		of[i] = set_wait(&waits[i], SNAP_WAIT_MUTEX, 0x2000);
		waits[i].has_owner = true;
		waits[i].owner = (struct snap_wait_party){ .pid = 100, .tid = 555 };
		waits[i].since_ns = (int64_t)(i + 1) * 5 * S; /* 5, 10, 15, 20 s */
		bed.threads[i].blocked_ns = 1;
	}
	snapshot = make_snapshot(&bed, of);
	snapshot->waits = (struct snap_waits){ .blockers = &blocker, .blocker_count = 1 };
	take_view(&bed, snapshot, 0);
	/* The third longest has waited for 10 s. */
	look_at(&bed, 0);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 1);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_BLOCKED);
	assert_int_equal(bed.told.last.tids[0], 555);
	assert_true(snap_conditions_need_view(&bed.conditions));
	bed_deinit(&bed);
}

/*
 * Threads 0 to 2 wait for the lock that thread 4 has, and it for that of thread 5, which makes
 * thread 5 the one who holds up all of them; 3 waits with a timeout. Seconds in which threads ran
 * after the snapshot are 2 and 5.
 */
static void test_a_lock_that_moves_on_blocks_nobody(void **state)
{
	static const struct {
		bool holder, waiter, timed, all;
		size_t raised;
	} rows[] = {
		{ .raised = 1 },                                /* nobody ran */
		{ .holder = true, .raised = 1 },                /* it works while it has the lock */
		{ .waiter = true, .raised = 1 },                /* woken by a signal, say */
		{ .holder = true, .timed = true, .raised = 1 }, /* its time was up */
		{ .holder = true, .waiter = true, .raised = 0 },
		{ .holder = true, .all = true, .raised = 0 },
	};

	(void)state;
	for (size_t row = 0; row < SNAP_ARRAY_SIZE(rows); row++) {
		struct snap_wait waits[6], *of[6] = { NULL };
		struct snap_blocker blocker = { .pid = 100, .tid = 106, .blocked = 5 };
		struct snap_snapshot *snapshot;
		struct bed bed;

		bed_init(&bed, 6);
		for (size_t i = 0; i < 5; i++) {
			of[i] = set_wait(&waits[i], SNAP_WAIT_MUTEX, i == 4 ? 0x3000 : 0x2000);
			waits[i].has_owner = true;
			waits[i].owner =
				(struct snap_wait_party){ .pid = 100, .tid = i == 4 ? 106 : 105 };
			bed.threads[i].blocked_ns = 1;
		}
		waits[3].timed = true;
		snapshot = make_snapshot(&bed, of);
		snapshot->waits = (struct snap_waits){ .blockers = &blocker, .blocker_count = 1 };
		take_view(&bed, snapshot, 0);
		for (int64_t second = 0; second <= 20; second++) {
			bool runs = second == 2 || second == 5;

			for (size_t i = 0; runs && i < 6; i++)
				if (i == 5 ? rows[row].holder
					   : rows[row].all || (i == 1 && rows[row].waiter) ||
						     (i == 3 && rows[row].timed)) {
					bed.shown[i].ran_ns = second * S;
					bed.threads[i].percent = 50;
				}
			look_at(&bed, second);
		}
		assert_int_equal(bed.told.raised, rows[row].raised);
		bed_deinit(&bed);
	}
}

static void test_peer_whose_queue_moves_is_fine(void **state)
{
	struct snap_wait wait;
	struct snap_wait *waits[1] = { set_wait(&wait, SNAP_WAIT_TCP, 0) };
	struct bed bed;

	(void)state;
	bed_init(&bed, 1);
	wait.send_queue = 1000;
	wait.remote = "10.0.0.9:5432";
	take_view(&bed, make_snapshot(&bed, waits), 0);
	look_at(&bed, 1);
	look_at(&bed, 4);
	wait.send_queue = 900;
	look_at(&bed, 6);
	look_at(&bed, 10);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 11);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_PEER);
	wait.send_queue = 0;
	look_at(&bed, 12);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

/* As of a connect that lasts since before the first look: one that asks once has no later one. */
static void test_peer_that_does_not_answer_a_connect(void **state)
{
	struct snap_wait wait;
	struct snap_wait *waits[1] = { set_wait(&wait, SNAP_WAIT_TCP, 0) };
	struct bed bed;

	(void)state;
	bed_init(&bed, 1);
	bed.threads[0].blocked_ns = 1;
	wait.send_queue = 1;
	wait.remote = "10.0.0.9:5432";
	wait.socket_state = "syn_sent";
	wait.since_ns = 3 * S;
	take_view(&bed, make_snapshot(&bed, waits), 0);
	look_at(&bed, 1);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 3);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_PEER);
	bed_deinit(&bed);
}

static void test_disk_goes_by_the_state(void **state)
{
	struct bed bed;

	(void)state;
	bed_init(&bed, 2);
	bed.shown[1].state = 'D';
	bed.shown[1].ran_ns = 1 * S;
	look_at(&bed, 10);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 11);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_DISK);
	bed.shown[1].state = 'S';
	look_at(&bed, 12);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

/* The kernel may know that it began before the watch did. */
static void test_disk_counts_from_before_the_first_look(void **state)
{
	struct snap_wait wait;
	struct snap_wait *waits[1] = { set_wait(&wait, SNAP_WAIT_FILE, 0) };
	struct bed bed;

	(void)state;
	bed_init(&bed, 1);
	bed.threads[0].blocked_ns = 1;
	bed.shown[0].state = 'D';
	wait.since_ns = 20 * S;
	take_view(&bed, make_snapshot(&bed, waits), 1);
	look_at(&bed, 2);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_DISK);
	bed_deinit(&bed);
}

static void test_spinning_needs_five_equal_tops(void **state)
{
	struct snap_wait *waits[1] = { NULL };
	struct snap_entry entry = { .function = "spin", .symbol = "spin" };
	struct snap_frame frame = { .entries = &entry, .entry_count = 1 };
	const struct snap_frame *frames[1] = { &frame };
	struct bed bed;

	(void)state;
	bed_init(&bed, 1);
	bed.threads[0].busy_ns = 1 * S;
	for (int64_t second = 11; second < 16; second++) {
		struct snap_snapshot *snapshot = make_snapshot(&bed, waits);

		snapshot->processes[0]->stacks[0].frames = frames;
		snapshot->processes[0]->stacks[0].frame_count = 1;
		assert_int_equal(bed.told.raised, 0);
		take_view(&bed, snapshot, second);
		look_at(&bed, second);
	}
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_SPINNING);
	bed_deinit(&bed);
}

static void test_pool_is_busy_when_nobody_waits_where_they_use_to(void **state)
{
	struct bed bed;

	(void)state;
	bed_init(&bed, 3);
	for (int64_t second = 1; second < 5; second++)
		look_at(&bed, second);
	for (size_t i = 0; i < 3; i++)
		bed.threads[i].is_blocked = false;
	look_at(&bed, 5);
	look_at(&bed, 14);
	assert_int_equal(bed.told.raised, 0);
	look_at(&bed, 15);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_POOL);
	assert_string_equal(bed.told.last.name, "worker-*");
	bed.threads[1].is_blocked = true;
	look_at(&bed, 16);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

/* All at one lock, for longer than they were ever seen to wait for work. */
static void test_pool_that_stands_at_a_lock_does_not_wait_for_work(void **state)
{
	struct bed bed;

	(void)state;
	bed_init(&bed, 3);
	for (int64_t second = 1; second < 5; second++)
		look_at(&bed, second);
	for (size_t i = 0; i < 3; i++)
		bed.threads[i].place.object = 0x4000;
	for (int64_t second = 5; second < 60; second++) {
		look_at(&bed, second);
		assert_int_equal(bed.told.raised, second >= 15);
	}
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_POOL);
	assert_int_equal(bed.told.over, 0);
	/* But they may have changed their ways. */
	for (int64_t second = 60; second < 600; second++)
		look_at(&bed, second);
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

static void test_growth_takes_ten_steps_up(void **state)
{
	struct bed bed;

	(void)state;
	bed_init(&bed, 15);
	bed.sweep.thread_count = 2;
	for (int64_t second = 1; second <= 11; second++) {
		assert_int_equal(bed.told.raised, 0);
		look_at(&bed, second);
		bed.sweep.thread_count++;
	}
	assert_int_equal(bed.told.raised, 1);
	assert_int_equal(bed.told.last.kind, SNAP_ALERT_GROWTH);
	assert_int_equal(bed.told.last.count, 12);
	assert_int_equal(bed.told.last.before, 2);
	bed.sweep.thread_count = 12;
	look_at(&bed, 12);
	assert_int_equal(bed.told.over, 1);
	bed_deinit(&bed);
}

static void test_what_is_not_asked_for_is_not_told(void **state)
{
	struct bed bed;

	(void)state;
	bed_init(&bed, 2);
	assert_true(snap_parse_watch("deadlock,blocked", &bed.rules));
	bed.shown[1].state = 'D';
	look_at(&bed, 100);
	assert_int_equal(bed.told.raised, 0);
	bed_deinit(&bed);
}

static void test_a_new_wait_that_lasts_asks_for_a_snapshot(void **state)
{
	struct snap_wait *waits[1] = { NULL };
	struct bed bed;

	(void)state;
	bed_init(&bed, 1);
	take_view(&bed, make_snapshot(&bed, waits), 1);
	look_at(&bed, 2);
	assert_false(snap_conditions_need_view(&bed.conditions));
	/* Just come. */
	bed.shown[0].ran_ns = 3 * S;
	bed.threads[0].blocked_ns = 3 * S + 5;
	look_at(&bed, 3);
	assert_false(snap_conditions_need_view(&bed.conditions));
	look_at(&bed, 4);
	assert_true(snap_conditions_need_view(&bed.conditions));
	bed_deinit(&bed);
}

static void test_words_of_conditions(void **state)
{
	static const char *const bad[] = {
		"",           "dead",        "deadlock,",        "blocked>3",
		"blocked>=0", "blocked>=x",  "spinning>=90",     "stuck>=3",
		"stuck for",  "stuck for x", "deadlock for -1s", ",",
	};
	struct snap_watch_rules rules;

	(void)state;
	assert_true(snap_parse_watch("all", &rules));
	for (int kind = 0; kind < SNAP_ALERT_KINDS; kind++)
		assert_true(rules.of[kind].on);
	assert_true(snap_parse_watch("blocked>=5 for 250ms, stuck for 5m,spinning>=50%", &rules));
	assert_false(rules.of[SNAP_ALERT_DEADLOCK].on);
	assert_true(rules.of[SNAP_ALERT_BLOCKED].on);
	assert_int_equal(rules.of[SNAP_ALERT_BLOCKED].least, 5);
	assert_int_equal(rules.of[SNAP_ALERT_BLOCKED].for_ns, S / 4);
	assert_int_equal(rules.of[SNAP_ALERT_STUCK].for_ns, 300 * S);
	assert_int_equal(rules.of[SNAP_ALERT_SPINNING].least, 50);
	assert_int_equal(rules.of[SNAP_ALERT_SPINNING].for_ns, 10 * S);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		if (snap_parse_watch(bad[i], &rules))
			fail_msg("'%s' is taken", bad[i]);
}

static void test_patterns_of_names(void **state)
{
	static const char *const rows[][2] = {
		{ "worker-12", "worker-*" },
		{ "12", "*" },
		{ "a1b22c", "a*b*c" },
		{ "main", "main" },
		{ "kworker/0:1", "kworker/*:*" },
		{ "", "" },
	};
	char out[SNAP_MAX_COMM];

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		snap_thread_pool_pattern(rows[i][0], out);
		assert_string_equal(out, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadlock_is_told_when_a_second_snapshot_has_it),
		cmocka_unit_test(test_deadlock_whose_thread_runs_is_none),
		cmocka_unit_test(test_who_was_stopped_for_the_snapshot_has_not_gone_on),
		cmocka_unit_test(test_stuck_counts_what_the_wait_itself_says),
		cmocka_unit_test(test_blocked_needs_so_many_for_so_long),
		cmocka_unit_test(test_a_lock_that_moves_on_blocks_nobody),
		cmocka_unit_test(test_peer_whose_queue_moves_is_fine),
		cmocka_unit_test(test_peer_that_does_not_answer_a_connect),
		cmocka_unit_test(test_disk_goes_by_the_state),
		cmocka_unit_test(test_disk_counts_from_before_the_first_look),
		cmocka_unit_test(test_spinning_needs_five_equal_tops),
		cmocka_unit_test(test_pool_is_busy_when_nobody_waits_where_they_use_to),
		cmocka_unit_test(test_pool_that_stands_at_a_lock_does_not_wait_for_work),
		cmocka_unit_test(test_growth_takes_ten_steps_up),
		cmocka_unit_test(test_what_is_not_asked_for_is_not_told),
		cmocka_unit_test(test_a_new_wait_that_lasts_asks_for_a_snapshot),
		cmocka_unit_test(test_words_of_conditions),
		cmocka_unit_test(test_patterns_of_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
