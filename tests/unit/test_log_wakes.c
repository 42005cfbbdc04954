/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When threads of a log have run while they waited: what is kept of that, by how little, in slices
 * and rings, where there is no room; and the same when it was written out again.
 */
#include "log_wait_bed.h"
#include "render/render.h"
#include "store/log/index.h"
#include "store/recording/file.h"

#include <stdio.h>

enum { M = HEAP + 0x100, THREADS = 3 };

struct scene {
	struct bed bed;
	uint32_t threads[THREADS], stack, busy, mutex;
};

/* Three threads of one process that wait for a mutex. */
static void scene_init(struct scene *scene)
{
	struct bed *bed = &scene->bed;
	uint32_t process;

	bed_init(bed);
	bed->log->explains = true;
	bed->log->wakes_end = UINT64_MAX;
	bed_begin(bed);
	process = bed_process(bed, 100, UINT32_MAX, UINT32_MAX);
	scene->stack = BED_STACK(bed, process, "libc:___pthread_mutex_lock", "app:charge_order");
	scene->busy = BED_STACK(bed, process, "app:work");
	scene->mutex = bed_mutex(bed, process, M, 100);
	for (size_t i = 0; i < THREADS; i++) {
		scene->threads[i] = bed_thread(bed, process, 101 + (pid_t)i);
		bed_stand(bed, scene->threads[i], scene->stack, SNAP_STATE_SLEEPING, scene->mutex);
	}
	bed_end(bed);
}

/* A tick a letter, at which the thread has run ('r') or not. */
static void scene_ticks(struct scene *scene, size_t thread, const char *ticks)
{
	for (; *ticks; ticks++) {
		bed_begin(&scene->bed);
		if (*ticks == 'r')
			snap_log_ran(scene->bed.log, scene->threads[thread]);
		bed_end(&scene->bed);
	}
}

static struct snap_recording *analyze(struct scene *scene)
{
	struct snap_recording *recording;

	bed_explain(&scene->bed);
	fine(snap_analyze_log(scene->bed.log, &scene->bed.options, &recording));
	return recording;
}

static void check_wakes(const struct snap_recording *recording, size_t track,
			const struct snap_wake *expected, size_t count)
{
	assert_true(track < recording->track_count);
	assert_int_equal(recording->tracks[track].wake_count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(recording->tracks[track].wakes[i].first, expected[i].first);
		assert_int_equal(recording->tracks[track].wakes[i].last, expected[i].last);
	}
}
#define CHECK_WAKES(recording, track, ...)                                       \
	check_wakes(recording, track, (const struct snap_wake[]){ __VA_ARGS__ }, \
		    SNAP_ARRAY_SIZE(((const struct snap_wake[]){ __VA_ARGS__ })))

