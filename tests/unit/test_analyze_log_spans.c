/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who has what threads of a recording wait for, from tick to tick: owners that change while nobody
 * wakes, slices and rings of that, filters, and words that lie.
 */
#include "log_wait_bed.h"

enum { M = HEAP + 0x100, N = HEAP + 0x200 };

/* A child of 90, 100, whose thread 103 waits for a mutex that 101 has; 102 is there as well. */
struct scene {
	struct bed bed;
	uint32_t parent, process, threads[3]; /* 101 … */
	uint32_t stack, other_stack, busy, mutex;
};

enum { FIRST, SECOND, WAITER };

static void scene_init(struct scene *scene)
{
	struct bed *bed = &scene->bed;

	bed_init(bed);
	bed_begin(bed);
	scene->parent = bed_process(bed, 90, UINT32_MAX, UINT32_MAX);
	scene->process = bed_process(bed, 100, scene->parent, UINT32_MAX);
	scene->stack =
		BED_STACK(bed, scene->process, "libc:___pthread_mutex_lock", "app:charge_order");
	scene->other_stack =
		BED_STACK(bed, scene->process, "libc:pthread_mutex_timedlock", "app:charge_order");
	scene->busy = BED_STACK(bed, scene->process, "app:work");
	for (size_t i = 0; i < 3; i++)
		scene->threads[i] = bed_thread(bed, scene->process, 101 + (pid_t)i);
	scene->mutex = bed_mutex(bed, scene->process, M, 101);
	bed_run(bed, scene->threads[FIRST], scene->busy);
	bed_run(bed, scene->threads[SECOND], scene->busy);
	bed_stand(bed, scene->threads[WAITER], scene->stack, SNAP_STATE_SLEEPING, scene->mutex);
	bed_end(bed);
}

static void scene_hold(struct scene *scene, uint32_t owner)
{
	bed_begin(&scene->bed);
	bed_hold(&scene->bed, scene->mutex, owner);
	bed_end(&scene->bed);
}

static struct snap_recording *analyze(struct scene *scene)
{
	struct snap_recording *recording;

	bed_explain(&scene->bed);
	fine(snap_analyze_log(scene->bed.log, &scene->bed.options, &recording));
	return recording;
}

static size_t track_of(const struct snap_recording *recording, pid_t tid)
{
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].tid == tid)
			return i;
	return SIZE_MAX;
}

struct expected {
	uint32_t first, last;
	pid_t tid;
	enum snap_owner_lack lack;
};

/* The holds of a wait; KNOWN ones lead to the track of their thread. */
static void check_holds(const struct snap_recording *recording, size_t wait,
			const struct expected *expected, size_t count)
{
	const struct snap_recorded_wait *found = &recording->waits[wait];

	assert_true(wait < recording->wait_count);
	assert_int_equal(found->owner_count, count);
	for (size_t i = 0; i < count; i++) {
		const struct snap_owner_span *hold = &found->owners[i];

		assert_int_equal(hold->first, expected[i].first);
		assert_int_equal(hold->last, expected[i].last);
		assert_int_equal(hold->tid, expected[i].tid);
		assert_string_equal(snap_owner_lack_word(hold->lack),
				    snap_owner_lack_word(expected[i].lack));
		assert_int_equal(hold->track, expected[i].lack == SNAP_OWNER_KNOWN
						      ? track_of(recording, expected[i].tid)
						      : SIZE_MAX);
	}
}
#define CHECK_HOLDS(recording, wait, ...)                                      \
	check_holds(recording, wait, (const struct expected[]){ __VA_ARGS__ }, \
		    SNAP_ARRAY_SIZE(((const struct expected[]){ __VA_ARGS__ })))

static const struct snap_run *run_of(const struct snap_recording *recording, pid_t tid, size_t run)
{
	size_t track = track_of(recording, tid);

	assert_int_not_equal(track, SIZE_MAX);
	assert_true(run < recording->tracks[track].run_count);
	return &recording->tracks[track].runs[run];
}

#define KNOWN SNAP_OWNER_KNOWN

/* ---- time lines ---- */

