/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deadlocks, blockers and contended objects of waiters that are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/wait/graph/deadlock.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 10001 };

/* Processes with waiters, whose waits and edges a test sets. */
struct bed {
	struct snap_analysis analysis;
	struct snap_capture capture;
	struct snap_process processes[4];
	struct snap_raw_process raw[4];
	struct snap_raw_stack stack;
	struct snap_options options;
	struct snap_wait_analysis waits;
	struct snap_thread threads[MOST];
	struct snap_raw_thread raw_threads[MOST];
	struct snap_waiter waiters[MOST];
	struct snap_wait wait[MOST];
	size_t first[5], edges[MOST], set_members[8];
	struct snap_wait_set sets[4];
};

/* `counts` threads of each of `process_count` processes; tids count from 100 on. */
static struct bed *bed_create(const size_t *counts, size_t process_count)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	size_t at = 0;

	assert_non_null(bed);
	bed->analysis.capture = &bed->capture;
	bed->analysis.options = &bed->options;
	bed->analysis.processes = bed->raw;
	bed->analysis.snapshot = snap_snapshot_new();
	snap_interner_init(&bed->analysis.strings, &bed->analysis.snapshot->arena);
	bed->capture.processes = bed->processes;
	bed->capture.process_count = process_count;
	bed->waits = (struct snap_wait_analysis){ .analysis = &bed->analysis,
						  .waiters = bed->waiters,
						  .first = bed->first,
						  .sets = bed->sets };
	for (size_t i = 0; i < process_count; i++) {
		bed->processes[i].pid = 10 + (pid_t)i;
		bed->processes[i].name = "process";
		bed->raw[i].process = &bed->processes[i];
		bed->raw[i].stacks = &bed->stack;
		bed->first[i] = at;
		for (size_t k = 0; k < counts[i]; k++, at++) {
			bed->threads[at].tid = 100 + (pid_t)at;
			bed->threads[at].state = 'S';
			bed->raw_threads[at].thread = &bed->threads[at];
			bed->waiters[at] = (struct snap_waiter){ .raw = &bed->raw[i],
								 .thread = &bed->raw_threads[at],
								 .process = i,
								 .any_set = (size_t)SNAP_NO_SET };
		}
	}
	bed->first[process_count] = bed->waits.waiter_count = at;
	return bed;
}

static void bed_destroy(struct bed *bed)
{
	snap_interner_deinit(&bed->analysis.strings);
	snap_snapshot_destroy(bed->analysis.snapshot);
	free(bed);
}

static struct snap_wait *start_wait(struct bed *bed, size_t number, enum snap_wait_kind kind,
				    uint64_t object)
{
	struct snap_waiter *waiter = &bed->waiters[number];

	bed->wait[number] = snap_wait_init(kind, SNAP_WAIT_IS_CERTAIN);
	bed->wait[number].address = object;
	waiter->wait = &bed->wait[number];
	waiter->object = object;
	return waiter->wait;
}

/* A lock that another thread has. */
static struct snap_wait *lock(struct bed *bed, size_t number, size_t owner, uint64_t object)
{
	struct snap_wait *wait = start_wait(bed, number, SNAP_WAIT_MUTEX, object);
	struct snap_waiter *waiter = &bed->waiters[number];

	wait->has_owner = true;
	wait->owner.pid = bed->processes[bed->waiters[owner].process].pid;
	wait->owner.tid = bed->threads[owner].tid;
	bed->edges[number] = owner;
	waiter->any_of = &bed->edges[number];
	waiter->any_count = 1;
	waiter->any_known = waiter->any_certain = true;
	return wait;
}

/* Any thread of a process may act. */
static void pipe_from(struct bed *bed, size_t number, size_t process)
{
	struct snap_waiter *waiter = &bed->waiters[number];
	size_t set = bed->waits.set_count++;

	start_wait(bed, number, SNAP_WAIT_PIPE, 0);
	bed->set_members[set] = process;
	bed->sets[set] = (struct snap_wait_set){ &bed->set_members[set], 1 };
	waiter->any_set = set;
	waiter->any_known = waiter->any_certain = true;
}