/* One wake for each, and three for however many in a row. */
static void test_what_is_kept(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	scene_ticks(&scene, 1, "..r..r...rrrrrrrrrrr..rr");
	assert_int_equal(scene.bed.log->wake_count, 2 + 3 + 2);
	recording = analyze(&scene);
	assert_true(recording->explains);
	assert_int_equal(recording->wakes_end, 25);
	CHECK_WAKES(recording, 1, { 3, 3 }, { 6, 6 }, { 10, 20 }, { 23, 24 });
	assert_int_equal(recording->tracks[0].wake_count, 0);
	/* It stands as it stood. */
	assert_int_equal(recording->tracks[1].run_count, 1);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* Only of who waits; and told twice in a tick it is once. */
static void test_who_waits(void **state _unused_)
{
	struct scene scene;

	scene_init(&scene);
	bed_begin(&scene.bed);
	bed_run(&scene.bed, scene.threads[0], scene.busy);
	snap_log_ran(scene.bed.log, scene.threads[0]);
	snap_log_ran(scene.bed.log, scene.threads[1]);
	snap_log_ran(scene.bed.log, scene.threads[1]);
	bed_end(&scene.bed);
	assert_int_equal(scene.bed.log->wake_count, 1);
	assert_int_equal(scene.bed.log->wakes[0].thread, scene.threads[1]);
	/* One that ran before each tick, and waits for nothing now. */
	scene_ticks(&scene, 1, "r");
	bed_begin(&scene.bed);
	bed_run(&scene.bed, scene.threads[1], scene.busy);
	snap_log_ran(scene.bed.log, scene.threads[1]);
	bed_end(&scene.bed);
	assert_int_equal(scene.bed.log->wake_count, 3);
	assert_int_equal(scene.bed.log->wakes[2].ran, SNAP_LOG_RAN_NOT);
	bed_deinit(&scene.bed);
}

static void test_slice(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	scene_ticks(&scene, 0, "r.rrrrrr.r..r");
	scene.bed.options.from = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 5 * PERIOD };
	scene.bed.options.to = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 12 * PERIOD };
	recording = analyze(&scene);
	assert_int_equal(recording->tick_count, 7);
	CHECK_WAKES(recording, 0, { 0, 3 }, { 5, 5 });
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* What a ring has forgotten goes on; threads that have gone make others be renumbered. */
static void test_ring(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;
	bool renumbered;

	scene_init(&scene);
	scene_ticks(&scene, 2, "rrr");
	bed_begin(&scene.bed);
	snap_log_ran(scene.bed.log, scene.threads[2]);
	fine(snap_log_end_thread(scene.bed.log, scene.threads[0]));
	bed_end(&scene.bed);
	scene_ticks(&scene, 2, "rrrrr");
	fine(snap_log_forget_half(scene.bed.log, &renumbered));
	assert_true(renumbered);
	assert_int_equal(scene.bed.log->wake_count, 0);
	assert_int_equal(snap_log_moved_thread(scene.bed.log, scene.threads[0]), UINT32_MAX);
	scene.threads[2] = snap_log_moved_thread(scene.bed.log, scene.threads[2]);
	scene_ticks(&scene, 2, "r..r");
	assert_int_equal(scene.bed.log->wake_count, 2);
	recording = analyze(&scene);
	assert_int_equal(recording->track_count, 2);
	CHECK_WAKES(recording, 1, { 0, 5 }, { 8, 8 });
	assert_int_equal(recording->tracks[0].wake_count, 0);
	assert_int_equal(recording->wakes_end, recording->tick_count);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* Samples come first: where there is no room, nothing is known from then on, and that is told. */
static void test_no_room(void **state _unused_)
{
	enum { LIMIT = 16 << 10, MOST = LIMIT / 16 / 16 };
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	scene.bed.log->max_bytes = LIMIT;
	for (int i = 0; i < MOST + 10; i++)
		scene_ticks(&scene, 0, "r.");
	assert_int_equal(scene.bed.log->wake_count, MOST);
	assert_true(scene.bed.log->cuts & SNAP_LOG_CUT_WAKES);
	assert_int_equal(scene.bed.log->wakes_end, 1 + 2 * MOST);
	scene.bed.log->max_bytes = 0;
	recording = analyze(&scene);
	assert_int_equal(recording->wakes_end, 1 + 2 * MOST);
	assert_int_equal(recording->tracks[0].wake_count, MOST);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* Where the kernel counts nothing, and in files of earlier formats. */
static void test_unknown(void **state _unused_)
{
	struct snap_recording *recording;
	struct scene scene;

	scene_init(&scene);
	scene.bed.log->wakes_end = 0;
	scene_ticks(&scene, 0, "r.r");
	assert_int_equal(scene.bed.log->wake_count, 0);
	assert_int_equal(scene.bed.log->cuts, 0);
	recording = analyze(&scene);
	assert_int_equal(recording->wakes_end, 0);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
}

/* Whether waits were looked for is known where nobody waited; of old files, where somebody did. */
static void test_looked_for(void **state _unused_)
{
	struct snap_recording *recording;
	struct bed bed;
	uint32_t process, thread;

	for (int i = 0; i < 3; i++) {
		bed_init(&bed);
		bed.log->explains = i > 0;
		if (i == 2)
			bed.options.explain = SNAP_EXPLAIN_NO;
		bed_begin(&bed);
		process = bed_process(&bed, 100, UINT32_MAX, UINT32_MAX);
		thread = bed_thread(&bed, process, 100);
		bed_run(&bed, thread, BED_STACK(&bed, process, "app:work"));
		bed_end(&bed);
		bed_name_all(&bed);
		fine(snap_analyze_log(bed.log, &bed.options, &recording));
		assert_int_equal(recording->explains, i == 1);
		assert_int_equal(recording->wait_count, 0);
		snap_recording_destroy(recording);
		bed_deinit(&bed);
	}
}

/* A log that was made of a recording again. */
static void test_written_again(void **state _unused_)
{
	const struct snap_options options = { .explain = SNAP_EXPLAIN_SURE };
	struct snap_recording *recording, *again;
	struct scene scene;
	struct snap_log *log;
	FILE *file = tmpfile();

	assert_non_null(file);
	scene_init(&scene);
	scene_ticks(&scene, 1, "..r..rrrr");
	scene_ticks(&scene, 2, "r.");
	scene.bed.log->wakes_end = snap_log_tick_at(scene.bed.log);
	scene_ticks(&scene, 2, "r.");
	recording = analyze(&scene);
	fine(snap_render_snaprec(recording, &options, file));
	rewind(file);
	fine(snap_log_read(fileno(file), &log));
	fine(snap_analyze_log(log, &scene.bed.options, &again));
	assert_true(again->explains);
	assert_int_equal(again->wakes_end, 12);
	assert_int_equal(again->tick_count, 14);
	CHECK_WAKES(again, 1, { 3, 3 }, { 6, 9 });
	CHECK_WAKES(again, 2, { 10, 10 });
	snap_log_destroy(log);
	snap_recording_destroy(again);
	snap_recording_destroy(recording);
	bed_deinit(&scene.bed);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_who_waits),
		cmocka_unit_test(test_slice),        cmocka_unit_test(test_ring),
		cmocka_unit_test(test_no_room),      cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_looked_for),   cmocka_unit_test(test_written_again),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