static void test_owner_changes(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	bed_pass(&scene.bed, 2);
	scene_hold(&scene, 102);
	scene_hold(&scene, 0);
	scene_hold(&scene, 101);
	bed_pass(&scene.bed, 1);
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	assert_true(recording->explains);
	assert_int_equal(recording->wait_count, 1);
	assert_int_equal(recording->waits[0].process, 0);
	assert_int_equal(recording->waits[0].wait->kind, SNAP_WAIT_MUTEX);
	assert_int_equal(recording->waits[0].wait->address, M);
	assert_false(recording->waits[0].wait->has_owner);
	CHECK_HOLDS(recording, 0, { 0, 2, 101, KNOWN }, { 3, 3, 102, KNOWN },
		    { 4, 4, 0, SNAP_OWNER_CHANGING }, { 5, 6, 101, KNOWN });
	/* The one that waits has not moved. */
	assert_int_equal(recording->tracks[track_of(recording, 103)].run_count, 1);
	assert_int_equal(run_of(recording, 103, 0)->wait, 1);
	assert_int_equal(run_of(recording, 101, 0)->wait, 0);
	snap_recording_destroy(recording);
}

static void test_slice(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	bed_pass(&scene.bed, 2);
	scene_hold(&scene, 102);
	bed_pass(&scene.bed, 2);
	scene_hold(&scene, 101);
	bed_pass(&scene.bed, 2);
	scene.bed.options.from = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 2 * PERIOD };
	scene.bed.options.to = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 7 * PERIOD };
	recording = analyze(&scene);
	assert_int_equal(recording->tick_count, 5);
	CHECK_HOLDS(recording, 0, { 0, 0, 101, KNOWN }, { 1, 3, 102, KNOWN }, { 4, 4, 101, KNOWN });
	snap_recording_destroy(recording);

	/* Nothing happens in it. */
	scene.bed.options.from.ns = 4 * PERIOD;
	scene.bed.options.to.ns = 6 * PERIOD;
	recording = analyze(&scene);
	CHECK_HOLDS(recording, 0, { 0, 1, 102, KNOWN });
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

static void test_ring(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	bool renumbered;

	scene_init(&scene);
	bed_pass(&scene.bed, 5);
	scene_hold(&scene, 102);
	bed_pass(&scene.bed, 5);
	scene_hold(&scene, 101);
	bed_pass(&scene.bed, 2);
	/* The hold of the second one is behind. */
	fine(snap_log_forget(scene.bed.log, 9 * PERIOD, &renumbered));
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	assert_true(recording->is_slice);
	CHECK_HOLDS(recording, 0, { 0, 2, 102, KNOWN }, { 3, 5, 101, KNOWN });
	snap_recording_destroy(recording);
}

/* The owner ends, and its number is given to another thread. */
static void test_owner_ends(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	uint32_t again;

	scene_init(&scene);
	bed_pass(&scene.bed, 1);
	bed_begin(&scene.bed);
	fine(snap_log_end_thread(scene.bed.log, scene.threads[FIRST]));
	bed_end(&scene.bed);
	bed_pass(&scene.bed, 1);
	bed_begin(&scene.bed);
	again = bed_thread(&scene.bed, scene.process, 101);
	bed_run(&scene.bed, again, scene.busy);
	bed_end(&scene.bed);
	scene_hold(&scene, 102);
	scene_hold(&scene, 101);
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	assert_int_equal(recording->waits[0].owner_count, 4);
	assert_int_equal(recording->waits[0].owners[0].track, 0);
	assert_int_equal(recording->waits[0].owners[0].last, 1);
	assert_int_equal(recording->waits[0].owners[1].lack, SNAP_OWNER_EXITED);
	assert_int_equal(recording->waits[0].owners[1].tid, 101);
	assert_int_equal(recording->waits[0].owners[1].track, SIZE_MAX);
	assert_int_equal(recording->waits[0].owners[1].last, 4);
	/* Tracks of one number are in the order of their time. */
	assert_int_equal(recording->waits[0].owners[3].track, 1);
	assert_int_equal(recording->waits[0].owners[3].lack, KNOWN);
	snap_recording_destroy(recording);
}