static const struct snap_waits *find(struct bed *bed)
{
	assert_null(snap_wait_find_deadlocks(&bed->waits));
	assert_null(snap_wait_find_blockers(&bed->waits));
	assert_null(snap_wait_find_contended(&bed->waits));
	return &bed->analysis.snapshot->waits;
}

static void test_two(void **state _unused_)
{
	struct bed *bed = bed_create((size_t[]){ 5 }, 1);
	const struct snap_waits *found;

	/* 0 <-> 1, 2 behind, 3 waits for 4, which runs. */
	lock(bed, 0, 1, 0x10);
	lock(bed, 1, 0, 0x20);
	lock(bed, 2, 0, 0x20);
	lock(bed, 3, 4, 0x30);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 1);
	assert_int_equal(found->deadlock_total, 1);
	assert_true(found->deadlocks[0].certain);
	assert_false(found->deadlocks[0].timed);
	assert_int_equal(found->deadlocks[0].behind, 1);
	assert_int_equal(found->deadlocks[0].size, 2);
	assert_int_equal(found->deadlocks[0].threads[0].tid, 100);
	assert_int_equal(found->deadlocks[0].threads[1].tid, 101);
	assert_int_equal(found->blocker_count, 1);
	assert_int_equal(found->blockers[0].tid, 104);
	assert_int_equal(found->blockers[0].blocked, 1);
	assert_int_equal(found->contended_count, 1);
	assert_int_equal(found->contended[0].waiters, 2);
	assert_int_equal(found->contended[0].wait->address, 0x20);
	bed_destroy(bed);
}

static void test_kinds_of_certainty(void **state _unused_)
{
	struct bed *bed = bed_create((size_t[]){ 4 }, 1);
	const struct snap_waits *found;

	lock(bed, 0, 1, 0x10)->timed = true;
	bed->wait[0].remaining_ns = 7000;
	lock(bed, 1, 0, 0x20);
	lock(bed, 2, 2, 0x30);
	bed->waiters[2].any_certain = false;
	found = find(bed);
	assert_int_equal(found->deadlock_count, 2);
	assert_true(found->deadlocks[0].certain && found->deadlocks[0].timed);
	assert_int_equal(found->deadlocks[0].until_ns, 7000);
	assert_false(found->deadlocks[1].certain);
	assert_int_equal(found->deadlocks[1].size, 1);
	assert_int_equal(found->deadlocks[1].until_ns, -1);
	bed_destroy(bed);
}

/* Each was read at a moment of its own: only of those that stood at one of all something follows. */
static void test_moments(void **state _unused_)
{
	static const struct {
		bool first, second;
		size_t deadlocks;
	} rows[] = {
		{ false, false, 0 }, { true, false, 0 }, { false, true, 0 }, { true, true, 2 }
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct bed *bed = bed_create((size_t[]){ 3 }, 1);

		lock(bed, 0, 1, 0x10);
		lock(bed, 1, 0, 0x20);
		lock(bed, 2, 2, 0x30);
		bed->threads[0].taken = SNAP_TAKEN_UNSTOPPED;
		bed->threads[1].taken = SNAP_TAKEN_ALONE;
		bed->threads[2].taken = SNAP_TAKEN_UNSTOPPED;
		bed->threads[0].confirmed = rows[i].first;
		bed->threads[1].confirmed = rows[i].second;
		bed->threads[2].confirmed = rows[i].first && rows[i].second;
		assert_int_equal(find(bed)->deadlock_count, rows[i].deadlocks);
		bed_destroy(bed);
	}
}