/* Two ways to wait for a lock have words each; those of the one that is waited with count. */
static void test_two_objects(void **state _unused_)
{
	struct snap_recording *recording;
	struct bed_words words;
	struct scene scene;
	uint32_t timed;

	scene_init(&scene);
	bed_begin(&scene.bed);
	timed = bed_futex(&scene.bed, scene.process, M, FUTEX_BITSET_PRIVATE, 2,
			  bed_mutex_words(&words, M, 102, 0));
	bed_stand(&scene.bed, scene.threads[FIRST], scene.other_stack, SNAP_STATE_SLEEPING, timed);
	bed_end(&scene.bed);
	/* It has come back to the first one, whose words were not seen to change. */
	bed_begin(&scene.bed);
	bed_run(&scene.bed, scene.threads[FIRST], scene.busy);
	bed_end(&scene.bed);
	bed_pass(&scene.bed, 1);
	/* What nobody waits with says nothing. */
	bed_begin(&scene.bed);
	bed_hold(&scene.bed, timed, 102);
	bed_end(&scene.bed);
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	assert_int_equal(recording->wait_count, 1);
	assert_int_equal(run_of(recording, 103, 0)->wait, 1);
	assert_int_equal(run_of(recording, 101, 1)->wait, 1);
	CHECK_HOLDS(recording, 0, { 0, 0, 101, KNOWN }, { 1, 1, 102, KNOWN }, { 2, 4, 101, KNOWN });
	snap_recording_destroy(recording);
}

/* ---- what is shown ---- */