/* A reader of a pipe is dead if all who could write are. */
static void test_pipes(void **state _unused_)
{
	struct bed *bed = bed_create((size_t[]){ 2, 2 }, 2);
	const struct snap_waits *found;

	pipe_from(bed, 0, 1);
	pipe_from(bed, 1, 1);
	pipe_from(bed, 2, 0);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 0);
	bed_destroy(bed);
	bed = bed_create((size_t[]){ 2, 2 }, 2);
	pipe_from(bed, 0, 1);
	pipe_from(bed, 1, 1);
	pipe_from(bed, 2, 0);
	lock(bed, 3, 0, 0x10);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 1);
	assert_int_equal(found->deadlocks[0].size, 4);
	assert_int_equal(found->deadlocks[0].threads[0].tid, 100);
	bed_destroy(bed);
	/* A leader that has exited can write nothing. */
	bed = bed_create((size_t[]){ 2 }, 1);
	pipe_from(bed, 0, 0);
	bed->threads[1].state = 'Z';
	found = find(bed);
	assert_int_equal(found->deadlock_count, 1);
	assert_int_equal(found->deadlocks[0].size, 1);
	bed_destroy(bed);
}

static void test_ring(void **state _unused_)
{
	enum { RING = 2000 };
	struct bed *bed = bed_create((size_t[]){ RING + 1 }, 1);
	const struct snap_waits *found;

	for (size_t i = 0; i < RING; i++)
		lock(bed, i, (i + 1) % RING, i + 1);
	lock(bed, RING, 77, 0x9999);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 1);
	assert_int_equal(found->deadlocks[0].size, RING);
	assert_int_equal(found->deadlocks[0].behind, 1);
	assert_int_equal(found->deadlocks[0].thread_count, SNAP_DEADLOCK_SHOWN);
	for (int i = 0; i < SNAP_DEADLOCK_SHOWN; i++)
		assert_int_equal(found->deadlocks[0].threads[i].tid, 100 + i);
	assert_int_equal(found->blocker_count, 0);
	bed_destroy(bed);
}

static void test_many_waiters(void **state _unused_)
{
	struct bed *bed = bed_create((size_t[]){ MOST }, 1);
	const struct snap_waits *found;

	/* Half of them through another lock. */
	for (size_t i = 0; i < MOST - 1; i++)
		lock(bed, i, i && i % 2 ? 0 : MOST - 1, i && i % 2 ? 0x20 : 0x10);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 0);
	assert_int_equal(found->blocker_count, 1);
	assert_int_equal(found->blockers[0].tid, 100 + MOST - 1);
	assert_int_equal(found->blockers[0].blocked, MOST - 1);
	assert_int_equal(found->blockers[0].locks, 2);
	assert_int_equal(found->contended_count, 2);
	bed_destroy(bed);
}

/* Nobody will ever release it, but there is no circle. */
static void test_absent_owner(void **state _unused_)
{
	struct bed *bed = bed_create((size_t[]){ 4 }, 1);
	const struct snap_waits *found;

	for (size_t i = 0; i < 3; i++) {
		struct snap_wait *wait = start_wait(bed, i, SNAP_WAIT_MUTEX, 0x10);

		wait->owner.tid = 4711;
		wait->owner_lack = SNAP_OWNER_EXITED;
		bed->waiters[i].any_known = bed->waiters[i].any_certain = true;
	}
	lock(bed, 3, 0, 0x20);
	found = find(bed);
	assert_int_equal(found->deadlock_count, 0);
	assert_int_equal(found->blocker_count, 1);
	assert_int_equal(found->blockers[0].tid, 4711);
	assert_int_equal(found->blockers[0].lack, SNAP_OWNER_EXITED);
	assert_int_equal(found->blockers[0].blocked, 4);
	assert_true(found->blockers[0].certain);
	/* One that is sure, and waits for ever, is enough. */
	bed->wait[0].confidence = bed->wait[1].confidence = SNAP_WAIT_IS_LIKELY;
	bed->wait[2].timed = true;
	bed->analysis.snapshot->waits = (struct snap_waits){ .asked = true };
	assert_false(find(bed)->blockers[0].certain);
	bed_destroy(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),          cmocka_unit_test(test_kinds_of_certainty),
		cmocka_unit_test(test_moments),      cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_ring),         cmocka_unit_test(test_many_waiters),
		cmocka_unit_test(test_absent_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