static void test_filters(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	bed_pass(&scene.bed, 1);
	scene.bed.options.states = 1u << SNAP_STATE_SLEEPING;
	recording = analyze(&scene);
	assert_int_equal(recording->track_count, 1);
	assert_int_equal(recording->waits[0].owner_count, 1);
	assert_int_equal(recording->waits[0].owners[0].track, SIZE_MAX);
	assert_int_equal(recording->waits[0].owners[0].tid, 101);
	assert_int_equal(recording->waits[0].owners[0].lack, KNOWN);
	snap_recording_destroy(recording);

	/* Who waits is not shown. */
	scene.bed.options.states = 1u << SNAP_STATE_RUNNING;
	recording = analyze(&scene);
	assert_true(recording->explains);
	assert_int_equal(recording->wait_count, 0);
	snap_recording_destroy(recording);

	scene.bed.options.states = 0;
	scene.bed.options.explain = SNAP_EXPLAIN_NO;
	recording = analyze(&scene);
	assert_false(recording->explains);
	assert_int_equal(recording->wait_count, 0);
	assert_int_equal(run_of(recording, 103, 0)->wait, 0);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* By process, then kind and object; equal ones of two processes are two. */
static void test_order(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	uint32_t process, stack, condition, thread, mutex;
	struct bed *bed = &scene.bed;

	scene_init(&scene);
	bed_begin(bed);
	condition = BED_STACK(bed, scene.process, "libc:pthread_cond_wait", "app:idle");
	bed_stand(bed, scene.threads[FIRST], condition, SNAP_STATE_SLEEPING,
		  bed_futex(bed, scene.process, N + 40, FUTEX_BITSET_PRIVATE, 0, NULL));
	process = bed_process(bed, 200, UINT32_MAX, UINT32_MAX);
	stack = BED_STACK(bed, process, "libc:___pthread_mutex_lock", "app:charge_order");
	thread = bed_thread(bed, process, 201);
	mutex = bed_mutex(bed, process, N, 101); /* no thread of this process */
	bed_stand(bed, thread, stack, SNAP_STATE_SLEEPING, mutex);
	bed_end(bed);
	bed_begin(bed);
	bed_stand(bed, thread, stack, SNAP_STATE_SLEEPING, bed_mutex(bed, process, M, 201));
	bed_end(bed);
	recording = analyze(&scene);
	bed_deinit(bed);
	assert_int_equal(recording->wait_count, 4);
	assert_int_equal(recording->waits[0].wait->kind, SNAP_WAIT_MUTEX);
	assert_int_equal(recording->waits[1].wait->kind, SNAP_WAIT_CONDITION);
	assert_int_equal(recording->waits[1].owner_count, 0);
	assert_int_equal(recording->waits[2].process, 1);
	assert_int_equal(recording->waits[2].wait->address, M);
	/* It waits for itself, and is said to. */
	CHECK_HOLDS(recording, 2, { 2, 2, 201, KNOWN });
	assert_int_equal(recording->waits[3].wait->address, N);
	CHECK_HOLDS(recording, 3, { 1, 2, 101, SNAP_OWNER_NOT_SEEN });
	assert_int_equal(run_of(recording, 201, 0)->wait, 4);
	assert_int_equal(run_of(recording, 201, 1)->wait, 3);
	assert_int_equal(run_of(recording, 101, 1)->wait, 2);
	snap_recording_destroy(recording);
}

/* A pair that nobody has explained, and one of which nothing is known. */
static void test_unknown(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	bed_name_all(&scene.bed);
	fine(snap_analyze_log(scene.bed.log, &scene.bed.options, &recording));
	assert_true(recording->explains);
	assert_int_equal(recording->wait_count, 0);
	assert_int_equal(run_of(recording, 103, 0)->wait, 0);
	snap_recording_destroy(recording);
	fine(snap_log_explain(scene.bed.log, scene.stack, scene.mutex, NULL));
	recording = analyze(&scene);
	assert_int_equal(recording->wait_count, 0);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* What goes on as another program waits for things of its own, with the same numbers. */
static void test_exec(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	struct bed *bed = &scene.bed;
	uint32_t after, thread, stack;

	scene_init(&scene);
	bed_pass(bed, 1);
	bed_begin(bed);
	for (size_t i = 0; i < 3; i++)
		fine(snap_log_end_thread(bed->log, scene.threads[i]));
	after = bed_process(bed, 100, scene.parent, scene.process);
	stack = BED_STACK(bed, after, "libc:___pthread_mutex_lock", "app:charge_order");
	thread = bed_thread(bed, after, 100);
	bed_stand(bed, thread, stack, SNAP_STATE_SLEEPING, bed_mutex(bed, after, M, 101));
	bed_end(bed);
	recording = analyze(&scene);
	bed_deinit(bed);
	assert_int_equal(recording->wait_count, 2);
	assert_int_equal(recording->waits[0].process, 0);
	CHECK_HOLDS(recording, 0, { 0, 1, 101, KNOWN }, { 2, 2, 101, SNAP_OWNER_EXITED });
	assert_int_equal(recording->waits[1].process, 1);
	CHECK_HOLDS(recording, 1, { 2, 2, 101, SNAP_OWNER_NOT_SEEN });
	snap_recording_destroy(recording);
}

/* ---- words that lie ---- */

static void test_lies(void **state _unused_)
{
	static const struct {
		uint32_t owner;
		pid_t tid;
		enum snap_owner_lack lack;
	} rows[] = {
		{ 0, 0, SNAP_OWNER_CHANGING },
		{ 103, 103, KNOWN }, /* itself */
		{ 333, 333, SNAP_OWNER_NOT_SEEN },
		{ 100, 100,
		  SNAP_OWNER_NOT_SEEN }, /* its process, of which no thread has that number */
		{ 201, 201, SNAP_OWNER_NOT_SEEN }, /* of another process */
		{ 91, 91, SNAP_OWNER_AT_FORK },    /* of its parent */
		{ 0x7ffffffe, 0, SNAP_OWNER_DIED },
		{ 0x7fffffff, 0, SNAP_OWNER_DIED },
		{ 0x80000065, 0, SNAP_OWNER_UNREADABLE },
		{ UINT32_MAX, 0, SNAP_OWNER_UNREADABLE },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_recording *recording;
		struct scene scene;
		uint32_t other;

		scene_init(&scene);
		bed_begin(&scene.bed);
		other = bed_process(&scene.bed, 200, UINT32_MAX, UINT32_MAX);
		bed_run(&scene.bed, bed_thread(&scene.bed, scene.parent, 91),
			BED_STACK(&scene.bed, scene.parent, "app:work"));
		bed_run(&scene.bed, bed_thread(&scene.bed, other, 201),
			BED_STACK(&scene.bed, other, "app:work"));
		bed_hold(&scene.bed, scene.mutex, rows[i].owner);
		bed_end(&scene.bed);
		recording = analyze(&scene);
		CHECK_HOLDS(recording, 0, { 0, 0, 101, KNOWN },
			    { 1, 1, rows[i].tid, rows[i].lack });
		snap_recording_destroy(recording);
		bed_deinit(&scene.bed);
	}
}

/* In shared memory a number is a thread of whoever maps it. */
static void test_shared(void **state _unused_)
{
	enum { S = SHARED + 0x100, FUTEX_WAIT_SHARED = 0, MUTEX_SHARED = 0x80 };
	static const struct {
		uint32_t owner;
		enum snap_owner_lack lack;
	} rows[] = {
		{ 101, KNOWN }, { 201, KNOWN }, { 91, SNAP_OWNER_NOT_SEEN }, /* the parent's */
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_recording *recording;
		struct bed_words words;
		struct scene scene;
		struct bed *bed = &scene.bed;
		uint32_t other, parent, object;

		scene_init(&scene);
		bed_begin(bed);
		other = bed_process(bed, 200, scene.parent, UINT32_MAX);
		bed_run(bed, bed_thread(bed, other, 201), BED_STACK(bed, other, "app:work"));
		parent = bed_thread(bed, scene.parent, 91);
		bed_run(bed, parent, BED_STACK(bed, scene.parent, "app:work"));
		/* It has no such mapping. */
		for (size_t k = 0; k < bed->log->capture->processes[0].map_count; k++)
			bed->log->capture->processes[0].maps[k].shared = false;
		object = bed_futex(bed, scene.process, S, FUTEX_WAIT_SHARED, 2,
				   bed_mutex_words(&words, S, rows[i].owner, MUTEX_SHARED));
		bed_stand(bed, scene.threads[WAITER], scene.stack, SNAP_STATE_SLEEPING, object);
		bed_end(bed);
		recording = analyze(&scene);
		bed_deinit(bed);
		assert_int_equal(recording->wait_count, 2);
		assert_string_equal(recording->waits[1].wait->module, "/dev/shm/x");
		CHECK_HOLDS(recording, 1, { 1, 1, (pid_t)rows[i].owner, rows[i].lack });
		snap_recording_destroy(recording);
	}
}

/* Words that do not hold the owner's, that cannot be read, and that come later than the wait. */
static void test_words_that_lack_it(void **state _unused_)
{
	static const uint32_t one = 2;
	struct snap_recording *recording;
	struct bed_words words;
	struct scene scene;

	scene_init(&scene);
	bed_begin(&scene.bed);
	fine(snap_log_set_owner(scene.bed.log, scene.mutex,
				bed_words(&words, M, &one, sizeof(one))));
	bed_end(&scene.bed);
	bed_begin(&scene.bed);
	fine(snap_log_set_owner(scene.bed.log, scene.mutex, NULL));
	bed_end(&scene.bed);
	scene_hold(&scene, 102);
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	CHECK_HOLDS(recording, 0, { 0, 0, 101, KNOWN }, { 1, 2, 0, SNAP_OWNER_UNREADABLE },
		    { 3, 3, 102, KNOWN });
	snap_recording_destroy(recording);
}

/* A thread that was not sampled yet when it took the lock, or never. */
static void test_late_owner(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	uint32_t late;

	scene_init(&scene);
	scene_hold(&scene, 104);
	bed_begin(&scene.bed);
	late = bed_thread(&scene.bed, scene.process, 104);
	bed_thread(&scene.bed, scene.process, 105);
	bed_run(&scene.bed, late, scene.busy);
	bed_end(&scene.bed);
	scene_hold(&scene, 105);
	recording = analyze(&scene);
	bed_deinit(&scene.bed);
	assert_int_equal(track_of(recording, 105), SIZE_MAX);
	CHECK_HOLDS(recording, 0, { 0, 0, 101, KNOWN }, { 1, 2, 104, KNOWN }, { 3, 3, 105, KNOWN });
	snap_recording_destroy(recording);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_owner_changes), cmocka_unit_test(test_slice),
		cmocka_unit_test(test_ring),          cmocka_unit_test(test_owner_ends),
		cmocka_unit_test(test_two_objects),   cmocka_unit_test(test_filters),
		cmocka_unit_test(test_order),         cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_exec),          cmocka_unit_test(test_lies),
		cmocka_unit_test(test_shared),        cmocka_unit_test(test_words_that_lack_it),
		cmocka_unit_test(test_late_owner),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
